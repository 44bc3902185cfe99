#include "metrics/linepat.h"

#include "base/rng.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void match(const char *name, const char *pattern, const char *line, const char *expected)
{
    struct linepat *made = NULL;
    struct err err = {0};
    AUTO_STR struct str out = {0};
    struct metric_sink sink = testing_sink(&out);
    struct record record;
    record_clear(&record);
    if (linepat_create(name, pattern, &made, &err) != ERR_OK) {
        fail_msg("%s: %s", pattern, err.text);
    }
    if (linepat_match(made, line, strlen(line), &record)) {
        record_send(&record, &sink, 0);
    } else {
        str_add(&out, "no");
        assert_int_equal(record.count, 0);
    }
    linepat_destroy(made);
    if (strcmp(str_text(&out), expected) != 0) {
        print_message("pattern '%s', line '%s'\n", pattern, line);
    }
    assert_string_equal(str_text(&out), expected);
}

static void refuse(const char *name, const char *pattern, const char *why)
{
    struct linepat *made = NULL;
    struct err err = {0};
    assert_int_equal(linepat_create(name, pattern, &made, &err), ERR_INVALID);
    assert_string_equal(err.text, why);
}

static void numbers_are_read_where_the_braces_stand(void **state)
{
    (void)state;
    match("accuracy", "accuracy={value} step={step}", "accuracy=0.97 step=3", "accuracy@3=0.97");
    match("x", "x is {value}", "well, x is -1.5e3, I think", "x=-1500");
    match(NULL, "epoch {epoch}: loss={loss} * acc={acc}", "epoch 2: loss=0.5 lr=1 acc=0.25",
          "epoch@2=2 loss@2=0.5 acc@2=0.25");
    match(NULL, "[{name}] {value}%", "[top1] 91.5%", "top1=91.5");
    match("acc", "acc {value}", "acc 91.5%", "acc=0.915");
    match("t", "took {value}s", "took 3.5s", "t=3.5");
    match("x", "{value}", "loss nan", "x=nan");
    match("x", "*a={value}", "aaa=5", "x=5");
}

static void blanks_and_stars_are_wide(void **state)
{
    (void)state;
    match("x", "a b: {value}", "a \t  b:   7", "x=7");
    match("x", "a b: {value}", "ab: 7", "no");
    match("x", "a * b * {value}!", "a 1 b 2 c 3!", "x=3");
    match("x", "a*{value}", "a", "no");
}

static void a_pattern_begins_at_a_word(void **state)
{
    (void)state;
    match("loss", "loss={value}", "val_loss=0.5", "no");
    match("loss", "loss={value}", "val_loss=0.5 loss=0.25", "loss=0.25");
    match("loss", "*loss={value}", "val_loss=0.5", "loss=0.5");
    match("x", "{value}", "v1 2", "x=2");
}

static void a_number_is_whole_or_none(void **state)
{
    (void)state;
    match("x", "x={value}", "x=1.2.3", "no");
    match("x", "x={value}", "x=12ms", "no");
    match("x", "x={value}", "x=0x10", "no");
    match("x", "x={value}", "x=", "no");
    match("x", "x={value}.", "x=5.", "x=5");
}

static void backslashes_take_away_meaning(void **state)
{
    (void)state;
    match("x", "\\{a\\*\\} \\\\ {value}", "{a*} \\ 4", "x=4");
}

static void wrong_patterns_say_where(void **state)
{
    (void)state;
    refuse("x", "a={value", "character 3: { is never closed (for the character itself write \\{)");
    refuse("x", "a=}", "character 3: } without { (for the character itself write \\})");
    refuse("x", "a={}", "character 3: a name belongs between { and }");
    refuse("x", "a={value} b={value}", "character 13: this stands in the pattern twice");
    refuse("x", "{step}{value}", "character 7: something must stand between two things to read");
    refuse("x", "a={step}", "the pattern reads no metric: it has no {value}");
    refuse("x", "", "the pattern reads no metric: it has no {value}");
    refuse(NULL, "a={value}", "{value} of which metric? write its name in the braces");
    refuse("x", "{name} {loss}", "{name} needs {value}");
    refuse("x", "{value}\\", "character 8: \\ at the end");
    refuse("", "{value}", "the name of a metric has 1 to 100 characters");
    AUTO_STR struct str text = {0};
    for (int i = 0; i < 50; i++) {
        str_addf(&text, "{m%d}*", i);
    }
    refuse("x", str_text(&text), "character 183: the pattern has too many parts");
    str_add_repeat(&text, "x", 500);
    refuse("x", str_text(&text), "the pattern is longer than 512 characters");
}

/* Lines and patterns that make a backtracking matcher take minutes. */
static void hard_cases_take_no_time(void **state)
{
    (void)state;
    struct linepat *made = NULL;
    struct err err = {0};
    AUTO_STR struct str line = {0};
    struct record record;
    static const char *const patterns[] = {"*a*a*a*a*a*a*a*a*a*a*b{value}", "{value} {step}x",
                                           "  {value}  ", "1*1*1*1*1*1*1{value}!",
                                           "{name}={value}"};
    static const char *const pieces[] = {"a", "1", " ", "1 ", "aa ", "1e5"};
    for (size_t p = 0; p < sizeof pieces / sizeof pieces[0]; p++) {
        str_clear(&line);
        str_add_repeat(&line, pieces[p], 8192 / strlen(pieces[p]));
        for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
            assert_int_equal(linepat_create("x", patterns[i], &made, &err), ERR_OK);
            for (int round = 0; round < 20; round++) {
                record_clear(&record);
                (void)linepat_match(made, str_text(&line), line.size, &record);
            }
            linepat_destroy(made);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read_where_the_braces_stand),
        cmocka_unit_test(blanks_and_stars_are_wide),
        cmocka_unit_test(a_pattern_begins_at_a_word),
        cmocka_unit_test(a_number_is_whole_or_none),
        cmocka_unit_test(backslashes_take_away_meaning),
        cmocka_unit_test(wrong_patterns_say_where),
        cmocka_unit_test(hard_cases_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
