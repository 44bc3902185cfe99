/* drover trials: the trials of a search as a table, CSV, JSON, shares and pictures. */
#include "base/io.h"
#include "base/suggest.h"
#include "cli/analyse.h"
#include "cli/trial_picture.h"
#include "cli/trial_show.h"
#include "cli/trial_source.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/stat.h>

struct trials_options {
    const char *state;
    const char *workflow;
    const char *experiment;
    const char *metric;
    const char *svg;
    const char *svg_dir;
    bool has_kind;
    enum trial_picture kind;
    bool as_json;
    bool as_csv;
    bool plot;
    bool importance;
    uint64_t limit;
};

enum option_code {
    OPT_STATE = 256,
    OPT_JSON,
    OPT_CSV,
    OPT_PLOT,
    OPT_IMPORTANCE,
    OPT_METRIC,
    OPT_SVG,
    OPT_SVG_DIR,
    OPT_KIND,
    OPT_LIMIT,
};

static const struct option options[] = {
    {"state", required_argument, NULL, OPT_STATE},
    {"json", no_argument, NULL, OPT_JSON},
    {"csv", no_argument, NULL, OPT_CSV},
    {"plot", no_argument, NULL, OPT_PLOT},
    {"importance", no_argument, NULL, OPT_IMPORTANCE},
    {"metric", required_argument, NULL, OPT_METRIC},
    {"svg", required_argument, NULL, OPT_SVG},
    {"svg-dir", required_argument, NULL, OPT_SVG_DIR},
    {"kind", required_argument, NULL, OPT_KIND},
    {"limit", required_argument, NULL, OPT_LIMIT},
    {"experiment", required_argument, NULL, 'e'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int set_kind(struct trials_options *trials, const char *name)
{
    trials->kind = trial_picture_find(name);
    trials->has_kind = true;
    if (trials->kind < TRIAL_PICTURE_COUNT) {
        return EXIT_DONE;
    }
    const char *known[TRIAL_PICTURE_COUNT];
    for (int i = 0; i < TRIAL_PICTURE_COUNT; i++) {
        known[i] = trial_picture_name((enum trial_picture)i);
    }
    const char *near = suggest_nearest(name, known, TRIAL_PICTURE_COUNT);
    return cli_usage_error(
        &cmd_trials, "--kind is history, parallel, importance, slices or pareto, not '%s'%s%s%s",
        name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

/* EXIT_DONE: go on. */
static int take_option(struct trials_options *trials, int option, char **argv)
{
    switch (option) {
    case OPT_STATE:
        trials->state = optarg;
        break;
    case OPT_JSON:
        trials->as_json = true;
        break;
    case OPT_CSV:
        trials->as_csv = true;
        break;
    case OPT_PLOT:
        trials->plot = true;
        break;
    case OPT_IMPORTANCE:
        trials->importance = true;
        break;
    case OPT_METRIC:
        trials->metric = optarg;
        break;
    case OPT_SVG:
        trials->svg = optarg;
        break;
    case OPT_SVG_DIR:
        trials->svg_dir = optarg;
        break;
    case OPT_KIND:
        return set_kind(trials, optarg);
    case OPT_LIMIT:
        if (!cli_parse_u64(optarg, 1000000000, &trials->limit) || trials->limit == 0) {
            return cli_usage_error(&cmd_trials, "--limit takes a number above 0");
        }
        break;
    case 'e':
        trials->experiment = optarg;
        break;
    default:
        return option == 'h' ? (cli_print_help(&cmd_trials, stdout), -1)
                             : cli_bad_option(&cmd_trials, option, argv);
    }
    return EXIT_DONE;
}

static int check_options(const struct trials_options *trials)
{
    if (trials->as_json && trials->as_csv) {
        return cli_usage_error(&cmd_trials, "--json or --csv, not both");
    }
    if (trials->importance && trials->as_csv) {
        return cli_usage_error(&cmd_trials, "--importance goes with --json, not with --csv");
    }
    if (trials->plot && (trials->as_json || trials->as_csv)) {
        return cli_usage_error(&cmd_trials, "--plot draws for people: not with --json or --csv");
    }
    if (trials->svg && trials->svg_dir) {
        return cli_usage_error(&cmd_trials, "--svg or --svg-dir, not both");
    }
    if (trials->has_kind && !trials->svg) {
        return cli_usage_error(&cmd_trials, "--kind goes with --svg FILE");
    }
    return EXIT_DONE;
}

/* --- pictures ----------------------------------------------------------------------------------
 */

static int write_picture(const struct trial_search *search, enum trial_picture kind, size_t goal,
                         const char *path, struct err *err)
{
    AUTO_STR struct str svg = {0};
    if (trial_picture_svg(search, kind, goal, &svg, err) != ERR_OK) {
        return EXIT_USAGE;
    }
    bool good = io_replace_file(path, str_text(&svg), svg.size, 0666, err) == ERR_OK;
    return good ? EXIT_DONE : EXIT_WORK_FAILED;
}

/* DIR/EXPERIMENT-KIND.svg; those that cannot be drawn yet are named. */
static int write_pictures(const struct trial_search *search, size_t goal, const char *folder)
{
    int code = EXIT_DONE;
    for (int kind = 0; kind < TRIAL_PICTURE_COUNT && code != EXIT_WORK_FAILED; kind++) {
        AUTO_STR struct str path = {0};
        struct err err = {0};
        const char *name = trial_picture_name((enum trial_picture)kind);
        if (kind == TRIAL_PARETO && search->goal_count < 2) {
            continue;
        }
        str_addf(&path, "%s/%s-%s.svg", folder, search->experiment, name);
        code = write_picture(search, (enum trial_picture)kind, goal, str_text(&path), &err);
        if (code == EXIT_USAGE) {
            fprintf(stderr, "drover: no picture of %s: %s\n", name, err.text);
            code = EXIT_DONE;
        } else if (code == EXIT_DONE) {
            fprintf(stderr, "drover: wrote %s\n", str_text(&path));
        } else {
            cli_error(code, "%s", err.text);
        }
    }
    return code;
}

static int draw(const struct trials_options *trials, const struct trial_search *search, size_t goal)
{
    struct err err = {0};
    int code = EXIT_DONE;
    if (trials->svg) {
        code = write_picture(search, trials->kind, goal, trials->svg, &err);
        if (code != EXIT_DONE) {
            cli_error(code, "%s", err.text);
        }
    } else if (trials->svg_dir) {
        if (io_make_dirs(trials->svg_dir, &err) != ERR_OK) {
            return cli_error(EXIT_WORK_FAILED, "%s", err.text);
        }
        code = write_pictures(search, goal, trials->svg_dir);
    }
    return code;
}

/* --- text --------------------------------------------------------------------------------------
 */

static int show_importance(const struct trials_options *trials, const struct trial_search *search,
                           size_t goal, struct str *out)
{
    struct importance found;
    struct err err = {0};
    if (trial_picture_importance(search, goal, &found, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s: %s", search->experiment, err.text);
    }
    if (trials->as_json) {
        trial_show_importance_json(out, search, goal, &found);
    } else {
        trial_show_importance(out, search, goal, &found);
    }
    return EXIT_DONE;
}

static int show(const struct trials_options *trials, const struct trial_set *set,
                const struct trial_search *search, size_t goal)
{
    AUTO_STR struct str out = {0};
    size_t limit = trials->limit > 0 ? (size_t)trials->limit : SIZE_MAX;
    int code = EXIT_DONE;
    if (!trials->as_json && !trials->as_csv) {
        str_add(&out, search != set->searches ? "\n" : "");
        trial_show_heading(&out, set, search);
    }
    if (trials->importance) {
        code = show_importance(trials, search, goal, &out);
    } else if (trials->as_json) {
        trial_show_json(&out, search, limit);
    } else if (trials->as_csv) {
        trial_show_csv(&out, search, limit);
    } else if (trials->plot) {
        struct plot_terminal terminal = analyse_terminal();
        trial_picture_term(search, goal, &terminal, &out);
    } else if (!trials->svg && !trials->svg_dir) {
        trial_show_table(&out, search, limit);
    }
    cli_write(&out);
    return code;
}

static int show_all(const struct trials_options *trials, const struct trial_set *set)
{
    int code = EXIT_DONE;
    if (set->count > 1 && (trials->as_csv || trials->svg)) {
        return cli_error(EXIT_USAGE, "%s has %zu searches: --experiment says which", set->workflow,
                         set->count);
    }
    for (size_t i = 0; i < set->count && code == EXIT_DONE; i++) {
        const struct trial_search *search = &set->searches[i];
        size_t goal = trial_source_goal(search, trials->metric);
        if (goal == SIZE_MAX) {
            return cli_error(EXIT_USAGE, "%s/%s does not search for '%s'", set->workflow,
                             search->experiment, trials->metric);
        }
        code = show(trials, set, search, goal);
        code = code == EXIT_DONE ? draw(trials, search, goal) : code;
    }
    return code;
}

static int run(int argc, char **argv)
{
    struct trials_options trials = {0};
    struct trial_source source = {0};
    int code = EXIT_DONE;
    int option = 0;
    while (code == EXIT_DONE && (option = getopt_long(argc, argv, ":he:", options, NULL)) != -1) {
        code = take_option(&trials, option, argv);
    }
    if (code == EXIT_DONE && argc - optind > 1) {
        code = cli_usage_error(&cmd_trials, "one name, please");
    }
    code = code == EXIT_DONE ? check_options(&trials) : code;
    if (code == EXIT_DONE) {
        trials.workflow = optind < argc ? argv[optind] : NULL;
        code = trial_source_open(&source, trials.state, trials.workflow, trials.experiment);
    }
    code = code == EXIT_DONE ? show_all(&trials, &source.set) : code;
    trial_source_close(&source);
    return code < 0 ? EXIT_DONE : code;
}

const struct cli_command cmd_trials = {
    .name = "trials",
    .arguments = "[W] [--state DIR] [--experiment E] [--json|--csv] [--importance] [--plot] "
                 "[--svg FILE|--svg-dir DIR]",
    .summary = "the trials of a search, best first: states, values, parameters; pictures of them",
    .help = "  --state DIR          in this folder: a run's, or a server's\n"
            "  -e, --experiment E   only this experiment\n"
            "  --json               one object a trial\n"
            "  --csv                one line a trial, with a heading\n"
            "  --limit N            only the best N\n"
            "  --importance         how much of the variation each parameter explains (fANOVA)\n"
            "  --metric M           of several metrics the one to explain and draw\n"
            "  --plot               draw the history in the terminal\n"
            "  --svg FILE           draw a picture; --kind says which:\n"
            "  --kind K             history (default), parallel, importance, slices, pareto\n"
            "  --svg-dir DIR        draw all of them: DIR/EXPERIMENT-KIND.svg\n\n"
            "Examples:\n"
            "  drover trials mnist-3 --limit 10\n"
            "  drover trials mnist-3 --importance\n"
            "  drover trials mnist-3 --svg slices.svg --kind slices\n",
    .run = run,
};
