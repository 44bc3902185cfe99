/* drover best: the best trial of a search and how to run it again; of several metrics the front. */
#include "base/json.h"
#include "cli/trial_best.h"
#include "cli/trial_show.h"
#include "cli/trial_source.h"

#include <getopt.h>

struct best_options {
    const char *state;
    const char *workflow;
    const char *experiment;
    bool as_json;
};

/* Its plan is of the task that the values are of: a trial that runs on has a newer one. */
static int show_trial(const struct best_options *options, struct trial_source *source,
                      const struct trial_search *search, const struct trial *trial)
{
    struct jread plan = {0};
    AUTO_STR struct str out = {0};
    uint64_t task = jread_u64(trial->node, "value_task", jread_u64(trial->node, "task", 0));
    int code = trial_source_plan(source, search->experiment, task, &plan);
    if (code == EXIT_DONE && options->as_json) {
        trial_best_json(&out, search, trial, plan.root);
    } else if (code == EXIT_DONE) {
        trial_best_text(&out, search, trial, plan.root);
    }
    cli_write(&out);
    jread_release(&plan);
    return code;
}

static int show_search(const struct best_options *options, struct trial_source *source,
                       const struct trial_search *search)
{
    int code = EXIT_DONE;
    if (!options->as_json) {
        AUTO_STR struct str out = {0};
        str_add(&out, search != source->set.searches ? "\n" : "");
        trial_show_heading(&out, &source->set, search);
        cli_write(&out);
    }
    if (search->rated == 0) {
        return cli_error(EXIT_WORK_FAILED, "%s/%s: no trial has a value yet", source->set.workflow,
                         search->experiment);
    }
    for (size_t i = 0; i < search->count && search->trials[i].best && code == EXIT_DONE; i++) {
        if (i > 0 && !options->as_json) {
            cli_write(&(struct str){.text = (char[]){"\n"}, .size = 1});
        }
        code = show_trial(options, source, search, &search->trials[i]);
    }
    return code;
}

static int run(int argc, char **argv)
{
    static const struct option known[] = {{"state", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"experiment", required_argument, NULL, 'e'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    struct best_options options = {0};
    struct trial_source source = {0};
    int option = 0;
    while ((option = getopt_long(argc, argv, ":he:", known, NULL)) != -1) {
        if (option == 'd') {
            options.state = optarg;
        } else if (option == 'j') {
            options.as_json = true;
        } else if (option == 'e') {
            options.experiment = optarg;
        } else {
            return cli_bad_option(&cmd_best, option, argv);
        }
    }
    if (argc - optind > 1) {
        return cli_usage_error(&cmd_best, "one name, please");
    }
    options.workflow = optind < argc ? argv[optind] : NULL;
    int code = trial_source_open(&source, options.state, options.workflow, options.experiment);
    for (size_t i = 0; i < source.set.count && code == EXIT_DONE; i++) {
        code = show_search(&options, &source, &source.set.searches[i]);
    }
    trial_source_close(&source);
    return code;
}

const struct cli_command cmd_best = {
    .name = "best",
    .arguments = "[W] [--state DIR] [--experiment E] [--json]",
    .summary = "the best trial of a search, the command that runs it again, what it left",
    .help = "With several metrics: every trial that no other beats in all of them.\n\n"
            "  --state DIR          in this folder: a run's, or a server's\n"
            "  -e, --experiment E   only this experiment\n"
            "  --json               one object a trial: trial, params, value, command, ...\n\n"
            "Examples:\n"
            "  drover best mnist-3\n"
            "  drover best mnist-3 --json\n",
    .run = run,
};
