/* depot_answers.c - what the loop says to the depot's questions: may this node send, or have, that?
 */
#include "master/server_state.h"

#include "recipe/plan.h"

#include <stdlib.h>
#include <string.h>

static bool depends_on(const struct recipe *recipe, uint32_t experiment, const char *name)
{
    const struct experiment *from = &recipe->experiments[experiment];
    for (size_t i = 0; i < from->depends_count; i++) {
        if (strcmp(recipe->experiments[from->depends_on[i]].name, name) == 0) {
            return true;
        }
    }
    return false;
}

struct judgement {
    uint64_t log_limit_bytes;
    uint64_t checkpoint;
};

static uint64_t checkpoint_of(const struct flow *flow, const struct core_attempt *id)
{
    struct arena scratch = {0};
    struct plan_context context = {.recipe = flow->recipe,
                                   .seed = flow->seed,
                                   .given = flow->given,
                                   .given_owner = flow->given_owner};
    uint64_t number = plan_checkpoint(&context, id->experiment, id->task, &scratch);
    arena_release(&scratch);
    return number;
}

static enum err_code judge(const struct server *server, const struct depot_event *event,
                           struct judgement *out)
{
    const struct herd_node *node = herd_find_key(&server->herd, event->key);
    if (!node || node->state == HERD_REVOKED) {
        return ERR_DENIED;
    }
    if (event->ask == DEPOT_READ_CODE) {
        return ERR_OK;
    }
    struct core_attempt id = {.workflow = event->id.workflow,
                              .experiment = event->id.experiment,
                              .task = event->id.task,
                              .attempt = event->id.attempt,
                              .term = event->id.term};
    if (!reports_is_live_there(server, node, &id)) {
        return node->state == HERD_HERE ? ERR_STALE : ERR_AGAIN;
    }
    const struct flow *flow = server->session->flows[id.workflow - 1];
    const struct recipe *recipe = flow->recipe;
    out->log_limit_bytes = recipe->experiments[id.experiment].log_limit_bytes;
    out->checkpoint = checkpoint_of(flow, &id);
    if (event->ask == DEPOT_READ_OUTPUTS && !depends_on(recipe, id.experiment, event->name)) {
        return ERR_DENIED;
    }
    return ERR_OK;
}

void depot_read(struct server *server)
{
    struct depot_event event;
    while (server->depot && depot_next(server->depot, &event)) {
        struct judgement judgement = {0};
        switch (event.kind) {
        case DEPOT_QUESTION: {
            enum err_code verdict = judge(server, &event, &judgement);
            depot_answer(server->depot, event.number, verdict, NULL, judgement.log_limit_bytes,
                         judgement.checkpoint);
            break;
        }
        case DEPOT_HTTP: {
            struct http_reply reply = {.status = event.status,
                                       .content_type = event.content_type,
                                       .body = event.body,
                                       .body_size = event.body_size};
            http_reply(server->http, event.number, &reply);
            break;
        }
        case DEPOT_TROUBLE:
            server_note(server, "waiting: %s", event.text);
            break;
        case DEPOT_RECOVERED:
            server_note(server, "there is room again for what nodes send");
            break;
        }
    }
}

static void release_request(void *request)
{
    http_request_free(request);
}

void server_post_code(struct server *server, struct http_request *request)
{
    static const char prefix[] = "/api/v1";
    CHECK(server->depot && strncmp(request->path, prefix, sizeof prefix - 1) == 0);
    depot_post_http(server->depot,
                    &(struct depot_request){.id = request->id,
                                            .method = request->method,
                                            .path = request->path + sizeof prefix - 1,
                                            .body = request->body,
                                            .body_size = request->body_size,
                                            .release = release_request,
                                            .owner = request});
}
