#include "metrics/jsonl.h"

#include "base/rng.h"
#include "metrics/metrics_testing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void read_text(const char *text, size_t size, struct str *out, struct jsonl_faults *faults)
{
    struct metric_sink sink = testing_timed_sink(out);
    struct jsonl *jsonl = jsonl_create();
    jsonl_feed(jsonl, text, size, 7, &sink);
    jsonl_end(jsonl, 7, &sink);
    *faults = jsonl_faults(jsonl);
    jsonl_destroy(jsonl);
}

static void expect(const char *text, const char *expected, uint64_t fault_lines)
{
    AUTO_STR struct str out = {0};
    struct jsonl_faults faults;
    read_text(text, strlen(text), &out, &faults);
    if (strcmp(str_text(&out), expected) != 0 || faults.lines != fault_lines) {
        print_message("text: %s\n", text);
    }
    assert_string_equal(str_text(&out), expected);
    assert_int_equal(faults.lines, fault_lines);
}

static void every_number_of_an_object_is_a_metric(void **state)
{
    (void)state;
    expect("{\"step\":3,\"loss\":0.5,\"port\":80}\n", "loss@3=0.5~7 port@3=80~7", 0);
    expect("{\"epoch\":1.5,\"a\":-2e3}\n", "epoch@1.5=1.5~7 a@1.5=-2000~7", 0);
    expect("{\"epoch\":2}\n", "epoch@2=2~7", 0);
    expect("{\"a\":NaN,\"b\":-Infinity,\"c\":null,\"d\":true,\"e\":\"5\",\"f\":[1,2]}",
           "a=nan~7 b=-inf~7", 0);
    expect(" {\"val\" : {\"loss\" : 1 , \"x\":{\"y\":2}} } \r\n\n  \n", "val/loss=1~7 val/x/y=2~7",
           0);
    expect("{\"step\":1,\"global_step\":2,\"a\":1}\n", "a@1=1~7", 0);
    expect("{}\n", "", 0);
    expect("{\"a\":1,\"a\":2}\n", "a=2~7", 0);
    expect("{\"name\":\"f1\",\"value\":0.5,\"step\":2}\n", "f1@2=0.5~7", 0);
    expect("{\"value\":0.5}\n", "value=0.5~7", 0);
    expect("{\"caf\\u00e9 \\\"x\\\"\":1}\n", "caf\xC3\xA9 \"x\"=1~7", 0);
    expect("{\"\\ud83d\\ude00\":1,\"\\ud83d\":2}\n", "\xF0\x9F\x98\x80=1~7", 0);
}

static void the_time_of_an_object_is_its_own(void **state)
{
    (void)state;
    expect("{\"time\":1700000000.25,\"a\":1}\n", "a=1~1700000000250", 0);
    expect("{\"a\":1,\"_timestamp\":1700000000250}\n", "a=1~1700000000250", 0);
    expect("{\"a\":1,\"time\":12.5}\n", "a=1~7 time=12.5~7", 0);
    expect("{\"a\":1,\"ts\":\"2026-01-01\"}\n", "a=1~7", 0);
}

static void what_is_no_object_is_passed_over(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "hello",          "[1]",           "5",           "{\"a\":1",
        "{\"a\":1}}",     "{\"a\" 1}",     "{a:1}",       "{'a':1}",
        "{\"a\":}",       "{\"a\":1,}",    "{\"a\":0x1}", "{\"a\":1.2.3}",
        "{\"a\":tru}",    "{\"a\\q\":1}",  "{\"a\":1} x", "{\"a\nb\":1}",
        "{\"a\":\"\t\"}", "{\"\\u12\":1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        AUTO_STR struct str text = {0};
        AUTO_STR struct str out = {0};
        struct jsonl_faults faults;
        str_addf(&text, "{\"a\":1}\n%s\n{\"a\":2}\n", bad[i]);
        read_text(str_text(&text), text.size, &out, &faults);
        assert_string_equal(str_text(&out), "a=1~7 a=2~7");
        assert_int_equal(faults.first_line, 2);
        assert_false(faults.first_is_long);
    }
    expect("{\"a\\u0000\":1}\n{\"\":2}\n{\" b\":3}\n{\"c\":4}", "c=4~7", 0);
}

static void depth_and_length_have_bounds(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    str_add_repeat(&text, "{\"a\":", 1000);
    str_add(&text, "1");
    str_add_repeat(&text, "}", 1000);
    expect(str_text(&text), "", 1);
    str_clear(&text);
    str_add_repeat(&text, "[", 60000);
    expect(str_text(&text), "", 1);

    AUTO_STR struct str out = {0};
    struct jsonl_faults faults;
    str_clear(&text);
    str_add(&text, "{\"a\":\"");
    str_add_repeat(&text, "x", JSONL_LINE_MAX);
    str_add(&text, "\"}\n{\"b\":1}\n");
    read_text(str_text(&text), text.size, &out, &faults);
    assert_string_equal(str_text(&out), "b=1~7");
    assert_true(faults.first_is_long);

    str_clear(&text); /* more metrics than a record holds, and a name that is too long */
    str_add(&text, "{\"");
    str_add_repeat(&text, "n", METRIC_NAME_MAX + 1);
    str_add(&text, "\":1");
    for (int i = 0; i < 100; i++) {
        str_addf(&text, ",\"m%d\":%d", i, i);
    }
    str_add(&text, "}\n");
    str_clear(&out);
    read_text(str_text(&text), text.size, &out, &faults);
    assert_non_null(strstr(str_text(&out), "m63=63~7"));
    assert_null(strstr(str_text(&out), "m64=64~7"));
    assert_null(strstr(str_text(&out), "nnn"));
}

static void a_long_line_in_pieces_is_passed_over(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    AUTO_STR struct str piece = {0};
    struct metric_sink sink = testing_sink(&out);
    struct jsonl *jsonl = jsonl_create();
    str_add_repeat(&piece, "x", 1000);
    for (int i = 0; i < 100; i++) {
        jsonl_feed(jsonl, piece.text, piece.size, 0, &sink);
    }
    jsonl_feed(jsonl, "\n{\"a\":1}\n", 9, 0, &sink);
    assert_string_equal(str_text(&out), "a=1");
    assert_int_equal(jsonl_faults(jsonl).lines, 1);
    assert_true(jsonl_faults(jsonl).first_is_long);
    jsonl_destroy(jsonl);
}

static void a_torn_line_waits(void **state)
{
    (void)state;
    AUTO_STR struct str out = {0};
    struct metric_sink sink = testing_sink(&out);
    struct jsonl *jsonl = jsonl_create();
    jsonl_feed(jsonl, "{\"a\":1", 6, 0, &sink);
    assert_string_equal(str_text(&out), "");
    jsonl_feed(jsonl, "2}", 2, 0, &sink);
    assert_string_equal(str_text(&out), "");
    jsonl_feed(jsonl, "\n", 1, 0, &sink);
    assert_string_equal(str_text(&out), "a=12");
    jsonl_feed(jsonl, "{\"b\":", 5, 0, &sink);
    jsonl_end(jsonl, 0, &sink);
    assert_string_equal(str_text(&out), "a=12");
    assert_int_equal(jsonl_faults(jsonl).first_line, 2);
    jsonl_destroy(jsonl);
}

static void pieces_make_no_difference(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{\"a\":1}\n", "{\"step\":3,",  "\"b\":2.5}\n",          "\n",
        "junk",        "{\"c\":NaN}\n", "{\"d\":{\"e\":1}}\r\n", "{\"x\":\""};
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 2000; round++) {
        AUTO_STR struct str text = {0};
        AUTO_STR struct str whole = {0};
        AUTO_STR struct str cut = {0};
        for (uint64_t i = rng_below(&rng, 30); i > 0; i--) {
            str_add(&text, parts[rng_below(&rng, sizeof parts / sizeof parts[0])]);
        }
        struct jsonl_faults faults;
        read_text(str_text(&text), text.size, &whole, &faults);
        struct metric_sink sink = testing_timed_sink(&cut);
        struct jsonl *jsonl = jsonl_create();
        for (size_t at = 0; at < text.size;) {
            size_t size = 1 + rng_below(&rng, 10);
            size = size < text.size - at ? size : text.size - at;
            jsonl_feed(jsonl, str_text(&text) + at, size, 7, &sink);
            at += size;
        }
        jsonl_end(jsonl, 7, &sink);
        assert_string_equal(str_text(&whole), str_text(&cut));
        assert_int_equal(jsonl_faults(jsonl).lines, faults.lines);
        assert_int_equal(jsonl_faults(jsonl).first_line, faults.first_line);
        jsonl_destroy(jsonl);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_an_object_is_a_metric),
        cmocka_unit_test(the_time_of_an_object_is_its_own),
        cmocka_unit_test(what_is_no_object_is_passed_over),
        cmocka_unit_test(depth_and_length_have_bounds),
        cmocka_unit_test(a_long_line_in_pieces_is_passed_over),
        cmocka_unit_test(a_torn_line_waits),
        cmocka_unit_test(pieces_make_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
