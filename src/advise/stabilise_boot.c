/* The interval of a stabilisation point: each run is drawn again many times as its smoothed curve
 * plus its own residuals in random order, and the runs of a group are drawn with replacement. */
#include "advise/series.h"
#include "advise/stabilise.h"
#include "advise/stabilise_internal.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

enum { RESAMPLES_MIN = 20, WORK_MAX = 2000000 };

static const double interval_low = 0.05;
static const double interval_high = 0.95;

/* Long curves are drawn less often: their noise averages out anyway. */
static unsigned draws_for(size_t count, unsigned wanted)
{
    size_t affordable = WORK_MAX / (count > 0 ? count : 1);
    size_t draws = affordable < RESAMPLES_MIN ? RESAMPLES_MIN : affordable;
    return draws < wanted ? (unsigned)draws : wanted;
}

/* What is left of each value when the smooth curve is taken away, scaled up for what smoothing took
 * along. */
static double *residuals_of(const struct stabilise_view *view)
{
    double window = (double)(2 * view->half + 1);
    double scale = sqrt(window / (window - 1));
    double *residuals = mem_array(view->count, sizeof *residuals);
    for (size_t i = 0; i < view->count; i++) {
        residuals[i] = scale * (view->y[i] - view->smooth[i]);
    }
    return residuals;
}

/* The steps found in `draws` new draws of one run; the last step where one was not stable. */
static void draw_run(const struct curve *run, const struct stabilise_options *options,
                     struct rng *rng, double *steps, unsigned draws)
{
    struct stabilise_view view;
    stabilise_view_init(&view, run->points, run->count, options);
    double *residuals = residuals_of(&view);
    struct curve_point *points = mem_array(view.count, sizeof *points);
    struct stabilise_options upward = *options;
    upward.goal = STABILISE_MAXIMIZE; /* the view has turned the curve */
    for (unsigned d = 0; d < draws; d++) {
        for (size_t i = 0; i < view.count; i++) {
            double residual = residuals[rng_below(rng, view.count)];
            points[i] = (struct curve_point){.step = view.x[i],
                                             .metric = view.smooth[i] + (i > 0 ? residual : 0)};
        }
        struct stabilise_result result;
        stabilise_whole(points, view.count, &upward, &result);
        steps[d] = result.step;
    }
    free(points);
    free(residuals);
    stabilise_view_release(&view);
}

/* steps holds `draws` of each of `runs` runs. */
static void draw_groups(const double *steps, size_t runs, unsigned draws, struct rng *rng,
                        struct stabilise_group *out)
{
    double *medians = mem_array(draws, sizeof *medians);
    double *drawn = mem_array(runs, sizeof *drawn);
    for (unsigned d = 0; d < draws; d++) {
        for (size_t r = 0; r < runs; r++) {
            drawn[r] = steps[rng_below(rng, runs) * draws + rng_below(rng, draws)];
        }
        medians[d] = series_median(drawn, runs);
    }
    out->has_interval = true;
    out->low_step = fmin(series_quantile(medians, draws, interval_low), out->step);
    out->high_step = fmax(series_quantile(medians, draws, interval_high), out->step);
    free(drawn);
    free(medians);
}

static void find_interval(const struct curve *runs, const struct stabilise_result *results,
                          size_t count, const struct stabilise_options *options,
                          struct stabilise_group *out)
{
    size_t points = 0;
    for (size_t i = 0; i < count; i++) {
        points += runs[i].count < STABILISE_VIEW_MAX ? runs[i].count : STABILISE_VIEW_MAX;
    }
    unsigned draws = draws_for(points, options->resamples);
    double *steps = mem_array(out->stable_count * draws, sizeof *steps);
    size_t done = 0;
    struct rng rng = {.state = options->seed};
    for (size_t i = 0; i < count; i++) {
        if (results[i].verdict == STABILISE_STABLE) {
            draw_run(&runs[i], options, &rng, steps + done * draws, draws);
            done++;
        }
    }
    draw_groups(steps, done, draws, &rng, out);
    free(steps);
}

static enum stabilise_verdict common_verdict(const struct stabilise_result *results, size_t count)
{
    size_t votes[STABILISE_TOO_SHORT + 1] = {0};
    for (size_t i = 0; i < count; i++) {
        votes[results[i].verdict]++;
    }
    if (2 * votes[STABILISE_STABLE] > count) {
        return STABILISE_STABLE;
    }
    enum stabilise_verdict most = STABILISE_MOVING;
    most = votes[STABILISE_NO_GAIN] > votes[most] ? STABILISE_NO_GAIN : most;
    return votes[STABILISE_TOO_SHORT] > votes[most] ? STABILISE_TOO_SHORT : most;
}

void stabilise_repeats(const struct curve *runs, const struct stabilise_result *results,
                       size_t count, const struct stabilise_options *options,
                       struct stabilise_group *out)
{
    *out = (struct stabilise_group){.verdict = common_verdict(results, count), .run_count = count};
    if (count == 0) {
        out->verdict = STABILISE_TOO_SHORT;
        return;
    }
    double *steps = mem_array(count, sizeof *steps);
    for (size_t i = 0; i < count; i++) {
        if (results[i].verdict == STABILISE_STABLE) {
            steps[out->stable_count++] = results[i].step;
        }
    }
    if (out->verdict == STABILISE_STABLE) {
        out->step = series_median(steps, out->stable_count);
        if (options->resamples > 0) {
            find_interval(runs, results, count, options, out);
        }
    }
    free(steps);
}
