/* trial_set.h - the trials of a workflow's searches, as GET .../trials answers: read, best first.
 *
 * The answer may come from a server or be made of a folder (master/trials_json.h); whatever it
 * lacks or has of another kind reads like what it never had. A trial is *rated* if it has a finite
 * value for each metric that is searched for and did not fail; a trial that still runs is rated by
 * the rung before. Order: with one metric rated trials by their value; with several those that no
 * other beats in every one (the front, by the first metric), then the rest by the first metric;
 * then trials without a value that may still get one, then those that never will, both by number.
 *
 * Names of workflows, experiments and metrics are clean for a terminal; other texts are not.
 *
 * Pure. Everything lives in the set's arena or in the answer, which must outlive the set.
 */
#ifndef CLI_TRIAL_SET_H
#define CLI_TRIAL_SET_H

#include "base/jread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRIAL_SET_GOALS_MAX = 8 };

struct trial {
    uint64_t number;
    const char *state;                  /* running, succeeded, failed, stopped, diverged, ... */
    const char *reason;                 /* "" where there is none */
    bool rated;                         /* see above */
    bool open;                          /* it may still get a value, or another one */
    bool best;                          /* the best one, or one of the front */
    double values[TRIAL_SET_GOALS_MAX]; /* NaN: none */
    const struct jnode *node;           /* the whole object */
};

/* A parameter of the space, or one that only trials mention. */
struct trial_column {
    const char *name;
    const struct jnode *about; /* its description: kind, low, high, values; NULL: none */
};

struct trial_search {
    const char *experiment;
    const struct jnode *node; /* its description: algorithm, chosen, why, closed ... */
    const char *metrics[TRIAL_SET_GOALS_MAX];
    bool maximize[TRIAL_SET_GOALS_MAX];
    size_t goal_count; /* at least 1 */
    struct trial_column *columns;
    size_t column_count;
    struct trial *trials; /* best first */
    size_t count;
    size_t rated;
    size_t open;
};

/* {0} is valid and empty. */
struct trial_set {
    struct arena arena;
    const char *workflow; /* its id */
    struct trial_search *searches;
    size_t count;
};

void trial_set_read(const struct jnode *answer, struct trial_set *out);
void trial_set_release(struct trial_set *set);

/* The search of that experiment; NULL: none of that name. */
const struct trial_search *trial_set_find(const struct trial_set *set, const char *experiment);

/* A parameter of a trial; NULL: absent. */
const struct jnode *trial_param(const struct trial *trial, const char *name);
/* A number, or NaN for anything else. */
double trial_number(const struct jnode *node);

/* Trials in order of their number: indices into search->trials, which the caller frees. */
size_t *trial_set_by_number(const struct trial_search *search);

/* Is a better than b, in a goal? */
bool trial_better(double a, double b, bool maximize);

#endif
