#include "base/json.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "recipe/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WRITE_BYTES = 1 << 16 };

struct plan_options {
    bool as_json;
    const char *experiment; /* only this one */
    uint64_t limit;         /* tasks of each; UINT64_MAX: all */
};

static void add_json_row(struct str *out, const struct experiment *experiment, uint64_t index,
                         const struct str *params, const struct plan_task *task)
{
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "experiment");
    json_text(&json, experiment->name);
    json_key(&json, "task");
    json_u64(&json, index);
    json_key(&json, "params");
    json_raw(&json, str_text(params), params->size);
    json_key(&json, "command");
    json_array(&json);
    for (size_t i = 0; i < task->argc; i++) {
        json_text(&json, task->argv[i]);
    }
    json_end(&json);
    json_end(&json);
    str_add_char(out, '\n');
}

/* For people: one line a task; a shell command is shown as the line it is. */
static void add_plain_row(struct str *out, const struct experiment *experiment, uint64_t index,
                          const struct str *params, const struct plan_task *task)
{
    str_addf(out, "%s\t%" PRIu64 "\t", experiment->name, index);
    str_add_bytes(out, str_text(params), params->size);
    str_add_char(out, '\t');
    size_t first = experiment->is_exec ? 0 : task->argc - 1;
    for (size_t i = first; i < task->argc; i++) {
        str_add(out, i > first ? " " : "");
        for (const char *at = task->argv[i]; *at; at++) {
            if (strncmp(at, PLAN_LINE_GUARD, strlen(PLAN_LINE_GUARD)) == 0) {
                str_add(out, " && "); /* that is what it means */
                at += strlen(PLAN_LINE_GUARD) - 1;
            } else if (*at == '\n') {
                str_add(out, "\\n");
            } else {
                str_add_char(out, *at);
            }
        }
    }
    str_add_char(out, '\n');
}

/* What a search will do; its trials are not known yet. */
static void say_search(const struct experiment *experiment)
{
    const struct search_spec *search = experiment->search;
    AUTO_STR struct str text = {0};
    str_addf(&text, "'%s' is a search of at most %" PRIu64 " trials for the %s %s",
             experiment->name, search->trials, search->goals[0].maximize ? "greatest" : "least",
             search->goals[0].metric);
    for (size_t i = 1; i < search->goal_count; i++) {
        str_addf(&text, " and the %s %s", search->goals[i].maximize ? "greatest" : "least",
                 search->goals[i].metric);
    }
    str_addf(&text, ", by %s", recipe_algorithm_name(search->algorithm));
    if (search->parallel > 0) {
        str_addf(&text, ", %" PRIu32 " at a time", search->parallel);
    }
    if (search->early.algorithm != RECIPE_EARLY_NONE) {
        str_addf(&text, ", ended early by %s", recipe_early_name(search->early.algorithm));
    }
    fprintf(stderr, "drover: %s; they are chosen while it runs, this is an example\n",
            str_text(&text));
}

static void print_experiment(const struct plan_context *context, uint32_t number,
                             const struct plan_options *options)
{
    const struct experiment *experiment = &context->recipe->experiments[number];
    struct arena arena = {0};
    struct str out = {0};
    struct str params = {0};
    uint64_t most = experiment->search ? experiment->gang : experiment->task_count;
    uint64_t count = most < options->limit ? most : options->limit;
    if (experiment->search) {
        say_search(experiment);
    }
    for (uint64_t index = 0; index < count; index++) {
        struct plan_task task = {0};
        plan_task(context, number, index, 1, &arena, &task);
        plan_params_json(context, number, index, &arena, &params);
        if (options->as_json) {
            add_json_row(&out, experiment, index, &params, &task);
        } else {
            add_plain_row(&out, experiment, index, &params, &task);
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

static int print_plan(const struct load *load, const uint64_t *seed,
                      const struct plan_options *options)
{
    const struct recipe *recipe = load->recipe;
    struct plan_context context = {.recipe = recipe,
                                   .workflow = recipe->name,
                                   .recipe_folder = load->folder,
                                   .seed = seed               ? *seed
                                           : recipe->has_seed ? recipe->seed
                                                              : rng_seed_from_system() >> 11};
    bool drawn = false;
    bool found = false;
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        drawn = drawn || (recipe->experiments[e].sampled && !seed && !recipe->has_seed);
        found = found || !options->experiment ||
                strcmp(options->experiment, recipe->experiments[e].name) == 0;
    }
    if (!found) {
        return cli_error(EXIT_USAGE, "there is no experiment '%s'", options->experiment);
    }
    if (drawn) {
        fprintf(stderr,
                "drover: seed %" PRIu64 ", drawn for this plan (set seed: or --seed to fix it)\n",
                context.seed);
    }
    for (size_t i = 0; i < recipe->experiment_count; i++) {
        uint32_t number = recipe_order(recipe)[i];
        if (!options->experiment ||
            strcmp(options->experiment, recipe->experiments[number].name) == 0) {
            print_experiment(&context, number, options);
        }
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"set", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"seed", required_argument, NULL, 'S'},
                                            {"limit", required_argument, NULL, 'n'},
                                            {"experiment", required_argument, NULL, 'e'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct load load = {0};
    struct plan_options plan = {.limit = UINT64_MAX};
    uint64_t seed = 0;
    bool has_seed = false;
    int code = EXIT_DONE;
    bool stop = false;
    int option = 0;
    while (!stop && (option = getopt_long(argc, argv, ":he:", options, NULL)) != -1) {
        switch (option) {
        case 's':
            load_add_set(&load, optarg);
            break;
        case 'j':
            plan.as_json = true;
            break;
        case 'e':
            plan.experiment = optarg;
            break;
        case 'n':
            stop = !cli_parse_u64(optarg, UINT64_MAX, &plan.limit);
            code = stop ? cli_usage_error(&cmd_plan, "--limit takes a number") : EXIT_DONE;
            break;
        case 'S':
            has_seed = cli_parse_u64(optarg, UINT64_MAX, &seed);
            stop = !has_seed;
            code = stop ? cli_usage_error(&cmd_plan, "--seed takes a number") : EXIT_DONE;
            break;
        default:
            code = cli_bad_option(&cmd_plan, option, argv);
            stop = true;
        }
    }
    if (!stop && argc - optind != 1) {
        code = cli_usage_error(&cmd_plan, optind == argc ? "which recipe?" : "one recipe, please");
        stop = true;
    }
    if (!stop) {
        code = load_recipe(&load, argv[optind]);
    }
    if (!stop && code == EXIT_DONE) {
        code = print_plan(&load, has_seed ? &seed : NULL, &plan);
    }
    load_release(&load);
    return code;
}

const struct cli_command cmd_plan = {
    .name = "plan",
    .arguments = "RECIPE [--json] [--limit N] [--experiment E] [--seed S] [--set K=V]...",
    .summary = "print the expanded tasks, one per line; runs nothing",
    .help = "Columns: experiment, task, parameters, command (tabs between them).\n\n"
            "  --json          one object a line: experiment, task, params, command\n"
            "  --limit N       only the first N tasks of each experiment\n"
            "  -e, --experiment E   only this experiment\n"
            "  --seed S        instead of the recipe's seed\n"
            "  --set K=V       change the recipe before reading it\n",
    .run = run,
};
