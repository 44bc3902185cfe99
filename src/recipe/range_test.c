#include "recipe/range.h"

#include "base/rng.h"
#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_numbers_are_read_as_far_as_they_go(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        int64_t digits;
        int scale;
    } cases[] = {
        {"0", 1, 0, 0},
        {"12..3", 2, 12, 0},
        {"-1.50", 5, -15, 1},
        {"1e3", 3, 1000, 0},
        {"1e-3-2", 4, 1, 3},
        {"+.5x", 3, 5, 1},
        {"1_000", 5, 1000, 0},
        {"1.e2", 4, 100, 0},
        {"2.", 2, 2, 0},
        {"1.2.3", 3, 12, 1},
        {"3e", 1, 3, 0},
        {"0e999", 5, 0, 0},
        {"9223372036854775807", 19, INT64_MAX, 0},
        {"-9223372036854775808", 20, INT64_MIN, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct decimal got;
        assert_int_equal(decimal_parse(cases[i].text, &got), cases[i].size);
        assert_true(got.exact);
        assert_int_equal(got.digits, cases[i].digits);
        assert_int_equal(got.scale, cases[i].scale);
        assert_true(got.near ==
                        strtod(strcmp(cases[i].text, "1_000") ? cases[i].text : "1000", NULL) ||
                    strstr(cases[i].text, "..") != NULL);
    }
    struct decimal none;
    static const char *const bad[] = {"", "-", ".", "x1", ".inf", ".nan", "inf", "1e999", "-e5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(decimal_parse(bad[i], &none), 0);
    }
    assert_int_equal(decimal_parse("9223372036854775808", &none), 19);
    assert_false(none.exact);
    assert_int_equal(decimal_parse("1e-31", &none), 5);
    assert_false(none.exact);
}

static void assert_range(const char *text, double low, double high, double step)
{
    struct range range;
    size_t at = 0;
    assert_true(range_parse(text, true, &range, &at));
    assert_true(range.low.near == low && range.high.near == high);
    assert_true(range.has_step == (step != 0) && range.step.near == step);
}

static void test_ranges_are_read_in_every_notation(void **state)
{
    (void)state;
    assert_range("0.1-0.3", 0.1, 0.3, 0);
    assert_range("1e-5-1e-1", 1e-5, 1e-1, 0);
    assert_range("1e-5..1e-1", 1e-5, 1e-1, 0);
    assert_range("-3--1", -3, -1, 0);
    assert_range("-1-1", -1, 1, 0);
    assert_range("1E5-2E5", 1e5, 2e5, 0);
    assert_range(" 0 .. 1  step  0.25 ", 0, 1, 0.25);
    assert_range("10..0 step -2", 10, 0, -2);
    assert_range(".5...75", 0.5, 0.75, 0);
    assert_range("1e-5 - 1e+1", 1e-5, 10, 0);
    struct range range;
    size_t at = 0;
    static const char *const bad[] = {
        "",          "5",         "1-",          "1..",     "..1",    "1-2-3",      "a-b",
        "0..1 step", "0..1 by 2", "0..1 step x", "1..2..3", ".inf-1", "2020-01-02", "0..1 steps 2"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(range_parse(bad[i], true, &range, &at));
        assert_true(at <= strlen(bad[i]));
    }
    assert_false(range_parse("1-2", false, &range, &at));
    assert_int_equal(at, 1);
    assert_true(range_looks_like("0..x") && range_looks_like("-1 ..") && range_looks_like(".5.."));
    assert_false(range_looks_like("../data") || range_looks_like("1-2") ||
                 range_looks_like("a..b"));
}

/* The numbers of a range, with commas. */
static void list_range(const char *text, struct str *out)
{
    static const struct decimal one = {.near = 1, .digits = 1, .exact = true};
    struct range range;
    struct lattice lattice;
    size_t at = 0;
    str_clear(out);
    assert_true(range_parse(text, false, &range, &at));
    const char *problem =
        lattice_init(&lattice, &range.low, &range.high, range.has_step ? &range.step : &one);
    if (problem) {
        str_add(out, problem);
        return;
    }
    for (uint64_t k = 0; k < lattice.count && k < 20; k++) {
        char number[RANGE_TEXT_MAX];
        size_t size = lattice_text(&lattice, k, number);
        assert_int_equal(size, strlen(number));
        assert_true(lattice_number(&lattice, k) == strtod(number, NULL));
        str_addf(out, "%s%s", k ? "," : "", number);
    }
}

static void test_steps_are_exact_decimals(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    static const char *const cases[][2] = {
        {"0..1 step 0.1", "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1"},
        {"10..0 step -2", "10,8,6,4,2,0"},
        {"0..10 step 3", "0,3,6,9"},
        {"-0.2..0.2 step 0.1", "-0.2,-0.1,0,0.1,0.2"},
        {"5..5", "5"},
        {"1e-3..3e-3 step 1e-3", "0.001,0.002,0.003"},
        {"1e-30..2e-30 step 1e-30",
         "0.000000000000000000000000000001,0.000000000000000000000000000002"},
        {"9223372036854775806..9223372036854775807", "9223372036854775806,9223372036854775807"},
        {"-9223372036854775808..-9223372036854775807", "-9223372036854775808,-9223372036854775807"},
        {"100..300 step 100", "100,200,300"},
        {"1.25..0 step -0.5", "1.25,0.75,0.25"},
        {"0..1 step 0", "has a step of 0"},
        {"3..1", "runs backwards; a step below 0 counts down, as in 10..0 step -1"},
        {"1..3 step -1", "has a step below 0 but runs upwards"},
        {"0..1e10 step 1e-10", "has too many digits to step through exactly"},
        {"-1..9223372036854775807", "has more than 2^63 values"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        list_range(cases[i][0], &out);
        assert_string_equal(str_text(&out), cases[i][1]);
    }
}

static void test_the_largest_range_has_two_to_the_sixty_third_numbers(void **state)
{
    (void)state;
    struct range range;
    struct lattice lattice;
    size_t at = 0;
    static const struct decimal one = {.near = 1, .digits = 1, .exact = true};
    assert_true(range_parse("0..9223372036854775807", false, &range, &at));
    assert_null(lattice_init(&lattice, &range.low, &range.high, &one));
    assert_int_equal(lattice.count, RANGE_COUNT_MAX);
    char text[RANGE_TEXT_MAX];
    lattice_text(&lattice, lattice.count - 1, text);
    assert_string_equal(text, "9223372036854775807");
}

/* Any lattice's texts, read back as digits and a scale, are start + k * step. */
static void test_random_steps_add_up(void **state)
{
    (void)state;
    struct rng rng = {.state = 21};
    for (int i = 0; i < 20000; i++) {
        struct lattice lattice = {
            .start = (int64_t)rng_below(&rng, 2000000) - 1000000,
            .step = (int64_t)rng_below(&rng, 5000) + 1,
            .scale = (int)rng_below(&rng, 12),
            .count = 1000,
        };
        uint64_t k = rng_below(&rng, lattice.count);
        char text[RANGE_TEXT_MAX];
        size_t size = lattice_text(&lattice, k, text);
        struct decimal back;
        assert_int_equal(decimal_parse(text, &back), size);
        int64_t units = back.digits;
        for (int s = back.scale; s < lattice.scale; s++) {
            units *= 10;
        }
        assert_int_equal(units, lattice.start + (int64_t)k * lattice.step);
        assert_true(back.near == lattice_number(&lattice, k));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_read_as_far_as_they_go),
        cmocka_unit_test(test_ranges_are_read_in_every_notation),
        cmocka_unit_test(test_steps_are_exact_decimals),
        cmocka_unit_test(test_the_largest_range_has_two_to_the_sixty_third_numbers),
        cmocka_unit_test(test_random_steps_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
