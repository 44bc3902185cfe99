#include "advise/stabilise.h"

#include "advise/series.h"
#include "advise/stabilise_internal.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double default_tolerance = 0.03;
static const double ln_2 = 0.6931471805599453;
/* The least share of a record that must lie on the plateau. */
static const double plateau_share_min = 0.1;
/* Gains below this many standard deviations of the noise are not believed. */
static const double gain_sigmas = 4.0;
/* Excursions from the final level count when this sure. */
static const double excursion_sigmas = 2.5;
/* One-sided 95 %. */
static const double trend_sigmas = 1.645;

enum { TAIL_MIN = 5, SMOOTH_SHARE = 16, SMOOTH_LEAST = 250 };

enum err_code stabilise_check_options(const struct stabilise_options *options, struct err *err)
{
    double tolerance = options->tolerance;
    if (tolerance != 0 && !(tolerance >= 0.001 && tolerance <= 0.5)) {
        return err_set(err, ERR_RANGE, "tolerance %g is not within 0.001..0.5", tolerance);
    }
    if (!(options->not_before_step >= 0 && options->not_before_step <= CURVE_VALUE_MAX)) {
        return err_set(err, ERR_RANGE, "step %g is out of range", options->not_before_step);
    }
    return ERR_OK;
}

const char *stabilise_verdict_name(enum stabilise_verdict verdict)
{
    return verdict == STABILISE_STABLE ? "stable" : "not yet stable";
}

const char *stabilise_verdict_why(enum stabilise_verdict verdict)
{
    static const char *const why[] = {
        [STABILISE_STABLE] = "it stays within the tolerance from there on",
        [STABILISE_MOVING] = "it is still moving at the end of the record",
        [STABILISE_NO_GAIN] = "it has gained nothing that stands out of the noise",
        [STABILISE_TOO_SHORT] = "it has too few points",
    };
    return why[verdict];
}

/* Smooth so much that what noise is left is half the tolerance, within reason: a long record is
 * always smoothed a little, since among very many points some are far off by chance. */
static size_t pick_half(const struct stabilise_view *view)
{
    double range = view->high - view->low;
    size_t least = 1 + view->count / SMOOTH_LEAST;
    size_t most = view->count / SMOOTH_SHARE > least ? view->count / SMOOTH_SHARE : least;
    if (range <= 0) {
        return most;
    }
    double ratio = 2 * view->noise / (view->tolerance * range);
    double half = ratio * ratio / 2;
    return half >= (double)most ? most : half <= (double)least ? least : (size_t)half;
}

static void smooth_view(struct stabilise_view *view, size_t half)
{
    view->half = half;
    series_smooth(view->y, view->count, half, view->smooth);
    view->low = view->high = view->y[0];
    view->best = 0;
    /* the last few are hardly smoothed: one of them alone is no record */
    size_t end = view->count - (half < view->count / 4 ? half : view->count / 4);
    for (size_t i = 0; i < end; i++) {
        if (view->smooth[i] > view->high) {
            view->high = view->smooth[i];
            view->best = i;
        }
        view->low = view->smooth[i] < view->low ? view->smooth[i] : view->low;
    }
}

size_t stabilise_view_point(const struct stabilise_view *view, size_t i)
{
    if (view->per == 1 || i == 0) {
        return i;
    }
    size_t first = 1 + (i - 1) * view->per;
    size_t end = first + view->per < view->point_count ? first + view->per : view->point_count;
    return first + (end - first) / 2;
}

/* x and y hold every point; afterwards the first and the means of blocks. */
static void average_blocks(struct stabilise_view *view)
{
    double *raw_x = mem_dup(view->x, view->point_count * sizeof *raw_x);
    for (size_t i = 1; i < view->count; i++) {
        size_t first = 1 + (i - 1) * view->per;
        size_t end = first + view->per < view->point_count ? first + view->per : view->point_count;
        double sum = 0;
        for (size_t k = first; k < end; k++) {
            sum += view->y[k] - view->y[0];
        }
        view->x[i] = raw_x[stabilise_view_point(view, i)];
        view->y[i] = view->y[0] + sum / (double)(end - first);
    }
    free(raw_x);
}

void stabilise_view_init(struct stabilise_view *view, const struct curve_point *points,
                         size_t count, const struct stabilise_options *options)
{
    CHECK(count >= STABILISE_POINTS_MIN);
    size_t per = 1 + (count - 2) / STABILISE_VIEW_MAX;
    *view = (struct stabilise_view){.count = per == 1 ? count : 1 + (count - 2 + per) / per,
                                    .per = per,
                                    .point_count = count,
                                    .x = mem_array(count, sizeof(double)),
                                    .y = mem_array(count, sizeof(double)),
                                    .smooth = mem_array(count, sizeof(double)),
                                    .tolerance = options->tolerance > 0 ? options->tolerance
                                                                        : default_tolerance};
    double sign = options->goal == STABILISE_MAXIMIZE ? 1 : -1;
    for (size_t i = 0; i < count; i++) {
        CHECK(i == 0 || points[i].step > points[i - 1].step);
        view->x[i] = points[i].step;
        view->y[i] = sign * points[i].metric;
    }
    series_despike(view->y, count);
    view->point_noise = series_noise(view->x, view->y, count);
    if (per > 1) {
        average_blocks(view);
    }
    view->noise = per > 1 ? series_noise(view->x, view->y, view->count) : view->point_noise;
    smooth_view(view, 1);
    smooth_view(view, pick_half(view));
}

void stabilise_view_release(struct stabilise_view *view)
{
    free(view->x);
    free(view->y);
    free(view->smooth);
    *view = (struct stabilise_view){0};
}

size_t stabilise_view_from(const struct stabilise_view *view, double share, size_t keep)
{
    double length = view->x[view->count - 1] - view->x[0];
    double at = view->x[0] + share * length;
    size_t from = 0;
    while (from + keep < view->count && view->x[from] < at) {
        from++;
    }
    return from;
}

void stabilise_describe(const struct stabilise_view *view, const struct stabilise_options *options,
                        struct stabilise_result *out)
{
    double sign = options->goal == STABILISE_MAXIMIZE ? 1 : -1;
    size_t last = view->count - 1;
    *out = (struct stabilise_result){
        .verdict = STABILISE_TOO_SHORT,
        .index = view->point_count - 1,
        .step = view->x[last],
        .level = sign * view->smooth[last],
        .range = view->high - view->low,
        .gain = view->high - view->y[0],
        .noise = view->point_noise,
        .best_index = stabilise_view_point(view, view->best),
        .best_step = view->x[view->best],
        .best_level = sign * view->smooth[view->best],
    };
}

bool stabilise_has_gain(const struct stabilise_view *view)
{
    double gain = view->high - view->y[0];
    /* a rounding error is no gain either */
    return gain > gain_sigmas * view->noise && gain > 1e-9 * fabs(view->y[0]);
}

double stabilise_to_come(const struct stabilise_view *view, size_t from, double sigmas)
{
    struct series_line line = series_fit_line(view->x + from, view->y + from, view->count - from);
    double noise_error = view->noise > 0 && line.residual > 0
                             ? line.slope_error * fmax(1, view->noise / line.residual)
                             : line.slope_error;
    double middle = (view->x[from] + view->x[view->count - 1]) / 2 - view->x[0];
    return (line.slope + sigmas * noise_error) * middle * ln_2;
}

struct level {
    double value;
    double error;
    double noise; /* around it, and how it lingers (series.h) */
    double lingering;
};

/* The level at the end: the mean of the last quarter, or of as little of it as shows no trend; the
 * end of its line when even the last few points have one. */
static struct level final_level(const struct stabilise_view *view)
{
    double band = view->tolerance * (view->high - view->low);
    size_t tail = view->count / 4 > TAIL_MIN ? view->count / 4 : TAIL_MIN;
    for (;;) {
        size_t from = view->count - tail;
        struct series_line line = series_fit_line(view->x + from, view->y + from, tail);
        double length = view->x[view->count - 1] - view->x[from];
        bool trend =
            fabs(line.slope) > 2 * line.slope_error && fabs(line.slope) * length > band / 2;
        if (trend && tail / 2 >= TAIL_MIN) {
            tail /= 2;
            continue;
        }
        double sigma = fmax(line.residual, view->noise);
        return (struct level){
            .value = trend ? line.end : line.end - line.slope * length / 2,
            .error = trend ? line.end_error : sigma * line.lingering / sqrt((double)tail),
            .noise = sigma,
            .lingering = line.lingering,
        };
    }
}

/* The last place where the smoothed curve is surely outside the band around its level. */
static bool last_excursion(const struct stabilise_view *view, const struct level *level, size_t *at)
{
    double band = view->tolerance * (view->high - view->low);
    for (size_t i = view->count; i-- > 0;) {
        size_t reach = view->half;
        reach = i < reach ? i : reach;
        reach = view->count - 1 - i < reach ? view->count - 1 - i : reach;
        double averaged = fmin(1, level->lingering / sqrt((double)(2 * reach + 1)));
        double error = level->noise * averaged + level->error;
        if (fabs(view->smooth[i] - level->value) > band + excursion_sigmas * error) {
            *at = i;
            return true;
        }
    }
    return false;
}

/* Where the monotone curve nearest to the points from `from` on enters the band for good. */
static size_t enter_band(const struct stabilise_view *view, size_t from, double level)
{
    size_t count = view->count - from;
    double sign = view->smooth[from] < level ? 1 : -1;
    double band = view->tolerance * (view->high - view->low);
    double *rise = mem_array(count, sizeof *rise);
    for (size_t i = 0; i < count; i++) {
        rise[i] = sign * (view->y[from + i] - level);
    }
    series_isotonic(rise, count);
    size_t at = 0;
    while (at + 1 < count && rise[at] < -band) {
        at++;
    }
    free(rise);
    return from + at;
}

size_t stabilise_locate(const struct stabilise_view *view, double *level_out)
{
    struct level level = final_level(view);
    *level_out = level.value;
    size_t last = 0;
    if (!last_excursion(view, &level, &last)) {
        return 0;
    }
    /* back to the farthest point of that excursion: from there the curve only comes nearer */
    size_t farthest = last;
    bool below = view->smooth[last] < level.value;
    for (size_t i = last + 1; i-- > 0 && (view->smooth[i] < level.value) == below;) {
        if (fabs(view->smooth[i] - level.value) > fabs(view->smooth[farthest] - level.value)) {
            farthest = i;
        }
    }
    return enter_band(view, farthest, level.value);
}

static enum stabilise_verdict judge(const struct stabilise_view *view, size_t at, double to_come)
{
    size_t last = view->count - 1;
    double length = view->x[last] - view->x[0];
    if (view->x[last] - view->x[at] < plateau_share_min * length || last - at < 3) {
        return STABILISE_MOVING;
    }
    return to_come > view->tolerance * (view->high - view->low) ? STABILISE_MOVING
                                                                : STABILISE_STABLE;
}

void stabilise_whole(const struct curve_point *points, size_t count,
                     const struct stabilise_options *options, struct stabilise_result *out)
{
    if (count < STABILISE_POINTS_MIN) {
        *out = (struct stabilise_result){.verdict = STABILISE_TOO_SHORT,
                                         .index = count > 0 ? count - 1 : 0,
                                         .step = count > 0 ? points[count - 1].step : 0};
        return;
    }
    struct stabilise_view view;
    stabilise_view_init(&view, points, count, options);
    stabilise_describe(&view, options, out);
    if (!stabilise_has_gain(&view)) {
        out->verdict = STABILISE_NO_GAIN;
    } else {
        double level = 0;
        size_t at = stabilise_locate(&view, &level);
        size_t half = stabilise_view_from(&view, 0.5, TAIL_MIN);
        bool late = at > half && at + TAIL_MIN <= view.count;
        double to_come = stabilise_to_come(&view, late ? at : half, -trend_sigmas);
        out->level = options->goal == STABILISE_MAXIMIZE ? level : -level;
        out->to_come = fmax(0, to_come / out->range);
        out->verdict = judge(&view, at, to_come);
        bool stable = out->verdict == STABILISE_STABLE;
        out->index = stable ? stabilise_view_point(&view, at) : count - 1;
        out->step = points[out->index].step;
    }
    stabilise_view_release(&view);
}
