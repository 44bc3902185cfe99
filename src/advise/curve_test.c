#include "advise/curve.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

static enum err_code add(struct curve_set *set, const char *run, double step, double metric,
                         struct err *err)
{
    struct curve_key key = {.run = run, .type = "p2", .batch = 64};
    struct curve_point point = {.step = step, .time_s = 2 * step, .metric = metric};
    return curve_set_add(set, &key, &point, err);
}

static void test_points_in_any_order_come_out_sorted(void **state)
{
    (void)state;
    struct curve_set set = {0};
    static const double steps[] = {5, 1, 3, 2, 4};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(add(&set, "a", steps[i], steps[i] * 10, NULL), ERR_OK);
    }
    curve_set_finish(&set);
    assert_int_equal(set.count, 1);
    assert_true(set.runs[0].has_time);
    for (size_t i = 0; i < 5; i++) {
        assert_true(set.runs[0].points[i].step == (double)i + 1);
        assert_true(set.runs[0].points[i].metric == 10 * ((double)i + 1));
    }
    assert_int_equal(curve_find(&set.runs[0], 2.5), 2);
    assert_int_equal(curve_find(&set.runs[0], 0), 0);
    assert_int_equal(curve_find(&set.runs[0], 9), 5);
    curve_set_release(&set);
}

static void test_of_a_repeated_step_the_last_report_stays(void **state)
{
    (void)state;
    struct curve_set set = {0};
    assert_int_equal(add(&set, "a", 1, 10, NULL), ERR_OK);
    assert_int_equal(add(&set, "a", 2, 20, NULL), ERR_OK);
    assert_int_equal(add(&set, "a", 2, 21, NULL), ERR_OK);
    assert_int_equal(add(&set, "a", 1, 11, NULL), ERR_OK);
    curve_set_finish(&set);
    assert_int_equal(set.runs[0].count, 2);
    assert_int_equal(set.runs[0].repeated, 2);
    assert_true(set.runs[0].points[0].metric == 11);
    assert_true(set.runs[0].points[1].metric == 21);
    curve_set_release(&set);
}

static void test_numbers_that_mean_nothing_are_refused_and_change_nothing(void **state)
{
    (void)state;
    struct curve_set set = {0};
    struct err err = {0};
    static const double bad[] = {NAN, INFINITY, -INFINITY, 1e308};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(add(&set, "a", 1, bad[i], &err), ERR_RANGE);
        assert_int_equal(add(&set, "a", bad[i], 1, &err), ERR_RANGE);
    }
    assert_int_equal(add(&set, "a", -1, 1, &err), ERR_RANGE);
    assert_string_equal(err.text, "step -1 is negative");
    assert_int_equal(set.count, 0);
    assert_int_equal(set.point_count, 0);
    curve_set_finish(&set);
    curve_set_release(&set);
}

static void test_repeats_stand_together_however_many_runs_there_are(void **state)
{
    (void)state;
    struct curve_set set = {0};
    enum { RUNS = 1000 };
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < RUNS; i++) {
            char name[16];
            snprintf(name, sizeof name, "r%d", i);
            struct curve_key key = {
                .run = name, .type = i % 2 ? "p2" : "p3", .batch = i % 3 ? 64 : (double)NAN};
            struct curve_point point = {.step = round, .time_s = NAN, .metric = i};
            assert_int_equal(curve_set_add(&set, &key, &point, NULL), ERR_OK);
        }
    }
    curve_set_finish(&set);
    assert_int_equal(set.count, RUNS);
    size_t groups = 0;
    for (size_t first = 0; first < set.count; first = curve_set_group_end(&set, first)) {
        groups++;
        assert_int_equal(set.runs[first].count, 2);
        assert_false(set.runs[first].has_time);
    }
    assert_int_equal(groups, 4);
    assert_int_equal(add(&set, "late", 1, 1, NULL), ERR_OK);
    assert_int_equal(add(&set, "late", 2, 1, NULL), ERR_OK);
    assert_int_equal(set.count, RUNS + 1);
    curve_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_in_any_order_come_out_sorted),
        cmocka_unit_test(test_of_a_repeated_step_the_last_report_stays),
        cmocka_unit_test(test_numbers_that_mean_nothing_are_refused_and_change_nothing),
        cmocka_unit_test(test_repeats_stand_together_however_many_runs_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
