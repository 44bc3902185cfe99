#include "advise/money.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t parse(const char *text)
{
    int64_t micro = -1;
    return money_parse(text, &micro, NULL) == ERR_OK ? micro : -1;
}

static void test_prices_are_read_exactly(void **state)
{
    (void)state;
    assert_int_equal(parse("0.2336"), 233600);
    assert_int_equal(parse("12"), 12000000);
    assert_int_equal(parse(".5"), 500000);
    assert_int_equal(parse("3."), 3000000);
    assert_int_equal(parse("0"), 0);
    assert_int_equal(parse("0.0000005"), 1);
    assert_int_equal(parse("0.00000049"), 0);
    assert_int_equal(parse("10000000000"), MONEY_MICRO_MAX);
}

static void test_what_is_no_amount_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      "1e3",
                                      "nan",
                                      "1e308",
                                      "0x1",
                                      ".",
                                      "1.2.3",
                                      "1,5",
                                      "$1",
                                      "1 2",
                                      "10000000000.1",
                                      "99999999999999999999999999999999999999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(parse(bad[i]), -1);
    }
}

static void test_use_is_billed_by_granule_minimum_and_free_tier(void **state)
{
    (void)state;
    struct money_billing second = {.granule_s = 1, .minimum_s = 60};
    struct money_billing hour = {.granule_s = 3600};
    struct money_billing gift = {.granule_s = 60, .free_s = 7200};
    assert_int_equal(money_billed_s(&second, 0), 0);
    assert_int_equal(money_billed_s(&second, 1), 60);
    assert_int_equal(money_billed_s(&second, 61), 61);
    assert_int_equal(money_billed_s(&hour, 1), 3600);
    assert_int_equal(money_billed_s(&hour, 3600), 3600);
    assert_int_equal(money_billed_s(&hour, 3601), 7200);
    assert_int_equal(money_billed_s(&gift, 7000), 0);
    assert_int_equal(money_billed_s(&gift, 7201), 60);
    assert_int_equal(money_bill(1718000, &hour, 6, 3601), 6 * 2 * 1718000);
    assert_int_equal(money_bill(233600, &second, 2, 1800), 233600);
    assert_int_equal(money_bill(1, &second, 1, 1800), 1); /* half a micro-unit is rounded up */
}

static void test_a_bill_never_wraps(void **state)
{
    (void)state;
    struct money_billing hour = {.granule_s = 3600};
    assert_int_equal(money_bill(MONEY_MICRO_MAX, &hour, INT32_MAX, INT64_MAX), MONEY_MICRO_MAX);
    assert_true(money_bill(1, &hour, 1, INT64_MAX) - INT64_MAX / 3600 <= 1);
    assert_int_equal(money_bill(0, &hour, INT32_MAX, INT64_MAX), 0);
    assert_int_equal(money_of_units(1e300), MONEY_MICRO_MAX);
    assert_int_equal(money_of_units(-1), 0);
}

static void test_amounts_are_written_as_people_write_them(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    money_add(&out, 12500000);
    str_add_char(&out, ' ');
    money_add(&out, 11600);
    str_add_char(&out, ' ');
    money_add(&out, 0);
    str_add_char(&out, ' ');
    money_add(&out, 1000001);
    assert_string_equal(str_text(&out), "12.50 0.0116 0.00 1.000001");
    assert_true(money_is_currency("USD"));
    assert_false(money_is_currency("usd"));
    assert_false(money_is_currency("US"));
    assert_false(money_is_currency("USDX"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prices_are_read_exactly),
        cmocka_unit_test(test_what_is_no_amount_is_refused),
        cmocka_unit_test(test_use_is_billed_by_granule_minimum_and_free_tier),
        cmocka_unit_test(test_a_bill_never_wraps),
        cmocka_unit_test(test_amounts_are_written_as_people_write_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
