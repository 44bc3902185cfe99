#include "master/pattern.h"

#include "base/clock.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct pattern *make(const char *text, bool is_regex)
{
    struct pattern *pattern = NULL;
    struct err err = {0};
    if (pattern_create(text, is_regex, &pattern, &err) != ERR_OK) {
        fail_msg("%s: %s", text, err.text);
    }
    return pattern;
}

static void assert_finds(const char *pattern_text, bool is_regex, const char *text,
                         const char *line)
{
    struct pattern *pattern = make(pattern_text, is_regex);
    struct pattern_line found = {0};
    bool any = pattern_next(pattern, text, strlen(text), &found);
    assert_int_equal(any, line != NULL);
    if (line) {
        assert_int_equal(found.end - found.begin, strlen(line));
        assert_memory_equal(found.begin, line, strlen(line));
    }
    pattern_destroy(pattern);
}

static void test_lines_are_found_by_text_and_by_expression(void **state)
{
    (void)state;
    assert_finds("b", false, "aaa\nxbx\nccc", "xbx");
    assert_finds("b", false, "b", "b");
    assert_finds("d", false, "aaa\nxbx\nccc", NULL);
    assert_finds(".*", false, "abc\na.*b\n", "a.*b");
    assert_finds("^c+$", true, "aaa\nxbx\nccc", "ccc");
    assert_finds("loss=[0-9]{1,3}\\.[0-9]+", true, "x\nepoch 3 loss=12.5\n", "epoch 3 loss=12.5");
    assert_finds("^x$", true, "axb\nx\n", "x");
    assert_finds("a.c", true, "a\nc\n", NULL); /* never over the end of a line */
    assert_finds("^$", true, "a\n\nb", "");
}

static void test_expressions_that_could_do_harm_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",   "(",      "[a",      "a{1000}{1000}", "((a{100}){100}){100}",
        "*{", "(a)\\1", "a{2000}", "a{1,2000}",     "a{99999999999999999999}"};
    struct pattern *pattern = NULL;
    struct err err = {0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (pattern_create(bad[i], true, &pattern, &err) == ERR_OK) {
            fail_msg("%s was taken", bad[i]);
        }
    }
    char longest[PATTERN_BYTES_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(pattern_create(longest, false, &pattern, &err), ERR_INVALID);
    longest[PATTERN_REGEX_BYTES_MAX + 1] = '\0';
    assert_int_equal(pattern_create(longest, true, &pattern, &err), ERR_INVALID);
}

/* Expressions known to make matchers explode in time or memory. */
static void test_hostile_expressions_take_bounded_time(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "(a|b)*a(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)(a|b)c",
        "(a*)*(a*)*(a*)*c",
        "(a?){200}a{5}c",
        "(((((((((a*)*)*)*)*)*)*)*)*)*c",
        "(x+x+)+y",
    };
    char text[PATTERN_PIECE_BYTES];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = "abaabbbabaaabb"[i * i % 14];
    }
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct pattern *pattern = make(hostile[i], true);
        struct pattern_line found;
        int64_t longest_us = 0;
        for (int piece = 0; piece < 10; piece++) {
            int64_t began_us = clock_mono_us();
            assert_false(pattern_next(pattern, text, sizeof text, &found));
            int64_t took_us = clock_mono_us() - began_us;
            longest_us = took_us > longest_us ? took_us : longest_us;
        }
        print_message("%lld us: %.40s\n", (long long)longest_us, hostile[i]);
        assert_true(longest_us < 2000000); /* far more than it should; machines are slow at times */
        pattern_destroy(pattern);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_found_by_text_and_by_expression),
        cmocka_unit_test(test_expressions_that_could_do_harm_are_refused),
        cmocka_unit_test(test_hostile_expressions_take_bounded_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
