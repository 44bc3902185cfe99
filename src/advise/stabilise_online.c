/* Stopping while the curve still grows. Three questions, all of which must be answered: does the
 * trend of its later part leave less than the tolerance to gain, with the noise taken into account?
 * Has the curve stalled for clearly longer than it ever did before it moved on? Is the last
 * planned learning-rate drop over? */
#include "advise/series.h"
#include "advise/stabilise.h"
#include "advise/stabilise_internal.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One-sided 90 % on what may still come. */
static const double wait_sigmas = 1.282;
/* So much of the record, at its end, must show no trend worth waiting for. */
static const double flat_share = 0.6;
/* A stall ends training when it is this much longer than the longest that did not. */
static const double stall_factor = 1.5;
/* A drop has been seen once the record goes on for this share of its length before it. */
static const double seen_share = 0.1;

enum { WINDOW_MIN = 5, REPLAY_EACH = 200, REPLAY_LONG = 50 };

struct stall {
    double now;     /* since the curve last gained more than the tolerance */
    double longest; /* of the stalls that ended */
};

/* On the non-decreasing curve nearest to the points. */
static struct stall find_stalls(const struct stabilise_view *view, double band)
{
    size_t count = view->count;
    double *rise = mem_dup(view->y, count * sizeof *rise);
    series_isotonic(rise, count);
    struct stall stall = {0};
    size_t from = 0;
    for (size_t i = 0; i < count; i++) {
        while (rise[i] - rise[from] > band) {
            from++;
        }
        double length = view->x[i] - view->x[from];
        if (rise[count - 1] - rise[i] > band) {
            stall.longest = length > stall.longest ? length : stall.longest;
        }
    }
    stall.now = view->x[count - 1] - view->x[from];
    free(rise);
    return stall;
}

/* Far enough past a planned drop to have seen what it did. */
static bool is_past_drop(const struct stabilise_view *view, double drop_step)
{
    if (drop_step <= 0) {
        return true;
    }
    size_t count = view->count;
    double since = view->x[count - 1] - drop_step;
    return since >= seen_share * (drop_step - view->x[0]) &&
           view->x[count - WINDOW_MIN] >= drop_step;
}

static enum stabilise_verdict judge_online(const struct stabilise_view *view,
                                           const struct stabilise_options *options, double to_come)
{
    if (!stabilise_has_gain(view)) {
        return STABILISE_NO_GAIN;
    }
    double band = view->tolerance * (view->high - view->y[0]);
    struct stall stall = find_stalls(view, band);
    if (to_come > band || stall.now < stall_factor * stall.longest ||
        !is_past_drop(view, options->not_before_step)) {
        return STABILISE_MOVING;
    }
    return STABILISE_STABLE;
}

void stabilise_online(const struct curve_point *points, size_t count,
                      const struct stabilise_options *options, struct stabilise_result *out)
{
    if (count < STABILISE_POINTS_MIN) {
        stabilise_whole(points, count, options, out);
        return;
    }
    struct stabilise_view view;
    stabilise_view_init(&view, points, count, options);
    stabilise_describe(&view, options, out);
    size_t from = stabilise_view_from(&view, 1 - flat_share, WINDOW_MIN);
    double to_come = stabilise_to_come(&view, from, wait_sigmas);
    out->to_come = out->range > 0 ? fmax(0, to_come / out->range) : 0;
    out->verdict = judge_online(&view, options, to_come);
    stabilise_view_release(&view);
}

size_t stabilise_replay(const struct curve_point *points, size_t count,
                        const struct stabilise_options *options)
{
    size_t next = STABILISE_POINTS_MIN;
    while (next <= count) {
        struct stabilise_result result;
        stabilise_online(points, next, options, &result);
        if (result.verdict == STABILISE_STABLE) {
            return next;
        }
        size_t share = next > STABILISE_VIEW_MAX ? REPLAY_LONG : REPLAY_EACH;
        next += next > share ? next / share : 1;
    }
    return 0;
}
