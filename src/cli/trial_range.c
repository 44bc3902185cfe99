#include "cli/trial_range.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

bool trial_range_usable(double value, bool log)
{
    return isfinite(value) && (log ? value > 1e-150 && value < 1e150 : fabs(value) < 1e300);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Keys are results with the sign that makes lower better, in ascending order. How far to show. */
static double cut_off(const double *keys, size_t count)
{
    double best = keys[0];
    double most = keys[(count - 1) * 9 / 10];
    double limit = most + (most - best);
    double worst = keys[count - 1];
    return count >= 10 && most > best && worst > limit + (most - best) ? limit : worst;
}

struct trial_range trial_range_of(const double *results, size_t count, bool maximize)
{
    struct trial_range range = {.low = 0, .high = 1};
    double sign = maximize ? -1 : 1;
    double *keys = mem_array(count, sizeof *keys);
    for (size_t i = 0; i < count; i++) {
        if (trial_range_usable(results[i], false)) {
            if (range.finite == 0 || sign * results[i] < sign * results[range.best]) {
                range.best = i;
            }
            keys[range.finite++] = sign * results[i];
        }
    }
    if (range.finite > 0) {
        qsort(keys, range.finite, sizeof *keys, by_value);
        double limit = cut_off(keys, range.finite);
        for (size_t i = 0; i < range.finite; i++) {
            range.beyond += keys[i] > limit;
        }
        range.low = maximize ? -limit : keys[0];
        range.high = maximize ? -keys[0] : limit;
    }
    free(keys);
    return range;
}

bool trial_range_holds(const struct trial_range *range, double value)
{
    return value >= range->low && value <= range->high;
}

void trial_range_scale(const struct trial_range *range, size_t ticks, struct plot_scale *scale)
{
    double air = 0.04 * (range->high - range->low);
    plot_scale_init(scale, range->low - air, range->high + air, false, ticks);
}
