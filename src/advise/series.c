#include "advise/series.h"

#include "base/check.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A normal variable's standard deviation is this times its median absolute deviation. */
static const double mad_to_sigma = 1.4826;
/* Spikes: this many standard deviations off the local median. */
static const double spike_sigmas = 4.0;

enum { SPIKE_HALF = 3, SPIKE_WINDOW = 2 * SPIKE_HALF + 1, NOISE_SAMPLES = 20000 };

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double sorted_quantile(const double *sorted, size_t count, double q)
{
    double at = q * (double)(count - 1);
    size_t below = (size_t)at;
    size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

double series_quantile(const double *values, size_t count, double q)
{
    CHECK(q >= 0 && q <= 1);
    if (count == 0) {
        return 0;
    }
    double *sorted = mem_array(count, sizeof *sorted);
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    double result = sorted_quantile(sorted, count, q);
    free(sorted);
    return result;
}

double series_median(const double *values, size_t count)
{
    return series_quantile(values, count, 0.5);
}

double series_noise(const double *x, const double *y, size_t count)
{
    if (count < 3) {
        return 0;
    }
    size_t stride = 1 + count / NOISE_SAMPLES; /* plenty for a median */
    double *off = mem_array(count / stride + 1, sizeof *off);
    size_t taken = 0;
    for (size_t i = 1; i + 1 < count; i += stride) {
        double w = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1]);
        double between = y[i - 1] + w * (y[i + 1] - y[i - 1]);
        off[taken++] = fabs(y[i] - between) / sqrt(1 + w * w + (1 - w) * (1 - w));
    }
    double sigma = mad_to_sigma * series_median(off, taken);
    free(off);
    return sigma;
}

static void sort_few(double *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        double value = values[i];
        size_t at = i;
        while (at > 0 && values[at - 1] > value) {
            values[at] = values[at - 1];
            at--;
        }
        values[at] = value;
    }
}

void series_despike(double *y, size_t count)
{
    if (count < SPIKE_WINDOW) {
        return;
    }
    double *raw = mem_dup(y, count * sizeof *y);
    for (size_t i = 2; i < count; i++) {
        size_t first = i < SPIKE_HALF ? 0 : i - SPIKE_HALF;
        if (first + SPIKE_WINDOW > count) {
            first = count - SPIKE_WINDOW;
        }
        double window[SPIKE_WINDOW];
        memcpy(window, raw + first, sizeof window);
        sort_few(window, SPIKE_WINDOW);
        double middle = window[SPIKE_HALF];
        double off[SPIKE_WINDOW];
        for (size_t k = 0; k < SPIKE_WINDOW; k++) {
            off[k] = fabs(window[k] - middle);
        }
        sort_few(off, SPIKE_WINDOW);
        if (fabs(raw[i] - middle) > spike_sigmas * mad_to_sigma * off[SPIKE_HALF]) {
            y[i] = middle;
        }
    }
    free(raw);
}

void series_smooth(const double *y, size_t count, size_t half, double *out)
{
    double *sums = mem_array(count + 1, sizeof *sums); /* of y - y[0], so that little is lost */
    for (size_t i = 0; i < count; i++) {
        sums[i + 1] = sums[i] + (y[i] - y[0]);
    }
    for (size_t i = 0; i < count; i++) {
        size_t reach = half;
        reach = i < reach ? i : reach;
        reach = count - 1 - i < reach ? count - 1 - i : reach;
        double sum = sums[i + reach + 1] - sums[i - reach];
        out[i] = reach == 0 ? y[i] : y[0] + sum / (double)(2 * reach + 1);
    }
    free(sums);
}

void series_isotonic(double *y, size_t count)
{
    double *means = mem_array(count, sizeof *means);
    size_t *sizes = mem_array(count, sizeof *sizes);
    size_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        means[blocks] = y[i];
        sizes[blocks++] = 1;
        while (blocks > 1 && means[blocks - 2] > means[blocks - 1]) {
            double weight =
                (double)sizes[blocks - 1] / (double)(sizes[blocks - 2] + sizes[blocks - 1]);
            means[blocks - 2] += weight * (means[blocks - 1] - means[blocks - 2]);
            sizes[blocks - 2] += sizes[blocks - 1];
            blocks--;
        }
    }
    for (size_t block = 0, i = 0; block < blocks; block++) {
        for (size_t k = 0; k < sizes[block]; k++) {
            y[i++] = means[block];
        }
    }
    free(means);
    free(sizes);
}

/* How much longer noise lingers than independent draws would: the factor on a standard error. */
static double lingering(const double *residuals, size_t count)
{
    double products = 0;
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += residuals[i] * residuals[i];
        products += i > 0 ? residuals[i] * residuals[i - 1] : 0;
    }
    if (squares <= 0) {
        return 1;
    }
    double rho = products / squares;
    rho = rho < 0 ? 0 : rho > 0.9 ? 0.9 : rho;
    return sqrt((1 + rho) / (1 - rho));
}

struct series_line series_fit_line(const double *x, const double *y, size_t count)
{
    CHECK(count >= 2);
    double n = (double)count;
    double mean_x = 0;
    double mean_y = 0;
    for (size_t i = 0; i < count; i++) {
        mean_x += (x[i] - x[0]) / n;
        mean_y += (y[i] - y[0]) / n;
    }
    mean_x += x[0];
    mean_y += y[0];
    double xx = 0;
    double xy = 0;
    for (size_t i = 0; i < count; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xy += (x[i] - mean_x) * (y[i] - mean_y);
    }
    struct series_line line = {.slope = xx > 0 ? xy / xx : 0};
    double *residuals = mem_array(count, sizeof *residuals);
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        residuals[i] = y[i] - mean_y - line.slope * (x[i] - mean_x);
        squares += residuals[i] * residuals[i];
    }
    double to_end = x[count - 1] - mean_x;
    line.end = mean_y + line.slope * to_end;
    line.residual = sqrt(squares / (count > 2 ? n - 2 : 1));
    line.lingering = lingering(residuals, count);
    double error = line.residual * line.lingering;
    line.slope_error = xx > 0 ? error / sqrt(xx) : 0;
    line.end_error = error * sqrt(1 / n + (xx > 0 ? to_end * to_end / xx : 0));
    free(residuals);
    return line;
}
