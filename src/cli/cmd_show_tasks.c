/* cmd_show_tasks.c - every task of a run or workflow. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/look.h"
#include "cli/pages.h"
#include "cli/standing.h"
#include "master/status_json.h"
#include "recipe/plan.h"

#include <inttypes.h>
#include <string.h>

enum { WRITE_BYTES = 1 << 16 };

static void print_heading(int name_columns, bool with_node)
{
    AUTO_STR struct str out = {0};
    str_addf(&out, "%-*s %-10s %3s %9s  %s%-20s %s\n", name_columns, "task", "state", "try", "time",
             with_node ? "node         " : "", "reason", "parameters");
    cli_write(&out);
}

/* --- from a folder -------------------------------------------------------------------------- */

static void add_task_text(struct str *out, const char *experiment, uint64_t index,
                          const struct core_task_view *task, int name_columns)
{
    AUTO_STR struct str duration = {0};
    AUTO_STR struct str reason = {0};
    AUTO_STR struct str name = {0};
    if (task->started_ms > 0) {
        clock_add_duration(&duration, task->duration_ms);
    }
    if (task->state != TASK_SUCCEEDED) {
        cli_add_outcome(&reason, task->outcome, task->code, NULL);
    }
    str_addf(&name, "%s/%" PRIu64, experiment, index);
    str_addf(out, "%-*s %-10s %3" PRIu32 " %9s  %-20s ", name_columns, str_text(&name),
             cli_task_state(task->state), task->attempt, str_text(&duration), str_text(&reason));
}

static void print_tasks(const struct session *session, uint32_t number, const struct look *look,
                        int name_columns)
{
    const struct flow *flow = session->flow;
    const struct experiment *experiment = &flow->recipe->experiments[number];
    struct plan_context context = {.recipe = flow->recipe,
                                   .seed = flow->seed,
                                   .workflow = flow->id,
                                   .given = flow->given,
                                   .given_owner = flow->given_owner};
    /* who ran it is not in the folder; a run of one machine has one node */
    const char *node = strcmp(flow->folder, session->folder) == 0 ? "local" : NULL;
    struct arena arena = {0};
    struct str out = {0};
    struct core_experiment_view view;
    core_experiment_view(session->core, flow->number, number, &view);
    for (uint64_t index = 0; index < view.tasks; index++) {
        struct core_task_view task;
        core_task_view(session->core, flow->number, number, index, &task);
        if (look->failed_only && task.state != TASK_FAILED) {
            continue;
        }
        if (look->as_json) {
            struct json json = {.out = &out};
            struct status_task what = {
                .experiment = number, .index = index, .view = &task, .node = node};
            status_json_task(&json, flow, &what, &arena);
        } else {
            add_task_text(&out, experiment->name, index, &task, name_columns);
            plan_params_json(&context, number, index, &arena, &out);
        }
        str_add_char(&out, '\n');
        if (out.size > WRITE_BYTES) {
            cli_write(&out);
            str_clear(&out);
        }
        arena_reset(&arena);
    }
    cli_write(&out);
    str_release(&out);
    arena_release(&arena);
}

static int read_tasks(const struct look *look)
{
    struct session session;
    int code = look_read(look, look->run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    const struct recipe *recipe = session.flow->recipe;
    int columns = 4;
    for (size_t i = 0; i < recipe->experiment_count; i++) {
        const struct experiment *experiment = &recipe->experiments[i];
        int size = snprintf(NULL, 0, "%s/%" PRIu64, experiment->name, experiment->task_count - 1);
        columns = size > columns ? size : columns;
    }
    bool known = !look->experiment || look_experiment(&session, look->experiment) >= 0;
    if (known && !look->as_json) {
        print_heading(columns, false);
    }
    for (size_t i = 0; i < recipe->experiment_count && known; i++) {
        uint32_t number = recipe_order(recipe)[i];
        if (!look->experiment || strcmp(look->experiment, recipe->experiments[number].name) == 0) {
            print_tasks(&session, number, look, columns);
        }
    }
    session_release(&session);
    return known ? EXIT_DONE
                 : cli_error(EXIT_USAGE, "there is no experiment '%s'", look->experiment);
}

/* --- from a server -------------------------------------------------------------------------- */

static int print_pages(const struct look *look, struct remote *remote, const char *path,
                       int name_columns)
{
    struct pages pages = {.path = path};
    const struct jnode *items = NULL;
    int code = EXIT_DONE;
    while ((code = pages_next(remote, &pages, &items)) == EXIT_DONE && items) {
        AUTO_STR struct str out = {0};
        for (const struct jnode *task = jread_first(items); task; task = task->next) {
            if (look->as_json) {
                jread_add(&out, task);
                str_add_char(&out, '\n');
            } else {
                standing_add_task(&out, task, name_columns);
            }
        }
        cli_write(&out);
    }
    pages_release(&pages);
    return code;
}

static int ask_tasks(const struct look *look, struct remote *remote)
{
    AUTO_STR struct str path = {0};
    struct jread status = {0};
    remote_add_workflow(&path, look->run);
    int code = remote_get(remote, str_text(&path), &status, NULL);
    if (code == EXIT_DONE) {
        /* by its id: the newest may be another one on the next page */
        str_clear(&path);
        remote_add_workflow(&path, jread_text(status.root, "id", look->run));
        str_add(&path, "/tasks?limit=1000");
        if (look->failed_only) {
            remote_add_query(&path, "failed", "1");
        }
        if (look->experiment) {
            remote_add_query(&path, "experiment", look->experiment);
        }
        int columns = standing_name_columns(status.root);
        if (!look->as_json) {
            print_heading(columns, true);
        }
        code = print_pages(look, remote, str_text(&path), columns);
    }
    jread_release(&status);
    return code;
}

static int run(int argc, char **argv)
{
    struct look look = {0};
    struct remote remote = {0};
    bool found = false;
    int code = look_parse(&cmd_tasks, &look, argc, argv);
    if (code >= 0) {
        return code;
    }
    code = look_for_server(&look, look.run, &remote, &found);
    if (code == EXIT_DONE) {
        code = found ? ask_tasks(&look, &remote) : read_tasks(&look);
    }
    remote_close(&remote);
    return code;
}

const struct cli_command cmd_tasks = {
    .name = "tasks",
    .arguments = "[W] [--state DIR] [--failed] [--experiment E] [--json]",
    .summary = "every task of a run or workflow: state, attempt, time, why it failed, parameters",
    .help = "  --state DIR          in this folder: a run's, or a server's\n"
            "  --json               one object a task\n"
            "  --failed             only tasks that failed\n"
            "  -e, --experiment E   only this experiment\n\n"
            "Examples:\n"
            "  drover tasks --failed\n"
            "  drover tasks mnist-3 -e train --json\n",
    .run = run,
};
