#include "recipe/value.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void assert_json(enum value_kind kind, const char *text, const char *want)
{
    AUTO_STR struct str out = {0};
    struct json json = {.out = &out};
    struct value value = {.kind = kind, .text = text, .size = strlen(text)};
    value_add_json(&json, &value);
    assert_string_equal(str_text(&out), want);
}

static void test_numbers_become_json_numbers(void **state)
{
    (void)state;
    assert_json(VALUE_INTEGER, "0", "0");
    assert_json(VALUE_INTEGER, "+3", "3");
    assert_json(VALUE_INTEGER, "-007", "-7");
    assert_json(VALUE_INTEGER, "1_000", "1000");
    assert_json(VALUE_INTEGER, "0x1F", "31");
    assert_json(VALUE_INTEGER, "-0x1f", "-31");
    assert_json(VALUE_INTEGER, "0o17", "15");
    assert_json(VALUE_INTEGER, "123456789012345678901234567890", "123456789012345678901234567890");
    assert_json(VALUE_NUMBER, "1e-3", "1e-3");
    assert_json(VALUE_NUMBER, ".5", "0.5");
    assert_json(VALUE_NUMBER, "-.5E+07", "-0.5e+7");
    assert_json(VALUE_NUMBER, "1.", "1.0");
    assert_json(VALUE_NUMBER, "00.10", "0.10");
    assert_json(VALUE_NUMBER, "1.e2", "1.0e2");
}

static void test_what_json_cannot_hold_becomes_text(void **state)
{
    (void)state;
    assert_json(VALUE_NUMBER, ".inf", "\".inf\"");
    assert_json(VALUE_NUMBER, "-.Inf", "\"-.Inf\"");
    assert_json(VALUE_NUMBER, ".nan", "\".nan\"");
    assert_json(VALUE_INTEGER, "0xFFFFFFFFFFFFFFFFF", "\"0xFFFFFFFFFFFFFFFFF\"");
    assert_json(VALUE_INTEGER, "0x", "\"0x\"");
    assert_json(VALUE_NUMBER, "1e", "\"1e\"");
    assert_json(VALUE_NUMBER, "", "\"\"");
    assert_json(VALUE_NUMBER, "_1", "\"_1\"");
}

static void test_other_kinds(void **state)
{
    (void)state;
    assert_json(VALUE_TEXT, "01", "\"01\"");
    assert_json(VALUE_TEXT, "a\"b", "\"a\\\"b\"");
    assert_json(VALUE_BOOL, "True", "true");
    assert_json(VALUE_BOOL, "false", "false");
    assert_json(VALUE_FILES, "m/0", "\"m/0\"");
    assert_json(VALUE_ABSENT, "", "null");
}

static void test_numbers_have_values(void **state)
{
    (void)state;
    double number = 0;
    struct value hex = {.kind = VALUE_INTEGER, .text = "0x10", .size = 4};
    assert_true(value_number(&hex, &number) && number == 16);
    struct value small = {.kind = VALUE_NUMBER, .text = "-1.5e-3", .size = 7};
    assert_true(value_number(&small, &number) && number == -1.5e-3);
    struct value large = {.kind = VALUE_NUMBER, .text = "1e999", .size = 5};
    assert_false(value_number(&large, &number));
    struct value text = {.kind = VALUE_TEXT, .text = "1", .size = 1};
    assert_false(value_number(&text, &number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_become_json_numbers),
        cmocka_unit_test(test_what_json_cannot_hold_becomes_text),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_numbers_have_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
