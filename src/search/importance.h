/* importance.h - which parameters mattered: how much of the variation of the result each explains.
 *
 * A functional analysis of variance (fANOVA; Hutter, Hoos and Leyton-Brown, 2014). A small random
 * forest is fitted to the trials; over the whole space, with every parameter uniform in it, the
 * variance of what the forest predicts is divided up: a share that is due to each parameter alone
 * (its main effect), to each pair beyond both alone (an interaction), and the rest. Shares lie in
 * 0 .. 1 and add up to at most 1.
 *
 * They speak about the whole space, not about the neighbourhood of the best trial, and are worth no
 * more than the forest: `fit` says how much of the results' variance it foretells for trials it was
 * not shown. Below IMPORTANCE_FIT_MIN nothing should be concluded.
 *
 * A conditional parameter that is absent has a value of its own, with the weight that absent trials
 * have. That it is absent and the choice that makes it so are the same fact, so the share of that
 * fact may go to either. Categories are put in the order of their mean result, so that trees can
 * split them.
 *
 * Pure and deterministic: the same numbers and seed give the same shares. 5,000 trials of 12
 * parameters take well below a second. Of more than IMPORTANCE_ROWS_MAX trials a random choice is
 * used, so time and memory (about 20 MB) have a bound.
 */
#ifndef SEARCH_IMPORTANCE_H
#define SEARCH_IMPORTANCE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IMPORTANCE_PARAMS_MAX = 256,
    IMPORTANCE_TRIALS_MIN = 8,
    IMPORTANCE_ROWS_MAX = 16384,
    IMPORTANCE_PAIRED_MAX =
        16, /* parameters whose pairs are looked at: those that trees split most */
    IMPORTANCE_PAIRS_MAX = 10, /* reported */
};

#define IMPORTANCE_FIT_MIN 0.3

enum importance_kind { IMPORTANCE_NUMBER, IMPORTANCE_LOG, IMPORTANCE_CATEGORY };

/* low and high are the range searched (low >= high: that of the values); step: of whole numbers and
 * the like, 0 if any number will do. None of them is used for a category: each seen has equal
 * weight. Ordered categories are best given as numbers, their index with step 1. */
struct importance_param {
    enum importance_kind kind;
    double low;
    double high;
    double step;
};

struct importance_table {
    const struct importance_param *params;
    size_t param_count;
    const double
        *values; /* values[trial * param_count + param]; the index of a category; NaN: absent */
    const double *results; /* one a trial; not finite: failed */
    size_t trial_count;
};

struct importance_options {
    uint64_t seed;
    bool maximize;  /* which results are worst */
    unsigned trees; /* 0: 32; at most 256 */
    bool ranks;     /* explain the rank of a result instead of its value: for losses that explode */
    bool drop_failed; /* leave failed trials out; else each counts as the worst finite result */
};

struct importance_pair {
    size_t a; /* params, a < b */
    size_t b;
    double share;
};

struct importance {
    double main[IMPORTANCE_PARAMS_MAX];                 /* by param */
    struct importance_pair pairs[IMPORTANCE_PAIRS_MAX]; /* strongest first */
    size_t pair_count;
    double rest; /* neither a main effect nor any pair looked at */
    double fit;  /* R^2 on trials left out; at most 1, below 0 for worse than the mean */
    size_t used; /* trials */
};

/* ERR_INVALID: no parameters or too many, or fewer than IMPORTANCE_TRIALS_MIN usable trials, or all
 * have the same result; the text says which. *out is not touched then. */
MUST_USE enum err_code importance_compute(const struct importance_table *table,
                                          const struct importance_options *options,
                                          struct importance *out, struct err *err);

#endif
