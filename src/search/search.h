/* search.h - which parameters to try next, from what was tried so far.
 *
 * A search is asked for trials and told what came of them, in any order and with any number of
 * trials running. A trial's parameters are meant to be logged when suggested and are never computed
 * again: to restore a search, create it with the same options and make the same calls in the same
 * order, with search_suggested in the place of search_ask. It then goes on exactly as if it had
 * never stopped (on the same machine and build), whichever asks failed in between.
 *
 * Trials that failed or diverged are used: they count as bad as the worst that finished. Pruned
 * ones count as their last value or the median, whichever is worse. Trials still running count as
 * what the model expects of them, so that no two are sent to the same place. With several goals
 * each suggestion goes for another trade-off between them (weights drawn anew each time).
 *
 * No combination is suggested twice (unless `repeats`), whatever the algorithm; where every
 * parameter is discrete and all have been suggested, search_ask says ERR_NOT_FOUND. Combinations
 * that differ only in parameters that are absent are the same. Suggestions keep to `allowed`.
 *
 * Pure: no I/O, no clock, no randomness but the seed; one thread owns a search. A suggestion takes
 * at most a few ms with tpe and 20 ms with gp and auto, at any number of trials: models look at a
 * few hundred trials, chosen by how good, near and recent they are. Memory: about 8 bytes a
 * parameter and 64 bytes for each trial.
 */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SEARCH_PARAMS_MAX = 256,
    SEARCH_GOALS_MAX = 8,
    SEARCH_TRIALS_MAX = 10000000, /* in one search */
};

enum search_kind {
    SEARCH_UNIFORM, /* low <= x <= high */
    SEARCH_LOG,     /* the same, uniform in the logarithm; 0 < low */
    SEARCH_NORMAL,  /* mean and sd, cut off at low and high, which may be infinite */
    SEARCH_CATEGORICAL,
    SEARCH_ORDERED, /* like categorical, but neighbours are alike: 32, 64, 128 */
    SEARCH_FIXED,   /* one value; only there or not */
};

struct search_param {
    const char *name; /* for messages */
    enum search_kind kind;
    double low;
    double high;
    double mean;
    double sd;

    /* Discrete parameters have `count` values, known by their index. A range with count > 0 is the
     * numbers low + index * step (whole numbers: step 1); log and normal then mean how the indices
     * are drawn. */
    uint64_t count;
    double step;

    /* Present only where param `parent` is present and the index of its value is one of when[].
     * The parent is discrete with at most SEARCH_WHEN_MAX values. For anything more intricate there
     * is search_options.present. */
    bool conditional;
    size_t parent;
    const uint64_t *when;
    size_t when_count;
};

enum { SEARCH_WHEN_MAX = 65536 };

struct search_value {
    bool present;
    uint64_t index; /* discrete parameters */
    double number;  /* ranges: the number; others: the index */
};

/* Is param present, given the values of the others (those it asks about are already known)? */
typedef bool search_present_fn(void *arg, size_t param, const struct search_value *values);
/* May these values be tried together? Pure. */
typedef bool search_allowed_fn(void *arg, const struct search_value *values);

enum search_goal { SEARCH_MINIMIZE, SEARCH_MAXIMIZE };

enum search_algorithm {
    SEARCH_GRID,   /* all combinations, evenly spread and in random order; ranges get `levels` */
    SEARCH_RANDOM, /* */
    SEARCH_SOBOL,  /* quasi-random: fills space more evenly than random */
    SEARCH_TPE,    /* density of good trials over density of all: any space, any number of trials */
    SEARCH_GP,     /* Gaussian process with expected improvement: few, costly trials */
    SEARCH_CMA_ES, /* evolution of a normal distribution: many trials, ranges above all */
    SEARCH_AUTO,   /* gp while trials are few, then tpe; tpe at once where there are many parameters
                    */
};

struct search_options {
    const struct search_param *params; /* copied */
    size_t param_count;
    const size_t *order; /* with `present`: the order in which to ask it, parents first; NULL:
                            as listed */
    search_present_fn *present; /* may be NULL; asked besides `when` */
    search_allowed_fn *allowed; /* may be NULL */
    void *arg;                  /* of both; must outlive the search */
    const enum search_goal *goals;
    size_t goal_count; /* at least 1 */
    enum search_algorithm algorithm;
    uint64_t seed;
    uint64_t trials;   /* how many are planned, 0 if unknown: a hint */
    uint32_t parallel; /* how many at a time, 0 if unknown: a hint */
    uint32_t levels; /* SEARCH_GRID: values of each continuous parameter; 0: as the budget allows */
    bool repeats;    /* a combination may be suggested again */
};

struct search_trial {
    uint64_t number;             /* 0, 1, 2 ... in the order of suggestion */
    struct search_value *values; /* param_count of them, the caller's memory */
};

enum search_status {
    SEARCH_FINISHED, /* a value for each goal; a NaN or infinite one counts as diverged */
    SEARCH_FAILED,   /* no values */
    SEARCH_DIVERGED, /* NaN or infinity: no values */
    SEARCH_PRUNED,   /* stopped early; the last value of each goal, or no values */
    SEARCH_GONE,     /* cancelled or lost: tells nothing, as if it had never been asked for; the
                        combination may be suggested again */
};

struct search;

/* NULL with ERR_INVALID: a parameter or a condition makes no sense (the text names it). */
struct search *search_create(const struct search_options *options, struct err *err);
void search_destroy(struct search *search);

/* The next trial to run; it is then running. Errors leave the search unchanged:
 * ERR_NOT_FOUND: the space is discrete and all of it was suggested.
 * ERR_AGAIN: no combination that is allowed was found among very many; the constraints may be
 * impossible to meet. ERR_QUOTA: SEARCH_TRIALS_MAX reached. */
MUST_USE enum err_code search_ask(struct search *search, struct search_trial *out, struct err *err);

/* Makes a logged suggestion, or a trial of an earlier search (warm start), what search_ask would
 * have made it. ERR_STALE: not the next number. ERR_INVALID: values outside the space. ERR_QUOTA.
 */
MUST_USE enum err_code search_suggested(struct search *search, const struct search_trial *trial,
                                        struct err *err);

/* What came of a running trial. values: goal_count of them, or NULL. A trial can be told once.
 * ERR_NOT_FOUND: no such trial. ERR_EXISTS: told before. ERR_INVALID: finished without values. */
MUST_USE enum err_code search_tell(struct search *search, uint64_t number,
                                   enum search_status status, const double *values,
                                   struct err *err);

struct search_counts {
    uint64_t suggested; /* all; the next trial's number */
    uint64_t running;
    uint64_t finished; /* with values */
    uint64_t failed;   /* failed or diverged */
    uint64_t pruned;
    uint64_t gone;
};
struct search_counts search_count(const struct search *search);

/* How many combinations there are, before `allowed`; UINT64_MAX: infinitely many, or more than fit,
 * or unknown because of `present`. */
uint64_t search_size(const struct search *search);

/* What makes the next suggestion, and why, for people: "gp: 10 parameters, 200 trials planned". */
enum search_algorithm search_choice(const struct search *search);
const char *search_describe(struct search *search);

/* "cma-es" and so on; search_algorithm_find returns false for other names. */
const char *search_algorithm_name(enum search_algorithm algorithm);
bool search_algorithm_find(const char *name, enum search_algorithm *out);

#endif
