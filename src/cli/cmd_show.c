/* cmd_show.c - list, status, tasks, logs: looking at runs, also while they run. */
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/summary.h"
#include "master/place.h"
#include "recipe/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKFLOW = 1, WRITE_BYTES = 1 << 16, SHOW_AGAIN = -1 };

struct show_options {
    const char *state;
    const char *run; /* W, or for logs a task */
    bool as_json;
    bool failed_only;
    const char *experiment;
    bool follow;
    int name_columns; /* of EXPERIMENT/INDEX, so that columns line up */
};

/* Common options; -1: go on. */
static int parse(const struct cli_command *command, struct show_options *show, int argc,
                 char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 'd'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"failed", no_argument, NULL, 'F'},
                                            {"experiment", required_argument, NULL, 'e'},
                                            {"follow", no_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hfe:", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            show->state = optarg;
            break;
        case 'j':
            show->as_json = true;
            break;
        case 'F':
            show->failed_only = true;
            break;
        case 'e':
            show->experiment = optarg;
            break;
        case 'f':
            show->follow = true;
            break;
        default:
            return cli_bad_option(command, option, argv);
        }
    }
    if (argc - optind > 1 || (command == &cmd_list && argc > optind)) {
        return cli_usage_error(command,
                               command == &cmd_list ? "it takes no name" : "one name, please");
    }
    show->run = optind < argc ? argv[optind] : NULL;
    return -1;
}

/* --- list ----------------------------------------------------------------------------------------
 */

static bool list_one(void *context, const char *id, const char *folder)
{
    const struct show_options *show = context;
    struct session session;
    struct err err = {0};
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    if (session_read(folder, &session, &err) != ERR_OK) {
        fprintf(stderr, "drover: %s: %s\n", id, err.text);
        return true;
    }
    if (show->as_json) {
        json_object(&json);
        summary_add_json(&json, &session);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        uint64_t tasks = 0;
        uint64_t succeeded = 0;
        for (uint32_t e = 0; e < session.recipe->experiment_count; e++) {
            struct core_experiment_view view;
            core_experiment_view(session.core, WORKFLOW, e, &view);
            tasks += view.tasks;
            succeeded += view.succeeded;
        }
        AUTO_STR struct str created = {0};
        clock_add_rfc3339(&created, session.created_ms);
        str_addf(&out, "%-24s %-10s %10" PRIu64 " of %-10" PRIu64 " %.19sZ\n", id,
                 summary_state(&session, false), succeeded, tasks, str_text(&created));
    }
    cli_write(&out);
    session_release(&session);
    return true;
}

static int run_list(int argc, char **argv)
{
    struct show_options show = {0};
    int code = parse(&cmd_list, &show, argc, argv);
    if (code >= 0) {
        return code;
    }
    struct err err = {0};
    return place_each_run(list_one, &show, &err) == ERR_OK
               ? EXIT_DONE
               : cli_error(EXIT_WORK_FAILED, "%s", err.text);
}

/* --- status --------------------------------------------------------------------------------------
 */

static int run_status(int argc, char **argv)
{
    struct show_options show = {0};
    struct session session;
    int code = parse(&cmd_status, &show, argc, argv);
    if (code >= 0) {
        return code;
    }
    code = cli_read_session(show.state, show.run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    AUTO_STR struct str out = {0};
    if (show.as_json) {
        struct json json = {.out = &out};
        json_object(&json);
        summary_add_json(&json, &session);
        json_end(&json);
        str_add_char(&out, '\n');
    } else {
        summary_add_text(&out, &session, false, -1);
    }
    cli_write(&out);
    session_release(&session);
    return EXIT_DONE;
}

/* --- tasks ---------------------------------------------------------------------------------------
 */

static void add_task_json(struct str *out, const char *experiment, uint64_t index,
                          const struct core_task_view *task, const struct str *params)
{
    bool ended = task->state == TASK_SUCCEEDED || task->state == TASK_FAILED;
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "experiment");
    json_text(&json, experiment);
    json_key(&json, "task");
    json_u64(&json, index);
    json_key(&json, "state");
    json_text(&json, cli_task_state(task->state));
    json_key(&json, "attempt");
    json_u64(&json, task->attempt);
    json_key(&json, "node");
    if (task->attempt > 0) {
        json_text(&json, "local");
    } else {
        json_null(&json);
    }
    json_key(&json, "exit_code");
    if (task->outcome == OUT_EXITED && task->attempt > 0) {
        json_u64(&json, task->code);
    } else {
        json_null(&json);
    }
    json_key(&json, "reason");
    if (task->outcome != OUT_NONE && task->state != TASK_SUCCEEDED) {
        AUTO_STR struct str reason = {0};
        cli_add_outcome(&reason, task->outcome, task->code, NULL);
        json_text(&json, str_text(&reason));
    } else {
        json_null(&json);
    }
    cli_json_time(&json, "started_at", task->started_ms);
    cli_json_time(&json, "finished_at",
                  ended && task->started_ms > 0 ? task->started_ms + task->duration_ms : 0);
    json_key(&json, "params");
    json_raw(&json, str_text(params), params->size);
    json_end(&json);
    str_add_char(out, '\n');
}

static void add_task_text(struct str *out, const char *experiment, uint64_t index,
                          const struct core_task_view *task, const struct str *params,
                          int name_columns)
{
    AUTO_STR struct str duration = {0};
    AUTO_STR struct str reason = {0};
    if (task->started_ms > 0) {
        clock_add_duration(&duration, task->duration_ms);
    }
    if (task->state != TASK_SUCCEEDED) {
        cli_add_outcome(&reason, task->outcome, task->code, NULL);
    }
    AUTO_STR struct str name = {0};
    str_addf(&name, "%s/%" PRIu64, experiment, index);
    str_addf(out, "%-*s %-10s %3" PRIu32 " %9s  %-20s %s\n", name_columns, str_text(&name),
             cli_task_state(task->state), task->attempt, str_text(&duration), str_text(&reason),
             str_text(params));
}

static void print_tasks(const struct session *session, uint32_t number,
                        const struct show_options *show)
{
    const struct experiment *experiment = &session->recipe->experiments[number];
    struct plan_context context = {
        .recipe = session->recipe, .seed = session->seed, .workflow = session->id};
    struct arena arena = {0};
    struct str out = {0};
    struct str params = {0};
    for (uint64_t index = 0; index < experiment->task_count; index++) {
        struct core_task_view task;
        core_task_view(session->core, WORKFLOW, number, index, &task);
        if (show->failed_only && task.state != TASK_FAILED) {
            continue;
        }
        plan_params_json(&context, number, index, &arena, &params);
        if (show->as_json) {
            add_task_json(&out, experiment->name, index, &task, &params);
        } else {
            add_task_text(&out, experiment->name, index, &task, &params, show->name_columns);
        }
        if (out.size > WRITE_BYTES) {
            cli_write(&out);
            str_clear(&out);
        }
        str_clear(&params);
        arena_reset(&arena);
    }
    cli_write(&out);
    str_release(&out);
    str_release(&params);
    arena_release(&arena);
}

static void print_heading(const struct show_options *show)
{
    AUTO_STR struct str out = {0};
    str_addf(&out, "%-*s %-10s %3s %9s  %-20s %s\n", show->name_columns, "task", "state", "try",
             "time", "reason", "parameters");
    cli_write(&out);
}

static int run_tasks(int argc, char **argv)
{
    struct show_options show = {0};
    struct session session;
    int code = parse(&cmd_tasks, &show, argc, argv);
    if (code >= 0) {
        return code;
    }
    code = cli_read_session(show.state, show.run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    bool found = false;
    for (size_t i = 0; i < session.recipe->experiment_count; i++) {
        const struct experiment *experiment = &session.recipe->experiments[i];
        int columns =
            snprintf(NULL, 0, "%s/%" PRIu64, experiment->name, experiment->task_count - 1);
        show.name_columns = columns > show.name_columns ? columns : show.name_columns;
    }
    if (!show.as_json) {
        print_heading(&show);
    }
    for (size_t i = 0; i < session.recipe->experiment_count; i++) {
        uint32_t number = recipe_order(session.recipe)[i];
        if (!show.experiment ||
            strcmp(show.experiment, session.recipe->experiments[number].name) == 0) {
            found = true;
            print_tasks(&session, number, &show);
        }
    }
    session_release(&session);
    return found ? EXIT_DONE
                 : cli_error(EXIT_USAGE, "there is no experiment '%s'", show.experiment);
}

/* --- logs ----------------------------------------------------------------------------------------
 */

/* "EXPERIMENT/INDEX" or "W/EXPERIMENT/INDEX". */
struct task_name {
    char *run; /* or NULL */
    char *experiment;
    uint64_t index;
    char *copy;
};

static bool parse_task_name(const char *text, struct task_name *out)
{
    out->copy = mem_strdup(text);
    char *last = strrchr(out->copy, '/');
    if (!last || !cli_parse_u64(last + 1, UINT64_MAX, &out->index)) {
        return false;
    }
    *last = '\0';
    char *first = strchr(out->copy, '/');
    if (first) {
        *first = '\0';
        out->run = out->copy;
        out->experiment = first + 1;
    } else {
        out->experiment = out->copy;
    }
    return out->experiment[0] != '\0' && !strchr(out->experiment, '/');
}

static bool is_over(const struct show_options *show, const struct task_name *name, uint32_t number)
{
    struct session session;
    struct core_task_view task;
    if (cli_read_session(show->state, name->run, &session) != EXIT_DONE) {
        return true;
    }
    core_task_view(session.core, WORKFLOW, number, name->index, &task);
    bool over = task.state >= TASK_SUCCEEDED ||
                core_workflow_state(session.core, WORKFLOW) != WORKFLOW_RUNNING;
    session_release(&session);
    return over;
}

/* What rotation moved aside: the part before the newest. */
static void print_older(const char *path)
{
    AUTO_STR struct str older = {0};
    str_addf(&older, "%s.1", path);
    AUTO_CLOSE int fd = open(str_text(&older), O_RDONLY | O_CLOEXEC);
    char bytes[65536];
    ssize_t got = 0;
    while (fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0) {
        AUTO_STR struct str text = {0};
        str_add_bytes(&text, bytes, (size_t)got);
        cli_write(&text);
    }
}

static int print_log(const char *path, const struct show_options *show,
                     const struct task_name *name, uint32_t number)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cli_error(EXIT_WORK_FAILED, "%s: %s", path, strerror(errno));
    }
    print_older(path);
    bool over = !show->follow;
    for (;;) {
        char bytes[65536];
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got > 0) {
            struct str text = {0};
            str_add_bytes(&text, bytes, (size_t)got);
            cli_write(&text);
            str_release(&text);
        } else if (over || got < 0) {
            return EXIT_DONE;
        } else {
            usleep(200000);
            over = is_over(show, name, number);
        }
    }
}

static int show_log(const struct show_options *show, const struct task_name *name)
{
    struct session session;
    int code = cli_read_session(show->state, name->run, &session);
    if (code != EXIT_DONE) {
        return code;
    }
    uint32_t number = 0;
    while (number < session.recipe->experiment_count &&
           strcmp(session.recipe->experiments[number].name, name->experiment) != 0) {
        number++;
    }
    if (number == session.recipe->experiment_count ||
        name->index >= session.recipe->experiments[number].task_count) {
        session_release(&session);
        return cli_error(EXIT_USAGE, "there is no task %s/%" PRIu64, name->experiment, name->index);
    }
    struct core_task_view task;
    core_task_view(session.core, WORKFLOW, number, name->index, &task);
    AUTO_STR struct str path = {0};
    place_add_log(&path, session.folder, name->experiment, name->index, task.attempt);
    bool may_begin = task.state < TASK_SUCCEEDED && place_is_locked(session.folder);
    session_release(&session);
    bool has_begun = task.attempt > 0 && access(str_text(&path), F_OK) == 0;
    if (!has_begun && show->follow && may_begin) {
        usleep(200000);
        return SHOW_AGAIN;
    }
    if (task.attempt == 0) {
        return cli_error(EXIT_WORK_FAILED, "task %s/%" PRIu64 " has not been tried yet",
                         name->experiment, name->index);
    }
    return print_log(str_text(&path), show, name, number);
}

static int run_logs(int argc, char **argv)
{
    struct show_options show = {0};
    int code = parse(&cmd_logs, &show, argc, argv);
    if (code >= 0) {
        return code;
    }
    struct task_name name = {0};
    if (!show.run || !parse_task_name(show.run, &name)) {
        code = cli_usage_error(&cmd_logs, "which task? EXPERIMENT/INDEX, as drover tasks shows it");
    } else {
        do {
            code = show_log(&show, &name);
        } while (code == SHOW_AGAIN);
    }
    free(name.copy);
    return code;
}

const struct cli_command cmd_list = {
    .name = "list",
    .arguments = "[--json]",
    .summary = "the runs in the default place, newest first",
    .help = "  --json   one object a run, as drover status --json\n",
    .run = run_list,
};

const struct cli_command cmd_status = {
    .name = "status",
    .arguments = "[W | --state DIR] [--json]",
    .summary = "how a run stands, also while it runs (default: the newest)",
    .help = "  --state DIR   the run in this folder\n"
            "  --json        one object: id, state, experiments with their counts\n",
    .run = run_status,
};

const struct cli_command cmd_tasks = {
    .name = "tasks",
    .arguments = "[W | --state DIR] [--failed] [--experiment E] [--json]",
    .summary = "every task of a run: state, attempt, time, why it failed, parameters",
    .help = "  --state DIR          the run in this folder\n"
            "  --json               one object a task\n"
            "  --failed             only tasks that failed\n"
            "  -e, --experiment E   only this experiment\n",
    .run = run_tasks,
};

const struct cli_command cmd_logs = {
    .name = "logs",
    .arguments = "[W/]EXPERIMENT/INDEX [--state DIR] [-f]",
    .summary = "what the newest attempt of a task printed; -f follows it",
    .help = "  --state DIR    the run in this folder\n"
            "  -f, --follow   wait for the task to begin and print until it is over\n",
    .run = run_logs,
};
