/* trial_source.h - the trials of a workflow, wherever it is: asked of its server, or read from its
 * folder. Shared by trials, best and compare. */
#ifndef CLI_TRIAL_SOURCE_H
#define CLI_TRIAL_SOURCE_H

#include "cli/look.h"
#include "cli/trial_set.h"

/* {0} is valid and empty. */
struct trial_source {
    struct remote remote;
    bool served;
    struct session session; /* where it is not served */
    bool has_session;
    struct jread answer;
    struct trial_set set;
};

/* W is a workflow as for drover status, or the folder of a run or server (with a slash in it), or
 * NULL for the newest. experiment: only this one; NULL: all. EXIT_DONE with at least one search,
 * or has printed why not. Close in either case. */
int trial_source_open(struct trial_source *source, const char *state, const char *workflow,
                      const char *experiment);
void trial_source_close(struct trial_source *source);

/* What a task runs, as trials_json_plan says. EXIT_DONE, or has printed why not. */
int trial_source_plan(struct trial_source *source, const char *experiment, uint64_t task,
                      struct jread *out);

/* The goal that --metric names (NULL: the first); SIZE_MAX: the search has no such metric. */
size_t trial_source_goal(const struct trial_search *search, const char *metric);

#endif
