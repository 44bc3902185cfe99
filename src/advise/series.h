/* series.h - the robust statistics that judging a learning curve needs.
 *
 * All functions are pure, take arrays of finite numbers and give the same bits everywhere. Those
 * that need room take it from the heap for the call.
 */
#ifndef ADVISE_SERIES_H
#define ADVISE_SERIES_H

#include <stddef.h>

/* The q-quantile (0..1) by linear interpolation between order statistics; 0 values: 0. */
double series_quantile(const double *values, size_t count, double q);
double series_median(const double *values, size_t count);

/* The standard deviation of the noise around a smooth curve, from how far each value lies off the
 * line between its neighbours: robust to spikes (median) and blind to any trend. x ascends
 * strictly. Fewer than 3 values: 0. */
double series_noise(const double *x, const double *y, size_t count);

/* Values that stand alone, far from the median of their seven neighbours, are replaced by it. The
 * first two stay as they are: a curve may well begin with a jump. A monotone curve is never
 * changed, nor is a step that lasts four values or more. */
void series_despike(double *y, size_t count);

/* out[i]: the mean of the values within `half` places of i, fewer near the ends (always as many on
 * both sides, so a straight line stays as it is). */
void series_smooth(const double *y, size_t count, size_t half, double *out);

/* The non-decreasing sequence nearest to y by least squares (pool adjacent violators), in place. */
void series_isotonic(double *y, size_t count);

struct series_line {
    double slope;
    double slope_error; /* standard error, corrected for noise that lingers (autocorrelation) */
    double end;         /* the line's value at the last x */
    double end_error;
    double residual;  /* standard deviation of the residuals */
    double lingering; /* 1 for independent residuals; times as large as it looks is the error of
                         a mean of ones that linger */
};

/* The least-squares line through count >= 2 points; x ascends strictly. */
struct series_line series_fit_line(const double *x, const double *y, size_t count);

#endif
