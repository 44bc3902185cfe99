/* Values into bins: see importance_bins.h. */
#include "search/importance_bins.h"

#include "base/check.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

struct seen {
    double value;
    double result;
    uint32_t row;
};

/* By value, then by row: a total order. */
static int by_value(const void *left, const void *right)
{
    const struct seen *a = left;
    const struct seen *b = right;
    if (a->value != b->value) {
        return a->value < b->value ? -1 : 1;
    }
    return (a->row > b->row) - (a->row < b->row);
}

static double to_scale(const struct importance_param *param, double value)
{
    return param->kind == IMPORTANCE_LOG ? det_log(value) : value;
}

static bool is_present(const struct importance_param *param, double value)
{
    return isfinite(value) && (param->kind != IMPORTANCE_LOG || value > 0);
}

/* The ends of the range on its scale; false where it is not given. Values on steps stand for the
 * half step on both sides of them. */
static bool range_of(const struct importance_param *param, double *low, double *high)
{
    double half = param->step > 0 ? param->step / 2 : 0;
    double from = param->low - half;
    if (param->kind == IMPORTANCE_LOG && from <= 0) {
        from = param->low / 2;
    }
    if (!isfinite(param->low) || !isfinite(param->high) || param->low >= param->high ||
        (param->kind == IMPORTANCE_LOG && from <= 0)) {
        return false;
    }
    *low = to_scale(param, from);
    *high = to_scale(param, param->high + half);
    return true;
}

/* Each category's value becomes its place in the order of mean results; equal means: of the
 * category. `seen` is sorted by value before and after. */
static void order_categories(struct seen *seen, size_t count)
{
    struct seen *means = mem_array(count, sizeof *means);
    size_t categories = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        double sum = 0;
        while (end < count && seen[end].value == seen[i].value) {
            sum += seen[end++].result;
        }
        means[categories] = (struct seen){.value = sum / (double)(end - i), .row = (uint32_t)i};
        categories++;
        i = end;
    }
    qsort(means, categories, sizeof *means, by_value);
    for (size_t place = 0; place < categories; place++) {
        size_t i = means[place].row;
        double category = seen[i].value;
        for (; i < count && seen[i].value == category; i++) {
            means[i].result = (double)place; /* kept apart until all are known */
        }
    }
    for (size_t i = 0; i < count; i++) {
        seen[i].value = means[i].result;
    }
    free(means);
    qsort(seen, count, sizeof *seen, by_value);
}

struct filler {
    size_t params;
    size_t param;
    uint8_t *bins;
    struct forest_axis *axis;
    double low;
    double high;
    double present; /* share of rows */
};

static void end_bin(struct filler *filler, double edge)
{
    struct forest_axis *axis = filler->axis;
    double place = (edge - filler->low) / (filler->high - filler->low);
    place = fmin(fmax(place, 0), 1);
    axis->sums[++axis->bins] = (1 - filler->present) + filler->present * place;
}

static size_t count_values(const struct seen *seen, size_t count)
{
    size_t values = 0;
    for (size_t i = 0; i < count; i++) {
        values += i == 0 || seen[i].value > seen[i - 1].value;
    }
    return values;
}

/* A bin for each value where there are few, else bins of about equally many rows. */
static void fill_present(struct filler *filler, const struct seen *seen, size_t count)
{
    enum { MOST = FOREST_BINS_MAX - 1 }; /* one may be for absent values */
    bool few = count_values(seen, count) <= MOST;
    size_t ended = 0;
    for (size_t i = 0; i < count; i++) {
        bool is_new = i > 0 && seen[i].value > seen[i - 1].value;
        if (is_new && (few || i * MOST >= (ended + 1) * count)) {
            end_bin(filler, seen[i - 1].value / 2 + seen[i].value / 2);
            ended++;
        }
        filler->bins[seen[i].row * filler->params + filler->param] = (uint8_t)filler->axis->bins;
    }
    if (count > 0) {
        end_bin(filler, filler->high);
    }
}

void importance_bin(const struct importance_param *param, const double *values,
                    const struct forest_data *data, size_t at, struct forest_axis *axis,
                    uint8_t *bins)
{
    struct seen *seen = mem_array(data->rows, sizeof *seen);
    size_t count = 0;
    for (size_t row = 0; row < data->rows; row++) {
        if (is_present(param, values[row])) {
            seen[count++] = (struct seen){.value = to_scale(param, values[row]),
                                          .result = data->results[row],
                                          .row = (uint32_t)row};
        } else {
            bins[row * data->params + at] = 0;
        }
    }
    *axis = (struct forest_axis){0};
    struct filler filler = {.params = data->params,
                            .param = at,
                            .bins = bins,
                            .axis = axis,
                            .present = (double)count / (double)data->rows};
    if (count < data->rows) {
        axis->sums[++axis->bins] = 1 - filler.present;
    }
    qsort(seen, count, sizeof *seen, by_value);
    if (param->kind == IMPORTANCE_CATEGORY && count > 0) {
        order_categories(seen, count);
        filler.low = -0.5;
        filler.high = seen[count - 1].value + 0.5;
    } else if (!range_of(param, &filler.low, &filler.high) && count > 0) {
        double half = param->step > 0 ? param->step / 2 : 0;
        filler.low = seen[0].value - half;
        filler.high = seen[count - 1].value + half;
    }
    if (!(filler.high > filler.low)) {
        filler.high = filler.low + 1; /* a single value: one bin has it all */
    }
    fill_present(&filler, seen, count);
    axis->sums[axis->bins] = 1;
    CHECK(axis->bins <= FOREST_BINS_MAX);
    free(seen);
}
