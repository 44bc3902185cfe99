#include "recipe/space_fixture.h"

#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- minimal repetition ---- */

/* Which of the whole grid's lines this is. */
static size_t find_line(const struct str *lines, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(str_text(&lines[i]), text) == 0) {
            return i;
        }
    }
    fail_msg("%s is not in the grid", text);
    return 0;
}

/* Every combination of the grid differs, and n samples hold each floor(n/P) or ceil(n/P) times. */
static void assert_minimal_repetition(const char *yaml, uint64_t want_size)
{
    AUTO_STR struct str line = {0};
    struct fixture f;
    fixture_good(&f, yaml);
    assert_int_equal(f.size, want_size);
    struct str *lines = mem_array(f.size, sizeof *lines);
    unsigned *seen = mem_array(f.size, sizeof *seen);
    for (uint64_t i = 0; i < f.size; i++) {
        fixture_draw(&f, 0, false, i, &lines[i]);
        assert_int_equal(find_line(lines, i + 1, str_text(&lines[i])), i);
    }
    for (uint64_t n = 1; n <= 3 * f.size + 2; n++) {
        fixture_draw(&f, 77, true, n - 1, &line);
        seen[find_line(lines, f.size, str_text(&line))]++;
        for (uint64_t i = 0; i < f.size; i++) {
            assert_in_range(seen[i], n / f.size, (n + f.size - 1) / f.size);
        }
    }
    for (uint64_t i = 0; i < f.size; i++) {
        str_release(&lines[i]);
    }
    free(lines);
    free(seen);
    fixture_release(&f);
}

static void test_samples_repeat_as_little_as_possible(void **state)
{
    (void)state;
    assert_minimal_repetition("{}", 1);
    assert_minimal_repetition("parameters: {a: 5}", 1);
    assert_minimal_repetition("parameters: {a: [1, 2], b: [x, y, z]}", 6);
    assert_minimal_repetition("parameters: {a: 0..6, b: 0..12}", 91);
    assert_minimal_repetition("parameters: {a: 0..16, b: 0..16}", 289);
    assert_minimal_repetition("{parameters: {a: 0..4, b: 1..5, c: [p, q]}, zip: [a, b]}", 10);
    assert_minimal_repetition("parameters: {o: [s, a, r], m: {values: 0..4, when: o == s}, "
                              "n: {values: [1, 2], when: m >= 3}, b: 0..2}",
                              27);
}

static void test_orders_differ_between_rounds_and_keys(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters: {a: 0..99}");
    AUTO_STR struct str one = {0};
    AUTO_STR struct str two = {0};
    int same_round = 0;
    int same_key = 0;
    int sorted = 0;
    for (uint64_t i = 0; i < 100; i++) {
        fixture_draw(&f, 1, true, i, &one);
        fixture_draw(&f, 1, true, i + 100, &two);
        same_round += strcmp(str_text(&one), str_text(&two)) == 0;
        fixture_draw(&f, 2, true, i, &two);
        same_key += strcmp(str_text(&one), str_text(&two)) == 0;
        sorted += strtoull(f.values[0].text, NULL, 10) == i;
    }
    assert_true(same_round < 10 && same_key < 10 && sorted < 10);
    fixture_release(&f);
}

/* ---- size ---- */

static void test_twelve_binary_parameters_make_4096(void **state)
{
    (void)state;
    AUTO_STR struct str yaml = {0};
    str_add(&yaml, "parameters:\n");
    for (int i = 0; i < 12; i++) {
        str_addf(&yaml, "  p%d: [0, 1]\n", i);
    }
    struct fixture f;
    fixture_good(&f, str_text(&yaml));
    assert_int_equal(f.size, 4096);
    unsigned char seen[4096] = {0};
    for (uint64_t i = 0; i < 4096; i++) {
        space_draw(f.space, 5, true, i, f.values, &f.scratch);
        unsigned number = 0;
        for (int j = 0; j < 12; j++) {
            number = number * 2 + (f.values[j].text[0] == '1');
        }
        assert_int_equal(seen[number]++, 0);
    }
    assert_int_equal(f.scratch.used_bytes, 0); /* listed values need no copies */
    fixture_release(&f);
}

static void test_a_grid_of_two_to_the_sixty_third_works(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters: {a: 0..2147483647, b: 0..4294967295}");
    assert_int_equal(f.size, UINT64_C(1) << 63);
    AUTO_STR struct str line = {0};
    fixture_draw(&f, 0, false, f.size - 1, &line);
    assert_string_equal(str_text(&line), "a=2147483647 b=4294967295");
    fixture_draw(&f, 0, false, UINT64_C(1) << 32, &line);
    assert_string_equal(str_text(&line), "a=1 b=0");
    fixture_draw(&f, 0, true, UINT64_MAX, &line);
    fixture_release(&f);
}

static void test_larger_grids_are_refused(void **state)
{
    (void)state;
    static const char *const yaml[] = {
        "parameters: {a: [1, 2, 3], b: 0..3074457345618258602}", /* 2^63 + 1 = 3 * b */
        "parameters: {a: 0..9223372036854775807, b: [1, 2]}",
        "parameters: {a: 0..4294967296, b: 0..4294967296}",
        "parameters: {a: [1, 2], b: {values: 0..9223372036854775807, when: a == 1}}",
    };
    for (size_t i = 0; i < sizeof yaml / sizeof yaml[0]; i++) {
        struct fixture f;
        struct err err = {0};
        fixture_parse(&f, yaml[i]);
        assert_non_null(f.space);
        assert_int_equal(space_grid_size(f.space, &f.size, &err), ERR_RANGE);
        assert_non_null(strstr(err.text, "2^63"));
        fixture_release(&f);
    }
    struct fixture f;
    fixture_good(&f, "parameters: {a: [1, 2], b: {values: 1..9223372036854775807, when: a == 1}}");
    assert_int_equal(f.size, UINT64_C(1) << 63);
    fixture_release(&f);
}

/* ---- the same everywhere ---- */

static void test_draws_are_pinned(void **state)
{
    (void)state;
    static const char *const want[] = {
        "opt=adam lr=0.0053004228545714014 drop=0.1758912701647468 width=407 seed=153775 x=0.25 "
        "shard=593151097",
        "opt=sgd momentum=0.6 lr=5.8658862534778715e-5 drop=0.18567717315401547 width=133 "
        "seed=658045 x=1 shard=594225334",
        "opt=sgd momentum=0.8 lr=0.002263796088708698 drop=0.27385893323556904 "
        "noise=-0.11840631803754288 width=31 seed=57182 x=0.15 shard=361038999",
        "opt=sgd momentum=0.9 lr=0.0015411501668227252 drop=0.11842332442946424 width=91 "
        "seed=182983 x=0.95 shard=45435110",
        "opt=sgd momentum=0.7 lr=0.0001622555169162297 drop=0.16689022893542454 width=64 "
        "seed=43044 x=0.75 shard=724782037",
        "opt=sgd momentum=0.5 lr=0.001489232304593063 drop=0.25721045315043967 "
        "noise=0.408876302257627 width=169 seed=561289 x=0.15 shard=741678250",
    };
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  opt: [sgd, adam]\n"
                     "  momentum: {values: 0.5..0.9 step 0.1, when: opt == sgd}\n"
                     "  lr: {range: 1e-5..1e-1, sampling: log}\n"
                     "  drop: {range: 0.1-0.3}\n"
                     "  noise: {range: [-1, 1], sampling: normal, when: drop > 0.2}\n"
                     "  width: {range: 16-512, sampling: log, integer: true}\n"
                     "  seed: {range: 0..1000000, sampling: integer}\n"
                     "  x: {range: 0-1, step: 0.05}\n"
                     "  shard: 0..999999999\n");
    AUTO_STR struct str line = {0};
    for (uint64_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        fixture_draw(&f, 2024, true, i * 1000003, &line);
        assert_string_equal(str_text(&line), want[i]);
    }
    fixture_release(&f);
}

static void test_adding_a_parameter_does_not_change_other_draws(void **state)
{
    (void)state;
    struct fixture one;
    struct fixture two;
    fixture_good(&one, "parameters: {lr: {range: 0.1-0.3}}");
    fixture_good(&two, "parameters: {a: 0..9, wd: {range: 0.1-0.3}, lr: {range: 0.1-0.3}}");
    for (uint64_t i = 0; i < 100; i++) {
        space_draw(one.space, 3, true, i, one.values, &one.scratch);
        space_draw(two.space, 3, true, i, two.values, &two.scratch);
        assert_string_equal(one.values[0].text, two.values[2].text);
        assert_string_not_equal(two.values[1].text, two.values[2].text);
    }
    fixture_release(&one);
    fixture_release(&two);
}

static void test_drawn_parameters_may_depend_on_each_other(void **state)
{
    (void)state;
    struct fixture f;
    fixture_good(&f, "parameters:\n"
                     "  c: {range: 0-1, when: b < 0.5}\n"
                     "  b: {range: 0-1, when: k == yes and n >= 5}\n"
                     "  k: [\"yes\", \"no\"]\n"
                     "  n: 0..9\n");
    assert_int_equal(f.size, 20);
    int have_b = 0;
    int have_c = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        space_draw(f.space, 4, true, i, f.values, &f.scratch);
        bool b = f.values[1].kind != VALUE_ABSENT;
        bool c = f.values[0].kind != VALUE_ABSENT;
        assert_true(b == (f.values[2].text[0] == 'y' && f.values[3].text[0] >= '5'));
        assert_true(c == (b && strtod(f.values[1].text, NULL) < 0.5));
        have_b += b;
        have_c += c;
    }
    assert_int_equal(have_b, 500);
    assert_in_range(have_c, 200, 300);
    fixture_release(&f);
}

/* ---- random spaces against a model that builds the whole product ---- */

enum { MODEL_PARAMS = 6, MODEL_LINES = 5000 };

struct model_param {
    unsigned count;
    int group;    /* zip group, or -1 */
    int needs;    /* the parameter its condition mentions, or -1 */
    bool negated; /* != instead of == */
    unsigned wanted;
};

struct model {
    struct model_param params[MODEL_PARAMS];
    int count;
    char *lines[MODEL_LINES]; /* distinct, sorted after building */
    size_t line_count;
};

/* Parameter i may need only those after it in a rotated order, so that there is no circle. */
static void model_invent(struct model *model, struct rng *rng)
{
    *model = (struct model){.count = 1 + (int)rng_below(rng, MODEL_PARAMS)};
    uint64_t turn = rng_below(rng, MODEL_PARAMS);
    for (int i = 0; i < model->count; i++) {
        struct model_param *param = &model->params[i];
        *param = (struct model_param){.count = 1 + (unsigned)rng_below(rng, 4),
                                      .group = -1,
                                      .needs = -1,
                                      .negated = rng_below(rng, 2) != 0};
        int other = (int)rng_below(rng, (uint64_t)model->count);
        uint64_t own_place = ((uint64_t)i + turn) % (uint64_t)model->count;
        uint64_t its_place = ((uint64_t)other + turn) % (uint64_t)model->count;
        if (its_place < own_place && rng_below(rng, 2) != 0) {
            param->needs = other;
            param->wanted = (unsigned)rng_below(rng, 4);
        }
    }
    for (int group = 0; group < 2 && model->count >= 2; group++) {
        int a = (int)rng_below(rng, (uint64_t)model->count);
        int b = (int)rng_below(rng, (uint64_t)model->count);
        if (a != b && model->params[a].group < 0 && model->params[b].group < 0) {
            model->params[a].group = model->params[b].group = group;
            model->params[b].count = model->params[a].count;
        }
    }
}

static void model_yaml(const struct model *model, struct str *out)
{
    str_add(out, "parameters:\n");
    for (int i = 0; i < model->count; i++) {
        const struct model_param *param = &model->params[i];
        str_addf(out, "  p%d: {values: 0..%u", i, param->count - 1);
        if (param->needs >= 0) {
            str_addf(out, ", when: p%d %s %u", param->needs,
                     param->negated ? "!=" : "==", param->wanted);
        }
        str_add(out, "}\n");
    }
    for (int group = 0; group < 2; group++) {
        const char *separator = "[";
        for (int i = 0; i < model->count; i++) {
            if (model->params[i].group == group) {
                str_addf(out, "%s%sp%d", strstr(out->text, "zip:") ? "" : "zip: [", separator, i);
                separator = ", ";
            }
        }
        if (separator[0] == ',') {
            str_add(out, "], ");
        }
    }
    if (strstr(out->text, "zip:")) {
        out->size -= 2;
        out->text[out->size] = '\0';
        str_add(out, "]\n");
    }
}

static bool model_is_present(const struct model *model, const unsigned *at, int i)
{
    const struct model_param *param = &model->params[i];
    if (param->needs < 0) {
        return true;
    }
    return model_is_present(model, at, param->needs) &&
           (at[param->needs] == param->wanted) != param->negated;
}

static void model_add(struct model *model, const unsigned *at)
{
    AUTO_STR struct str line = {0};
    for (int i = 0; i < model->count; i++) {
        if (model_is_present(model, at, i)) {
            str_addf(&line, "%sp%d=%u", line.size ? " " : "", i, at[i]);
        }
    }
    for (size_t i = 0; i < model->line_count; i++) {
        if (strcmp(model->lines[i], str_text(&line)) == 0) {
            return;
        }
    }
    assert_true(model->line_count < MODEL_LINES);
    model->lines[model->line_count++] = mem_strdup(str_text(&line));
}

/* Every way to give each parameter a value, except that a group's members stand alike. */
static void model_build(struct model *model, unsigned *at, int i)
{
    if (i == model->count) {
        model_add(model, at);
        return;
    }
    for (unsigned v = 0; v < model->params[i].count; v++) {
        bool fits = true;
        for (int j = 0; j < i; j++) {
            bool together =
                model->params[i].group >= 0 && model->params[j].group == model->params[i].group;
            fits = fits && (!together || at[j] == v);
        }
        at[i] = v;
        if (fits) {
            model_build(model, at, i + 1);
        }
    }
}

static size_t model_find(const struct model *model, const char *line)
{
    for (size_t i = 0; i < model->line_count; i++) {
        if (strcmp(model->lines[i], line) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

static void check_against_model(struct fixture *f, const struct model *model, struct rng *rng)
{
    AUTO_STR struct str line = {0};
    unsigned seen[MODEL_LINES] = {0};
    assert_int_equal(f->size, model->line_count);
    for (uint64_t i = 0; i < f->size; i++) {
        fixture_draw(f, 0, false, i, &line);
        size_t at = model_find(model, str_text(&line));
        assert_true(at != SIZE_MAX);
        assert_int_equal(seen[at]++, 0);
    }
    memset(seen, 0, sizeof seen);
    uint64_t n = 1 + rng_below(rng, 2 * f->size + 1);
    uint64_t key = rng_next(rng);
    for (uint64_t i = 0; i < n; i++) {
        fixture_draw(f, key, true, i, &line);
        size_t at = model_find(model, str_text(&line));
        assert_true(at != SIZE_MAX);
        seen[at]++;
    }
    for (uint64_t i = 0; i < f->size; i++) {
        assert_in_range(seen[i], n / f->size, (n + f->size - 1) / f->size);
    }
}

static void test_random_spaces_agree_with_the_built_product(void **state)
{
    (void)state;
    const uint64_t seed = 51;
    struct rng rng = {.state = seed};
    print_message("seed %" PRIu64 "\n", seed);
    static struct model model;
    for (int i = 0; i < 400; i++) {
        AUTO_STR struct str yaml = {0};
        unsigned at[MODEL_PARAMS] = {0};
        struct fixture f;
        model_invent(&model, &rng);
        model_build(&model, at, 0);
        model_yaml(&model, &yaml);
        fixture_good(&f, str_text(&yaml));
        if (f.size != model.line_count) {
            print_error("%s", str_text(&yaml));
        }
        check_against_model(&f, &model, &rng);
        fixture_release(&f);
        for (size_t j = 0; j < model.line_count; j++) {
            free(model.lines[j]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_repeat_as_little_as_possible),
        cmocka_unit_test(test_orders_differ_between_rounds_and_keys),
        cmocka_unit_test(test_twelve_binary_parameters_make_4096),
        cmocka_unit_test(test_a_grid_of_two_to_the_sixty_third_works),
        cmocka_unit_test(test_larger_grids_are_refused),
        cmocka_unit_test(test_draws_are_pinned),
        cmocka_unit_test(test_adding_a_parameter_does_not_change_other_draws),
        cmocka_unit_test(test_drawn_parameters_may_depend_on_each_other),
        cmocka_unit_test(test_random_spaces_agree_with_the_built_product),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
