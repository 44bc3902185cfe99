#include "search/median.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Keys are values with the sign that makes lower better. */
struct trial {
    double sum;
    double best;
    uint64_t count;
    uint64_t last_step;
    uint32_t intervals; /* it was counted in those below */
};

struct heap {
    double *keys;
    size_t count;
    size_t cap;
};

/* The keys of one interval: the lower half with its highest first, the upper half with its lowest
 * first. The lower half has as many as the upper or one more. */
struct interval {
    struct heap low; /* keys negated, so that both heaps have their lowest first */
    struct heap high;
};

struct median {
    struct median_options options;
    struct trial *trials;
    size_t trial_count;
    size_t trial_cap;
    struct interval *intervals;
    size_t interval_count;
    size_t interval_cap;
    size_t value_count;
};

static void heap_push(struct heap *heap, double key)
{
    size_t at = heap->count;
    VEC_PUSH(heap->keys, heap->count, heap->cap) = key;
    for (; at > 0 && key < heap->keys[(at - 1) / 2]; at = (at - 1) / 2) {
        heap->keys[at] = heap->keys[(at - 1) / 2];
    }
    heap->keys[at] = key;
}

static double heap_pop(struct heap *heap)
{
    CHECK(heap->count > 0);
    double first = heap->keys[0];
    double key = heap->keys[--heap->count];
    size_t at = 0;
    for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
        child += child + 1 < heap->count && heap->keys[child + 1] < heap->keys[child];
        if (!(heap->keys[child] < key)) {
            break;
        }
        heap->keys[at] = heap->keys[child];
        at = child;
    }
    heap->keys[at] = key;
    return first;
}

static void interval_add(struct interval *interval, double key)
{
    heap_push(&interval->low, -key);
    heap_push(&interval->high, -heap_pop(&interval->low));
    if (interval->high.count > interval->low.count) {
        heap_push(&interval->low, -heap_pop(&interval->high));
    }
}

static size_t interval_size(const struct interval *interval)
{
    return interval->low.count + interval->high.count;
}

static double interval_median(const struct interval *interval)
{
    double low = -interval->low.keys[0];
    return interval->low.count > interval->high.count ? low : low / 2 + interval->high.keys[0] / 2;
}

struct median *median_create(const struct median_options *options)
{
    CHECK(options->trials_max > 0);
    struct median *median = mem_alloc(sizeof *median);
    median->options = *options;
    struct median_options *own = &median->options;
    own->interval = options->interval > 0 ? options->interval : 1;
    own->trials_min = options->trials_min > 0 ? options->trials_min : MEDIAN_TRIALS_MIN;
    own->values_max = options->values_max > 0 ? options->values_max : MEDIAN_VALUES_MAX;
    return median;
}

void median_destroy(struct median *median)
{
    if (!median) {
        return;
    }
    for (size_t i = 0; i < median->interval_count; i++) {
        free(median->intervals[i].low.keys);
        free(median->intervals[i].high.keys);
    }
    free(median->intervals);
    free(median->trials);
    free(median);
}

static struct trial *find_trial(struct median *median, uint32_t trial)
{
    while (median->trial_count <= trial) {
        VEC_PUSH(median->trials, median->trial_count, median->trial_cap) =
            (struct trial){.best = (double)INFINITY};
    }
    return &median->trials[trial];
}

static struct interval *find_interval(struct median *median, uint32_t number)
{
    while (median->interval_count <= number) {
        VEC_PUSH(median->intervals, median->interval_count, median->interval_cap) =
            (struct interval){0};
    }
    return &median->intervals[number];
}

/* At its first report in an interval, judges the trial by the others there, then counts it too. */
static void judge(struct median *median, struct trial *trial, uint64_t step,
                  struct median_judgement *out)
{
    uint64_t wide = step / median->options.interval;
    uint32_t number = wide < MEDIAN_INTERVALS_MAX ? (uint32_t)wide : MEDIAN_INTERVALS_MAX - 1;
    if (trial->intervals > number) {
        return;
    }
    trial->intervals = number + 1;
    struct interval *interval = find_interval(median, number);
    out->others = interval_size(interval);
    if (out->others >= median->options.trials_min) {
        double bar = interval_median(interval);
        out->median = median->options.maximize ? -bar : bar;
        if (trial->best > bar && step >= median->options.grace) {
            out->verdict = MEDIAN_WORSE;
        }
    }
    if (median->value_count < median->options.values_max) {
        interval_add(interval, trial->sum / (double)trial->count);
        median->value_count++;
    }
}

enum err_code median_report(struct median *median, uint32_t trial, uint64_t step, double value,
                            struct median_judgement *out, struct err *err)
{
    if (trial >= median->options.trials_max) {
        return err_set(err, ERR_RANGE, "no trial %" PRIu32, trial);
    }
    struct trial *who = find_trial(median, trial);
    double sign = median->options.maximize ? -1 : 1;
    *out = (struct median_judgement){.median = (double)NAN};
    if (!isfinite(value)) {
        out->verdict = MEDIAN_DIVERGED;
    } else if (who->count == 0 || step > who->last_step) {
        who->count++;
        who->last_step = step;
        who->sum += sign * value;
        who->best = fmin(who->best, sign * value);
        judge(median, who, step, out);
    }
    out->best = who->count > 0 ? sign * who->best : (double)NAN;
    return ERR_OK;
}
