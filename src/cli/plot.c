#include "cli/plot.h"

#include "base/check.h"

#include <math.h>
#include <stdio.h>

/* Ticks never closer than this share of the numbers they label: doubles have no more digits. */
static const double least_share = 1e-12;

static void widen(double *low, double *high)
{
    double size = fmax(fabs(*low), fabs(*high));
    if (*high - *low > size * least_share) {
        return;
    }
    double by = size > 0 ? 0.05 * size : 1;
    *low -= by;
    *high += by;
}

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double nice_step(double least)
{
    double power = pow(10, floor(log10(least)));
    static const double factors[] = {1, 2, 5, 10};
    for (size_t i = 0; i < 4; i++) {
        if (power * factors[i] >= least * (1 - 1e-9)) {
            return power * factors[i];
        }
    }
    return power * 10;
}

/* With a letter for thousands and millions; as many decimals as the step needs. */
static void tick_text(struct plot_tick *tick, double step, double largest)
{
    static const struct {
        double unit;
        const char *letter;
    } units[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    double value = fabs(tick->value) < step * 1e-6 ? 0 : tick->value;
    if (largest >= 1e13 || largest < 1e-4) {
        snprintf(tick->text, sizeof tick->text, "%.4g", value);
        return;
    }
    size_t i = 0;
    while (i < 3 && (largest < 10 * units[i].unit || step < units[i].unit * 1e-2)) {
        i++;
    }
    if (value == 0) {
        snprintf(tick->text, sizeof tick->text, "0");
        return;
    }
    int decimals = (int)ceil(-log10(step / units[i].unit) - 1e-9);
    decimals = decimals < 0 ? 0 : decimals > 9 ? 9 : decimals;
    snprintf(tick->text, sizeof tick->text, "%.*f%s", decimals, value / units[i].unit,
             units[i].letter);
}

static void linear_ticks(struct plot_scale *scale, size_t wanted)
{
    double step = nice_step((scale->high - scale->low) / (double)wanted);
    double first = ceil(scale->low / step - 1e-9);
    double largest = fmax(fabs(scale->low), fabs(scale->high));
    for (size_t i = 0; i < PLOT_TICKS_MAX; i++) {
        double value = (first + (double)i) * step;
        if (value > scale->high + step * 1e-9) {
            break;
        }
        struct plot_tick *tick = &scale->ticks[scale->tick_count++];
        tick->value = value;
        tick_text(tick, step, largest);
    }
}

/* 1, 10, 100, or 1, 2, 5, 10 over few decades; the coarsest that still gives two. */
static void log_ticks(struct plot_scale *scale, size_t wanted)
{
    double decades = log10(scale->high / scale->low);
    size_t per_decade = decades * 3 <= (double)wanted ? 3 : 1;
    double skip = per_decade == 3 ? 1 : ceil(decades / (double)wanted);
    static const double factors[] = {1, 2, 5};
    for (double decade = floor(log10(scale->low)); decade <= log10(scale->high) + 1e-9;
         decade += skip) {
        for (size_t f = 0; f < per_decade && scale->tick_count < PLOT_TICKS_MAX; f++) {
            double value = factors[f] * pow(10, decade);
            if (value < scale->low * (1 - 1e-9) || value > scale->high * (1 + 1e-9)) {
                continue;
            }
            struct plot_tick *tick = &scale->ticks[scale->tick_count++];
            tick->value = value;
            tick_text(tick, value, value);
        }
    }
}

void plot_scale_init(struct plot_scale *scale, double low, double high, bool log, size_t wanted)
{
    CHECK(isfinite(low) && isfinite(high) && low <= high);
    wanted = wanted < 2 ? 2 : wanted > PLOT_TICKS_MAX - 2 ? PLOT_TICKS_MAX - 2 : wanted;
    *scale = (struct plot_scale){.low = low, .high = high, .log = log && low > 0};
    widen(&scale->low, &scale->high);
    if (scale->log) {
        log_ticks(scale, wanted);
        if (scale->tick_count >= 2) {
            return;
        }
        scale->tick_count = 0; /* less than a decade: round numbers read better */
    }
    /* steps of 5 after 2 may leave a short scale with a single tick: finer ones then */
    for (size_t n = wanted; scale->tick_count < 2 && n <= wanted + 4; n++) {
        scale->tick_count = 0;
        linear_ticks(scale, n);
    }
}

double plot_scale_place(const struct plot_scale *scale, double value)
{
    if (scale->log) {
        return log(value / scale->low) / log(scale->high / scale->low);
    }
    return (value - scale->low) / (scale->high - scale->low);
}

struct bounds {
    double low;
    double high;
};

static void include(struct bounds *bounds, double value)
{
    bounds->low = fmin(bounds->low, value);
    bounds->high = fmax(bounds->high, value);
}

/* A little air at both ends, so that nothing lies on the frame. */
static void finish_scale(struct plot_scale *scale, struct bounds bounds, bool log, bool from_zero,
                         size_t ticks)
{
    if (bounds.low > bounds.high) {
        bounds = (struct bounds){0, 1}; /* no data */
    }
    log = log && bounds.low > 0;
    if (log) {
        double air = pow(bounds.high / bounds.low, 0.04);
        plot_scale_init(scale, bounds.low / air, bounds.high * air, true, ticks);
        return;
    }
    if (from_zero) {
        include(&bounds, 0);
    }
    double air = 0.04 * (bounds.high - bounds.low);
    double low = from_zero && bounds.low >= 0 ? bounds.low : bounds.low - air;
    plot_scale_init(scale, low, bounds.high + air, false, ticks);
}

void plot_scales(const struct plot *plot, size_t x_ticks, size_t y_ticks, struct plot_scale *x,
                 struct plot_scale *y)
{
    struct bounds x_bounds = {INFINITY, -INFINITY};
    struct bounds y_bounds = {INFINITY, -INFINITY};
    for (size_t s = 0; s < plot->series_count; s++) {
        for (size_t i = 0; i < plot->series[s].count; i++) {
            include(&x_bounds, plot->series[s].points[i].x);
            include(&y_bounds, plot->series[s].points[i].y);
        }
    }
    for (size_t m = 0; m < plot->mark_count; m++) {
        include(&x_bounds, plot->marks[m].x);
    }
    finish_scale(x, x_bounds, plot->x_log, plot->x_from_zero, x_ticks);
    finish_scale(y, y_bounds, plot->y_log, plot->y_from_zero, y_ticks);
}
