#include "recipe/expr.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"opt", "layers", "lr", "aug", "gone", "learning-rate", "tag"};
enum { NAME_COUNT = sizeof names / sizeof names[0] };

/* What the names stand for in the tests below. */
static const struct expr_value params[NAME_COUNT] = {
    {.kind = VALUE_TEXT, .text = "sgd", .size = 3},
    {.kind = VALUE_NUMBER, .number = 3, .text = "3", .size = 1},
    {.kind = VALUE_NUMBER, .number = 0.1, .text = "0.10", .size = 4},
    {.kind = VALUE_BOOL, .number = 1, .text = "true", .size = 4},
    {.kind = VALUE_ABSENT},
    {.kind = VALUE_NUMBER, .number = 0.5, .text = "0.5", .size = 3},
    {.kind = VALUE_TEXT, .text = "64", .size = 2},
};

static struct expr *compile(struct arena *arena, const char *text, struct diag_list *diags)
{
    struct ynode node = {.kind = YNODE_SCALAR,
                         .type = YTYPE_TEXT,
                         .line = 1,
                         .column = 1,
                         .text = text,
                         .size = strlen(text)};
    struct expr *expr = expr_compile(arena, &node, names, NAME_COUNT, diags);
    assert_true((expr == NULL) == (diags->count > 0));
    return expr;
}

static void assert_holds(const char *text, bool want)
{
    struct arena arena = {0};
    struct diag_list diags = {0};
    struct expr *expr = compile(&arena, text, &diags);
    if (!expr || expr_holds(expr, params) != want) {
        print_error("%s: %s\n", text, expr ? "wrong" : diags.items[0].text);
    }
    assert_non_null(expr);
    assert_true(expr_holds(expr, params) == want);
    diag_release(&diags);
    arena_release(&arena);
}

static void test_comparisons(void **state)
{
    (void)state;
    assert_holds("opt == sgd", true);
    assert_holds("opt == 'sgd'", true);
    assert_holds("sgd == opt", true);
    assert_holds("opt != adam", true);
    assert_holds("opt < \"sgd2\"", true);
    assert_holds("opt >= rmsprop", true);
    assert_holds("layers == 3.0", true);
    assert_holds("layers == 0x3", true);
    assert_holds("layers > 2 and layers <= 3", true);
    assert_holds("layers < 3", false);
    assert_holds("lr == 1e-1", true);
    assert_holds("learning-rate == .5", true);
    assert_holds("aug", true);
    assert_holds("aug == true", true);
    assert_holds("aug == false", false);
    assert_holds("not aug", false);
    assert_holds("layers", true);
}

static void test_kinds_are_equal_when_written_alike(void **state)
{
    (void)state;
    assert_holds("tag == 64", true);
    assert_holds("tag == 64.0", false);
    assert_holds("tag != 64.0", true);
    assert_holds("tag > 1", false);
    assert_holds("tag <= 1", false);
    assert_holds("layers == '3'", true);
    assert_holds("aug == 'true'", true);
    assert_holds("opt == 3", false);
}

static void test_an_absent_operand_makes_a_comparison_false(void **state)
{
    (void)state;
    assert_holds("gone == 1", false);
    assert_holds("gone != 1", false);
    assert_holds("gone < 1", false);
    assert_holds("gone == gone", false);
    assert_holds("gone in [1, 2]", false);
    assert_holds("gone not in [1, 2]", false);
    assert_holds("not (gone == 1)", true);
    assert_holds("gone", false);
    assert_holds("gone + 1 > 0", false);
    assert_holds("layers / 0 > 0", false);
    assert_holds("layers / 0 != 0", false);
    assert_holds("opt * 2 != 0", false);
}

static void test_membership(void **state)
{
    (void)state;
    assert_holds("opt in [adam, sgd]", true);
    assert_holds("opt in [\"adam\"]", false);
    assert_holds("opt not in [adam]", true);
    assert_holds("layers in [1, 2, 1 + 2]", true);
    assert_holds("layers not in [1, 2, 3]", false);
    assert_holds("3 in [layers]", true);
    assert_holds("layers in [-3, 3]", true);
    assert_holds("not layers in [3]", false);
}

static void test_precedence(void **state)
{
    (void)state;
    assert_holds("aug or gone and gone", true);
    assert_holds("(aug or gone) and gone", false);
    assert_holds("not gone and aug", true);
    assert_holds("not (gone or aug)", false);
    assert_holds("1 + layers * 2 == 7", true);
    assert_holds("(1 + layers) * 2 == 8", true);
    assert_holds("10 - layers - 2 == 5", true);
    assert_holds("12 / layers / 2 == 2", true);
    assert_holds("-layers == 0 - 3", true);
    assert_holds("- -layers == 3", true);
    assert_holds("layers*lr < 1", true);
}

static void assert_refused(const char *text, int column, const char *want)
{
    struct arena arena = {0};
    struct diag_list diags = {0};
    struct expr *expr = compile(&arena, text, &diags);
    assert_null(expr);
    if (!strstr(diags.items[0].text, want) || diags.items[0].column != column) {
        print_error("%s: %d: %s\n", text, diags.items[0].column, diags.items[0].text);
    }
    assert_non_null(strstr(diags.items[0].text, want));
    assert_int_equal(diags.items[0].column, column);
    assert_int_equal(diags.count, 1);
    diag_release(&diags);
    arena_release(&arena);
}

static void test_mistakes_are_pointed_at(void **state)
{
    (void)state;
    assert_refused("", 1, "missing here");
    assert_refused("otp == sgd", 1, "did you mean 'opt'");
    assert_refused("zzzzz == sgd", 1, "not a parameter");
    assert_refused("opt = sgd", 5, "write ==");
    assert_refused("opt == sgd && aug", 12, "write and");
    assert_refused("opt == sgd | aug", 12, "write or");
    assert_refused("!aug", 1, "write not");
    assert_refused("opt ==", 7, "missing here");
    assert_refused("(opt == sgd", 12, "closing )");
    assert_refused("opt == sgd)", 11, "should end here");
    assert_refused("opt == sgd aug", 12, "should end here");
    assert_refused("opt in sgd", 8, "list in [ ]");
    assert_refused("opt in []", 9, "missing here");
    assert_refused("opt in [sgd", 12, "closing ]");
    assert_refused("opt not sgd", 5, "not in");
    assert_refused("1 < layers < 3", 14, "chained");
    assert_refused("opt == 'sgd", 8, "not closed");
    assert_refused("layers == 2px", 11, "not a number");
    assert_refused("layers-1 == 2", 7, "spaces around");
    assert_refused("layers + x == 2", 10, "neither a number");
    assert_refused("1 == 1", 1, "never change");
    assert_refused("aug and true", 9, "never change");
    assert_refused("aug and yes", 9, "not a parameter");
    assert_refused("opt == sgd and and", 16, "missing here");
    assert_refused("opt == $x", 8, "cannot read");
    assert_refused("layers == 1e999", 11, "not a number");
}

static void test_nesting_and_length_are_bounded(void **state)
{
    (void)state;
    char text[EXPR_TEXT_MAX + 100];
    struct arena arena = {0};
    struct diag_list diags = {0};
    memset(text, '(', sizeof text);
    text[1000] = '\0';
    assert_null(compile(&arena, text, &diags));
    assert_non_null(strstr(diags.items[0].text, "nested too deep"));
    diag_release(&diags);
    memset(text, ' ', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_null(compile(&arena, text, &diags));
    assert_non_null(strstr(diags.items[0].text, "longer than"));
    diag_release(&diags);
    size_t used = 0; /* as deep as is allowed, with something pending at every level */
    for (int i = 0; i < 28; i++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "gone or aug and 1 in [2, 1 + 1 * (");
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "layers");
    for (int i = 0; i < 28; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, ")]");
    }
    struct expr *expr = compile(&arena, text, &diags);
    assert_non_null(expr);
    assert_false(expr_holds(expr, params));
    arena_release(&arena);
}

static void test_a_mapping_means_all_of_them(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int want; /* -1: an error */
    } cases[] = {
        {"{opt: sgd}", 1},
        {"{opt: adam}", 0},
        {"{opt: [adam, sgd], layers: 3}", 1},
        {"{opt: [adam, sgd], layers: [1, 2]}", 0},
        {"{aug: true, lr: 0.1}", 1},
        {"{gone: 1}", 0},
        {"{tag: 64}", 1},
        {"{otp: sgd}", -1},
        {"{opt: {a: b}}", -1},
        {"{opt: [[a]]}", -1},
        {"{opt: }", -1},
        {"{}", -1},
        {"[opt]", -1},
        {"~", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena arena = {0};
        struct diag_list diags = {0};
        struct ynode *node = yaml_parse(&arena, cases[i].yaml, strlen(cases[i].yaml), &diags);
        struct expr *expr = node ? expr_compile(&arena, node, names, NAME_COUNT, &diags) : NULL;
        assert_int_equal(expr ? expr_holds(expr, params) : -1, cases[i].want);
        assert_true((expr == NULL) == (diags.count > 0));
        diag_release(&diags);
        arena_release(&arena);
    }
}

static void test_what_is_mentioned_is_known(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct diag_list diags = {0};
    struct expr *expr = compile(&arena, "opt == aug and layers > 1", &diags);
    assert_true(expr_mentions(expr, 0) && expr_mentions(expr, 1) && expr_mentions(expr, 3));
    assert_false(expr_mentions(expr, 2) || expr_mentions(expr, 4));
    arena_release(&arena);
}

/* ---- random conditions against a model that computes the answer while writing the text ---- */

struct writer {
    struct rng rng;
    struct str text;
};

static double write_sum(struct writer *w, int depth)
{
    static const struct {
        const char *text;
        double number;
    } leaves[] = {{"layers", 3}, {"lr", 0.1}, {"2", 2}, {"learning-rate", 0.5}, {"1e1", 10}};
    uint64_t kind = depth > 0 ? rng_below(&w->rng, 5) : 0;
    if (kind < 2) {
        uint64_t leaf = rng_below(&w->rng, sizeof leaves / sizeof leaves[0]);
        str_add(&w->text, leaves[leaf].text);
        return leaves[leaf].number;
    }
    str_add(&w->text, "(");
    double left = write_sum(w, depth - 1);
    str_add(&w->text, kind == 2 ? " + " : kind == 3 ? " - " : " * ");
    double right = write_sum(w, depth - 1);
    str_add(&w->text, ")");
    return kind == 2 ? left + right : kind == 3 ? left - right : left * right;
}

static bool write_condition(struct writer *w, int depth)
{
    static const char *const symbols[] = {" < ", " <= ", " > ", " >= ", " == ", " != "};
    uint64_t kind = depth > 0 ? rng_below(&w->rng, 5) : 0;
    if (kind < 2) {
        uint64_t op = rng_below(&w->rng, 6);
        str_add(&w->text, "layers * ");
        double left = 3 * write_sum(w, depth - 1);
        str_add(&w->text, symbols[op]);
        double right = write_sum(w, depth - 1);
        bool answers[] = {left<right, left <= right, left> right, left >= right, left == right,
                          left != right};
        return answers[op];
    }
    str_add(&w->text, kind == 2 ? "not (" : "(");
    bool left = write_condition(w, depth - 1);
    if (kind == 2) {
        str_add(&w->text, ")");
        return !left;
    }
    str_add(&w->text, kind == 3 ? " and " : " or ");
    bool right = write_condition(w, depth - 1);
    str_add(&w->text, ")");
    return kind == 3 ? left && right : left || right;
}

static void test_random_conditions_agree_with_the_model(void **state)
{
    (void)state;
    struct writer w = {.rng = {.state = 31}};
    for (int i = 0; i < 3000; i++) {
        str_clear(&w.text);
        bool want = write_condition(&w, 4);
        if (w.text.size <= EXPR_TEXT_MAX) {
            assert_holds(str_text(&w.text), want);
        }
    }
    str_release(&w.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comparisons),
        cmocka_unit_test(test_kinds_are_equal_when_written_alike),
        cmocka_unit_test(test_an_absent_operand_makes_a_comparison_false),
        cmocka_unit_test(test_membership),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_mistakes_are_pointed_at),
        cmocka_unit_test(test_nesting_and_length_are_bounded),
        cmocka_unit_test(test_a_mapping_means_all_of_them),
        cmocka_unit_test(test_what_is_mentioned_is_known),
        cmocka_unit_test(test_random_conditions_agree_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
