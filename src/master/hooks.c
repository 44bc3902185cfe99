/* hooks.c - telling others when a workflow has ended, as its recipe asks.
 *
 * When it ended and who was told of it is the document "ended/N". It is written once the end itself
 * is durable; so an end without one, or with one that names nobody, has still to be told after a
 * restart. One that goes on (retry) loses its document's content first.
 */
#include "master/server_state.h"

#include "base/clock.h"
#include "master/fields.h"
#include "master/webhook.h"
#include "master/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum {
    NAME_BYTES = 32,
    NEWS_MS = 86400 * 1000, /* an end of which there is no record is no news after so long */
};

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

static void name_document(const struct flow *flow, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "ended/%" PRIu32, flow->number);
}

static void record(struct server *server, const struct flow *flow)
{
    char name[NAME_BYTES];
    AUTO_STR struct str document = {0};
    name_document(flow, name);
    fields_add_u64(&document, "at", (uint64_t)flow->ended_ms);
    fields_add_u64(&document, "told", flow->told);
    server_put_document_first(server, name, str_text(&document), document.size);
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

/* Posts to all who have not been told. */
static void tell(struct server *server, const struct flow *flow)
{
    enum core_workflow_state state = core_workflow_state(server->core, flow->number);
    struct webhook_call call = {
        .id = flow->id, .state = words_workflow_state(state), .finished_unix_ms = flow->ended_ms};
    count_tasks(server, flow, &call);
    for (size_t i = 0; i < flow->recipe->webhook_count; i++) {
        if ((flow->recipe->webhooks[i].on & bit_of(state)) && !(flow->told & 1u << i)) {
            call.tag = (uint64_t)flow->number << 8 | i;
            post(server, flow, &flow->recipe->webhooks[i], &call);
        }
    }
}

void hooks_ended(struct server *server, struct flow *flow)
{
    flow->told = 0;
    record(server, flow);
    tell(server, flow);
}

void hooks_revived(struct server *server, struct flow *flow)
{
    flow->ended_ms = 0;
    flow->told = 0;
    record(server, flow);
}

/* When it ended; if an older version did not note that, when the last of its tasks did. */
static int64_t end_of(const struct server *server, const struct flow *flow)
{
    int64_t now_ms = clock_unix_ms();
    int64_t last_ms = core_workflow_ended_ms(server->core, flow->number);
    bool is_known = last_ms > 0;
    for (uint32_t e = 0; !is_known && e < flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(server->core, flow->number, e, &view);
        for (uint64_t t = 0; t < view.tasks; t++) {
            struct core_task_view task;
            core_task_view(server->core, flow->number, e, t, &task);
            bool can_be = task.started_ms > 0 && task.started_ms < now_ms - task.duration_ms;
            int64_t end_ms = can_be ? task.started_ms + task.duration_ms : 0;
            last_ms = end_ms > last_ms ? end_ms : last_ms;
        }
    }
    last_ms = last_ms > flow->created_ms ? last_ms : flow->created_ms;
    return last_ms < now_ms ? last_ms : now_ms;
}

static void restore(struct server *server, struct flow *flow)
{
    char name[NAME_BYTES];
    AUTO_STR struct str document = {0};
    uint64_t at_ms = 0;
    uint64_t told = 0;
    name_document(flow, name);
    if (server_get_document(server, name, &document, NULL) == ERR_OK) {
        (void)!fields_get_u64(&document, "at", &at_ms);
        (void)!fields_get_u64(&document, "told", &told);
    }
    flow->ended_ms = at_ms <= INT64_MAX ? (int64_t)at_ms : 0;
    flow->told = (uint32_t)told;
    if (flow->ended_ms == 0) {
        flow->ended_ms = end_of(server, flow);
        flow->told = clock_unix_ms() - flow->ended_ms > NEWS_MS ? UINT32_MAX : 0;
        record(server, flow);
    }
    if (server->options->serve) { /* `drover run` has its one chance at its end */
        tell(server, flow);
    }
}

void hooks_restore(struct server *server)
{
    for (size_t i = 0; i < server->session->flow_count; i++) {
        struct flow *flow = server->session->flows[i];
        if (core_workflow_state(server->core, flow->number) != WORKFLOW_RUNNING) {
            restore(server, flow);
        }
    }
}

void hooks_read(struct server *server)
{
    struct webhook_news news;
    while (server->webhook && webhook_read(server->webhook, &news)) {
        struct flow *flow = server->session->flows[(news.tag >> 8) - 1];
        if (news.why.code != ERR_OK) {
            server_note(server, "%s", news.why.text);
        }
        if (flow->ended_ms == news.finished_unix_ms) { /* and not of an end before that one */
            flow->told |= 1u << (news.tag & 0xff);
            record(server, flow);
        }
    }
}

/* Waits for what is under way, about as long as one try takes. What is not told by then is told by
 * the next server. */
void hooks_stop(struct server *server)
{
    enum { PATIENCE_MS = 12000, LOOK_MS = 20 };
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    struct webhook_counts counts = {.waiting = server->webhook != NULL};
    while (counts.waiting > 0 && clock_mono_ms() < until_ms) {
        webhook_count(server->webhook, &counts);
        hooks_read(server);
        nanosleep(&(struct timespec){.tv_nsec = counts.waiting > 0 ? LOOK_MS * 1000000 : 0}, NULL);
    }
    hooks_read(server);
    if (counts.waiting > 0) {
        server_note(server, "webhooks that did not answer: %" PRIu64 "; %s", counts.waiting,
                    server->options->serve ? "they are told when the server runs again"
                                           : "they are not told of this end");
    }
    (void)!webhook_stop(server->webhook, 0);
    server->webhook = NULL;
}
