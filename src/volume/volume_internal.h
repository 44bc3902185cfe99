/* volume_internal.h - what the files of volume*.c share. Only they include it.
 *
 * A volume is a set of small state machines over one store. Each has a part of struct volume of its
 * own, starts calls, and is told of their end by `then`; volume_advance lets each go on as far as
 * it can. `then` is called inside object_run, so it only notes what came and lets machines go on.
 *
 *   calls       every request, tried again for ever with back-off while the store is away
 *   packs       packs that are sealed and not yet stored, or not yet named by a commit
 *   commit      one log object at a time
 *   head        one write of head at a time
 *   fetch       blocks that the map's operations wait for
 *   checkpoint  frozen table → run → head
 *   merge, compact, gc    in the background, or driven to their end by the blocking calls
 *   pin         a reader's
 */
#ifndef VOLUME_VOLUME_INTERNAL_H
#define VOLUME_VOLUME_INTERNAL_H

#include "base/rng.h"
#include "object/object.h"
#include "volume/engine.h"
#include "volume/logobj.h"
#include "volume/map.h"
#include "volume/pack.h"
#include "volume/volume.h"
#include "volume/volume_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    VOLUME_INLINE_BYTES = 4 << 20,   /* of data in one log object */
    VOLUME_COMMIT_BYTES = 8 << 20,   /* of pending changes: commit without waiting for more */
    VOLUME_PENDING_BYTES = 24 << 20, /* of pending changes: congested */
    VOLUME_LOGS_MAX = 512,           /* commits since the checkpoint: another is due */
    VOLUME_WANTS_MAX = 32,           /* blocks being fetched at once */
    VOLUME_DAMAGES_MAX = 32,         /* damaged ones that are remembered */
    VOLUME_MERGE_SLICE_MS = 10,
    VOLUME_COMMIT_AGE_MS = 1000,
    VOLUME_IDLE_MS = 20 * 1000,    /* without changes: time to tidy up */
    VOLUME_BUSY_MS = 120 * 1000,   /* and at least this often where there is never such a while */
    VOLUME_BUSY_BYTES = 256 << 20, /* read for it then, at most */
    VOLUME_GC_MS = 10 * 60 * 1000,
    VOLUME_PIN_MS = 10 * 60 * 1000,
    VOLUME_PIN_RENEW_MS = 60 * 1000,
    VOLUME_PIN_GRACE_MS = 5 * 60 * 1000, /* clocks of other hosts may be wrong by this */
    VOLUME_ROUND_BYTES = 32 << 20,       /* that compaction holds in memory, about */
};

/* One request. Allocated by volume_call_create, freed after its `then`. */
struct volume_call {
    struct object_call call;
    struct volume *volume;
    struct volume_call *next; /* in the line of those to be started again */
    char key[VOLUME_SNAP_KEY_MAX];
    void (*then)(struct volume_call *call);
    void *context;        /* the starter's own */
    uint64_t number;      /* the same */
    struct map_want want; /* the same */
    int tries;
    int64_t due_mono_ms;
};

struct young_pack {
    struct young_pack *next;
    struct container container;
    struct str bytes; /* released once stored */
    uint64_t data_size;
    bool stored;
    bool joined;     /* a commit names it */
    bool background; /* made by compaction: joins when its extents are moved */
};

struct volume_packs {
    struct packer *packer; /* being filled; NULL: none */
    struct container container;
    struct young_pack *first, **last;
    uint64_t next_number;
    uint64_t bytes; /* sealed and not yet stored */
};

/* Containers with extents that volume_place gave and volume_written has not yet spoken of. */
struct volume_placed {
    struct placed_container {
        struct container container;
        uint64_t extents;
    } * items; /* sorted */
    size_t count, cap;
};

struct volume_commit {
    uint64_t durable, next;
    uint32_t last_term;     /* of the one that was replayed last; 0: none yet */
    struct str inline_data; /* of log/next */
    bool active;
    bool sent;
    bool wanted;        /* another one when this one has ended, even an empty one */
    uint64_t pack_mark; /* waits for packs with numbers up to this */
    struct str object;
};

struct volume_headkeeper {
    struct volume_head now; /* as it is to be written next; its view is what is stored of the map */
    struct volume_view stored; /* the view of the head in the store */
    uint64_t stored_change;
    char etag[OBJECT_ETAG_MAX];
    bool dirty, writing;
    uint64_t writing_change;
    struct volume_view writing_view;
    struct str bytes;
};

struct volume_damage { /* a block that came damaged */
    struct container run;
    uint64_t offset;
    int64_t when_ms;
    struct err err;
};

struct volume_fetch {
    struct map_want wants[VOLUME_WANTS_MAX]; /* in flight; size 0: free */
    int tries[VOLUME_WANTS_MAX];
    struct volume_damage damages[VOLUME_DAMAGES_MAX]; /* the latest, round and round */
    size_t next_damage;
};

enum checkpoint_state {
    CHECKPOINT_IDLE,
    CHECKPOINT_WANTED,  /* at the next edge of a commit */
    CHECKPOINT_FROZEN,  /* until that commit is durable */
    CHECKPOINT_WRITING, /* into memory, a few milliseconds at a time */
    CHECKPOINT_STORING,
    CHECKPOINT_HEAD, /* until head names the new run */
};

struct volume_checkpointer {
    enum checkpoint_state state;
    uint64_t seq;
    uint64_t change;           /* of head */
    struct engine_usage usage; /* of the state at seq */
    struct map_run run;
    struct str object;
};

struct volume_merger {
    struct map_merge *merge; /* NULL: none */
    bool storing;
    bool has_more; /* it can go on at once */
    int fetching;
    struct map_run run;
    struct str object;
    uint64_t change;            /* of head, that names the results; 0: no merge has ended */
    int64_t not_before_mono_ms; /* after damage */
    struct err err;             /* why the last one was given up */
};

struct volume_tick_state {
    bool is_gc_owed;   /* compaction was begun: what it leaves is to be collected */
    int64_t tidied_ms; /* when compaction was last begun, or the volume was opened */
    int64_t now_mono_ms;
    int64_t pending_since_ms;
    int64_t changed_ms;   /* when the newest change was seen */
    int64_t gc_ms;        /* when the last one began */
    uint64_t gc_seq;      /* durable then */
    uint64_t compact_seq; /* next, when compaction last found nothing more to do */
    uint64_t seen_seq;
};

struct volume_pinner {
    char key[64];
    char etag[OBJECT_ETAG_MAX];
    struct volume_pin pin;
    int64_t stored_expires_unix_ms;
    bool writing;
    struct str bytes;
};

struct volume_snapshotter {
    bool active;  /* runs must stay as they are */
    bool storing; /* the bytes */
    struct str bytes;
};

struct volume_gc;
struct volume_compact;

struct volume_lock { /* of an owner; empty: it has none */
    int fd;
    char *path;
};

struct volume {
    struct object_store *store;
    enum volume_role role;
    struct volume_format format;
    struct map *map;
    struct engine *engine;
    size_t table_bytes, in_flight_bytes;
    int64_t (*now_unix_ms)(void *context);
    void *now_context;
    struct rng rng; /* of the back-off */
    bool gone;      /* being destroyed: calls that end are only freed */
    struct volume_lock lock;

    struct err failed;  /* for good */
    struct err damaged; /* a block that the latest volume_want asked for cannot be had */
    struct err away;    /* what the store said last, while it is away */
    struct volume_call *waiting;
    size_t calls; /* in flight or waiting */
    uint64_t progress;
    struct volume_stats stats;

    uint64_t next_run; /* the number of the next run */
    struct volume_packs packs;
    struct volume_placed placed;
    struct volume_commit commit;
    struct volume_headkeeper head;
    struct volume_fetch fetch;
    struct volume_checkpointer checkpoint;
    struct volume_merger merger;
    struct volume_pinner pinner;
    struct volume_tick_state tick;
    struct volume_gc *gc;           /* NULL: none is running */
    struct volume_compact *compact; /* the same */
    struct volume_snapshotter snapshotter;
    struct volume_writer *writers;
    size_t writer_count;
};

/* volume_call.c */
struct volume_call *volume_call_create(struct volume *volume, enum object_verb verb,
                                       const char *key, void (*then)(struct volume_call *call));
void volume_call_start(struct volume_call *call);
void volume_call_discard(struct volume_call *call);        /* one that is not in flight */
void volume_calls_resume(struct volume *volume, bool all); /* starts those that are due */
int64_t volume_calls_due(const struct volume *volume);     /* mono ms; INT64_MAX: none waits */
enum err_code volume_fail(struct volume *volume, enum err_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
static inline bool volume_is_well(const struct volume *volume)
{
    return volume->failed.code == ERR_OK;
}

/* volume.c */
int64_t volume_now_unix_ms(const struct volume *volume);
/* Runs until done(volume) or the volume has failed, whose error it returns. */
MUST_USE enum err_code volume_wait(struct volume *volume, bool (*done)(struct volume *volume),
                                   struct err *err);
void volume_wait_once(struct volume *volume); /* for something to end */
void volume_advance(struct volume *volume);
void volume_destroy(struct volume *volume); /* closes the store too, if it is the volume's */
/* Everything is stored, and head names no owner. */
MUST_USE enum err_code volume_leave(struct volume *volume, struct err *err);

/* volume_order.c: what is done in steps, while other work goes on. */
enum volume_order_kind {
    ORDER_GC,
    ORDER_COMPACT,
    ORDER_CHECKPOINT,
    ORDER_SNAPSHOT,
    ORDER_SNAPSHOT_DELETE,
    ORDER_SYNC,
};
struct volume_order {
    struct volume *volume;
    enum volume_order_kind kind;
    int step; /* 0: it holds nothing yet */
    bool dry_run;
    uint64_t budget_bytes;                          /* 0: no bound */
    char name[sizeof(struct volume_snapshot_info)]; /* with room for one that is too long */
    struct volume_snap snap;
    uint64_t until; /* a commit, or a change of head, that is waited for */
    struct volume_gc_report report;
    struct err err; /* of gc or compaction */
};
/* Runs it to its end. */
MUST_USE enum err_code volume_order_finish(struct volume_order *order, struct err *err);
/* Each goes on as far as it can; ERR_AGAIN: not to its end. The other lets go of what it holds. */
MUST_USE enum err_code volume_gc_step(struct volume_order *order, struct err *err);
void volume_gc_let_go(struct volume_order *order);
MUST_USE enum err_code volume_compact_step(struct volume_order *order, struct err *err);
void volume_compact_let_go(struct volume_order *order);
MUST_USE enum err_code volume_snapshot_step(struct volume_order *order, struct err *err);
void volume_snapshot_let_go(struct volume_order *order);
MUST_USE enum err_code volume_snapshot_delete_step(struct volume_order *order, struct err *err);
MUST_USE enum err_code volume_checkpoint_step(struct volume_order *order);

/* volume_open.c: its steps, which volume_repair.c takes too. */
struct volume *volume_create(struct object_store *store, const struct volume_options *options);
/* Destroys it. The store stays the caller's, with nothing of ours in flight. */
void volume_give_back(struct volume *volume);
MUST_USE enum err_code volume_read_head(struct volume *volume, struct volume_head *out, char *etag,
                                        struct err *err);
MUST_USE enum err_code volume_own(struct volume *volume, const struct volume_options *options,
                                  struct err *err);
MUST_USE enum err_code volume_load_view(struct volume *volume, const struct volume_view *view,
                                        struct err *err);
MUST_USE enum err_code volume_fence(struct volume *volume, struct err *err);
MUST_USE enum err_code volume_confirm(struct volume *volume, struct err *err);
MUST_USE enum err_code volume_begin(struct volume *volume, struct err *err); /* the engine */
enum { VOLUME_FENCE_KEY_BYTES = 9 };
void volume_fence_key(uint64_t seq, uint8_t out[VOLUME_FENCE_KEY_BYTES]);
void volume_fence_note(struct volume *volume, uint64_t seq); /* in the map */
void volume_fence_write(const struct volume *volume, uint64_t seq, struct str *out);

/* volume_replay.c */
struct volume_batch { /* of calls that are started together */
    struct object_call *calls;
    size_t count, ended;
};
void volume_batch_run(struct object_store *store, struct volume_batch *batch); /* to their ends */
void volume_log_name(uint64_t seq, char out[CONTAINER_NAME_MAX]);
/* Is this log/SEQ as it was written? ERR_CORRUPT: no; the text names it. */
MUST_USE enum err_code volume_log_read(const struct volume *volume, uint64_t seq,
                                       const struct str *bytes, struct logobj_header *header,
                                       struct err *err);
/* The next commit. ERR_CORRUPT: damaged, and nothing of it is applied. ERR_STALE: another owner's
 * that came after us. */
MUST_USE enum err_code volume_apply_log(struct volume *volume, const struct str *bytes,
                                        struct err *err);
struct volume_gap { /* where the log is no longer whole */
    enum volume_log_state log;
    uint64_t seq;
    struct err why;
};
/* Every commit from the next one on up to the end, or up to a gap: that is no error here. */
MUST_USE enum err_code volume_replay(struct volume *volume, struct volume_gap *gap,
                                     struct err *err);

/* volume_owner.c */
void volume_owner_self(struct volume_owner *out, const char *who, int64_t now_unix_ms);
/* Surely: it was a process here, or held a lock in `locks` (NULL: none) that nobody holds. */
bool volume_owner_is_gone(const struct volume_owner *owner, const char *locks);
/* Holds a lock in its name; without one it is only less sure later that it is gone. */
void volume_lock_take(struct volume_lock *lock, const char *locks,
                      const struct volume_owner *owner);
void volume_lock_release(struct volume_lock *lock, bool has_left);
void volume_lock_remove(const char *locks, const struct volume_owner *owner); /* one succeeded */

/* volume_packs.c */
void volume_packs_init(struct volume_packs *packs);
void volume_packs_release(struct volume_packs *packs);
struct packer *volume_packer_create(struct volume *volume, struct container *container);
/* Seals the packer and starts its upload. */
struct young_pack *volume_pack_seal(struct volume *volume, struct packer *packer,
                                    const struct container *container, bool background);
void volume_pack_join(struct volume *volume, struct young_pack *pack);
void volume_packs_seal(struct volume *volume); /* the one being filled, if it holds anything */
void volume_packs_join(struct volume *volume); /* all that are not in the background */
bool volume_packs_are_stored(const struct volume *volume, uint64_t mark);
void volume_packs_forget(struct volume *volume); /* those stored and joined */

/* volume_placed.c */
void volume_note_placed(struct volume_placed *placed, const struct container *container);
bool volume_is_awaited(const struct volume_placed *placed, const struct container *container);

/* volume_commit.c */
void volume_commit_advance(struct volume *volume);
void volume_commit_begin(struct volume *volume, bool even_empty);
void volume_fenced(struct volume *volume, const char *what);

/* volume_headkeeper.c */
/* Head is to be written with the present view and snapshots: the change that will have them. */
uint64_t volume_head_touch(struct volume *volume);
void volume_head_advance(struct volume *volume);
void volume_headkeeper_release(struct volume_headkeeper *head);
void volume_view_of_map(const struct map *map, uint64_t seq, struct volume_view *out);

/* volume_fetch.c */
bool volume_is_fetching(const struct volume *volume);

/* volume_checkpoint.c */
void volume_checkpoint_want(struct volume *volume);
void volume_checkpoint_edge(struct volume *volume); /* nothing is pending, or all was just taken */
void volume_checkpoint_advance(struct volume *volume);

/* volume_merge.c */
bool volume_merge_begin(struct volume *volume, bool all);
void volume_merge_advance(struct volume *volume);
void volume_merger_release(struct volume_merger *merger);

/* volume_pin.c */
MUST_USE enum err_code volume_pin_begin(struct volume *volume, const char *who, struct err *err);
MUST_USE enum err_code volume_pin_settle(struct volume *volume, const struct volume_view *view,
                                         struct err *err);
void volume_pin_tick(struct volume *volume);
void volume_pin_remove(struct volume *volume);

/* volume_gc.c */
bool volume_gc_begin(struct volume *volume, bool dry_run); /* false: not now */
void volume_gc_advance(struct volume *volume);
void volume_gc_destroy(struct volume_gc *gc);

/* volume_compact.c */
bool volume_compact_begin(struct volume *volume, uint64_t budget_bytes);
void volume_compact_advance(struct volume *volume);
void volume_compact_destroy(struct volume_compact *compact);

#endif
