#include "base/mem.h"
#include "base/rng.h"
#include "recipe/yaml.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { HOSTILE_S = 5 }; /* of processor time; generous, for sanitizers */

struct reading {
    struct arena arena;
    struct diag_list diags;
    struct ynode *root;
    struct str text; /* the diagnoses, or the flattened tree */
};

static struct reading read_bytes(const char *text, size_t size)
{
    struct reading r = {.diags = {.file = "r"}};
    r.root = yaml_parse(&r.arena, text, size, &r.diags);
    if (r.root) {
        assert_int_equal(r.diags.count, 0);
        yaml_flatten(r.root, &r.text);
    } else {
        assert_true(r.diags.count > 0);
        diag_print(&r.diags, &r.text);
    }
    return r;
}

static void release(struct reading *r)
{
    arena_release(&r->arena);
    diag_release(&r->diags);
    str_release(&r->text);
}

static struct reading read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

static void expect_bytes(const char *text, size_t size, const char *expected)
{
    struct reading r = read_bytes(text, size);
    assert_string_equal(str_text(&r.text), expected);
    release(&r);
}

static void expect(const char *text, const char *expected)
{
    expect_bytes(text, strlen(text), expected);
}

static void test_scalars_are_typed_by_the_core_schema(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum ynode_type type;
    } cases[] = {
        {"yes", YTYPE_TEXT},     {"no", YTYPE_TEXT},         {"on", YTYPE_TEXT},
        {"true", YTYPE_BOOL},    {"FALSE", YTYPE_BOOL},      {"tRue", YTYPE_TEXT},
        {"~", YTYPE_NULL},       {"null", YTYPE_NULL},       {"Null", YTYPE_NULL},
        {"nULL", YTYPE_TEXT},    {"'null'", YTYPE_TEXT},     {"\"5\"", YTYPE_TEXT},
        {"5", YTYPE_INTEGER},    {"-5", YTYPE_INTEGER},      {"+5", YTYPE_INTEGER},
        {"0x1F", YTYPE_INTEGER}, {"0o17", YTYPE_INTEGER},    {"0o18", YTYPE_TEXT},
        {"0x", YTYPE_TEXT},      {"007", YTYPE_INTEGER},     {"1_000", YTYPE_INTEGER},
        {"1_00", YTYPE_TEXT},    {"2024_01", YTYPE_TEXT},    {"1_000_", YTYPE_TEXT},
        {"1.5", YTYPE_NUMBER},   {"1.", YTYPE_NUMBER},       {".5", YTYPE_NUMBER},
        {".", YTYPE_TEXT},       {"1e3", YTYPE_NUMBER},      {"1e", YTYPE_TEXT},
        {"1e-05", YTYPE_NUMBER}, {".inf", YTYPE_NUMBER},     {"-.INF", YTYPE_NUMBER},
        {".nan", YTYPE_NUMBER},  {"-.nan", YTYPE_TEXT},      {"inf", YTYPE_TEXT},
        {"0.1-0.3", YTYPE_TEXT}, {"0..99", YTYPE_TEXT},      {"1:30", YTYPE_TEXT},
        {"!!str 5", YTYPE_TEXT}, {"!!int 5", YTYPE_INTEGER}, {"!!float 5", YTYPE_NUMBER},
        {"! 5", YTYPE_TEXT},     {"!!null ''", YTYPE_NULL},  {"2026-01-01", YTYPE_TEXT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r = read_text(cases[i].text);
        assert_non_null(r.root);
        if (r.root->type != cases[i].type) {
            fail_msg("%s read as type %d", cases[i].text, (int)r.root->type);
        }
        release(&r);
    }
}

static void test_numbers_are_read_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool fits;
        int64_t value;
    } cases[] = {
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"0x7fffffffffffffff", true, INT64_MAX},
        {"0xFFFFFFFFFFFFFFFFF", false, 0},
        {"0o17", true, 15},
        {"12_345_678", true, 12345678},
        {"99999999999999999999999999999", false, 0},
        {"5.0", false, 0},
        {"'5'", false, 0},
        {"[5]", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reading r = read_text(cases[i].text);
        int64_t value = 0;
        assert_int_equal(yaml_as_i64(r.root, &value), cases[i].fits);
        assert_true(value == cases[i].value);
        release(&r);
    }
    struct reading r =
        read_text("[0x10, 1_000, -.inf, .nan, 1e400, 1e-3, x, 123456789012345678901]");
    double d = 0;
    assert_true(yaml_as_double(r.root->items[0], &d) && d == 16);
    assert_true(yaml_as_double(r.root->items[1], &d) && d == 1000);
    assert_true(yaml_as_double(r.root->items[2], &d) && isinf(d) && d < 0);
    assert_true(yaml_as_double(r.root->items[3], &d) && isnan(d));
    assert_true(yaml_as_double(r.root->items[4], &d) && isinf(d));
    assert_true(yaml_as_double(r.root->items[5], &d) && d == 1e-3);
    assert_false(yaml_as_double(r.root->items[6], &d));
    assert_true(yaml_as_double(r.root->items[7], &d) && d == 123456789012345678901.0);
    assert_false(yaml_as_double(r.root, &d));
    assert_false(yaml_as_i64(NULL, NULL));
    assert_false(yaml_as_bool(r.root->items[6], NULL));
    release(&r);
}

static void test_places_are_exact(void **state)
{
    (void)state;
    struct reading r = read_text("a:\n  b: [1, x]\n  é: y\n");
    assert_non_null(r.root);
    const struct ynode *a = yaml_get(r.root, "a");
    const struct ynode *b = yaml_get(a, "b");
    assert_int_equal(a->line, 2);
    assert_int_equal(a->column, 3);
    assert_int_equal(b->items[1]->line, 2);
    assert_int_equal(b->items[1]->column, 10);
    assert_int_equal(a->keys[1]->line, 3);
    assert_int_equal(yaml_get(a, "é")->column, 6);
    assert_null(yaml_get(a, "c"));
    assert_null(yaml_get(b, "c"));
    release(&r);
}

static void test_mistakes_are_told_in_plain_words(void **state)
{
    (void)state;
    expect("", "r:1:1: this is empty\n");
    expect("# only a comment\n", "r:1:1: this is empty\n");
    expect("a: 1\na: 2\nb: 1\nb: 2\n", "r:2:1: duplicate key 'a' (first at line 1)\n"
                                       "r:4:1: duplicate key 'b' (first at line 3)\n");
    expect("a: 1\n\tb: 2\n", "r:2:1: a tab cannot be used for indentation; use spaces\n");
    expect("a: @b\n", "r:1:4: '@' cannot begin a value; put the text in quotes\n");
    expect("a: b: c\n", "r:1:5: a ':' is not allowed here; check the indentation, or put the text "
                        "in quotes\n");
    expect("a: 1\nb\nc: 2\n", "r:2:1: expected 'key: value' here; is a ':' missing?\n");
    expect("a: 'x\nb: 2\n", "r:1:4: this quote is never closed\n");
    expect("a: {{lr}}\n", "r:1:5: a value that begins with {{ must be in quotes\n");
    expect("? [a]\n: b\n", "r:1:3: a key must be plain text, not a list or mapping\n");
    expect("a: [1, 2\nb: 3\n", "r:2:2: expected ',' or ']' in the list\n");
    expect("a: {b: echo {{x}}}\n", "r:1:13: expected ',' or '}' in the mapping; a text with "
                                   "{{...}} in it needs quotes here\n");
    expect("?\n: b\n", "r:1:2: a key is missing before ':'\n");
    expect("a: 1\n---\nb: 2\n", "r:2:1: a second document begins here; a recipe is one document\n");
    expect("a: !foo 1\nb: !!set {}\n", "r:1:4: unknown tag '!foo'\n"
                                       "r:2:4: unknown tag 'tag:yaml.org,2002:set'\n");
    expect("a: !x!y 1\n", "r:1:4: unknown tag\n");
    expect("a: !!int x\n", "r:1:4: the value does not fit its tag\n");
    expect("a: *b\n", "r:1:4: no anchor '&b' stands above\n");
    expect("a: &a [*a]\n", "r:1:8: an alias cannot stand inside what it refers to\n");
    expect("a: &x b\n*x : c\n", "r:2:1: an alias cannot be a key\n");
    expect("a: \"\\q\"\n",
           "r:1:5: unknown escape after '\\' in \"...\"; write '\\\\', or use single quotes\n");
    expect("a: \"x\\0y\"\n", "r:1:4: a NUL byte is not allowed\n");
    expect("<<: 5\n", "r:1:5: <<: takes a mapping or a list of mappings\n");
}

static void test_bytes_that_are_not_text_are_refused(void **state)
{
    (void)state;
    expect_bytes("a: 1\nb: \0\n", 10, "r:2:4: a NUL byte is not allowed\n");
    expect("a: \xff\n", "r:1:4: this is not UTF-8 text\n");
    expect("é: \xc0\x80\n", "r:1:4: this is not UTF-8 text\n");
    expect("a: \x1b[31m\n", "r:1:4: a control character is not allowed\n");
    expect_bytes("\xff\xfe"
                 "a\0",
                 4, "r:1:1: this is UTF-16 text; save it as UTF-8\n");
    expect("\xef\xbb\xbf"
           "a: 1\n",
           "a: 1\n");
}

static void test_anchors_and_merges_are_expanded(void **state)
{
    (void)state;
    expect("base: &b {x: 1, y: 2}\nm: {<<: *b, y: 3}\n", "base.x: 1\nbase.y: 2\nm.x: 1\nm.y: 3\n");
    expect("p: &p {x: 1}\nq: &q {x: 2, y: 2}\nm: {<<: [*p, *q], z: 3}\n",
           "m.x: 1\nm.y: 2\nm.z: 3\np.x: 1\nq.x: 2\nq.y: 2\n");
    expect("a: &v 1\nb: *v\nc: &v 2\nd: *v\n", "a: 1\nb: 1\nc: 2\nd: 2\n");
    expect("a: &v [&v 7]\nb: *v\n", "a[0]: 7\nb: 7\n");
}

static void test_flattening_keeps_the_meaning_and_nothing_else(void **state)
{
    (void)state;
    expect("b: 'x'\na: {d: [1, \"1\", ~], c: {}}\n", "a.c: {}\na.d[0]: 1\na.d[1]: \"1\"\n"
                                                     "a.d[2]: null\nb: x\n");
    expect("{a: {c: {}, d: [1, '1', null]}, b: \"x\"} # same\n",
           "a.c: {}\na.d[0]: 1\na.d[1]: \"1\"\na.d[2]: null\nb: x\n");
    expect("a.b: 1\n'': []\n\"q\\\"\": |\n  two\n  lines\n",
           "\"\": []\n\"a.b\": 1\n\"q\\\"\": \"two\\nlines\\n\"\n");
    expect("a: '[]'\nb: ' x'\nc: '~'\nd: ''\n", "a: \"[]\"\nb: \" x\"\nc: \"~\"\nd: \"\"\n");
    expect("experiments: {z: {parameters: {lr: 1, batch: 2}, command: x}, a: {}}\n",
           "experiments: [z, a]\nexperiments.a: {}\nexperiments.z.command: x\n"
           "experiments.z.parameters: [lr, batch]\nexperiments.z.parameters.batch: 2\n"
           "experiments.z.parameters.lr: 1\n");
    expect("[{a: 1}, [2]]", "[0].a: 1\n[1][0]: 2\n");
}

static void test_a_difference_shows_both_sides(void **state)
{
    (void)state;
    struct str out = {0};
    yaml_difference("a: 1\nb[2]: x\nb[10]: y\nc: 3\n", "a: 1\nb[2]: z\nb[10]: y\n\"d: e\": 4\n",
                    &out);
    assert_string_equal(str_text(&out), "+ \"d: e\": 4\n- b[2]: x\n+ b[2]: z\n- c: 3\n");
    str_clear(&out);
    yaml_difference("a: 1\n", "a: 1\n", &out);
    assert_int_equal(out.size, 0);
    yaml_difference("", "l[10]: a\nl[9]: b\n", &out);
    assert_string_equal(str_text(&out), "+ l[9]: b\n+ l[10]: a\n");
    str_release(&out);
}

static void expect_set(const char *text, const char *path, const char *value, const char *expected)
{
    struct reading r = read_text(text);
    assert_non_null(r.root);
    str_clear(&r.text);
    if (yaml_set(&r.arena, r.root, path, value, &r.diags)) {
        yaml_flatten(r.root, &r.text);
    } else {
        diag_print(&r.diags, &r.text);
    }
    assert_string_equal(str_text(&r.text), expected);
    release(&r);
}

static void test_a_value_can_be_set_by_its_path(void **state)
{
    (void)state;
    expect_set("a: {b: 1}\n", "a.b", "2", "a.b: 2\n");
    expect_set("a: {b: 1}\n", "a.c.d", "[x, 'y z']", "a.b: 1\na.c.d[0]: x\na.c.d[1]: y z\n");
    expect_set("a:\n", "a.b", "", "a.b: null\n");
    expect_set("x: &x {k: 1}\ny: *x\n", "y.k", "2", "x.k: 1\ny.k: 2\n");
    expect_set("a: 1\n", "a.b", "2", "r: --set: a.b: 'a' is a single value, not a mapping\n");
    expect_set("a: [1]\n", "a.b.c", "2", "r: --set: a.b.c: 'a' is a list, not a mapping\n");
    expect_set("[1]\n", "a", "2", "r: --set: a: '' is a list, not a mapping\n");
    expect_set("a: 1\n", "a", "[1", "r: --set: a: expected ',' or ']' in the list\n");
    expect_set("a: 1\n", "a..b", "1", "r: --set: a..b: the path has an empty part\n");
    expect_set("a: 1\n", "", "1", "r: --set: : the path has an empty part\n");
    struct str deep = {0};
    str_add_repeat(&deep, "a.", 100);
    str_add(&deep, "a");
    struct reading r = read_text("a: 1");
    assert_false(yaml_set(&r.arena, r.root, str_text(&deep), "1", &r.diags));
    str_clear(&deep);
    str_add_repeat(&deep, "b.", 40);
    str_add(&deep, "b");
    struct str nested = {0};
    str_add_repeat(&nested, "[", 40);
    str_add_repeat(&nested, "]", 40);
    assert_false(yaml_set(&r.arena, r.root, str_text(&deep), str_text(&nested), &r.diags));
    assert_true(yaml_set(&r.arena, r.root, str_text(&deep), "1", &r.diags));
    str_release(&deep);
    str_release(&nested);
    release(&r);
}

/* str_add_repeat in larger steps: a hundred million calls take their time under a sanitizer. */
static void add_many(struct str *text, const char *part, size_t count)
{
    struct str chunk = {0};
    str_add_repeat(&chunk, part, 1000);
    str_add_repeat(text, str_text(&chunk), count / 1000);
    str_add_repeat(text, part, count % 1000);
    str_release(&chunk);
}

static void expect_quick_failure(struct str *text, const char *needle)
{
    clock_t start = clock();
    struct reading r = read_bytes(str_text(text), text->size);
    clock_t took = clock() - start;
    if (needle) {
        assert_null(r.root);
        if (!strstr(str_text(&r.text), needle)) {
            fail_msg("expected '%s' in '%s'", needle, str_text(&r.text));
        }
    }
    assert_true(took < HOSTILE_S * CLOCKS_PER_SEC);
    release(&r);
    str_release(text);
}

static void test_hostile_text_is_bounded_in_time_and_space(void **state)
{
    (void)state;
    struct str text = {0};
    add_many(&text, "x", 100 << 20);
    expect_quick_failure(&text, "larger than 8 MiB");
    add_many(&text, "[", 100000);
    expect_quick_failure(&text, "nested more than 64");
    add_many(&text, "- ", 100000);
    expect_quick_failure(&text, "nested more than 64");
    add_many(&text, "{a: ", 100000);
    expect_quick_failure(&text, "nested more than 64");
    for (size_t i = 0; i < 2000; i++) {
        add_many(&text, " ", i);
        str_add(&text, "a:\n");
    }
    expect_quick_failure(&text, "nested more than 64");
    add_many(&text, "%TAG !a! b\n", 700000);
    expect_quick_failure(&text, "too many lines that begin with %");
    add_many(&text, "? ", 4000000);
    expect_quick_failure(&text, "");
    str_add(&text, "a: \"");
    add_many(&text, "\\n", 4000000);
    str_add(&text, "\"");
    expect_quick_failure(&text, NULL);
    add_many(&text, "[],", 2500000);
    expect_quick_failure(&text, "");
    str_add(&text, "[");
    add_many(&text, "a,", 4000000);
    expect_quick_failure(&text, "more than 1000000 values");
    add_many(&text, "\n", 8000000);
    expect_quick_failure(&text, "empty");
    add_many(&text, "# \n", 2700000);
    expect_quick_failure(&text, "empty");
    add_many(&text, "--- \n", 1600000);
    expect_quick_failure(&text, "second document");
}

static void test_many_keys_and_anchors_stay_quick(void **state)
{
    (void)state;
    struct str text = {0};
    for (int i = 0; i < 300000; i++) {
        str_addf(&text, "k%d: 1\n", i);
    }
    expect_quick_failure(&text, NULL);
    for (int i = 0; i < 300000; i++) {
        str_addf(&text, "- &a%d x\n- *a%d\n", i, i);
    }
    expect_quick_failure(&text, NULL);
    add_many(&text, "same: 1\n", 400000);
    expect_quick_failure(&text, "duplicate key");
}

static void test_a_billion_laughs_is_one_error(void **state)
{
    (void)state;
    struct str text = {0};
    str_add(&text, "a0: &a0 lol\n");
    for (int i = 1; i < 30; i++) {
        str_addf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++) {
            str_addf(&text, "*a%d,", i - 1);
        }
        str_add(&text, "]\n");
    }
    expect_quick_failure(&text, "more than 1000000 values");
    str_add(&text, "a: &a "); /* few nodes, many bytes */
    add_many(&text, "x", 1 << 20);
    str_add(&text, "\nb: [");
    add_many(&text, "*a,", 500000);
    str_add(&text, "]\n");
    expect_quick_failure(&text, "more than 64 MiB");
    str_add(&text, "- &a0 x\n"); /* deep only by aliases */
    for (int i = 1; i < 1300; i++) {
        str_addf(&text, "- &a%d [*a%d]\n", i, i - 1);
    }
    expect_quick_failure(&text, "nested more than 64");
    str_add(&text, "m0: &m0 {k: v}\n"); /* merges that double */
    for (int i = 1; i < 40; i++) {
        str_addf(&text, "m%d: &m%d {<<: [*m%d, *m%d], x%d: 1}\n", i, i, i - 1, i - 1, i);
    }
    expect_quick_failure(&text, NULL);
    str_add(&text, "big: &b {");
    for (int i = 0; i < 1000; i++) {
        str_addf(&text, "k%d: 1,", i);
    }
    str_add(&text, "}\n");
    for (int i = 0; i < 2000; i++) {
        str_addf(&text, "m%d: {<<: *b}\n", i);
    }
    expect_quick_failure(&text, "more than 1000000 values");
}

/* Any bytes at all: a tree or a diagnosis, and never both. */
static void test_random_bytes_never_crash(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "a",   ": ", "\n", "  ",  "- ", "[",   "]", "{",  "}",     ", ",   "&a ", "*a",
        "<<:", "'",  "\"", "|\n", "? ", "!t ", "#", "\t", "---\n", "%TAG", "\\",  "\xc3\xa9"};
    uint64_t seed = 20261115;
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 20000; round++) {
        struct str text = {0};
        for (uint64_t n = rng_below(&rng, 30); n > 0; n--) {
            str_add(&text, parts[rng_below(&rng, sizeof parts / sizeof parts[0])]);
        }
        struct reading r = read_bytes(str_text(&text), text.size);
        release(&r);
        str_release(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalars_are_typed_by_the_core_schema),
        cmocka_unit_test(test_numbers_are_read_or_refused),
        cmocka_unit_test(test_places_are_exact),
        cmocka_unit_test(test_mistakes_are_told_in_plain_words),
        cmocka_unit_test(test_bytes_that_are_not_text_are_refused),
        cmocka_unit_test(test_anchors_and_merges_are_expanded),
        cmocka_unit_test(test_flattening_keeps_the_meaning_and_nothing_else),
        cmocka_unit_test(test_a_difference_shows_both_sides),
        cmocka_unit_test(test_a_value_can_be_set_by_its_path),
        cmocka_unit_test(test_hostile_text_is_bounded_in_time_and_space),
        cmocka_unit_test(test_many_keys_and_anchors_stay_quick),
        cmocka_unit_test(test_a_billion_laughs_is_one_error),
        cmocka_unit_test(test_random_bytes_never_crash),
    };
    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
