/* drover advise: reads the options and the files, and hands over to the part that answers. */
#include "base/csv.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/advise.h"
#include "recipe/units.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_ALGORITHM = 1000,
    OPT_BUDGET,
    OPT_TOTAL_BUDGET,
    OPT_MAX_WORKERS,
    OPT_DEADLINE,
    OPT_WORKER_TYPES,
    OPT_PS_TYPE,
    OPT_PS_BANDWIDTH,
    OPT_SERVERS,
    OPT_P,
    OPT_PROFILE,
    OPT_BATCH,
    OPT_EXAMPLES,
    OPT_MODE,
    OPT_GOAL,
    OPT_SPOT,
    OPT_LOSS_RATE,
    OPT_SPOT_TRACE,
    OPT_SAVE,
    OPT_RESTART,
    OPT_SETUP,
    OPT_PROFILE_TIME,
    OPT_RUNS,
    OPT_JOB,
    OPT_ENGINES,
    OPT_SEED,
    OPT_CATALOG,
    OPT_REQUIRE,
    OPT_REGION,
    OPT_PROVIDER,
    OPT_LIMIT,
    OPT_JSON,
};

static const struct option options[] = {{"algorithm", required_argument, NULL, OPT_ALGORITHM},
                                        {"budget", required_argument, NULL, OPT_BUDGET},
                                        {"total-budget", required_argument, NULL, OPT_TOTAL_BUDGET},
                                        {"max-workers", required_argument, NULL, OPT_MAX_WORKERS},
                                        {"deadline", required_argument, NULL, OPT_DEADLINE},
                                        {"worker-types", required_argument, NULL, OPT_WORKER_TYPES},
                                        {"worker-type", required_argument, NULL, OPT_WORKER_TYPES},
                                        {"ps-type", required_argument, NULL, OPT_PS_TYPE},
                                        {"ps-bandwidth", required_argument, NULL, OPT_PS_BANDWIDTH},
                                        {"servers", required_argument, NULL, OPT_SERVERS},
                                        {"p", required_argument, NULL, OPT_P},
                                        {"profile", required_argument, NULL, OPT_PROFILE},
                                        {"batch", required_argument, NULL, OPT_BATCH},
                                        {"examples", required_argument, NULL, OPT_EXAMPLES},
                                        {"mode", required_argument, NULL, OPT_MODE},
                                        {"goal", required_argument, NULL, OPT_GOAL},
                                        {"spot", no_argument, NULL, OPT_SPOT},
                                        {"loss-rate", required_argument, NULL, OPT_LOSS_RATE},
                                        {"spot-trace", required_argument, NULL, OPT_SPOT_TRACE},
                                        {"save-time", required_argument, NULL, OPT_SAVE},
                                        {"restart-time", required_argument, NULL, OPT_RESTART},
                                        {"setup-time", required_argument, NULL, OPT_SETUP},
                                        {"profile-time", required_argument, NULL, OPT_PROFILE_TIME},
                                        {"runs", required_argument, NULL, OPT_RUNS},
                                        {"job", required_argument, NULL, OPT_JOB},
                                        {"engines", required_argument, NULL, OPT_ENGINES},
                                        {"seed", required_argument, NULL, OPT_SEED},
                                        {"catalog", required_argument, NULL, OPT_CATALOG},
                                        {"require", required_argument, NULL, OPT_REQUIRE},
                                        {"region", required_argument, NULL, OPT_REGION},
                                        {"provider", required_argument, NULL, OPT_PROVIDER},
                                        {"limit", required_argument, NULL, OPT_LIMIT},
                                        {"json", no_argument, NULL, OPT_JSON},
                                        {"help", no_argument, NULL, 'h'},
                                        {0}};

static int bad_value(const char *option, const char *wanted)
{
    return cli_usage_error(&cmd_advise, "--%s takes %s, not '%.60s'", option, wanted, optarg);
}

static bool read_real(double low, double high, double *out)
{
    char *end = NULL;
    double number = strtod(optarg, &end);
    bool plain = strspn(optarg, "0123456789+-.eE") == strlen(optarg) && end != optarg && !*end;
    if (!plain || !isfinite(number) || number < low || number > high) {
        return false;
    }
    *out = number;
    return true;
}

static bool read_seconds(double *out)
{
    int64_t ms = 0;
    if (!units_duration(optarg, &ms)) {
        return false;
    }
    *out = (double)ms / 1000;
    return true;
}

/* "2.5", "$2.5", "2.5 USD", "2.5/h", "2.5 USD/h". */
static bool read_money(int64_t *out)
{
    char number[40];
    const char *at = optarg + (optarg[0] == '$');
    size_t size = strspn(at, "0123456789.");
    if (size == 0 || size >= sizeof number) {
        return false;
    }
    memcpy(number, at, size);
    number[size] = '\0';
    at += size;
    at += *at == ' ';
    char currency[MONEY_CURRENCY_SIZE] = "";
    if (strlen(at) >= 3) {
        memcpy(currency, at, 3);
        at += money_is_currency(currency) ? 3 : 0;
    }
    bool rest = !*at || strcmp(at, "/h") == 0;
    return rest && money_parse(number, out, NULL) == ERR_OK;
}

static bool read_choice(const char *const *names, size_t count, int *out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(optarg, names[i]) == 0) {
            *out = (int)i;
            return true;
        }
    }
    return false;
}

static int read_algorithm(struct advise *advise)
{
    static const char *const names[] = {"cost", "time", "scala", "scala-m", "pareto", "best"};
    int choice = 0;
    if (!read_choice(names, 6, &choice)) {
        const char *near = suggest_nearest(optarg, names, 6);
        return cli_usage_error(&cmd_advise,
                               "--algorithm takes cost, time, scala, scala-m, pareto or best, not "
                               "'%.40s'%s%s%s",
                               optarg, near ? " (did you mean '" : "", near ? near : "",
                               near ? "'?)" : "");
    }
    advise->algorithm = (enum advise_algorithm)choice;
    advise->algorithm_given = true;
    return EXIT_DONE;
}

static int add_requirement(struct advise *advise, const char *field)
{
    AUTO_STR struct str text = {0};
    struct err err = {0};
    str_addf(&text, "%s%s%s", field ? field : "", field ? " = " : "", optarg);
    enum err_code code = require_parse(&advise->require, str_text(&text), &err);
    return code == ERR_OK ? EXIT_DONE : cli_usage_error(&cmd_advise, "%s", err.text);
}

/* Limits and money. -1: not one of these options. */
static int read_limit(struct advise *advise, int option)
{
    switch (option) {
    case OPT_BUDGET:
        return read_money(&advise->budget_hour_micro) ? EXIT_DONE
                                                      : bad_value("budget", "an amount an hour");
    case OPT_TOTAL_BUDGET:
        return read_money(&advise->budget_total_micro) ? EXIT_DONE
                                                       : bad_value("total-budget", "an amount");
    case OPT_MAX_WORKERS:
        return cli_parse_u64(optarg, 100000, &advise->max_workers) && advise->max_workers > 0
                   ? EXIT_DONE
                   : bad_value("max-workers", "a number from 1 to 100000");
    case OPT_SERVERS:
        return cli_parse_u64(optarg, 10000, &advise->servers) && advise->servers > 0
                   ? EXIT_DONE
                   : bad_value("servers", "a number from 1 to 10000");
    case OPT_DEADLINE:
        return read_seconds(&advise->deadline_s) && advise->deadline_s > 0
                   ? EXIT_DONE
                   : bad_value("deadline", "a time such as 90m");
    case OPT_P:
        return read_real(1e-6, 1, &advise->p) ? EXIT_DONE : bad_value("p", "a share up to 1");
    case OPT_PS_BANDWIDTH:
        return read_real(1e-3, 1e8, &advise->ps_mbps) ? EXIT_DONE
                                                      : bad_value("ps-bandwidth", "Mbit/s");
    case OPT_LIMIT:
        return cli_parse_u64(optarg, UINT64_MAX, &advise->limit) ? EXIT_DONE
                                                                 : bad_value("limit", "a number");
    case OPT_SEED:
        return cli_parse_u64(optarg, INT64_MAX, &advise->seed) ? EXIT_DONE
                                                               : bad_value("seed", "a number");
    default:
        return -1;
    }
}

/* The job and spot. */
static int read_job(struct advise *advise, int option)
{
    static const char *const goals[] = {"cost", "time", "balanced"};
    int choice = 0;
    switch (option) {
    case OPT_BATCH:
        return read_real(1e-9, 1e12, &advise->batch) ? EXIT_DONE
                                                     : bad_value("batch", "a number of examples");
    case OPT_EXAMPLES:
        return read_real(1e-9, 1e18, &advise->examples)
                   ? EXIT_DONE
                   : bad_value("examples", "a number of examples");
    case OPT_MODE:
        advise->mode = profile_mode_of(optarg);
        return advise->mode != PROFILE_MODE_UNKNOWN ? EXIT_DONE
                                                    : bad_value("mode", "sync, async or allreduce");
    case OPT_GOAL:
        if (!read_choice(goals, 3, &choice)) {
            return bad_value("goal", "cost, time or balanced");
        }
        advise->goal = (enum rank_goal)choice;
        return EXIT_DONE;
    case OPT_SPOT:
        advise->spot = true;
        return EXIT_DONE;
    case OPT_SPOT_TRACE:
        return advise_read_trace(advise, optarg);
    case OPT_LOSS_RATE:
        advise->loss_rate_given = true;
        return read_real(0, 3600, &advise->loss_rate_hour)
                   ? EXIT_DONE
                   : bad_value("loss-rate", "losses an hour of one machine");
    case OPT_SAVE:
        return read_seconds(&advise->save_s) ? EXIT_DONE : bad_value("save-time", "a time");
    case OPT_RESTART:
        return read_seconds(&advise->restart_s) ? EXIT_DONE : bad_value("restart-time", "a time");
    case OPT_SETUP:
        return read_seconds(&advise->setup_s) ? EXIT_DONE : bad_value("setup-time", "a time");
    case OPT_PROFILE_TIME:
        return read_seconds(&advise->profile_s) ? EXIT_DONE : bad_value("profile-time", "a time");
    default:
        return -1;
    }
}

static int read_input(struct advise *advise, int option)
{
    switch (option) {
    case OPT_ALGORITHM:
        return read_algorithm(advise);
    case OPT_WORKER_TYPES:
        advise->worker_types = optarg;
        return EXIT_DONE;
    case OPT_PS_TYPE:
        advise->ps_types = optarg;
        return EXIT_DONE;
    case OPT_PROFILE:
        return catalog_files_read_profile(optarg, &advise->profile);
    case OPT_RUNS:
        advise->runs_file = optarg;
        return EXIT_DONE;
    case OPT_JOB:
        advise->job = optarg;
        return EXIT_DONE;
    case OPT_ENGINES:
        advise->engines_file = optarg;
        return EXIT_DONE;
    case OPT_CATALOG:
        catalog_files_add(&advise->catalogs, optarg);
        return EXIT_DONE;
    case OPT_REQUIRE:
        return add_requirement(advise, NULL);
    case OPT_REGION:
        return add_requirement(advise, "region");
    case OPT_PROVIDER:
        return add_requirement(advise, "provider");
    case OPT_JSON:
        advise->as_json = true;
        return EXIT_DONE;
    default:
        return -1;
    }
}

/* -2: help was asked for. */
static int read_options(struct advise *advise, int argc, char **argv)
{
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            return -2;
        }
        int code = read_limit(advise, option);
        code = code == -1 ? read_job(advise, option) : code;
        code = code == -1 ? read_input(advise, option) : code;
        if (code == -1) {
            return cli_bad_option(&cmd_advise, option, argv);
        }
        if (code != EXIT_DONE) {
            return code;
        }
    }
    for (; advise->trace_count > 0 && optind < argc; optind++) {
        int code = advise_read_trace(advise, argv[optind]);
        if (code != EXIT_DONE) {
            return code;
        }
    }
    if (optind < argc) {
        return cli_usage_error(&cmd_advise, "what is '%.60s'?", argv[optind]);
    }
    return EXIT_DONE;
}

static int check_traces(struct advise *advise)
{
    if (advise->trace_count == 0) {
        return EXIT_DONE;
    }
    if (!advise->spot) {
        return cli_usage_error(&cmd_advise, "--spot-trace goes with --spot");
    }
    if (advise->loss_rate_given) {
        return cli_usage_error(&cmd_advise, "--spot-trace and --loss-rate both say how often "
                                            "machines are lost: give one");
    }
    return advise_use_traces(advise);
}

static int answer(struct advise *advise)
{
    if (advise->engines_file) {
        return advise_engines(advise);
    }
    int code = catalog_files_read(&advise->catalogs, &advise->catalog);
    if (code != EXIT_DONE) {
        return code;
    }
    if (advise->runs_file) {
        if (advise->algorithm_given && advise->algorithm != ADVISE_BEST) {
            return cli_usage_error(&cmd_advise, "--runs goes with --algorithm best");
        }
        return advise_runs(advise);
    }
    if (advise->algorithm <= ADVISE_SCALA_M) {
        return advise_rules(advise);
    }
    return advise_ranking(advise);
}

static int run(int argc, char **argv)
{
    struct advise advise = {.algorithm = ADVISE_BEST,
                            .budget_hour_micro = -1,
                            .p = .95,
                            .mode = PROFILE_MODE_UNKNOWN,
                            .loss_rate_hour = .05,
                            .save_s = 30,
                            .restart_s = 180,
                            .profile_s = 300,
                            .seed = 1,
                            .limit = 20};
    int code = read_options(&advise, argc, argv);
    if (code == -2) {
        cli_print_help(&cmd_advise, stdout);
        code = EXIT_DONE;
    } else if (code == EXIT_DONE) {
        code = check_traces(&advise);
        code = code == EXIT_DONE ? answer(&advise) : code;
    }
    catalog_release(&advise.catalog);
    catalog_files_release(&advise.catalogs);
    profile_release(&advise.profile);
    return code;
}

const struct cli_command cmd_advise = {
    .name = "advise",
    .arguments = "[--algorithm A] [--budget USD/h | --max-workers N] [--profile FILE] [options]",
    .summary = "which machines to rent for a training job, and how many",
    .help =
        "  --algorithm A       cost: the cheapest type, as many as the budget pays for\n"
        "                      time: the most expensive type, likewise\n"
        "                      scala: the type and number that the server can just serve\n"
        "                      scala-m: the same for the one type of --worker-types\n"
        "                      pareto: every cluster that none beats in both cost and time\n"
        "                      best: all ranked, and why each loser lost (default)\n"
        "  --budget USD/h      --max-workers N     --total-budget USD      --deadline TIME\n"
        "  --worker-types T,.. which to consider (* stands for anything)\n"
        "  --ps-type T,..      parameter servers (default: the largest bandwidth)\n"
        "  --ps-bandwidth MBIT/S    --servers K    --p SHARE (0.95)\n"
        "  --profile FILE      what short runs measured (drover profile; docs/advise.md)\n"
        "  --batch B           --mode sync|async|allreduce   --examples N: how much to train\n"
        "  --goal cost|time|balanced    what best means\n"
        "  --spot              also spot workers: --loss-rate PER-HOUR (0.05), --save-time (30s),\n"
        "                      --restart-time (180s)\n"
        "  --spot-trace FILE.. the loss rate from records of spot machines instead\n"
        "  --runs FILE --job J which configuration to run next, from past runs of J and others\n"
        "  --engines FILE      the best number of engines a server, from measured throughput\n"
        "  --catalog FILE      --require WHAT   --region R   --provider P (drover catalog --help)\n"
        "  --limit N (20)      --json: one object a line\n",
    .run = run,
};
