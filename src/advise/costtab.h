/* costtab.h - what reaching the stabilisation point costs, per machine type and batch size.
 *
 * For each type and batch: mean and deviation over the repeats of time, metric and cost at the
 * stabilisation point, the speed-up against the baseline type at the same batch, and the saving
 * against the baseline row. How many steps a model needs depends on the batch, not on the machine,
 * so one point serves all types of a batch: the median over its runs, unless given.
 *
 * Then the recommendation among rows that reach a target metric: the cheapest, the fastest, and the
 * best trade-off, which is the row with the least cost times time (halving the time is worth
 * doubling the price). Rows that no other beats in both are on the Pareto front. Pure; the table
 * owns its rows, types are borrowed from the curve set, which must outlive it.
 */
#ifndef ADVISE_COSTTAB_H
#define ADVISE_COSTTAB_H

#include "advise/curve.h"
#include "advise/money.h"
#include "advise/stabilise.h"

struct costtab_price {
    const char *type;
    int64_t price_hour_micro;
    struct money_billing billing;
};

/* A stabilisation point found elsewhere (or by eye). */
struct costtab_point {
    double batch; /* NAN: of runs whose batch is not known */
    double step;
};

struct costtab_options {
    enum stabilise_goal goal;
    const struct costtab_price *prices;
    size_t price_count;
    const struct costtab_point *points;
    size_t point_count;
    bool has_target;
    double target;
    const char *baseline_type; /* NULL: the type of the dearest row */
};

struct costtab_mean {
    double mean;
    double deviation; /* sample standard deviation; 0 with one run */
};

struct costtab_row {
    const char *type;
    double batch;
    double step;
    size_t runs;       /* that reached the step */
    size_t runs_short; /* that ended before it: left out */
    struct costtab_mean time_s;
    struct costtab_mean metric;
    struct costtab_mean cost; /* units of money */
    int64_t cost_micro;       /* the mean, to the nearest micro-unit */
    double speedup;           /* NAN: the baseline has no such batch */
    double saving;            /* share of the baseline row's cost; NAN: there is none */
    bool on_front;
    bool meets_target;
};

struct costtab {
    struct costtab_row *rows; /* by batch, then type */
    size_t count;
    size_t cap;
    int cheapest; /* index of a row; -1: none reaches the target */
    int fastest;
    int best;
    int baseline; /* the row that savings are measured against: the baseline type's cheapest */
    size_t unstable_batches; /* left out: no point was given and none was found */
};

/* results[i] belongs to set->runs[i]. ERR_NOT_FOUND: a type has no price, or the baseline type no
 * row. ERR_INVALID: a run has no times, or no row could be made at all. */
MUST_USE enum err_code costtab_make(const struct curve_set *set,
                                    const struct stabilise_result *results,
                                    const struct costtab_options *options, struct costtab *out,
                                    struct err *err);
void costtab_release(struct costtab *table);

/* Time and metric of a run at a step, between its points; false if the run ended before it. The
 * metric is the mean of five points from there on: before it the curve was still moving. */
bool costtab_at_step(const struct curve *run, double step, double *time_s, double *metric);

#endif
