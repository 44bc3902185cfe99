#include "cli/summary.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "master/place.h"

#include <inttypes.h>
#include <string.h>

enum { WORKFLOW = 1, FAILURES_SHOWN = 5 };

struct times { /* of the attempts that ended last, over an experiment's tasks */
    uint64_t count;
    double sum_ms;
    double max_ms;
};

static struct times times_of(const struct session *session, uint32_t experiment, uint64_t tasks)
{
    struct times times = {0};
    for (uint64_t t = 0; t < tasks; t++) {
        struct core_task_view view;
        core_task_view(session->core, WORKFLOW, experiment, t, &view);
        if (view.state == TASK_SUCCEEDED || view.state == TASK_FAILED) {
            double ms = (double)view.duration_ms;
            times.count++;
            times.sum_ms += ms;
            times.max_ms = ms > times.max_ms ? ms : times.max_ms;
        }
    }
    return times;
}

static void add_cell(struct str *out, double ms, bool known)
{
    AUTO_STR struct str text = {0};
    if (known) {
        clock_add_duration(&text, (int64_t)ms);
    } else {
        str_add(&text, "-");
    }
    str_addf(out, "%10s", str_text(&text));
}

static void add_table(struct str *out, const struct session *session)
{
    const struct recipe *recipe = session->recipe;
    int columns = (int)strlen("experiment");
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        int size = (int)strlen(recipe->experiments[e].name);
        columns = size > columns ? size : columns;
    }
    str_addf(out, "\n%-*s %9s %10s %8s %9s %9s %9s %9s\n", columns, "experiment", "tasks",
             "succeeded", "failed", "not done", "attempts", "mean", "longest");
    for (size_t i = 0; i < recipe->experiment_count; i++) {
        uint32_t number = recipe_order(recipe)[i];
        struct core_experiment_view view;
        core_experiment_view(session->core, WORKFLOW, number, &view);
        struct times times = times_of(session, number, view.tasks);
        str_addf(out, "%-*s %9" PRIu64 " %10" PRIu64 " %8" PRIu64 " %9" PRIu64 " %9" PRIu64,
                 columns, recipe->experiments[number].name, view.tasks, view.succeeded, view.failed,
                 view.tasks - view.succeeded - view.failed, view.attempts);
        add_cell(out, times.count ? times.sum_ms / (double)times.count : 0, times.count > 0);
        add_cell(out, times.max_ms, times.count > 0);
        str_add_char(out, '\n');
    }
}

void summary_add_where(struct str *out, const struct session *session)
{
    AUTO_STR struct str runs = {0};
    if (place_runs_folder(&runs, NULL) == ERR_OK &&
        strncmp(session->folder, str_text(&runs), runs.size) == 0 &&
        session->folder[runs.size] == '/') {
        str_addf(out, " %s", session->id);
    } else {
        str_addf(out, " --state %s", session->folder);
    }
}

const char *summary_state(const struct session *session, bool stopped)
{
    enum core_workflow_state state = core_workflow_state(session->core, WORKFLOW);
    if (state == WORKFLOW_RUNNING && (stopped || !place_is_locked(session->folder))) {
        return "stopped";
    }
    return cli_workflow_state(state);
}

/* The failed tasks of one experiment, as long as there is room for them. */
static void add_failures_of(struct str *out, const struct session *session, uint32_t experiment,
                            size_t *shown)
{
    const struct experiment *of = &session->recipe->experiments[experiment];
    struct core_experiment_view view;
    core_experiment_view(session->core, WORKFLOW, experiment, &view);
    uint64_t found = 0;
    for (uint64_t t = 0; found < view.failed && t < view.tasks; t++) {
        struct core_task_view task;
        core_task_view(session->core, WORKFLOW, experiment, t, &task);
        if (task.state != TASK_FAILED) {
            continue;
        }
        found++;
        if ((*shown)++ >= FAILURES_SHOWN) {
            continue;
        }
        str_addf(out, "%sfailed%s: %s/%" PRIu64 ", ", *shown == 1 ? "\n" : "",
                 of->allow_failure ? " (allowed)" : "", of->name, t);
        cli_add_outcome(out, task.outcome, task.code, NULL);
        str_addf(out, " after %" PRIu32 " attempt%s\n        ", task.attempt,
                 task.attempt == 1 ? "" : "s");
        place_add_log(out, session->folder, of->name, t, task.attempt);
        str_add_char(out, '\n');
    }
}

static void add_failures(struct str *out, const struct session *session)
{
    size_t shown = 0;
    /* first those that made the workflow fail, then those that were forgiven */
    for (int forgiven = 0; forgiven < 2; forgiven++) {
        for (uint32_t e = 0; e < session->recipe->experiment_count; e++) {
            if (session->recipe->experiments[e].allow_failure == (forgiven == 1)) {
                add_failures_of(out, session, e, &shown);
            }
        }
    }
    if (shown > FAILURES_SHOWN) {
        str_addf(out, "        and %zu more: drover tasks --failed", shown - FAILURES_SHOWN);
        summary_add_where(out, session);
        str_add_char(out, '\n');
    }
}

void summary_add_text(struct str *out, const struct session *session, bool stopped,
                      int64_t elapsed_ms)
{
    uint64_t tasks = 0;
    uint64_t succeeded = 0;
    add_table(out, session);
    add_failures(out, session);
    for (uint32_t e = 0; e < session->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(session->core, WORKFLOW, e, &view);
        tasks += view.tasks;
        succeeded += view.succeeded;
    }
    str_addf(out, "\n%s: %" PRIu64 " of %" PRIu64 " tasks succeeded",
             summary_state(session, stopped), succeeded, tasks);
    if (elapsed_ms >= 0) {
        str_add(out, " in ");
        clock_add_duration(out, elapsed_ms);
    }
    str_addf(out, "; state and logs in %s\n", session->folder);
}

void summary_add_counts(struct json *json, const struct core_experiment_view *view)
{
    const struct {
        const char *key;
        uint64_t count;
    } counts[] = {
        {"tasks", view->tasks},       {"succeeded", view->succeeded},
        {"failed", view->failed},     {"cancelled", view->cancelled},
        {"skipped", view->skipped},   {"running", view->assigned + view->running},
        {"retrying", view->retrying}, {"attempts", view->attempts},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_key(json, counts[i].key);
        json_u64(json, counts[i].count);
    }
}

void summary_add_json(struct json *json, const struct session *session)
{
    json_key(json, "id");
    json_text(json, session->id);
    json_key(json, "state");
    json_text(json, cli_workflow_state(core_workflow_state(session->core, WORKFLOW)));
    json_key(json, "active"); /* someone runs it now */
    json_bool(json, place_is_locked(session->folder));
    json_key(json, "state_folder");
    json_text(json, session->folder);
    json_key(json, "seed");
    json_u64(json, session->seed);
    AUTO_STR struct str created = {0};
    clock_add_rfc3339(&created, session->created_ms);
    json_key(json, "created_at");
    json_text(json, str_text(&created));
    json_key(json, "experiments");
    json_array(json);
    for (uint32_t e = 0; e < session->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(session->core, WORKFLOW, e, &view);
        json_object(json);
        json_key(json, "name");
        json_text(json, session->recipe->experiments[e].name);
        summary_add_counts(json, &view);
        json_end(json);
    }
    json_end(json);
}
