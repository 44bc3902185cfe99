/* volume.h - a volume that lives in an object store alone: opening, committing, checkpoints, gc.
 *
 * It joins the map (map.h), the engine (engine.h) and the store (src/object). One thread owns a
 * volume and drives it with volume_run; nothing here blocks except the calls that say so. The store
 * may be a threaded one (object_threaded_open), so that transfers do not hold up the owner's loop.
 *
 * The order of a commit: packs, then log/SEQ if-absent (the linearisation point), then it counts.
 * One log PUT is in flight at a time, so commits are durable in order. A lost reply is settled by
 * reading SEQ back: ours (same term and bytes) is success, another's means that we are fenced.
 *
 * Ownership: `head` holds {term, owner, checkpoint}. A new owner reads head, writes head with
 * term + 1 by if-match, replays log/SEQ from the checkpoint on until one is missing, and writes the
 * next one as its fence (LOGOBJ_FENCE): the old owner's next commit then meets an object that is
 * there, and it stops with ERR_STALE. Fence objects are never deleted, so this holds for however
 * long the old owner slept; the map notes their seqs under 'F', so that gc knows them. After its
 * fence the new owner reads head once more: were it another's by then, the end of the log that it
 * saw may have been a gap that the other's gc made.
 *
 * Snapshots: head lists them, and the runs of each lie in an object of its own under a key that is
 * used once; so they come and go with a write of head, which an owner that was fenced cannot do.
 *
 * A checkpoint: the table is written as a run, then head by if-match with the new list of runs and
 * its seq. It is taken only at a commit's edge, so it never holds what is not durable. Log objects
 * at or before it are no longer replayed.
 *
 * Life and death of objects: a pack is born with the commit that first refers to it and dead with
 * the one that takes its last reference away. It is deleted when no snapshot and no pin lies in
 * [born, dead). An upload that no commit refers to is deleted only when its term is over. Runs are
 * deleted when neither head nor a snapshot nor a pin names them. Log objects: behind the
 * checkpoint, with no live inline data, no fence, and no snapshot or pin in between. While a reader
 * is opening that has pinned but not yet settled on a state, nothing is deleted at all.
 */
#ifndef VOLUME_VOLUME_H
#define VOLUME_VOLUME_H

#include "base/err.h"
#include "base/str.h"
#include "object/object.h"
#include "volume/container.h"
#include "volume/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct volume;

struct volume_format { /* fixed for the life of a volume */
    uint8_t uuid[16];
    uint32_t version;
    uint32_t pack_bytes;
    int zstd_level; /* 0: plain */
    int64_t created_unix_ms;
};

/* Makes an empty volume where there is none (ERR_EXISTS). options: uuid zero: random; pack_bytes
 * 0: the default. Blocking. */
MUST_USE enum err_code volume_format_write(struct object_store *store,
                                           const struct volume_format *options,
                                           const struct engine_caller *caller, struct err *err);
/* ERR_NOT_FOUND: no volume there. ERR_UNSUPPORTED: of a newer version. Blocking. */
MUST_USE enum err_code volume_format_read(struct object_store *store, struct volume_format *out,
                                          struct err *err);

enum volume_role {
    VOLUME_OWNER,  /* reads and writes */
    VOLUME_READER, /* a frozen view: of a snapshot, or of what was committed when it was opened */
};

struct volume_options {
    enum volume_role role;
    const char *snapshot;     /* READER: its name; NULL: the present */
    const char *owner;        /* OWNER: who, for people: "host:pid, mounted at /mnt" */
    bool take_over;           /* OWNER: even if head names an owner that has not left */
    const char *locks;        /* OWNER: a folder of this machine where owners hold a lock while they
                               * live, so that one that a reboot ended is known to be gone; made if
                               * missing; NULL: none */
    size_t table_bytes;       /* a checkpoint is due at this size; 0: 32 MiB */
    size_t block_cache_bytes; /* 0: 64 MiB */
    size_t in_flight_bytes;   /* packs not yet stored, at most, about; 0: 192 MiB */
    int64_t (*now_unix_ms)(void *context); /* NULL: the clock */
    void *context;
};

/* Opens; the store becomes the volume's on success. Blocking. ERR_DENIED: it has an owner (the text
 * says who and since when) and take_over is not set. ERR_STALE: two took it at once and the other
 * won. A READER writes a pin object and renews it in volume_tick. */
MUST_USE enum err_code volume_open(struct object_store *store, const struct volume_options *options,
                                   struct volume **out, struct err *err);
/* OWNER: commits what is pending, takes a checkpoint if one is worth it, and leaves `head` without
 * an owner; READER: removes the pin. The volume is gone whatever is returned. Blocking. */
enum err_code volume_close(struct volume *volume, struct err *err);
/* Gone at once, as a crash would do it (tests; a fenced owner). */
void volume_abandon(struct volume *volume);

/* Repairing. ----------------------------------------------------------------------------------- */
/* A store that has lost or damaged an object of the log that is still to be replayed leaves a
 * volume that cannot be opened (ERR_CORRUPT). Repairing it goes back to the commit before that one.
 * Snapshots stay. What is cut off is copied to lost/TERM/log/SEQ, which drover never looks at
 * again; packs that only it refers to are garbage from then on. */
enum volume_log_state { VOLUME_LOG_WHOLE, VOLUME_LOG_MISSING, VOLUME_LOG_DAMAGED };
struct volume_repair_report {
    enum volume_log_state log;
    uint64_t seq;         /* that is missing or damaged; all before it is kept */
    struct err why;       /* in words */
    uint64_t later;       /* commits behind it that are there, fences not counted: cut off */
    uint64_t later_bytes; /* of their log objects */
    char owner[320];      /* looking: who owns it and may live; "": nobody */
    uint32_t term;        /* repairing: the copies are in lost/TERM (8 digits, hexadecimal) */
    uint64_t copies;      /* the same: how many */
};
/* Says what is wrong and writes nothing at all. options: locks. Blocking. ERR_AGAIN: an owner
 * changes the volume all the time. */
MUST_USE enum err_code volume_repair_look(struct object_store *store,
                                          const struct volume_options *options,
                                          struct volume_repair_report *report, struct err *err);
/* Takes the volume as volume_open does, repairs it if its log is not whole, and leaves it.
 * Blocking. The errors of volume_open. On failure, and after a crash at any moment, the volume is
 * repaired or is as much in need of it as before: then this can be called again. The store stays
 * the caller's.
 */
MUST_USE enum err_code volume_repair(struct object_store *store,
                                     const struct volume_options *options,
                                     struct volume_repair_report *report, struct err *err);

struct engine *volume_engine(struct volume *volume);
const struct volume_format *volume_format(const struct volume *volume);
struct object_store *volume_store(struct volume *volume); /* for reads by the owner's thread */

/* Driving. ------------------------------------------------------------------------------------- */
int volume_fd(struct volume *volume);                /* readable: call volume_run */
void volume_run(struct volume *volume, int wait_ms); /* handles what has ended */
void volume_tick(
    struct volume *volume,
    int64_t now_mono_ms); /* every 100 ms or so: starts what is
                           * due in the background: commits older than a second, checkpoints,
                           * merges, moving of inline data, rewriting of packs, gc, pins */
/* An operation of the engine has just returned ERR_AGAIN: fetches what it needs. It is worth
 * calling it again when volume_progress has changed; not if volume_trouble says ERR_CORRUPT right
 * after this: what it needs is damaged. */
void volume_want(struct volume *volume);
uint64_t volume_progress(const struct volume *volume);
/* Once the volume is fenced, or the store has failed for good, everything that needs it fails with
 * this. ERR_OK: it is well. A store that is merely away (full, out of reach, or refusing us:
 * whatever may pass) is retried for ever, and volume_trouble says what it said last (ERR_AGAIN),
 * until it is back. ERR_CORRUPT: metadata that the latest volume_want asked for cannot be read;
 * commits go on, and so does whatever needs other blocks. */
enum err_code volume_trouble(const struct volume *volume, struct err *err);

/* Committing. ---------------------------------------------------------------------------------- */
/* Where bytes of a file will lie: 1 to EXTENT_BYTES_MAX of them, copied. inlined: in the next log
 * object if they are few (EXTENT_INLINE_MAX) and it has room; else in the pack being filled. *out
 * is for engine_write, now or much later; commits may come in between. */
void volume_place(struct volume *volume, uint64_t inode, uint64_t file_offset, const void *data,
                  size_t size, bool inlined, struct extent *out);
/* Extents that volume_place gave have been passed to engine_write, or never will be. Until this is
 * said of each, once, the container that it lies in is not deleted by this owner, dead or not. */
void volume_written(struct volume *volume, const struct extent *extents, size_t count);
/* The stored bytes of an extent that is not in the store yet; NULL: it is there (or unknown). Valid
 * until volume_run or volume_place. */
const void *volume_young(const struct volume *volume, const struct extent *extent);
bool volume_is_congested(const struct volume *volume); /* place no more before volume_run */

uint64_t volume_seq_next(const struct volume *volume);    /* changes made now will be in this one */
uint64_t volume_seq_durable(const struct volume *volume); /* all up to this one are stored */
/* Starts one now if anything is pending, or as soon as the one in flight has ended. Returns the seq
 * that holds everything so far: it is stored once volume_seq_durable has reached that. */
uint64_t volume_commit(struct volume *volume);
/* Blocking until everything so far is stored. */
MUST_USE enum err_code volume_sync(struct volume *volume, struct err *err);

/* Maintenance; each blocks until it is done (the mount uses volume_tick instead). ----------------
 */
MUST_USE enum err_code volume_checkpoint(struct volume *volume, struct err *err);
/* Names: 1 to 200 of [A-Za-z0-9._-], not beginning with '.' or '-'. ERR_EXISTS. */
MUST_USE enum err_code volume_snapshot(struct volume *volume, const char *name, struct err *err);
MUST_USE enum err_code volume_snapshot_delete(struct volume *volume, const char *name,
                                              struct err *err);
struct volume_snapshot_info {
    char name[201];
    uint64_t seq;
    int64_t created_unix_ms;
    uint64_t files, bytes;
};
/* With or without an open volume. */
MUST_USE enum err_code volume_snapshots(struct object_store *store,
                                        bool (*each)(void *context,
                                                     const struct volume_snapshot_info *info),
                                        void *context, struct err *err);
/* Rewrites packs of which less than half is alive and moves inline data into packs, up to
 * budget_bytes of reading (0: no bound). */
MUST_USE enum err_code volume_compact(struct volume *volume, uint64_t budget_bytes,
                                      struct err *err);
struct volume_gc_report {
    uint64_t objects, bytes;         /* deleted (or that would be) */
    uint64_t packs_kept, bytes_kept; /* alive */
    uint64_t dead_bytes_kept;        /* in packs that are kept: dead but not yet worth moving, or
                                      * held by snapshots and pins */
};
MUST_USE enum err_code volume_gc(struct volume *volume, bool dry_run,
                                 struct volume_gc_report *report, struct err *err);
/* One of these in words, as whoever talks to an owner asks for it: "snapshot NAME",
 * "snapshot-delete NAME", "gc", "gc-dry-run", "compact", "checkpoint", "sync". It is carried out
 * while the owner goes on with other work. ERR_UNSUPPORTED: no such order. */
struct volume_order;
MUST_USE enum err_code volume_order_begin(struct volume *volume, const char *words,
                                          struct volume_order **out, struct err *err);
/* ERR_AGAIN: not done; ask again when volume_progress has changed. Then what there is to say is
 * added to `said`. */
MUST_USE enum err_code volume_order_go_on(struct volume_order *order, struct str *said,
                                          struct err *err);
/* NULL: nothing. One that has not ended goes on as far as it must, and nobody learns of it. */
void volume_order_drop(struct volume_order *order);
/* Merges all runs (fsck, tests). */
MUST_USE enum err_code volume_merge(struct volume *volume, struct err *err);

/* Packs that others upload for themselves: those of each of these writers from number `floor` on
 * may be referred to by what is still to come, so gc lets them be. Replaces the list there was. */
struct volume_writer {
    uint32_t writer, term;
    uint64_t floor;
};
void volume_set_writers(struct volume *volume, const struct volume_writer *writers, size_t count);
uint32_t volume_term(const struct volume *volume); /* OWNER: of this ownership */

struct volume_stats {
    uint64_t commits, checkpoints, merges, packs, packs_rewritten;
    uint64_t inline_bytes, pack_bytes;
    struct object_stats store;
};
void volume_stats(const struct volume *volume, struct volume_stats *out);

/* Blocking use of the engine: calls op until it no longer says ERR_AGAIN, fetching what it needs.
 */
typedef enum err_code (*volume_op_fn)(void *context, struct err *err);
MUST_USE enum err_code volume_do(struct volume *volume, volume_op_fn op, void *context,
                                 struct err *err);

#endif
