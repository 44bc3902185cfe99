/* request.h - inside the mount: its state, and requests that may have to wait.
 *
 * Private to src/mount. A request is tried: its attempt either answers the kernel (true) or has had
 * no effect and needs something that is not here yet (false). Then it is copied and parked.
 */
#ifndef MOUNT_REQUEST_H
#define MOUNT_REQUEST_H

#define FUSE_USE_VERSION 314

#include "meta/dealer.h"
#include "meta/upload.h"
#include "mount/draft.h"
#include "mount/image.h"
#include "mount/mount.h"
#include "mount/spots.h"
#include "mount/walk.h"

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FILE_BUCKETS = 4096,
    SEEN = 1 << 14,
    PLACES = 1024,                 /* of listings that may be continued: ends of answers */
    STEPS = 8192,                  /* and entries within them */
    LATE_MAX = 8,                  /* requests that nobody waits for, at a time */
    GHOSTS = 64,                   /* folders removed last, which may be open still */
    DIRTY_BYTES_MAX = 64 << 20,    /* of all drafts, in memory */
    DRAFT_STREAM_BYTES = 4 << 20,  /* of one draft before its full extents are placed */
    DRAFT_INLINE_BYTES = 16 << 10, /* a file this small is stored with the log on fsync */
};

struct mount;

struct file { /* an inode that is open, or has a draft */
    uint64_t inode;
    uint32_t opens, writers;
    bool has_draft;
    bool kill_priv; /* someone other than root has written */
    struct draft draft;
    int64_t mtime_ns;        /* of the draft */
    int64_t changed_ns;      /* when it was last written to or cut; 0: not at all */
    bool knows_base;         /* just made: its draft begins over nothing */
    bool is_made;            /* just made: not committed before it is closed */
    struct meta_call *flush; /* the draft is on its way to the owner and must not change; or NULL */
    struct extent *placed; /* every place given to bytes of the draft, used or overwritten since */
    size_t placed_count, placed_cap;
    struct file *next;
};

struct place { /* how far a listing has come */
    uint64_t inode;
    uint64_t cookie;
    char name[ENGINE_NAME_MAX + 1]; /* the entry that this cookie comes behind */
};

struct memo { /* what a request has asked of an owner elsewhere */
    struct meta_call **calls;
    size_t count, cap;
};

struct request {
    fuse_req_t req;
    bool (*attempt)(struct mount *mount, struct request *request);
    struct engine_caller caller;
    uint64_t inode;  /* or the folder of name */
    uint64_t folder; /* the other folder, of new_name */
    const char *name, *new_name;
    const void *data;
    size_t size;
    uint64_t offset;
    uint32_t mode, flags;
    size_t padding; /* zeros behind the end of a file, whose last block is read whole */
    struct engine_set set;
    struct fuse_file_info fi;
    uint64_t seq;               /* a commit that is waited for; 0: not yet begun */
    struct volume_order *order; /* the same; or NULL */
    struct memo memo;
    int refreshed; /* how often its memo was asked anew */
    struct request *next;
};

struct seen { /* a file's content that the kernel may have */
    uint64_t inode;
    uint32_t generation;
};

struct mount_counts {
    uint64_t requests, reads, writes, parked;
    uint64_t bytes_read, bytes_written;
};

struct mount {
    struct fuse_session *session;
    struct volume *volume;      /* NULL: its owner is elsewhere, */
    struct engine *engine;      /* and this too */
    struct meta_dealer *dealer; /* how it is reached; NULL: the volume is ours */
    struct meta_link *link;     /* the dealer's */
    struct upload *upload;
    struct object_store *store; /* with a dealer */
    struct seen *seen;          /* with a dealer: SEEN of them, by inode */
    struct spots *spots;        /* with a dealer: others move folders too */
    uint64_t lapses_seen;
    struct staler *staler; /* tells the kernel to forget; or NULL */
    struct reader *reader;
    struct image *image; /* the kernel has names and attributes from it; or NULL */
    struct shown *shown; /* likewise: how the kernel has it */
    bool read_only;
    double timeout_s; /* for which the kernel may believe names and attributes */
    bool greeted;     /* the kernel's first request has been answered */
    struct file *files[FILE_BUCKETS];
    uint64_t dirty_bytes; /* in the memory of all drafts */
    struct request *parked, **parked_end;
    struct request late[LATE_MAX]; /* put off until somebody else was served */
    size_t late_count;
    struct place *places; /* PLACES of them, used round and round; then STEPS, likewise */
    size_t place_next, step_next;
    struct engine_attr ghosts[GHOSTS]; /* used round and round; inode 0: none */
    size_t ghost_next;
    struct walk walk;
    char *list_buffer;
    size_t list_cap;
    struct str scratch;
    struct str said; /* the answer to the last order */
    uint32_t uid;    /* whose mount it is */
    struct mount_counts counts;
};

/* Tries; parks a copy if it has to wait. */
void request_begin(struct mount *mount, struct request *request);
/* Nobody waits for it (a reader closes): whoever asks next is served before it, if soon. */
void request_put_off(struct mount *mount, const struct request *request);
/* Begins all that were put off. */
void request_catch_up(struct mount *mount);
/* Tries all that are parked once more. */
void request_retry(struct mount *mount);
/* Answers all that are parked with EIO. */
void request_fail_all(struct mount *mount);
/* What an operation returned, when it is not ERR_OK: answers the kernel and says true, or asks for
 * what is missing and says false (ERR_AGAIN). */
bool request_settle(struct mount *mount, struct request *request, enum err_code code, int posix,
                    const struct err *err);
void request_of(struct request *request, fuse_req_t req,
                bool (*attempt)(struct mount *mount, struct request *request), uint64_t inode);

/* Files. */
struct file *file_find(struct mount *mount, uint64_t inode);
struct file *file_take(struct mount *mount, uint64_t inode); /* makes it if missing */
void file_drop(struct mount *mount, struct file *file);      /* if nobody needs it any more */
bool file_is_open(void *mount, uint64_t inode);
/* Makes sure that there is a draft over the inode's content. */
enum err_code file_begin_draft(struct mount *mount, struct request *request, struct file *file,
                               int *posix, struct err *err);
/* The draft becomes part of the volume (nothing to do: ERR_OK). ERR_AGAIN: not now, try again. */
enum err_code file_flush(struct mount *mount, struct file *file, bool inlined, int *posix,
                         struct err *err);
/* Forgets the draft, whether it has become part of the volume or not. */
void file_end_draft(struct mount *mount, struct file *file);
/* Moves bytes from memory into packs where the drafts hold too many. */
void file_relieve(struct mount *mount, struct file *file);
/* Attributes as users of this mount see them: with the draft's size and times. True: it has one, so
 * the kernel is not to keep them. */
bool file_show(const struct mount *mount, struct engine_attr *attr);

/* The kernel does not say which folders are open, so one that was removed is gone from the volume
 * at once. Whoever has it open, or works in it, still sees its attributes, and nothing in it. NULL:
 * no such folder was removed here lately. */
const struct engine_attr *ghost_find(const struct mount *mount, uint64_t inode);

void entry_of(const struct mount *mount, const struct engine_attr *attr,
              struct fuse_entry_param *out);
/* The number under which the kernel is told of it, as `name` in `folder`, and what it forgets. */
void entry_give(struct mount *mount, uint64_t folder, const char *name,
                struct fuse_entry_param *entry);
void entry_forget(struct mount *mount, uint64_t number, uint64_t count);
void stat_of(const struct engine_attr *attr, struct stat *out);
int64_t mount_now_ns(void);

/* Reads: the request's inode, offset and size. */
bool io_read(struct mount *mount, struct request *request);

/* What the mount says of itself, as JSON. */
void stats_add(struct mount *mount, struct str *out);

/* Carries out the order in request->data; an errno value. EAGAIN: try again later. */
int orders_take(struct mount *mount, struct request *request);

/* The handlers, by file. */
void names_fill(struct fuse_lowlevel_ops *ops);
void attr_fill(struct fuse_lowlevel_ops *ops);
void xattr_fill(struct fuse_lowlevel_ops *ops);
void list_fill(struct fuse_lowlevel_ops *ops);
void open_fill(struct fuse_lowlevel_ops *ops);
void io_fill(struct fuse_lowlevel_ops *ops);
void image_fill(
    struct fuse_lowlevel_ops *ops); /* those that serve contents alone (image_serve.c) */
void open_fill_remote(struct fuse_lowlevel_ops *ops); /* locks between machines */

#endif
