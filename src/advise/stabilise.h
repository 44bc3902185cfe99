/* stabilise.h - when has a learning curve become stable?
 *
 * The stabilisation point of a curve without noise is the first step from which on the curve stays
 * within `tolerance` (3 %) of its range of its final level. Its range is highest less lowest value;
 * its final level is its value at the end of the record. So a staircase is not stable before its
 * last step down, and a curve that gets worse after its best (overfitting) is stable only once
 * that has ended too; `best_step` says where it was best.
 *
 * A curve is "not yet stable" when less than a tenth of the record lies after that point, or when
 * training as long again would, by the trend of its last half against the logarithm of the steps,
 * still gain more than the tolerance. stabilise_whole sees a complete record; stabilise_online
 * judges one that is still growing, and errs on the side of waiting.
 *
 * Steps need not be equally spaced. Pure and deterministic: the bootstrap draws from options->seed.
 */
#ifndef ADVISE_STABILISE_H
#define ADVISE_STABILISE_H

#include "advise/curve.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stabilise_goal { STABILISE_MAXIMIZE, STABILISE_MINIMIZE };

enum stabilise_verdict {
    STABILISE_STABLE,
    STABILISE_MOVING,    /* not yet stable: the trend goes on, or it only just arrived */
    STABILISE_NO_GAIN,   /* not yet stable: nothing but noise so far, or only worse */
    STABILISE_TOO_SHORT, /* fewer than STABILISE_POINTS_MIN points */
};

enum { STABILISE_POINTS_MIN = 8 };

struct stabilise_options {
    enum stabilise_goal goal;
    double tolerance;       /* 0.001 .. 0.5 of the range; 0: the default, 0.03 */
    double not_before_step; /* online: a learning-rate drop is planned here; 0: none known */
    uint64_t seed;
    unsigned resamples; /* of the bootstrap; 0: no interval */
};

struct stabilise_result {
    enum stabilise_verdict verdict;
    size_t index;      /* the point of `step`: for STABLE the stabilisation point, else the last */
    double step;       /* of the curve at `index` */
    double level;      /* final level of the metric */
    double range;      /* highest less lowest, without the noise */
    double gain;       /* best level less the first, towards the goal; may be <= 0 */
    double noise;      /* standard deviation around the curve */
    double to_come;    /* what training as long again may still gain, as a share of the range */
    size_t best_index; /* where the smoothed curve is best */
    double best_step;
    double best_level;
};

MUST_USE enum err_code stabilise_check_options(const struct stabilise_options *options,
                                               struct err *err);

/* The curve has points in strictly ascending order of step (curve_set_finish sees to it). */
void stabilise_whole(const struct curve_point *points, size_t count,
                     const struct stabilise_options *options, struct stabilise_result *out);

/* May training stop now, after these points? STABLE: yes. Nothing is known of what comes. */
void stabilise_online(const struct curve_point *points, size_t count,
                      const struct stabilise_options *options, struct stabilise_result *out);

/* Plays the record to stabilise_online as it grew and returns after how many points it first said
 * STABLE, or 0: never. Curves of more than 200 points are judged each time they have grown by
 * half a per cent, those of more than 4096 by 2 %. */
size_t stabilise_replay(const struct curve_point *points, size_t count,
                        const struct stabilise_options *options);

/* The stabilisation point of repeats of one set-up: the median of those of the runs that became
 * stable, with a 90 % interval by bootstrap over the runs and over each run's noise. STABLE needs
 * more than half of the runs to be so. */
struct stabilise_group {
    enum stabilise_verdict verdict;
    size_t run_count;
    size_t stable_count;
    double step;
    bool has_interval;
    double low_step;
    double high_step;
};

/* results[i] is what stabilise_whole found for runs[i]. */
void stabilise_repeats(const struct curve *runs, const struct stabilise_result *results,
                       size_t count, const struct stabilise_options *options,
                       struct stabilise_group *out);

const char *stabilise_verdict_name(enum stabilise_verdict verdict); /* "stable", "not yet stable" */
const char *stabilise_verdict_why(enum stabilise_verdict verdict);  /* a clause for people */

#endif
