/* cli.h - what the subcommands share. Each is one function in its own file; main.c lists them. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "core/core.h"
#include "master/session.h"
#include "recipe/diag.h"

#include <stdbool.h>
#include <stdio.h>

/* Exit codes are a contract. */
enum { EXIT_DONE = 0, EXIT_WORK_FAILED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };

struct cli_command {
    const char *name;
    const char *arguments;             /* "RECIPE [options]" */
    const char *summary;               /* one line */
    const char *help;                  /* the rest of --help */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

extern const struct cli_command cmd_check;
extern const struct cli_command cmd_plan;
extern const struct cli_command cmd_run;
extern const struct cli_command cmd_serve;
extern const struct cli_command cmd_node;
extern const struct cli_command cmd_list;
extern const struct cli_command cmd_status;
extern const struct cli_command cmd_tasks;
extern const struct cli_command cmd_logs;
extern const struct cli_command cmd_trials;
extern const struct cli_command cmd_best;
extern const struct cli_command cmd_compare;
extern const struct cli_command cmd_submit;
extern const struct cli_command cmd_wait;
extern const struct cli_command cmd_cancel;
extern const struct cli_command cmd_retry;
extern const struct cli_command cmd_nodes;
extern const struct cli_command cmd_top;
extern const struct cli_command cmd_token;
extern const struct cli_command cmd_exec;
extern const struct cli_command cmd_map;
extern const struct cli_command cmd_up;
extern const struct cli_command cmd_down;
extern const struct cli_command cmd_clusters;
extern const struct cli_command cmd_sim;
extern const struct cli_command cmd_catalog;
extern const struct cli_command cmd_advise;
extern const struct cli_command cmd_profile;
extern const struct cli_command cmd_report;
extern const struct cli_command cmd_analyse;
extern const struct cli_command cmd_volume;
extern const struct cli_command cmd_data;
extern const struct cli_command cmd_mount;
extern const struct cli_command cmd_unmount;
extern const struct cli_command cmd_meta;

void cli_print_help(const struct cli_command *command, FILE *to);

/* "drover: TEXT" on stderr, and EXIT_USAGE. */
int cli_usage_error(const struct cli_command *command, const char *format, ...) PRINTF_LIKE(2, 3);
int cli_error(int exit_code, const char *format, ...) PRINTF_LIKE(2, 3);

/* The answer getopt_long gave for something that is not an option of ours: prints and returns the
 * exit code (--help is EXIT_DONE). */
int cli_bad_option(const struct cli_command *command, int option, char **argv);

/* Writes to stdout; a reader that has gone (EPIPE) ends the program quietly. */
void cli_write(const struct str *text);

/* Prints diagnoses and the error of a failed session or recipe; returns the exit code. */
int cli_session_error(enum err_code code, const struct diag_list *diags, const struct err *err,
                      const struct str *difference);

/* Opens the state that --state DIR or the run's name W means (both NULL: the newest run). Returns
 * EXIT_DONE or has printed why not. */
int cli_read_session(const char *state, const char *run, struct session *session);

bool cli_parse_u64(const char *text, uint64_t max, uint64_t *out);

/* Words for people and for --json. */
const char *cli_task_state(enum core_task_state state);
const char *cli_workflow_state(enum core_workflow_state state);
/* "exit 3", "killed by SEGV (signal 11)", "timed out", "out of memory", ...; empty for success. */
void cli_add_outcome(struct str *out, enum core_outcome outcome, uint32_t code, const char *detail);
const char *cli_outcome_name(enum core_outcome outcome); /* "exited", "timeout" */

/* A key with the time in RFC 3339, or null for 0. */
void cli_json_time(struct json *json, const char *key, int64_t unix_ms);

#endif
