#include "base/check.h"
#include "base/detmath.h"
#include "base/mem.h"
#include "search/gp.h"
#include "search/matrix.h"

#include <math.h>
#include <string.h>

static const double SQRT5 = 2.23606797749978969641;

void gp_model_init(struct gp_model *model, const struct domain *domain, size_t cap)
{
    *model = (struct gp_model){.domain = domain, .cap = cap};
    model->columns = mem_array(cap * domain->count + 1, sizeof(double));
    model->values = mem_array(cap + 1, sizeof(double));
    model->factor = mem_array(cap * cap + 1, sizeof(double));
    model->alpha = mem_array(cap + 1, sizeof(double));
    model->scratch = mem_array(6 * cap + 1, sizeof(double));
}

void gp_model_release(struct gp_model *model)
{
    free(model->columns);
    free(model->values);
    free(model->factor);
    free(model->alpha);
    free(model->scratch);
    *model = (struct gp_model){0};
}

void gp_model_add_running(struct gp_model *model, const double *point)
{
    CHECK(model->full_count < model->cap);
    for (size_t i = 0; i < model->domain->count; i++) {
        model->columns[i * model->cap + model->full_count] = point[i];
    }
    model->full_count++;
}

void gp_model_add(struct gp_model *model, const double *point, double value)
{
    CHECK(model->count == model->full_count);
    model->values[model->count++] = value;
    gp_model_add_running(model, point);
}

double gp_gap(const struct dim *dim, double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return isnan(a) != isnan(b);
    }
    return dim->nominal ? a != b : (a - b) * (a - b);
}

static bool is_plain(const struct domain *domain, size_t i)
{
    return !domain->dims[i].nominal && !domain->dims[i].param.conditional && !domain->present;
}

/* Squared distances along one parameter from a coordinate to the first `count` of the model. */
static void gaps_along(const struct gp_model *model, size_t param, double x, size_t count,
                       double *restrict out)
{
    const double *restrict column = model->columns + param * model->cap;
    if (is_plain(model->domain, param)) {
        for (size_t k = 0; k < count; k++) {
            out[k] = (x - column[k]) * (x - column[k]);
        }
    } else {
        for (size_t k = 0; k < count; k++) {
            out[k] = gp_gap(&model->domain->dims[param], x, column[k]);
        }
    }
}

/* The kernel between a point and the first `count` of the model. slope, if not NULL, gets minus
 * twice the derivative of its first part by the squared scaled distance. */
static void kernel(const struct gp_model *model, const double *point, size_t count,
                   double *restrict out, double *restrict slope)
{
    double *restrict gaps = model->scratch + 4 * model->cap;
    double *restrict alone = gaps + model->cap;
    size_t dims = model->domain->count;
    memset(out, 0, count * sizeof *out);
    memset(alone, 0, count * sizeof *alone);
    for (size_t i = 0; i < dims; i++) {
        double weight = model->weights[i];
        double alone_weight = model->alone_weights[i];
        gaps_along(model, i, point[i], count, gaps);
        for (size_t k = 0; k < count; k++) {
            double base = 1 + alone_weight * gaps[k];
            out[k] += weight * gaps[k];
            alone[k] += 1 / (base * base);
        }
    }
    double share = model->share / (double)(dims ? dims : 1);
    for (size_t k = 0; k < count; k++) {
        double r = SQRT5 * sqrt(out[k]);
        double fall = (1 - model->share) * det_exp(-r);
        if (slope) {
            slope[k] = 5.0 / 3 * (1 + r) * fall;
        }
        out[k] = (1 + r + r * r / 3) * fall + share * alone[k];
    }
}

static void solve_values(struct gp_model *model)
{
    size_t n = model->count;
    double *ones = model->scratch;
    for (size_t i = 0; i < n; i++) {
        ones[i] = 1;
    }
    memcpy(model->alpha, model->values, n * sizeof(double));
    matrix_forward(model->factor, model->cap, n, ones);
    matrix_forward(model->factor, model->cap, n, model->alpha);
    model->mean = matrix_dot(ones, model->alpha, n) / matrix_dot(ones, ones, n);
    for (size_t i = 0; i < n; i++) {
        model->alpha[i] -= model->mean * ones[i];
    }
    /* As if a little had been seen before: two values of variance 0.1. */
    model->variance = (matrix_dot(model->alpha, model->alpha, n) + 0.2) / ((double)n + 2);
    matrix_backward(model->factor, model->cap, n, model->alpha);
    model->best = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double expected = model->values[i] - model->noise * model->alpha[i];
        model->best = expected < model->best ? expected : model->best;
    }
}

bool gp_model_solve(struct gp_model *model, const struct gp_hyper *hyper)
{
    CHECK(model->count > 0);
    for (size_t i = 0; i < model->domain->count; i++) {
        model->weights[i] = det_exp(-2 * hyper->log_length[i]);
        model->alone_weights[i] = det_exp(-2 * (hyper->log_length[i] + hyper->log_ratio)) / 4;
    }
    model->share = 1 / (1 + det_exp(-hyper->logit_share));
    model->noise = det_exp(hyper->log_noise);
    double point[SEARCH_PARAMS_MAX];
    for (size_t row = 0; row < model->full_count; row++) {
        double *at = model->factor + row * model->cap;
        for (size_t i = 0; i < model->domain->count; i++) {
            point[i] = model->columns[i * model->cap + row];
        }
        kernel(model, point, row + 1, at, NULL);
        at[row] = 1 + model->noise;
    }
    if (!matrix_cholesky(model->factor, model->cap, 0, model->full_count)) {
        return false;
    }
    solve_values(model);
    return true;
}

/* Relative mean and variance; scratch keeps the kernel, its slope and the solved kernel. */
static double predict(const struct gp_model *model, const double *point, double *mean, bool slopes)
{
    double *k = model->scratch;
    double *slope = k + model->cap;
    double *solved = slope + model->cap;
    size_t n = model->full_count;
    kernel(model, point, n, k, slopes ? slope : NULL);
    *mean = model->mean + matrix_dot(k, model->alpha, model->count);
    memcpy(solved, k, n * sizeof(double));
    matrix_forward(model->factor, model->cap, n, solved);
    double left = 1 - matrix_dot(solved, solved, n);
    return left > 1e-10 ? left : 1e-10;
}

void gp_model_predict(const struct gp_model *model, const double *point, double *mean, double *sd)
{
    double left = predict(model, point, mean, false);
    *sd = sqrt(model->variance * left);
}

/* log of phi(z) + z * Phi(z), and its derivative. */
static double log_improvement(double z, double *slope)
{
    static const double LOG_SQRT_2PI = 0.91893853320467274178;
    if (z < -6) {
        /* phi(z) / z^2 * (1 - 3 / z^2 + 15 / z^4 - ...) */
        double s = 1 / (z * z);
        double series = 1 - s * (3 - s * (15 - 105 * s));
        *slope = -z - 2 / z;
        return -0.5 * z * z - LOG_SQRT_2PI + det_log(s * series);
    }
    double density = det_exp(-0.5 * z * z - LOG_SQRT_2PI);
    double below = det_normal_cdf(z);
    double improvement = density + z * below;
    *slope = below / improvement;
    return det_log(improvement);
}

static void gain_gradient(const struct gp_model *model, const double *point, double by_mean,
                          double by_left, double *gradient)
{
    double *slope = model->scratch + model->cap;
    double *solved = slope + model->cap;
    double *pull = solved + model->cap;
    size_t n = model->full_count;
    matrix_backward(model->factor, model->cap, n, solved);
    for (size_t k = 0; k < n; k++) {
        double alpha = k < model->count ? model->alpha[k] : 0;
        pull[k] = by_left * 2 * solved[k] - by_mean * alpha;
    }
    double share = model->share / (double)model->domain->count;
    for (size_t i = 0; i < model->domain->count; i++) {
        const double *column = model->columns + i * model->cap;
        double weight = model->alone_weights[i];
        double first = 0;
        double second = 0;
        bool still = model->domain->dims[i].nominal || isnan(point[i]);
        for (size_t k = 0; k < n && !still; k++) {
            double gap = point[i] - column[k];
            double base = 1 + weight * gap * gap;
            bool counts = !isnan(gap); /* absent there: a distance that does not change */
            first += counts ? pull[k] * slope[k] * gap : 0;
            second += counts ? pull[k] * gap / (base * base * base) : 0;
        }
        /* 1 / (1 + w x^2)^2 falls by 4 w x / (1 + w x^2)^3. */
        gradient[i] = first * model->weights[i] + second * share * 4 * weight;
    }
}

double gp_model_gain(const struct gp_model *model, const double *point, double *gradient)
{
    double mean = 0;
    double left = predict(model, point, &mean, gradient != NULL);
    double sd = sqrt(model->variance * left);
    double z = (model->best - mean) / sd;
    double slope = 0;
    double gain = log_improvement(z, &slope) + det_log(sd);
    /* Where only noise is left to be seen there is little to gain (Huang and others, 2006). */
    double blur = sqrt(model->noise / (left + model->noise));
    gain += det_log(1 - blur);
    if (gradient) {
        /* d gain = slope * dz + d sd / sd, dz = -d mean / sd - z * d sd / sd,
         * d sd / sd = d left / (2 * left). */
        double by_mean = -slope / sd;
        double by_left = (1 - slope * z) / (2 * left);
        by_left += blur / (2 * (left + model->noise) * (1 - blur));
        gain_gradient(model, point, by_mean, by_left, gradient);
    }
    return gain;
}
