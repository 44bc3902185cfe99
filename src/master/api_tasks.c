/* api_tasks.c - the tasks of a workflow, a page at a time.
 *
 * A cursor is a place in the order of tasks, so a page costs what it shows and not what went
 * before; one call looks at no more than API_SCAN_MAX tasks, and experiments that cannot hold what
 * is asked for are passed over whole. */
#include "master/api.h"
#include "master/status_json.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>

struct task_filter {
    const char *experiment; /* "": any */
    bool by_state;
    enum core_task_state state;
};

static void add_task(struct json *json, const struct api_task *task, const struct server *server,
                     struct arena *scratch)
{
    struct status_task status = {
        .experiment = task->experiment,
        .index = task->index,
        .view = &task->view,
        .node = api_node_name(server, task->view.node),
    };
    status_json_task(json, task->flow, &status, scratch);
}

/* "E.I": experiment number and index of the first task not yet looked at. */
static bool read_cursor(const struct flow *flow, const char *text, size_t *place, uint64_t *index)
{
    char *end = NULL;
    *place = 0;
    *index = 0;
    if (!text[0]) {
        return true;
    }
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    unsigned long long experiment = strtoull(text, &end, 10);
    if (*end != '.' || !api_read_u64(end + 1, index)) {
        return false;
    }
    while (*place < flow->recipe->experiment_count &&
           recipe_order(flow->recipe)[*place] != experiment) {
        (*place)++;
    }
    return *place < flow->recipe->experiment_count;
}

/* False: no task of the experiment is in the state, so that none need be looked at. */
static bool may_hold(const struct core_experiment_view *view, enum core_task_state state)
{
    switch (state) {
    case TASK_WAITING:
        return !view->ready;
    case TASK_QUEUED:
        return view->ready && !view->ended;
    case TASK_ASSIGNED:
        return view->assigned > 0;
    case TASK_RUNNING:
        return view->running > 0;
    case TASK_SUCCEEDED:
        return view->succeeded > 0;
    case TASK_FAILED:
        return view->failed > 0;
    case TASK_CANCELLED:
        return view->cancelled > 0;
    case TASK_SKIPPED:
        return view->skipped > 0;
    }
    return true;
}

/* Goes on through one experiment from *index; true when it is done, false when the page is. */
static bool scan_experiment(struct api_page *page, struct api_call *call, struct api_task *task,
                            const struct task_filter *filter, uint64_t *scanned)
{
    const struct core *core = server_core(call->server);
    const struct experiment *experiment = &task->flow->recipe->experiments[task->experiment];
    struct core_experiment_view view;
    core_experiment_view(core, task->flow->number, task->experiment, &view);
    if ((filter->experiment[0] && strcmp(filter->experiment, experiment->name) != 0) ||
        (filter->by_state && !may_hold(&view, filter->state))) {
        return true;
    }
    for (; task->index < view.tasks; task->index++) {
        if (api_page_is_full(page) || (*scanned)++ >= API_SCAN_MAX) {
            return false;
        }
        core_task_view(core, task->flow->number, task->experiment, task->index, &task->view);
        if (!filter->by_state || task->view.state == filter->state) {
            struct arena scratch = {0};
            add_task(&page->json, task, call->server, &scratch);
            arena_release(&scratch);
            page->count++;
        }
    }
    return true;
}

/* False: it was answered. */
static bool read_filter(struct api_call *call, const struct flow *flow, struct task_filter *out)
{
    const char *state = api_text(call, "state");
    out->experiment = api_text(call, "experiment");
    out->by_state = words_read_task_state(state, &out->state);
    if (api_flag(call, "failed")) {
        if (out->by_state && out->state != TASK_FAILED) {
            api_fail(call, 400, "failed: state=%s says otherwise", state);
            return false;
        }
        out->by_state = true;
        out->state = TASK_FAILED;
    }
    for (size_t e = 0; out->experiment[0] && e < flow->recipe->experiment_count; e++) {
        if (strcmp(flow->recipe->experiments[e].name, out->experiment) == 0) {
            return true;
        }
    }
    if (out->experiment[0]) {
        api_fail(call, 404, "%s has no experiment '%.80s'", flow->id, out->experiment);
        return false;
    }
    return true;
}

void api_list_tasks(struct api_call *call)
{
    struct api_task task = {.flow = api_find_flow(call)};
    struct task_filter filter = {0};
    size_t place = 0;
    if (!task.flow || !read_filter(call, task.flow, &filter)) {
        return;
    }
    if (!read_cursor(task.flow, api_text(call, "after"), &place, &task.index)) {
        api_fail(call, 400, "after: not a cursor of this list");
        return;
    }
    struct api_page page;
    uint64_t scanned = 0;
    char next[48] = "";
    api_page_begin(&page, call);
    for (; place < task.flow->recipe->experiment_count; place++, task.index = 0) {
        task.experiment = recipe_order(task.flow->recipe)[place];
        if (!scan_experiment(&page, call, &task, &filter, &scanned)) {
            snprintf(next, sizeof next, "%" PRIu32 ".%" PRIu64, task.experiment, task.index);
            break;
        }
    }
    api_page_end(&page, call, next);
}

void api_get_task(struct api_call *call)
{
    struct api_task task;
    if (api_find_task(call, &task)) {
        AUTO_STR struct str body = {0};
        struct json json = {.out = &body};
        add_task(&json, &task, call->server, &call->arena);
        api_reply_json(call, &body, 0);
    }
}

static void reply_changed(struct api_call *call, const struct api_task *task, uint64_t after)
{
    AUTO_STR struct str body = {0};
    AUTO_STR struct str id = {0};
    struct json json = {.out = &body};
    str_addf(&id, "%s/%s/%" PRIu64, task->flow->id,
             task->flow->recipe->experiments[task->experiment].name, task->index);
    json_object(&json);
    json_key(&json, "id");
    json_text(&json, str_text(&id));
    json_key(&json, "tasks");
    json_u64(&json, 1);
    json_end(&json);
    api_reply_json(call, &body, after);
}

void api_cancel_task(struct api_call *call)
{
    struct api_task task;
    uint64_t after = 0;
    if (!api_find_task(call, &task)) {
        return;
    }
    if (server_cancel_task(call->server, task.flow->number, task.experiment, task.index, &after)) {
        reply_changed(call, &task, after);
    } else {
        api_fail(call, 409, "the task is over: %s", words_task_state(task.view.state));
    }
}

void api_retry_task(struct api_call *call)
{
    struct api_task task;
    uint64_t after = 0;
    if (!api_find_task(call, &task)) {
        return;
    }
    if (server_retry_task(call->server, task.flow->number, task.experiment, task.index, &after)) {
        reply_changed(call, &task, after);
    } else {
        api_fail(call, 409,
                 "the task is %s; only what failed or was cancelled or skipped can be "
                 "run again",
                 words_task_state(task.view.state));
    }
}
