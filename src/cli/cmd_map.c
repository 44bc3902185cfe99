#include "base/io.h"
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

enum { INPUT_BYTES_MAX = 256 << 20, WORKERS_MAX = 1000000, RETRIES_MAX = 1000 };

struct map_options {
    const char *state;
    const char *on;
    const char *workdir;
    const char *file;
    bool sync;
    bool as_json;
    struct batch_map_options batch;
};

static const struct option options[] = {
    {"state", required_argument, NULL, 'd'},
    {"on", required_argument, NULL, 'o'},
    {"workdir", required_argument, NULL, 'w'},
    {"timeout", required_argument, NULL, 't'},
    {"slots", required_argument, NULL, 'n'},
    {"retries", required_argument, NULL, 'r'},
    {"cpu", required_argument, NULL, 'c'},
    {"sync", no_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool parse_cpu(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= 0.001 && *out <= 100000;
}

static int parse_option(struct map_options *map, int option, char **argv)
{
    switch (option) {
    case 'd':
        map->state = optarg;
        return -1;
    case 'o':
        map->on = optarg;
        return -1;
    case 'w':
        map->workdir = optarg;
        return optarg[0] == '/' ? -1
                                : cli_usage_error(&cmd_map, "--workdir takes a path from the root");
    case 't':
        return units_duration(optarg, &map->batch.timeout_ms) && map->batch.timeout_ms > 0
                   ? -1
                   : cli_usage_error(&cmd_map, "--timeout takes a time such as 90s or 10m");
    case 'n':
        return cli_parse_u64(optarg, WORKERS_MAX, &map->batch.workers) && map->batch.workers > 0
                   ? -1
                   : cli_usage_error(&cmd_map, "--slots takes a number from 1 to %d", WORKERS_MAX);
    case 'r':
        return cli_parse_u64(optarg, RETRIES_MAX, &map->batch.retries)
                   ? -1
                   : cli_usage_error(&cmd_map, "--retries takes a number up to %d", RETRIES_MAX);
    case 'c':
        return parse_cpu(optarg, &map->batch.cpu)
                   ? -1
                   : cli_usage_error(&cmd_map,
                                     "--cpu takes a number of processors such as 2 or 0.5");
    case 's':
        map->sync = true;
        return -1;
    case 'j':
        map->as_json = true;
        return -1;
    default:
        return cli_bad_option(&cmd_map, option, argv);
    }
}

static int parse(struct map_options *map, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hn:", options, NULL)) != -1) {
        int code = parse_option(map, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (argc - optind != 2) {
        return cli_usage_error(&cmd_map, "a COMMAND and a FILE of inputs (- for standard input)");
    }
    if (map->sync && map->workdir) {
        return cli_usage_error(&cmd_map, "--sync runs in a copy of this folder: no --workdir");
    }
    map->batch.command = argv[optind];
    map->file = argv[optind + 1];
    return -1;
}

/* One object or the output itself, for one input. */
static int print_result(struct collect *collect, const struct map_options *map,
                        const struct collect_task *task, const struct batch_line *line,
                        const struct collected *result)
{
    if (!map->as_json) {
        int code = collect_output(collect, task, result, NULL);
        if (code == EXIT_DONE && !result->good) {
            AUTO_STR struct str input = {0};
            AUTO_FREE char *text = mem_strndup(line->text, line->size < 100 ? line->size : 100);
            jread_add_clean(&input, text);
            cli_error(EXIT_WORK_FAILED, "input %s%s: %s", str_text(&input),
                      line->size > 100 ? "..." : "", str_text(&result->reason));
        }
        return code;
    }
    AUTO_STR struct str output = {0};
    AUTO_STR struct str out = {0};
    int code = collect_output(collect, task, result, &output);
    struct json json = {.out = &out};
    json_object(&json);
    json_key(&json, "input");
    json_bytes(&json, line->text, line->size);
    json_key(&json, "state");
    json_text(&json, result->state);
    json_key(&json, "exit_code");
    if (result->has_exit_code) {
        json_u64(&json, result->exit_code);
    } else {
        json_null(&json);
    }
    json_key(&json, "node");
    if (result->node.size > 0) {
        json_text(&json, str_text(&result->node));
    } else {
        json_null(&json);
    }
    json_key(&json, "output");
    json_bytes(&json, str_text(&output), output.size);
    json_end(&json);
    str_add_char(&out, '\n');
    if (code == EXIT_DONE) {
        cli_write(&out);
    }
    return code;
}

/* In the order of the inputs, each as soon as it and all before it are there. */
static int collect_all(struct collect *collect, const struct map_options *map,
                       const struct batch_map *batch, char **workflows, size_t *failed)
{
    int code = EXIT_DONE;
    struct collected result = {0};
    for (size_t i = 0; i < batch->count && code == EXIT_DONE; i++) {
        const struct batch_line *line = &batch->lines[i];
        AUTO_STR struct str experiment = {0};
        batch_map_experiment(&experiment, line);
        struct collect_task task = {.workflow = workflows[line->recipe],
                                    .experiment = str_text(&experiment),
                                    .index = line->index,
                                    .in_order = line->experiment == 1};
        bool ready = false;
        code = collect_wait(collect, &task, -1, &result, &ready);
        if (ready) {
            code = print_result(collect, map, &task, line, &result);
            *failed += result.good ? 0 : 1;
        }
    }
    collected_release(&result);
    return code;
}

static int submit_one(struct remote *remote, const struct map_options *map,
                      const struct batch_map *batch, uint32_t number, char **workflow)
{
    AUTO_STR struct str recipe = {0};
    struct jread answer = {0};
    batch_map_recipe(&recipe, batch, number, &map->batch);
    AUTO_FREE char *folder = map->sync ? realpath(".", NULL) : submit_workdir(remote, map->workdir);
    struct submit submit = {.recipe = str_text(&recipe),
                            .recipe_size = recipe.size,
                            .file = "COMMAND",
                            .folder = folder ? folder : "/",
                            .sync = map->sync,
                            .say_sync = !map->as_json};
    int code = submit_send(remote, &submit, &answer);
    if (code == EXIT_DONE) {
        *workflow = mem_strdup(jread_text(answer.root, "id", "?"));
    }
    jread_release(&answer);
    return code;
}

static int run_batch(struct remote *remote, const struct map_options *map,
                     const struct batch_map *batch)
{
    struct collect collect = {.remote = remote};
    char **workflows = mem_array(batch->recipe_count, sizeof *workflows);
    size_t failed = 0;
    int code = EXIT_DONE;
    for (uint32_t i = 0; i < batch->recipe_count && code == EXIT_DONE; i++) {
        code = submit_one(remote, map, batch, i, &workflows[i]);
    }
    if (code == EXIT_DONE) {
        if (batch->recipe_count > 0) {
            submit_note_waiting(remote, workflows[0]);
        }
        code = collect_all(&collect, map, batch, workflows, &failed);
    }
    for (uint32_t i = 0; i < batch->recipe_count; i++) {
        if (code != EXIT_DONE && workflows[i]) {
            collect_cancel(&collect, workflows[i]);
        }
        free(workflows[i]);
    }
    free(workflows);
    collect_release(&collect);
    if (code != EXIT_DONE && collect_is_interrupted()) {
        fprintf(stderr, "drover: interrupted; what had not run was cancelled\n");
    }
    if (failed > 0) {
        cli_error(EXIT_WORK_FAILED, "%zu of %zu inputs failed", failed, batch->count);
    }
    return code == EXIT_DONE && failed > 0 ? EXIT_WORK_FAILED : code;
}

/* The label that --on means: a node's name, or a label as it stands. */
static int find_label(struct remote *remote, const char *on, struct str *label)
{
    struct selector selector = {0};
    struct picked picked = {0};
    struct err err = {0};
    if (selector_parse(on, &selector, &err) != ERR_OK) {
        return cli_usage_error(&cmd_map, "%s", err.text);
    }
    int code = EXIT_DONE;
    if (selector.count != 1 || strchr(on, '*')) {
        code = cli_usage_error(&cmd_map, "--on takes one node or one label here; give the nodes a "
                                         "label in common (drover node --label)");
    } else {
        code = pick_nodes(remote, &selector, &picked);
    }
    if (code == EXIT_DONE) {
        bool is_name = false;
        for (size_t i = 0; i < picked.here_count; i++) {
            is_name = is_name || strcmp(picked.here[i], selector.terms[0]) == 0;
        }
        str_addf(label, "%s%s", is_name ? "node=" : "", selector.terms[0]);
    }
    picked_release(&picked);
    selector_release(&selector);
    return code;
}

static int run(int argc, char **argv)
{
    struct map_options map = {0};
    struct batch_map batch = {0};
    struct remote remote = {0};
    struct err err = {0};
    AUTO_STR struct str text = {0};
    AUTO_STR struct str label = {0};
    int code = parse(&map, argc, argv);
    if (code >= 0) {
        return code;
    }
    CHECK(map.file);
    const char *file = strcmp(map.file, "-") == 0 ? "/dev/stdin" : map.file;
    if (io_read_file(file, INPUT_BYTES_MAX, &text, &err) != ERR_OK ||
        batch_map_split(&batch, str_text(&text), text.size, &err) != ERR_OK) {
        return cli_error(EXIT_USAGE, "%s%s%s", err.code == ERR_INVALID ? map.file : "",
                         err.code == ERR_INVALID ? ": " : "", err.text);
    }
    code = remote_open(map.state, &remote);
    if (code == EXIT_DONE && map.on) {
        code = find_label(&remote, map.on, &label);
        map.batch.label = str_text(&label);
    }
    if (code == EXIT_DONE) {
        collect_catch_signals();
        code = run_batch(&remote, &map, &batch);
    }
    remote_close(&remote);
    batch_map_release(&batch);
    return code;
}

const struct cli_command cmd_map = {
    .name = "map",
    .arguments = "[--on NODE|LABEL] [--slots N] [--json] COMMAND FILE|-",
    .summary = "run a shell line once for each line of a file, over all nodes of a server",
    .help =
        "  --on WHERE      only on the node or the nodes with the label\n"
        "  -n, --slots N   at most N at a time (default: as many as there are slots)\n"
        "  --cpu N         processors for each (default 1)\n"
        "  --retries N     try an input again when it failed (default 0)\n"
        "  --timeout T     end a command that runs longer (30s, 5m)\n"
        "  --sync          send this folder to the nodes, and run in the copy\n"
        "  --workdir DIR   where it runs on the nodes (default: this folder if the server is on\n"
        "                  this machine, else /)\n"
        "  --state DIR     the server of this folder\n"
        "  --json          one object an input: input, state, exit_code, node, output\n\n"
        "{} in COMMAND is the input, quoted for its place; without it the input comes last. Empty\n"
        "lines are left out. Outputs are printed in the order of the inputs, as they come. Ctrl-C\n"
        "cancels what has not run. Exit 1 if one failed.\n\n"
        "Examples:\n"
        "  ls data/*.png | drover map 'python label.py {}' - >labels.txt\n"
        "  drover map --on gpu=t4 --retries 2 './infer {} >{}.out' files.txt\n"
        "  seq 100000 | drover map --json 'expr {} + 1' -\n",
    .run = run,
};
