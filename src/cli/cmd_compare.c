/* drover compare: the searches of several workflows side by side. */
#include "base/io.h"
#include "base/mem.h"
#include "cli/analyse.h"
#include "cli/trial_compare.h"
#include "cli/trial_source.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct compare {
    const char *state;
    const char *experiment;
    const char *metric;
    const char *svg;
    bool plot;
    bool as_json;

    struct trial_source sources[TRIAL_COMPARE_MAX];
    size_t source_count;
    struct trial_entry entries[TRIAL_COMPARE_MAX];
    const char *workflows[TRIAL_COMPARE_MAX];
    size_t count;
    struct arena arena;
};

/* The first entry says what is compared; the others must have it, with the same goal. A run that
 * was given by its folder is called by it: its id may be that of others. */
static int add_entry(struct compare *compare, const char *given, const struct trial_source *source,
                     const struct trial_search *search)
{
    const struct trial_entry *first = compare->entries;
    const char *metric = compare->metric;
    if (!metric && compare->count > 0) {
        metric = first->search->metrics[first->goal];
    }
    size_t goal = trial_source_goal(search, metric);
    if (goal == SIZE_MAX) {
        return cli_error(EXIT_USAGE, "%s/%s searches for %s, not for %s", source->set.workflow,
                         search->experiment, search->metrics[0], metric);
    }
    if (compare->count > 0 && search->maximize[goal] != first->search->maximize[first->goal]) {
        return cli_error(EXIT_USAGE, "%s/%s is to %s %s, the first one is not",
                         source->set.workflow, search->experiment,
                         search->maximize[goal] ? "maximize" : "minimize", search->metrics[goal]);
    }
    if (compare->count == TRIAL_COMPARE_MAX) {
        return cli_error(EXIT_USAGE, "more than %d searches", TRIAL_COMPARE_MAX);
    }
    AUTO_STR struct str name = {0};
    str_add(&name, strchr(given, '/') ? given : source->set.workflow);
    if (source->set.count > 1) {
        str_addf(&name, "/%s", search->experiment);
    }
    compare->workflows[compare->count] = source->set.workflow;
    compare->entries[compare->count++] = (struct trial_entry){
        .name = arena_strdup(&compare->arena, str_text(&name)), .search = search, .goal = goal};
    return EXIT_DONE;
}

static int gather(struct compare *compare, char **workflows, size_t count)
{
    int code = EXIT_DONE;
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        struct trial_source *source = &compare->sources[compare->source_count++];
        code = trial_source_open(source, compare->state, workflows[i], compare->experiment);
        for (size_t s = 0; s < source->set.count && code == EXIT_DONE; s++) {
            code = add_entry(compare, workflows[i], source, &source->set.searches[s]);
        }
    }
    return code;
}

static int show(const struct compare *compare)
{
    struct trial_comparison comparison;
    struct plot_series series[TRIAL_COMPARE_MAX];
    AUTO_STR struct str out = {0};
    AUTO_STR struct str svg = {0};
    struct err err = {0};
    int code = EXIT_DONE;
    trial_compare(compare->entries, compare->count, &comparison);
    if (compare->as_json) {
        trial_compare_json(&out, &comparison, compare->workflows);
    } else {
        trial_compare_text(&out, &comparison);
    }
    bool drawable = !isnan(comparison.target);
    struct plot plot = trial_compare_plot(&comparison, series);
    if (compare->plot && drawable) {
        struct plot_terminal terminal = analyse_terminal();
        str_add_char(&out, '\n');
        plot_term(&plot, &terminal, &out);
    }
    cli_write(&out);
    if (compare->svg && !drawable) {
        code = cli_error(EXIT_WORK_FAILED, "no trial has a value yet");
    } else if (compare->svg) {
        plot_svg(&plot, &svg);
        if (io_replace_file(compare->svg, str_text(&svg), svg.size, 0666, &err) != ERR_OK) {
            code = cli_error(EXIT_WORK_FAILED, "%s", err.text);
        }
    }
    trial_compare_release(&comparison);
    return code;
}

/* -1: go on; else the exit code. */
static int parse(struct compare *compare, int argc, char **argv)
{
    static const struct option known[] = {{"state", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"experiment", required_argument, NULL, 'e'},
                                          {"metric", required_argument, NULL, 'm'},
                                          {"svg", required_argument, NULL, 's'},
                                          {"plot", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":he:", known, NULL)) != -1) {
        switch (option) {
        case 'd':
            compare->state = optarg;
            break;
        case 'j':
            compare->as_json = true;
            break;
        case 'e':
            compare->experiment = optarg;
            break;
        case 'm':
            compare->metric = optarg;
            break;
        case 's':
            compare->svg = optarg;
            break;
        case 'p':
            compare->plot = true;
            break;
        default:
            return cli_bad_option(&cmd_compare, option, argv);
        }
    }
    if (argc - optind < 2) {
        return cli_usage_error(&cmd_compare, "which workflows? two at least");
    }
    if (argc - optind > TRIAL_COMPARE_MAX) {
        return cli_usage_error(&cmd_compare, "at most %d workflows", TRIAL_COMPARE_MAX);
    }
    if (compare->plot && compare->as_json) {
        return cli_usage_error(&cmd_compare, "--plot draws for people: not with --json");
    }
    return -1;
}

static int run(int argc, char **argv)
{
    struct compare *compare = mem_alloc(sizeof *compare);
    int code = parse(compare, argc, argv);
    if (code < 0) {
        code = gather(compare, argv + optind, (size_t)(argc - optind));
        code = code == EXIT_DONE ? show(compare) : code;
    }
    for (size_t i = 0; i < compare->source_count; i++) {
        trial_source_close(&compare->sources[i]);
    }
    arena_release(&compare->arena);
    free(compare);
    return code;
}

const struct cli_command cmd_compare = {
    .name = "compare",
    .arguments = "W1 W2 [W...] [--state DIR] [--experiment E] [--metric M] [--plot] [--svg FILE] "
                 "[--json]",
    .summary = "searches side by side: the best so far against the number of trials",
    .help = "Each W is a run or workflow, or the state folder of one (with a slash: ./a).\n\n"
            "  --state DIR          in this folder: a server's\n"
            "  -e, --experiment E   only searches of this experiment\n"
            "  --metric M           which metric, where there are several\n"
            "  --plot               draw in the terminal\n"
            "  --svg FILE           draw a picture\n"
            "  --json               one object a search\n\n"
            "Examples:\n"
            "  drover compare mnist-3 mnist-4 --plot\n"
            "  drover compare ./random ./tpe --svg compare.svg\n",
    .run = run,
};
