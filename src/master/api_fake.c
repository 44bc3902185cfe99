#include "master/api_fake.h"

#include "base/io.h"
#include "base/mem.h"
#include "master/series.h"
#include "master/spec.h"
#include "recipe/recipe.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, TICKS_MAX = 100000 };

struct server {
    struct fake *fake;
    struct core *core;
    struct core_out out;
    struct flow **flows;
    size_t flow_count;
    size_t flow_cap;
    struct herd herd;
    struct herd_node *nodes[NODES];
    int64_t now_ms;
    struct core_effect *starts; /* not yet ended */
    size_t start_count;
    size_t start_cap;
};

/* --- server.h -------------------------------------------------------------------------------- */

const struct core *server_core(const struct server *server)
{
    return server->core;
}

int64_t server_now_ms(const struct server *server)
{
    return server->now_ms;
}

int64_t server_began_ms(const struct server *server)
{
    (void)server;
    return 1000;
}

const char *server_folder(const struct server *server)
{
    return server->fake->folder;
}

size_t server_flow_count(const struct server *server)
{
    return server->flow_count;
}

const struct flow *server_flow(const struct server *server, uint32_t number)
{
    return number >= 1 && number <= server->flow_count ? server->flows[number - 1] : NULL;
}

const struct flow *server_find_flow(const struct server *server, const char *id)
{
    if (!id || !id[0]) {
        return server_flow(server, (uint32_t)server->flow_count);
    }
    for (size_t i = 0; i < server->flow_count; i++) {
        if (strcmp(server->flows[i]->id, id) == 0) {
            return server->flows[i];
        }
    }
    char *end = NULL;
    unsigned long number = strtoul(id, &end, 10);
    return *end == '\0' && number <= UINT32_MAX ? server_flow(server, (uint32_t)number) : NULL;
}

const struct herd *server_herd(const struct server *server)
{
    return &server->herd;
}

void server_counts(const struct server *server, struct server_counts *out)
{
    *out =
        (struct server_counts){.accepted = 5, .facts = core_last_fact(server->core), .trouble = ""};
}

/* Facts are durable when made. */
static void settle(struct server *server)
{
    for (size_t i = 0; i < server->out.effect_count; i++) {
        const struct core_effect *effect = &server->out.effects[i];
        if (effect->kind == EFFECT_START) {
            VEC_PUSH(server->starts, server->start_count, server->start_cap) = *effect;
        }
    }
    core_out_clear(&server->out);
}

enum err_code server_submit(struct server *server, const struct server_submit *submit,
                            uint32_t *number, uint64_t *after, struct diag_list *diags,
                            struct err *err)
{
    struct recipe *recipe = recipe_parse(submit->file, submit->recipe, submit->recipe_size,
                                         submit->sets, submit->set_count, diags);
    if (!recipe) {
        return err_set(err, ERR_INVALID, "%s: the recipe has mistakes", submit->file);
    }
    for (size_t i = 0; submit->key[0] && i < server->flow_count; i++) {
        if (strcmp(server->flows[i]->key, submit->key) == 0) {
            bool same = strcmp(server->flows[i]->recipe->flat, recipe->flat) == 0;
            *number = (uint32_t)i + 1;
            recipe_destroy(recipe);
            return same ? ERR_OK : err_set(err, ERR_EXISTS, "another recipe has this key");
        }
    }
    struct flow *flow = mem_alloc(sizeof *flow);
    struct str id = {0};
    struct str folder = {0};
    flow->number = (uint32_t)server->flow_count + 1;
    str_addf(&id, "%s-%u", recipe->name, flow->number);
    str_addf(&folder, "%s/workflows/%s", server->fake->folder, str_text(&id));
    flow->id = str_take(&id);
    flow->folder = str_take(&folder);
    flow->key = mem_strdup(submit->key);
    flow->owner = mem_strdup(submit->owner);
    flow->recipe = recipe;
    flow->seed = submit->seed ? *submit->seed : 7;
    flow->created_ms = server->now_ms;
    VEC_PUSH(server->flows, server->flow_count, server->flow_cap) = flow;
    spec_define(server->core, flow->number, recipe, flow->seed, submit->ignore_hardware);
    core_submit(server->core, flow->number, server->now_ms, &server->out);
    settle(server);
    *number = flow->number;
    *after = core_last_fact(server->core);
    return ERR_OK;
}

void server_cancel(struct server *server, uint32_t workflow, uint64_t *after)
{
    core_cancel(server->core, workflow, server->now_ms, &server->out);
    settle(server);
    *after = core_last_fact(server->core);
}

bool server_cancel_task(struct server *server, uint32_t workflow, uint32_t experiment,
                        uint64_t task, uint64_t *after)
{
    bool done =
        core_cancel_task(server->core, workflow, experiment, task, server->now_ms, &server->out);
    settle(server);
    *after = core_last_fact(server->core);
    return done;
}

uint64_t server_retry(struct server *server, uint32_t workflow, uint64_t *after)
{
    uint64_t count = core_retry(server->core, workflow, server->now_ms, &server->out);
    settle(server);
    *after = core_last_fact(server->core);
    return count;
}

bool server_retry_task(struct server *server, uint32_t workflow, uint32_t experiment, uint64_t task,
                       uint64_t *after)
{
    bool done =
        core_retry_task(server->core, workflow, experiment, task, server->now_ms, &server->out);
    settle(server);
    *after = core_last_fact(server->core);
    return done;
}

void server_drain(struct server *server, uint32_t node, enum core_drain drain)
{
    server->nodes[node]->drain = drain;
    core_node_drain(server->core, node, drain, server->now_ms, &server->out);
    settle(server);
}

void server_revoke(struct server *server, uint32_t node, uint64_t *after)
{
    server->nodes[node]->state = HERD_REVOKED;
    core_node_lost(server->core, node, true, server->now_ms, &server->out);
    settle(server);
    *after = core_last_fact(server->core);
}

enum err_code server_rotate_join(struct server *server, bool revoke, struct str *url,
                                 struct err *err)
{
    (void)revoke, (void)err;
    str_addf(url, "drover://join/%llu", (unsigned long long)++server->fake->rotations);
    return ERR_OK;
}

void server_put_document(struct server *server, const char *name, const void *bytes, size_t size)
{
    CHECK(strcmp(name, "tokens") == 0);
    str_clear(&server->fake->tokens_document);
    str_add_bytes(&server->fake->tokens_document, bytes, size);
    server->fake->has_tokens = true;
}

enum err_code server_get_document(struct server *server, const char *name, struct str *out,
                                  struct err *err)
{
    if (!server->fake->has_tokens) {
        return err_set(err, ERR_NOT_FOUND, "%s: no such document", name);
    }
    str_add_bytes(out, str_text(&server->fake->tokens_document),
                  server->fake->tokens_document.size);
    return ERR_OK;
}

void server_reply(struct server *server, uint64_t request, const struct http_reply *reply,
                  uint64_t after)
{
    struct fake *fake = server->fake;
    CHECK(after <= core_last_fact(server->core));
    CHECK(!after || (!reply->file && !reply->stream));
    struct fake_reply kept = {
        .id = request,
        .status = reply->status,
        .type = mem_strdup(reply->content_type ? reply->content_type : "application/json"),
        .body = mem_strndup(reply->body, reply->body_size),
        .body_size = reply->body_size,
        .location = mem_strdup(reply->location ? reply->location : ""),
        .file = reply->file ? mem_strdup(reply->file) : NULL,
        .file_offset = reply->file_offset,
        .file_size = reply->file_size,
        .stream = reply->stream,
    };
    VEC_PUSH(fake->replies, fake->reply_count, fake->reply_cap) = kept;
}

struct http *server_http(const struct server *server)
{
    return (struct http *)server->fake;
}

struct series *server_series(const struct server *server)
{
    (void)server;
    return NULL;
}

enum err_code series_read(struct series *series, const struct series_who *who,
                          const struct series_span *span, struct series_point *out, size_t *count,
                          struct err *err)
{
    (void)series, (void)who, (void)span, (void)out, (void)err;
    *count = 0;
    return ERR_OK;
}

void server_post_code(struct server *server, struct http_request *request)
{
    struct http_reply reply = {.status = 200, .body = "{}", .body_size = 2};
    server->fake->code_requests++;
    server_reply(server, request->id, &reply, 0);
    http_request_free(request);
}

/* --- http.h ---------------------------------------------------------------------------------- */

static struct fake_reply *find_reply(const struct fake *fake, uint64_t id)
{
    for (size_t i = 0; i < fake->reply_count; i++) {
        if (fake->replies[i].id == id) {
            return &fake->replies[i];
        }
    }
    return NULL;
}

void http_push(struct http *http, uint64_t id, const void *bytes, size_t size)
{
    struct fake_reply *reply = find_reply((struct fake *)http, id);
    CHECK(reply && reply->stream && !reply->closed);
    str_add_bytes(&reply->pushed, bytes, size);
}

void http_close_stream(struct http *http, uint64_t id)
{
    struct fake_reply *reply = find_reply((struct fake *)http, id);
    CHECK(reply && reply->stream && !reply->closed);
    reply->closed = true;
}

void http_counts(const struct http *http, struct http_counts *out)
{
    (void)http;
    *out = (struct http_counts){.requests = 3};
}

void http_request_free(struct http_request *request)
{
    free((void *)request->body);
    free(request);
}

/* --- the test's side ------------------------------------------------------------------------- */

static void add_node(struct server *server, uint32_t number, const char *name)
{
    struct herd_node *node = mem_alloc(sizeof *node);
    node->number = number;
    node->name = mem_strdup(name);
    node->version = mem_strdup("1");
    node->state = HERD_HERE;
    snprintf(node->key, sizeof node->key, "key of %s", name);
    node->capacity = (struct core_resources){.cpu_milli = 4000, .memory_bytes = 1 << 30};
    node->labels[0] = mem_strdup("zone=a");
    node->label_count = 1;
    node->joined_ms = node->heard_ms = node->here_since_ms = server->now_ms;
    server->nodes[number] = node;
}

static void join_nodes(struct server *server)
{
    for (uint32_t n = 1; n < NODES; n++) {
        struct core_node_spec spec = {.capacity = server->nodes[n]->capacity};
        core_node_join(server->core, n, &spec, server->now_ms, &server->out);
    }
    settle(server);
}

struct fake *fake_create(void)
{
    struct fake *fake = mem_alloc(sizeof *fake);
    struct server *server = mem_alloc(sizeof *server);
    struct err err = {0};
    snprintf(fake->folder, sizeof fake->folder, "/tmp/drover-api-XXXXXX");
    CHECK(mkdtemp(fake->folder));
    fake->server = server;
    server->fake = fake;
    server->now_ms = 1700000000000;
    server->core = core_create();
    add_node(server, 0, "old");
    server->nodes[0]->state = HERD_LEFT;
    add_node(server, 1, "ant");
    add_node(server, 2, "bee");
    server->herd = (struct herd){.nodes = server->nodes, .count = NODES};
    core_begin_term(server->core, CORE_NODES_AWAY, server->now_ms, &server->out);
    join_nodes(server);
    CHECK(api_create(server, &fake->api, &err) == ERR_OK);
    return fake;
}

void fake_restart(struct fake *fake)
{
    struct err err = {0};
    api_destroy(fake->api);
    core_begin_term(fake->server->core, CORE_NODES_AWAY, fake->server->now_ms, &fake->server->out);
    join_nodes(fake->server);
    CHECK(api_create(fake->server, &fake->api, &err) == ERR_OK);
}

void fake_forget(struct fake *fake)
{
    for (size_t i = 0; i < fake->reply_count; i++) {
        struct fake_reply *reply = &fake->replies[i];
        free(reply->type);
        free(reply->body);
        free(reply->location);
        free(reply->file);
        str_release(&reply->pushed);
    }
    fake->reply_count = 0;
}

void fake_destroy(struct fake *fake)
{
    struct server *server = fake->server;
    api_destroy(fake->api);
    fake_forget(fake);
    for (size_t i = 0; i < server->flow_count; i++) {
        struct flow *flow = server->flows[i];
        recipe_destroy(flow->recipe);
        free(flow->id);
        free(flow->folder);
        free(flow->key);
        free(flow->owner);
        free(flow);
    }
    for (size_t n = 0; n < NODES; n++) {
        if (server->nodes[n]) {
            free(server->nodes[n]->name);
            free(server->nodes[n]->version);
            free(server->nodes[n]->labels[0]);
            free(server->nodes[n]);
        }
    }
    CHECK(io_remove_tree(fake->folder, NULL) == ERR_OK);
    core_out_release(&server->out);
    core_destroy(server->core);
    free(server->flows);
    free(server->starts);
    free(server);
    free(fake->replies);
    str_release(&fake->tokens_document);
    free(fake);
}

const char *fake_admin_token(const struct fake *fake)
{
    static char token[128]; /* of the newest fake alone; tests have one */
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    str_addf(&path, "%s/admin.token", fake->folder);
    token[0] = '\0';
    if (io_read_file(str_text(&path), sizeof token - 1, &text, NULL) == ERR_OK) {
        snprintf(token, sizeof token, "%.*s", (int)strcspn(str_text(&text), "\n"), str_text(&text));
    }
    return token;
}

const struct fake_reply *fake_find(const struct fake *fake, uint64_t id)
{
    return find_reply(fake, id);
}

size_t fake_count_replies(const struct fake *fake, uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < fake->reply_count; i++) {
        count += fake->replies[i].id == id;
    }
    return count;
}

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

const struct fake_reply *fake_ask(struct fake *fake, const struct fake_request *from)
{
    struct http_request *request = mem_alloc(sizeof *request);
    size_t size = from->body_size ? from->body_size : strlen(or_empty(from->body));
    uint64_t id = ++fake->next_id;
    *request = (struct http_request){
        .id = id,
        .method = from->method,
        .path = from->path,
        .query = or_empty(from->query),
        .token = from->token ? from->token : fake_admin_token(fake),
        .content_type = or_empty(from->content_type),
        .accept = or_empty(from->accept),
        .last_event_id = or_empty(from->last_event_id),
        .idempotency_key = or_empty(from->key),
        .peer = "127.0.0.1",
        .body = mem_strndup(or_empty(from->body), size),
        .body_size = size,
    };
    api_answer(fake->api, request);
    for (int i = 0; i < TICKS_MAX && !find_reply(fake, id); i++) {
        CHECK(api_next_due_ms(fake->api) <= fake->server->now_ms); /* or it would wait for ever */
        api_tick(fake->api);
    }
    const struct fake_reply *reply = find_reply(fake, id);
    CHECK(reply);
    CHECK(fake_count_replies(fake, id) == 1);
    return reply;
}

const struct fake_reply *fake_get(struct fake *fake, const char *path, const char *query)
{
    return fake_ask(fake, &(struct fake_request){.method = "GET", .path = path, .query = query});
}

void fake_pass_ms(struct fake *fake, int64_t ms)
{
    struct server *server = fake->server;
    server->now_ms += ms;
    if (core_next_due_ms(server->core) <= server->now_ms) {
        core_tick(server->core, server->now_ms, &server->out);
        settle(server);
    }
    api_tick(fake->api);
}

void fake_tell(struct fake *fake, const struct server_event *event)
{
    api_event(fake->api, event);
}

struct herd_node *fake_node(struct fake *fake, uint32_t number)
{
    return fake->server->nodes[number];
}

static void end_one(struct fake *fake, const struct core_effect *start, uint32_t exit_code)
{
    struct server *server = fake->server;
    struct core_result result = {.outcome = OUT_EXITED,
                                 .code = exit_code,
                                 .started_ms = server->now_ms,
                                 .duration_us = 5000};
    struct core_task_view view;
    core_task_running(server->core, &start->id, server->now_ms, server->now_ms);
    core_task_ended(server->core, start->node, &start->id, &result, server->now_ms, &server->out);
    settle(server);
    core_task_view(server->core, start->id.workflow, start->id.experiment, start->id.task, &view);
    struct server_event event = {.kind = "task",
                                 .workflow = start->id.workflow,
                                 .experiment = start->id.experiment,
                                 .task = start->id.task,
                                 .attempt = start->id.attempt,
                                 .node = start->node,
                                 .state = view.state,
                                 .outcome = OUT_EXITED,
                                 .code = exit_code,
                                 .at_ms = server->now_ms};
    api_event(fake->api, &event);
}

uint64_t fake_work(struct fake *fake, uint64_t count, uint32_t exit_code)
{
    struct server *server = fake->server;
    uint64_t ended = 0;
    while (ended < count && server->start_count > 0) {
        struct core_effect start = server->starts[0];
        memmove(server->starts, server->starts + 1, --server->start_count * sizeof *server->starts);
        end_one(fake, &start, exit_code);
        ended++;
    }
    return ended;
}
