/* cmd_report.c - `drover report`: metrics said from a shell, inside a task or outside. */
#include "base/clock.h"
#include "cli/cli.h"
#include "metrics/report.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static int say(const struct record *record)
{
    AUTO_STR struct str line = {0};
    struct err err = {0};
    const char *path = getenv("DROVER_REPORT");
    bool to_file = path && path[0];
    if (!to_file) {
        str_add(&line, "drover: ");
    }
    report_add_object(record, clock_unix_ms(), &line);
    str_add_char(&line, '\n');
    if (!to_file) {
        cli_write(&line);
        return EXIT_DONE;
    }
    if (report_append(path, str_text(&line), line.size, &err) != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    struct record record;
    struct err err = {0};
    record_clear(&record);
    int option = getopt_long(argc, argv, ":h", options, NULL);
    if (option != -1) {
        return cli_bad_option(&cmd_report, option, argv);
    }
    if (optind == argc) {
        return cli_usage_error(&cmd_report, "which metrics?");
    }
    for (int i = optind; i < argc; i++) {
        if (report_add(&record, argv[i], &err) != ERR_OK) {
            return cli_usage_error(&cmd_report, "%s", err.text);
        }
    }
    if (record.count == 0 && !record.has_epoch) {
        return cli_usage_error(&cmd_report, "a step alone says nothing: which metrics?");
    }
    return say(&record);
}

const struct cli_command cmd_report = {
    .name = "report",
    .arguments = "NAME=NUMBER... [step=N] [epoch=N]",
    .summary = "report metrics of the task that calls it: accuracy=0.97 step=3",
    .help = "  NAME=NUMBER   a metric; numbers may be 0.5, 1e-5, 91.2% (0.912), nan or inf\n"
            "  step=N        at which step it was measured\n"
            "  epoch=N       at which epoch; the step, where no step is given\n\n"
            "In a task the metrics go to the file that DROVER_REPORT names. Elsewhere, and where\n"
            "that is not set, they are printed as a line \"drover: {...}\", which drover finds in\n"
            "a task's log.\n\n"
            "Example:\n"
            "  drover report accuracy=0.97 loss=0.12 step=3\n",
    .run = run,
};
