/* What the runs so far say: which explanations foretold them, and what those say of the rest. */
#include "advise/choose_internal.h"
#include "advise/dense.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

/* Deviation and reach of what is not foretold. From a job that is known: little, some, much. From
 * none: as a plain Gaussian process of several kinds. */
static const struct {
    double deviation;
    double reach;
} kinds[CHOOSE_KINDS] = {{.07, 2}, {.15, 2}, {.3, 2}, {.3, 1},  {.3, 2},  {.3, 4},
                         {.6, 1},  {.6, 2},  {.6, 4}, {1.2, 1}, {1.2, 2}, {1.2, 4}};
static const double noise = .005; /* variance of a repeated run's log cost: 7 % */
static const double level = 4;    /* variance of the job's size: not known at all */

enum { KEPT_MAX = 500, KEPT_FIRST_MAX = 4000 };

enum choose_source choose_source_of(const struct choose *choose, size_t shape)
{
    if (shape < choose->drawn_count) {
        return CHOOSE_DRAWN;
    }
    return shape < choose->drawn_count + choose->past_count ? CHOOSE_PAST : CHOOSE_NOTHING;
}

size_t choose_source_size(const struct choose *choose, enum choose_source source)
{
    if (source == CHOOSE_DRAWN) {
        return choose->drawn_count;
    }
    return source == CHOOSE_PAST ? choose->past_count : 1;
}

double choose_log_seconds(const struct choose *choose, size_t config, double log_cost)
{
    return log_cost - choose->log_hourly[config] + det_log(3600);
}

bool choose_run_counts(const struct choose *choose, size_t run)
{
    if (isinf(choose->logs[run])) {
        return false;
    }
    return choose->deadline_s <= 0 ||
           choose_log_seconds(choose, choose->runs[run], choose->logs[run]) <=
               det_log(choose->deadline_s);
}

/* Which runs condition it: those that worked, and once there is one, the failures as dear ones. */
static void take_runs(const struct choose *choose, struct choose_belief *belief)
{
    double worst = -(double)INFINITY;
    belief->at = mem_array(choose->run_count, sizeof *belief->at);
    belief->logs = mem_array(choose->run_count, sizeof *belief->logs);
    belief->incumbent = (double)INFINITY;
    for (size_t i = 0; i < choose->run_count; i++) {
        if (!isinf(choose->logs[i])) {
            worst = choose->logs[i] > worst ? choose->logs[i] : worst;
        }
        if (choose_run_counts(choose, i) && choose->logs[i] < belief->incumbent) {
            belief->incumbent = choose->logs[i];
        }
    }
    for (size_t i = 0; i < choose->run_count; i++) {
        if (isinf(worst)) {
            break;
        }
        belief->at[belief->n] = choose->runs[i];
        belief->logs[belief->n++] =
            isinf(choose->logs[i]) ? worst + CHOOSE_FAILURE_PENALTY : choose->logs[i];
    }
}

static double covariance(const struct choose *choose, size_t a, size_t b, size_t kind)
{
    return level + kinds[kind].deviation * kinds[kind].deviation *
                       choose_likeness(choose->x + a * choose->features,
                                       choose->x + b * choose->features, choose->features,
                                       kinds[kind].reach);
}

void choose_belief_factor(const struct choose *choose, struct choose_belief *belief, size_t kind)
{
    size_t n = belief->n;
    double *factor = mem_array(n * n, sizeof *factor);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++) {
            factor[i * n + j] = covariance(choose, belief->at[i], belief->at[j], kind);
        }
        factor[i * n + i] += noise;
    }
    bool factored = dense_cholesky(factor, n);
    CHECK(factored); /* a kernel with noise on the diagonal */
    belief->factor[kind] = factor;
    belief->log_det[kind] = dense_log_det(factor, n);
}

/* What the runs say of every configuration. */
static void spread(const struct choose *choose, struct choose_belief *belief, size_t kind)
{
    size_t n = belief->n;
    double variance = kinds[kind].deviation * kinds[kind].deviation;
    double *gain = mem_array(choose->configs * n, sizeof *gain);
    double *sd = mem_array(choose->configs, sizeof *sd);
    for (size_t c = 0; c < choose->configs; c++) {
        double *row = gain + c * n;
        for (size_t i = 0; i < n; i++) {
            row[i] = covariance(choose, c, belief->at[i], kind);
        }
        dense_solve_lower(belief->factor[kind], n, row);
        double left = variance + level - dense_dot(row, row, n);
        sd[c] = sqrt(left > 1e-9 ? left : 1e-9);
        dense_solve_upper(belief->factor[kind], n, row);
    }
    belief->gain[kind] = gain;
    belief->sd[kind] = sd;
}

double choose_belief_fit(const struct choose_belief *belief, size_t kind, const double *shape,
                         double *scratch)
{
    for (size_t i = 0; i < belief->n; i++) {
        scratch[i] = belief->logs[i] - shape[belief->at[i]];
    }
    dense_solve_lower(belief->factor[kind], belief->n, scratch);
    return -.5 * dense_dot(scratch, scratch, belief->n) - .5 * belief->log_det[kind];
}

/* While nothing has worked, all that is known is where it failed. */
static double log_failures(const struct choose *choose, const struct choose_belief *belief,
                           size_t shape)
{
    double sum = 0;
    for (size_t i = 0; belief->n == 0 && i < choose->run_count; i++) {
        sum += det_log((double)choose->failing[shape * choose->configs + choose->runs[i]]);
    }
    return sum;
}

static int compare_components(const void *left, const void *right)
{
    const struct choose_component *a = left;
    const struct choose_component *b = right;
    if (a->weight != b->weight) {
        return a->weight > b->weight ? -1 : 1;
    }
    if (a->shape != b->shape) {
        return a->shape < b->shape ? -1 : 1;
    }
    return a->kind < b->kind ? -1 : a->kind > b->kind;
}

/* Every explanation with the log of its weight. */
static size_t list_components(const struct choose *choose, struct choose_belief *belief,
                              double *best)
{
    double *scratch = mem_array(belief->n, sizeof *scratch);
    size_t count = 0;
    *best = -(double)INFINITY;
    for (size_t shape = 0; shape < choose->shape_count; shape++) {
        enum choose_source source = choose_source_of(choose, shape);
        double log_size = det_log((double)choose_source_size(choose, source));
        double failures = log_failures(choose, belief, shape);
        for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
            if (choose->share[source][kind] <= 0) {
                continue;
            }
            double fit =
                choose_belief_fit(belief, kind, choose->shapes + shape * choose->configs, scratch);
            double weight = det_log(choose->share[source][kind]) - log_size + fit + failures;
            belief->components[count++] = (struct choose_component){
                .weight = weight, .shape = (uint32_t)shape, .kind = (uint32_t)kind};
            *best = weight > *best ? weight : *best;
        }
    }
    free(scratch);
    return count;
}

/* Keeps the heaviest. Most of the crowd soon has no weight left; before the first run all of it
 * has, and those that stay stand for the others of their source. */
static void keep_heaviest(const struct choose *choose, struct choose_belief *belief, size_t count)
{
    double mass[CHOOSE_SOURCES] = {0};
    double kept[CHOOSE_SOURCES] = {0};
    double sum = 0;
    double held = 0;
    qsort(belief->components, count, sizeof *belief->components, compare_components);
    for (size_t i = 0; i < count; i++) {
        sum += belief->components[i].weight;
        mass[choose_source_of(choose, belief->components[i].shape)] += belief->components[i].weight;
    }
    size_t room = belief->n > 0 ? KEPT_MAX : KEPT_FIRST_MAX;
    while (belief->component_count < count && belief->component_count < room && held < .999 * sum) {
        const struct choose_component *next = &belief->components[belief->component_count++];
        held += next->weight;
        kept[choose_source_of(choose, next->shape)] += next->weight;
    }
    sum = 0;
    for (enum choose_source source = 0; source < CHOOSE_SOURCES; source++) {
        sum += kept[source] > 0 ? mass[source] : 0;
    }
    for (size_t i = 0; i < belief->component_count; i++) {
        enum choose_source source = choose_source_of(choose, belief->components[i].shape);
        belief->components[i].weight *= mass[source] / kept[source] / sum;
    }
}

static void weigh(const struct choose *choose, struct choose_belief *belief)
{
    size_t room = choose->shape_count * CHOOSE_STRENGTHS + CHOOSE_LOOSE;
    double best = 0;
    belief->components = mem_array(room, sizeof *belief->components);
    size_t count = list_components(choose, belief, &best);
    CHECK(count <= room);
    for (size_t i = 0; i < count; i++) {
        belief->components[i].weight = det_exp(belief->components[i].weight - best);
    }
    keep_heaviest(choose, belief, count);
}

void choose_belief_make(const struct choose *choose, struct choose_belief *belief)
{
    *belief = (struct choose_belief){0};
    take_runs(choose, belief);
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        choose_belief_factor(choose, belief, kind);
        spread(choose, belief, kind);
    }
    weigh(choose, belief);
}

void choose_belief_release(struct choose_belief *belief)
{
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        free(belief->factor[kind]);
        free(belief->gain[kind]);
        free(belief->sd[kind]);
    }
    free(belief->at);
    free(belief->logs);
    free(belief->components);
}
