/* curve.h - learning curves: for each run, (step, time, metric) in order of step.
 *
 * A set holds runs, each of one machine type and one batch size (either may be unknown). Points may
 * be added in any order; curve_set_finish sorts them. Of points with the same step the one added
 * last stays: a run resumed from a checkpoint reports some steps twice, and the later report is
 * about the model that went on. Every number kept is finite and at most CURVE_VALUE_MAX in size, so
 * that sums and squares of differences cannot overflow. The set owns all memory. Pure; one thread.
 */
#ifndef ADVISE_CURVE_H
#define ADVISE_CURVE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CURVE_VALUE_MAX 1e100

enum { CURVE_POINTS_MAX = 20 * 1000 * 1000, CURVE_RUNS_MAX = 100000 };

struct curve_point {
    double step;
    double time_s; /* since the run began; NAN: not known */
    double metric;
};

struct curve {
    char *run;
    char *type;    /* machine type; "": not known */
    double batch;  /* NAN: not known */
    bool has_time; /* every point has a time, and it never goes back */
    struct curve_point *points;
    size_t count;
    size_t cap;
    size_t repeated; /* points that another of the same step replaced */
};

struct curve_set {
    struct curve *runs;
    size_t count;
    size_t cap;
    size_t point_count;
    uint32_t *slots; /* a hash table over runs, while points are added */
    size_t slot_count;
};

/* The identity of a run; type may be "", batch NAN. */
struct curve_key {
    const char *run;
    const char *type;
    double batch;
};

void curve_set_release(struct curve_set *set);

/* ERR_RANGE: a number is not finite (time may be NAN) or too large, a step or time is negative, or
 * there are too many points or runs; the text names the trouble and nothing is added. */
MUST_USE enum err_code curve_set_add(struct curve_set *set, const struct curve_key *key,
                                     const struct curve_point *point, struct err *err);

/* Sorts runs (by type, batch, run) and their points, and drops repeated steps. */
void curve_set_finish(struct curve_set *set);

/* The runs that repeat run `first` (same type, same batch) stand together after curve_set_finish:
 * the index after the last of them. */
size_t curve_set_group_end(const struct curve_set *set, size_t first);

/* The first point at or after `step`; count if there is none. */
size_t curve_find(const struct curve *curve, double step);

#endif
