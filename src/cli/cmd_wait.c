#include "cli/cli.h"
#include "cli/follow.h"
#include "recipe/units.h"

#include <getopt.h>

static int run(int argc, char **argv)
{
    static const struct option options[] = {
        {"state", required_argument, NULL, 'd'}, {"timeout", required_argument, NULL, 't'},
        {"json", no_argument, NULL, 'j'},        {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},        {0}};
    struct follow_options follow = {0};
    const char *state = NULL;
    int option = 0;
    while ((option = getopt_long(argc, argv, ":hq", options, NULL)) != -1) {
        if (option == 'd') {
            state = optarg;
        } else if (option == 't') {
            if (!units_duration(optarg, &follow.timeout_ms) || follow.timeout_ms == 0) {
                return cli_usage_error(&cmd_wait, "--timeout takes a time such as 90s or 10m");
            }
        } else if (option == 'j') {
            follow.as_json = true;
        } else if (option == 'q') {
            follow.quiet = true;
        } else {
            return cli_bad_option(&cmd_wait, option, argv);
        }
    }
    if (argc - optind > 1) {
        return cli_usage_error(&cmd_wait, "one workflow, please");
    }
    follow.workflow = optind < argc ? argv[optind] : NULL;
    struct remote remote = {0};
    int code = remote_open(state, &remote);
    if (code == EXIT_DONE) {
        code = follow_wait(&remote, &follow);
    }
    remote_close(&remote);
    return code;
}

const struct cli_command cmd_wait = {
    .name = "wait",
    .arguments = "[W] [--timeout T] [--state DIR] [--json]",
    .summary = "wait for a server's workflow to end; exit 0 if it succeeded (default: the newest)",
    .help =
        "  --timeout T   give up after this time (90s, 10m, 2h), with exit 1; it goes on\n"
        "  --state DIR   the server of this folder\n"
        "  --json        nothing but the object of drover status --json at the end\n"
        "  -q, --quiet   no progress and no summary\n\n"
        "A server that is restarted meanwhile is waited for. Ctrl-C stops the waiting, not the\n"
        "work: drover cancel W does that.\n\n"
        "Examples:\n"
        "  drover wait mnist-3\n"
        "  drover wait mnist-3 --timeout 2h --quiet && echo done\n",
    .run = run,
};
