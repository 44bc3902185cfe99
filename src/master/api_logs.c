/* api_logs.c - a task's log, as bytes or as a stream; and what happened to the task, in words. */
#include "master/api_logs.h"

#include "base/clock.h"
#include "master/place.h"
#include "master/words.h"

#include <inttypes.h>
#include <string.h>

/* "ATTEMPT.OFFSET", as a stream's ids are, or an offset alone. */
static bool read_position(const char *text, struct api_follow_start *start)
{
    const char *dot = strchr(text, '.');
    uint64_t attempt = 0;
    if (!dot) {
        return api_read_u64(text, &start->offset);
    }
    char first[16];
    size_t size = (size_t)(dot - text);
    if (size >= sizeof first) {
        return false;
    }
    memcpy(first, text, size);
    first[size] = '\0';
    if (!api_read_u64(first, &attempt) || attempt > UINT32_MAX ||
        !api_read_u64(dot + 1, &start->offset)) {
        return false;
    }
    start->attempt = (uint32_t)attempt;
    return true;
}

static void follow_log(struct api_call *call, const struct api_task *task)
{
    const char *last = call->request->last_event_id[0] ? call->request->last_event_id
                                                       : api_text(call, "last_event_id");
    struct api_follow_start start = {
        .task = task,
        .attempt = (uint32_t)api_number(call, "attempt", 0),
        .stays = api_has(call, "attempt"),
        .offset = api_number(call, "offset", 0),
    };
    uint32_t asked = start.attempt;
    if (last[0] && !read_position(last, &start)) {
        api_fail(call, 400, "Last-Event-ID: not an id of this stream");
        return;
    }
    if (start.attempt > task->view.attempt || (start.stays && start.attempt != asked)) {
        api_fail(call, 404, "there is no attempt %" PRIu32 " yet", start.attempt);
        return;
    }
    api_follow(call, &start);
}

/* What the master knows of the task, one line each. */
static void reply_system(struct api_call *call, const struct api_task *task)
{
    const struct core_task_view *view = &task->view;
    const char *node = api_node_name(call->server, view->node);
    AUTO_STR struct str text = {0};
    str_addf(&text, "task %s/%s/%" PRIu64 ": %s\n", task->flow->id,
             task->flow->recipe->experiments[task->experiment].name, task->index,
             words_task_state(view->state));
    str_addf(&text, "attempts: %" PRIu32 " begun, %" PRIu32 " failed, %" PRIu32 " lost\n",
             view->attempt, view->failures, view->losses);
    if (view->attempt > 0) {
        str_addf(&text, "attempt %" PRIu32 ": on %s", view->attempt, node ? node : "a node");
        if (view->started_ms > 0) {
            str_add(&text, ", started ");
            clock_add_rfc3339(&text, view->started_ms);
        }
        if (words_is_final(view->state) && view->started_ms > 0) {
            str_add(&text, ", took ");
            clock_add_duration(&text, view->duration_ms);
        }
        str_add_char(&text, '\n');
    }
    if (view->outcome != OUT_NONE) {
        AUTO_STR struct str outcome = {0};
        words_add_outcome(&outcome, view->outcome, view->code, NULL);
        str_addf(&text, "last end: %s\n", outcome.size ? str_text(&outcome) : "exit 0");
    }
    struct http_reply reply = {
        .status = 200,
        .content_type = call->route->type,
        .body = str_text(&text),
        .body_size = text.size,
    };
    api_reply(call, &reply, 0);
}

void api_get_log(struct api_call *call)
{
    struct api_task task;
    if (!api_find_task(call, &task)) {
        return;
    }
    if (strcmp(api_text(call, "stream"), "system") == 0) {
        reply_system(call, &task);
        return;
    }
    if (strstr(call->request->accept, "text/event-stream")) {
        follow_log(call, &task);
        return;
    }
    uint64_t attempt = api_number(call, "attempt", task.view.attempt);
    if (attempt == 0 || attempt > task.view.attempt) {
        api_fail(call, 404,
                 attempt ? "there is no attempt %" PRIu64 " yet"
                         : "the task has not been tried yet (%" PRIu64 " attempts)",
                 attempt);
        return;
    }
    AUTO_STR struct str path = {0};
    place_add_log(&path, task.flow->folder, task.flow->recipe->experiments[task.experiment].name,
                  task.index, (uint32_t)attempt);
    if (api_flag(call, "older")) {
        str_add(&path, ".1");
    }
    struct http_reply reply = {
        .status = 200,
        .content_type = call->route->type,
        .file = str_text(&path),
        .file_offset = api_number(call, "offset", 0),
        .file_size = api_number(call, "size", API_LOG_BYTES_MAX),
    };
    api_reply(call, &reply, 0);
}
