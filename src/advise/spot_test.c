#include "advise/spot.h"

#include "base/detmath.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One run, loss by loss. */
static double simulate(const struct spot_job *job, double interval_s, struct rng *rng,
                       double *losses)
{
    double clock = 0;
    double left = job->work_s;
    double next = -det_log(1 - rng_unit(rng)) / job->rate;
    while (left > 1e-9) {
        double piece = left < interval_s ? left : interval_s;
        if (clock + piece + job->save_s <= next) {
            clock += piece + job->save_s;
            left -= piece;
            continue;
        }
        double ready = next;
        do { /* a loss while restarting starts it again */
            clock = ready;
            (*losses)++;
            next = clock - det_log(1 - rng_unit(rng)) / job->rate;
            ready = next;
        } while (next < clock + job->restart_s);
        clock += job->restart_s;
    }
    return clock;
}

static void test_the_expectation_is_what_simulation_shows(void **state)
{
    (void)state;
    static const struct spot_job jobs[] = {
        {36000, 60, 120, 1.0 / 7200}, {36000, 10, 600, 1.0 / 3600}, {7200, 300, 300, 1.0 / 1800}};
    struct rng rng = {.state = 11};
    printf("seed 11\n");
    for (size_t i = 0; i < 3; i++) {
        enum { ROUNDS = 20000 };
        double interval_s = 900;
        double sum = 0;
        double losses = 0;
        for (int round = 0; round < ROUNDS; round++) {
            sum += simulate(&jobs[i], interval_s, &rng, &losses);
        }
        double expected = spot_expected_s(&jobs[i], interval_s);
        assert_true(fabs(sum / ROUNDS / expected - 1) < .02);
        double expected_losses = spot_expected_losses(&jobs[i], interval_s);
        assert_true(fabs(losses / ROUNDS / expected_losses - 1) < .03);
    }
}

static void test_the_best_interval_is_the_best_of_many(void **state)
{
    (void)state;
    for (double save_s = 1; save_s < 2000; save_s *= 3) {
        for (double mean_s = 600; mean_s < 1e6; mean_s *= 5) {
            struct spot_job job = {1e6, save_s, 100, 1 / mean_s};
            double best = spot_best_interval(&job);
            double least = spot_expected_s(&job, best);
            for (double factor = .5; factor < 2; factor += .01) {
                assert_true(spot_expected_s(&job, best * factor) >= least * (1 - 1e-9));
            }
            if (save_s / mean_s < .01) {
                assert_true(fabs(spot_young(&job) / best - 1) < .1);
                assert_true(fabs(spot_daly(&job) / best - 1) < .02);
            }
        }
    }
}

static void test_without_losses_nothing_is_lost(void **state)
{
    (void)state;
    struct spot_job job = {3600, 0, 0, 0};
    assert_true(spot_expected_s(&job, 100) == 3600);
    assert_true(spot_expected_losses(&job, 100) == 0);
    assert_true(spot_best_interval(&job) == 3600);
    job.rate = 1; /* a loss a second and a minute to save */
    job.save_s = 6000;
    assert_true(isinf(spot_expected_s(&job, 60)));
}

static void test_a_record_gives_a_rate_with_bounds(void **state)
{
    (void)state;
    uint32_t machines[1000];
    struct spot_record record = {0};
    struct spot_rate rate;
    struct err err = {0};
    assert_int_equal(spot_rate(&record, &rate, &err), ERR_INVALID);
    for (size_t i = 0; i < 1000; i++) {
        machines[i] = 1;
    }
    spot_record_add(&record, machines, 1000, 60);
    assert_int_equal(spot_rate(&record, &rate, &err), ERR_OK);
    assert_true(rate.low == 0 && rate.rate > 0 && rate.rate < rate.high);
    assert_true(rate.high < 4.0 / 60000);
    for (size_t i = 100; i < 1000; i += 100) {
        machines[i] = machines[i + 1] = 0; /* 9 losses, two samples each */
    }
    record = (struct spot_record){0};
    spot_record_add(&record, machines, 1000, 60);
    assert_true(record.losses == 9 && record.there_s == 982 * 60);
    assert_int_equal(spot_rate(&record, &rate, &err), ERR_OK);
    assert_true(rate.low < rate.rate && rate.rate < rate.high);
    assert_true(fabs(rate.rate * 982 * 60 - 9.5) < 1e-9);
}

static void test_several_machines_and_records_add_up(void **state)
{
    (void)state;
    static const uint32_t four[] = {0, 4, 4, 1, 2, 0};
    static const uint32_t none[] = {0, 0};
    struct spot_record record = {0};
    struct spot_rate rate;
    spot_record_add(&record, four, 6, 10);
    assert_true(record.losses == 5 && record.there_s == 110);
    spot_record_add(&record, four, 6, 10);
    spot_record_add(&record, none, 2, 10);
    spot_record_add(&record, four, 0, 10);
    assert_true(record.losses == 10 && record.there_s == 220);
    record = (struct spot_record){0};
    spot_record_add(&record, none, 2, 10);
    assert_int_equal(spot_rate(&record, &rate, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_expectation_is_what_simulation_shows),
        cmocka_unit_test(test_the_best_interval_is_the_best_of_many),
        cmocka_unit_test(test_without_losses_nothing_is_lost),
        cmocka_unit_test(test_a_record_gives_a_rate_with_bounds),
        cmocka_unit_test(test_several_machines_and_records_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
