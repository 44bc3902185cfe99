/* stabilise_families.h - synthetic learning curves whose stabilisation point is known.
 *
 * The noiseless curve is drawn on a much finer record than is seen, and its point found by the
 * definition in advise/stabilise.h. Shared by the unit test and the benchmark.
 */
#ifndef ADVISE_STABILISE_FAMILIES_H
#define ADVISE_STABILISE_FAMILIES_H

#include "advise/curve.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>

enum family {
    FAMILY_EXPONENTIAL,
    FAMILY_POWER,
    FAMILY_LOGISTIC,
    FAMILY_STAIRCASE,
    FAMILY_OVERFIT,
    FAMILY_SPIKES,
    FAMILY_TWO_RATES, /* from here on: not thought of when the detectors were made */
    FAMILY_GOMPERTZ,
    FAMILY_LINGERING, /* noise that depends on the noise before (autocorrelation 0.7) */
    FAMILY_COUNT
};

struct family_curve {
    struct curve_point *points; /* free() */
    size_t count;
    double *clean; /* the same without noise; free() */
    double truth;  /* the step of stabilisation; the last step if it never is stable */
    double length; /* last step less first */
    double drop;   /* the step of a staircase's first drop; 0 for others */
};

const char *family_name(enum family family);

/* `noise` is a share of the range. Steps are unequally spaced in one curve of three. */
void family_draw(enum family family, double noise, double tolerance, struct rng *rng,
                 struct family_curve *out);
void family_release(struct family_curve *curve);

/* What was still to gain after `index` on the clean curve, as a share of all there was to gain. */
double family_left(const struct family_curve *curve, size_t index);

#endif
