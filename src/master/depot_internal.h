/* depot_internal.h - the inside of the depot, shared by depot*.c alone. All of it belongs to the
 * depot's thread, but struct post and struct box, which travel as pointers: whoever holds one owns
 * it. */
#ifndef MASTER_DEPOT_INTERNAL_H
#define MASTER_DEPOT_INTERNAL_H

#include "master/code.h"
#include "master/depot.h"
#include "node/bulk_pool.h"
#include "wire/treesend.h"
#include "wire/treewrite.h"

enum {
    LOADS_MAX = 2048,          /* of one peer under way */
    HELD_BYTES_MAX = 64 << 20, /* messages of all peers that wait for the loop's answer */
    OUT_BYTES_MAX = 512 << 20, /* under way to all peers; each has its share */
    PEERS_MAX = 20 * 1000,
    PEER_BUCKETS = 4096,
    DONE_MAX = 256, /* finished transfers of a peer that we remember */
    FLIGHTS_MAX = 64,
    TICK_MS = 1000,
    WAIT_FULL_MS = 1000, /* after "the disk is full" */
    WAIT_SOON_MS = 200,  /* after "not known yet" */
    DOWN_PATIENCE_MS = 60 * 1000,
    UP_PATIENCE_MS = 10 * 60 * 1000,
    PEER_PATIENCE_MS = 10 * 60 * 1000,
    STRANGER_PATIENCE_MS = 5 * 1000, /* one that the loop never said yes to */
    INCOMING_AGE_S = 60 * 60,        /* what is left of uploads that nobody goes on with */
    REMOVED_AT_ONCE = 500,
    COPIED_AT_ONCE = 16 << 20,
    LOG_SLACK_BYTES = 4096, /* beyond the limit: what the node says about it */
};

enum post_kind {
    POST_FLOW,
    POST_END_FLOW,
    POST_ANSWER,
    POST_FORGET,
    POST_WELCOME,
    POST_HTTP,
    POST_KEEP,
    POST_STOP,
};

/* From the owner. */
struct post {
    enum post_kind kind;
    uint64_t number;
    enum err_code verdict;
    uint64_t log_limit_bytes;
    uint64_t checkpoint;
    char *text;   /* why; the key; the folder; method of a request */
    char **texts; /* experiments; versions */
    size_t text_count;
    struct depot_request request;
};
void depot_post_free(struct post *post);

/* To the owner. */
struct box {
    struct depot_event event;
    bool is_counts;
    struct depot_counts counts;
    char *texts[4]; /* what the event points to */
};
void depot_box_free(struct box *box);

struct flow_place {
    uint32_t number;
    char *folder;
    char **experiments;
    size_t count;
};

enum load_state {
    LOAD_ASKED, /* the loop has a question about it */
    LOAD_OPEN,
    LOAD_COMMITTING, /* the loop has the second question about a checkpoint */
};

struct load {
    struct load *next; /* of the peer's */
    struct peer *peer;
    uint64_t ticket;
    bool is_up;
    bool is_over;
    Drover__BulkKind kind;
    struct bulk_attempt id;
    uint64_t
        checkpoint; /* which one it is about, once the loop has said so; the task's until then */
    enum load_state state;
    uint64_t question;     /* 0: none */
    Drover__ToDepot *held; /* what waits for the answer */
    size_t held_size;
    int64_t heard_ms;

    /* up */
    bool is_waiting; /* the node was told to; what is still under way is not heeded */
    uint64_t have;
    uint64_t put_have;
    uint64_t before;
    uint64_t told_go; /* have + 1 when `go` was said for a gap */
    uint64_t bytes;
    uint64_t entries;
    uint64_t log_limit_bytes;
    char *log_file;
    char *staging;
    struct treewrite *write;

    /* down */
    char *name;
    uint32_t round;
    uint64_t next_piece;
    uint64_t taken;
    size_t flights[FLIGHTS_MAX]; /* bytes of pieces under way */
    size_t in_flight;
    bool is_sent;  /* the last piece was */
    bool is_stuck; /* until the node asks again */
    struct treesend *send;
    int top_fd; /* outputs/EXPERIMENT */
    char *flow_folder;
    struct str bytes_out; /* a manifest; hashes */
    size_t bytes_at;
    int object_fd;
    size_t object_size;
    size_t object_at;
};

struct peer {
    struct peer *next; /* in its bucket */
    char key[DOOR_KEY_CHARS + 1];
    char hex[33]; /* names it in files */
    struct door_sender route;
    uint64_t boot;
    bool is_denied;
    bool is_known; /* the loop has said yes to it */
    struct load *loads;
    size_t load_count;
    size_t in_flight;
    uint64_t done[DONE_MAX];
    size_t done_next;
    int64_t heard_ms;
};

/* A version being unpacked for the nodes on this disk. */
struct unpacking {
    char version[SHA256_HEX_CHARS + 1];
    struct str text;
    struct manifest *manifest;
    size_t next;
};

struct worker {
    void *context;
    void *owner; /* PAIR */
    void *router;
    struct door_frame *frame;
    char *state_folder;
    uint64_t output_bytes_max;
    char boot_id[64]; /* of the machine: what an earlier one left may not be on disk */
    int64_t now_ms;
    int64_t ticked_ms;
    bool is_stopping;
    struct flow_place *flows;
    size_t flow_count;
    size_t flow_cap;
    struct peer *peers[PEER_BUCKETS];
    size_t peer_count;
    size_t pump_at;      /* bucket whose turn it is */
    size_t active_peers; /* with downloads, as of the last tick */
    uint64_t next_question;
    size_t held_bytes;
    struct code *code;
    struct bulk_pool *here; /* NULL until needed */
    struct unpacking *unpacking;
    char **trash;
    size_t trash_count;
    size_t trash_cap;
    uint64_t next_trash;
    bool in_trouble;
    int64_t trouble_ms;
    struct depot_counts counts;
    struct depot_counts told;
};

/* --- depot.c --------------------------------------------------------------------------------- */

void depot_worker_tell(struct worker *worker, struct box *box);
/* Asks the loop about the load. */
void depot_worker_ask(struct worker *worker, struct load *load, enum depot_ask ask);
void depot_worker_trouble(struct worker *worker, const char *text);
void depot_worker_recovered(struct worker *worker);

/* --- depot_peer.c ---------------------------------------------------------------------------- */

struct peer *depot_peer_find(struct worker *worker, const char *key, bool makes);
void depot_peer_drop_loads(struct worker *worker, struct peer *peer);
void depot_peer_expire(struct worker *worker);
bool depot_peer_was_done(const struct peer *peer, uint64_t ticket);
void depot_peer_free_all(struct worker *worker);

struct load *depot_load_create(struct worker *worker, struct peer *peer,
                               const Drover__ToDepot *message);
struct load *depot_load_find(struct peer *peer, uint64_t ticket);
void depot_load_free(struct worker *worker,
                     struct load *load); /* takes it out of its peer's list */
/* Keeps the message for later, if there is room; takes it over if so. */
bool depot_load_hold(struct worker *worker, struct load *load, Drover__ToDepot *message,
                     size_t size);
void depot_load_release_held(struct worker *worker, struct load *load);
struct load *depot_load_by_question(struct worker *worker, uint64_t question);

void depot_say_begin(const struct load *load, Drover__FromDepot *message);
bool depot_say(struct worker *worker, const struct peer *peer, const Drover__FromDepot *message);
void depot_say_no(struct worker *worker, const struct peer *peer, uint64_t ticket,
                  enum err_code code, const char *reason);
void depot_say_wait(struct worker *worker, const struct peer *peer, uint64_t ticket,
                    uint32_t wait_ms);
void depot_say_unknown(struct worker *worker, const struct peer *peer, uint64_t ticket);

/* --- depot_flow.c ---------------------------------------------------------------------------- */

void depot_flow_set(struct worker *worker, struct post *post);
void depot_flow_end(struct worker *worker, uint32_t number);
const struct flow_place *depot_flow_find(const struct worker *worker, uint32_t number);
void depot_flow_release(struct worker *worker);
/* Paths below the workflow's folder; experiment is a valid index. */
void depot_flow_add_log(struct str *out, const struct flow_place *flow,
                        const struct bulk_attempt *id);
void depot_flow_add_attempt(struct str *out, const struct flow_place *flow,
                            const struct bulk_attempt *id);
void depot_flow_add_checkpoint(struct str *out, const struct flow_place *flow,
                               const struct load *load);
void depot_flow_add_staging(struct str *out, const struct flow_place *flow, const struct peer *peer,
                            uint64_t ticket);
/* Removes what the node's earlier boots left under way. */
void depot_flow_clear_boots(struct worker *worker, const struct peer *peer);
/* Moves the tree away at once, and removes it a little at a time. */
void depot_trash_take(struct worker *worker, const char *path);
void depot_trash_turn(struct worker *worker);
/* A number that changes when the folder at path is replaced or gets other entries; 0: not there. */
uint64_t depot_tree_id(const char *path);

/* --- depot_up.c ------------------------------------------------------------------------------ */

/* These take the message over. */
void depot_up_put(struct worker *worker, struct peer *peer, Drover__ToDepot *message, size_t size);
void depot_up_go_on(struct worker *worker, struct load *load, Drover__ToDepot *message);
void depot_up_answered(struct worker *worker, struct load *load, const struct post *post);

/* --- depot_down.c ---------------------------------------------------------------------------- */

void depot_down_get(struct worker *worker, struct peer *peer, Drover__ToDepot *message,
                    size_t size);
void depot_down_taken(struct worker *worker, struct load *load, const Drover__ToDepot *message);
void depot_down_answered(struct worker *worker, struct load *load, const struct post *post);
/* Sends pieces to those who have credit. True: there is more to send at once. */
bool depot_down_pump(struct worker *worker);
void depot_down_close(struct load *load);

/* --- depot_code.c ---------------------------------------------------------------------------- */

/* Answers the load once the version is unpacked. */
void depot_unpack_want(struct worker *worker, struct load *load);
/* Goes on with it; true: there is more to do at once. */
bool depot_unpack_turn(struct worker *worker);
void depot_unpack_release(struct worker *worker);
void depot_code_answer(struct worker *worker, const struct depot_request *request);

#endif
