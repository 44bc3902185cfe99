#include "recipe/space_fixture.h"

#include "base/json.h"

/* The whole grid of a space as lines. */
static void list_grid(const char *yaml, struct str *out)
{
    AUTO_STR struct str line = {0};
    struct fixture f;
    fixture_good(&f, yaml);
    str_clear(out);
    for (uint64_t i = 0; i < f.size; i++) {
        fixture_draw(&f, 0, false, i, &line);
        str_addf(out, "%s\n", str_text(&line));
    }
    fixture_release(&f);
}

static void assert_grid(const char *yaml, const char *want)
{
    AUTO_STR struct str out = {0};
    list_grid(yaml, &out);
    assert_string_equal(str_text(&out), want);
}

static void test_values_keep_their_text(void **state)
{
    (void)state;
    assert_grid("parameters: {a: {values: [1e-3, \"01\", true, x y, 0x1F, '']}}",
                "a=1e-3\na=01\na=true\na=x y\na=0x1F\na=\n");
    assert_grid("parameters: {a: [64, 128]}", "a=64\na=128\n");
    assert_grid("parameters: {a: 0.10}", "a=0.10\n");
    assert_grid("parameters: {a: hello}", "a=hello\n");
    assert_grid("parameters: {a: {values: ../data}}", "a=../data\n");
}

static void test_value_ranges(void **state)
{
    (void)state;
    assert_grid("parameters: {a: 0..3}", "a=0\na=1\na=2\na=3\n");
    assert_grid("parameters: {a: {values: 0..1 step 0.5}}", "a=0\na=0.5\na=1\n");
    assert_grid("parameters: {a: {values: 3..1 step -1}}", "a=3\na=2\na=1\n");
    assert_grid("parameters: {a: -1..1}", "a=-1\na=0\na=1\n");
}

static void test_no_parameters_make_one_combination(void **state)
{
    (void)state;
    assert_grid("{}", "\n");
    assert_grid("parameters: {}", "\n");
    assert_grid("parameters:\n", "\n");
}

static void test_the_last_parameter_varies_fastest(void **state)
{
    (void)state;
    assert_grid("parameters: {a: [1, 2], b: [x, y, z]}",
                "a=1 b=x\na=1 b=y\na=1 b=z\na=2 b=x\na=2 b=y\na=2 b=z\n");
}

static void test_zipped_parameters_move_together(void **state)
{
    (void)state;
    assert_grid("{parameters: {a: [1, 2], b: [x, y], c: 5..6}, zip: [a, c]}",
                "a=1 b=x c=5\na=1 b=y c=5\na=2 b=x c=6\na=2 b=y c=6\n");
    assert_grid("{parameters: {a: [1, 2], b: [x, y], c: [p, q], d: [r, s]}, zip: [[a, b], [d, c]]}",
                "a=1 b=x c=p d=r\na=1 b=x c=q d=s\na=2 b=y c=p d=r\na=2 b=y c=q d=s\n");
}

static void test_absent_parameters_do_not_multiply(void **state)
{
    (void)state;
    assert_grid("parameters:\n"
                "  opt: [sgd, adam]\n"
                "  momentum: {values: [0.5, 0.9], when: opt == sgd}\n"
                "  nesterov: {values: [true, false], when: momentum > 0.6}\n"
                "  batch: [1, 2]\n",
                "opt=sgd momentum=0.5 batch=1\nopt=sgd momentum=0.5 batch=2\n"
                "opt=sgd momentum=0.9 nesterov=true batch=1\n"
                "opt=sgd momentum=0.9 nesterov=true batch=2\n"
                "opt=sgd momentum=0.9 nesterov=false batch=1\n"
                "opt=sgd momentum=0.9 nesterov=false batch=2\n"
                "opt=adam batch=1\nopt=adam batch=2\n");
    assert_grid("parameters: {m: {values: [1, 2], when: {o: [a, b]}}, o: [a, b, c]}",
                "m=1 o=a\nm=2 o=a\nm=1 o=b\nm=2 o=b\no=c\n");
}

static void test_an_absent_member_leaves_its_group_moving(void **state)
{
    (void)state;
    assert_grid("parameters:\n"
                "  o: [a, b]\n"
                "  x: {values: [1, 2], when: o == a}\n"
                "  y: {values: [3, 4]}\n"
                "zip: [x, y]\n",
                "o=a x=1 y=3\no=a x=2 y=4\no=b y=3\no=b y=4\n");
    assert_grid("parameters:\n"
                "  o: [a, b, c]\n"
                "  x: {values: [1, 2], when: o == a}\n"
                "  y: {values: [3, 4], when: o != c}\n"
                "zip: [x, y]\n",
                "o=a x=1 y=3\no=a x=2 y=4\no=b y=3\no=b y=4\no=c\n");
}

static void test_json_of_drawn_values(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters: {a: [0x10], b: ['1'], c: 1..1 step 0.5, d: [false]}");
    AUTO_STR struct str text = {0};
    fixture_draw(&f, 0, false, 0, &text);
    str_clear(&text);
    struct json json = {.out = &text};
    json_array(&json);
    for (size_t i = 0; i < 4; i++) {
        value_add_json(&json, &f.values[i]);
    }
    json_end(&json);
    assert_string_equal(str_text(&text), "[16,\"1\",1,false]");
    fixture_release(&f);
}

static void test_files_are_bound_later(void **state)
{
    (void)state;
    struct fixture f;
    fixture_parse(&f, "{parameters: {doc: {files: [a/*, b/*], batch: 100}, m: [1, 2], l: [x, y]}, "
                      "zip: [doc, l]}");
    assert_non_null(f.space);
    const char *const *patterns = NULL;
    size_t count = 0;
    uint64_t batch = 0;
    assert_true(space_files(f.space, 0, &patterns, &count, &batch));
    assert_false(space_files(f.space, 1, &patterns, &count, &batch));
    assert_int_equal(count, 2);
    assert_int_equal(batch, 100);
    assert_string_equal(patterns[1], "b/*");
    struct err err = {0};
    space_bind_files(f.space, 0, 3, "m/e.doc");
    assert_int_equal(space_grid_size(f.space, &f.size, &err), ERR_INVALID);
    assert_string_equal(err.text, "zip: doc has 3 values but l has 2");
    space_bind_files(f.space, 0, 2, "m/e.doc");
    assert_int_equal(space_grid_size(f.space, &f.size, &err), ERR_OK);
    assert_int_equal(f.size, 4);
    AUTO_STR struct str line = {0};
    fixture_draw(&f, 0, false, 3, &line);
    assert_string_equal(str_text(&line), "doc=m/e.doc/1 m=2 l=y");
    assert_int_equal(f.values[0].kind, VALUE_FILES);
    fixture_release(&f);
}

static void test_no_files_make_no_combinations(void **state)
{
    (void)state;
    struct fixture f;
    fixture_parse(&f, "parameters: {doc: {files: x}, m: [1, 2]}");
    space_bind_files(f.space, 0, 0, "m");
    assert_int_equal(space_grid_size(f.space, &f.size, NULL), ERR_OK);
    assert_int_equal(f.size, 0);
    fixture_release(&f);
}

static void test_continuous_parameters_are_reported(void **state)
{
    (void)state;
    struct fixture f;
    const char *name = NULL;
    fixture_good(&f, "parameters: {a: [1], lr: {range: 0.1-0.3}}");
    assert_true(space_has_continuous(f.space, &name));
    assert_string_equal(name, "lr");
    assert_int_equal(f.size, 1);
    fixture_release(&f);
    fixture_good(&f, "parameters: {a: [1]}");
    assert_false(space_has_continuous(f.space, &name));
    fixture_release(&f);
}

struct mistake {
    const char *yaml;
    int line;
    int column;
    const char *text;
};

static void assert_mistakes(const struct mistake *mistakes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct fixture f;
        fixture_parse(&f, mistakes[i].yaml);
        const struct diag *diag = &f.diags.items[0];
        bool good = f.diags.count == 1 && strstr(diag->text, mistakes[i].text) &&
                    diag->line == mistakes[i].line && diag->column == mistakes[i].column;
        if (!good) {
            print_error("%s\n", mistakes[i].yaml);
            for (size_t j = 0; j < f.diags.count; j++) {
                diag = &f.diags.items[j];
                print_error("  %d:%d: %s\n", diag->line, diag->column, diag->text);
            }
        }
        assert_true(good);
        fixture_release(&f);
    }
}

static void test_mistakes_in_values(void **state)
{
    (void)state;
    static const struct mistake mistakes[] = {
        {"parameters: [a]", 1, 13, "must be a mapping"},
        {"parameters: {a: []}", 1, 17, "parameter a has no values"},
        {"parameters: {a: [1, 2, 1]}", 1, 24, "value 1 is listed twice"},
        {"parameters: {a: [1, '1']}", 1, 21, "value 1 is listed twice"},
        {"parameters: {a: [1, ~]}", 1, 21, "a value is missing"},
        {"parameters:\n  a:\n  b: 1\n", 2, 5, "a value is missing"},
        {"parameters: {a: [[1]]}", 1, 18, "must be a number"},
        {"parameters: {a: {values: {b: 1}}}", 1, 26, "must be a number"},
        {"parameters: {a: 5..1}", 1, 17, "5..1 runs backwards"},
        {"parameters: {a: 0..x}", 1, 20, "like 0..99"},
        {"parameters: {a: 0..1 step 0}", 1, 17, "step of 0"},
        {"parameters: {a: 0..1.5}", 1, 17, "need a step"},
        {"parameters: {a: -1..9223372036854775807}", 1, 17, "more than 2^63"},
        {"parameters: {a: {value: [1]}}", 1, 18, "did you mean 'values'"},
        {"parameters: {a: {values: [1], zzz: 2}}", 1, 31, "unknown key 'zzz'"},
        {"parameters: {a: {values: [1], range: 1-2}}", 1, 38, "either values or range"},
        {"parameters: {a: {values: [1], step: 2}}", 1, 31, "step goes with range"},
        {"parameters: {a: {values: [1], batch: 2}}", 1, 31, "batch goes with files"},
        {"parameters: {a: {when: b == 1}, b: 1}", 1, 17, "needs one of values"},
        {"parameters: {a: {}}", 1, 17, "needs one of values"},
        {"parameters: {9a: 1}", 1, 14, "name has letters"},
        {"parameters: {a.b: 1}", 1, 14, "name has letters"},
        {"parameters: {a: {files: []}}", 1, 25, "no pattern"},
        {"parameters: {a: {files: {b: c}}}", 1, 25, "files must be"},
        {"parameters: {a: {files: x, batch: 0}}", 1, 35, "batch must be"},
        {"parameters: {a: {files: x, batch: many}}", 1, 35, "batch must be"},
    };
    assert_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void test_mistakes_in_ranges(void **state)
{
    (void)state;
    static const struct mistake mistakes[] = {
        {"parameters: {a: {range: 5}}", 1, 26, "range must be"},
        {"parameters: {a: {range: [1, 2, 3]}}", 1, 25, "range must be"},
        {"parameters: {a: {range: [1, x]}}", 1, 29, "upper bound must be"},
        {"parameters: {a: {range: [.nan, 1]}}", 1, 26, "lower bound must be"},
        {"parameters: {a: {range: [1, .inf]}}", 1, 29, "upper bound must be"},
        {"parameters: {a: {range: 1..1e999}}", 1, 28, "finite"},
        {"parameters: {a: {range: 2-1}}", 1, 25, "above the upper"},
        {"parameters: {a: {range: 2-2}}", 1, 25, "use values"},
        {"parameters: {a: {range: 1-2, sampling: unifrom}}", 1, 40, "did you mean 'uniform'"},
        {"parameters: {a: {range: 1-2, sampling: [x]}}", 1, 40, "sampling must be"},
        {"parameters: {a: {range: 0-2, sampling: log}}", 1, 25, "above 0"},
        {"parameters: {a: {range: 1-2, step: 0}}", 1, 25, "must be above 0"},
        {"parameters: {a: {range: 1-2, step: x}}", 1, 36, "step must be"},
        {"parameters: {a: {range: 1-2, step: 5}}", 1, 25, "narrower than its step"},
        {"parameters: {a: {range: 1..2 step 0.1, step: 0.1}}", 1, 46, "given twice"},
        {"parameters: {a: {range: 1.5-3, sampling: integer}}", 1, 25, "whole bounds"},
        {"parameters: {a: {range: 1-3, integer: maybe}}", 1, 39, "true or false"},
        {"parameters: {a: {range: 1-3, mean: 2}}", 1, 36, "goes with sampling: normal"},
        {"parameters: {a: {range: 1-3, sampling: normal, sd: 0}}", 1, 52, "sd must be above 0"},
        {"parameters: {a: {range: 1-3, sampling: normal, mean: .inf}}", 1, 54, "finite"},
        {"parameters: {a: {range: 1-3, sampling: normal, mean: 99, sd: 0.1}}", 1, 25,
         "too far from the mean"},
        {"parameters: {a: {sampling: log}}", 1, 17, "range is missing"},
        {"parameters: {a: {sampling: normal, mean: 1}}", 1, 17, "range is missing"},
        {"parameters: {a: {sampling: normal, mean: 1, sd: 1, step: 1}}", 1, 17, "need a range"},
    };
    assert_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void test_mistakes_in_groups_and_conditions(void **state)
{
    (void)state;
    static const struct mistake mistakes[] = {
        {"{parameters: {a: [1, 2], b: 1..3}, zip: [a, b]}", 1, 41, "a has 2 values but b has 3"},
        {"{parameters: {a: [1]}, zip: [a]}", 1, 29, "at least two"},
        {"{parameters: {a: [1]}, zip: a}", 1, 29, "must be a list"},
        {"{parameters: {ab: [1], b: 2}, zip: [ab, ac]}", 1, 41, "did you mean 'ab'"},
        {"{parameters: {a: 1, b: 2, c: 3}, zip: [[a, b], [c, a]]}", 1, 52, "in two groups"},
        {"{parameters: {a: 1, b: 2}, zip: [a, b, a]}", 1, 40, "named twice"},
        {"{parameters: {a: 1, b: 2}, zip: [[a, b], a]}", 1, 42, "must be a list"},
        {"{parameters: {a: 1, b: {range: 0-1}}, zip: [a, b]}", 1, 48, "drawn from a range"},
        {"parameters: {a: {values: 1, when: a == 1}}", 1, 35, "circle: a -> a"},
        {"parameters: {a: {values: 1, when: b == 1}, b: {values: 1, when: c}, c: {values: 1, when: "
         "b}}",
         1, 65, "circle: b -> c -> b"},
        {"parameters: {a: {values: 1, when: lrr > 1}, lr: 1}", 1, 35, "did you mean 'lr'"},
        {"parameters: {a: {values: 1, when: {lrr: 1}}, lr: 1}", 1, 36, "did you mean 'lr'"},
        {"parameters: {a: {values: 1, when: }, lr: 1}", 1, 35, "a condition is text"},
        {"parameters: {a: {values: 1, when: lr > 1}, lr: {range: 0-1}}", 1, 35, "with a range"},
        {"parameters: {a: {values: 1, when: d == 1}, d: {files: x}}", 1, 35, "depend on the files"},
        {"parameters: {a: {values: 1, when: b == 1}, b: 0..65536}", 1, 44, "65536 combinations"},
        {"parameters: {a: {values: 1, when: b == c}, b: 0..255, c: 0..256}", 1, 44,
         "65536 combinations"},
    };
    assert_mistakes(mistakes, sizeof mistakes / sizeof mistakes[0]);
}

static void test_several_mistakes_are_found_in_one_go(void **state)
{
    (void)state;
    struct fixture f;
    fixture_parse(&f,
                  "parameters:\n  a: []\n  b: {range: 2-1}\n  c: {values: [1], when: zz == 1}\n");
    assert_null(f.space);
    assert_int_equal(f.diags.count, 3);
    fixture_release(&f);
}

static void test_too_many_parameters_are_refused(void **state)
{
    (void)state;
    AUTO_STR struct str yaml = {0};
    str_add(&yaml, "parameters:\n");
    for (int i = 0; i < SPACE_PARAMS_MAX; i++) {
        str_addf(&yaml, "  p%d: [1, 2]\n", i);
    }
    struct fixture f;
    fixture_parse(&f, str_text(&yaml));
    assert_non_null(f.space);
    assert_int_equal(space_grid_size(f.space, &f.size, NULL), ERR_RANGE);
    fixture_release(&f);
    str_add(&yaml, "  more: 1\n");
    fixture_parse(&f, str_text(&yaml));
    assert_null(f.space);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_keep_their_text),
        cmocka_unit_test(test_value_ranges),
        cmocka_unit_test(test_no_parameters_make_one_combination),
        cmocka_unit_test(test_the_last_parameter_varies_fastest),
        cmocka_unit_test(test_zipped_parameters_move_together),
        cmocka_unit_test(test_absent_parameters_do_not_multiply),
        cmocka_unit_test(test_an_absent_member_leaves_its_group_moving),
        cmocka_unit_test(test_json_of_drawn_values),
        cmocka_unit_test(test_files_are_bound_later),
        cmocka_unit_test(test_no_files_make_no_combinations),
        cmocka_unit_test(test_continuous_parameters_are_reported),
        cmocka_unit_test(test_mistakes_in_values),
        cmocka_unit_test(test_mistakes_in_ranges),
        cmocka_unit_test(test_mistakes_in_groups_and_conditions),
        cmocka_unit_test(test_several_mistakes_are_found_in_one_go),
        cmocka_unit_test(test_too_many_parameters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
