/* look.h - what list, status, tasks and logs share: their options, and finding what they mean.
 *
 * A workflow is looked for where --state says, else on the server that DROVER_SERVER names, else on
 * the server in the default place if one lives there, else among the runs of the default place. A
 * live server is asked; a state folder that nobody serves is read, without changing it.
 */
#ifndef CLI_LOOK_H
#define CLI_LOOK_H

#include "cli/cli.h"
#include "cli/remote.h"

struct look {
    const char *state;
    const char *run; /* W, or for logs a task */
    bool as_json;
    bool failed_only;
    const char *experiment;
    bool follow;
    const char *grep; /* logs: lines that hold this text */
    bool regex;
    uint64_t limit;   /* of lines found; 0: none */
    uint64_t attempt; /* logs: of this one; 0: the newest */
};

/* -1: go on; else the exit code. */
int look_parse(const struct cli_command *command, struct look *look, int argc, char **argv);

/* The server that knows workflow `run` (NULL: the newest). *found false: read a folder instead.
 * Close the remote in any case. */
int look_for_server(const struct look *look, const char *run, struct remote *remote, bool *found);

/* The state folder that holds it, with session.flow the workflow meant. EXIT_DONE, or has printed
 * why not. */
int look_read(const struct look *look, const char *run, struct session *session);

/* The number of an experiment; -1: there is none of that name. */
int look_experiment(const struct session *session, const char *name);

#endif
