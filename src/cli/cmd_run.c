#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/summary.h"
#include "cli/volume_find.h"
#include "master/master.h"
#include "master/place.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run_options {
    struct session_options session;
    const char **sets;
    size_t set_count;
    size_t set_cap;
    uint64_t seed;
    uint64_t slots; /* 0: one for each CPU */
    uint64_t nodes; /* processes; 0: one node, in this process */
    bool power_durable;
    bool as_json;
    bool quiet;
    bool plain;
    struct store_faults faults;
    bool messages_only; /* neither processes nor durability: the way to the nodes and back */
};

enum { SLOTS_MAX = 1024, NODES_MAX = 1000 };

/* "SEED:FAIL:FULL:LOST:DELAY_US", for tests of what happens when the store does badly. */
static bool parse_faults(const char *text, struct store_faults *out)
{
    unsigned long long seed = 0;
    long long delay_us = 0;
    if (sscanf(text, "%llu:%lf:%lf:%lf:%lld", &seed, &out->fail, &out->full, &out->lost_reply,
               &delay_us) != 5) {
        return false;
    }
    out->seed = seed;
    out->delay_us = delay_us;
    return true;
}

static const struct option options[] = {
    {"slots", required_argument, NULL, 'n'},
    {"nodes", required_argument, NULL, 'N'},
    {"set", required_argument, NULL, 's'},
    {"state", required_argument, NULL, 'd'},
    {"resume", required_argument, NULL, 'r'},
    {"seed", required_argument, NULL, 'S'},
    {"json", no_argument, NULL, 'j'},
    {"plain", no_argument, NULL, 'p'},
    {"quiet", no_argument, NULL, 'q'},
    {"durable", required_argument, NULL, 'D'},
    {"no-containers", no_argument, NULL, 'C'},
    {"ignore-hardware", no_argument, NULL, 'H'},
    {"store-faults", required_argument, NULL, 'F'}, /* not in the help: for tests */
    {"messages-only", no_argument, NULL, 'M'},      /* nor this: for benchmarks */
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int parse_option(struct run_options *run, int option, char **argv)
{
    switch (option) {
    case 'n':
        if (!cli_parse_u64(optarg, SLOTS_MAX, &run->slots) || run->slots == 0) {
            return cli_usage_error(&cmd_run, "--slots takes a number from 1 to %d", SLOTS_MAX);
        }
        return -1;
    case 'N':
        if (!cli_parse_u64(optarg, NODES_MAX, &run->nodes) || run->nodes == 0) {
            return cli_usage_error(&cmd_run, "--nodes takes a number from 1 to %d", NODES_MAX);
        }
        return -1;
    case 's':
        VEC_PUSH(run->sets, run->set_count, run->set_cap) = optarg;
        return -1;
    case 'd':
        run->session.state = optarg;
        return -1;
    case 'r':
        run->session.resume = optarg;
        return -1;
    case 'S':
        if (!cli_parse_u64(optarg, UINT64_MAX, &run->seed)) {
            return cli_usage_error(&cmd_run, "--seed takes a number");
        }
        run->session.seed = &run->seed;
        return -1;
    case 'j':
        run->as_json = true;
        return -1;
    case 'p':
        run->plain = true;
        return -1;
    case 'q':
        run->quiet = true;
        return -1;
    case 'D':
        run->power_durable = strcmp(optarg, "power") == 0;
        if (!run->power_durable && strcmp(optarg, "process") != 0) {
            return cli_usage_error(&cmd_run, "--durable takes process or power");
        }
        return -1;
    case 'C':
        run->session.no_containers = true;
        return -1;
    case 'H':
        run->session.ignore_hardware = true;
        return -1;
    case 'M':
        run->messages_only = true;
        return -1;
    case 'F':
        if (!parse_faults(optarg, &run->faults)) {
            return cli_usage_error(&cmd_run, "--store-faults takes SEED:FAIL:FULL:LOST:DELAY_US");
        }
        run->session.faults = &run->faults;
        return -1;
    default:
        return cli_bad_option(&cmd_run, option, argv);
    }
}

/* -1: go on; else the exit code. */
static int parse(struct run_options *run, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hn:j", options, NULL)) != -1) {
        int code = parse_option(run, option, argv);
        if (code >= 0) {
            return code;
        }
    }
    if (run->session.resume) {
        if (optind != argc || run->session.state || run->set_count > 0 || run->session.seed) {
            return cli_usage_error(&cmd_run,
                                   "--resume W goes on with a run as it was begun: no recipe, "
                                   "--state, --set or --seed");
        }
        return -1;
    }
    if (argc - optind != 1) {
        return cli_usage_error(&cmd_run, optind == argc ? "which recipe?" : "one recipe, please");
    }
    run->session.recipe_file = argv[optind];
    run->session.sets = run->sets;
    run->session.set_count = run->set_count;
    return -1;
}

/* The nearest folder that exists where the state will be: its disk is the one that counts. */
static void find_place(const char *state, struct str *out)
{
    if (state) {
        str_add(out, state);
    } else if (place_runs_folder(out, NULL) != ERR_OK) {
        str_add(out, "/");
    }
    while (access(str_text(out), F_OK) != 0) {
        char *slash = strrchr(out->text, '/');
        if (!slash || slash == out->text) {
            str_clear(out);
            str_add(out, slash ? "/" : ".");
            return;
        }
        *slash = '\0';
        out->size = (size_t)(slash - out->text);
    }
}

static void to_resources(const struct node_capacity *capacity, struct core_resources *out)
{
    *out = (struct core_resources){.cpu_milli = capacity->cpu_milli,
                                   .gpus = capacity->gpus,
                                   .memory_bytes = capacity->memory_bytes,
                                   .disk_bytes = capacity->disk_bytes};
    snprintf(out->gpu_kind, sizeof out->gpu_kind, "%s", capacity->gpu_kind);
}

static int report_end(const struct session *session, enum master_end end, const struct err *err,
                      bool in_default_place)
{
    if (end == MASTER_BROKEN) {
        return cli_error(EXIT_WORK_FAILED, "%s", err->text);
    }
    if (end == MASTER_STOPPED) {
        if (in_default_place) {
            fprintf(stderr, "to go on: drover run --resume %s\n", session->flow->id);
        } else {
            fprintf(stderr, "to go on: the same command again\n");
        }
        return EXIT_WORK_FAILED;
    }
    return core_workflow_state(session->core, 1) == WORKFLOW_SUCCEEDED ? EXIT_DONE
                                                                       : EXIT_WORK_FAILED;
}

/* One that can move its cursor. */
static bool is_lively_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind && strcmp(kind, "dumb") != 0;
}

static int run_session(const struct run_options *run, struct session *session,
                       const struct node_capacity *capacity)
{
    enum show_kind kind = run->as_json                          ? SHOW_JSON
                          : run->quiet                          ? SHOW_QUIET
                          : !run->plain && is_lively_terminal() ? SHOW_LIVE
                                                                : SHOW_PLAIN;
    uint32_t slots = capacity->cpu_milli / 1000;
    uint32_t nodes = (uint32_t)run->nodes;
    struct show *show = show_create(kind, nodes ? nodes * slots : slots);
    struct master_serve serve = {.host = "127.0.0.1", .local_nodes = nodes, .local_slots = slots};
    struct master_options master = {.session = session,
                                    .capacity = nodes ? NULL : capacity,
                                    .power_durable = run->power_durable,
                                    .until_ended = true,
                                    .message_only = run->messages_only,
                                    .serve = nodes ? &serve : NULL,
                                    .observer = show_observer(show)};
    if (run->messages_only) {
        session->store->ops->close(session->store);
        session->store = store_memory_create();
    }
    struct err err = {0};
    int64_t began_ms = clock_mono_ms();
    enum master_end end = master_run(&master, &err);
    if (end != MASTER_BROKEN) {
        show_end(show, session, end, clock_mono_ms() - began_ms);
    }
    show_destroy(show);
    if (kind == SHOW_QUIET && end == MASTER_DONE &&
        core_workflow_state(session->core, 1) != WORKFLOW_SUCCEEDED) {
        AUTO_STR struct str where = {0};
        summary_add_where(&where, session);
        cli_error(EXIT_WORK_FAILED, "the workflow %s: drover tasks --failed%s",
                  cli_workflow_state(core_workflow_state(session->core, 1)), str_text(&where));
    }
    return report_end(session, end, &err, !run->session.state);
}

static int run(int argc, char **argv)
{
    struct run_options run = {0};
    struct session session;
    struct node_capacity capacity;
    struct core_resources resources;
    struct diag_list diags = {0};
    struct err err = {0};
    AUTO_STR struct str difference = {0};
    int exit_code = parse(&run, argc, argv);
    if (exit_code < 0) {
        AUTO_STR struct str place = {0};
        find_place(run.session.state, &place);
        node_detect(str_text(&place), (uint32_t)run.slots, &capacity);
        to_resources(&capacity, &resources);
        run.session.node = &resources;
        run.session.difference = &difference;
        run.session.find_volumes = volume_find_and_reach;
        enum err_code code = session_open(&run.session, &session, &diags, &err);
        if (code == ERR_OK) {
            exit_code = run_session(&run, &session, &capacity);
            session_release(&session);
        } else {
            exit_code = cli_session_error(code, &diags, &err, &difference);
        }
        diag_release(&diags);
    }
    free(run.sets);
    return exit_code;
}

const struct cli_command cmd_run = {
    .name = "run",
    .arguments = "RECIPE [--slots N] [--state DIR] [--set K=V]... | --resume W",
    .summary = "run a recipe on this machine to its end: progress, then a summary",
    .help =
        "  -n, --slots N      tasks at once (default: the number of CPUs)\n"
        "  --nodes N          on N node processes, each with that many slots, as on a cluster\n"
        "  --state DIR        keep the run in DIR, and resume what is there. Without it each run\n"
        "                     gets a folder of its own (drover list)\n"
        "  --resume W         go on with run W of drover list\n"
        "  --set K=V          change the recipe: a dotted path (mnist.samples=10), or a\n"
        "                     parameter, which is then fixed to V (lr=0.1)\n"
        "  --seed S           instead of the recipe's seed\n"
        "  --json             events as JSON, one object a line\n"
        "  --plain            plain lines even on a terminal\n"
        "  --quiet            only what is wrong\n"
        "  --durable WHAT     process (default): survives kill -9; power: outputs are synced to\n"
        "                     the disk before they count\n"
        "  --no-containers    run image: experiments in this machine's environment\n"
        "  --ignore-hardware  run whatever hardware: asks for\n\n"
        "Ctrl-C once ends the tasks politely and keeps the state; twice, at once.\n"
        "Exit: 0 all done, 1 work failed or was stopped, 2 wrong usage or recipe.\n",
    .run = run,
};
