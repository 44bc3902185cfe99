#include "advise/choose_internal.h"
#include "advise/dense.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double reach_of_failure = 2;

enum { JOBS = 16000, JOB_CELLS_MAX = 1600000 };

double choose_likeness(const double *a, const double *b, size_t features, double reach_of)
{
    double square = 0;
    for (size_t f = 0; f < features; f++) {
        square += (a[f] - b[f]) * (a[f] - b[f]);
    }
    double r = sqrt(5 * square) / reach_of;
    return (1 + r + r * r / 3) * det_exp(-r);
}

static void standardise(double *x, size_t rows, size_t columns, size_t column)
{
    double mean = 0;
    double square = 0;
    for (size_t r = 0; r < rows; r++) {
        mean += x[r * columns + column] / (double)rows;
    }
    for (size_t r = 0; r < rows; r++) {
        double off = x[r * columns + column] - mean;
        square += off * off / (double)rows;
    }
    double sd = square > 1e-18 ? sqrt(square) : 1;
    for (size_t r = 0; r < rows; r++) {
        x[r * columns + column] = (x[r * columns + column] - mean) / sd;
    }
}

void choose_set_features(struct choose *choose, const struct choose_problem *problem)
{
    size_t features = 6 + problem->extra_count;
    choose->features = features;
    choose->x = mem_array(choose->configs * features, sizeof *choose->x);
    for (size_t c = 0; c < choose->configs; c++) {
        const struct choose_config *config = &problem->configs[c];
        double *x = choose->x + c * features;
        double nodes = det_log(config->nodes);
        double cores = config->vcpus > 0 ? det_log(config->vcpus) : 0;
        double memory = config->memory_gib > 0 ? det_log(config->memory_gib) : 0;
        x[0] = nodes;
        x[1] = cores;
        x[2] = memory - cores;
        x[3] = nodes + memory;
        x[4] = nodes + cores;
        x[5] = det_log(1 + config->gpus);
        for (size_t e = 0; e < problem->extra_count; e++) {
            x[6 + e] = config->extra[e];
        }
    }
    for (size_t f = 0; f < features; f++) {
        standardise(choose->x, choose->configs, features, f);
    }
}

static enum err_code check_problem(const struct choose_problem *problem, struct err *err)
{
    if (problem->config_count == 0 || problem->config_count > CHOOSE_CONFIGS_MAX) {
        return err_set(err, ERR_INVALID, "%zu configurations, between 1 and %d can be chosen from",
                       problem->config_count, CHOOSE_CONFIGS_MAX);
    }
    if (problem->extra_count > CHOOSE_EXTRA_MAX) {
        return err_set(err, ERR_INVALID, "more than %d further columns", CHOOSE_EXTRA_MAX);
    }
    for (size_t c = 0; c < problem->config_count; c++) {
        const struct choose_config *config = &problem->configs[c];
        bool good = config->nodes > 0 && config->nodes < 1e9 && config->hourly > 0 &&
                    config->hourly < 1e15 && config->vcpus >= 0 && config->vcpus < 1e9 &&
                    config->memory_gib >= 0 && config->memory_gib < 1e12 && config->gpus >= 0 &&
                    config->gpus < 1e9;
        for (size_t e = 0; good && e < problem->extra_count; e++) {
            good = isfinite(config->extra[e]) && fabs(config->extra[e]) < 1e100;
        }
        if (!good) {
            return err_set(err, ERR_INVALID, "configuration %zu: a number is out of range", c + 1);
        }
    }
    for (size_t i = 0; i < problem->past_count * problem->config_count; i++) {
        if (!isnan(problem->past[i]) && !(problem->past[i] > 0)) {
            return err_set(err, ERR_INVALID, "a past cost is not above 0");
        }
    }
    return ERR_OK;
}

/* The shape of a job that is like none: it costs alike everywhere, as far as is known. */
static void add_flat(struct choose *choose, size_t at)
{
    for (size_t c = 0; c < choose->configs; c++) {
        choose->shapes[at * choose->configs + c] = 0;
        choose->failing[at * choose->configs + c] = .1F;
    }
    choose->shape_count = at + 1;
}

enum err_code choose_create(const struct choose_problem *problem, struct choose **out,
                            struct err *err)
{
    enum err_code code = check_problem(problem, err);
    if (code != ERR_OK) {
        return code;
    }
    struct choose *choose = mem_alloc(sizeof *choose);
    size_t configs = problem->config_count;
    size_t jobs = problem->crowd > 0 && problem->crowd < JOBS ? problem->crowd : JOBS;
    jobs = JOB_CELLS_MAX / configs < jobs ? JOB_CELLS_MAX / configs : jobs;
    size_t room = jobs + problem->past_count + 1;
    choose->configs = configs;
    choose->deadline_s = problem->deadline_s;
    choose->shapes = mem_array(room * configs, sizeof *choose->shapes);
    choose->failing = mem_array(room * configs, sizeof *choose->failing);
    choose->log_hourly = mem_array(configs, sizeof *choose->log_hourly);
    choose->runs = mem_array(configs, sizeof *choose->runs);
    choose->logs = mem_array(configs, sizeof *choose->logs);
    choose->seen = mem_array(configs, sizeof *choose->seen);
    for (size_t c = 0; c < configs; c++) {
        choose->log_hourly[c] = det_log(problem->configs[c].hourly);
    }
    choose_set_features(choose, problem);
    choose_draw_jobs(choose, problem, jobs);
    choose->drawn_count = jobs;
    choose->past_count = choose_add_past(choose, problem, jobs);
    add_flat(choose, jobs + choose->past_count);
    choose_learn_shares(choose, problem);
    *out = choose;
    return ERR_OK;
}

void choose_destroy(struct choose *choose)
{
    if (!choose) {
        return;
    }
    free(choose->x);
    free(choose->log_hourly);
    free(choose->shapes);
    free(choose->failing);
    free(choose->runs);
    free(choose->logs);
    free(choose->seen);
    free(choose);
}

void choose_observe(struct choose *choose, size_t config, double cost)
{
    CHECK(config < choose->configs);
    CHECK(!choose->seen[config]);
    CHECK(cost > 0);
    choose->runs[choose->run_count] = config;
    choose->logs[choose->run_count++] = isinf(cost) ? (double)INFINITY : det_log(cost);
    choose->seen[config] = true;
}

void choose_exclude(struct choose *choose, size_t config)
{
    CHECK(config < choose->configs);
    choose->seen[config] = true;
}

size_t choose_best(const struct choose *choose)
{
    size_t best = choose->configs;
    double least = (double)INFINITY;
    for (size_t i = 0; i < choose->run_count; i++) {
        if (choose_run_counts(choose, i) && choose->logs[i] < least) {
            least = choose->logs[i];
            best = choose->runs[i];
        }
    }
    return best;
}

/* What each component expects, one configuration after another. */
struct forecast {
    double mean;
    double sd;
    double works; /* the chance that it does not fail and meets the deadline */
};

/* surprise[i]: what the runs were above what the component's job foretold. */
static struct forecast forecast(const struct choose *choose, const struct choose_belief *belief,
                                const struct choose_component *component, const double *surprise,
                                size_t config)
{
    size_t cell = component->shape * choose->configs + config;
    const double *gain = belief->gain[component->kind] + config * belief->n;
    struct forecast out = {.mean = choose->shapes[cell] + dense_dot(gain, surprise, belief->n),
                           .sd = belief->sd[component->kind][config],
                           .works = 1};
    if (belief->n == 0) {
        out.works -= (double)choose->failing[cell];
    }
    if (choose->deadline_s > 0 && belief->n > 0) {
        double late = choose_log_seconds(choose, config, out.mean) - det_log(choose->deadline_s);
        out.works *= det_normal_cdf(-late / out.sd);
    }
    return out;
}

/* The mean of max(0, 1 - cost / incumbent): the share of the bill that is saved. */
static double expected_saving(const struct forecast *forecast, double incumbent)
{
    double z = (incumbent - forecast->mean) / forecast->sd;
    if (z < -5) {
        return 0;
    }
    double ratio = det_exp(forecast->mean - incumbent + forecast->sd * forecast->sd / 2);
    double saving = det_normal_cdf(z) - ratio * det_normal_cdf(z - forecast->sd);
    return saving > 0 ? saving * forecast->works : 0;
}

/* What trying each configuration is worth, and the share of the bill that it would save. */
struct scores {
    double *worth;
    double *saving;
};

/* The worth is the regret it takes away, and regret is what is paid above the cheapest there is. So
 * an explanation by which much could be had counts a saving in units of that, not of today's bill:
 * a small chance of a third of the bill outweighs a good chance of a few per cent. */
static void score_component(const struct choose *choose, const struct choose_belief *belief,
                            const struct choose_component *component, struct forecast *forecasts,
                            struct scores *scores)
{
    bool first = isinf(belief->incumbent);
    double lowest = belief->incumbent;
    for (size_t c = 0; c < choose->configs; c++) {
        const struct forecast *f = &forecasts[c];
        if (!choose->seen[c] && f->works >= .5 && f->mean < lowest) {
            lowest = f->mean;
        }
    }
    double scale = first || isinf(lowest) ? 1 : det_exp(belief->incumbent - lowest);
    for (size_t c = 0; c < choose->configs; c++) {
        const struct forecast *f = &forecasts[c];
        if (choose->seen[c]) {
            continue;
        }
        if (first) { /* there is nothing to improve on: what it costs above the cheapest */
            double dearer = det_exp(f->mean - (isinf(lowest) ? 0 : lowest));
            scores->worth[c] -= component->weight * dearer / (f->works + 1e-3);
            continue;
        }
        double saving = component->weight * expected_saving(f, belief->incumbent);
        scores->saving[c] += saving;
        scores->worth[c] += saving * scale;
    }
}

/* While all runs have failed: the chance that this one is unlike them. */
static double hope(const struct choose *choose, const struct choose_belief *belief, size_t config)
{
    double most = 0;
    for (size_t i = 0; belief->n == 0 && i < choose->run_count; i++) {
        double like = choose_likeness(choose->x + config * choose->features,
                                      choose->x + choose->runs[i] * choose->features,
                                      choose->features, reach_of_failure);
        most = like > most ? like : most;
    }
    return 1 - .9 * most;
}

static void score(const struct choose *choose, const struct choose_belief *belief,
                  struct scores *scores)
{
    double *hopes = mem_array(choose->configs, sizeof *hopes);
    for (size_t c = 0; c < choose->configs; c++) {
        hopes[c] = hope(choose, belief, c);
    }
    double *surprise = mem_array(belief->n, sizeof *surprise);
    struct forecast *forecasts = mem_array(choose->configs, sizeof *forecasts);
    for (size_t k = 0; k < belief->component_count; k++) {
        const struct choose_component *component = &belief->components[k];
        const double *shape = choose->shapes + component->shape * choose->configs;
        for (size_t i = 0; i < belief->n; i++) {
            surprise[i] = belief->logs[i] - shape[belief->at[i]];
        }
        for (size_t c = 0; c < choose->configs; c++) {
            forecasts[c] = forecast(choose, belief, component, surprise, c);
            forecasts[c].works *= hopes[c];
        }
        score_component(choose, belief, component, forecasts, scores);
    }
    free(forecasts);
    free(surprise);
    free(hopes);
}

size_t choose_next(struct choose *choose, double *saving)
{
    size_t best = choose->configs;
    struct choose_belief belief;
    struct scores scores = {.worth = mem_array(choose->configs, sizeof *scores.worth),
                            .saving = mem_array(choose->configs, sizeof *scores.saving)};
    choose_belief_make(choose, &belief);
    score(choose, &belief, &scores);
    for (size_t c = 0; c < choose->configs; c++) {
        if (!choose->seen[c] && (best == choose->configs || scores.worth[c] > scores.worth[best])) {
            best = c;
        }
    }
    *saving = best < choose->configs ? scores.saving[best] : 0;
    choose_belief_release(&belief);
    free(scores.worth);
    free(scores.saving);
    return best;
}

/* The level below which the mixture has the given share of its belief, by halving. */
static double quantile(const struct forecast *forecasts, const struct choose_belief *belief,
                       double share)
{
    double low = (double)INFINITY;
    double high = -(double)INFINITY;
    for (size_t k = 0; k < belief->component_count; k++) {
        double reach_of = 6 * forecasts[k].sd;
        low = forecasts[k].mean - reach_of < low ? forecasts[k].mean - reach_of : low;
        high = forecasts[k].mean + reach_of > high ? forecasts[k].mean + reach_of : high;
    }
    for (int step = 0; step < 18; step++) { /* to a few parts in 10,000 */
        double middle = (low + high) / 2;
        double below = 0;
        for (size_t k = 0; k < belief->component_count; k++) {
            double z = (middle - forecasts[k].mean) / forecasts[k].sd;
            below += belief->components[k].weight * (z > 6 ? 1 : z < -6 ? 0 : det_normal_cdf(z));
        }
        *(below < share ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static void estimate_one(const struct choose *choose, const struct choose_belief *belief,
                         size_t config, struct forecast *forecasts, struct choose_estimate *out)
{
    double *surprise = mem_array(belief->n, sizeof *surprise);
    out->feasible = 0;
    for (size_t k = 0; k < belief->component_count; k++) {
        const struct choose_component *component = &belief->components[k];
        const double *shape = choose->shapes + component->shape * choose->configs;
        for (size_t i = 0; i < belief->n; i++) {
            surprise[i] = belief->logs[i] - shape[belief->at[i]];
        }
        forecasts[k] = forecast(choose, belief, component, surprise, config);
        out->feasible += component->weight * forecasts[k].works;
    }
    out->cost = det_exp(quantile(forecasts, belief, .5));
    out->low = det_exp(quantile(forecasts, belief, .1));
    out->high = det_exp(quantile(forecasts, belief, .9));
    free(surprise);
}

void choose_estimate(struct choose *choose, struct choose_estimate *out)
{
    struct choose_belief belief;
    choose_belief_make(choose, &belief);
    struct forecast *forecasts = mem_array(belief.component_count, sizeof *forecasts);
    /* A tenth of the belief tells a quantile well enough. */
    if (belief.component_count > 200) {
        double held = 0;
        belief.component_count = 200;
        for (size_t k = 0; k < belief.component_count; k++) {
            held += belief.components[k].weight;
        }
        for (size_t k = 0; k < belief.component_count; k++) {
            belief.components[k].weight /= held;
        }
    }
    for (size_t c = 0; c < choose->configs; c++) {
        estimate_one(choose, &belief, c, forecasts, &out[c]);
    }
    for (size_t i = 0; i < choose->run_count; i++) {
        struct choose_estimate *paid = &out[choose->runs[i]];
        paid->cost = paid->low = paid->high = det_exp(choose->logs[i]);
        paid->feasible = choose_run_counts(choose, i) ? 1 : 0;
    }
    free(forecasts);
    choose_belief_release(&belief);
}
