/* depot.h - the master's end of everything large: logs, outputs and checkpoints that come up from
 * remote nodes, code and inputs that go down to them, and the code store that commands fill.
 *
 * An actor: a thread that owns a second CURVE ROUTER (nodes: src/node/bulk.h; messages:
 * proto/bulk.proto) and STATE/code. The loop owns the facts, so the depot asks it: each upload and
 * download begins with one question (depot_event, DEPOT_QUESTION), answered by depot_answer; a
 * checkpoint is asked about again before it replaces the one before. Pieces in between are not
 * asked about. A node is its CURVE key, vouched for on each message.
 *
 * Where things go (FOLDER is the workflow's):
 *
 *   FOLDER/logs/EXPERIMENT/K/INDEX.ATTEMPT.log    grows while the task runs
 *   FOLDER/attempts/EXPERIMENT/K/INDEX.ATTEMPT    appears whole
 *   FOLDER/checkpoints/EXPERIMENT/K/INDEX         replaced whole; INDEX.stamp beside it says by
 * which attempt: an older one never replaces a newer one's FOLDER/incoming/NODE-BOOT-TICKET what is
 * under way; lasts through a restart STATE/code/objects/AB/HASH                    pieces of files
 *   STATE/code/versions/VERSION                   manifests
 *   STATE/code/here/VERSION                       unpacked, for all nodes on this disk
 *
 * What a peer says is hostile until checked: paths stay below their folder, links are kept and
 * never followed, counts and sizes are bounded, memory is bounded for each peer and in all, and
 * peers are served in turn. A full disk makes nodes wait; nothing is lost, and the loop is told
 * once.
 *
 * depot_* are called from the loop's thread. None of them blocks, but start and stop.
 */
#ifndef MASTER_DEPOT_H
#define MASTER_DEPOT_H

#include "wire/bulk.h"
#include "wire/door.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct depot;

struct depot_options {
    void *zmq_context; /* with a door_guard */
    const char *host;  /* to listen on, as for door_bind */
    uint16_t port;     /* 0: any free one */
    bool port_is_wish; /* if the port is taken, any free one will do */
    const struct door_keys *keys;
    const char *state_folder;  /* absolute, exists */
    uint64_t output_bytes_max; /* of one output or checkpoint; 0: 1 TiB */
};

/* Copies what it needs. ERR_EXISTS: the port is taken. */
MUST_USE enum err_code depot_start(const struct depot_options *options, struct depot **out,
                                   struct err *err);
void depot_stop(struct depot *depot); /* NULL does nothing */
uint16_t depot_port(const struct depot *depot);

/* A workflow that nodes may send for: at its submission, and for each live one at the start. The
 * names are those of its experiments, by their index. Everything is copied. Known again: replaced.
 */
struct depot_flow {
    uint32_t number;
    const char *folder; /* absolute */
    const char *const *experiments;
    size_t experiment_count;
};
void depot_flow(struct depot *depot, const struct depot_flow *flow);
/* Nothing more is taken or given for it; what was under way is refused and removed. */
void depot_end_flow(struct depot *depot, uint32_t number);

/* --- questions and news ---------------------------------------------------------------------- */

enum depot_ask {
    DEPOT_WRITE_LOG, /* may the node write for this attempt? Only if the attempt is live there, or
                        its */
    DEPOT_WRITE_OUTPUT, /* end is not settled yet; ERR_STALE otherwise */
    DEPOT_WRITE_CHECKPOINT,
    DEPOT_READ_CHECKPOINT, /* of the attempt's task; is the attempt live there? */
    DEPOT_READ_OUTPUTS,    /* of `name`, an experiment that the attempt's depends on */
    DEPOT_READ_CODE,       /* version `name`: is this a node of ours? */
};

enum depot_event_kind {
    DEPOT_QUESTION, /* to be answered by depot_answer; stays open as long as need be */
    DEPOT_HTTP,     /* the reply to a request given by depot_post_http */
    DEPOT_TROUBLE,  /* text: uploads wait (the disk is full) */
    DEPOT_RECOVERED,
};

/* Texts are never NULL, and valid until the next depot_next. */
struct depot_event {
    enum depot_event_kind kind;
    uint64_t number; /* of the question; the id of the HTTP request */

    enum depot_ask ask;
    const char *key;        /* the node's */
    struct bulk_attempt id; /* all 0 with READ_CODE */
    const char *name;

    int status; /* HTTP; the body is JSON or problem+json, as content_type says */
    const char *content_type;
    const char *body;
    size_t body_size;

    const char *text;
};

/* The socket to poll (ZMQ_POLLIN), and the next event if there is one. */
void *depot_socket(const struct depot *depot);
bool depot_next(struct depot *depot, struct depot_event *out);

/* verdict: ERR_OK: yes; ERR_STALE, ERR_DENIED, ERR_NOT_FOUND: no, for good; ERR_AGAIN: not known
 * yet (the attempt's facts are not durable, the node has not said Hello): it will ask again in a
 * moment. why is for people, or NULL. log_limit_bytes bounds WRITE_LOG; 0: none.
 * checkpoint is the number of the checkpoint's folder: the task's, or for the rungs of a trial one
 * that they share, of which a later task's is the newer. */
void depot_answer(struct depot *depot, uint64_t question, enum err_code verdict, const char *why,
                  uint64_t log_limit_bytes, uint64_t checkpoint);

/* The node was revoked or has left for good: whatever it had under way is dropped, whatever it says
 * is refused until depot_welcome_node. */
void depot_forget_node(struct depot *depot, const char *key);
void depot_welcome_node(struct depot *depot, const char *key);

/* --- HTTP: /api/v1/code/ --------------------------------------------------------------------- */

/* A request whose path (after "/api/v1") begins with "/code/", from someone with the role `user`.
 * It is answered by one DEPOT_HTTP event with its id. When the depot's thread is done with the
 * body, it calls release(owner) in that thread: so a body of megabytes is moved, not copied.
 *
 *   POST /code/missing        ["HASH",...] -> {"missing":["HASH",...]}     (at most 65,536)
 *   PUT  /code/objects/HASH   the bytes, at most CODE_CHUNK_BYTES -> 204
 *   PUT  /code/pack           "HASH SIZE\n" and the bytes, again and again -> {"objects":N}
 *   POST /code/versions       a manifest (wire/manifest.h) ->
 * {"version":"HASH","files":N,"bytes":N}; 409 {...,"missing":[...]} if objects are not here GET
 * /code/versions/HASH  the manifest (text/plain), 404
 */
struct depot_request {
    uint64_t id;
    const char *method;
    const char *path; /* "/code/missing" */
    const void *body;
    size_t body_size;
    void (*release)(void *owner);
    void *owner;
};
void depot_post_http(struct depot *depot, const struct depot_request *request);

/* Whether the version is in the store; a look at the disk. Any thread. */
bool depot_has_code(const char *state_folder, const char *version);

/* Versions that live or resumable workflows need: others that are older than a day, and objects of
 * none, are removed, a little at a time. Call it rarely (at the start, then daily). */
void depot_keep_code(struct depot *depot, const char *const *versions, size_t count);

/* --- counters -------------------------------------------------------------------------------- */

struct depot_counts {
    uint64_t bytes_in; /* content, of nodes */
    uint64_t bytes_out;
    uint64_t uploads;   /* put in place: outputs, checkpoints, finished logs */
    uint64_t downloads; /* fully acknowledged */
    uint64_t refused;   /* by the loop's verdict */
    uint64_t bad;       /* messages that were malformed or out of place */
    uint64_t open;      /* transfers under way now */
    uint64_t peers;     /* with something under way, or heard of in the last minutes */
};
/* As of the last event or a second ago at most. */
void depot_counts(const struct depot *depot, struct depot_counts *out);

#endif
