#include "advise/engines.h"

#include "advise/dense.h"
#include "base/mem.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const double enough = .95;

double engines_speed(const struct engines_fit *fit, double engines)
{
    double time = fit->terms[0] + fit->terms[1] * engines + fit->terms[2] * engines * engines;
    return time > 0 ? engines / time : 0;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median_error(const struct engines_fit *fit, const double *engines,
                           const double *speed, size_t count)
{
    double *errors = mem_array(count, sizeof *errors);
    for (size_t i = 0; i < count; i++) {
        errors[i] = fabs(engines_speed(fit, engines[i]) / speed[i] - 1);
    }
    qsort(errors, count, sizeof *errors, compare);
    double median = errors[count / 2];
    free(errors);
    return median;
}

static void find_knee(struct engines_fit *fit, double measured_max)
{
    uint32_t range = (uint32_t)measured_max;
    fit->peak = 1;
    for (uint32_t n = 1; n <= 2 * range; n++) {
        if (engines_speed(fit, n) > engines_speed(fit, fit->peak)) {
            fit->peak = n;
        }
    }
    uint32_t best = fit->peak < range ? fit->peak : range;
    fit->knee = 1;
    while (fit->knee < best && engines_speed(fit, fit->knee) < enough * engines_speed(fit, best)) {
        fit->knee++;
    }
    fit->knee_speed = engines_speed(fit, fit->knee);
    fit->peak_speed = engines_speed(fit, fit->peak);
}

enum err_code engines_fit(const double *engines, const double *speed, size_t count,
                          struct engines_fit *fit, struct err *err)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        bool good = engines[i] >= 1 && engines[i] <= 1e5 && speed[i] > 0 && isfinite(speed[i]);
        if (!good) {
            return err_set(err, ERR_INVALID,
                           "point %zu: engines must be from 1 to 100000 and throughput above 0",
                           i + 1);
        }
        largest = engines[i] > largest ? engines[i] : largest;
    }
    if (count == 0) {
        return err_set(err, ERR_INVALID, "no throughput was measured");
    }
    double *rows = mem_array(count * 3, sizeof *rows);
    double *ones = mem_array(count, sizeof *ones);
    for (size_t i = 0; i < count; i++) {
        double time = engines[i] / speed[i]; /* relative errors: divided by what was measured */
        rows[i * 3] = 1 / time;
        rows[i * 3 + 1] = engines[i] / time;
        rows[i * 3 + 2] = engines[i] * engines[i] / time;
        ones[i] = 1;
    }
    *fit = (struct engines_fit){0};
    dense_nnls(rows, ones, count, 3, fit->terms);
    free(rows);
    free(ones);
    find_knee(fit, largest);
    fit->error = median_error(fit, engines, speed, count);
    return ERR_OK;
}
