/* hooks.c - telling others when a workflow has ended, as its recipe asks. */
#include "master/server_state.h"

#include "master/webhook.h"
#include "master/words.h"

static unsigned bit_of(enum core_workflow_state state)
{
    switch (state) {
    case WORKFLOW_SUCCEEDED:
        return RECIPE_WEBHOOK_SUCCEEDED;
    case WORKFLOW_FAILED:
        return RECIPE_WEBHOOK_FAILED;
    case WORKFLOW_CANCELLED:
        return RECIPE_WEBHOOK_CANCELLED;
    case WORKFLOW_RUNNING:
        break;
    }
    return 0;
}

static void count_tasks(const struct server *server, const struct flow *flow,
                        struct webhook_call *call)
{
    for (uint32_t e = 0; e < flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(server->core, flow->number, e, &view);
        call->tasks += view.tasks;
        call->succeeded += view.succeeded;
        call->failed += view.failed;
    }
}

static void post(struct server *server, const struct flow *flow, const struct recipe_webhook *hook,
                 struct webhook_call *call)
{
    AUTO_STR struct str secret = {0};
    if (hook->secret_file) {
        if (hook->secret_file[0] != '/') {
            str_addf(&secret, "%s/", flow->recipe_folder);
        }
        str_add(&secret, hook->secret_file);
    }
    call->url = hook->url;
    call->secret_file = hook->secret_file ? str_text(&secret) : NULL;
    if (!server->webhook) {
        server->webhook = webhook_start(server->context);
    }
    if (!webhook_post(server->webhook, call)) {
        server_note(server, "too many webhooks wait: that of %s is dropped", flow->id);
    }
}

void hooks_ended(struct server *server, const struct flow *flow)
{
    enum core_workflow_state state = core_workflow_state(server->core, flow->number);
    struct webhook_call call = {
        .id = flow->id, .state = words_workflow_state(state), .finished_unix_ms = flow->ended_ms};
    count_tasks(server, flow, &call);
    for (size_t i = 0; i < flow->recipe->webhook_count; i++) {
        if (flow->recipe->webhooks[i].on & bit_of(state)) {
            post(server, flow, &flow->recipe->webhooks[i], &call);
        }
    }
}

void hooks_read(struct server *server)
{
    struct err why = {0};
    while (server->webhook && webhook_read(server->webhook, &why)) {
        server_note(server, "%s", why.text);
    }
}

void hooks_stop(struct server *server)
{
    enum { PATIENCE_MS = 12000 }; /* one try */
    (void)!webhook_stop(server->webhook, PATIENCE_MS);
    server->webhook = NULL;
}
