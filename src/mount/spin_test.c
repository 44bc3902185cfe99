/* Tests of spin.h. */
#include "mount/spin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { START_US = 1000000, SECOND_US = 1000000 };

/* A program that asks again pause_us after each answer, for a second. Returns for how much of it we
 * looked; asks counts its requests. needs_us: it runs only while we sleep. */
static int64_t look_for_a_second(struct spin *spin, int64_t pause_us, bool needs_us, int64_t *asks)
{
    int64_t looked_us = 0;
    int64_t next_us = START_US;

    *asks = 0;
    for (int64_t now_us = START_US; now_us < START_US + SECOND_US; now_us++) {
        if (now_us >= next_us) {
            spin_served(spin, now_us);
            next_us = now_us + pause_us;
            ++*asks;
        } else if (spin_goes_on(spin, now_us)) {
            looked_us++;
            next_us += needs_us;
        }
    }
    return looked_us;
}

static void test_while_requests_follow_at_once_we_never_sleep(void **state)
{
    (void)state;
    struct spin spin = {0};
    int64_t asks;
    int64_t looked_us = look_for_a_second(&spin, 30, false, &asks);
    assert_int_equal(looked_us + asks, SECOND_US);
}

static void test_looking_in_vain_takes_little_of_the_time(void **state)
{
    (void)state;
    struct spin spin = {0};
    int64_t asks;
    int64_t looked_us = look_for_a_second(&spin, 200, false, &asks);
    assert_in_range(looked_us, SPIN_US, SECOND_US / 150);
}

static void test_a_program_that_needs_our_processor_gets_it(void **state)
{
    (void)state;
    struct spin spin = {0};
    int64_t asks;
    int64_t looked_us = look_for_a_second(&spin, 20, true, &asks);
    assert_true(looked_us < SECOND_US / 150);
    assert_true(asks > SECOND_US / 20 - SECOND_US / 1000);
}

static void test_one_pause_costs_little(void **state)
{
    (void)state;
    struct spin spin = {0};
    spin_served(&spin, START_US);
    assert_true(spin_goes_on(&spin, START_US + 1));
    spin_served(&spin, START_US + 2);
    assert_true(spin_goes_on(&spin, START_US + 3));
    assert_false(spin_goes_on(&spin, START_US + 2 + SPIN_US));
    spin_served(&spin, START_US + 100);
    assert_false(spin_goes_on(&spin, START_US + 101));
    spin_served(&spin, START_US + 2 + SPIN_US + SPIN_CALM_MIN_US);
    assert_true(spin_goes_on(&spin, START_US + 3 + SPIN_US + SPIN_CALM_MIN_US));
}

static void test_a_request_that_comes_while_we_look_ends_the_doubling(void **state)
{
    (void)state;
    struct spin spin = {0};
    int64_t asks;
    (void)look_for_a_second(&spin, 200, false, &asks);
    assert_int_equal(spin.calm_length_us, SPIN_CALM_MAX_US);
    int64_t now_us = START_US + 2 * SECOND_US;
    spin_served(&spin, now_us);
    assert_true(spin_goes_on(&spin, now_us + 1));
    spin_served(&spin, now_us + 2);
    assert_true(spin_goes_on(&spin, now_us + 3));
    assert_false(spin_goes_on(&spin, now_us + 2 + SPIN_US));
    assert_int_equal(spin.calm_length_us, SPIN_CALM_MIN_US);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_while_requests_follow_at_once_we_never_sleep),
        cmocka_unit_test(test_looking_in_vain_takes_little_of_the_time),
        cmocka_unit_test(test_a_program_that_needs_our_processor_gets_it),
        cmocka_unit_test(test_one_pause_costs_little),
        cmocka_unit_test(test_a_request_that_comes_while_we_look_ends_the_doubling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
