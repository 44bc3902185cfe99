#include "cli/profile_metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct profile_metrics read_two(const char *first, const char *second)
{
    struct profile_metrics metrics = {0};
    profile_metrics_line(&metrics, first, 1000);
    profile_metrics_line(&metrics, second, 3000);
    return metrics;
}

static void test_counters_of_every_form_are_read(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"step 10", "step 30"},
        {"INFO:tensorflow: loss = 2.1, step = 10 (3 s)", "loss = 2, step = 30"},
        {"{\"loss\": 2.5, \"step\": 10}", "{\"loss\": 2.5, \"step\": 30}"},
        {"global_step=10 loss=1", "global_step=30 loss=1"},
        {"Iteration: 10", "Iteration: 30"},
        {"Epoch 1 Iter[10]", "Epoch 1 Iter[30]"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct profile_metrics metrics = read_two(pairs[i][0], pairs[i][1]);
        assert_true(fabs(profile_metrics_steps_per_s(&metrics) - 10) < 1e-9);
    }
}

static void test_rates_are_averaged_where_nothing_counts(void **state)
{
    (void)state;
    struct profile_metrics metrics =
        read_two("INFO:tensorflow:global_step/sec: 12.5", "global_step/sec: 11.5");
    assert_true(fabs(profile_metrics_steps_per_s(&metrics) - 12) < 1e-9);
    metrics = read_two("100 images/sec: 900", "images/sec: 1100.0 +/- 3");
    assert_true(fabs(profile_metrics_examples_per_s(&metrics) - 1000) < 1e-9);
    assert_true(profile_metrics_steps_per_s(&metrics) == 0);
}

static void test_words_that_only_look_alike_are_passed_over(void **state)
{
    (void)state;
    struct profile_metrics metrics =
        read_two("footstep 10, stepsize=0.1, steps: many, step x", "next_step 30; iterator 5");
    assert_true(profile_metrics_steps_per_s(&metrics) == 0);
    metrics = read_two("step nan", "step 1e999");
    assert_true(profile_metrics_steps_per_s(&metrics) == 0);
}

static void test_a_counter_that_begins_again_is_counted_from_there(void **state)
{
    (void)state;
    struct profile_metrics metrics = read_two("step 500", "step 0");
    profile_metrics_line(&metrics, "step 40", 5000);
    assert_true(fabs(profile_metrics_steps_per_s(&metrics) - 20) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_of_every_form_are_read),
        cmocka_unit_test(test_rates_are_averaged_where_nothing_counts),
        cmocka_unit_test(test_words_that_only_look_alike_are_passed_over),
        cmocka_unit_test(test_a_counter_that_begins_again_is_counted_from_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
