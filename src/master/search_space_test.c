/* From a recipe to a search's space, and from a trial to a line of text and to arguments. */
#include "master/search_space.h"

#include "recipe/dims.h"
#include "recipe/recipe_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char recipe_text[] = "experiments:\n"
                                  "  t:\n"
                                  "    parameters:\n"
                                  "      optimizer: [sgd, adam]\n"
                                  "      momentum: {range: 0-1, when: optimizer == sgd}\n"
                                  "      lr: {range: 1e-5..1e-1, sampling: log}\n"
                                  "      batch: {range: 10..100 step 10}\n"
                                  "      warm: {range: 1-2, when: lr > 0.01 and batch > 50}\n"
                                  "      fixed: 7\n"
                                  "      size: [1, 2, 3]\n"
                                  "      depth: [8, 4, 2]\n"
                                  "    zip: [size, depth]\n"
                                  "    require: [batch * size <= 200, momentum < 0.9]\n"
                                  "    search:\n"
                                  "      algorithm: cma-es\n"
                                  "      metric: [loss, accuracy]\n"
                                  "      goal: [minimize, maximize]\n"
                                  "      trials: 30\n"
                                  "      parallel: 4\n"
                                  "    command: x {{lr}}\n";

struct scene {
    struct recipe *recipe;
    struct search_space *space;
    const struct search_options *options;
};

static void scene_open(struct scene *scene, const char *text)
{
    struct str out = {0};
    scene->recipe = fixture_parse(text, NULL, 0, &out);
    assert_string_equal(str_text(&out), "");
    str_release(&out);
    scene->space = search_space_create(&scene->recipe->experiments[0], 99);
    scene->options = search_space_options(scene->space);
}

static void scene_close(struct scene *scene)
{
    search_space_destroy(scene->space);
    recipe_destroy(scene->recipe);
}

static size_t find(const struct scene *scene, const char *name)
{
    size_t at = 0;
    while (strcmp(scene->options->params[at].name, name) != 0) {
        at++;
        assert_true(at < scene->options->param_count);
    }
    return at;
}

static void test_a_recipe_is_a_space_to_search(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, recipe_text);
    const struct search_options *options = scene.options;
    assert_int_equal(search_space_count(scene.space), 7);
    assert_int_equal(options->param_count, 7);
    assert_int_equal(options->algorithm, SEARCH_CMA_ES);
    assert_int_equal(options->goal_count, 2);
    assert_int_equal(options->goals[0], SEARCH_MINIMIZE);
    assert_int_equal(options->goals[1], SEARCH_MAXIMIZE);
    assert_int_equal(options->trials, 30);
    assert_int_equal(options->parallel, 4);
    assert_non_null(options->present);
    assert_non_null(options->allowed);
    const struct search_param *params = options->params;
    size_t momentum = find(&scene, "momentum");
    assert_int_equal(params[momentum].kind, SEARCH_UNIFORM);
    assert_true(params[momentum].conditional);
    assert_int_equal(params[momentum].parent, find(&scene, "optimizer"));
    assert_int_equal(params[momentum].when_count, 1);
    assert_int_equal(params[find(&scene, "lr")].kind, SEARCH_LOG);
    assert_int_equal(params[find(&scene, "batch")].count, 10);
    assert_true(params[find(&scene, "batch")].step == 10);
    assert_int_equal(params[find(&scene, "fixed")].kind, SEARCH_FIXED);
    assert_int_equal(params[find(&scene, "size+depth")].kind, SEARCH_ORDERED);
    assert_false(params[find(&scene, "warm")].conditional); /* asked through present */
    scene_close(&scene);
}

static void test_callbacks_know_conditions_and_constraints(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, recipe_text);
    const struct search_options *options = scene.options;
    struct search_value values[7] = {0};
    for (size_t i = 0; i < 7; i++) {
        values[i].present = true;
    }
    values[find(&scene, "momentum")].number = 0.5;
    values[find(&scene, "lr")].number = 0.05;
    values[find(&scene, "batch")].index = 9; /* 100 */
    values[find(&scene, "warm")].number = 1.5;
    size_t warm = find(&scene, "warm");
    assert_true(options->present(options->arg, warm, values));
    assert_true(options->present(options->arg, find(&scene, "momentum"), values));
    assert_true(options->allowed(options->arg, values));
    values[find(&scene, "size+depth")].index = 2; /* 100 * 3 */
    assert_false(options->allowed(options->arg, values));
    values[find(&scene, "batch")].index = 3;
    assert_true(options->allowed(options->arg, values));
    assert_false(options->present(options->arg, warm, values));
    values[find(&scene, "momentum")].number = 0.95;
    assert_false(options->allowed(options->arg, values));
    values[find(&scene, "optimizer")].index = 1;
    values[find(&scene, "momentum")].present = false; /* then it has nothing to say */
    assert_true(options->allowed(options->arg, values));
    scene_close(&scene);
}

static void test_a_trial_survives_as_text(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, recipe_text);
    struct arena arena = {0};
    const struct dims *dims = dims_create(&arena, scene.recipe->experiments[0].space);
    for (uint64_t key = 0; key < 300; key++) {
        struct dims_point points[7];
        struct search_value values[7];
        struct search_value back[7];
        struct value first[8];
        struct value second[8];
        dims_example(dims, key, points);
        for (size_t i = 0; i < 7; i++) {
            values[i] = (struct search_value){
                .present = points[i].present, .index = points[i].index, .number = points[i].number};
        }
        AUTO_STR struct str text = {0};
        search_space_add_text(scene.space, values, &text);
        struct err err = {0};
        assert_int_equal(search_space_read_text(scene.space, str_text(&text), back, &err), ERR_OK);
        search_space_arguments(scene.space, values, first, &arena);
        search_space_arguments(scene.space, back, second, &arena);
        for (size_t i = 0; i < 8; i++) {
            assert_int_equal(first[i].kind, second[i].kind);
            assert_string_equal(first[i].text, second[i].text);
        }
        for (size_t i = 0; i < 7; i++) {
            bool continuous = scene.options->params[i].count == 0;
            assert_int_equal(back[i].present, values[i].present);
            assert_true(!back[i].present || !continuous || back[i].number == values[i].number);
        }
    }
    arena_release(&arena);
    scene_close(&scene);
}

static void test_text_of_another_space_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               "experiments:\n"
               "  t:\n"
               "    parameters: {a: [x, y], b: {range: 0-1}, c: {range: 0-1, when: a == y}}\n"
               "    search: {metric: m, goal: minimize, trials: 3}\n"
               "    command: x\n");
    static const char *const bad[] = {
        "",         "0",         "0 0.5",     "2 0.5 -",
        "0 1.5 -",  "0 nan -",   "0 0.5 0.5", "1 0.5 -",
        "- 0.5 -",  "0 0.5 - 1", "0  0.5 -",  "0 0.5 - ",
        " 0 0.5 -", "-1 0.5 -",  "0 0x1 -",   "99999999999999999999999 0 -"};
    struct search_value values[3];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(search_space_read_text(scene.space, bad[i], values, NULL), ERR_CORRUPT);
    }
    assert_int_equal(search_space_read_text(scene.space, "1 0.5 0.25", values, NULL), ERR_OK);
    assert_int_equal(search_space_read_text(scene.space, "0 1e-3 -", values, NULL), ERR_OK);
    assert_true(values[1].number == 1e-3);
    assert_false(values[2].present);
    scene_close(&scene);
}

static void test_seeds_follow_the_workflow_unless_said(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, recipe_text);
    struct search_space *other = search_space_create(&scene.recipe->experiments[0], 100);
    assert_true(search_space_options(other)->seed != scene.options->seed);
    search_space_destroy(other);
    scene_close(&scene);
    scene_open(&scene, "experiments:\n"
                       "  t:\n"
                       "    parameters: {a: [x, y]}\n"
                       "    search: {metric: m, goal: minimize, trials: 3, seed: 5}\n"
                       "    command: x\n");
    assert_int_equal(scene.options->seed, 5);
    scene_close(&scene);
}

static void test_judges_hear_what_the_recipe_says(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, "experiments:\n"
                       "  t:\n"
                       "    parameters: {a: [x, y]}\n"
                       "    search:\n"
                       "      metric: m\n"
                       "      goal: maximize\n"
                       "      trials: 3\n"
                       "      stop: {target: 0.9, patience: 5, cost: 0.25 EUR, time: 1m}\n"
                       "      early_stop: {algorithm: asha, min: 2, max: 16, eta: 2}\n"
                       "    command: x\n");
    const struct experiment *experiment = &scene.recipe->experiments[0];
    struct asha_options asha;
    search_space_asha(experiment, &asha);
    assert_true(asha.maximize && asha.min == 2 && asha.max == 16 && asha.eta == 2);
    struct stop_options stop;
    search_space_stop(experiment, &stop);
    assert_true(stop.has_target && stop.target == 0.9 && stop.patience == 5);
    assert_int_equal(stop.cost_micro, 250000);
    assert_string_equal(stop.currency, "EUR");
    assert_int_equal(stop.time_ms, 60000);
    struct early_options early;
    search_space_early(experiment, &early);
    assert_int_equal(early.rule, EARLY_NONE);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_recipe_is_a_space_to_search),
        cmocka_unit_test(test_callbacks_know_conditions_and_constraints),
        cmocka_unit_test(test_a_trial_survives_as_text),
        cmocka_unit_test(test_text_of_another_space_is_refused),
        cmocka_unit_test(test_seeds_follow_the_workflow_unless_said),
        cmocka_unit_test(test_judges_hear_what_the_recipe_says),
    };
    return cmocka_run_group_tests_name("search_space", tests, NULL, NULL);
}
