#include "advise/choose_internal.h"
#include "advise/dense.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The deviation of what no possible job foretells: a little, some, much. Weighted by the runs. */
static const double strengths[CHOOSE_STRENGTHS] = {.07, .15, .3};
static const double reach = 2;
static const double noise = .005;         /* variance of a repeated run's log cost: 7 % */
static const double level = 4;            /* variance of the job's size: not known at all */
static const double failure_penalty = .7; /* a failed run counts as twice the dearest */
static const double past_share = .1;      /* of the prior belief */

enum { JOBS = 16000, JOB_CELLS_MAX = 1600000, KEPT_MAX = 2000 };

/* The belief after the runs so far. */
struct belief {
    size_t n; /* runs that condition it */
    size_t *at;
    double *logs;
    double incumbent; /* log cost of the cheapest that counts; INFINITY: none */
    double *factor[CHOOSE_STRENGTHS];
    double log_det[CHOOSE_STRENGTHS];
    double *gain[CHOOSE_STRENGTHS]; /* configs * n: what a surprise at a run says elsewhere */
    double *sd[CHOOSE_STRENGTHS];
    struct component {
        double weight;
        uint32_t shape;
        uint32_t strength;
    } * components;
    size_t component_count;
};

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
    choose->kernel = mem_array(choose->configs * choose->configs, sizeof *choose->kernel);
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
    for (size_t a = 0; a < choose->configs; a++) {
        for (size_t b = 0; b <= a; b++) {
            double like = choose_likeness(choose->x + a * features, choose->x + b * features,
                                          features, reach);
            choose->kernel[a * choose->configs + b] = like;
            choose->kernel[b * choose->configs + a] = like;
        }
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
    size_t room = jobs + problem->past_count;
    choose->configs = configs;
    choose->deadline_s = problem->deadline_s;
    choose->shapes = mem_array(room * configs, sizeof *choose->shapes);
    choose->failing = mem_array(room * configs, sizeof *choose->failing);
    choose->log_prior = mem_array(room, sizeof *choose->log_prior);
    choose->log_hourly = mem_array(configs, sizeof *choose->log_hourly);
    choose->runs = mem_array(configs, sizeof *choose->runs);
    choose->logs = mem_array(configs, sizeof *choose->logs);
    choose->seen = mem_array(configs, sizeof *choose->seen);
    choose->multiples = mem_array(configs, sizeof *choose->multiples);
    for (size_t c = 0; c < configs; c++) {
        choose->log_hourly[c] = det_log(problem->configs[c].hourly);
    }
    choose_set_features(choose, problem);
    choose_draw_jobs(choose, problem, jobs);
    choose->past_count = choose_add_past(choose, problem, jobs);
    choose->shape_count = jobs + choose->past_count;
    double past = choose->past_count > 0 ? past_share : 0;
    for (size_t s = 0; s < choose->shape_count; s++) {
        choose->log_prior[s] = s < jobs ? det_log((1 - past) / (double)jobs)
                                        : det_log(past / (double)choose->past_count);
    }
    *out = choose;
    return ERR_OK;
}

void choose_destroy(struct choose *choose)
{
    if (!choose) {
        return;
    }
    free(choose->x);
    free(choose->kernel);
    free(choose->log_hourly);
    free(choose->shapes);
    free(choose->failing);
    free(choose->log_prior);
    free(choose->runs);
    free(choose->logs);
    free(choose->seen);
    free(choose->multiples);
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

/* Log of the seconds that a log cost means there. */
static double log_seconds(const struct choose *choose, size_t config, double log_cost)
{
    return log_cost - choose->log_hourly[config] + det_log(3600);
}

static bool counts(const struct choose *choose, size_t run)
{
    if (isinf(choose->logs[run])) {
        return false;
    }
    return choose->deadline_s <= 0 ||
           log_seconds(choose, choose->runs[run], choose->logs[run]) <= det_log(choose->deadline_s);
}

size_t choose_best(const struct choose *choose)
{
    size_t best = choose->configs;
    double least = (double)INFINITY;
    for (size_t i = 0; i < choose->run_count; i++) {
        if (counts(choose, i) && choose->logs[i] < least) {
            least = choose->logs[i];
            best = choose->runs[i];
        }
    }
    return best;
}

/* ---- the belief ------------------------------------------------------------------------------ */

/* Which runs condition it: those that worked, and once there is one, the failures as dear ones. */
static void take_runs(const struct choose *choose, struct belief *belief)
{
    double worst = -(double)INFINITY;
    belief->at = mem_array(choose->run_count, sizeof *belief->at);
    belief->logs = mem_array(choose->run_count, sizeof *belief->logs);
    belief->incumbent = (double)INFINITY;
    for (size_t i = 0; i < choose->run_count; i++) {
        if (!isinf(choose->logs[i])) {
            worst = choose->logs[i] > worst ? choose->logs[i] : worst;
        }
        if (counts(choose, i) && choose->logs[i] < belief->incumbent) {
            belief->incumbent = choose->logs[i];
        }
    }
    for (size_t i = 0; i < choose->run_count; i++) {
        if (isinf(worst)) {
            break;
        }
        belief->at[belief->n] = choose->runs[i];
        belief->logs[belief->n++] =
            isinf(choose->logs[i]) ? worst + failure_penalty : choose->logs[i];
    }
}

static void condition(const struct choose *choose, struct belief *belief, size_t strength)
{
    size_t n = belief->n;
    double variance = strengths[strength] * strengths[strength];
    double *factor = mem_array(n * n, sizeof *factor);
    double *gain = mem_array(choose->configs * n, sizeof *gain);
    double *sd = mem_array(choose->configs, sizeof *sd);
    for (size_t i = 0; i < n; i++) {
        const double *like = choose->kernel + belief->at[i] * choose->configs;
        for (size_t j = 0; j <= i; j++) {
            factor[i * n + j] = variance * like[belief->at[j]] + level + (i == j ? noise : 0);
        }
    }
    bool factored = dense_cholesky(factor, n);
    CHECK(factored); /* a kernel with noise on the diagonal */
    for (size_t c = 0; c < choose->configs; c++) {
        double *row = gain + c * n;
        const double *like = choose->kernel + c * choose->configs;
        for (size_t i = 0; i < n; i++) {
            row[i] = variance * like[belief->at[i]] + level;
        }
        dense_solve_lower(factor, n, row);
        double left = variance + level - dense_dot(row, row, n);
        sd[c] = sqrt(left > 1e-9 ? left : 1e-9);
        dense_solve_upper(factor, n, row);
    }
    belief->factor[strength] = factor;
    belief->log_det[strength] = dense_log_det(factor, n);
    belief->gain[strength] = gain;
    belief->sd[strength] = sd;
}

/* Log of how well a possible job foretold the runs. */
static double log_fit(const struct belief *belief, size_t strength, const double *shape,
                      double *scratch)
{
    for (size_t i = 0; i < belief->n; i++) {
        scratch[i] = belief->logs[i] - shape[belief->at[i]];
    }
    dense_solve_lower(belief->factor[strength], belief->n, scratch);
    return -.5 * dense_dot(scratch, scratch, belief->n) - .5 * belief->log_det[strength];
}

/* While nothing has worked, all that is known is where it failed. */
static double log_failures(const struct choose *choose, const struct belief *belief, size_t shape)
{
    double sum = 0;
    for (size_t i = 0; belief->n == 0 && i < choose->run_count; i++) {
        sum += det_log((double)choose->failing[shape * choose->configs + choose->runs[i]]);
    }
    return sum;
}

static int compare_components(const void *left, const void *right)
{
    const struct component *a = left;
    const struct component *b = right;
    if (a->weight != b->weight) {
        return a->weight > b->weight ? -1 : 1;
    }
    if (a->shape != b->shape) {
        return a->shape < b->shape ? -1 : 1;
    }
    return a->strength < b->strength ? -1 : a->strength > b->strength;
}

static void weigh(const struct choose *choose, struct belief *belief)
{
    size_t count = choose->shape_count * CHOOSE_STRENGTHS;
    double *scratch = mem_array(belief->n, sizeof *scratch);
    double best = -(double)INFINITY;
    belief->components = mem_array(count, sizeof *belief->components);
    for (size_t i = 0; i < count; i++) {
        struct component *component = &belief->components[i];
        component->shape = (uint32_t)(i / CHOOSE_STRENGTHS);
        component->strength = (uint32_t)(i % CHOOSE_STRENGTHS);
        component->weight = choose->log_prior[component->shape] +
                            log_fit(belief, component->strength,
                                    choose->shapes + component->shape * choose->configs, scratch) +
                            log_failures(choose, belief, component->shape);
        best = component->weight > best ? component->weight : best;
    }
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        belief->components[i].weight = det_exp(belief->components[i].weight - best);
        sum += belief->components[i].weight;
    }
    /* Most of the crowd has no weight left: the heaviest that hold all but a thousandth will do. */
    qsort(belief->components, count, sizeof *belief->components, compare_components);
    double held = 0;
    while (belief->component_count < count && belief->component_count < KEPT_MAX &&
           held < .999 * sum) {
        held += belief->components[belief->component_count++].weight;
    }
    for (size_t i = 0; i < belief->component_count; i++) {
        belief->components[i].weight /= held;
    }
    free(scratch);
}

static void belief_make(const struct choose *choose, struct belief *belief)
{
    *belief = (struct belief){0};
    take_runs(choose, belief);
    for (size_t s = 0; s < CHOOSE_STRENGTHS; s++) {
        condition(choose, belief, s);
    }
    weigh(choose, belief);
}

static void belief_release(struct belief *belief)
{
    for (size_t s = 0; s < CHOOSE_STRENGTHS; s++) {
        free(belief->factor[s]);
        free(belief->gain[s]);
        free(belief->sd[s]);
    }
    free(belief->at);
    free(belief->logs);
    free(belief->components);
}

/* What each component expects, one configuration after another. */
struct forecast {
    double mean;
    double sd;
    double works; /* the chance that it does not fail and meets the deadline */
};

/* surprise[i]: what the runs were above what the component's job foretold. */
static struct forecast forecast(const struct choose *choose, const struct belief *belief,
                                const struct component *component, const double *surprise,
                                size_t config)
{
    size_t cell = component->shape * choose->configs + config;
    const double *gain = belief->gain[component->strength] + config * belief->n;
    struct forecast out = {.mean = choose->shapes[cell] + dense_dot(gain, surprise, belief->n),
                           .sd = belief->sd[component->strength][config],
                           .works = 1};
    if (belief->n == 0) {
        out.works -= (double)choose->failing[cell];
    }
    if (choose->deadline_s > 0 && belief->n > 0) {
        double late = log_seconds(choose, config, out.mean) - det_log(choose->deadline_s);
        out.works *= det_normal_cdf(-late / out.sd);
    }
    return out;
}

/* The mean of max(0, incumbent / cost - 1): the share of the bill that is saved, seen from the new
 * one. Counted so rather than in money, a small chance of a third of the bill outweighs a good
 * chance of a few per cent, as it should. */
static double expected_saving(const struct forecast *forecast, double incumbent)
{
    double z = (incumbent - forecast->mean) / forecast->sd;
    if (z < -5) {
        return 0;
    }
    double ratio = det_exp(incumbent - forecast->mean + forecast->sd * forecast->sd / 2);
    double saving = ratio * det_normal_cdf(z + forecast->sd) - det_normal_cdf(z);
    return saving > 0 ? saving * forecast->works : 0;
}

static void score(const struct choose *choose, const struct belief *belief, double *scores)
{
    double *surprise = mem_array(belief->n, sizeof *surprise);
    for (size_t k = 0; k < belief->component_count; k++) {
        const struct component *component = &belief->components[k];
        const double *shape = choose->shapes + component->shape * choose->configs;
        for (size_t i = 0; i < belief->n; i++) {
            surprise[i] = belief->logs[i] - shape[belief->at[i]];
        }
        for (size_t c = 0; c < choose->configs; c++) {
            struct forecast f = forecast(choose, belief, component, surprise, c);
            if (choose->seen[c]) {
                continue;
            }
            scores[c] += component->weight * (isinf(belief->incumbent)
                                                  ? -det_exp(f.mean) / (f.works + 1e-3)
                                                  : expected_saving(&f, belief->incumbent));
        }
    }
    free(surprise);
}

size_t choose_next(struct choose *choose, double *saving)
{
    size_t best = choose->configs;
    *saving = 0;
    struct belief belief;
    double *scores = mem_array(choose->configs, sizeof *scores);
    belief_make(choose, &belief);
    if (choose->run_count == 0 && choose->past_count > 0) {
        /* Before anything is known of this job, what was best for others is. */
        for (size_t c = 0; c < choose->configs; c++) {
            scores[c] = -choose->multiples[c];
        }
    } else {
        score(choose, &belief, scores);
    }
    for (size_t c = 0; c < choose->configs; c++) {
        if (!choose->seen[c] && (best == choose->configs || scores[c] > scores[best])) {
            best = c;
        }
    }
    if (best < choose->configs && !isinf(belief.incumbent)) {
        *saving = scores[best] / (1 + scores[best]);
    }
    belief_release(&belief);
    free(scores);
    return best;
}

/* The level below which the mixture has the given share of its belief, by halving. */
static double quantile(const struct forecast *forecasts, const struct belief *belief, double share)
{
    double low = (double)INFINITY;
    double high = -(double)INFINITY;
    for (size_t k = 0; k < belief->component_count; k++) {
        double reach_of = 6 * forecasts[k].sd;
        low = forecasts[k].mean - reach_of < low ? forecasts[k].mean - reach_of : low;
        high = forecasts[k].mean + reach_of > high ? forecasts[k].mean + reach_of : high;
    }
    for (int step = 0; step < 30; step++) {
        double middle = (low + high) / 2;
        double below = 0;
        for (size_t k = 0; k < belief->component_count; k++) {
            below += belief->components[k].weight *
                     det_normal_cdf((middle - forecasts[k].mean) / forecasts[k].sd);
        }
        *(below < share ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

static void estimate_one(const struct choose *choose, const struct belief *belief, size_t config,
                         struct forecast *forecasts, struct choose_estimate *out)
{
    double *surprise = mem_array(belief->n, sizeof *surprise);
    out->feasible = 0;
    for (size_t k = 0; k < belief->component_count; k++) {
        const struct component *component = &belief->components[k];
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
    struct belief belief;
    belief_make(choose, &belief);
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
        paid->feasible = counts(choose, i) ? 1 : 0;
    }
    free(forecasts);
    belief_release(&belief);
}
