#include "base/detmath.h"
#include "base/mem.h"
#include "search/gp.h"
#include "search/matrix.h"

#include <math.h>
#include <string.h>

static const double SQRT5 = 2.23606797749978969641;
static const double LOG_LENGTH_MIN = -4, LOG_LENGTH_MAX = 3;
static const double LOG_NOISE_MIN = -13.8, LOG_NOISE_MAX = 0;
static const double LOG_NOISE_USUAL = -9, LOG_NOISE_SPREAD = 3;
static const double LOG_LENGTH_SPREAD = 1;
static const double LOGIT_SHARE_USUAL = -1, LOGIT_SHARE_SPREAD = 1.5, LOGIT_SHARE_MAX = 4;
static const double LOG_RATIO_USUAL = -0.5, LOG_RATIO_SPREAD = 0.7, LOG_RATIO_MAX = 2;

/* Hyper-parameters as one list: lengths, then these. */
enum { NOISE, SHARE, RATIO, EXTRAS };

/* What a fit works with: squared gaps of all pairs, pair by pair, so that each step of it is plain
 * multiplication. */
struct fit {
    const struct domain *domain;
    size_t count;
    size_t dims;
    const double *values;
    double *gaps;    /* [pair][dim], pairs (row, column < row) */
    double *factor;  /* count * count */
    double *inverse; /* count * count */
    double *slopes;  /* [pair]: of the first part by squared distance, times -2 */
    double *parts;   /* [pair]: first part less second part */
    double *alpha;
    double *ones;
    double usual; /* log of the length expected beforehand */
};

/* In many dimensions everything is far from everything; lengths grow with it. */
static double usual_log_length(const struct domain *domain)
{
    return det_log(0.5 * sqrt((double)(domain->count ? domain->count : 1)));
}

void gp_hyper_init(struct gp_hyper *hyper, const struct domain *domain)
{
    for (size_t i = 0; i < SEARCH_PARAMS_MAX; i++) {
        hyper->log_length[i] = usual_log_length(domain);
    }
    hyper->log_noise = LOG_NOISE_USUAL;
    hyper->logit_share = LOGIT_SHARE_USUAL;
    hyper->log_ratio = LOG_RATIO_USUAL;
}

static void fit_init(struct fit *fit, const struct domain *domain, const double *const *points,
                     const double *values, size_t count)
{
    size_t pairs = count * (count - 1) / 2;
    *fit = (struct fit){.domain = domain, .count = count, .dims = domain->count, .values = values};
    fit->usual = usual_log_length(domain);
    fit->gaps = mem_array(pairs * fit->dims + 1, sizeof(double));
    fit->slopes = mem_array(pairs + 1, sizeof(double));
    fit->parts = mem_array(pairs + 1, sizeof(double));
    fit->factor = mem_array(count * count, sizeof(double));
    fit->inverse = mem_array(count * count, sizeof(double));
    fit->alpha = mem_array(count, sizeof(double));
    fit->ones = mem_array(count, sizeof(double));
    double *out = fit->gaps;
    for (size_t row = 0; row < count; row++) {
        for (size_t column = 0; column < row; column++) {
            for (size_t i = 0; i < fit->dims; i++) {
                *out++ = gp_gap(&domain->dims[i], points[row][i], points[column][i]);
            }
        }
    }
}

static void fit_release(struct fit *fit)
{
    free(fit->gaps);
    free(fit->slopes);
    free(fit->parts);
    free(fit->factor);
    free(fit->inverse);
    free(fit->alpha);
    free(fit->ones);
}

/* The numbers that a kernel needs, from their logarithms. */
struct terms {
    double weights[SEARCH_PARAMS_MAX];
    double alone_weights[SEARCH_PARAMS_MAX];
    double noise;
    double share;
};

static void terms_init(struct terms *terms, const struct gp_hyper *hyper, size_t dims)
{
    for (size_t i = 0; i < dims; i++) {
        terms->weights[i] = det_exp(-2 * hyper->log_length[i]);
        terms->alone_weights[i] = det_exp(-2 * (hyper->log_length[i] + hyper->log_ratio)) / 4;
    }
    terms->noise = det_exp(hyper->log_noise);
    terms->share = 1 / (1 + det_exp(-hyper->logit_share));
}

static void fill_covariance(struct fit *fit, const struct terms *terms)
{
    size_t pair = 0;
    for (size_t row = 0; row < fit->count; row++) {
        double *at = fit->factor + row * fit->count;
        for (size_t column = 0; column < row; column++, pair++) {
            const double *gaps = fit->gaps + pair * fit->dims;
            double square = 0;
            double alone = 0;
            for (size_t i = 0; i < fit->dims; i++) {
                double base = 1 + terms->alone_weights[i] * gaps[i];
                square += terms->weights[i] * gaps[i];
                alone += 1 / (base * base);
            }
            alone /= (double)fit->dims;
            double r = SQRT5 * sqrt(square);
            double fall = det_exp(-r);
            double together = (1 + r + r * r / 3) * fall;
            at[column] = (1 - terms->share) * together + terms->share * alone;
            fit->slopes[pair] = (1 - terms->share) * 5.0 / 3 * (1 + r) * fall;
            fit->parts[pair] = alone - together;
        }
        at[row] = 1 + terms->noise;
    }
}

/* Solves for alpha with the best mean; returns the variance. */
static double solve(struct fit *fit)
{
    size_t n = fit->count;
    for (size_t i = 0; i < n; i++) {
        fit->ones[i] = 1;
        fit->alpha[i] = fit->values[i];
    }
    matrix_forward(fit->factor, n, n, fit->ones);
    matrix_forward(fit->factor, n, n, fit->alpha);
    double mean = matrix_dot(fit->ones, fit->alpha, n) / matrix_dot(fit->ones, fit->ones, n);
    for (size_t i = 0; i < n; i++) {
        fit->alpha[i] -= mean * fit->ones[i];
    }
    double variance = (matrix_dot(fit->alpha, fit->alpha, n) + 0.2) / ((double)n + 2);
    matrix_backward(fit->factor, n, n, fit->alpha);
    return variance;
}

/* One term of the prior. */
static double expect(double x, double usual, double spread, double *gradient)
{
    double z = (x - usual) / spread;
    *gradient = z / spread;
    return 0.5 * z * z;
}

static double prior(const struct fit *fit, const struct gp_hyper *hyper, double *gradient)
{
    double sum = 0;
    double *extras = gradient + fit->dims;
    for (size_t i = 0; i < fit->dims; i++) {
        sum += expect(hyper->log_length[i], fit->usual, LOG_LENGTH_SPREAD, &gradient[i]);
    }
    sum += expect(hyper->log_noise, LOG_NOISE_USUAL, LOG_NOISE_SPREAD, &extras[NOISE]);
    sum += expect(hyper->logit_share, LOGIT_SHARE_USUAL, LOGIT_SHARE_SPREAD, &extras[SHARE]);
    sum += expect(hyper->log_ratio, LOG_RATIO_USUAL, LOG_RATIO_SPREAD, &extras[RATIO]);
    return sum;
}

/* Adds the likelihood's part of the gradient, given the inverse and alpha. */
static void add_gradient(const struct fit *fit, const struct terms *terms, double variance,
                         double *gradient)
{
    size_t n = fit->count;
    size_t pair = 0;
    double first[SEARCH_PARAMS_MAX] = {0};
    double second[SEARCH_PARAMS_MAX] = {0};
    double by_share = 0;
    double trace = 0;
    double *extras = gradient + fit->dims;
    for (size_t row = 0; row < n; row++) {
        for (size_t column = 0; column < row; column++, pair++) {
            double by =
                fit->inverse[row * n + column] - fit->alpha[row] * fit->alpha[column] / variance;
            const double *gaps = fit->gaps + pair * fit->dims;
            by_share += by * fit->parts[pair];
            double by_slope = by * fit->slopes[pair];
            for (size_t i = 0; i < fit->dims; i++) {
                double base = 1 + terms->alone_weights[i] * gaps[i];
                first[i] += by_slope * gaps[i];
                second[i] += by * gaps[i] / (base * base * base);
            }
        }
        trace += fit->inverse[row * n + row] - fit->alpha[row] * fit->alpha[row] / variance;
    }
    /* A pair stands for two elements of the matrix, and the likelihood has a half. */
    double share = terms->share / (double)fit->dims;
    for (size_t i = 0; i < fit->dims; i++) {
        double alone = second[i] * share * 4 * terms->alone_weights[i];
        gradient[i] += first[i] * terms->weights[i] + alone;
        extras[RATIO] += alone;
    }
    extras[SHARE] += by_share * terms->share * (1 - terms->share);
    extras[NOISE] += 0.5 * trace * terms->noise;
}

/* Minus the logarithm of the likelihood and priors, and its gradient. */
static double loss(struct fit *fit, const struct gp_hyper *hyper, double *gradient)
{
    struct terms terms;
    size_t n = fit->count;
    terms_init(&terms, hyper, fit->dims);
    fill_covariance(fit, &terms);
    if (!matrix_cholesky(fit->factor, n, 0, n)) {
        return INFINITY;
    }
    double variance = solve(fit);
    double sum = 0.5 * ((double)n + 2) * det_log(variance) + prior(fit, hyper, gradient);
    for (size_t row = 0; row < n; row++) {
        sum += det_log(fit->factor[row * n + row]);
    }
    matrix_inverse(fit->factor, n, n, fit->inverse);
    add_gradient(fit, &terms, variance, gradient);
    return sum;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* One step of each parameter against its gradient's sign; steps grow while the sign stays. */
static void step(const struct fit *fit, struct gp_hyper *hyper, const double *gradient,
                 double *last, double *sizes)
{
    for (size_t i = 0; i < fit->dims + EXTRAS; i++) {
        double agreement = gradient[i] * last[i];
        double factor = agreement > 0 ? 1.4 : agreement < 0 ? 0.5 : 1;
        sizes[i] = clamp(sizes[i] * factor, 0.01, 1);
        last[i] = gradient[i];
        double move = gradient[i] > 0 ? -sizes[i] : gradient[i] < 0 ? sizes[i] : 0;
        if (i < fit->dims) {
            hyper->log_length[i] =
                clamp(hyper->log_length[i] + move, LOG_LENGTH_MIN, LOG_LENGTH_MAX);
        } else if (i - fit->dims == NOISE) {
            hyper->log_noise = clamp(hyper->log_noise + move, LOG_NOISE_MIN, LOG_NOISE_MAX);
        } else if (i - fit->dims == SHARE) {
            hyper->logit_share =
                clamp(hyper->logit_share + move, -LOGIT_SHARE_MAX, LOGIT_SHARE_MAX);
        } else {
            hyper->log_ratio = clamp(hyper->log_ratio + move, -LOG_RATIO_MAX, LOG_RATIO_MAX);
        }
    }
}

void gp_fit(struct gp_hyper *hyper, const struct domain *domain, const double *const *points,
            const double *values, size_t count, size_t steps)
{
    if (count < 2 || domain->count == 0) {
        return;
    }
    struct fit fit;
    fit_init(&fit, domain, points, values, count);
    double gradient[SEARCH_PARAMS_MAX + EXTRAS] = {0};
    double last[SEARCH_PARAMS_MAX + EXTRAS] = {0};
    double sizes[SEARCH_PARAMS_MAX + EXTRAS] = {0};
    for (size_t i = 0; i < fit.dims + EXTRAS; i++) {
        sizes[i] = 0.2;
    }
    struct gp_hyper at = *hyper;
    double least = INFINITY;
    for (size_t i = 0; i < steps; i++) {
        double now = loss(&fit, &at, gradient);
        if (now < least) {
            least = now;
            *hyper = at;
        }
        if (now == INFINITY) {
            at.log_noise = clamp(at.log_noise + 2, LOG_NOISE_MIN, LOG_NOISE_MAX);
        } else {
            step(&fit, &at, gradient, last, sizes);
        }
    }
    fit_release(&fit);
}
