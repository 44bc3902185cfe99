#include "search/scores.h"

#include "base/check.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static const double FAR = 4; /* times as far from the least as the median */

static void draw_weights(size_t count, struct rng *rng, double *weights)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        weights[i] = rng ? -det_log(rng_open_unit_of(rng_next(rng))) : 1;
        sum += weights[i];
    }
    for (size_t i = 0; i < count; i++) {
        weights[i] /= sum;
    }
}

/* The least and the greatest of one goal among trials that finished. */
static void goal_extent(const struct search *search, const struct scores *scores, size_t goal,
                        double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < scores->count; i++) {
        size_t trial = scores->trials[i];
        if (search->states[trial] == TRIAL_FINISHED) {
            double x = search->results[trial * search->goal_count + goal];
            *low = x < *low ? x : *low;
            *high = x > *high ? x : *high;
        }
    }
}

/* Values of trials that have results; NaN for the others. */
static void combine_goals(const struct search *search, struct scores *scores, struct rng *rng)
{
    double weights[SEARCH_GOALS_MAX];
    double low[SEARCH_GOALS_MAX];
    double width[SEARCH_GOALS_MAX];
    draw_weights(search->goal_count, rng, weights);
    for (size_t goal = 0; goal < search->goal_count; goal++) {
        double high = 0;
        goal_extent(search, scores, goal, &low[goal], &high);
        width[goal] = high > low[goal] ? high - low[goal] : 1;
        low[goal] = isfinite(low[goal]) ? low[goal] : 0;
    }
    for (size_t i = 0; i < scores->count; i++) {
        const double *results = search->results + scores->trials[i] * search->goal_count;
        double worst = -INFINITY;
        double sum = 0;
        for (size_t goal = 0; goal < search->goal_count; goal++) {
            double x = weights[goal] * (results[goal] - low[goal]) / width[goal];
            worst = x > worst || isnan(x) ? x : worst;
            sum += x;
        }
        scores->values[i] = worst + 0.05 * sum;
    }
}

/* The median and the greatest of the finished ones; false if there are none. */
static bool finished_extent(const struct search *search, const struct scores *scores,
                            double *median, double *greatest)
{
    AUTO_FREE double *values = mem_array(scores->count + 1, sizeof *values);
    size_t count = 0;
    *greatest = -INFINITY;
    for (size_t i = 0; i < scores->count; i++) {
        if (search->states[scores->trials[i]] == TRIAL_FINISHED) {
            values[count++] = scores->values[i];
            *greatest = scores->values[i] > *greatest ? scores->values[i] : *greatest;
        }
    }
    if (count > 0) {
        *median = scores_select(values, count, count / 2);
    }
    return count > 0;
}

static void fill_gaps(const struct search *search, struct scores *scores)
{
    double median = 0;
    double greatest = 0;
    if (search->failed_count + search->pruned_count == 0) {
        return;
    }
    bool any = finished_extent(search, scores, &median, &greatest);
    for (size_t i = 0; i < scores->count; i++) {
        double *value = &scores->values[i];
        uint8_t state = search->states[scores->trials[i]];
        if (state == TRIAL_PRUNED && !(*value > median) && any) {
            *value = median;
        }
        if (state == TRIAL_FAILED || isnan(*value)) {
            *value = any ? greatest : 0;
        }
    }
}

void scores_init(struct scores *scores, const struct search *search, size_t told_count,
                 struct rng *rng)
{
    CHECK(told_count <= search->told_count);
    *scores = (struct scores){.count = told_count, .trials = search->told};
    scores->values = mem_array(told_count + 1, sizeof scores->values[0]);
    if (search->goal_count == 1) {
        for (size_t i = 0; i < told_count; i++) {
            scores->values[i] = search->results[scores->trials[i]];
        }
    } else {
        combine_goals(search, scores, rng);
    }
    fill_gaps(search, scores);
}

void scores_release(struct scores *scores)
{
    free(scores->values);
    *scores = (struct scores){0};
}

double scores_select(double *values, size_t count, size_t k)
{
    CHECK(k < count);
    size_t low = 0;
    size_t high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low;
        size_t j = high;
        for (;;) {
            while (values[i] < pivot) {
                i++;
            }
            while (values[j] > pivot) {
                j--;
            }
            if (i >= j) {
                break;
            }
            double swapped = values[i];
            values[i++] = values[j];
            values[j--] = swapped;
        }
        /* Now all up to j are at most the pivot, all from j + 1 on at least it. */
        if (k <= j) {
            high = j;
        } else {
            low = j + 1;
        }
    }
    return values[k];
}

static void mean_and_variance(const double *values, size_t count, double *mean, double *variance)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += values[i];
    }
    *mean = sum / (double)count;
    sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (values[i] - *mean) * (values[i] - *mean);
    }
    *variance = sum / (double)count;
}

static void standardise(double *values, size_t count)
{
    double mean = 0;
    double variance = 0;
    mean_and_variance(values, count, &mean, &variance);
    double scale = variance > 0 ? 1 / sqrt(variance) : 0;
    for (size_t i = 0; i < count; i++) {
        values[i] = (values[i] - mean) * scale;
    }
}

/* Distances from the least in units of that of the median. False if half of them or more are
 * equal to the least: there is no unit then. */
static bool relate(double *values, size_t count)
{
    AUTO_FREE double *sorted = mem_dup(values, count * sizeof *sorted);
    double median = scores_select(sorted, count, count / 2);
    double least = scores_select(sorted, count, 0);
    double unit = median - least;
    if (!(unit > 0)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = (values[i] - least) / unit;
    }
    return true;
}

static void bring_nearer(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] > FAR) {
            values[i] = FAR + det_log(1 + values[i] - FAR);
        }
    }
}

void scores_tame(double *values, size_t count)
{
    if (count > 0 && relate(values, count)) {
        bring_nearer(values, count);
    }
    standardise(values, count);
}

/* The likelihood of values as normal ones, but for constants. */
static double normal_fit(const double *values, size_t count)
{
    double mean = 0;
    double variance = 0;
    mean_and_variance(values, count, &mean, &variance);
    return -0.5 * (double)count * det_log(variance);
}

void scores_zoom(double *values, size_t count)
{
    static const double offsets[] = {10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001};
    if (count == 0 || !relate(values, count)) {
        standardise(values, count);
        return;
    }
    AUTO_FREE double *moved = mem_array(count, sizeof *moved);
    AUTO_FREE double *best = mem_dup(values, count * sizeof *best);
    bring_nearer(best, count);
    double best_fit = normal_fit(best, count);
    for (size_t k = 0; k < sizeof offsets / sizeof offsets[0]; k++) {
        double slopes = 0; /* the logarithm of the derivative, summed */
        for (size_t i = 0; i < count; i++) {
            moved[i] = det_log(values[i] + offsets[k]);
            slopes -= moved[i];
        }
        double fit = normal_fit(moved, count) + slopes;
        if (fit > best_fit) {
            best_fit = fit;
            memcpy(best, moved, count * sizeof *best);
        }
    }
    memcpy(values, best, count * sizeof *values);
    standardise(values, count);
}
