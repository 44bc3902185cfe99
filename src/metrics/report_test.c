#include "metrics/report.h"

#include "base/io.h"
#include "metrics/jsonl.h"
#include "metrics/lines.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void refuse(const char *first, const char *second, const char *why)
{
    struct record record;
    struct err err = {0};
    record_clear(&record);
    if (second) {
        assert_int_equal(report_add(&record, first, &err), ERR_OK);
    }
    assert_int_equal(report_add(&record, second ? second : first, &err), ERR_INVALID);
    assert_string_equal(err.text, why);
}

static void make(const char *const *pairs, struct str *out)
{
    struct record record;
    struct err err = {0};
    record_clear(&record);
    for (; *pairs; pairs++) {
        if (report_add(&record, *pairs, &err) != ERR_OK) {
            fail_msg("%s", err.text);
        }
    }
    report_add_object(&record, 1700000000123, out);
}

static void pairs_become_an_object(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    const char *const pairs[] = {"accuracy=0.97", "step=3",  "a=b=-inf", "caf\xC3\xA9=nan",
                                 "p=12.5%",       "epoch=1", NULL};
    make(pairs, &out);
    assert_string_equal(str_text(&out),
                        "{\"step\":3,\"epoch\":1,\"accuracy\":0.97,\"a=b\":-Infinity,"
                        "\"caf\xC3\xA9\":NaN,\"p\":0.125,\"time\":1700000000.123}");
}

static void both_readers_understand_it(void **state)
{
    (void)state;
    AUTO_STR struct str object = {0};
    AUTO_STR struct str line = {0};
    AUTO_STR struct str out = {0};
    const char *const pairs[] = {"port=80", "step=3", "q\"\\\t=1", NULL};
    const char *const good[] = {"port=80", "step=3", "q\"\\=1", NULL};
    struct record record;
    record_clear(&record);
    assert_int_equal(report_add(&record, pairs[2], NULL), ERR_INVALID); /* a control character */
    make(good, &object);
    str_addf(&line, "drover: %s\n", str_text(&object));
    str_add_char(&object, '\n');
    struct metric_sink sink = testing_timed_sink(&out);
    struct lines *lines = lines_create();
    lines_feed(lines, line.text, line.size, 5, &sink);
    lines_destroy(lines);
    struct jsonl *jsonl = jsonl_create();
    jsonl_feed(jsonl, object.text, object.size, 5, &sink);
    jsonl_destroy(jsonl);
    assert_string_equal(str_text(&out), "port@3=80~1700000000123 q\"\\@3=1~1700000000123 "
                                        "port@3=80~1700000000123 q\"\\@3=1~1700000000123");
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    refuse("accuracy", NULL, "'accuracy' is not NAME=NUMBER");
    refuse("=5", NULL, "'=5' is not NAME=NUMBER");
    refuse("a=", NULL, "a: '' is not a number");
    refuse("a=high", NULL, "a: 'high' is not a number");
    refuse("a=0.5x", NULL, "a: '0.5x' is not a number");
    refuse("step=nan", NULL, "step: not a finite number");
    refuse("a=1", "a=2", "a is given twice");
    refuse("step=1", "step=2", "step is given twice");
    refuse(" a=1", NULL, "' a': a name has 1 to 100 characters, none of them a control character");
}

static void too_many_are_refused(void **state)
{
    (void)state;
    struct record record;
    struct err err = {0};
    char pair[20];
    record_clear(&record);
    for (int i = 0; i < RECORD_ITEMS_MAX; i++) {
        snprintf(pair, sizeof pair, "m%d=1", i);
        assert_int_equal(report_add(&record, pair, &err), ERR_OK);
    }
    assert_int_equal(report_add(&record, "x=1", &err), ERR_INVALID);
    assert_string_equal(err.text, "more than 64 metrics at once");
}

static void lines_are_appended(void **state)
{
    (void)state;
    AUTO_STR struct str folder = {0};
    AUTO_STR struct str path = {0};
    AUTO_STR struct str seen = {0};
    struct err err = {0};
    testing_folder(&folder);
    str_addf(&path, "%s/report", str_text(&folder));
    assert_int_equal(report_append(str_text(&path), "one\n", 4, &err), ERR_OK);
    assert_int_equal(report_append(str_text(&path), "two\n", 4, &err), ERR_OK);
    assert_int_equal(io_read_file(str_text(&path), 100, &seen, &err), ERR_OK);
    assert_string_equal(str_text(&seen), "one\ntwo\n");
    assert_int_equal(report_append(str_text(&folder), "x\n", 2, &err), ERR_IO);
    assert_int_equal(io_remove_tree(str_text(&folder), &err), ERR_OK);
    assert_int_equal(report_append(str_text(&path), "x\n", 2, &err), ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_become_an_object), cmocka_unit_test(both_readers_understand_it),
        cmocka_unit_test(what_is_wrong_is_said),  cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(lines_are_appended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
