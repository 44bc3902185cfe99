#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/load.h"
#include "master/spec.h"
#include "sim/sim.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES_MAX = 1000000, SLOTS_MAX = 1024, SCAN_EVERY = 10000 };

struct sim_command {
    struct load load;
    struct sim_options sim;
    bool as_json;
};

static const struct option options[] = {
    {"nodes", required_argument, NULL, 'n'},
    {"slots", required_argument, NULL, 's'},
    {"task-time", required_argument, NULL, 't'},
    {"mtbf", required_argument, NULL, 'm'},
    {"boot-time", required_argument, NULL, 'b'},
    {"lease", required_argument, NULL, 'l'},
    {"cut-share", required_argument, NULL, 'c'},
    {"net-loss", required_argument, NULL, 'L'},
    {"fail-share", required_argument, NULL, 'f'},
    {"price", required_argument, NULL, 'p'},
    {"seed", required_argument, NULL, 'S'},
    {"limit", required_argument, NULL, 'T'},
    {"set", required_argument, NULL, 'k'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int parse_count(const char *name, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    if (!cli_parse_u64(optarg, max, &number) || number == 0) {
        return cli_usage_error(&cmd_sim, "--%s takes a number from 1 to %" PRIu64, name, max);
    }
    *out = (uint32_t)number;
    return -1;
}

static int parse_share(const char *name, double *out)
{
    char *end = NULL;
    double number = strtod(optarg, &end);
    if (end == optarg || *end != '\0' || !(number >= 0 && number < 1)) {
        return cli_usage_error(&cmd_sim, "--%s takes a share from 0 to less than 1", name);
    }
    *out = number;
    return -1;
}

static int parse_seconds(const char *name, double *out)
{
    struct sim_time time;
    if (sim_time_parse(optarg, &time, NULL) != ERR_OK || time.kind != SIM_FIXED) {
        return cli_usage_error(&cmd_sim, "--%s takes a time such as 30s, 5m or 2h", name);
    }
    *out = time.a;
    return -1;
}

static int parse_price(int64_t *out)
{
    char *end = NULL;
    double number = strtod(optarg, &end);
    if (end == optarg || *end != '\0' || !(number >= 0 && number < 1e6)) {
        return cli_usage_error(&cmd_sim, "--price takes USD an hour for one node");
    }
    *out = (int64_t)(number * 1e6 + 0.5);
    return -1;
}

static int parse_option(struct sim_command *command, int option, char **argv)
{
    struct sim_options *sim = &command->sim;
    struct err err = {0};
    switch (option) {
    case 'n':
        return parse_count("nodes", NODES_MAX, &sim->nodes);
    case 's':
        return parse_count("slots", SLOTS_MAX, &sim->slots);
    case 't':
        return sim_time_parse(optarg, &sim->task_time, &err) == ERR_OK
                   ? -1
                   : cli_usage_error(&cmd_sim, "--task-time: %s", err.text);
    case 'm':
        return parse_seconds("mtbf", &sim->mtbf_s);
    case 'b':
        return parse_seconds("boot-time", &sim->boot_s);
    case 'l':
        return parse_seconds("lease", &sim->lease_s);
    case 'T':
        return parse_seconds("limit", &sim->limit_s);
    case 'c':
        return parse_share("cut-share", &sim->cut_share);
    case 'L':
        return parse_share("net-loss", &sim->net_loss);
    case 'f':
        return parse_share("fail-share", &sim->fail_share);
    case 'p':
        return parse_price(&sim->price_usd_micro);
    case 'S':
        return cli_parse_u64(optarg, INT64_MAX, &sim->seed)
                   ? -1
                   : cli_usage_error(&cmd_sim, "--seed takes a number");
    case 'k':
        load_add_set(&command->load, optarg);
        return -1;
    case 'j':
        command->as_json = true;
        return -1;
    default:
        return cli_bad_option(&cmd_sim, option, argv);
    }
}

static void print_json(const struct sim_command *command, const struct sim_result *result,
                       double wall_s)
{
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    const struct {
        const char *key;
        uint64_t number;
    } counts[] = {
        {"tasks", result->tasks},
        {"accepted", result->accepted},
        {"failed", result->failed},
        {"lost", result->lost},
        {"duplicates", result->duplicates},
        {"attempts", result->attempts},
        {"attempts_lost", result->attempts_lost},
        {"refused", result->refused},
        {"node_losses", result->node_losses},
        {"events", result->events},
        {"nodes", command->sim.nodes},
        {"seed", command->sim.seed},
    };
    json_object(&json);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_key(&json, counts[i].key);
        json_u64(&json, counts[i].number);
    }
    json_key(&json, "state");
    json_text(&json, cli_workflow_state(result->state));
    json_key(&json, "simulated_s");
    json_double(&json, result->simulated_s);
    json_key(&json, "busy");
    json_double(&json, result->busy_share);
    json_key(&json, "wall_s");
    json_double(&json, wall_s);
    json_key(&json, "cost");
    json_double(&json, (double)result->cost_usd_micro / 1e6);
    json_end(&json);
    str_add_char(&out, '\n');
    cli_write(&out);
}

static void print_text(const struct sim_command *command, const struct sim_result *result,
                       double wall_s)
{
    AUTO_STR struct str out = {0};
    str_addf(&out,
             "%s: %" PRIu64 " of %" PRIu64 " tasks accepted on %" PRIu32 " nodes of %" PRIu32
             " slot%s\ntime      ",
             cli_workflow_state(result->state), result->accepted, result->tasks, command->sim.nodes,
             command->sim.slots, command->sim.slots == 1 ? "" : "s");
    clock_add_duration(&out, (int64_t)(result->simulated_s * 1000));
    str_addf(&out, ", slots busy %.1f %%\n", result->busy_share * 100);
    if (command->sim.price_usd_micro > 0) {
        str_addf(&out, "cost      %.2f USD at %.4g USD an hour a node\n",
                 (double)result->cost_usd_micro / 1e6, (double)command->sim.price_usd_micro / 1e6);
    }
    str_addf(&out, "attempts  %" PRIu64, result->attempts);
    if (result->node_losses > 0) {
        str_addf(&out,
                 ", %" PRIu64 " lost with %" PRIu64 " nodes, %" PRIu64 " stale reports refused",
                 result->attempts_lost, result->node_losses, result->refused);
    }
    str_addf(&out,
             "\nchecked   %" PRIu64 " events, 0 results lost, 0 accepted twice (seed %" PRIu64
             ", %.1f s)\n",
             result->events, command->sim.seed, wall_s);
    cli_write(&out);
}

static int simulate(const struct sim_command *command)
{
    const struct recipe *recipe = command->load.recipe;
    AUTO_FREE struct core_experiment_spec *specs =
        mem_array(recipe->experiment_count, sizeof *specs);
    spec_fill(recipe, true, specs);
    AUTO_FREE struct sim_search *searches = mem_array(recipe->experiment_count, sizeof *searches);
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct search_spec *search = recipe->experiments[e].search;
        if (search) {
            searches[e] =
                (struct sim_search){.trials = search->trials, .parallel = search->parallel};
        }
    }
    struct core_workflow_spec spec = {.seed = command->sim.seed,
                                      .experiments = specs,
                                      .experiment_count = recipe->experiment_count};
    struct sim_result result;
    struct err err = {0};
    struct sim_options sim = command->sim;
    sim.spec = &spec;
    sim.searches = searches;
    int64_t began_ms = clock_mono_ms();
    enum err_code code = sim_run(&sim, &result, &err);
    double wall_s = (double)(clock_mono_ms() - began_ms) / 1000.0;
    if (code != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    if (command->as_json) {
        print_json(command, &result, wall_s);
    } else {
        print_text(command, &result, wall_s);
    }
    return result.state == WORKFLOW_SUCCEEDED ? EXIT_DONE : EXIT_WORK_FAILED;
}

static int run(int argc, char **argv)
{
    struct sim_command command = {.sim = {.nodes = 100,
                                          .slots = 1,
                                          .task_time = {.kind = SIM_FIXED, .a = 60},
                                          .cut_share = 0.1,
                                          .boot_s = 60,
                                          .lease_s = 4,
                                          .latency_s = 0.0005,
                                          .seed = 1,
                                          .scan_every = SCAN_EVERY}};
    int code = -1;
    int option = 0;
    while (code < 0 && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        code = parse_option(&command, option, argv);
    }
    if (code < 0 && argc - optind != 1) {
        code = cli_usage_error(&cmd_sim, optind == argc ? "which recipe?" : "one recipe, please");
    }
    if (code < 0) {
        code = load_recipe(&command.load, argv[optind]);
        code = code == EXIT_DONE ? simulate(&command) : code;
    }
    load_release(&command.load);
    return code;
}

const struct cli_command cmd_sim = {
    .name = "sim",
    .arguments = "RECIPE [--nodes N] [--slots N] [--task-time T] [--mtbf T] [--price USD] ...",
    .summary = "predict time and cost on N nodes that fail, with the real scheduler",
    .help =
        "  --nodes N        nodes (default 100), each of --slots N slots (default 1)\n"
        "  --task-time T    60s, uniform(10s,90s), exp(60s) or lognormal(60s,0.5)\n"
        "  --mtbf T         mean life of a node, e.g. 2h for spot machines (default: for ever)\n"
        "  --boot-time T    until a lost node is replaced (default 60s)\n"
        "  --lease T        until a silent node is given up (default 4s)\n"
        "  --cut-share S    share of losses that are a cut cable: the node comes back (0.1)\n"
        "  --net-loss S     share of messages that are lost and healed a second later (0)\n"
        "  --fail-share S   share of attempts that fail (0)\n"
        "  --price USD      of one node for an hour\n"
        "  --limit T        give up after this much simulated time\n"
        "  --seed N         the same seed gives the same run (default 1)\n"
        "  --set K=V        change the recipe before reading it\n"
        "  --json           one object: tasks, accepted, lost, duplicates, attempts,\n"
        "                   simulated_s, wall_s, cost, ...\n\n"
        "Every task takes one slot, whatever hardware: says. Each trial of a search is a task of\n"
        "full length, parallel: of them at a time. Each accepted result and every\n"
        "invariant of the scheduler is checked on the way; exit 1 names a broken one.\n",
    .run = run,
};
