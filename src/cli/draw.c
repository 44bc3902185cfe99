#include "cli/draw.h"

#include "base/arena.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_NAMED_MAX = 12, LINES_MAX = 400 };

/* A plot while it is put together; texts and points are in the arena. */
struct sketch {
    struct arena arena;
    struct plot_series *series;
    size_t series_count;
    size_t series_cap;
    struct plot_mark *marks;
    size_t mark_count;
    size_t mark_cap;
};

static void finish(struct sketch *sketch, const struct draw_target *target, struct plot *plot)
{
    plot->series = sketch->series;
    plot->series_count = sketch->series_count;
    plot->marks = sketch->marks;
    plot->mark_count = sketch->mark_count;
    if (target->svg) {
        plot_svg(plot, target->svg);
    }
    if (target->text) {
        plot_term(plot, &target->terminal, target->text);
    }
    free(sketch->series);
    free(sketch->marks);
    arena_release(&sketch->arena);
}

static const char *format(struct arena *arena, const char *text, ...) PRINTF_LIKE(2, 3);

static const char *format(struct arena *arena, const char *text, ...)
{
    char buffer[256];
    va_list args;
    va_start(args, text);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vsnprintf(buffer, sizeof buffer, text, args);
    va_end(args);
    return arena_strdup(arena, buffer);
}

/* "p2.xlarge, batch 64", or what of it is known. */
static const char *group_name(struct arena *arena, const struct curve *run)
{
    const char *type = run->type[0] ? run->type : NULL;
    if (isnan(run->batch)) {
        return type ? format(arena, "%.80s", type) : format(arena, "run");
    }
    return type ? format(arena, "%.80s, batch %g", type, run->batch)
                : format(arena, "batch %g", run->batch);
}

static struct plot_series *add_series(struct sketch *sketch, size_t count,
                                      struct plot_point **points)
{
    struct plot_series *series =
        &VEC_PUSH(sketch->series, sketch->series_count, sketch->series_cap);
    *points = arena_alloc(&sketch->arena, (count > 0 ? count : 1) * sizeof **points);
    *series = (struct plot_series){.points = *points, .count = count};
    return series;
}

static void add_run(struct sketch *sketch, const struct curve *run, unsigned style,
                    const char *name, bool faint)
{
    struct plot_point *points = NULL;
    struct plot_series *series = add_series(sketch, run->count, &points);
    for (size_t i = 0; i < run->count; i++) {
        points[i] = (struct plot_point){.x = run->points[i].step, .y = run->points[i].metric};
    }
    series->name = name;
    series->style = style;
    series->line = true;
    series->faint = faint;
}

static void add_mark(struct sketch *sketch, const struct stabilise_group *group, unsigned style)
{
    const char *label = format(&sketch->arena, "%.6g", group->step);
    VEC_PUSH(sketch->marks, sketch->mark_count, sketch->mark_cap) =
        (struct plot_mark){.x = group->step, .label = label, .style = style};
}

/* "p2.xlarge, batch 64: stable at 57800"; NULL for groups beyond those the legend has room for. */
static const char *legend_of(struct sketch *sketch, const struct curve *run,
                             const struct stabilise_group *group, unsigned number)
{
    if (number >= GROUPS_NAMED_MAX) {
        return NULL;
    }
    const char *name = group_name(&sketch->arena, run);
    return group->verdict == STABILISE_STABLE
               ? format(&sketch->arena, "%s: stable at %.6g", name, group->step)
               : format(&sketch->arena, "%s: %s", name, stabilise_verdict_name(group->verdict));
}

void draw_curves(const struct draw_target *target, const struct curve_set *set,
                 const struct stabilise_group *groups, const char *metric)
{
    struct sketch sketch = {0};
    size_t drawn = 0;
    unsigned group = 0;
    for (size_t first = 0; first < set->count; group++) {
        size_t end = curve_set_group_end(set, first);
        const char *name = legend_of(&sketch, &set->runs[first], &groups[group], group);
        for (size_t i = first; i < end && drawn < LINES_MAX; i++) {
            add_run(&sketch, &set->runs[i], group, i == first ? name : NULL, set->count > 12);
            drawn++;
        }
        if (groups[group].verdict == STABILISE_STABLE && name) {
            add_mark(&sketch, &groups[group], group);
        }
        first = end;
    }
    struct plot plot = {
        .title = drawn < set->count
                     ? format(&sketch.arena, "Learning curves (%zu of %zu runs)", drawn, set->count)
                     : "Learning curves and where they become stable",
        .x_label = "training (steps)",
        .y_label = metric};
    finish(&sketch, target, &plot);
}

/* Hours, minutes or seconds, whichever reads best for the longest. */
static const char *pick_time_unit(double longest_s, double *unit_s)
{
    *unit_s = longest_s >= 3600 ? 3600 : longest_s >= 120 ? 60 : 1;
    return *unit_s == 3600 ? "time (h)" : *unit_s == 60 ? "time (min)" : "time (s)";
}

static int by_time(const void *left, const void *right)
{
    double a = ((const struct plot_point *)left)->x;
    double b = ((const struct plot_point *)right)->x;
    return (a > b) - (a < b);
}

static void add_front(struct sketch *sketch, const struct draw_setup *setups, size_t count,
                      double unit_s)
{
    struct plot_point *points = NULL;
    struct plot_series *series = add_series(sketch, count, &points);
    size_t on_front = 0;
    for (size_t i = 0; i < count; i++) {
        if (setups[i].on_front) {
            points[on_front++] =
                (struct plot_point){.x = setups[i].time_s / unit_s, .y = setups[i].cost};
        }
    }
    qsort(points, on_front, sizeof *points, by_time);
    series->count = on_front;
    series->name = "Pareto front: nothing is both faster and cheaper";
    series->style = 6;
    series->line = true;
    series->rings = true;
}

static void add_kind(struct sketch *sketch, const struct draw_setup *setups, size_t count,
                     size_t first, double unit_s)
{
    struct plot_point *points = NULL;
    struct plot_series *series = add_series(sketch, count, &points);
    size_t found = 0;
    for (size_t i = first; i < count; i++) {
        if (strcmp(setups[i].kind, setups[first].kind) == 0) {
            points[found++] = (struct plot_point){
                .x = setups[i].time_s / unit_s, .y = setups[i].cost, .label = setups[i].name};
        }
    }
    series->count = found;
    series->dots = true;
    series->name = setups[first].kind[0] ? setups[first].kind : NULL;
}

static bool is_first_of_kind(const struct draw_setup *setups, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(setups[i].kind, setups[index].kind) == 0) {
            return false;
        }
    }
    return true;
}

void draw_cost_map(const struct draw_target *target, const struct draw_setup *setups, size_t count,
                   const char *currency)
{
    struct sketch sketch = {0};
    double longest_s = 0;
    double shortest_s = INFINITY;
    for (size_t i = 0; i < count; i++) {
        longest_s = fmax(longest_s, setups[i].time_s);
        shortest_s = fmin(shortest_s, setups[i].time_s);
    }
    double unit_s = 1;
    const char *time_label = pick_time_unit(longest_s, &unit_s);
    add_front(&sketch, setups, count, unit_s);
    unsigned style = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_first_of_kind(setups, i)) {
            add_kind(&sketch, setups, count, i, unit_s);
            sketch.series[sketch.series_count - 1].style = style;
            style += style == 5 ? 2 : 1; /* 6 is the front's */
        }
    }
    bool wide = longest_s > 20 * shortest_s;
    struct plot plot = {.title = "Cost against time",
                        .x_label = time_label,
                        .y_label = format(&sketch.arena, "cost (%s)", currency),
                        .x_log = wide,
                        .x_from_zero = !wide,
                        .y_from_zero = true};
    finish(&sketch, target, &plot);
}

static void add_numbers(struct sketch *sketch, const double *x, const double *y, size_t count)
{
    struct plot_point *points = NULL;
    add_series(sketch, count, &points);
    for (size_t i = 0; i < count; i++) {
        points[i] = (struct plot_point){.x = x[i], .y = y[i]};
    }
}

void draw_engines(const struct draw_target *target, const struct draw_engines *engines)
{
    struct sketch sketch = {0};
    add_numbers(&sketch, engines->fit_engines, engines->fit_throughput, engines->fit_count);
    sketch.series[0].line = true;
    sketch.series[0].name = engines->fit_count > 0 ? "fitted" : NULL;
    add_numbers(&sketch, engines->engines, engines->throughput, engines->count);
    sketch.series[1].dots = true;
    sketch.series[1].style = 1;
    sketch.series[1].hollow = true;
    sketch.series[1].name = "measured";
    if (engines->knee > 0) {
        const char *label = format(&sketch.arena, "knee: %g engines", engines->knee);
        VEC_PUSH(sketch.marks, sketch.mark_count, sketch.mark_cap) =
            (struct plot_mark){.x = engines->knee, .label = label, .style = 2};
    }
    struct plot plot = {.title = "Throughput against engines per server",
                        .x_label = "engines per server (count)",
                        .y_label = format(&sketch.arena, "throughput (%s)", engines->unit),
                        .x_from_zero = true,
                        .y_from_zero = true};
    finish(&sketch, target, &plot);
}
