/* trial_compare.h - searches side by side: who found how good a value after how many trials.
 *
 * All are compared in one metric with one goal. Pure; names and searches are borrowed.
 */
#ifndef CLI_TRIAL_COMPARE_H
#define CLI_TRIAL_COMPARE_H

#include "cli/plot.h"
#include "cli/trial_set.h"

enum { TRIAL_COMPARE_MAX = 64, TRIAL_COMPARE_COLUMNS = 5 };

struct trial_entry {
    const char *name; /* "mnist-3", or "mnist-3/train" where that is needed */
    const struct trial_search *search;
    size_t goal;
};

/* What an entry came to. NaN and 0 where it has no value. */
struct trial_outcome {
    double best;
    uint64_t best_trial;
    uint64_t reached; /* trials, counted from 1, until it was as good as the target; 0: never */
    struct plot_point *line; /* trial_picture_best_line */
    size_t line_count;
    const char *label; /* in a picture */
};

struct trial_comparison {
    struct arena arena;
    const struct trial_entry *entries;
    struct trial_outcome *outcomes; /* one for each */
    size_t count;
    double target; /* what all of them reached: the least good of their best; NaN: none has one */
    uint64_t after[TRIAL_COMPARE_COLUMNS]; /* 10, 20, 50, 100 ... trials, ascending */
    size_t after_count;
    const char *title; /* of a picture */
};

/* entries[0..count), at least one and at most TRIAL_COMPARE_MAX. */
void trial_compare(const struct trial_entry *entries, size_t count, struct trial_comparison *out);
void trial_compare_release(struct trial_comparison *comparison);

/* The best value after so many trials; NaN: none yet. */
double trial_compare_after(const struct trial_outcome *outcome, uint64_t trials);

void trial_compare_text(struct str *out, const struct trial_comparison *comparison);
/* One line for each: workflow, experiment, algorithm, metric, goal, trials, best, trial, target,
 * reached, curve ([trials, best so far] where it changed). workflows: their ids. */
void trial_compare_json(struct str *out, const struct trial_comparison *comparison,
                        const char *const *workflows);

/* The lines, for plot.h; series must hold `count` and everything is borrowed. */
struct plot trial_compare_plot(const struct trial_comparison *comparison,
                               struct plot_series *series);

#endif
