/* server.h - the inside of `drover serve`, as the parts that live in its loop see it: the HTTP API,
 * the herd of nodes, the webhooks. Private to src/master. All of it runs in the loop's one thread.
 *
 * Times are the loop's clock (unix ms that never goes back).
 */
#ifndef MASTER_SERVER_H
#define MASTER_SERVER_H

#include "core/core.h"
#include "http/http.h"
#include "master/flow.h"
#include "master/herd.h"
#include "master/master.h"
#include "recipe/diag.h"

/* --- looking --------------------------------------------------------------------------------- */

int64_t server_now_ms(const struct server *server);
int64_t server_began_ms(const struct server *server);
const char *server_folder(const struct server *server);

size_t server_flow_count(const struct server *server); /* numbers 1..count */
const struct flow *server_flow(const struct server *server, uint32_t number);
/* By id, by number in decimal, or NULL or "": the newest. NULL: there is none. */
const struct flow *server_find_flow(const struct server *server, const char *id);

const struct herd *server_herd(const struct server *server);

struct server_counts {
    uint64_t accepted;     /* results, since the start */
    uint64_t refused;      /* stale results */
    uint64_t bad_messages; /* from nodes: malformed */
    uint64_t strangers;    /* messages of no session, or of an old one */
    uint64_t denied;       /* joins and handshakes */
    uint64_t facts;        /* decided since the start */
    uint64_t unsafe_facts; /* not yet durable */
    bool paused;           /* nothing new is started (disk full, store failing) */
    const char *trouble;   /* why, or "" */
};
void server_counts(const struct server *server, struct server_counts *out);

/* --- acting ---------------------------------------------------------------------------------- */
/* Each gives in *after the number of the fact that must be durable before the reply may go out
 * (0: none). */

struct server_submit {
    const char *recipe; /* YAML or JSON text */
    size_t recipe_size;
    const char *file;   /* its name, for messages */
    const char *folder; /* where commands run, absolute; used when there is no code */
    const char *code;   /* version of synced code, or "" */
    const char *const *sets;
    size_t set_count;
    const uint64_t *seed;
    const char *key; /* idempotency key, or ""; a second submit with it answers the first's flow */
    const char *owner;
    const char *volumes; /* where those are that the recipe knows by name (stores.h); NULL: none */
    bool ignore_hardware;
    bool no_containers;
};

/* ERR_INVALID: the recipe (diags says where) or an option. ERR_EXISTS: the key was used for another
 * recipe. Otherwise *number is the new workflow, or the one of the same key. */
MUST_USE enum err_code server_submit(struct server *server, const struct server_submit *submit,
                                     uint32_t *number, uint64_t *after, struct diag_list *diags,
                                     struct err *err);
void server_cancel(struct server *server, uint32_t workflow, uint64_t *after);
bool server_cancel_task(struct server *server, uint32_t workflow, uint32_t experiment,
                        uint64_t task, uint64_t *after);
uint64_t server_retry(struct server *server, uint32_t workflow, uint64_t *after);
bool server_retry_task(struct server *server, uint32_t workflow, uint32_t experiment, uint64_t task,
                       uint64_t *after);
/* Nodes by number. */
void server_drain(struct server *server, uint32_t node, enum core_drain drain);
void server_revoke(struct server *server, uint32_t node, uint64_t *after);

/* Writes a new join URL to FOLDER/join.url and appends it to url. The old one stays good until its
 * time is over, unless `revoke`. */
MUST_USE enum err_code server_rotate_join(struct server *server, bool revoke, struct str *url,
                                          struct err *err);

/* A request below /api/v1/code/ from someone who may: the code store answers it, later, and the
 * request is no longer the caller's. */
void server_post_code(struct server *server, struct http_request *request);

/* What nodes and tasks used, or NULL. */
struct series *server_series(const struct server *server);

/* A small document of the store, kept with the facts: posted now, durable with `after`. */
void server_put_document(struct server *server, const char *name, const void *bytes, size_t size);
/* As it was when the server started; ERR_NOT_FOUND. Only while starting. */
MUST_USE enum err_code server_get_document(struct server *server, const char *name, struct str *out,
                                           struct err *err);

/* Replies once `after` is durable (at once if it is). The body is copied. */
void server_reply(struct server *server, uint64_t request, const struct http_reply *reply,
                  uint64_t after);
struct http *server_http(const struct server *server);

/* --- events ---------------------------------------------------------------------------------- */

/* Something people may want to see happened, and is durable. Called by the server; implemented by
 * the API, which keeps the last ones and feeds the streams. `number` grows by one each. */
struct server_event {
    const char *kind;  /* "task", "experiment", "workflow", "node", "note" */
    uint32_t workflow; /* 0: none */
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    uint32_t node; /* task, node */
    enum core_task_state state;
    enum core_outcome outcome;
    uint32_t code;
    const char *text; /* detail, note, node state */
    int64_t at_ms;
};

struct api;
/* Reads the tokens (or makes the first, admin's, and writes FOLDER/admin.token). */
MUST_USE enum err_code api_create(struct server *server, struct api **out, struct err *err);
void api_destroy(struct api *api);
/* Answers a request, now or later, by server_reply; frees it. */
void api_answer(struct api *api, struct http_request *request);
void api_event(struct api *api, const struct server_event *event);
/* Once a second, and when api_next_due_ms says so: keep-alives of streams, logs that are followed,
 * the next slice of a search. Never takes longer than about 20 ms. */
void api_tick(struct api *api);
/* When api_tick has something to do before its second is over, or INT64_MAX. */
int64_t api_next_due_ms(const struct api *api);

#endif
