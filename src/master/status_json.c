#include "master/status_json.h"

#include "master/words.h"
#include "recipe/plan.h"

#include <inttypes.h>

void status_json_add_counts(struct json *json, const struct core_experiment_view *view)
{
    uint64_t busy = view->assigned + view->running;
    uint64_t over = view->succeeded + view->failed + view->cancelled + view->skipped;
    uint64_t rest = view->tasks > over + busy ? view->tasks - over - busy : 0;
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        {"tasks", view->tasks},
        {"succeeded", view->succeeded},
        {"failed", view->failed},
        {"cancelled", view->cancelled},
        {"skipped", view->skipped},
        {"running", busy},
        {"queued", view->ready ? rest : 0},
        {"waiting", view->ready ? 0 : rest},
        {"retrying", view->retrying},
        {"attempts", view->attempts},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_key(json, counts[i].key);
        json_u64(json, counts[i].count);
    }
}

static void add_text_or_null(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    if (text && text[0]) {
        json_text(json, text);
    } else {
        json_null(json);
    }
}

void status_json_add(struct json *json, const struct core *core, const struct flow *flow,
                     const struct status_extra *extra)
{
    json_key(json, "id");
    json_text(json, flow->id);
    json_key(json, "number");
    json_u64(json, flow->number);
    json_key(json, "state");
    json_text(json, words_workflow_state(core_workflow_state(core, flow->number)));
    json_key(json, "active");
    json_bool(json, extra->active);
    json_key(json, "state_folder");
    json_text(json, flow->folder);
    json_key(json, "priority");
    json_i64(json, flow->recipe->priority);
    json_key(json, "seed");
    json_u64(json, flow->seed);
    add_text_or_null(json, "owner", flow->owner);
    words_json_time(json, "created_at", flow->created_ms);
    words_json_time(json, "finished_at", flow->ended_ms);
    add_text_or_null(json, "waiting_for", extra->waiting_for);
    json_key(json, "experiments");
    json_array(json);
    for (uint32_t e = 0; e < flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(core, flow->number, e, &view);
        json_object(json);
        json_key(json, "name");
        json_text(json, flow->recipe->experiments[e].name);
        status_json_add_counts(json, &view);
        json_end(json);
    }
    json_end(json);
}

static void add_reason(struct json *json, const struct core_task_view *view)
{
    AUTO_STR struct str reason = {0};
    if (view->state != TASK_SUCCEEDED) {
        words_add_outcome(&reason, view->outcome, view->code, NULL);
    }
    add_text_or_null(json, "reason", str_text(&reason));
}

void status_json_task(struct json *json, const struct flow *flow, const struct status_task *task,
                      struct arena *scratch)
{
    const struct core_task_view *view = task->view;
    const char *experiment = flow->recipe->experiments[task->experiment].name;
    bool ended = view->state == TASK_SUCCEEDED || view->state == TASK_FAILED;
    struct plan_context context = {.recipe = flow->recipe,
                                   .seed = flow->seed,
                                   .workflow = flow->id,
                                   .given = flow->given,
                                   .given_owner = flow->given_owner};
    AUTO_STR struct str text = {0};

    json_object(json);
    str_addf(&text, "%s/%s/%" PRIu64, flow->id, experiment, task->index);
    json_key(json, "id");
    json_bytes(json, str_text(&text), text.size);
    json_key(json, "experiment");
    json_text(json, experiment);
    json_key(json, "task");
    json_u64(json, task->index);
    json_key(json, "state");
    json_text(json, words_task_state(view->state));
    json_key(json, "attempt");
    json_u64(json, view->attempt);
    add_text_or_null(json, "node", view->attempt > 0 ? task->node : NULL);
    json_key(json, "exit_code");
    if (view->outcome == OUT_EXITED && view->attempt > 0) {
        json_u64(json, view->code);
    } else {
        json_null(json);
    }
    add_reason(json, view);
    words_json_time(json, "started_at", view->started_ms);
    words_json_time(json, "finished_at",
                    ended && view->started_ms > 0 ? view->started_ms + view->duration_ms : 0);
    str_clear(&text);
    plan_params_json(&context, task->experiment, task->index, scratch, &text);
    json_key(json, "params");
    json_raw(json, str_text(&text), text.size);
    json_end(json);
}
