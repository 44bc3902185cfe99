#include "search/stop.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void assert_why(const struct stop *stop, const char *expected)
{
    AUTO_STR struct str why = {0};
    stop_why(stop, &why);
    assert_string_equal(str_text(&why), expected);
}

static void test_a_target_reached_is_the_end_and_says_so(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.maximize = true, .has_target = true, .target = 0.99});
    stop_result(&stop, 0, 0.5);
    stop_result(&stop, 1, (double)NAN);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    assert_why(&stop, "not over yet; the best is 0.5, of trial 0");
    stop_result(&stop, 7, 0.99);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_TARGET);
    assert_true(stop_ends_running(STOP_TARGET));
    assert_why(&stop, "the target of 0.99 is reached; the best is 0.99, of trial 7");
}

static void test_a_target_of_a_loss_is_reached_from_above(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.has_target = true, .target = 0});
    stop_result(&stop, 0, 0.1);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    stop_result(&stop, 1, -(double)INFINITY); /* diverged, not a target reached */
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    stop_result(&stop, 2, -0.1);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_TARGET);
}

static void test_patience_counts_results_without_a_better_one(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.patience = 3, .least_gain = 0.01});
    stop_result(&stop, 0, 1.0);
    stop_result(&stop, 1, 0.995); /* better, but not by enough */
    stop_result(&stop, 2, 0.9);
    stop_result(&stop, 3, 0.9);
    stop_result(&stop, 4, (double)NAN);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    stop_result(&stop, 5, 0.95);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_PATIENCE);
    assert_false(stop_ends_running(STOP_PATIENCE));
    stop_result(&stop, 6, 0.1); /* one that still ran: over stays over, the best is known */
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_PATIENCE);
    assert_why(&stop, "no better value in 3 results; the best is 0.1, of trial 6");
}

static void test_small_gains_add_up_to_a_better_value(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.patience = 3, .least_gain = 0.1});
    for (uint64_t i = 0; i < 20; i++) {
        stop_result(&stop, i, 1 - 0.06 * (double)i);
        assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    }
}

static void test_money_time_and_trials_are_limits(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.cost_micro = 5000000, .currency = "USD"});
    assert_int_equal(stop_ask(&stop, 4999999, INT64_MAX), STOP_NOT_YET);
    assert_int_equal(stop_ask(&stop, 5010000, 0), STOP_COST);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_COST);
    assert_why(&stop, "the budget is spent: 5.01 USD of 5.00 USD");
    stop_init(&stop, &(struct stop_options){.time_ms = 7200000});
    assert_int_equal(stop_ask(&stop, 0, 7199999), STOP_NOT_YET);
    assert_int_equal(stop_ask(&stop, 0, 7260000), STOP_TIME);
    assert_why(&stop, "the time is up: 2h01m of 2h00m");
    stop_init(&stop, &(struct stop_options){.trials = 2});
    stop_begun(&stop);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    stop_begun(&stop);
    stop_result(&stop, 0, (double)NAN);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_TRIALS);
    assert_false(stop_ends_running(STOP_TRIALS));
    assert_why(&stop, "all 2 trials have begun; every trial failed");
    stop_init(&stop, &(struct stop_options){0});
    assert_int_equal(stop_ask(&stop, INT64_MAX, INT64_MAX), STOP_NOT_YET);
    stop_exhausted(&stop);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_EXHAUSTED);
}

static void test_several_goals_have_patience_with_their_front(void **state)
{
    (void)state;
    struct stop stop;
    stop_init(&stop, &(struct stop_options){.patience = 2});
    stop_front(&stop, true);
    stop_front(&stop, false);
    stop_front(&stop, true);
    stop_front(&stop, false);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_NOT_YET);
    stop_front(&stop, false);
    assert_int_equal(stop_ask(&stop, 0, 0), STOP_PATIENCE);
    assert_why(&stop, "no better value in 2 results");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_target_reached_is_the_end_and_says_so),
        cmocka_unit_test(test_a_target_of_a_loss_is_reached_from_above),
        cmocka_unit_test(test_patience_counts_results_without_a_better_one),
        cmocka_unit_test(test_small_gains_add_up_to_a_better_value),
        cmocka_unit_test(test_money_time_and_trials_are_limits),
        cmocka_unit_test(test_several_goals_have_patience_with_their_front),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
