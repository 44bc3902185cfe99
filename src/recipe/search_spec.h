/* search_spec.h - `search:` of an experiment, as checked: how its trials are chosen and judged.
 *
 * A searched experiment has no fixed list of tasks: `trials` points of its space are tried one
 * after another, each chosen by what came of those before. A trial is one task, or with asha one
 * task for each rung that it reaches; with `gang` that many of each. The names of algorithms are
 * those of search/search.h, which this folder does not know.
 */
#ifndef RECIPE_SEARCH_SPEC_H
#define RECIPE_SEARCH_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECIPE_TRIALS_MAX = 10000000,
    RECIPE_GOALS_MAX = 8,
    RECIPE_METRIC_MAX = 100, /* bytes of a metric's name */
    RECIPE_METRICS_MAX = 64, /* patterns */
    RECIPE_PATTERN_MAX = 1000,
    RECIPE_REQUIRES_MAX = 64,
    RECIPE_ETA_MAX = 1000,
    RECIPE_BRACKETS_MAX = 64,
    RECIPE_CURRENCY_MAX = 3,
    RECIPE_WARM_STARTS_MAX = 64,
};

#define RECIPE_RESOURCE_MAX UINT64_C(1000000000000)

enum recipe_algorithm {
    RECIPE_AUTO, /* unless said otherwise */
    RECIPE_GRID,
    RECIPE_RANDOM,
    RECIPE_SOBOL,
    RECIPE_TPE,
    RECIPE_GP,
    RECIPE_CMA_ES,
    RECIPE_ALGORITHM_COUNT,
};

enum recipe_early {
    RECIPE_EARLY_NONE,
    RECIPE_EARLY_ASHA,
    RECIPE_EARLY_MEDIAN,
    RECIPE_EARLY_STABILISED,
    RECIPE_EARLY_COUNT,
};

struct recipe_goal {
    const char *metric; /* 1 to RECIPE_METRIC_MAX bytes without control characters */
    bool maximize;
};

/* When the whole search is over, besides `trials`; 0 or NULL: no such limit. */
struct recipe_stop {
    bool has_target; /* only with one goal */
    double target;
    uint64_t patience;    /* results in a row without a better one */
    int64_t cost_micro;   /* millionths of `currency` */
    const char *currency; /* three capital letters */
    int64_t time_ms;
};

/* When a single trial is; only with one goal. */
struct recipe_early_stop {
    enum recipe_early algorithm;
    const char *resource; /* what min and max count: the name of a metric; "step" unless said */
    uint64_t min;      /* asha: of the first rung; others: nothing is stopped before; at least 1 */
    uint64_t max;      /* asha: of the last rung; others: 0 if not said */
    uint32_t eta;      /* asha: each rung is this much longer, one in so many goes on; default 3 */
    uint32_t brackets; /* asha; default 1 */
};

struct search_spec {
    enum recipe_algorithm algorithm;
    struct recipe_goal goals[RECIPE_GOALS_MAX];
    size_t goal_count; /* at least 1 */
    uint64_t trials;   /* at least 1; of a grid that said nothing: all of it */
    uint32_t parallel; /* trials at a time; 0: as many as there is room for */
    bool repeats;      /* the same point may be tried again */
    bool has_seed;
    uint64_t seed;            /* otherwise it follows from the workflow's */
    const char **warm_starts; /* ids of earlier workflows whose trials count as told */
    size_t warm_start_count;
    struct recipe_stop stop;
    struct recipe_early_stop early;
    struct expr **requires; /* over the space's parameters; all must hold: see dims.h */
    size_t require_count;
    uint32_t rungs_max; /* tasks that one trial can become (with a gang: times its size) */
    int line;           /* of search: */
    int column;
};

/* "cma-es", "asha" and so on, as in a recipe. */
const char *recipe_algorithm_name(enum recipe_algorithm algorithm);
const char *recipe_early_name(enum recipe_early early);

#endif
