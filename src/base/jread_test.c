#include "base/jread.h"
#include "base/json.h"
#include "base/rng.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void parse(struct jread *doc, const char *text)
{
    struct err err = {0};
    enum err_code code = jread_parse(doc, text, strlen(text), &err);
    if (code != ERR_OK) {
        fail_msg("%s: %s", text, err.text);
    }
}

static void test_values_are_found_by_key(void **state)
{
    (void)state;
    struct jread doc = {0};
    parse(&doc, " { \"a\" : 1 , \"b\":\"x\\u00e9\\n\\ud83d\\ude00\", \"c\":[true,false,null],"
                "\"d\":{\"e\":-1.5e3}, \"a\":2 } ");
    assert_int_equal(jread_u64(doc.root, "a", 0), 1); /* the first of two */
    assert_string_equal(jread_text(doc.root, "b", ""), "x\xc3\xa9\n\xf0\x9f\x98\x80");
    const struct jnode *list = jread_get(doc.root, "c");
    assert_int_equal(list->count, 3);
    assert_int_equal(jread_first(list)->kind, JREAD_BOOL);
    assert_true(jread_number(jread_get(doc.root, "d"), "e", 0) == -1500.0);
    jread_release(&doc);
}

static void test_what_is_missing_or_of_another_kind_reads_as_the_fallback(void **state)
{
    (void)state;
    struct jread doc = {0};
    parse(&doc,
          "{\"t\":\"7\",\"n\":-7,\"f\":1.5,\"z\":null,\"b\":true,\"big\":99999999999999999999}");
    assert_int_equal(jread_u64(doc.root, "t", 9), 9);
    assert_int_equal(jread_u64(doc.root, "n", 9), 9);
    assert_int_equal(jread_u64(doc.root, "f", 9), 9);
    assert_int_equal(jread_u64(doc.root, "z", 9), 9);
    assert_int_equal(jread_u64(doc.root, "big", 9), 9);
    assert_int_equal(jread_u64(doc.root, "none", 9), 9);
    assert_string_equal(jread_text(doc.root, "n", "no"), "no");
    assert_string_equal(jread_text(NULL, "n", "no"), "no");
    assert_true(jread_bool(doc.root, "b", false));
    assert_true(jread_bool(doc.root, "t", true));
    assert_null(jread_get(jread_get(doc.root, "n"), "x"));
    assert_null(jread_first(jread_get(doc.root, "n")));
    jread_release(&doc);
}

static void test_numbers_come_through_as_they_were_written(void **state)
{
    (void)state;
    static const char text[] = "{\"seed\":18446744073709551615,\"lr\":0.033828749538297564,"
                               "\"e\":1e-7,\"s\":\"a\\/\\\"\\u0001\",\"o\":{},\"l\":[]}";
    struct jread doc = {0};
    struct str out = {0};
    parse(&doc, text);
    assert_true(jread_u64(doc.root, "seed", 0) == UINT64_MAX);
    jread_add(&out, doc.root);
    assert_string_equal(str_text(&out), text);
    str_release(&out);
    jread_release(&doc);
}

static void test_what_is_not_json_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[1 2]",
        "{\"a\"}",
        "{a:1}",
        "{\"a\":1,}",
        "01",
        "1.",
        "-",
        "1e",
        "+1",
        "tru",
        "nulll",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\n\"",
        "\"\xff\"",
        "\"\\ud800\"",
        "[1]]",
        "{\"a\":1}x",
        "'a'",
        "\"\\u",
        "\"\\",
        "[\"a\":1]",
        "\xef\xbb\xbf{}",
        "\"\\ud800\\u0041\"",
        "NaN",
        "[1,,2]",
        "\"\\udc00\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct jread doc = {0};
        struct err err = {0};
        assert_int_equal(jread_parse(&doc, wrong[i], strlen(wrong[i]), &err), ERR_INVALID);
        assert_null(doc.root);
        assert_true(err.text[0] != '\0');
    }
    struct jread doc = {0};
    assert_int_equal(jread_parse(&doc, "\"a\0b\"", 5, NULL), ERR_INVALID);
}

static void test_depth_has_a_bound(void **state)
{
    (void)state;
    struct str text = {0};
    struct jread doc = {0};
    str_add_repeat(&text, "[", JREAD_DEPTH_MAX);
    str_add_repeat(&text, "]", JREAD_DEPTH_MAX);
    assert_int_equal(jread_parse(&doc, str_text(&text), text.size, NULL), ERR_OK);
    jread_release(&doc);
    str_clear(&text);
    str_add_repeat(&text, "[", 1000000);
    assert_int_equal(jread_parse(&doc, str_text(&text), text.size, NULL), ERR_INVALID);
    str_release(&text);
}

static void add_random_text(struct str *text, struct rng *rng)
{
    static const char *const parts[] = {
        "a", "\"", "\\", "\n", "\t", "\x01", "\xc3\xa9", "\xf0\x9f\x98\x80",
        "/", "{",  "]",  " ",  ","};
    for (uint64_t i = rng_below(rng, 6); i > 0; i--) {
        str_add(text, parts[rng_below(rng, sizeof parts / sizeof parts[0])]);
    }
}

static void add_random_value(struct json *json, struct rng *rng, int depth)
{
    struct str text = {0};
    switch (rng_below(rng, depth < 5 ? 7 : 5)) {
    case 0:
        json_null(json);
        break;
    case 1:
        json_bool(json, rng_below(rng, 2) == 0);
        break;
    case 2:
        json_u64(json, rng_next(rng));
        break;
    case 3:
        json_double(json, rng_unit(rng) * 1e6 - 5e5);
        break;
    case 4:
        add_random_text(&text, rng);
        json_bytes(json, str_text(&text), text.size);
        break;
    default: {
        bool object = rng_below(rng, 2) == 0;
        (object ? json_object : json_array)(json);
        for (uint64_t i = rng_below(rng, 5); i > 0; i--) {
            str_clear(&text);
            add_random_text(&text, rng);
            if (object) {
                json_key(json, str_text(&text));
            }
            add_random_value(json, rng, depth + 1);
        }
        json_end(json);
    }
    }
    str_release(&text);
}

/* Our own writer is the model: what it writes is read and written again word for word. */
static void test_what_our_writer_writes_comes_back_word_for_word(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int i = 0; i < 2000; i++) {
        struct str text = {0};
        struct str again = {0};
        struct jread doc = {0};
        struct json json = {.out = &text};
        add_random_value(&json, &rng, 0);
        parse(&doc, str_text(&text));
        jread_add(&again, doc.root);
        assert_string_equal(str_text(&again), str_text(&text));
        jread_release(&doc);
        str_release(&text);
        str_release(&again);
    }
}

static void test_a_terminal_cannot_be_steered(void **state)
{
    (void)state;
    struct str out = {0};
    jread_add_clean(&out, "a\033[31m\n\x7f\xc2\x9b"
                          "b\xff\xc3\xa9");
    assert_string_equal(str_text(&out), "a?[31m???b?\xc3\xa9");
    str_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_found_by_key),
        cmocka_unit_test(test_what_is_missing_or_of_another_kind_reads_as_the_fallback),
        cmocka_unit_test(test_numbers_come_through_as_they_were_written),
        cmocka_unit_test(test_what_is_not_json_is_refused),
        cmocka_unit_test(test_depth_has_a_bound),
        cmocka_unit_test(test_what_our_writer_writes_comes_back_word_for_word),
        cmocka_unit_test(test_a_terminal_cannot_be_steered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
