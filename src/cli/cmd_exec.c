#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/batch.h"
#include "cli/cli.h"
#include "cli/collect.h"
#include "cli/pick.h"
#include "cli/submit.h"
#include "recipe/units.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_AT_NODE_MS = 1000, GONE_MS = 10000 };

struct exec_options {
    const char *state;
    const char *on;
    const char *workdir;
    int64_t timeout_ms;
    bool as_json;
    char **argv;
    size_t argc;
};

static int parse(struct exec_options *exec, int argc, char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 'd'},
                                            {"on", required_argument, NULL, 'o'},
                                            {"workdir", required_argument, NULL, 'w'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option = 0;
    /* "+": what follows the command is the command's own */
    while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            exec->state = optarg;
            break;
        case 'o':
            exec->on = optarg;
            break;
        case 'w':
            exec->workdir = optarg;
            break;
        case 't':
            if (!units_duration(optarg, &exec->timeout_ms) || exec->timeout_ms == 0) {
                return cli_usage_error(&cmd_exec, "--timeout takes a time such as 90s or 10m");
            }
            break;
        case 'j':
            exec->as_json = true;
            break;
        default:
            return cli_bad_option(&cmd_exec, option, argv);
        }
    }
    if (optind == argc) {
        return cli_usage_error(&cmd_exec, "which command?");
    }
    if (exec->workdir && exec->workdir[0] != '/') {
        return cli_usage_error(&cmd_exec, "--workdir takes a path from the root, as on the nodes");
    }
    exec->argv = argv + optind;
    exec->argc = (size_t)(argc - optind);
    return -1;
}

static void print_json(const char *node, const struct collected *result, const struct str *output)
{
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    json_object(&json);
    json_key(&json, "node");
    json_text(&json, node);
    json_key(&json, "state");
    json_text(&json, result->state);
    json_key(&json, "exit_code");
    if (result->has_exit_code) {
        json_u64(&json, result->exit_code);
    } else {
        json_null(&json);
    }
    json_key(&json, "reason");
    if (result->reason.size > 0) {
        json_text(&json, str_text(&result->reason));
    } else {
        json_null(&json);
    }
    json_key(&json, "output");
    json_bytes(&json, str_text(output), output->size);
    json_end(&json);
    str_add_char(&out, '\n');
    cli_write(&out);
}

static int print_result(struct collect *collect, const struct exec_options *exec,
                        const struct collect_task *task, const char *node,
                        const struct collected *result)
{
    AUTO_STR struct str output = {0};
    if (exec->as_json) {
        int code = collect_output(collect, task, result, &output);
        if (code == EXIT_DONE) {
            print_json(node, result, &output);
        }
        return code;
    }
    AUTO_STR struct str heading = {0};
    str_add(&heading, "== ");
    jread_add_clean(&heading, node);
    if (!result->good) {
        str_addf(&heading, ": %s", str_text(&result->reason));
    }
    str_add_char(&heading, '\n');
    cli_write(&heading);
    return collect_output(collect, task, result, NULL);
}

/* While a node keeps us waiting. */
struct watch {
    int64_t away_since_ms; /* 0: it is here */
    bool told;             /* that it has no room */
};

/* A node that went away takes its command with it, for nobody else may run it; but a moment's
 * silence is forgiven. */
static bool is_gone(struct collect *collect, const char *node, struct watch *watch,
                    struct collected *result)
{
    int64_t now_ms = clock_mono_ms();
    AUTO_STR struct str path = {0};
    struct jread answer = {0};
    str_add(&path, "/api/v1/nodes/");
    client_add_encoded(&path, node);
    collect->remote->quiet = true;
    int code = remote_get(collect->remote, str_text(&path), &answer, NULL);
    collect->remote->quiet = false;
    const char *state = jread_text(answer.root, "state", "");
    bool away = code == EXIT_DONE && strcmp(state, "here") != 0 && strcmp(state, "draining") != 0;
    watch->away_since_ms = !away ? 0 : watch->away_since_ms > 0 ? watch->away_since_ms : now_ms;
    if (!watch->told && jread_u64(answer.root, "tasks", 0) >= jread_u64(answer.root, "slots", 1)) {
        fprintf(stderr, "drover: %s is full; it runs there when a task ends\n", node);
        watch->told = true;
    }
    bool gone = away && now_ms - watch->away_since_ms >= GONE_MS;
    if (gone) {
        collected_release(result);
        snprintf(result->state, sizeof result->state, "failed");
        str_addf(&result->reason, "the node is %.20s", state);
    }
    jread_release(&answer);
    return gone;
}

/* In order, each as soon as it is there. *failed: a command failed. */
static int collect_all(struct collect *collect, const struct exec_options *options,
                       const struct batch_exec *exec, const char *workflow, bool *failed)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < exec->node_count && code == EXIT_DONE; i++) {
        AUTO_STR struct str name = {0};
        batch_exec_name(&name, exec, i);
        struct collect_task task = {.workflow = workflow, .experiment = str_text(&name)};
        struct collected result = {0};
        bool ready = false;
        struct watch watch = {0};
        while (code == EXIT_DONE && !ready) {
            code = collect_wait(collect, &task, LOOK_AT_NODE_MS, &result, &ready);
            ready =
                ready || (code == EXIT_DONE && is_gone(collect, exec->nodes[i], &watch, &result));
        }
        if (ready) {
            code = print_result(collect, options, &task, exec->nodes[i], &result);
            *failed = *failed || !result.good;
        }
        collected_release(&result);
    }
    return code;
}

/* At most BATCH_NODES_MAX nodes. */
static int run_on(struct remote *remote, const struct exec_options *options,
                  const struct picked *picked, size_t first, bool *failed)
{
    AUTO_STR struct str recipe = {0};
    struct jread answer = {0};
    struct collect collect = {.remote = remote};
    size_t count = picked->here_count - first;
    struct batch_exec exec = {.argv = options->argv,
                              .argc = options->argc,
                              .nodes = (const char *const *)picked->here + first,
                              .node_count = count < BATCH_NODES_MAX ? count : BATCH_NODES_MAX,
                              .timeout_ms = options->timeout_ms};
    batch_exec_recipe(&recipe, &exec);
    AUTO_FREE char *folder = submit_workdir(remote, options->workdir);
    struct submit submit = {.recipe = str_text(&recipe),
                            .recipe_size = recipe.size,
                            .file = "COMMAND",
                            .folder = folder};
    int code = submit_send(remote, &submit, &answer);
    if (code == EXIT_DONE) {
        const char *workflow = jread_text(answer.root, "id", "?");
        code = collect_all(&collect, options, &exec, workflow, failed);
        if (code != EXIT_DONE || *failed) {
            collect_cancel(&collect, workflow); /* nothing of it may linger */
        }
    }
    collect_release(&collect);
    jread_release(&answer);
    return code;
}

static int run_everywhere(struct remote *remote, const struct exec_options *options,
                          const struct selector *selector)
{
    struct picked picked = {0};
    bool failed = false;
    int code = pick_nodes(remote, selector, &picked);
    for (size_t i = 0; code == EXIT_DONE && i < picked.here_count; i += BATCH_NODES_MAX) {
        code = run_on(remote, options, &picked, i, &failed);
    }
    for (size_t i = 0; code == EXIT_DONE && selector->count > 0 && i < picked.away_count; i++) {
        fprintf(stderr, "drover: %s: nothing was run there\n", picked.away[i]);
        failed = true;
    }
    if (code != EXIT_DONE && collect_is_interrupted()) {
        fprintf(stderr, "drover: interrupted; the commands were cancelled\n");
    }
    picked_release(&picked);
    return code == EXIT_DONE && failed ? EXIT_WORK_FAILED : code;
}

static int run(int argc, char **argv)
{
    struct exec_options exec = {0};
    struct selector selector = {0};
    struct remote remote = {0};
    struct err err = {0};
    int code = parse(&exec, argc, argv);
    if (code >= 0) {
        return code;
    }
    if (exec.on && selector_parse(exec.on, &selector, &err) != ERR_OK) {
        return cli_usage_error(&cmd_exec, "%s", err.text);
    }
    code = remote_open(exec.state, &remote);
    if (code == EXIT_DONE) {
        collect_catch_signals();
        code = run_everywhere(&remote, &exec, &selector);
    }
    remote_close(&remote);
    selector_release(&selector);
    return code;
}

const struct cli_command cmd_exec = {
    .name = "exec",
    .arguments = "[--on SELECTOR] [--timeout T] [--json] [--] COMMAND [ARGUMENT]...",
    .summary = "run a command on every node of a server, or on some, and print what each said",
    .help =
        "  --on SELECTOR   node names and labels, a comma for \"or\": gpu-1,zone=a; * in them is\n"
        "                  any text. Without it: every node that is here\n"
        "  --timeout T     end a command that runs longer (30s, 5m)\n"
        "  --workdir DIR   where it runs on the nodes (default: this folder if the server is on\n"
        "                  this machine, else /)\n"
        "  --state DIR     the server of this folder\n"
        "  --json          one object a node: node, state, exit_code, reason, output\n\n"
        "The command runs without a shell, beside whatever the nodes do, and ahead of what waits.\n"
        "Outputs come in the order of the nodes, below a line \"== NAME\". Exit 1 if one "
        "failed.\n\n"
        "Examples:\n"
        "  drover exec -- uptime\n"
        "  drover exec --on zone=a -- sh -c 'df -h /tmp | tail -n 1'\n"
        "  drover exec --on 'gpu-*' --json -- nvidia-smi -L\n",
    .run = run,
};
