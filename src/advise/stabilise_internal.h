/* stabilise_internal.h - a curve made ready for judging; shared by the parts of stabilise. */
#ifndef ADVISE_STABILISE_INTERNAL_H
#define ADVISE_STABILISE_INTERNAL_H

#include "advise/stabilise.h"

enum { STABILISE_VIEW_MAX = 4096 };

/* Values are turned so that more is better and spikes are taken out. Of a long curve the first
 * point and then the means of so many blocks of `per` points each are seen. */
struct stabilise_view {
    size_t count;
    size_t per;
    size_t point_count;
    double *x;
    double *y;
    double *smooth;
    size_t half;        /* of the smoothing window */
    double noise;       /* of y */
    double point_noise; /* of the points, which is more where blocks are averaged */
    double low;         /* of the smoothed curve, and of its first value as it is */
    double high;
    size_t best; /* where smooth is highest */
    double tolerance;
};

/* count >= STABILISE_POINTS_MIN. Release with stabilise_view_release. */
void stabilise_view_init(struct stabilise_view *view, const struct curve_point *points,
                         size_t count, const struct stabilise_options *options);
void stabilise_view_release(struct stabilise_view *view);

/* The point that index i of the view stands for: of a block the one in its middle. */
size_t stabilise_view_point(const struct stabilise_view *view, size_t i);

/* The first index whose x is at or after x[0] + share * (the whole length), leaving `keep` points
 * at least. */
size_t stabilise_view_from(const struct stabilise_view *view, double share, size_t keep);

/* Fills what both detectors say of the curve; the verdict is TOO_SHORT. */
void stabilise_describe(const struct stabilise_view *view, const struct stabilise_options *options,
                        struct stabilise_result *out);

/* Is what was gained more than the noise could pretend? */
bool stabilise_has_gain(const struct stabilise_view *view);

/* What training as long again would gain if y went on as a line in the logarithm of x, as it does
 * from index `from` on; `sigmas` standard errors are added to the trend. */
double stabilise_to_come(const struct stabilise_view *view, size_t from, double sigmas);

/* The whole-curve answer for a view: the index of the stabilisation point, count - 1 if it never
 * arrived. */
size_t stabilise_locate(const struct stabilise_view *view, double *level);

#endif
