#include "advise/engines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_the_knee_is_where_more_engines_stop_paying(void **state)
{
    (void)state;
    /* 8 cores: linear up to them, flat after. */
    const double engines[] = {1, 2, 4, 8, 16, 32};
    const double flat[] = {1, 2, 3.9, 7.2, 7.6, 7.7};
    struct engines_fit fit;
    assert_int_equal(engines_fit(engines, flat, 6, &fit, NULL), ERR_OK);
    assert_true(fit.knee > 8 && fit.knee <= 32);
    /* Getting in one another's way: the peak is inside. */
    double falling[6];
    for (size_t i = 0; i < 6; i++) {
        falling[i] = engines[i] / (1 + .05 * engines[i] + .02 * engines[i] * engines[i]);
    }
    assert_int_equal(engines_fit(engines, falling, 6, &fit, NULL), ERR_OK);
    assert_int_equal(fit.peak, 7); /* sqrt(1 / 0.02) */
    assert_true(fit.knee >= 4 && fit.knee < fit.peak);
    assert_true(fit.error < 1e-3);
    /* Linear as far as it was measured: take them all. */
    const double linear[] = {2, 4, 8, 16, 32, 64};
    assert_int_equal(engines_fit(engines, linear, 6, &fit, NULL), ERR_OK);
    assert_true(fit.knee >= 30);
}

static void test_one_point_and_bad_points(void **state)
{
    (void)state;
    const double engines[] = {4};
    const double speed[] = {2.03};
    const double bad[] = {-1};
    struct engines_fit fit;
    assert_int_equal(engines_fit(engines, speed, 1, &fit, NULL), ERR_OK);
    assert_true(fit.knee >= 1 && fit.knee <= 4);
    assert_true(fabs(engines_speed(&fit, 4) - 2.03) < 1e-6);
    assert_int_equal(engines_fit(engines, bad, 1, &fit, NULL), ERR_INVALID);
    assert_int_equal(engines_fit(engines, speed, 0, &fit, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_knee_is_where_more_engines_stop_paying),
        cmocka_unit_test(test_one_point_and_bad_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
