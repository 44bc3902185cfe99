#include "advise/ownrent.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <setjmp.h>

#include <cmocka.h>

static const int64_t unit = MONEY_MICRO;

/* Table 3.6 of Jorge Cano (2018): 0.00025 a second is 0.9 an hour; the jobs took 91, 41 and 43
 * minutes on 2, 3 and 3 machines. */
static struct ownrent_rent rented(int64_t minutes, int64_t machines)
{
    return (struct ownrent_rent){.price_hour_micro = 900000,
                                 .machines = machines,
                                 .billing = {.granule_s = 1},
                                 .job_s = minutes * 60};
}

static void test_the_thesis_prices_come_out(void **state)
{
    (void)state;
    static const struct {
        int64_t minutes;
        int64_t machines;
        int64_t cents;
    } cases[] = {{91, 2, 273}, {41, 3, 184}, {43, 3, 193}};
    struct ownrent_own own = {.price_micro = 800 * unit};
    for (size_t i = 0; i < 3; i++) {
        struct ownrent_rent rent = rented(cases[i].minutes, cases[i].machines);
        struct ownrent_answer answer;
        assert_int_equal(ownrent_compare(&own, &rent, 0, &answer, NULL), ERR_OK);
        assert_int_equal(answer.rent_job_micro / 10000, cases[i].cents);
    }
}

static void test_the_break_even_is_the_first_job_that_is_no_dearer(void **state)
{
    (void)state;
    static const int64_t prices[] = {3000, 8000, 800};
    static const int64_t expected[] = {1627, 4337, 434}; /* over 1.845 a job */
    struct ownrent_rent rent = rented(41, 3);
    for (size_t i = 0; i < 3; i++) {
        struct ownrent_own own = {.price_micro = prices[i] * unit};
        struct ownrent_answer answer;
        assert_int_equal(ownrent_compare(&own, &rent, 0, &answer, NULL), ERR_OK);
        assert_int_equal(answer.break_even_jobs, expected[i]);
        assert_true(answer.pays);
        int64_t owned = 0;
        int64_t paid = 0;
        ownrent_totals(&own, &answer, answer.break_even_jobs, &owned, &paid);
        assert_true(owned <= paid);
        ownrent_totals(&own, &answer, answer.break_even_jobs - 1, &owned, &paid);
        assert_true(owned > paid);
    }
}

static void test_power_and_a_short_life_may_keep_it_from_paying(void **state)
{
    (void)state;
    struct ownrent_rent rent = rented(41, 3);
    struct ownrent_own own = {
        .price_micro = 800 * unit, .lifetime_hours = 300, .watts = 250, .job_s = 2700};
    struct ownrent_answer answer;
    assert_int_equal(ownrent_compare(&own, &rent, 200000, &answer, NULL), ERR_OK);
    assert_int_equal(answer.own_job_micro, 37500); /* 0.1875 kWh at 0.20 */
    assert_int_equal(answer.jobs_in_life, 400);
    assert_int_equal(answer.break_even_jobs, 443);
    assert_false(answer.pays);
    assert_int_equal(answer.own_life_job_micro, 2000000 + 37500);
    own.watts = 20000;
    assert_int_equal(ownrent_compare(&own, &rent, 1000000, &answer, NULL), ERR_OK);
    assert_int_equal(answer.break_even_jobs, -1);
    assert_false(answer.pays);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    struct ownrent_own own = {.price_micro = unit};
    struct ownrent_rent rent = rented(1, 1);
    struct ownrent_answer answer;
    own.price_micro = -1;
    assert_int_equal(ownrent_compare(&own, &rent, 0, &answer, NULL), ERR_RANGE);
    own = (struct ownrent_own){.price_micro = unit, .resale_micro = 2 * unit};
    assert_int_equal(ownrent_compare(&own, &rent, 0, &answer, NULL), ERR_RANGE);
    own = (struct ownrent_own){.price_micro = MONEY_MICRO_MAX, .watts = 1000000};
    rent.job_s = 0;
    assert_int_equal(ownrent_compare(&own, &rent, 0, &answer, NULL), ERR_RANGE);
    rent.job_s = INT64_C(3600) * 24 * 366 * 100;
    rent.machines = 1000000;
    rent.price_hour_micro = MONEY_MICRO_MAX;
    assert_int_equal(ownrent_compare(&own, &rent, MONEY_MICRO_MAX, &answer, NULL), ERR_OK);
    assert_int_equal(answer.rent_job_micro, MONEY_MICRO_MAX);
    assert_int_equal(answer.own_job_micro, MONEY_MICRO_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_thesis_prices_come_out),
        cmocka_unit_test(test_the_break_even_is_the_first_job_that_is_no_dearer),
        cmocka_unit_test(test_power_and_a_short_life_may_keep_it_from_paying),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
