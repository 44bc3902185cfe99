/* cmd_cancel.c - cancel and retry: a workflow, or one task of it. */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/task_name.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct act {
    const struct cli_command *command;
    const char *verb;
    const char *past; /* "cancelled" */
    const char *state;
    bool as_json;
    const char *what;
};

static void add_path(struct str *path, const struct act *act)
{
    struct task_name name = {0};
    if (strchr(act->what, '/') && task_name_parse(act->what, &name)) {
        remote_add_workflow(path, name.run);
        task_name_add_path(path, &name);
    } else {
        remote_add_workflow(path, act->what);
    }
    str_addf(path, "/%s", act->verb);
    task_name_release(&name);
}

static int perform(const struct act *act)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str out = {0};
    struct remote remote = {0};
    struct jread answer = {0};
    add_path(&path, act);
    int code = remote_open(act->state, &remote);
    if (code == EXIT_DONE) {
        code = remote_post(&remote, str_text(&path), &answer, NULL);
    }
    if (code == EXIT_DONE && act->as_json) {
        jread_add(&out, answer.root);
        str_add_char(&out, '\n');
    } else if (code == EXIT_DONE) {
        uint64_t tasks = jread_u64(answer.root, "tasks", 1);
        jread_add_clean(&out, jread_text(answer.root, "id", act->what));
        str_addf(&out, ": %" PRIu64 " task%s %s\n", tasks, tasks == 1 ? "" : "s", act->past);
    }
    cli_write(&out);
    jread_release(&answer);
    remote_close(&remote);
    return code;
}

static int run_act(struct act *act, int argc, char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 'd'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'd') {
            act->state = optarg;
        } else if (option == 'j') {
            act->as_json = true;
        } else {
            return cli_bad_option(act->command, option, argv);
        }
    }
    /* no "newest" here: what is done to the wrong one cannot be undone */
    if (argc - optind != 1) {
        return cli_usage_error(act->command,
                               "which one? W, or a task W/EXPERIMENT/INDEX (drover list)");
    }
    act->what = argv[optind];
    struct task_name name = {0};
    bool fine = !strchr(act->what, '/') || (task_name_parse(act->what, &name) && name.run);
    task_name_release(&name);
    if (!fine) {
        return cli_usage_error(act->command, "a task is named W/EXPERIMENT/INDEX, not '%s'",
                               act->what);
    }
    return perform(act);
}

static int run_cancel(int argc, char **argv)
{
    struct act act = {.command = &cmd_cancel, .verb = "cancel", .past = "cancelled"};
    return run_act(&act, argc, argv);
}

static int run_retry(int argc, char **argv)
{
    struct act act = {.command = &cmd_retry, .verb = "retry", .past = "to be run again"};
    return run_act(&act, argc, argv);
}

const struct cli_command cmd_cancel = {
    .name = "cancel",
    .arguments = "W | W/EXPERIMENT/INDEX [--state DIR] [--json]",
    .summary = "end a server's workflow, or one task of it",
    .help = "  --state DIR   the server of this folder\n"
            "  --json        one object: id, tasks (how many were cancelled)\n\n"
            "Running tasks get TERM, and KILL after their grace; results so far are kept.\n"
            "drover retry takes it back.\n\n"
            "Examples:\n"
            "  drover cancel mnist-3\n"
            "  drover cancel mnist-3/train/17\n",
    .run = run_cancel,
};

const struct cli_command cmd_retry = {
    .name = "retry",
    .arguments = "W | W/EXPERIMENT/INDEX [--state DIR] [--json]",
    .summary = "run again what failed, was cancelled or was skipped",
    .help = "  --state DIR   the server of this folder\n"
            "  --json        one object: id, tasks (how many run again)\n\n"
            "Tasks that succeeded are not run again; the others get all their retries anew, with\n"
            "the same arguments.\n\n"
            "Examples:\n"
            "  drover retry mnist-3\n"
            "  drover retry mnist-3/train/17\n",
    .run = run_retry,
};
