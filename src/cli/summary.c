#include "cli/summary.h"

#include "base/clock.h"
#include "cli/cli.h"
#include "master/place.h"
#include "master/status_json.h"

#include <inttypes.h>
#include <string.h>

enum { FAILURES_SHOWN = 5 };

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
        core_task_view(session->core, session->flow->number, experiment, t, &view);
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
    const struct recipe *recipe = session->flow->recipe;
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
        core_experiment_view(session->core, session->flow->number, number, &view);
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
        str_addf(out, " %s", session->flow->id);
    } else {
        bool is_servers = strcmp(session->flow->folder, session->folder) != 0;
        str_addf(out, "%s%s --state %s", is_servers ? " " : "", is_servers ? session->flow->id : "",
                 session->folder);
    }
}

const char *summary_state(const struct session *session, bool stopped)
{
    enum core_workflow_state state = core_workflow_state(session->core, session->flow->number);
    if (state == WORKFLOW_RUNNING && (stopped || !place_is_locked(session->folder))) {
        return "stopped";
    }
    return cli_workflow_state(state);
}

/* The failed tasks of one experiment, as long as there is room for them. */
static void add_failures_of(struct str *out, const struct session *session, uint32_t experiment,
                            size_t *shown)
{
    const struct experiment *of = &session->flow->recipe->experiments[experiment];
    struct core_experiment_view view;
    core_experiment_view(session->core, session->flow->number, experiment, &view);
    uint64_t found = 0;
    for (uint64_t t = 0; found < view.failed && t < view.tasks; t++) {
        struct core_task_view task;
        core_task_view(session->core, session->flow->number, experiment, t, &task);
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
        place_add_log(out, session->flow->folder, of->name, t, task.attempt);
        str_add_char(out, '\n');
    }
}

static void add_failures(struct str *out, const struct session *session)
{
    size_t shown = 0;
    /* first those that made the workflow fail, then those that were forgiven */
    for (int forgiven = 0; forgiven < 2; forgiven++) {
        for (uint32_t e = 0; e < session->flow->recipe->experiment_count; e++) {
            if (session->flow->recipe->experiments[e].allow_failure == (forgiven == 1)) {
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
    for (uint32_t e = 0; e < session->flow->recipe->experiment_count; e++) {
        struct core_experiment_view view;
        core_experiment_view(session->core, session->flow->number, e, &view);
        tasks += view.tasks;
        succeeded += view.succeeded;
    }
    str_addf(out, "\n%s: %" PRIu64 " of %" PRIu64 " tasks succeeded",
             summary_state(session, stopped), succeeded, tasks);
    if (elapsed_ms >= 0) {
        str_add(out, " in ");
        clock_add_duration(out, elapsed_ms);
    }
    str_addf(out, "; state and logs in %s\n", session->flow->folder);
}

void summary_add_counts(struct json *json, const struct core_experiment_view *view)
{
    status_json_add_counts(json, view);
}

void summary_add_json(struct json *json, const struct session *session)
{
    struct status_extra extra = {.active = place_is_locked(session->folder)};
    status_json_add(json, session->core, session->flow, &extra);
}
