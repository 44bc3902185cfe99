/* bulk_internal.h - the inside of the bulk actor, shared by bulk*.c alone. All of it belongs to the
 * actor's thread, but struct order and struct bulk_event, which travel. */
#ifndef NODE_BULK_INTERNAL_H
#define NODE_BULK_INTERNAL_H

#include "base/arena.h"
#include "base/rng.h"
#include "node/bulk.h"
#include "node/bulk_pool.h"
#include "wire/treesend.h"
#include "wire/treewrite.h"

enum {
    PATIENCE_MS = 1000, /* without an answer: say it again; doubled up to */
    PATIENCE_MAX_MS = 16 * 1000,
    SILENCE_MS = 5 * 1000, /* from anybody, though we wait: the connection is made anew */
    LOG_LOOK_MS = 250,
    WATCH_LOOK_MS = 1000,
    WATCH_STABLE_MS = 500,
    WATCH_HURRY_MS = 100,
    BLOCKED_MS = 20,  /* between looks whether another fetch into the same folder is over */
    FLIGHTS_MAX = 64, /* pieces of one transfer under way */
    KNOWN_MAX = 256,  /* fetched folders we remember the state of */
    VERIFY_MS = 2000, /* a version looked at this recently is not looked at again */
};

enum order_kind {
    ORDER_LOG,
    ORDER_OUTPUT,
    ORDER_WATCH,
    ORDER_GET_CHECKPOINT,
    ORDER_GET_OUTPUTS,
    ORDER_GET_CODE,
    ORDER_HURRY,
    ORDER_FINISH,
    ORDER_DROP,
    ORDER_KEEP,
    ORDER_RECONNECT,
    ORDER_STOP,
};

/* From the owner; with KEEP, `count` versions of SHA256_HEX_CHARS + 1 bytes follow. */
struct order {
    enum order_kind kind;
    uint16_t port;
    uint64_t ticket;
    size_t count;
    struct bulk_attempt id;
    char folder[4096];
    char name[256];
};

enum state {
    STATE_IDLE,    /* nothing to say */
    STATE_ASKING,  /* Put or Get was said */
    STATE_FLOWING, /* pieces travel */
    STATE_ENDING,  /* all was sent, `end` too */
    STATE_WAITING, /* until wait_until_ms, then to be asked again */
};

/* A piece under way: where it began, to cut it again. */
struct flight {
    uint64_t number;
    struct str path;
    uint64_t offset;
    size_t size;
};

/* A sorted set of treeread_hash values: the state of a folder. */
struct scan {
    uint64_t *hashes;
    size_t count;
    size_t cap;
    uint64_t whole; /* of all in their order */
};

struct watch {
    struct scan sent; /* what the master has */
    struct scan sending;
    uint64_t sent_tree;    /* its id there; 0: it has none of ours */
    uint64_t sending_from; /* the tree that `keep` refers to; 0: all is sent */
    uint64_t seen;         /* scan.whole at the last look */
    bool has_seen;
    bool has_sent;
    int64_t seen_since_ms;
    int64_t look_ms; /* next */
    bool hurries;
};

struct code_fetch; /* bulk_code.c */

struct transfer {
    enum order_kind kind;
    uint64_t ticket; /* the owner's */
    uint64_t wire;   /* of the transfer now under way; 0: none */
    struct bulk_attempt id;
    char *folder; /* or file */
    char *name;
    enum state state;
    bool is_finishing;
    bool is_over;   /* to be freed */
    int64_t ask_ms; /* if nothing is heard until then, say it again */
    int64_t patience_ms;
    int64_t wait_until_ms;

    /* up */
    struct treesend *send;
    uint64_t next;  /* piece (byte of a log) to be sent */
    uint64_t taken; /* the master has these */
    bool is_cut;    /* there is no piece `next` */
    bool was_put;   /* the first piece went with Put */
    struct flight flights[FLIGHTS_MAX];
    size_t flight_first;
    size_t flight_count;
    size_t in_flight; /* bytes */
    int log_fd;
    int64_t look_ms;
    struct watch watch;

    /* down */
    Drover__BulkKind get_kind;
    uint32_t round;
    uint64_t expected; /* piece */
    uint64_t tree;
    struct treewrite *write;
    char *part_folder;
    struct str place;
    uint64_t place_offset;
    struct code_fetch *code;
};

/* A folder that was fetched, and what it was then. */
struct known {
    char *folder;
    uint64_t tree;
    struct scan scan; /* of checkpoints alone */
};

struct actor {
    void *context;
    void *orders; /* PAIR */
    void *dealer;
    int event_fd;
    char host[256];
    uint16_t port;
    char server_key[DOOR_KEY_CHARS + 1];
    struct door_keys keys;
    char *work;
    bool is_shared;
    uint64_t boot;
    uint64_t next_wire;
    int64_t heard_ms;
    int64_t now_ms;
    size_t in_flight;
    struct transfer **transfers;
    size_t count;
    size_t cap;
    size_t turn; /* whose piece is next */
    struct known known[KNOWN_MAX];
    size_t known_next;
    struct bulk_pool *pool; /* NULL until code is fetched */
    char (*kept)[SHA256_HEX_CHARS + 1];
    size_t kept_count;
    bool is_stopping;
};

/* --- bulk_actor.c ---------------------------------------------------------------------------- */

void *bulk_actor_thread(void *actor); /* frees it at its end */
void bulk_actor_release(struct actor *actor);
/* Makes the connection anew, and says again what is under way. */
void bulk_actor_reopen(struct actor *actor);

/* Says the event and marks the transfer as over. err NULL: done. */
void bulk_actor_end(struct actor *actor, struct transfer *transfer, const struct err *err,
                    const char *folder);
/* Prepares a message of the transfer. */
void bulk_actor_begin_message(struct actor *actor, const struct transfer *transfer,
                              Drover__ToDepot *message);
/* True if it is on its way. */
bool bulk_actor_send(struct actor *actor, const Drover__ToDepot *message);
/* Something was said that asks for an answer. */
void bulk_actor_expect(struct actor *actor, struct transfer *transfer, bool is_repeated);
struct known *bulk_actor_find_known(struct actor *actor, const char *folder);
/* Remembers; the scan's memory is taken over. */
void bulk_actor_set_known(struct actor *actor, const char *folder, uint64_t tree,
                          struct scan *scan);
void bulk_actor_forget_known(struct actor *actor, const char *folder);

/* --- bulk_up.c ------------------------------------------------------------------------------- */

void bulk_up_start(struct actor *actor, struct transfer *transfer);
/* Says Put (again). */
void bulk_up_ask(struct actor *actor, struct transfer *transfer, bool is_repeated);
/* Sends one piece, or the end, if there is one to send. */
bool bulk_up_send_one(struct actor *actor, struct transfer *transfer);
void bulk_up_hear(struct actor *actor, struct transfer *transfer, const Drover__FromDepot *message);
/* Forgets what is under way, so that it can be put anew. */
void bulk_up_reset(struct actor *actor, struct transfer *transfer);
/* Has a log grown? */
void bulk_up_look_at_log(struct actor *actor, struct transfer *transfer);

/* --- bulk_watch.c ---------------------------------------------------------------------------- */

void bulk_watch_start(struct actor *actor, struct transfer *transfer);
/* Looks if it is time, and starts to send if there is something. */
void bulk_watch_turn(struct actor *actor, struct transfer *transfer);
/* Is the folder still as it was when its sending began? */
bool bulk_watch_is_unchanged(struct transfer *transfer);
void bulk_watch_done(struct actor *actor, struct transfer *transfer, uint64_t tree);
/* The master cannot keep anything: send all. */
void bulk_watch_send_whole(struct actor *actor, struct transfer *transfer);
/* Fills scan with the folder's state. */
MUST_USE enum err_code bulk_watch_scan(const char *folder, struct scan *scan, struct err *err);
bool bulk_watch_keeps(void *context, const struct treeread_entry *entry);
void bulk_scan_release(struct scan *scan);

/* --- bulk_down.c ----------------------------------------------------------------------------- */

void bulk_down_start(struct actor *actor, struct transfer *transfer);
void bulk_down_ask(struct actor *actor, struct transfer *transfer, bool is_repeated);
void bulk_down_hear(struct actor *actor, struct transfer *transfer,
                    const Drover__FromDepot *message);
/* Begins another Get in place of the last one. */
void bulk_down_get(struct actor *actor, struct transfer *transfer, Drover__BulkKind kind);

/* --- bulk_code.c ----------------------------------------------------------------------------- */

void bulk_code_start(struct actor *actor, struct transfer *transfer);
/* Adds what the current Get needs. The hashes stay ours. */
void bulk_code_fill_get(struct transfer *transfer, Drover__BulkGet *get);
MUST_USE enum err_code bulk_code_take(struct actor *actor, struct transfer *transfer,
                                      const Drover__BulkPart *part, struct err *err);
/* The last piece of the current Get came. */
void bulk_code_next(struct actor *actor, struct transfer *transfer);
void bulk_code_release(struct code_fetch *code);

#endif
