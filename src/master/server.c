/* server.c - what the API and the commands ask of the loop: submitting, cancelling, looking. */
#include "master/server.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/hunt.h"
#include "master/outputs.h"
#include "master/server_state.h"
#include "master/spec.h"
#include "recipe/files.h"

#include <stdlib.h>
#include <string.h>

/* --- looking ------------------------------------------------------------------------------------
 */

const char *server_folder(const struct server *server)
{
    return server->session->folder;
}

size_t server_flow_count(const struct server *server)
{
    return server->session->flow_count;
}

const struct flow *server_flow(const struct server *server, uint32_t number)
{
    return number >= 1 && number <= server->session->flow_count ? server->session->flows[number - 1]
                                                                : NULL;
}

const struct flow *server_find_flow(const struct server *server, const char *id)
{
    const struct session *session = server->session;
    if (!id || id[0] == '\0') {
        return session->flow_count ? session->flows[session->flow_count - 1] : NULL;
    }
    for (size_t i = session->flow_count; i-- > 0;) {
        if (strcmp(session->flows[i]->id, id) == 0) {
            return session->flows[i];
        }
    }
    char *end = NULL;
    unsigned long number = id[0] >= '1' && id[0] <= '9' ? strtoul(id, &end, 10) : 0;
    return end && *end == '\0' && number <= session->flow_count ? session->flows[number - 1] : NULL;
}

const struct herd *server_herd(const struct server *server)
{
    return &server->herd;
}

void server_counts(const struct server *server, struct server_counts *out)
{
    *out = server->counts;
    out->facts = core_last_fact(server->core);
    out->unsafe_facts = server->carrier.posted - server->carrier.durable;
    out->denied += server->gate.guard ? door_guard_refused(server->gate.guard) : 0;
    out->paused = server->paused;
    out->trouble = server->trouble;
}

struct http *server_http(const struct server *server)
{
    return server->http;
}

/* --- documents ----------------------------------------------------------------------------------
 */

void server_put_document_first(struct server *server, const char *name, const void *bytes,
                               size_t size)
{
    struct store *store = server->session->store;
    if (store) { /* still starting: nobody else has it */
        struct err err = {0};
        if (store->ops->doc_put(store, name, bytes, size, &err) != ERR_OK && !server->broken) {
            server->broken = true;
            server->err = err;
        }
        return;
    }
    keeper_post_document(server->carrier.keeper, name, bytes, size);
    server->documents_posted++;
}

void server_put_document(struct server *server, const char *name, const void *bytes, size_t size)
{
    if (!server->session->store) {
        gate_flush(server);
        carry_flush(&server->carrier); /* in their order with the facts */
    }
    server_put_document_first(server, name, bytes, size);
}

enum err_code server_get_document(struct server *server, const char *name, struct str *out,
                                  struct err *err)
{
    CHECK(server->session->store); /* only while starting */
    return session_get_document(server->session, name, out, err);
}

/* --- replies that wait --------------------------------------------------------------------------
 */

static void free_reply(struct waiting_reply *waiting)
{
    free((void *)waiting->reply.body);
    free((void *)waiting->reply.content_type);
    free((void *)waiting->reply.location);
}

static bool may_go(const struct server *server, const struct waiting_reply *waiting)
{
    return waiting->after <= server->carrier.durable &&
           waiting->documents <= server->documents_durable;
}

void server_reply(struct server *server, uint64_t request, const struct http_reply *reply,
                  uint64_t after)
{
    struct waiting_reply waiting = {.request = request,
                                    .after = after,
                                    .documents = after ? server->documents_posted : 0,
                                    .reply = *reply};
    if (may_go(server, &waiting)) {
        http_reply(server->http, request, reply);
        return;
    }
    CHECK(!reply->file && !reply->stream);
    waiting.reply.body = mem_dup(reply->body ? reply->body : "", reply->body_size);
    waiting.reply.content_type = reply->content_type ? mem_strdup(reply->content_type) : NULL;
    waiting.reply.location = reply->location ? mem_strdup(reply->location) : NULL;
    VEC_PUSH(server->replies, server->reply_count, server->reply_cap) = waiting;
}

void server_send_replies(struct server *server)
{
    size_t kept = 0;
    for (size_t i = 0; i < server->reply_count; i++) {
        struct waiting_reply *waiting = &server->replies[i];
        if (may_go(server, waiting)) {
            http_reply(server->http, waiting->request, &waiting->reply);
            free_reply(waiting);
        } else {
            server->replies[kept++] = *waiting;
        }
    }
    server->reply_count = kept;
}

void server_drop_replies(struct server *server)
{
    for (size_t i = 0; i < server->reply_count; i++) {
        free_reply(&server->replies[i]);
    }
    free(server->replies);
    server->replies = NULL;
    server->reply_count = 0;
}

void server_tell(struct server *server, const struct server_event *event)
{
    if (server->api) {
        api_event(server->api, event);
    }
}

/* --- submitting ---------------------------------------------------------------------------------
 */

static const struct flow *flow_of_key(const struct server *server, const char *key)
{
    for (size_t i = server->session->flow_count; key[0] && i-- > 0;) {
        if (strcmp(server->session->flows[i]->key, key) == 0) {
            return server->session->flows[i];
        }
    }
    return NULL;
}

static char *make_id(const struct server *server, const char *name)
{
    struct str id = {0};
    unsigned number = 1;
    for (size_t i = 0; i < server->session->flow_count; i++) {
        number += strcmp(server->session->flows[i]->recipe->name, name) == 0;
    }
    do {
        str_clear(&id);
        str_addf(&id, "%s-%u", name, number++);
    } while (server_find_flow(server, str_text(&id)));
    return str_take(&id);
}

static struct flow *make_flow(const struct server *server, const struct server_submit *submit,
                              struct recipe *recipe)
{
    struct flow *flow = mem_alloc(sizeof *flow);
    *flow = (struct flow){.number = (uint32_t)server->session->flow_count + 1,
                          .id = make_id(server, recipe->name),
                          .has_own_folder = true,
                          .recipe_folder = mem_strdup(submit->folder),
                          .code = mem_strdup(submit->code),
                          .key = mem_strdup(submit->key),
                          .owner = mem_strdup(submit->owner),
                          .recipe = recipe,
                          .ignore_hardware = submit->ignore_hardware,
                          .no_containers = submit->no_containers,
                          .created_ms = server_now_ms(server)};
    struct str folder = {0};
    str_addf(&folder, "%s/workflows/%s", server->session->folder, flow->id);
    flow->folder = str_take(&folder);
    flow_name_folder(flow);
    flow->seed = submit->seed       ? *submit->seed
                 : recipe->has_seed ? recipe->seed
                                    : rng_seed_from_system() >> 11;
    return flow;
}

static enum err_code prepare_flow(struct server *server, struct flow *flow, const char *folder,
                                  struct diag_list *diags, struct err *err)
{
    enum err_code code = flow_check(flow, err);
    if (code == ERR_OK) {
        code = stores_check(&flow->stores, flow->recipe, diags, err);
    }
    if (code == ERR_OK) {
        code = files_expand(flow->recipe, folder, NULL, diags, err);
    }
    if (code == ERR_OK) {
        code = hunt_check(flow->recipe, flow->seed, diags, err);
    }
    if (code == ERR_OK && !server->gate.socket) {
        code = err_set(err, ERR_UNSUPPORTED, "this server takes no nodes");
    }
    if (code == ERR_OK) { /* of a submission that a crash cut off: its id was never recorded */
        code = io_remove_tree(flow->folder, err);
    }
    if (code == ERR_OK) {
        code = io_make_dirs(flow->folder, err);
    }
    if (code == ERR_OK) {
        code = files_expand(flow->recipe, folder, flow->folder, diags, err);
    }
    return code == ERR_OK ? outputs_repair(server->core, flow, OUTPUTS_NEW, err) : code;
}

void server_know_flow(struct server *server, const struct flow *flow)
{
    if (server->owners) {
        carry_need_volumes(server->owners, flow);
    }
    if (!server->depot) {
        return;
    }
    size_t count = flow->recipe->experiment_count;
    AUTO_FREE const char **names = mem_array(count, sizeof *names);
    for (size_t e = 0; e < count; e++) {
        names[e] = flow->recipe->experiments[e].name;
    }
    depot_flow(server->depot, &(struct depot_flow){.number = flow->number,
                                                   .folder = flow->folder,
                                                   .experiments = names,
                                                   .experiment_count = count});
}

static void enter_flow(struct server *server, struct flow *flow, const struct flow_source *source)
{
    AUTO_STR struct str document = {0};
    char name[SESSION_NAME_BYTES];
    flow_record(flow, source, &document);
    session_document_name(flow->number, name);
    server_put_document(server, name, str_text(&document), document.size);
    session_add_flow(server->session, flow);
    spec_define(server->core, flow->number, flow->recipe, flow->seed, flow->ignore_hardware);
    server_know_flow(server, flow);
    core_submit(server->core, flow->number, server_now_ms(server), &server->out);
    server_carry(server, NULL);
}

static enum err_code submit_source(struct server *server, const struct server_submit *submit,
                                   const struct flow_source *source, uint32_t *number,
                                   struct diag_list *diags, struct err *err)
{
    struct recipe *recipe = flow_parse(source, diags);
    diags->file = submit->file; /* outlives the source */
    if (!recipe) {
        return err_set(err, ERR_INVALID, "%s: the recipe has mistakes", submit->file);
    }
    const struct flow *former = flow_of_key(server, submit->key);
    if (former) {
        bool same = strcmp(former->recipe->flat, recipe->flat) == 0 &&
                    (!submit->seed || *submit->seed == former->seed);
        recipe_destroy(recipe);
        *number = former->number;
        return same ? ERR_OK
                    : err_set(err, ERR_EXISTS,
                              "the idempotency key was used for another recipe, %s", former->id);
    }
    struct flow *flow = make_flow(server, submit, recipe);
    enum err_code code = stores_parse(submit->volumes ? submit->volumes : "", &flow->stores, err);
    if (code == ERR_OK) {
        code = prepare_flow(server, flow, source->folder, diags, err);
    }
    if (code != ERR_OK) {
        flow_destroy(flow);
        return code;
    }
    *number = flow->number;
    enter_flow(server, flow, source);
    return ERR_OK;
}

enum err_code server_submit(struct server *server, const struct server_submit *submit,
                            uint32_t *number, uint64_t *after, struct diag_list *diags,
                            struct err *err)
{
    if (submit->code[0] && !depot_has_code(server->session->folder, submit->code)) {
        return err_set(err, ERR_INVALID, "code version %.64s is not here: sync it first",
                       submit->code);
    }
    struct flow_source source = {0};
    str_add_bytes(&source.text, submit->recipe, submit->recipe_size);
    source.file = mem_strdup(submit->file);
    source.folder = mem_strdup(submit->folder);
    enum err_code code = flow_source_set(submit->sets, submit->set_count, &source, err);
    if (code == ERR_OK) {
        code = submit_source(server, submit, &source, number, diags, err);
        *after = core_last_fact(server->core);
    }
    flow_source_release(&source);
    return code;
}

/* --- the rest ------------------------------------------------------------------------------------
 */

void server_cancel(struct server *server, uint32_t workflow, uint64_t *after)
{
    core_cancel(server->core, workflow, server_now_ms(server), &server->out);
    server_carry(server, NULL);
    *after = core_last_fact(server->core);
}

bool server_cancel_task(struct server *server, uint32_t workflow, uint32_t experiment,
                        uint64_t task, uint64_t *after)
{
    bool done = core_cancel_task(server->core, workflow, experiment, task, server_now_ms(server),
                                 &server->out);
    server_carry(server, NULL);
    *after = core_last_fact(server->core);
    return done;
}

/* It may have ended, and nodes may then no longer send for it. */
static void revive_flow(struct server *server, uint32_t workflow)
{
    struct flow *flow = server->session->flows[workflow - 1];
    hooks_revived(server, flow);
    server_know_flow(server, flow);
    hunts_revive(server, workflow);
}

uint64_t server_retry(struct server *server, uint32_t workflow, uint64_t *after)
{
    uint64_t count = core_retry(server->core, workflow, server_now_ms(server), &server->out);
    if (count > 0) {
        revive_flow(server, workflow);
    }
    server_carry(server, NULL);
    *after = core_last_fact(server->core);
    return count;
}

bool server_retry_task(struct server *server, uint32_t workflow, uint32_t experiment, uint64_t task,
                       uint64_t *after)
{
    bool done = core_retry_task(server->core, workflow, experiment, task, server_now_ms(server),
                                &server->out);
    if (done) {
        revive_flow(server, workflow);
    }
    server_carry(server, NULL);
    *after = core_last_fact(server->core);
    return done;
}

void server_drain(struct server *server, uint32_t number, enum core_drain drain)
{
    struct herd_node *node = herd_at(&server->herd, number);
    if (!node || node->drain == drain) {
        return;
    }
    node->drain = drain;
    server->gate.has_news = server->gate.socket != NULL;
    core_node_drain(server->core, number, drain, server_now_ms(server), &server->out);
    server_carry(server, NULL);
    struct server_event event = {.kind = "node",
                                 .node = number,
                                 .text = drain == CORE_DRAIN_OFF ? "open" : "draining",
                                 .at_ms = server_now_ms(server)};
    server_tell(server, &event);
}

void server_revoke(struct server *server, uint32_t number, uint64_t *after)
{
    struct herd_node *node = herd_at(&server->herd, number);
    if (node && node->key[0] && node->state != HERD_REVOKED) {
        gate_revoke(server, node);
    }
    *after = core_last_fact(server->core);
}

enum err_code server_rotate_join(struct server *server, bool revoke, struct str *url,
                                 struct err *err)
{
    enum err_code code = gate_rotate(server, revoke, err);
    gate_add_url(server, url);
    return code;
}

struct series *server_series(const struct server *server)
{
    return server->series;
}
