#include "cli/cli.h"

#include "base/mem.h"
#include "master/place.h"
#include "master/words.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_print_help(const struct cli_command *command, FILE *to)
{
    fprintf(to, "usage: drover %s %s\n\n%s\n%s%s", command->name, command->arguments,
            command->summary, command->help[0] ? "\n" : "", command->help);
}

int cli_error(int exit_code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fflush(stdout);
    fputs("drover: ", stderr);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return exit_code;
}

int cli_usage_error(const struct cli_command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("drover: ", stderr);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nusage: drover %s %s (drover %s --help)\n", command->name, command->arguments,
            command->name);
    va_end(args);
    return EXIT_USAGE;
}

int cli_bad_option(const struct cli_command *command, int option, char **argv)
{
    if (option == 'h') {
        cli_print_help(command, stdout);
        return EXIT_DONE;
    }
    const char *word = optind > 0 ? argv[optind - 1] : "";
    if (option == ':') {
        return cli_usage_error(command, "%s needs a value", word);
    }
    if (optopt && strncmp(word, "--", 2) != 0) {
        return cli_usage_error(command, "unknown option -%c", optopt);
    }
    return cli_usage_error(command, "unknown option %s", word);
}

void cli_write(const struct str *text)
{
    const char *at = str_text(text);
    size_t left = text->size;
    fflush(stdout);
    while (left > 0) {
        ssize_t wrote = write(STDOUT_FILENO, at, left);
        if (wrote < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno == EPIPE) {
                exit(EXIT_DONE);
            }
            fprintf(stderr, "drover: standard output: %s\n", strerror(errno));
            exit(EXIT_WORK_FAILED);
        }
        at += wrote;
        left -= (size_t)wrote;
    }
}

int cli_session_error(enum err_code code, const struct diag_list *diags, const struct err *err,
                      const struct str *difference)
{
    if (diags && diags->count > 0) {
        AUTO_STR struct str text = {0};
        diag_print(diags, &text);
        fputs(str_text(&text), stderr);
        return EXIT_USAGE;
    }
    cli_error(EXIT_USAGE, "%s", err->text);
    if (difference && difference->size > 0) {
        fputs(str_text(difference), stderr);
    }
    return code == ERR_INVALID || code == ERR_NOT_FOUND ? EXIT_USAGE : EXIT_WORK_FAILED;
}

int cli_read_session(const char *state, const char *run, struct session *session)
{
    AUTO_STR struct str folder = {0};
    struct err err = {0};
    enum err_code code = ERR_OK;
    if (state) {
        bool strange = false;
        if (!place_has_state(state, &strange)) {
            return cli_error(EXIT_USAGE, "%s holds no drover state", state);
        }
        AUTO_FREE char *real = realpath(state, NULL);
        str_add(&folder, real ? real : state);
    } else {
        code = place_find_run(run, &folder, &err);
    }
    if (code == ERR_OK) {
        code = session_read(str_text(&folder), session, &err);
    }
    return code == ERR_OK ? EXIT_DONE : cli_session_error(code, NULL, &err, NULL);
}

bool cli_parse_u64(const char *text, uint64_t max, uint64_t *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out = number;
    return errno == 0 && *end == '\0' && number <= max;
}

/* Thin names for what the server says too. */
const char *cli_task_state(enum core_task_state state)
{
    return words_task_state(state);
}

const char *cli_workflow_state(enum core_workflow_state state)
{
    return words_workflow_state(state);
}

const char *cli_outcome_name(enum core_outcome outcome)
{
    return words_outcome(outcome);
}

void cli_add_outcome(struct str *out, enum core_outcome outcome, uint32_t code, const char *detail)
{
    words_add_outcome(out, outcome, code, detail);
}

void cli_json_time(struct json *json, const char *key, int64_t unix_ms)
{
    words_json_time(json, key, unix_ms);
}
