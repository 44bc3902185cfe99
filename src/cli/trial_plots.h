/* trial_plots.h - pictures of a search: each takes plain arrays and appends one SVG document.
 *
 * Everything is borrowed for the call. Any number of trials gives a picture of bounded size; where
 * something is left out, the subtitle says so. One far-off result does not squeeze all others
 * together: results far beyond the others are drawn as triangles at the edge. Failed trials are
 * shown where that makes sense, never silently dropped. Pure: the same input gives the same bytes.
 */
#ifndef CLI_TRIAL_PLOTS_H
#define CLI_TRIAL_PLOTS_H

#include "base/str.h"
#include "search/importance.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trial_kind { TRIAL_NUMBER, TRIAL_LOG, TRIAL_CATEGORY };

struct trial_param {
    const char *name;
    enum trial_kind kind;
    const char *const *choices; /* TRIAL_CATEGORY: their names, in order; values are indices */
    size_t choice_count;
};

struct trial_table {
    const struct trial_param *params;
    size_t param_count;
    const double *values;    /* values[trial * param_count + param]; NaN: absent */
    const double *objective; /* one a trial; not finite: failed */
    const uint64_t *numbers; /* of the trials, for labels; NULL: 0, 1, 2 ... */
    size_t trial_count;
    const char *metric; /* what the objective is called */
    bool maximize;
};

/* The value of each trial in the order given, and the best so far. */
void trial_plot_history(const struct trial_table *table, struct str *out);

/* A line a trial through its parameters to its value, the better the stronger. */
void trial_plot_parallel(const struct trial_table *table, struct str *out);

/* The value against each parameter, side by side. */
void trial_plot_slices(const struct trial_table *table, struct str *out);

/* Main effects and the strongest interactions as bars; `found` is for the table's params. */
void trial_plot_importance(const struct trial_table *table, const struct importance *found,
                           struct str *out);

enum { TRIAL_GOALS_MAX = 8 };

struct trial_goal {
    const char *name;
    bool maximize;
    const double *values; /* one a trial; not finite: failed */
};

/* Goals against one another, those trials marked that none beats in every goal: one picture for two
 * goals, one for each pair of more (up to TRIAL_GOALS_MAX; four are drawn). numbers may be NULL. */
void trial_plot_pareto(const struct trial_goal *goals, size_t goal_count, const uint64_t *numbers,
                       size_t trial_count, struct str *out);

#endif
