#include "recipe/dist.h"

#include "base/check.h"
#include "base/detmath.h"
#include "base/rng.h"
#include "base/str.h"

#include <math.h>

static const char *prepare_normal(struct dist *dist)
{
    if (!(dist->sd > 0)) {
        return "leaves no room for a standard deviation";
    }
    if (isinf(dist->high) && !isfinite(fabs(dist->mean) + 40 * dist->sd)) {
        return "reaches beyond the largest number";
    }
    double from = (dist->low - dist->mean) / dist->sd;
    double to = (dist->high - dist->mean) / dist->sd;
    dist->mirrored = from > 0;
    double p_from = det_normal_cdf(dist->mirrored ? -to : from);
    double p_to = det_normal_cdf(dist->mirrored ? -from : to);
    dist->p_low = p_from;
    dist->p_width = p_to - p_from;
    /* Subnormal probabilities have no precision left to invert. */
    return p_to >= 0x1p-1000 && dist->p_width > 0 ? NULL
                                                  : "lies too far from the mean to be drawn from";
}

const char *dist_prepare(struct dist *dist)
{
    switch (dist->shape) {
    case DIST_UNIFORM:
        return NULL;
    case DIST_LOG:
        if (!(dist->low > 0)) {
            return "must lie above 0 for sampling: log";
        }
        dist->p_low = det_log(dist->low);
        dist->p_width = det_log(dist->high) - dist->p_low;
        return NULL;
    case DIST_NORMAL:
        return prepare_normal(dist);
    }
    return NULL;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double draw_number(const struct dist *dist, uint64_t bits)
{
    double unit = rng_open_unit_of(bits);
    double x = 0;
    switch (dist->shape) {
    case DIST_UNIFORM:
        x = dist->low * (1 - unit) + dist->high * unit; /* high - low could overflow */
        break;
    case DIST_LOG:
        x = det_exp(dist->p_low + unit * dist->p_width);
        break;
    case DIST_NORMAL:
        x = det_normal_quantile(dist->p_low + unit * dist->p_width) * dist->sd;
        x = dist->mirrored ? dist->mean - x : dist->mean + x;
        break;
    }
    return clamp(x, dist->low, dist->high); /* rounding may overstep by an ulp */
}

/* Which lattice point: uniform ones straight from the bits, others the nearest to a plain draw. */
static uint64_t draw_point(const struct dist *dist, uint64_t bits)
{
    const struct lattice *lattice = &dist->lattice;
    if (dist->shape == DIST_UNIFORM) {
        return (uint64_t)(((unsigned __int128)bits * lattice->count) >> 64);
    }
    double start = lattice_number(lattice, 0);
    double step = lattice_number(lattice, 1) - start;
    double k = (draw_number(dist, bits) - start) / step + 0.5;
    uint64_t last = lattice->count - 1;
    return k < 1 ? 0 : k >= (double)last ? last : (uint64_t)k;
}

struct value dist_draw(const struct dist *dist, uint64_t bits, struct arena *scratch,
                       double *number)
{
    if (dist->stepped) {
        char text[RANGE_TEXT_MAX];
        uint64_t k = draw_point(dist, bits);
        size_t size = lattice_text(&dist->lattice, k, text);
        *number = lattice_number(&dist->lattice, k);
        return (struct value){.kind = dist->lattice.scale == 0 ? VALUE_INTEGER : VALUE_NUMBER,
                              .text = arena_strndup(scratch, text, size),
                              .size = size};
    }
    AUTO_STR struct str text = {0};
    *number = draw_number(dist, bits);
    str_add_double(&text, *number);
    return (struct value){.kind = VALUE_NUMBER,
                          .text = arena_strndup(scratch, text.text, text.size),
                          .size = text.size};
}
