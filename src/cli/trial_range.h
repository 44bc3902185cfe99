/* trial_range.h - which part of the results a picture of trials shows; part of trial_plots. */
#ifndef CLI_TRIAL_RANGE_H
#define CLI_TRIAL_RANGE_H

#include "cli/plot.h"

#include <stdbool.h>
#include <stddef.h>

/* Can it be drawn on a scale? Finite, and not so large (or, for a log scale, small) that the
 * arithmetic of scales would overflow. */
bool trial_range_usable(double value, bool log);

struct trial_range {
    double low;
    double high;   /* > low */
    size_t finite; /* results; 0: low and high are 0 and 1 */
    size_t beyond; /* of these, worse than the range shows */
    size_t best;   /* index of the best, the first of equals */
};

/* From the best to the worst, unless the worst tenth lies far off: then to a little beyond the
 * rest. */
struct trial_range trial_range_of(const double *results, size_t count, bool maximize);
bool trial_range_holds(const struct trial_range *range, double value);
/* The scale of that range, with some air. */
void trial_range_scale(const struct trial_range *range, size_t ticks, struct plot_scale *scale);

#endif
