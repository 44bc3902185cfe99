#include "cli/curve_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct err err;
static struct curve_counts counts;

static enum err_code parse(const char *text, const struct curve_columns *columns,
                           struct curve_set *set)
{
    static const struct curve_columns usual = {0};
    *set = (struct curve_set){0};
    counts = (struct curve_counts){0};
    struct curve_text input = {.file = "f", .text = text, .size = strlen(text)};
    enum err_code code = curve_files_parse(&input, columns ? columns : &usual, set, &counts, &err);
    if (code == ERR_OK) {
        curve_set_finish(set);
    }
    return code;
}

static void test_csv_and_json_say_the_same(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "run,step,time,accuracy,type,batch\na,2,20,0.5,p2,64\na,1,10,0.25,p2,64\n",
        "[{\"run\":\"a\",\"step\":2,\"time\":20,\"accuracy\":0.5,\"type\":\"p2\",\"batch\":64},\n"
        " {\"run\":\"a\",\"step\":1,\"time\":1e1,\"accuracy\":2.5e-1,\"type\":\"p2\",\"batch\":64}]"
        "\n",
        "{\"run\":\"a\",\"step\":2,\"time\":20,\"accuracy\":0.5,\"type\":\"\\u0070\\u0032\","
        "\"batch\":64,\"x\":[1,{\"y\":\"]}\"}]}\n\n"
        "{\"run\":\"a\",\"step\":1,\"time\":10,\"accuracy\":0.25,\"type\":\"p2\",\"batch\":64}",
    };
    for (size_t i = 0; i < 3; i++) {
        struct curve_set set;
        assert_int_equal(parse(texts[i], NULL, &set), ERR_OK);
        assert_int_equal(set.count, 1);
        assert_string_equal(set.runs[0].run, "a");
        assert_string_equal(set.runs[0].type, "p2");
        assert_true(set.runs[0].batch == 64);
        assert_true(set.runs[0].has_time);
        assert_true(set.runs[0].points[0].metric == 0.25);
        assert_true(set.runs[0].points[1].time_s == 20);
        assert_string_equal(counts.metric, "accuracy");
        curve_set_release(&set);
    }
}

static void test_columns_may_have_any_name(void **state)
{
    (void)state;
    struct curve_set set;
    struct curve_columns columns = {.names = {[ROLE_STEP] = "k", [ROLE_METRIC] = "f1"},
                                    .time_unit_s = 3600};
    assert_int_equal(parse("k,step,f1,loss,elapsed\n7,1,0.5,9,2\n", &columns, &set), ERR_OK);
    assert_true(set.runs[0].points[0].step == 7);
    assert_true(set.runs[0].points[0].metric == 0.5);
    assert_true(set.runs[0].points[0].time_s == 7200);
    assert_string_equal(set.runs[0].run, "1");
    assert_true(isnan(set.runs[0].batch));
    curve_set_release(&set);
}

static void test_a_wide_table_has_a_curve_in_each_row(void **state)
{
    (void)state;
    struct curve_set set;
    struct curve_columns columns = {.wide = "v"};
    assert_int_equal(parse("lr,v0,v1,v10,vx\n0.1,1,2,3,9\n0.2,4,,6,9\n", &columns, &set), ERR_OK);
    assert_int_equal(set.count, 2);
    assert_int_equal(set.runs[0].count, 3);
    assert_true(set.runs[0].points[2].step == 10);
    assert_int_equal(set.runs[1].count, 2);
    assert_int_equal(counts.skipped, 1);
    curve_set_release(&set);
}

static void test_wrong_input_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } cases[] = {
        {"step,metric\n1,nan\n", "f:2: metric: 'nan' is not a finite number"},
        {"step,metric\n1,1\n2,1e400\n", "f:3: metric: '1e400' is not a finite number"},
        {"step,metric\n1,1e308\n", "f:2: metric 1e+308 is too large"},
        {"step,metric\n-1,1\n", "f:2: step -1 is negative"},
        {"step,metric\n,1\n", "f:2: step is missing"},
        {"step,metric\n0x10,1\n", "f:2: step: '0x10' is not a finite number"},
        {"step,time,metric\n1,-5,1\n", "f:2: time -5 is negative"},
        {"step,batch,metric\n1,many,1\n", "f:2: batch: 'many' is not a finite number"},
        {"a,b\n1,2\n", "f: no column 'step' (there are: a, b)"},
        {"step,b\n1,2\n", "f: no column 'metric' (there are: step, b)"},
        {"{\"step\":1,\"metric\":NaN}", "f:1: metric: 'NaN' is not a finite number"},
        {"{\"step\":1}", "f:1: no member 'metric' (there are: step)"},
        {"[{\"step\":1,\"metric\":1}", "f:1: expected ',' or ']'"},
        {"[{\"step\":1,\"metric\":1},]", "f:1: expected an object"},
        {"[{\"step\":1,\"metric\":1}]x", "f:1: something follows the array"},
        {"{\"step\":1,\n\"metric\":1", "f:2: expected ',' or '}'"},
        {"{\"step\":\"\\ud800\"}", "f:1: a wrong escape in a string"},
        {"{\"step\":1} 7", "f:1: no member 'metric' (there are: step)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct curve_set set;
        err.text[0] = '\0';
        assert_int_equal(parse(cases[i].text, NULL, &set), ERR_INVALID);
        assert_string_equal(err.text, cases[i].why);
        curve_set_release(&set);
    }
}

static void test_bad_points_are_passed_over_when_asked(void **state)
{
    (void)state;
    struct curve_set set;
    struct curve_columns columns = {.skip_bad = true};
    assert_int_equal(parse("step,metric\n1,nan\n2,5\n3,1e308\n4,-inf\n5,\n", &columns, &set),
                     ERR_OK);
    assert_int_equal(set.runs[0].count, 1);
    assert_int_equal(counts.skipped, 4);
    curve_set_release(&set);
}

static void test_brackets_without_end_are_refused(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    static char text[DEEP + 20];
    snprintf(text, sizeof text, "{\"a\":");
    memset(text + 5, '[', DEEP);
    struct curve_set set;
    assert_int_equal(parse(text, NULL, &set), ERR_INVALID);
    assert_string_equal(err.text, "f:1: nested too deep");
    curve_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv_and_json_say_the_same),
        cmocka_unit_test(test_columns_may_have_any_name),
        cmocka_unit_test(test_a_wide_table_has_a_curve_in_each_row),
        cmocka_unit_test(test_wrong_input_is_named_with_its_place),
        cmocka_unit_test(test_bad_points_are_passed_over_when_asked),
        cmocka_unit_test(test_brackets_without_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
