/* drover analyse stabilise|cost|own|map: options and dispatch. */
#include "base/mem.h"
#include "base/suggest.h"
#include "cli/analyse.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 200, OPTION_COLUMN = 1000 };

enum option_code {
    OPT_GOAL = 256,
    OPT_TOLERANCE,
    OPT_NOT_BEFORE,
    OPT_SEED,
    OPT_RESAMPLES,
    OPT_ONLINE,
    OPT_PLOT,
    OPT_SVG,
    OPT_WIDE,
    OPT_TIME_UNIT,
    OPT_SKIP_BAD,
    OPT_PRICE,
    OPT_CATALOG,
    OPT_CURRENCY,
    OPT_POINT,
    OPT_TARGET,
    OPT_BASELINE,
    OPT_KWH,
    OPT_JOBS,
    OPT_JSON,
};

static const struct option options[] = {
    {"goal", required_argument, NULL, OPT_GOAL},
    {"tolerance", required_argument, NULL, OPT_TOLERANCE},
    {"not-before", required_argument, NULL, OPT_NOT_BEFORE},
    {"seed", required_argument, NULL, OPT_SEED},
    {"resamples", required_argument, NULL, OPT_RESAMPLES},
    {"online", no_argument, NULL, OPT_ONLINE},
    {"plot", no_argument, NULL, OPT_PLOT},
    {"svg", required_argument, NULL, OPT_SVG},
    {"wide", required_argument, NULL, OPT_WIDE},
    {"time-unit", required_argument, NULL, OPT_TIME_UNIT},
    {"skip-bad", no_argument, NULL, OPT_SKIP_BAD},
    {"price", required_argument, NULL, OPT_PRICE},
    {"catalog", required_argument, NULL, OPT_CATALOG},
    {"currency", required_argument, NULL, OPT_CURRENCY},
    {"point", required_argument, NULL, OPT_POINT},
    {"target", required_argument, NULL, OPT_TARGET},
    {"baseline", required_argument, NULL, OPT_BASELINE},
    {"kwh", required_argument, NULL, OPT_KWH},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"json", no_argument, NULL, OPT_JSON},
    {"run", required_argument, NULL, OPTION_COLUMN + ROLE_RUN},
    {"step", required_argument, NULL, OPTION_COLUMN + ROLE_STEP},
    {"time", required_argument, NULL, OPTION_COLUMN + ROLE_TIME},
    {"metric", required_argument, NULL, OPTION_COLUMN + ROLE_METRIC},
    {"type", required_argument, NULL, OPTION_COLUMN + ROLE_TYPE},
    {"batch", required_argument, NULL, OPTION_COLUMN + ROLE_BATCH},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool parse_number(const char *text, double *out)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out);
}

static int bad_value(const char *option, const char *value, const char *wanted)
{
    return cli_usage_error(&cmd_analyse, "--%s %s: %s", option, value, wanted);
}

/* TYPE=AMOUNT an hour, or the amount alone for runs without a type. The type is cut off inside
 * argv. */
static int add_price(struct analyse *analyse, char *text)
{
    char *equals = strrchr(text, '=');
    int64_t micro = 0;
    struct err err;
    if (money_parse(equals ? equals + 1 : text, &micro, &err) != ERR_OK) {
        return bad_value("price", text, "write TYPE=AMOUNT, the price of an hour");
    }
    const char *type = equals ? text : "";
    if (equals) {
        *equals = '\0';
    }
    VEC_PUSH(analyse->prices, analyse->price_count, analyse->price_cap) = (struct costtab_price){
        .type = type, .price_hour_micro = micro, .billing = {.granule_s = 1}};
    return EXIT_DONE;
}

/* BATCH=STEP, or a step alone for runs without a batch. */
static int add_point(struct analyse *analyse, const char *text)
{
    const char *equals = strchr(text, '=');
    struct costtab_point point = {.batch = NAN};
    AUTO_FREE char *batch = equals ? mem_strndup(text, (size_t)(equals - text)) : NULL;
    if ((batch && !parse_number(batch, &point.batch)) ||
        !parse_number(equals ? equals + 1 : text, &point.step) || point.step < 0) {
        return bad_value("point", text, "write BATCH=STEP");
    }
    VEC_PUSH(analyse->points, analyse->point_count, analyse->point_cap) = point;
    return EXIT_DONE;
}

static int set_goal(struct analyse *analyse, const char *text)
{
    if (strcmp(text, "maximize") == 0) {
        analyse->stabilise.goal = STABILISE_MAXIMIZE;
    } else if (strcmp(text, "minimize") == 0) {
        analyse->stabilise.goal = STABILISE_MINIMIZE;
    } else {
        return bad_value("goal", text, "maximize or minimize");
    }
    return EXIT_DONE;
}

static int set_time_unit(struct analyse *analyse, const char *text)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ms", 0.001}, {"s", 1}, {"min", 60}, {"h", 3600}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].name) == 0) {
            analyse->columns.time_unit_s = units[i].seconds;
            return EXIT_DONE;
        }
    }
    return bad_value("time-unit", text, "ms, s, min or h");
}

static int set_number(const char *option, const char *text, double *out)
{
    return parse_number(text, out) ? EXIT_DONE : bad_value(option, text, "a number is needed");
}

static int set_count(const char *option, const char *text, uint64_t max, uint64_t *out)
{
    return cli_parse_u64(text, max, out) ? EXIT_DONE
                                         : bad_value(option, text, "a whole number is needed");
}

static int set_money(const char *option, const char *text, int64_t *out)
{
    struct err err;
    return money_parse(text, out, &err) == ERR_OK ? EXIT_DONE : bad_value(option, text, err.text);
}

static int set_currency(struct analyse *analyse, const char *text)
{
    analyse->currency = text;
    return money_is_currency(text) ? EXIT_DONE
                                   : bad_value("currency", text, "three capital letters");
}

/* Options of the detectors and of output. */
static int take_common(struct analyse *analyse, int option, char *value)
{
    uint64_t number = 0;
    int code = EXIT_DONE;
    switch (option) {
    case OPT_GOAL:
        return set_goal(analyse, value);
    case OPT_TOLERANCE:
        return set_number("tolerance", value, &analyse->stabilise.tolerance);
    case OPT_NOT_BEFORE:
        return set_number("not-before", value, &analyse->stabilise.not_before_step);
    case OPT_SEED:
        return set_count("seed", value, UINT64_MAX, &analyse->stabilise.seed);
    case OPT_RESAMPLES:
        code = set_count("resamples", value, 10000, &number);
        analyse->stabilise.resamples = (unsigned)number;
        return code;
    case OPT_ONLINE:
        analyse->online = true;
        return EXIT_DONE;
    case OPT_PLOT:
        analyse->plot = true;
        return EXIT_DONE;
    case OPT_SVG:
        analyse->svg = value;
        return EXIT_DONE;
    case OPT_WIDE:
        analyse->columns.wide = value;
        return EXIT_DONE;
    case OPT_TIME_UNIT:
        return set_time_unit(analyse, value);
    case OPT_SKIP_BAD:
        analyse->columns.skip_bad = true;
        return EXIT_DONE;
    default:
        analyse->as_json = analyse->as_json || option == OPT_JSON;
        return EXIT_DONE;
    }
}

static int take_money(struct analyse *analyse, int option, char *value)
{
    switch (option) {
    case OPT_PRICE:
        return add_price(analyse, value);
    case OPT_CATALOG:
        catalog_files_add(&analyse->catalogs, value);
        return EXIT_DONE;
    case OPT_CURRENCY:
        return set_currency(analyse, value);
    case OPT_POINT:
        return add_point(analyse, value);
    case OPT_TARGET:
        analyse->has_target = true;
        return set_number("target", value, &analyse->target);
    case OPT_BASELINE:
        analyse->baseline = value;
        return EXIT_DONE;
    case OPT_KWH:
        return set_money("kwh", value, &analyse->kwh_micro);
    case OPT_JOBS:
        return set_count("jobs", value, 1000000000, &analyse->jobs);
    default:
        return take_common(analyse, option, value);
    }
}

static int take_options(struct analyse *analyse, int argc, char **argv)
{
    int option = 0;
    int code = EXIT_DONE;
    while (code == EXIT_DONE && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option >= OPTION_COLUMN) {
            analyse->columns.names[option - OPTION_COLUMN] = optarg;
        } else if (option >= OPT_GOAL) {
            code = take_money(analyse, option, optarg);
        } else {
            return option == 'h' ? (cli_print_help(&cmd_analyse, stdout), -1)
                                 : cli_bad_option(&cmd_analyse, option, argv);
        }
    }
    struct err err;
    if (code == EXIT_DONE && stabilise_check_options(&analyse->stabilise, &err) != ERR_OK) {
        code = cli_usage_error(&cmd_analyse, "%s", err.text);
    }
    return code;
}

static int dispatch(const char *what, const struct analyse *analyse)
{
    if (strcmp(what, "stabilise") == 0 || strcmp(what, "stabilize") == 0) {
        return analyse_stabilise(analyse);
    }
    if (strcmp(what, "cost") == 0) {
        return analyse_cost(analyse);
    }
    if (strcmp(what, "own") == 0) {
        return analyse_own(analyse);
    }
    if (strcmp(what, "map") == 0) {
        return analyse_map(analyse);
    }
    static const char *const known[] = {"stabilise", "cost", "own", "map"};
    const char *near = suggest_nearest(what, known, 4);
    return near ? cli_usage_error(&cmd_analyse, "no analysis '%s' (did you mean '%s'?)", what, near)
                : cli_usage_error(&cmd_analyse, "no analysis '%s'", what);
}

static int run(int argc, char **argv)
{
    struct analyse analyse = {.stabilise = {.resamples = RESAMPLES, .seed = 1}, .currency = "USD"};
    int code = take_options(&analyse, argc, argv);
    if (code == EXIT_DONE) {
        int left = argc - optind;
        if (left < 1) {
            code = cli_usage_error(&cmd_analyse, "which analysis: stabilise, cost, own or map?");
        } else if (left < 2) {
            code = cli_usage_error(&cmd_analyse, "which file?");
        } else {
            analyse.files = (const char *const *)argv + optind + 1;
            analyse.file_count = (size_t)left - 1;
            code = dispatch(argv[optind], &analyse);
        }
    }
    free(analyse.prices);
    free(analyse.points);
    catalog_files_release(&analyse.catalogs);
    return code < 0 ? EXIT_DONE : code;
}

const struct cli_command cmd_analyse = {
    .name = "analyse",
    .arguments = "stabilise|cost|own|map FILE... [options]",
    .summary = "when did training stop paying, what did it cost, is owning cheaper",
    .help = "  stabilise   the step from which on each learning curve stays within the tolerance\n"
            "  cost        time, speed-up, metric and cost to that step, per type and batch\n"
            "  own         buy or rent: cost of a job and the break-even point\n"
            "  map         set-ups by time and cost, with the Pareto front\n\n"
            "  --goal maximize|minimize   is more of the metric better (default) or less?\n"
            "  --tolerance SHARE   of the curve's range (default 0.03)\n"
            "  --online            also: the step at which training could have been stopped\n"
            "  --not-before STEP   with --online: the last planned learning-rate drop\n"
            "  --seed N, --resamples N    of the bootstrap behind the intervals (1, 200)\n"
            "  --run, --step, --time, --metric, --type, --batch COLUMN    where they are\n"
            "  --wide PREFIX       each row is a curve: columns PREFIX0, PREFIX1, ...\n"
            "  --time-unit ms|s|min|h     of the time column (s)\n"
            "  --skip-bad          pass over points whose metric is not a number\n"
            "  --price TYPE=AMOUNT an hour, or --catalog FILE; --currency USD\n"
            "  --point BATCH=STEP  a stabilisation point that is known\n"
            "  --target METRIC     recommend only what reaches it\n"
            "  --baseline TYPE     what to compare with (default: the dearest)\n"
            "  --kwh AMOUNT, --jobs N     own: price of power; totals for so many jobs\n"
            "  --plot              draw in the terminal    --svg FILE   draw a picture\n"
            "  --json              one object a line\n",
    .run = run,
};
