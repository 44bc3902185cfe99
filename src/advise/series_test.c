#include "advise/series.h"

#include "base/detmath.h"
#include "base/rng.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static bool near(double a, double b, double within)
{
    return fabs(a - b) <= within;
}

static double normal(struct rng *rng)
{
    return det_normal_quantile(rng_open_unit_of(rng_next(rng)));
}

static void test_quantiles_lie_between_the_values(void **state)
{
    (void)state;
    static const double values[] = {4, 1, 3, 2};
    assert_true(series_median(values, 4) == 2.5);
    assert_true(series_quantile(values, 4, 0) == 1);
    assert_true(series_quantile(values, 4, 1) == 4);
    assert_true(series_median(values, 1) == 4);
    assert_true(series_median(values, 0) == 0);
}

static void test_noise_is_found_on_a_bent_and_uneven_curve_with_spikes(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    static double x[COUNT];
    static double y[COUNT];
    struct rng rng = {.state = 3};
    for (size_t i = 0; i < COUNT; i++) {
        x[i] = (i ? x[i - 1] : 0) + 0.2 + rng_unit(&rng);
        y[i] = 100 * det_exp(-x[i] / 500) + 0.5 * normal(&rng) + (i % 50 ? 0 : 1000);
    }
    assert_true(near(series_noise(x, y, COUNT), 0.5, 0.1));
}

static void test_despiking_takes_spikes_and_leaves_steps_and_slopes(void **state)
{
    (void)state;
    double spiky[] = {9, 1, 1.1, 1.2, 50, 1.3, 1.2, 1.1, 1.3, -70};
    series_despike(spiky, 10);
    assert_true(spiky[0] == 9);
    assert_true(spiky[4] < 2);
    assert_true(spiky[9] > 0);
    double step[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    double slope[] = {0, 5, 8, 9, 9.5, 9.7, 9.8, 9.85, 9.9, 9.91};
    double same[10];
    memcpy(same, step, sizeof same);
    series_despike(step, 10);
    assert_memory_equal(step, same, sizeof same);
    memcpy(same, slope, sizeof same);
    series_despike(slope, 10);
    assert_memory_equal(slope, same, sizeof same);
}

static void test_smoothing_keeps_a_straight_line(void **state)
{
    (void)state;
    double y[50];
    double out[50];
    for (size_t i = 0; i < 50; i++) {
        y[i] = 3 + 2 * (double)i;
    }
    series_smooth(y, 50, 7, out);
    for (size_t i = 0; i < 50; i++) {
        assert_true(near(out[i], y[i], 1e-9));
    }
}

/* The plainest isotonic regression: fit[i] = max over j <= i of min over k >= i of mean(j..k). */
static double isotonic_model(const double *y, size_t count, size_t i)
{
    double highest = -INFINITY;
    for (size_t j = 0; j <= i; j++) {
        double lowest = INFINITY;
        for (size_t k = i; k < count; k++) {
            double sum = 0;
            for (size_t m = j; m <= k; m++) {
                sum += y[m];
            }
            lowest = fmin(lowest, sum / (double)(k - j + 1));
        }
        highest = fmax(highest, lowest);
    }
    return highest;
}

static void test_the_isotonic_fit_is_that_of_the_plainest_model(void **state)
{
    (void)state;
    uint64_t seed = 11;
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 200; round++) {
        double y[20] = {0};
        double fit[20];
        size_t count = 1 + (size_t)rng_below(&rng, 20);
        for (size_t i = 0; i < count; i++) {
            y[i] = (double)rng_below(&rng, 10) + 0.2 * (double)i;
        }
        memcpy(fit, y, sizeof y);
        series_isotonic(fit, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(near(fit[i], isotonic_model(y, count, i), 1e-9));
        }
    }
}

static void test_a_line_is_found_with_its_error(void **state)
{
    (void)state;
    enum { COUNT = 100, ROUNDS = 400 };
    struct rng rng = {.state = 5};
    double off = 0;
    double claimed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double x[COUNT];
        double y[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            x[i] = 1000 + (double)i;
            y[i] = 7 - 0.3 * x[i] + normal(&rng);
        }
        struct series_line line = series_fit_line(x, y, COUNT);
        off += (line.slope + 0.3) * (line.slope + 0.3) / ROUNDS;
        claimed += line.slope_error / ROUNDS;
    }
    assert_true(near(sqrt(off) / claimed, 1, 0.2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles_lie_between_the_values),
        cmocka_unit_test(test_noise_is_found_on_a_bent_and_uneven_curve_with_spikes),
        cmocka_unit_test(test_despiking_takes_spikes_and_leaves_steps_and_slopes),
        cmocka_unit_test(test_smoothing_keeps_a_straight_line),
        cmocka_unit_test(test_the_isotonic_fit_is_that_of_the_plainest_model),
        cmocka_unit_test(test_a_line_is_found_with_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
