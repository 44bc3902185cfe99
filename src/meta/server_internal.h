/* server_internal.h - what the files of server*.c share. Only they include it. */
#ifndef META_SERVER_INTERNAL_H
#define META_SERVER_INTERNAL_H

#include "base/arena.h"
#include "meta/counts.h"
#include "meta/inodes.h"
#include "meta/message.h"
#include "meta/server.h"

enum {
    SESSIONS_MAX = 4096,
    HELD_MAX = 4096,            /* new files of one mount that are held at a time */
    PARKED_MAX = 4096,          /* asks of one mount that wait */
    PARKED_AGAIN_MAX = 1 << 20, /* with those that must not be refused */
    ANSWERS_MAX = 65536,        /* kept for one mount */
    FORGET_MS = 10 * 60 * 1000, /* a lapsed session is remembered for this long */
    SKIPPED_INODES = 1 << 24,
    GRANTS_SUM = 4, /* all mounts together have this many times the grants of one */
    HOT = 1 << 16,
};

struct session;

struct ask {
    struct session *session;
    Drover__MetaOp *op;
    uint64_t number, stamp, fresh;
    bool held;                  /* with stamp: not closed */
    bool is_stopped;            /* LOCK: nobody waits for it any more */
    bool is_tried;              /* LOCK: what its owner held before has been let go */
    struct extent *extents;     /* of a write, once its data has been placed, */
    struct volume *volume;      /* in this */
    uint64_t seq;               /* a commit that is waited for */
    struct volume_order *order; /* the same; or NULL */
    struct ask *next;
};

struct kept_answer {
    uint64_t number;
    struct str bytes;
    bool is_lock;
    bool is_holding; /* only as good as what the session holds */
    uint64_t opened; /* of MAKE: what it opened; 0: nothing */
    bool is_let_go;  /* what it opened was, with all that the session held */
};

struct fresh_file { /* made and not yet closed */
    uint64_t inode, folder;
    uint64_t number; /* of the ask that made it */
    bool is_held;    /* left out of commits */
    char *name;
};

struct recall {     /* a Forget that has not been carried out yet */
    uint64_t inode; /* or META_FORGET_ALL */
    uint64_t tide;
    int64_t sent_ms, again_ms; /* at first; and for the last time */
    int64_t clock_ms;          /* the mount's, of what was heard of it before */
};

struct session {
    uint8_t mount[META_ID_BYTES];
    struct door_sender peer; /* key "": not back yet since this owner began */
    uint32_t writer, term;
    uint64_t floor;
    uint64_t have, have_locks;
    uint64_t last; /* the number of its last change */
    uint64_t top;  /* the largest number that was asked: nothing before it was lost on the way */
    int64_t heard_ms;
    int64_t clock_ms; /* the mount's own, of the latest message heard */
    int64_t lapsed_ms;
    uint64_t serial;        /* of its last hello */
    struct inodes grants;   /* what it may know without asking */
    struct recall *recalls; /* the oldest first */
    size_t recall_count, recall_cap;
    uint64_t welcome_seq; /* welcome waits for this commit */
    bool is_welcome, is_lapsed, is_ready, is_restored;
    bool knows_too_much; /* it is to forget everything */
    bool has_spoken;     /* since its holdings were taken from its hello */
    bool is_over;        /* said goodbye, or was forgotten: freed by the next turn */
    struct counts opens;
    struct fresh_file *fresh;
    size_t fresh_count, fresh_cap;
    size_t held_count; /* of them */
    uint64_t *owed;    /* numbers of those that were held when an owner died: not yet made again */
    size_t owed_count;
    struct ask *parked, **parked_end;
    size_t parked_count;
    struct kept_answer *answers; /* in the order they were given */
    size_t answer_count, answer_cap;
};

struct lock {
    uint64_t inode, owner;
    struct session *session;
    uint32_t type;
};

struct doubtful_lock {
    struct lock lock;
    int64_t since_ms; /* by this owner's clock */
};

struct meta_server {
    struct volume *volume;
    struct engine *engine;
    struct meta_server_options options;
    int64_t lease_ms;
    int64_t turned_ms;
    int64_t now_ms;
    uint64_t tide;
    size_t grants_max, grant_sum; /* of one session; of all */
    int64_t hot_ms[HOT]; /* by inode: until when nobody is granted it, since it was recalled */
    struct session **sessions;
    size_t session_count, session_cap;
    uint32_t next_writer;
    uint64_t stamp;
    bool recovering;
    int64_t recover_until_ms;
    struct lock *locks;
    size_t lock_count, lock_cap;
    struct doubtful_lock *doubtful; /* while recovering: what mounts may have lost to others */
    size_t doubtful_count, doubtful_cap;
    bool locks_changed; /* or grants: someone may get what they wait for */
    uint64_t *forgets;  /* closed for good: freed if nobody has them open */
    size_t forget_count, forget_cap;
    struct fresh_file *litter;
    size_t litter_count, litter_cap;
    uint64_t seen; /* progress, when parked asks were last tried */
    bool writers_changed;
    uint64_t settled; /* engine_releases, when new files were last settled */
    struct meta_server_counts counts;
};

struct reply { /* an answer that is being made */
    Drover__MetaAnswer answer;
    struct arena arena;
    struct str bytes;
    int posix;
};

/* server.c */
void meta_tell(struct meta_server *server, const char *format, ...) PRINTF_LIKE(2, 3);
void server_send(struct meta_server *server, struct session *session, Drover__MetaAnswer *answer);
/* Sends the answer, and keeps it where it must be the same the next time. */
void server_answer(struct meta_server *server, struct ask *ask, struct reply *reply,
                   enum err_code code, const struct err *err);
/* What the session held is gone, so what was answered of that is no longer true. */
void server_let_go_answers(struct session *session);
/* Tries the session's asks that wait, in order. */
void server_work(struct meta_server *server, struct session *session);
uint64_t server_opens(const struct meta_server *server, uint64_t inode);
bool server_is_open(void *server, uint64_t inode);
void ask_destroy(struct ask *ask);

/* server_session.c */
struct session *session_of_key(const struct meta_server *server, const char *key);
struct session *session_of_mount(const struct meta_server *server, const uint8_t *mount);
void session_hello(struct meta_server *server, const struct door_sender *from,
                   const Drover__MetaHello *hello, int64_t now_ms);
void session_welcome(struct meta_server *server, struct session *session);
void session_store(struct meta_server *server, struct session *session);
MUST_USE enum err_code sessions_restore(struct meta_server *server, int64_t now_ms,
                                        struct err *err);
void session_lapse(struct meta_server *server, struct session *session, int64_t now_ms);
void session_end(struct meta_server *server, struct session *session); /* it said goodbye */
void session_destroy(struct session *session);
void session_note_fresh(struct session *session, const struct fresh_file *file);
void session_pay(struct session *session, uint64_t number); /* what was owed is made */
/* Notes which new files are no longer held, in the same commit. */
void sessions_settle(struct meta_server *server);
void session_drop_fresh(struct session *session, uint64_t inode);
void server_sweep(struct meta_server *server); /* forgets and litter */
void server_set_writers(struct meta_server *server);

/* server_op.c: ERR_AGAIN: not now, nothing has happened. */
MUST_USE enum err_code op_apply(struct meta_server *server, struct ask *ask, struct reply *reply,
                                struct err *err);

/* server_write.c */
MUST_USE enum err_code op_write(struct meta_server *server, struct ask *ask,
                                struct engine_attr *out, int *posix, struct err *err);

void op_write_end(struct ask *ask); /* what was placed for it is used, or never will be */

/* server_lock.c */
MUST_USE enum err_code op_lock(struct meta_server *server, struct ask *ask, int *posix,
                               struct err *err);
MUST_USE enum err_code lock_take(struct meta_server *server, struct session *session,
                                 const Drover__MetaLock *wanted, int *posix, struct err *err);
/* A lock that a mount names in its hello. */
void lock_restore(struct meta_server *server, struct session *session,
                  const Drover__MetaLock *named);
void lock_recovered(struct meta_server *server); /* everyone is back, or will not be */
void lock_drop_session(struct meta_server *server, const struct session *session);
/* What the session holds; the caller frees the array, and the locks are in it. */
Drover__MetaLock **lock_list(const struct meta_server *server, const struct session *session,
                             size_t *count);

/* server_grant.c */
/* Before a change: whoever else may know something of what it touches is told to forget it, and the
 * change waits (ERR_AGAIN) until they have. Notes in the answer what is touched. */
MUST_USE enum err_code grant_clear(struct meta_server *server, const struct ask *ask,
                                   struct reply *reply, struct err *err);
/* The same for one inode, whoever may know of it. True: nobody does. */
bool grant_recall(struct meta_server *server, const struct session *keeper, uint64_t inode);
/* Marks in the answer what the mount may know from now on without asking. */
void grant_answer(struct meta_server *server, const struct ask *ask, struct reply *reply,
                  enum err_code code);
void grant_forgot(struct meta_server *server, struct session *session, uint64_t tide);
void grant_drop(struct meta_server *server, struct session *session); /* it knows nothing */
int64_t grant_clock(const struct session *session); /* from which its lease runs */
/* True: it has not carried out a Forget for the time of the lease. */
bool grant_is_overdue(const struct meta_server *server, const struct session *session);
void grant_turn(struct meta_server *server);

/* server_recover.c */
void server_recover(struct meta_server *server, int64_t now_ms); /* ends it when it is time */

#endif
