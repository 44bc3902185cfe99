#include "http/http_parse.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void path_is(const char *target, const char *expected)
{
    AUTO_STR struct str path = {0};
    const char *why = http_parse_path(target, &path);
    if (!expected) {
        assert_non_null(why);
        assert_int_equal(path.size, 0);
        return;
    }
    assert_null(why);
    assert_string_equal(str_text(&path), expected);
}

static void paths_are_decoded_and_made_plain(void **state)
{
    (void)state;
    path_is("/", "/");
    path_is("/a/b", "/a/b");
    path_is("/a/b/?x=1", "/a/b");
    path_is("//a///b//", "/a/b");
    path_is("/./a/./b/.", "/a/b");
    path_is("/a%20b/%C3%A4", "/a b/\xc3\xa4");
    path_is("/a%2Fb", "/a/b");
    path_is("/a#b", "/a");
    path_is("/a+b", "/a+b");
    path_is("/...", "/...");
    path_is("/..a/b..", "/..a/b..");
    path_is("http://host:80/a?b", "/a");
    path_is("HTTPS://host", "/");
    path_is("http://host?x", "/");
}

static void tricky_paths_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {
        "",        "a",    "*",       "?a",         "/..",       "/a/../b",    "/%2e%2e/a", "/.%2E",
        "/a%2f..", "/%00", "/a%",     "/a%2",       "/a%zz",     "/a%0a",      "/a%7f",     "/\x01",
        "/%ff",    "/%c3", "/%c0%ae", "/%ed%a0%80", "ftp://x/a", "/%2e%2e%2f", "/%%32%65"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        path_is(bad[i], NULL);
    }
}

static void value_is(const char *query, const char *key, unsigned index, const char *expected)
{
    char out[16];
    memset(out, 'x', sizeof out);
    bool found = http_parse_value(query, key, index, out, sizeof out);
    assert_int_equal(found, expected != NULL);
    assert_string_equal(out, expected ? expected : "");
}

static void values_of_a_query_are_found_and_decoded(void **state)
{
    (void)state;
    value_is("a=1&b=2", "a", 0, "1");
    value_is("a=1&b=2", "b", 0, "2");
    value_is("a=1&b=2", "c", 0, NULL);
    value_is("", "a", 0, NULL);
    value_is("a", "a", 0, "");
    value_is("a=", "a", 0, "");
    value_is("a=b=c", "a", 0, "b=c");
    value_is("a=x+y%20z", "a", 0, "x y z");
    value_is("%61=1", "a", 0, "1");
    value_is("a+b=1", "a b", 0, "1");
    value_is("a+b=1", "a+b", 0, NULL);
    value_is("aa=1&a=2", "a", 0, "2");
    value_is("set=k%3Dv&set=x%3D1", "set", 0, "k=v");
    value_is("set=k%3Dv&set=x%3D1", "set", 1, "x=1");
    value_is("set=k%3Dv&set=x%3D1", "set", 2, NULL);
    value_is("&&a=1&&", "a", 0, "1");
    value_is("a=%00", "a", 0, NULL);
    value_is("a=%4", "a", 0, NULL);
    value_is("a=%4&1=2", "a", 0, NULL);
    value_is("a=123456789012345", "a", 0, "123456789012345");
    value_is("a=1234567890123456", "a", 0, NULL);
    assert_string_equal(http_parse_query("/a?b?c"), "b?c");
    assert_string_equal(http_parse_query("/a"), "");
}

static void token_is(const char *header, const char *expected)
{
    size_t length = 99;
    const char *token = http_parse_bearer(header, &length);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(token, expected, length);
}

static void a_bearer_token_is_one_word(void **state)
{
    (void)state;
    token_is("Bearer abc", "abc");
    token_is("bearer   abc  ", "abc");
    token_is("Bearer abc def", "");
    token_is("Basic abc", "");
    token_is("Bearer", "");
    token_is("Bearer ", "");
    token_is("", "");
    assert_true(http_parse_method("GET"));
    assert_true(http_parse_method("PROPFIND"));
    assert_false(http_parse_method("get"));
    assert_false(http_parse_method(""));
    assert_false(http_parse_method("G T"));
    assert_false(http_parse_method("ABCDEFGHIJKLMNOPQ"));
}

/* Whatever was encoded comes back, wherever it stands in the query. */
static void random_values_come_back_as_they_were(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    print_message("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 2000; round++) {
        char value[40];
        size_t size = (size_t)rng_below(&rng, sizeof value);
        AUTO_STR struct str query = {0};
        str_add(&query, rng_below(&rng, 2) ? "other=%41&" : "");
        str_add(&query, "key=");
        for (size_t i = 0; i < size; i++) {
            value[i] = (char)(1 + rng_below(&rng, 255));
            str_addf(&query, "%%%02x", (unsigned)(unsigned char)value[i]);
        }
        str_add(&query, rng_below(&rng, 2) ? "&last" : "");
        char out[64];
        assert_true(http_parse_value(str_text(&query), "key", 0, out, sizeof out));
        assert_int_equal(strlen(out), size);
        assert_memory_equal(out, value, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_decoded_and_made_plain),
        cmocka_unit_test(tricky_paths_are_refused),
        cmocka_unit_test(values_of_a_query_are_found_and_decoded),
        cmocka_unit_test(a_bearer_token_is_one_word),
        cmocka_unit_test(random_values_come_back_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
