#include "mount/wakeful.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void many_requests_begin_it_and_silence_ends_it(void **state)
{
    (void)state;
    struct wakeful wakeful = {.fd = -1};
    int64_t now_us = 1000000;
    for (unsigned i = 1; i < WAKEFUL_MANY; i++) {
        wakeful_served(&wakeful, 1, now_us += 20);
        assert_false(wakeful.is_on);
    }
    wakeful_served(&wakeful, 1, now_us += 20);
    assert_true(wakeful.is_on);
    int ms = wakeful_rest(&wakeful, now_us += 100);
    assert_in_range(ms, 1, WAKEFUL_REST_US / 1000 + 1);
    assert_true(wakeful.is_on);
    assert_int_equal(wakeful_rest(&wakeful, now_us + (int64_t)ms * 1000), -1);
    assert_false(wakeful.is_on);
}

static void a_few_now_and_then_do_not(void **state)
{
    (void)state;
    struct wakeful wakeful = {.fd = -1};
    int64_t now_us = 1000000;
    for (int i = 0; i < 10000; i++) {
        wakeful_served(&wakeful, 1, now_us += (int64_t)WAKEFUL_SPAN_US / WAKEFUL_MANY * 2);
        assert_false(wakeful.is_on);
        assert_int_equal(wakeful_rest(&wakeful, now_us), -1);
    }
}

/* Whoever goes on is not let down, however long. */
static void it_lasts_as_long_as_they_come(void **state)
{
    (void)state;
    struct wakeful wakeful = {.fd = -1};
    int64_t now_us = 1000000;
    for (int i = 0; i < 100000; i++) {
        wakeful_served(&wakeful, 1, now_us += 30);
        (void)wakeful_rest(&wakeful, now_us += 10);
        assert_true(wakeful.is_on || i < WAKEFUL_MANY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_requests_begin_it_and_silence_ends_it),
        cmocka_unit_test(a_few_now_and_then_do_not),
        cmocka_unit_test(it_lasts_as_long_as_they_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
