/* hunt_watch.c - the curves of running trials, for the rules that stop one early. */
#include "master/hunt_internal.h"

#include "advise/stabilise.h"
#include "base/mem.h"
#include "master/place.h"

#include <math.h>
#include <string.h>

/* --- the rules ---------------------------------------------------------------------------------
 */

static bool is_stable(void *arg, const double *steps, const double *values, size_t count)
{
    const struct experiment *experiment = arg;
    AUTO_FREE struct curve_point *points = mem_array(count, sizeof *points);
    for (size_t i = 0; i < count; i++) {
        points[i] = (struct curve_point){.step = steps[i], .metric = values[i]};
    }
    struct stabilise_options options = {
        .goal = experiment->search->goals[0].maximize ? STABILISE_MAXIMIZE : STABILISE_MINIMIZE};
    struct stabilise_result result;
    stabilise_online(points, count, &options, &result);
    return result.verdict == STABILISE_STABLE;
}

struct early *hunt_make_early(const struct hunt *hunt)
{
    struct early_options options;
    search_space_early(hunt->experiment, &options);
    if (options.rule == EARLY_NONE) {
        return NULL;
    }
    options.stable = is_stable;
    options.arg = (void *)hunt->experiment;
    return early_create(&options);
}

/* --- a point of a curve ------------------------------------------------------------------------
 */

/* How far the trial is, in the resource; where nothing says so, how often it reported. */
static uint64_t step_of(const struct hunt *hunt, const struct metrics *metrics,
                        const struct metric_summary *summary)
{
    const char *resource = hunt->experiment->search->early.resource;
    double step = 0;
    if (!metrics_progress(metrics, resource ? resource : "step", &step)) {
        return summary->count;
    }
    return step > 0 && step < 1e15 ? (uint64_t)step : 0;
}

/* True: this point says that the trial should stop. */
static bool judge_point(struct hunt *hunt, const struct gauge *gauge, uint64_t trial,
                        const struct metric *metric, struct str *why)
{
    const struct metrics *metrics = gauge_metrics(gauge);
    const char *goal = hunt->experiment->search->goals[0].metric;
    const struct metric_summary *summary = metrics_find_like(metrics, goal);
    if (!summary || strcmp(summary->name, metric->name) != 0) {
        return false;
    }
    return early_report(hunt->early, (uint32_t)trial, step_of(hunt, metrics, summary),
                        metric->value, why);
}

static void take_point(void *owner, const struct metric *metric)
{
    struct hunt_leg *leg = owner;
    struct hunt *hunt = leg->hunt;
    if (leg->should_stop || !leg->gauge) {
        return;
    }
    str_clear(&leg->why);
    leg->should_stop =
        judge_point(hunt, leg->gauge, hunt->book->legs[leg->leg].trial, metric, &leg->why);
}

struct gauge *hunt_make_gauge(struct hunt_leg *leg)
{
    struct metric_sink sink = {.take = take_point, .owner = leg};
    return gauge_create(leg->hunt->experiment, leg->hunt->early ? &sink : NULL);
}

/* --- running trials ----------------------------------------------------------------------------
 */

/* Of a gang the first task is looked at. */
static void watch_leg(struct hunt_leg *leg)
{
    struct hunt *hunt = leg->hunt;
    struct core_task_view view;
    uint64_t task = hunt_task(hunt, leg->leg);
    core_task_view(hunt->server->core, hunt->home->flow->number, hunt->number, task, &view);
    if (view.state != TASK_RUNNING) {
        return;
    }
    AUTO_STR struct str path = {0};
    if (!leg->gauge) {
        leg->gauge = hunt_make_gauge(leg);
        leg->attempt = view.attempt;
    } else if (leg->attempt != view.attempt) {
        leg->attempt = view.attempt;
        gauge_next_log(leg->gauge);
    }
    if (leg->folder && leg->folder_attempt == view.attempt) {
        gauge_follow_folder(leg->gauge, leg->folder, server_now_ms(hunt->server));
    }
    place_add_log(&path, hunt->home->flow->folder, hunt->experiment->name, task, view.attempt);
    while (gauge_read_log(leg->gauge, str_text(&path), server_now_ms(hunt->server))) {
        if (hunt_time_is_up(hunt)) {
            return;
        }
    }
}

/* --- after a restart ---------------------------------------------------------------------------
 * What trials that have ended reported is a part of what others are compared with. */

struct rereading {
    struct hunt *hunt;
    uint64_t trial;
};

static void take_old_point(void *owner, const struct metric *metric)
{
    const struct rereading *rereading = owner;
    struct hunt *hunt = rereading->hunt;
    if (hunt->reread_gauge) {
        (void)judge_point(hunt, hunt->reread_gauge, rereading->trial, metric, NULL);
    }
}

static bool reread_leg(struct hunt *hunt, uint64_t leg)
{
    struct rereading rereading = {.hunt = hunt, .trial = hunt->book->legs[leg].trial};
    struct metric_sink sink = {.take = take_old_point, .owner = &rereading};
    struct core_task_view view;
    uint64_t task = hunt_task(hunt, leg);
    AUTO_STR struct str path = {0};
    core_task_view(hunt->server->core, hunt->home->flow->number, hunt->number, task, &view);
    place_add_log(&path, hunt->home->flow->folder, hunt->experiment->name, task, view.attempt);
    hunt->reread_gauge = gauge_create(hunt->experiment, &sink);
    int64_t now_ms = server_now_ms(hunt->server);
    while (gauge_read_log(hunt->reread_gauge, str_text(&path), now_ms)) {
    }
    gauge_end_log(hunt->reread_gauge, now_ms);
    gauge_destroy(hunt->reread_gauge);
    hunt->reread_gauge = NULL;
    early_forget(hunt->early, (uint32_t)rereading.trial);
    return !hunt_time_is_up(hunt);
}

static bool reread(struct hunt *hunt)
{
    while (hunt->reread < hunt->reread_count) {
        uint64_t leg = hunt->reread++;
        if (hunt_is_told(hunt, leg) && !reread_leg(hunt, leg)) {
            return false;
        }
    }
    return true;
}

void hunt_watch(struct hunt *hunt)
{
    if (!hunt->early || !reread(hunt)) {
        return;
    }
    size_t kept = 0;
    for (size_t i = 0; i < hunt->open_count; i++) {
        struct hunt_leg *leg = hunt->open[i];
        if (!hunt_is_told(hunt, leg->leg)) {
            watch_leg(leg);
        }
        if (leg->should_stop && leg->after == 0 && !hunt_is_told(hunt, leg->leg)) {
            hunt_finish_leg(leg, TRIALS_STOPPED, str_text(&leg->why));
            VEC_PUSH(hunt->stopped, hunt->stopped_count, hunt->stopped_cap) = leg->leg;
            hunt_leg_destroy(leg);
        } else {
            hunt->open[kept++] = leg;
        }
    }
    hunt->open_count = kept;
}
