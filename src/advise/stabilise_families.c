#include "advise/stabilise_families.h"

#include "base/check.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { DROPS_MAX = 4 };

/* One noiseless curve on t in 0..1, from 0 to about 1. */
struct shape {
    enum family family;
    double scale; /* time constant, exponent or steepness */
    double middle;
    double drops[DROPS_MAX];
    double heights[DROPS_MAX];
    size_t drop_count;
};

const char *family_name(enum family family)
{
    static const char *const names[] = {
        [FAMILY_EXPONENTIAL] = "exponential", [FAMILY_POWER] = "power",
        [FAMILY_LOGISTIC] = "logistic",       [FAMILY_STAIRCASE] = "staircase",
        [FAMILY_OVERFIT] = "overfit",         [FAMILY_SPIKES] = "spikes",
        [FAMILY_TWO_RATES] = "two-rates",     [FAMILY_GOMPERTZ] = "gompertz",
        [FAMILY_LINGERING] = "lingering",
    };
    return names[family];
}

static double between(struct rng *rng, double low, double high)
{
    return low + (high - low) * rng_unit(rng);
}

static double log_between(struct rng *rng, double low, double high)
{
    return low * det_exp(rng_unit(rng) * det_log(high / low));
}

static double normal(struct rng *rng)
{
    return det_normal_quantile(rng_open_unit_of(rng_next(rng)));
}

static struct shape draw_shape(enum family family, struct rng *rng)
{
    struct shape shape = {.family = family};
    switch (family) {
    case FAMILY_EXPONENTIAL:
    case FAMILY_SPIKES:
    case FAMILY_LINGERING:
        shape.scale = log_between(rng, 0.01, 0.2);
        break;
    case FAMILY_POWER:
        shape.scale = between(rng, 0.8, 2.5);
        shape.middle = log_between(rng, 0.002, 0.05);
        break;
    case FAMILY_LOGISTIC:
        shape.middle = between(rng, 0.1, 0.5);
        shape.scale = shape.middle / between(rng, 3, 10);
        break;
    case FAMILY_STAIRCASE:
        shape.scale = log_between(rng, 0.01, 0.05);
        shape.drop_count = 1 + (size_t)rng_below(rng, 3);
        for (size_t i = 0; i < shape.drop_count; i++) {
            shape.drops[i] =
                0.85 * (double)(i + 1) / (double)(shape.drop_count + 1) * between(rng, 0.9, 1.1);
            shape.heights[i] = between(rng, 0.1, 0.3);
        }
        break;
    case FAMILY_OVERFIT:
        shape.scale = log_between(rng, 0.01, 0.06);
        shape.middle = between(rng, 0.2, 0.5);
        shape.heights[0] = between(rng, 0.1, 0.5);
        break;
    case FAMILY_TWO_RATES:
        shape.scale = log_between(rng, 0.01, 0.05);
        shape.middle = shape.scale * between(rng, 3, 6);
        shape.heights[0] = between(rng, 0.1, 0.5);
        break;
    case FAMILY_GOMPERTZ:
        shape.middle = between(rng, 2, 6);
        shape.scale = log_between(rng, 0.02, 0.1);
        break;
    case FAMILY_COUNT:
        CHECK(false);
    }
    return shape;
}

static double shape_at(const struct shape *shape, double t)
{
    switch (shape->family) {
    case FAMILY_EXPONENTIAL:
    case FAMILY_SPIKES:
    case FAMILY_LINGERING:
        return 1 - det_exp(-t / shape->scale);
    case FAMILY_POWER:
        return 1 - det_exp(-shape->scale * det_log(1 + t / shape->middle));
    case FAMILY_LOGISTIC:
        return 1 / (1 + det_exp(-(t - shape->middle) / shape->scale));
    case FAMILY_STAIRCASE: {
        double value = 1 - det_exp(-t / shape->scale);
        for (size_t i = 0; i < shape->drop_count; i++) {
            double since = t - shape->drops[i];
            value +=
                since > 0 ? shape->heights[i] * (1 - det_exp(-since / (0.3 * shape->scale))) : 0;
        }
        return value;
    }
    case FAMILY_OVERFIT: {
        double fall = 1 / (1 + det_exp(-(t - shape->middle) / (shape->middle / 8)));
        return 1 - det_exp(-t / shape->scale) - shape->heights[0] * fall;
    }
    case FAMILY_TWO_RATES:
        return 1 - (1 - shape->heights[0]) * det_exp(-t / shape->scale) -
               shape->heights[0] * det_exp(-t / shape->middle);
    case FAMILY_GOMPERTZ:
        return det_exp(-shape->middle * det_exp(-t / shape->scale));
    case FAMILY_COUNT:
        break;
    }
    return 0;
}

/* By the definition: the last time outside the band around the value at the end. */
static double shape_truth(const struct shape *shape, double tolerance)
{
    enum { GRID = 20000 };
    double low = shape_at(shape, 0);
    double high = low;
    for (int i = 1; i <= GRID; i++) {
        double value = shape_at(shape, (double)i / GRID);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    double level = shape_at(shape, 1);
    for (int i = GRID; i >= 0; i--) {
        if (fabs(shape_at(shape, (double)i / GRID) - level) > tolerance * (high - low)) {
            return (double)(i + 1) / GRID;
        }
    }
    return 0;
}

static double draw_time(size_t i, size_t count, int spacing, struct rng *rng)
{
    double even = (double)i / (double)(count - 1);
    if (i == 0 || i == count - 1 || spacing == 0) {
        return even;
    }
    return even + (rng_unit(rng) - 0.5) * 0.9 / (double)(count - 1);
}

void family_draw(enum family family, double noise, double tolerance, struct rng *rng,
                 struct family_curve *out)
{
    struct shape shape = draw_shape(family, rng);
    size_t count = 50 + (size_t)rng_below(rng, 350);
    int spacing = rng_below(rng, 3) == 0;
    double step_scale = 1000;
    double base = between(rng, -1, 1);
    double gain = log_between(rng, 0.01, 100);
    *out = (struct family_curve){.points = mem_array(count, sizeof *out->points),
                                 .clean = mem_array(count, sizeof *out->clean),
                                 .count = count,
                                 .truth = step_scale * shape_truth(&shape, tolerance),
                                 .length = step_scale,
                                 .drop = step_scale * shape.drops[0]};
    double lingering = 0;
    for (size_t i = 0; i < count; i++) {
        double t = draw_time(i, count, spacing, rng);
        double clean = shape_at(&shape, t);
        double fresh = normal(rng);
        lingering = family == FAMILY_LINGERING ? 0.7 * lingering + 0.714 * fresh : fresh;
        double value = clean + noise * lingering;
        if (family == FAMILY_SPIKES && i > 1 && rng_below(rng, 25) == 0) {
            value -= between(rng, 0.2, 3);
        }
        out->clean[i] = base + gain * clean;
        out->points[i] = (struct curve_point){
            .step = step_scale * t, .time_s = 10 * step_scale * t, .metric = base + gain * value};
    }
}

void family_release(struct family_curve *curve)
{
    free(curve->points);
    free(curve->clean);
    *curve = (struct family_curve){0};
}

double family_left(const struct family_curve *curve, size_t index)
{
    double seen = curve->clean[0];
    double best = seen;
    for (size_t i = 0; i < curve->count; i++) {
        best = curve->clean[i] > best ? curve->clean[i] : best;
        seen = i <= index ? best : seen;
    }
    return best > curve->clean[0] ? (best - seen) / (best - curve->clean[0]) : 0;
}
