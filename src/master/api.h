/* api.h - the inside of the HTTP API: one table of routes, and what their functions share.
 *
 * api_routes is the only list: requests are matched against it, checked against its roles and
 * parameters, and the OpenAPI document is written from it, so the three cannot differ. A route's
 * function answers exactly once, now (api_reply and its like) or later (api_later).
 *
 * Private to api*.c and openapi*.c. Everything runs in the server's loop.
 */
#ifndef MASTER_API_H
#define MASTER_API_H

#include "base/arena.h"
#include "base/json.h"
#include "master/server.h"
#include "master/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define API_BASE "/api/v1"

enum {
    API_CAPTURES_MAX = 3,   /* {…} in a pattern */
    API_QUERY_MAX = 1100,   /* parameters of a request */
    API_PAGE_DEFAULT = 100, /* items of a page */
    API_PAGE_MAX = 1000,
    API_PAGE_BYTES = 4 << 20, /* a page ends early when it is this large */
    API_SCAN_MAX = 20000,     /* tasks looked at for one page */
    API_LOG_BYTES_MAX = 64 << 20,
    API_STREAMS_MAX = 256,  /* of events, and as many of logs */
    API_SEARCHES_MAX = 16,  /* at a time */
    API_EVENTS_MAX = 20000, /* kept for those who come back */
};

/* --- routes ---------------------------------------------------------------------------------- */

enum api_type {
    API_TEXT,
    API_NUMBER, /* least..most */
    API_FLAG,   /* 1, true, or nothing at all; 0, false */
    API_WORD,   /* one of `words` */
    API_TIME,   /* RFC 3339, UTC */
};

struct api_param {
    const char *name;
    enum api_type type;
    const char *words; /* "soft hard off" */
    uint64_t least;
    uint64_t most;
    bool repeats;
    const char *about;
};

struct api_call;
typedef void (*api_fn)(struct api_call *call);

struct api_route {
    const char *method;
    const char *pattern;  /* "/api/v1/workflows/{workflow}" */
    enum token_role role; /* TOKEN_NONE: anyone */
    api_fn answer;
    const char *id; /* operationId: "listTasks" */
    const char *summary;
    const struct api_param *const *params; /* of the query; NULL-terminated; NULL: none */
    const char *body;                      /* schema of the request's body, or NULL: none is read */
    int status;                            /* of the good answer */
    const char *schema;                    /* of the good answer; NULL: not JSON */
    bool is_list;                          /* {"items": [schema...], "next": cursor or null} */
    const char *type;                      /* of the good answer where it is not JSON */
    const char *stream;                    /* what its event stream sends, or NULL: it has none */
    bool takes_key;                        /* Idempotency-Key */
};

extern const struct api_route api_routes[];
extern const size_t api_route_count;

/* True if path matches the pattern; the values of {…} are copied to captures, in the arena. */
bool api_match(const char *pattern, const char *path, struct arena *arena,
               const char *captures[API_CAPTURES_MAX]);

/* The OpenAPI 3.1 document of the table. */
void openapi_write(struct str *out);

/* --- a request being answered ---------------------------------------------------------------- */

struct api_pair {
    const char *key;
    const char *value;
};

struct api_call {
    struct api *api;
    struct server *server;
    struct http_request *request; /* NULL once somebody else has it (api_give_away) */
    const struct api_route *route;
    const struct token *token; /* whose; NULL where none is needed */
    const char *captures[API_CAPTURES_MAX];
    struct api_pair *query; /* decoded and checked */
    size_t query_count;
    struct arena arena; /* for the time of the call */
    bool answered;
};

/* Splits and decodes a query; false with a text for the user. */
bool api_read_query(struct api_call *call, const char *query, struct err *err);
/* Every parameter is one of the route's, and has its type; else false with a text for the user. */
bool api_check_query(const struct api_call *call, struct err *err);

/* Parameters by name; they have been checked. Texts are "" when missing. */
const char *api_text(const struct api_call *call, const char *name);
uint64_t api_number(const struct api_call *call, const char *name, uint64_t otherwise);
bool api_flag(const struct api_call *call, const char *name);
int64_t api_time(const struct api_call *call, const char *name, int64_t otherwise);
bool api_has(const struct api_call *call, const char *name);

bool api_read_u64(const char *text, uint64_t *out); /* decimal digits alone */
bool api_read_time(const char *text, int64_t *unix_ms);

/* Answers. `after` is the fact that must be durable first. */
void api_reply(struct api_call *call, const struct http_reply *reply, uint64_t after);
void api_reply_json(struct api_call *call, const struct str *body, uint64_t after);
/* application/problem+json. */
void api_fail(struct api_call *call, int status, const char *format, ...) PRINTF_LIKE(3, 4);
/* 405: "GET, POST" would be possible. */
void api_fail_method(struct api_call *call, const char *methods);
/* The body of a problem; diags may be NULL. */
void api_problem_json(struct str *out, int status, const char *detail,
                      const struct diag_list *diags);
/* Somebody else will answer this request by server_reply. */
void api_later(struct api_call *call);
/* And has the request itself, too. */
struct http_request *api_give_away(struct api_call *call);

/* The workflow, task or node that the path names; false: it was answered with 404. */
struct api_task {
    const struct flow *flow;
    uint32_t experiment;
    uint64_t index;
    struct core_task_view view;
};
const struct flow *api_find_flow(struct api_call *call);
bool api_find_task(struct api_call *call, struct api_task *out);
const struct herd_node *api_find_node(struct api_call *call);

/* The name of a node, or NULL. */
const char *api_node_name(const struct server *server, uint32_t number);

/* --- pages ----------------------------------------------------------------------------------- */

/* {"items":[...],"next":...}: api_page_begin, items into page.json, api_page_end. */
struct api_page {
    struct str body;
    struct json json;
    size_t count;
    size_t limit;
};
void api_page_begin(struct api_page *page, const struct api_call *call);
bool api_page_is_full(const struct api_page *page);
/* next "" is null. Replies and frees. */
void api_page_end(struct api_page *page, struct api_call *call, const char *next);

/* --- events, logs, searches ------------------------------------------------------------------ */

/* How much a stream may be sent: what its reader can take without being cut off by the server. */
struct api_budget {
    int64_t bytes;
    int64_t at_ms;
};
void api_budget_fill(struct api_budget *budget, int64_t now_ms);

struct api_events;
struct api_events *api_events_create(struct server *server);
void api_events_destroy(struct api_events *events);
void api_events_add(struct api_events *events, const struct server_event *event);
void api_events_tick(struct api_events *events, int64_t now_ms);
int64_t api_events_due_ms(const struct api_events *events);
void api_events_closed(struct api_events *events, uint64_t id); /* not ours: nothing */
size_t api_events_stream_count(const struct api_events *events);
uint64_t api_events_last_id(const struct api_events *events);

struct api_follows;
struct api_follows *api_follows_create(struct server *server);
void api_follows_destroy(struct api_follows *follows);
void api_follows_event(struct api_follows *follows, const struct server_event *event);
void api_follows_tick(struct api_follows *follows, int64_t now_ms);
int64_t api_follows_due_ms(const struct api_follows *follows);
void api_follows_closed(struct api_follows *follows, uint64_t id);

struct api_searches;
struct api_searches *api_searches_create(struct server *server);
void api_searches_destroy(struct api_searches *searches);
void api_searches_tick(struct api_searches *searches);
int64_t api_searches_due_ms(const struct api_searches *searches);

struct api {
    struct server *server;
    struct tokens tokens;
    struct str openapi; /* written once, when first asked for */
    struct api_events *events;
    struct api_follows *follows;
    struct api_searches *searches;
    uint64_t requests;
    uint64_t denied; /* no token, an unknown one, or one that may not */
};

/* Writes down the tokens; durable before `after` it returns. */
uint64_t api_save_tokens(struct api *api);

/* --- the functions of the table -------------------------------------------------------------- */

void api_get_health(struct api_call *call);
void api_get_openapi(struct api_call *call);
void api_get_server(struct api_call *call);
void api_get_metrics(struct api_call *call);
void api_rotate_join(struct api_call *call);

void api_submit(struct api_call *call);
void api_list_workflows(struct api_call *call);
void api_get_workflow(struct api_call *call);
void api_get_recipe(struct api_call *call);
void api_cancel_workflow(struct api_call *call);
void api_retry_workflow(struct api_call *call);

void api_list_tasks(struct api_call *call);
void api_get_task(struct api_call *call);
void api_cancel_task(struct api_call *call);
void api_retry_task(struct api_call *call);

void api_list_trials(struct api_call *call);
void api_get_plan(struct api_call *call);

void api_get_log(struct api_call *call);
void api_search_logs(struct api_call *call);

void api_list_nodes(struct api_call *call);
void api_get_node(struct api_call *call);
void api_drain_node(struct api_call *call);
void api_revoke_node(struct api_call *call);

void api_get_events(struct api_call *call);
void api_get_usage(struct api_call *call);
void api_post_code(struct api_call *call);

void api_list_tokens(struct api_call *call);
void api_make_token(struct api_call *call);
void api_remove_token(struct api_call *call);

#endif
