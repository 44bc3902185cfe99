#include "search/early.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

enum { POINTS_SURE = 200 }; /* shorter curves are judged at every point */

struct curve {
    uint32_t trial;
    bool stopped;
    size_t count;
    size_t cap;
    size_t next; /* judged again once there are so many */
    double *steps;
    double *values;
};

struct early {
    struct early_options options;
    struct median *median;
    bool *stopped;        /* by trial, under EARLY_MEDIAN */
    struct curve *curves; /* of running trials, by ascending trial */
    size_t curve_count;
    size_t curve_cap;
};

struct early *early_create(const struct early_options *options)
{
    CHECK(options->rule != EARLY_STABILISED || options->stable);
    CHECK(options->median.trials_max > 0);
    struct early *early = mem_alloc(sizeof *early);
    early->options = *options;
    if (options->rule == EARLY_MEDIAN) {
        early->median = median_create(&options->median);
        early->stopped = mem_array(options->median.trials_max, sizeof *early->stopped);
    }
    return early;
}

static void curve_release(struct curve *curve)
{
    free(curve->steps);
    free(curve->values);
}

void early_destroy(struct early *early)
{
    if (!early) {
        return;
    }
    for (size_t i = 0; i < early->curve_count; i++) {
        curve_release(&early->curves[i]);
    }
    free(early->curves);
    free(early->stopped);
    median_destroy(early->median);
    free(early);
}

/* Where the trial's curve is, or would be. */
static size_t find_curve(const struct early *early, uint32_t trial)
{
    size_t low = 0;
    size_t high = early->curve_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (early->curves[middle].trial < trial) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* NULL: too many are kept. */
static struct curve *keep_curve(struct early *early, uint32_t trial)
{
    size_t at = find_curve(early, trial);
    if (at < early->curve_count && early->curves[at].trial == trial) {
        return &early->curves[at];
    }
    if (early->curve_count == EARLY_RUNNING_MAX) {
        return NULL;
    }
    VEC_PUSH(early->curves, early->curve_count, early->curve_cap) = (struct curve){0};
    for (size_t i = early->curve_count - 1; i > at; i--) {
        early->curves[i] = early->curves[i - 1];
    }
    early->curves[at] = (struct curve){.trial = trial};
    return &early->curves[at];
}

void early_forget(struct early *early, uint32_t trial)
{
    size_t at = find_curve(early, trial);
    if (at == early->curve_count || early->curves[at].trial != trial) {
        return;
    }
    curve_release(&early->curves[at]);
    early->curve_count--;
    for (size_t i = at; i < early->curve_count; i++) {
        early->curves[i] = early->curves[i + 1];
    }
}

static void thin(struct curve *curve)
{
    size_t kept = 0;
    for (size_t i = 1; i < curve->count; i += 2) { /* the newest of an even number stays */
        curve->steps[kept] = curve->steps[i];
        curve->values[kept++] = curve->values[i];
    }
    curve->count = kept;
    curve->next = kept;
}

/* An attempt that began again from a checkpoint repeats steps: what is known of them stays. */
static bool curve_add(struct curve *curve, uint64_t step, double value)
{
    if (curve->count > 0 && (double)step <= curve->steps[curve->count - 1]) {
        return false;
    }
    if (curve->count == EARLY_POINTS_MAX) {
        thin(curve);
    }
    if (curve->count == curve->cap) {
        curve->cap = curve->cap > 0 ? 2 * curve->cap : 16;
        curve->steps = mem_resize(curve->steps, curve->cap, sizeof *curve->steps);
        curve->values = mem_resize(curve->values, curve->cap, sizeof *curve->values);
    }
    curve->steps[curve->count] = (double)step;
    curve->values[curve->count++] = value;
    return true;
}

static void say(struct str *why, const char *text)
{
    if (why) {
        str_add(why, text);
    }
}

static bool report_curve(struct early *early, uint32_t trial, uint64_t step, double value,
                         struct str *why)
{
    struct curve *curve = keep_curve(early, trial);
    if (!curve) {
        return false;
    }
    if (!isfinite(value)) {
        say(why, "the value is not finite: it diverged");
        curve->stopped = true;
        return true;
    }
    if (!curve->stopped && curve_add(curve, step, value) && curve->count >= curve->next &&
        step >= early->options.median.grace) {
        curve->next = curve->count + (curve->count > POINTS_SURE ? curve->count / 50 : 1);
        curve->stopped =
            early->options.stable(early->options.arg, curve->steps, curve->values, curve->count);
    }
    if (curve->stopped) {
        say(why, "the curve has stabilised");
    }
    return curve->stopped;
}

static bool report_median(struct early *early, uint32_t trial, uint64_t step, double value,
                          struct str *why)
{
    struct median_judgement judgement;
    if (median_report(early->median, trial, step, value, &judgement, NULL) != ERR_OK) {
        return false;
    }
    switch (judgement.verdict) {
    case MEDIAN_GO_ON:
        if (early->stopped[trial]) {
            say(why, "it was to stop before");
        }
        break;
    case MEDIAN_WORSE:
        early->stopped[trial] = true;
        if (why) {
            str_addf(why, "its best value %.6g is worse than %.6g, the median of %zu others there",
                     judgement.best, judgement.median, judgement.others);
        }
        break;
    case MEDIAN_DIVERGED:
        early->stopped[trial] = true;
        say(why, "the value is not finite: it diverged");
        break;
    }
    return early->stopped[trial];
}

bool early_report(struct early *early, uint32_t trial, uint64_t step, double value, struct str *why)
{
    if (trial >= early->options.median.trials_max) {
        return false;
    }
    switch (early->options.rule) {
    case EARLY_NONE:
        break;
    case EARLY_MEDIAN:
        return report_median(early, trial, step, value, why);
    case EARLY_STABILISED:
        return report_curve(early, trial, step, value, why);
    }
    return false;
}
