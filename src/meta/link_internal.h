/* link_internal.h - what the files of link*.c share. Only they include it. */
#ifndef META_LINK_INTERNAL_H
#define META_LINK_INTERNAL_H

#include "meta/counts.h"
#include "meta/known.h"
#include "meta/link.h"

#include <sys/queue.h>

struct meta_call {
    TAILQ_ENTRY(meta_call) link; /* in `waiting` or `kept` */
    uint64_t number;
    uint64_t key;
    struct str op;
    Drover__MetaVerb verb;
    uint64_t inode, folder; /* of the op */
    uint64_t name_key;      /* MAKE: of folder and name; REMOVE, RENAME: of what went away */
    uint64_t pack_min;      /* WRITE: its lowest pack; UINT64_MAX: none */
    uint64_t lock_owner;
    uint32_t lock_type;
    uint32_t flags;
    uint64_t stamp, fresh, seq; /* once answered */
    Drover__MetaAnswer *answer;
    bool is_undone;  /* given up: closed again once answered, or unlocked already */
    bool is_wanted;  /* by the caller */
    bool is_waiting; /* in `waiting` */
    bool is_kept;    /* in `kept` */
    bool is_again;   /* kept, and said again to a new owner */
    bool is_sent;    /* over the present connection */
    bool is_early;   /* OPEN: its caller did not wait for the answer */
    bool is_reclaim; /* LOCK: of one that may have been lost */
};

struct held_lock {
    Drover__MetaLock lock;
    int64_t doubtful_ms; /* since then: the lease had run out, another may have got it; 0: no */
};
TAILQ_HEAD(call_list, meta_call);

enum link_state { LINK_GREETING, LINK_JOINED };

struct meta_link {
    struct meta_link_options options;
    enum link_state state;
    struct call_list waiting; /* for an answer, by number */
    struct call_list kept;    /* answered and not stored, by number */
    uint64_t next_number;
    uint64_t durable;
    uint64_t floor;
    uint64_t kept_bytes;
    size_t again_count, held_count; /* of those kept: said again; new files not closed yet */
    uint64_t forgotten_at;          /* durable, when stored ones were last let go */
    uint64_t progress, lapses;
    int64_t heard_ms, sent_ms, greeted_ms, now_ms;
    int64_t patience_ms; /* until the next hello */
    int64_t reset_ms;    /* when it was last looked for anew */
    int64_t proven_ms;   /* when we sent what the owner had heard: the lease runs from there */
    int64_t alive_ms;    /* when we last gave a sign of life */
    bool is_silent;      /* for a lease */
    bool has_unsent;
    Drover__MetaAnswer *welcome; /* the message with the last one */
    struct known *known;
    uint64_t tide;         /* the latest heard */
    struct counts opens;   /* those opened early included, */
    struct counts early;   /* of which the owner has not answered these */
    struct counts closing; /* closed, and no answer yet */
    struct held_lock *locks;
    size_t lock_count, lock_cap;
    struct err refused;
    struct meta_link_counts counts;
};

/* link.c */
/* As meta_link_ask; is_reclaim: for a lock that may have been lost. */
struct meta_call *link_ask(struct meta_link *link, const Drover__MetaOp *op, bool is_reclaim);
struct meta_call *waiting_find(const struct meta_link *link, uint64_t number);
void link_tell(const struct meta_link *link, const char *line);
bool link_has_lease(const struct meta_link *link,
                    int64_t now_ms); /* by the owner's count, which began earlier */

/* link_call.c */
void call_describe(struct meta_call *call, const Drover__MetaOp *op);

/* link_kept.c */
/* A change was answered well: kept until it is stored. */
void kept_add(struct meta_link *link, struct meta_call *call);
void kept_answered_again(struct meta_link *link, struct meta_call *call,
                         const Drover__MetaAnswer *answer);
/* Anything else that was answered about an inode may have let go of a new file of ours. */
void kept_release(struct meta_link *link, const struct meta_call *call, uint64_t seq);
void kept_forget_stored(struct meta_link *link);
/* A new owner has stored our changes up to `last`: the rest is to be said again. */
void kept_say_again(struct meta_link *link, const Drover__MetaWelcome *welcome);
bool kept_is_held(const struct meta_call *call); /* a new file that is not closed */
struct meta_call *kept_find(const struct meta_link *link, uint64_t number);
void call_free_unused(struct meta_call *call);
void call_settle(struct meta_link *link, struct meta_call *call); /* it waits no longer */

/* link_lock.c */
void locks_asked(struct meta_link *link, const struct meta_call *call);
void locks_answered(struct meta_link *link, const struct meta_call *call,
                    const Drover__MetaAnswer *answer);
void locks_undo(struct meta_link *link, const struct meta_call *call); /* it is given up */
void locks_doubt(struct meta_link *link);                              /* of all of them */
size_t locks_name(struct meta_link *link, Drover__MetaLock **out);     /* for hello */
void locks_confirm(struct meta_link *link, const Drover__MetaWelcome *welcome);

/* link_known.c */
/* What an answer lets us know, and what our own changes make untrue. `bytes` are the message's. */
void known_hear(struct meta_link *link, const struct meta_call *call,
                const Drover__MetaAnswer *answer, const void *bytes, size_t size);

/* What this mount has open and locked. */
void holdings_asked(struct meta_link *link, const struct meta_call *call);
void holdings_answered(struct meta_link *link, const struct meta_call *call,
                       const Drover__MetaAnswer *answer);

#endif
