#include "cli/cli.h"
#include "cli/load.h"

#include <getopt.h>
#include <inttypes.h>

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"set", required_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct load load = {0};
    bool as_json = false;
    int option = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 's') {
            load_add_set(&load, optarg);
        } else if (option == 'j') {
            as_json = true;
            load.as_json = true;
        } else {
            load_release(&load);
            return cli_bad_option(&cmd_check, option, argv);
        }
    }
    if (argc - optind != 1) {
        load_release(&load);
        return cli_usage_error(&cmd_check, optind == argc ? "which recipe?" : "one recipe, please");
    }
    int code = load_recipe(&load, argv[optind]);
    if (code == EXIT_DONE) {
        uint64_t tasks = 0;
        for (size_t e = 0; e < load.recipe->experiment_count; e++) {
            const struct experiment *experiment = &load.recipe->experiments[e];
            tasks += experiment->search ? experiment->search->trials : experiment->task_count;
        }
        if (as_json) {
            printf("{\"ok\":true,\"experiments\":%zu,\"tasks\":%" PRIu64 "}\n",
                   load.recipe->experiment_count, tasks);
        } else {
            /* this very line is the contract: programs read it */
            printf("ok: %zu experiments, %" PRIu64 " tasks\n", load.recipe->experiment_count,
                   tasks);
        }
    }
    load_release(&load);
    return code;
}

const struct cli_command cmd_check = {
    .name = "check",
    .arguments = "RECIPE [--set K=V]... [--json]",
    .summary = "validate a recipe: every mistake as FILE:LINE:COLUMN: why, exit 2",
    .help =
        "  --set K=V   change the recipe before reading it: a dotted path (mnist.samples=10), or\n"
        "              the name of a parameter, which is then fixed to V (lr=0.1)\n"
        "  --json      {\"ok\":true,\"experiments\":E,\"tasks\":T}, or "
        "{\"ok\":false,\"errors\":[...]}\n",
    .run = run,
};
