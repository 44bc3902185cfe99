/* main.c - the one program. Finds the subcommand and hands over. */
#include "base/suggest.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_command *const commands[] = {
    &cmd_check,   &cmd_plan,   &cmd_run,      &cmd_serve, &cmd_node,    &cmd_submit,  &cmd_wait,
    &cmd_cancel,  &cmd_retry,  &cmd_nodes,    &cmd_top,   &cmd_token,   &cmd_exec,    &cmd_map,
    &cmd_up,      &cmd_down,   &cmd_clusters, &cmd_list,  &cmd_status,  &cmd_tasks,   &cmd_logs,
    &cmd_trials,  &cmd_best,   &cmd_compare,  &cmd_sim,   &cmd_analyse, &cmd_catalog, &cmd_advise,
    &cmd_profile, &cmd_report, &cmd_volume,   &cmd_data,  &cmd_mount,   &cmd_unmount, &cmd_meta,
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_usage(FILE *to)
{
    fputs("drover drives a herd of machines through your machine-learning work.\n\n"
          "usage: drover COMMAND [arguments]\n\n",
          to);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(to, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs(
        "  version  say which drover this is\n"
        "  help     this, or drover help COMMAND\n\n"
        "Begin with a recipe (docs/recipe.md):  drover check R && drover plan R && drover run R\n",
        to);
}

static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 2];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    names[COMMAND_COUNT] = "version";
    names[COMMAND_COUNT + 1] = "help";
    const char *near = suggest_nearest(name, names, COMMAND_COUNT + 2);
    if (near) {
        return cli_error(EXIT_USAGE, "unknown command '%s' (did you mean '%s'?)", name, near);
    }
    return cli_error(EXIT_USAGE, "unknown command '%s' (drover help)", name);
}

static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (!command) {
        return unknown_command(argv[1]);
    }
    cli_print_help(command, stdout);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        puts("drover " DROVER_VERSION);
        return EXIT_DONE;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        return help(argc - 1, argv + 1);
    }
    const struct cli_command *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(name);
}
