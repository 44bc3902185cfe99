#include "base/detmath.h"
#include "base/mem.h"
#include "search/cma.h"
#include "search/matrix.h"
#include "search/scores.h"

#include <math.h>
#include <string.h>

static const double SIGMA_FIRST = 0.18, SIGMA_LEAST = 1e-7, CHANCE_RATE = 0.2;

/* The constants of an update, as Hansen's tutorial has them. */
struct rates {
    size_t parents;
    double weights[CMA_LAMBDA_MAX / 2];
    double mass; /* variance effective selection mass */
    double c_sigma, d_sigma, c_path, c_one, c_mu;
    double norm; /* expected length of a standard normal vector */
};

void cma_restart(const struct search *search, struct cma_state *cma)
{
    struct rng rng = {rng_mix(search->seed, cma->restarts, 0xc3a)};
    size_t dims = cma->dims;
    for (size_t i = 0; i < dims; i++) {
        cma->mean[i] = cma->restarts == 0 ? 0.5 : 0.1 + 0.8 * rng_unit(&rng);
        cma->path[i] = 0;
        cma->sigma_path[i] = 0;
        cma->scales[i] = 1;
    }
    memset(cma->covariance, 0, (cma->diagonal ? dims : dims * dims) * sizeof(double));
    for (size_t i = 0; i < dims; i++) {
        cma->covariance[cma->diagonal ? i : i * dims + i] = 1;
        if (!cma->diagonal) {
            memset(cma->axes + i * dims, 0, dims * sizeof(double));
            cma->axes[i * dims + i] = 1;
        }
    }
    for (size_t i = 0; i < cma->param_count; i++) {
        uint64_t count = search->space.dims[i].param.count;
        for (uint64_t k = 0; cma->chances[i] && k < count; k++) {
            cma->chances[i][k] = 1 / (double)count;
        }
    }
    cma->sigma = SIGMA_FIRST;
    cma->generation = 0;
}

static void rates_init(struct rates *rates, const struct cma_state *cma)
{
    double n = (double)cma->dims;
    double sum = 0;
    double squares = 0;
    rates->parents = cma->lambda / 2;
    for (size_t i = 0; i < rates->parents; i++) {
        rates->weights[i] = det_log(((double)cma->lambda + 1) / 2) - det_log((double)(i + 1));
        sum += rates->weights[i];
    }
    for (size_t i = 0; i < rates->parents; i++) {
        rates->weights[i] /= sum;
        squares += rates->weights[i] * rates->weights[i];
    }
    double mass = 1 / squares;
    rates->mass = mass;
    rates->c_sigma = (mass + 2) / (n + mass + 5);
    double above = sqrt((mass - 1) / (n + 1)) - 1;
    rates->d_sigma = 1 + 2 * (above > 0 ? above : 0) + rates->c_sigma;
    rates->c_path = (4 + mass / n) / (n + 4 + 2 * mass / n);
    rates->c_one = 2 / ((n + 1.3) * (n + 1.3) + mass);
    double c_mu = 2 * (mass - 2 + 1 / mass) / ((n + 2) * (n + 2) + mass);
    if (cma->diagonal) { /* fewer numbers to learn (Ros and Hansen 2008) */
        rates->c_one *= (n + 2) / 3;
        c_mu *= (n + 2) / 3;
    }
    rates->c_mu = c_mu < 1 - rates->c_one ? c_mu : 1 - rates->c_one;
    rates->norm = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

/* C^(-1/2) y: into the axes, scaled, and back. */
static void whiten(const struct cma_state *cma, const double *y, double *out)
{
    size_t dims = cma->dims;
    if (cma->diagonal) {
        for (size_t i = 0; i < dims; i++) {
            out[i] = y[i] / cma->scales[i];
        }
        return;
    }
    double along[SEARCH_PARAMS_MAX];
    for (size_t k = 0; k < dims; k++) {
        along[k] = 0;
        for (size_t i = 0; i < dims; i++) {
            along[k] += cma->axes[i * dims + k] * y[i];
        }
        along[k] /= cma->scales[k];
    }
    for (size_t i = 0; i < dims; i++) {
        out[i] = matrix_dot(cma->axes + i * dims, along, dims);
    }
}

/* The step from the mean to a trial, in units of sigma; pulled in where it is too long. */
static void step_to(const struct search *search, const struct cma_state *cma, size_t trial,
                    double *y)
{
    const double *point = search_point(search, trial);
    double white[SEARCH_PARAMS_MAX] = {0};
    for (size_t i = 0; i < cma->dims; i++) {
        double x = point[cma->params[i]];
        y[i] = isnan(x) ? 0 : (x - cma->mean[i]) / cma->sigma;
    }
    whiten(cma, y, white);
    double n = (double)cma->dims;
    double length = sqrt(matrix_dot(white, white, cma->dims));
    double most = sqrt(n) + 2 * n / (n + 2);
    double scale = length > most ? most / length : 1;
    for (size_t i = 0; i < cma->dims; i++) {
        y[i] *= scale;
    }
}

static void update_chances(const struct search *search, struct cma_state *cma,
                           const struct rates *rates, const size_t *ranked)
{
    for (size_t i = 0; i < cma->param_count; i++) {
        double *chances = cma->chances[i];
        uint64_t count = search->space.dims[i].param.count;
        if (!chances || count < 2) {
            continue;
        }
        double floor_chance = 0.2 / (double)(count * count);
        double sum = 0;
        for (uint64_t k = 0; k < count; k++) {
            double seen = 0;
            double there = 0;
            for (size_t r = 0; r < rates->parents; r++) {
                double x = search_point(search, ranked[r])[i];
                there += isnan(x) ? 0 : rates->weights[r];
                seen += x == (double)k ? rates->weights[r] : 0;
            }
            chances[k] += CHANCE_RATE * (seen - there * chances[k]);
            chances[k] = chances[k] > floor_chance ? chances[k] : floor_chance;
            sum += chances[k];
        }
        for (uint64_t k = 0; k < count; k++) {
            chances[k] /= sum;
        }
    }
}

static void update_axes(struct cma_state *cma)
{
    size_t dims = cma->dims;
    if (cma->diagonal) {
        for (size_t i = 0; i < dims; i++) {
            cma->scales[i] = sqrt(cma->covariance[i] > 1e-20 ? cma->covariance[i] : 1e-20);
        }
        return;
    }
    AUTO_FREE double *copy = mem_dup(cma->covariance, dims * dims * sizeof(double));
    matrix_eigen(copy, dims, cma->scales, cma->axes);
    for (size_t i = 0; i < dims; i++) {
        cma->scales[i] = sqrt(cma->scales[i] > 1e-20 ? cma->scales[i] : 1e-20);
    }
}

static void update_covariance(struct cma_state *cma, const struct rates *rates, const double *steps,
                              bool stalled)
{
    size_t dims = cma->dims;
    double kept = 1 - rates->c_one - rates->c_mu +
                  (stalled ? rates->c_one * rates->c_path * (2 - rates->c_path) : 0);
    for (size_t i = 0; i < dims; i++) {
        for (size_t k = cma->diagonal ? i : 0; k <= i; k++) {
            double sum = rates->c_one * cma->path[i] * cma->path[k];
            for (size_t r = 0; r < rates->parents; r++) {
                sum += rates->c_mu * rates->weights[r] * steps[r * dims + i] * steps[r * dims + k];
            }
            size_t at = cma->diagonal ? i : i * dims + k;
            cma->covariance[at] = kept * cma->covariance[at] + sum;
            if (!cma->diagonal) {
                cma->covariance[k * dims + i] = cma->covariance[at];
            }
        }
    }
}

/* Moves on with the steps of the best trials, best first. */
static void update(struct cma_state *cma, const struct rates *rates, const double *steps)
{
    size_t dims = cma->dims;
    double mean[SEARCH_PARAMS_MAX] = {0};
    double white[SEARCH_PARAMS_MAX] = {0};
    for (size_t r = 0; r < rates->parents; r++) {
        for (size_t i = 0; i < dims; i++) {
            mean[i] += rates->weights[r] * steps[r * dims + i];
        }
    }
    whiten(cma, mean, white);
    double keep = 1 - rates->c_sigma;
    double add = sqrt(rates->c_sigma * (2 - rates->c_sigma) * rates->mass);
    for (size_t i = 0; i < dims; i++) {
        cma->sigma_path[i] = keep * cma->sigma_path[i] + add * white[i];
        cma->mean[i] += cma->sigma * mean[i];
        cma->mean[i] = cma->mean[i] < 0 ? 0 : cma->mean[i] > 1 ? 1 : cma->mean[i];
    }
    cma->generation++;
    double length = sqrt(matrix_dot(cma->sigma_path, cma->sigma_path, dims));
    double faded = 1 - det_exp(2 * (double)cma->generation * det_log(keep));
    bool stalled = length / sqrt(faded) > (1.4 + 2 / ((double)dims + 1)) * rates->norm;
    double path_add = stalled ? 0 : sqrt(rates->c_path * (2 - rates->c_path) * rates->mass);
    for (size_t i = 0; i < dims; i++) {
        cma->path[i] = (1 - rates->c_path) * cma->path[i] + path_add * mean[i];
    }
    update_covariance(cma, rates, steps, stalled);
    cma->sigma *= det_exp(rates->c_sigma / rates->d_sigma * (length / rates->norm - 1));
    cma->sigma = cma->sigma < 0.5 ? cma->sigma : 0.5;
    update_axes(cma);
}

/* The trials of this generation, best first. */
static void rank(const struct search *search, const struct cma_state *cma, size_t *ranked)
{
    struct rng rng = {rng_mix(search->seed, search->told_count, 0xc3b)};
    struct scores scores;
    scores_init(&scores, search, search->told_count, &rng);
    for (size_t i = 0; i < cma->lambda; i++) {
        size_t at = i;
        double value = scores.values[cma->since + i];
        while (at > 0 && scores.values[ranked[at - 1]] > value) {
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = cma->since + i;
    }
    for (size_t i = 0; i < cma->lambda; i++) {
        ranked[i] = scores.trials[ranked[i]];
    }
    scores_release(&scores);
}

void cma_told(struct search *search)
{
    struct cma_state *cma = search->cma;
    if (search->told_count - cma->since < cma->lambda) {
        return;
    }
    size_t ranked[CMA_LAMBDA_MAX] = {0};
    rank(search, cma, ranked);
    struct rates rates;
    rates_init(&rates, cma);
    update_chances(search, cma, &rates, ranked);
    if (cma->dims > 0) {
        AUTO_FREE double *steps = mem_array(rates.parents * cma->dims, sizeof *steps);
        for (size_t r = 0; r < rates.parents; r++) {
            step_to(search, cma, ranked[r], steps + r * cma->dims);
        }
        update(cma, &rates, steps);
    }
    cma->since = search->told_count;
    double widest = 0;
    for (size_t i = 0; i < cma->dims; i++) {
        widest = cma->scales[i] > widest ? cma->scales[i] : widest;
    }
    if (cma->dims > 0 && cma->sigma * widest < SIGMA_LEAST) {
        cma->restarts++;
        cma->lambda = cma->lambda * 2 < CMA_LAMBDA_MAX ? cma->lambda * 2 : CMA_LAMBDA_MAX;
        cma_restart(search, cma);
    }
}
