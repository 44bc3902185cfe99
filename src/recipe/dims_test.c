/* Spaces as dimensions, and points back to arguments. */
#include "recipe/dims.h"

#include "base/rng.h"
#include "recipe/space_fixture.h"

#include <math.h>
#include <stdlib.h>

static const struct dims_dim *dim_named(const struct dims *dims, const char *name, size_t *at)
{
    for (size_t i = 0; i < dims_count(dims); i++) {
        if (strcmp(dims_at(dims, i)->name, name) == 0) {
            *at = i;
            return dims_at(dims, i);
        }
    }
    fail_msg("there is no dimension %s", name);
    return NULL;
}

static void test_each_form_is_its_kind_of_dimension(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  a: {range: 0.5-2}\n"
                     "  b: {range: 1e-5..1e-1, sampling: log}\n"
                     "  c: {sampling: normal, mean: 1, sd: 2}\n"
                     "  d: {range: 0..1, step: 0.25}\n"
                     "  e: [sgd, adam]\n"
                     "  f: [32, 64, 128]\n"
                     "  g: {values: [3, 1, 2]}\n"
                     "  h: {values: [small, large], ordered: true}\n"
                     "  i: {values: [1, 2], ordered: false}\n"
                     "  j: 7\n"
                     "  k: 10..0 step -5\n"
                     "  l: {range: 16..1024, sampling: log, integer: true}\n");
    const struct dims *dims = dims_create(&f.arena, f.space);
    static const enum dims_kind kinds[] = {DIMS_UNIFORM,     DIMS_LOG,         DIMS_NORMAL,
                                           DIMS_UNIFORM,     DIMS_CATEGORICAL, DIMS_ORDERED,
                                           DIMS_CATEGORICAL, DIMS_ORDERED,     DIMS_CATEGORICAL,
                                           DIMS_FIXED,       DIMS_UNIFORM,     DIMS_LOG};
    static const uint64_t counts[] = {0, 0, 0, 5, 2, 3, 3, 2, 2, 1, 3, 1009};
    assert_int_equal(dims_count(dims), 12);
    for (size_t i = 0; i < 12; i++) {
        assert_int_equal(dims_at(dims, i)->kind, kinds[i]);
        assert_int_equal(dims_at(dims, i)->count, counts[i]);
        assert_false(dims_at(dims, i)->conditional);
    }
    assert_true(dims_at(dims, 0)->low == 0.5 && dims_at(dims, 0)->high == 2);
    assert_true(isinf(dims_at(dims, 2)->high) && dims_at(dims, 2)->sd == 2);
    assert_true(dims_at(dims, 3)->step == 0.25);
    assert_true(dims_at(dims, 10)->low == 0 && dims_at(dims, 10)->step == 5);
    struct dims_point points[12] = {0};
    for (size_t i = 0; i < 12; i++) {
        points[i].present = true;
    }
    points[0].number = 0.75;
    points[1].number = 0.001;
    points[2].number = -7.25;
    points[3].index = 3;
    points[10].index = 2;
    points[11].index = 1008;
    assert_null(dims_misfit(dims, points));
    struct value values[12];
    dims_arguments(dims, points, values, &f.scratch);
    static const char *const texts[] = {"0.75", "0.001", "-7.25", "0.75", "sgd", "32",
                                        "3",    "small", "1",     "7",    "10",  "1024"};
    for (size_t i = 0; i < 12; i++) {
        assert_string_equal(values[i].text, texts[i]);
    }
    points[3].index = 5;
    assert_string_equal(dims_misfit(dims, points), "d");
    points[3].index = 0;
    points[0].number = NAN;
    assert_string_equal(dims_misfit(dims, points), "a");
    fixture_release(&f);
}

static void test_a_condition_on_one_parent_is_a_list_of_its_values(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  momentum: {range: 0-1, when: optimizer == sgd}\n"
                     "  beta: {range: 0-1, when: \"optimizer in [adam, lamb]\"}\n"
                     "  optimizer: [sgd, adam, lamb]\n"
                     "  deep: {range: 0-1, when: layers > 2 and optimizer == sgd}\n"
                     "  layers: 1..4\n"
                     "  inner: {range: 0-1, when: not momentum > 0.5}\n");
    const struct dims *dims = dims_create(&f.arena, f.space);
    size_t optimizer = 0;
    size_t at = 0;
    dim_named(dims, "optimizer", &optimizer);
    const struct dims_dim *momentum = dim_named(dims, "momentum", &at);
    assert_true(at > optimizer);
    assert_true(momentum->has_parent);
    assert_int_equal(momentum->parent, optimizer);
    assert_int_equal(momentum->when_count, 1);
    assert_int_equal(momentum->when[0], 0);
    const struct dims_dim *beta = dim_named(dims, "beta", &at);
    assert_int_equal(beta->when_count, 2);
    assert_int_equal(beta->when[1], 2);
    const struct dims_dim *deep = dim_named(dims, "deep", &at);
    assert_true(deep->conditional);
    assert_false(deep->has_parent);
    assert_false(dim_named(dims, "inner", &at)->has_parent); /* holds where momentum is absent */
    fixture_release(&f);
}

static void test_what_is_zipped_moves_together(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  model: [small, medium, large]\n"
                     "  batch: {values: [256, 128, 64], when: amp}\n"
                     "  amp: [true, false]\n"
                     "zip: [model, batch]\n");
    const struct dims *dims = dims_create(&f.arena, f.space);
    assert_int_equal(dims_count(dims), 2);
    size_t group = 0;
    size_t amp = 0;
    assert_int_equal(dim_named(dims, "model+batch", &group)->kind, DIMS_ORDERED);
    dim_named(dims, "amp", &amp);
    struct dims_point points[2] = {{.present = true}, {.present = true}};
    points[group].index = 2;
    points[amp].index = 0;
    struct value values[3];
    dims_arguments(dims, points, values, &f.scratch);
    assert_string_equal(values[0].text, "large");
    assert_string_equal(values[1].text, "64");
    points[amp].index = 1;
    dims_arguments(dims, points, values, &f.scratch);
    assert_string_equal(values[0].text, "large");
    assert_int_equal(values[1].kind, VALUE_ABSENT);
    fixture_release(&f);
}

static void test_a_group_in_its_own_way_is_always_there(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  a: {values: [1, 2], when: c == 1}\n"
                     "  b: {values: [1, 2], when: d == 1}\n"
                     "  c: {values: [1, 2], when: b == 2}\n"
                     "  d: [1, 2]\n"
                     "zip: [a, b]\n");
    const struct dims *dims = dims_create(&f.arena, f.space);
    size_t group = 0;
    assert_false(dim_named(dims, "a+b", &group)->conditional);
    for (uint64_t key = 0; key < 200; key++) {
        struct dims_point points[3];
        struct value values[4];
        dims_example(dims, key, points);
        assert_null(dims_misfit(dims, points));
        dims_arguments(dims, points, values, &f.scratch);
        bool b_here = strcmp(values[3].text, "1") == 0;
        bool c_here = b_here && strcmp(values[1].text, "2") == 0;
        assert_int_equal(values[1].kind != VALUE_ABSENT, b_here);
        assert_int_equal(values[2].kind != VALUE_ABSENT, c_here);
        assert_int_equal(values[0].kind != VALUE_ABSENT,
                         c_here && strcmp(values[2].text, "1") == 0);
    }
    fixture_release(&f);
}

static void test_constraints_hold_where_they_have_nothing_to_say(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  batch: [256, 1024]\n"
                     "  accum: {values: [1, 4], when: big}\n"
                     "  big: [true, false]\n");
    const char *names[] = {"batch", "accum", "big"};
    static const char yaml[] = "batch * accum <= 1024";
    const struct ynode *node = yaml_parse(&f.scratch, yaml, strlen(yaml), &f.diags);
    struct expr *expr = expr_compile(&f.arena, node, names, 3, &f.diags);
    assert_non_null(expr);
    const struct dims *dims = dims_create(&f.arena, f.space);
    struct dims_point points[3] = {{.present = true}, {.present = true}, {.present = true}};
    size_t at = 0;
    dim_named(dims, "batch", &at);
    points[at].index = 1;
    assert_true(dims_holds(dims, expr, points));
    size_t accum = 0;
    dim_named(dims, "accum", &accum);
    points[accum].index = 1;
    assert_false(dims_holds(dims, expr, points));
    dim_named(dims, "big", &at);
    points[at].index = 1;
    points[accum].present = false;
    assert_true(dims_holds(dims, expr, points));
    fixture_release(&f);
}

/* Whatever space_draw draws, a point of the dimensions can be, with the same arguments: each drawn
 * set of values is found again through the dimensions alone. */
static bool find_point(const struct fixture *f, const struct dims *dims, struct dims_point *points)
{
    for (size_t d = 0; d < dims_count(dims); d++) {
        const struct dims_dim *dim = dims_at(dims, d);
        points[d] = (struct dims_point){.present = dims_present(dims, d, points)};
        size_t param = 0;
        while (strcmp(space_param_name(f->space, param), dim->name) != 0) {
            param++;
        }
        const struct value *value = &f->values[param];
        if ((value->kind != VALUE_ABSENT) != points[d].present) {
            return false;
        }
        points[d].number = strtod(value->text, NULL);
        struct arena scratch = {0};
        bool found = !points[d].present || dim->count == 0;
        for (uint64_t k = 0; k < dim->count && !found; k++) {
            struct value made[SPACE_PARAMS_MAX];
            struct dims_point all[SPACE_PARAMS_MAX] = {0};
            all[d] = (struct dims_point){.present = true, .index = k};
            dims_arguments(dims, all, made, &scratch);
            found = strcmp(made[param].text, value->text) == 0;
            points[d].index = k;
        }
        arena_release(&scratch);
        if (!found) {
            return false;
        }
    }
    return true;
}

static void test_every_draw_is_a_point(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  optimizer: [sgd, adam]\n"
                     "  momentum: {values: [0.8, 0.9], when: optimizer == sgd}\n"
                     "  layers: 1..6\n"
                     "  lr: {range: 1e-4..1, sampling: log}\n"
                     "  width: {range: 10-20, sampling: integer, when: layers > 2 and lr > 0.01}\n"
                     "  drop: {range: 0-1, when: width > 15}\n"
                     "  down: {values: 9..0 step -3, when: {optimizer: adam, layers: [1, 2]}}\n");
    const struct dims *dims = dims_create(&f.arena, f.space);
    for (uint64_t i = 0; i < 500; i++) {
        struct dims_point points[SPACE_PARAMS_MAX];
        space_draw(f.space, 3, true, i, f.values, &f.scratch);
        assert_true(find_point(&f, dims, points));
        assert_null(dims_misfit(dims, points));
        struct value again[SPACE_PARAMS_MAX];
        dims_arguments(dims, points, again, &f.scratch);
        for (size_t p = 0; p < space_param_count(f.space); p++) {
            assert_int_equal(again[p].kind, f.values[p].kind);
            assert_string_equal(again[p].text, f.values[p].text);
        }
        arena_reset(&f.scratch);
    }
    for (uint64_t key = 0; key < 500; key++) {
        struct dims_point points[SPACE_PARAMS_MAX];
        dims_example(dims, key, points);
        assert_null(dims_misfit(dims, points));
    }
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_form_is_its_kind_of_dimension),
        cmocka_unit_test(test_a_condition_on_one_parent_is_a_list_of_its_values),
        cmocka_unit_test(test_what_is_zipped_moves_together),
        cmocka_unit_test(test_a_group_in_its_own_way_is_always_there),
        cmocka_unit_test(test_constraints_hold_where_they_have_nothing_to_say),
        cmocka_unit_test(test_every_draw_is_a_point),
    };
    return cmocka_run_group_tests_name("dims", tests, NULL, NULL);
}
