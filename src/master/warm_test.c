/* Trials of earlier workflows: which of them are points of a space, and what they tell. */
#include "master/warm.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/search_space.h"
#include "master/trials.h"
#include "recipe/dims.h"
#include "recipe/recipe_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SEARCH "    search: {metric: acc, goal: maximize, trials: 9}\n    command: x\n"

static const char recipe_text[] =
    "experiments:\n"
    "  t:\n"
    "    parameters:\n"
    "      optimizer: [sgd, adam, \"01\", 1, true, \"a\\nb\\u00e9\"]\n"
    "      momentum: {range: 0-1, when: optimizer == sgd}\n"
    "      lr: {range: 1e-5..1e-1, sampling: log}\n"
    "      batch: {range: 10..100 step 10}\n"
    "      width: [1e-3, 64, 0x80]\n"
    "      down: 10..0 step -2.5\n"
    "      whole: {range: 1..1000, sampling: log, integer: true}\n"
    "      noise: {mean: 0, sd: 1, sampling: normal}\n"
    "      warm: {range: 1-2, when: lr > 0.01 and batch > 50}\n"
    "      fixed: 7\n"
    "      size: [1, 2, 3]\n"
    "      depth: [8, 4, 2]\n"
    "    zip: [size, depth]\n" SEARCH;

struct scene {
    struct recipe *recipe;
    const struct experiment *experiment;
    struct warm *warm;
};

static void scene_open(struct scene *scene, const char *text)
{
    AUTO_STR struct str out = {0};
    scene->recipe = fixture_parse(text, NULL, 0, &out);
    assert_string_equal(str_text(&out), "");
    scene->experiment = &scene->recipe->experiments[0];
    scene->warm = warm_create(scene->experiment);
}

static void scene_close(struct scene *scene)
{
    warm_destroy(scene->warm);
    recipe_destroy(scene->recipe);
}

static void add_params(const struct experiment *experiment, const struct dims *dims,
                       const struct dims_point *points, struct str *out)
{
    struct arena scratch = {0};
    struct value values[SPACE_PARAMS_MAX];
    struct json json = {.out = out};
    dims_arguments(dims, points, values, &scratch);
    json_object(&json);
    for (size_t i = 0; i < space_param_count(experiment->space); i++) {
        if (values[i].kind != VALUE_ABSENT) {
            json_key(&json, space_param_name(experiment->space, i));
            value_add_json(&json, &values[i]);
        }
    }
    json_end(&json);
    arena_release(&scratch);
}

static void test_any_trial_of_the_same_space_is_found_again(void **state)
{
    (void)state;
    struct scene scene;
    struct arena arena = {0};
    scene_open(&scene, recipe_text);
    const struct dims *dims = dims_create(&arena, scene.experiment->space);
    struct search_space *space = search_space_create(scene.experiment, 1);
    struct rng rng = {.state = 31};
    print_message("seed %" PRIu64 "\n", rng.state);
    for (int round = 0; round < 2000; round++) {
        struct dims_point points[SPACE_PARAMS_MAX];
        struct search_value values[SPACE_PARAMS_MAX];
        AUTO_STR struct str params = {0};
        AUTO_STR struct str again = {0};
        dims_example(dims, rng_next(&rng), points);
        add_params(scene.experiment, dims, points, &params);
        const char *misfit = warm_fit(scene.warm, str_text(&params), values);
        if (misfit) {
            fail_msg("%s: %s", misfit, str_text(&params));
        }
        for (size_t i = 0; i < dims_count(dims); i++) {
            assert_int_equal(values[i].present, points[i].present);
            if (points[i].present && dims_at(dims, i)->count > 0) {
                assert_int_equal(values[i].index, points[i].index);
            } else if (points[i].present) {
                assert_true(values[i].number == points[i].number);
            }
        }
        /* and a log would read it back */
        search_space_add_text(space, values, &again);
        assert_int_equal(search_space_read_text(space, str_text(&again), values, NULL), ERR_OK);
    }
    search_space_destroy(space);
    arena_release(&arena);
    scene_close(&scene);
}

static void test_what_is_not_of_the_space_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *params;
        const char *misfit;
    } cases[] = {
        {"{\"a\":\"x\",\"b\":0.5,\"c\":3}", NULL},
        {"{\"a\":\"\\u0078\",\"b\":5e-1,\"c\":3.0}", NULL},
        {"{\"a\":\"y\",\"c\":3}", NULL},
        {"{\"a\":\"z\",\"b\":0.5,\"c\":3}", "a"},
        {"{\"a\":\"x\",\"b\":1.5,\"c\":3}", "b"},
        {"{\"a\":\"x\",\"b\":\"0.5\",\"c\":3}", "b"},
        {"{\"a\":\"x\",\"b\":null,\"c\":3}", "b"},
        {"{\"a\":\"x\",\"c\":3}", "b"},
        {"{\"a\":\"y\",\"b\":0.5,\"c\":3}", "b"},
        {"{\"a\":\"x\",\"b\":0.5}", "c"},
        {"{\"a\":\"x\",\"b\":0.5,\"c\":3.5}", "c"},
        {"{\"a\":\"x\",\"b\":0.5,\"c\":11}", "c"},
        {"{\"a\":\"x\",\"b\":0.5,\"c\":-1e300}", "c"},
        {"{\"a\":\"x\",\"b\":0.5,\"c\":3,\"d\":1}", "d"},
        {"[1]", "params"},
        {"{", "params"},
    };
    struct scene scene;
    scene_open(&scene, "experiments:\n"
                       "  t:\n"
                       "    parameters:\n"
                       "      a: [x, y]\n"
                       "      b: {range: 0-1, when: a == x}\n"
                       "      c: 1..10\n" SEARCH);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct search_value values[SPACE_PARAMS_MAX];
        const char *misfit = warm_fit(scene.warm, cases[i].params, values);
        if (!misfit != !cases[i].misfit || (misfit && strcmp(misfit, cases[i].misfit) != 0)) {
            fail_msg("%s: %s", cases[i].params, misfit ? misfit : "fits");
        }
    }
    scene_close(&scene);
}

/* --- a log -------------------------------------------------------------------------------------
 */

struct told {
    struct str text;
};

static enum err_code take(void *owner, const struct warm_trial *trial, struct err *err)
{
    static const char *const names[] = {[SEARCH_FINISHED] = "finished",
                                        [SEARCH_FAILED] = "failed",
                                        [SEARCH_DIVERGED] = "diverged",
                                        [SEARCH_PRUNED] = "pruned",
                                        [SEARCH_GONE] = "gone"};
    struct told *told = owner;
    (void)err;
    str_addf(&told->text, "%" PRIu64 " %g %s", trial->trial, trial->values[0].number,
             names[trial->status]);
    if (trial->results) {
        str_addf(&told->text, " %g", trial->results[0]);
    }
    str_add_char(&told->text, '\n');
    return ERR_OK;
}

#define HEAD "{\"v\":1,\"experiment\":\"t\",\"at\":1,"
#define SUGGESTED(n, budget, params)                                                               \
    HEAD "\"kind\":\"suggested\",\"task\":" n ",\"trial\":" n ",\"rung\":0,\"budget\":" budget     \
         ",\"params\":" params ",\"point\":\"\"}\n"
#define RESULT(n, state, metrics)                                                                  \
    HEAD "\"kind\":\"result\",\"task\":" n ",\"trial\":" n ",\"rung\":0,\"state\":\"" state        \
         "\",\"values\":[],\"metrics\":" metrics ",\"reason\":null,\"step\":null}\n"

static void read_log(struct scene *scene, const char *log, struct told *told,
                     struct warm_counts *counts)
{
    char folder[] = "/tmp/warm-test.XXXXXX";
    assert_non_null(mkdtemp(folder));
    AUTO_STR struct str path = {0};
    struct err err = {0};
    trials_add_path(&path, folder);
    assert_int_equal(io_replace_file(str_text(&path), log, strlen(log), 0600, &err), ERR_OK);
    enum err_code code = warm_read(scene->warm, scene->experiment, folder,
                                   &(struct warm_sink){take, told}, counts, &err);
    if (code != ERR_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(code, ERR_OK);
    assert_int_equal(io_remove_tree(folder, &err), ERR_OK);
}

static const char small_recipe[] =
    "experiments:\n  t:\n    parameters: {x: {range: 0-10}}\n" SEARCH;

static void test_results_are_told_as_what_they_are(void **state)
{
    (void)state;
    struct scene scene;
    struct told told = {0};
    struct warm_counts counts;
    scene_open(&scene, small_recipe);
    read_log(&scene,
             SUGGESTED("0", "9", "{\"x\":1}") SUGGESTED("1", "3", "{\"x\":2}")
                 SUGGESTED("2", "9", "{\"x\":3}") SUGGESTED("3", "9", "{\"x\":4}")
                     SUGGESTED("4", "9", "{\"x\":5}") SUGGESTED("5", "9", "{\"x\":55}")
                         SUGGESTED("6", "9", "{\"x\":6}") SUGGESTED("7", "9", "{\"x\":7}")
                             SUGGESTED("8", "9", "{\"x\":8}")
                                 RESULT("0", "succeeded", "{\"acc\":0.5,\"loss\":1}") RESULT(
                                     "1", "succeeded", "{\"acc\":0.4}") RESULT("2", "failed", "{}")
                                     RESULT("3", "diverged", "{\"acc\":null}")
                                         RESULT("4", "stopped", "{\"acc\":0.1}")
                                             RESULT("5", "succeeded", "{\"acc\":1}")
                                                 RESULT("6", "cancelled", "{\"acc\":1}")
                                                     RESULT("7", "succeeded", "{\"loss\":1}"),
             &told, &counts);
    assert_string_equal(str_text(&told.text),
                        "0 1 finished 0.5\n1 2 pruned 0.4\n2 3 failed\n3 4 diverged\n"
                        "4 5 pruned 0.1\n");
    assert_int_equal(counts.told, 5);
    assert_int_equal(counts.misfits, 1);
    assert_string_equal(counts.misfit, "x");
    assert_int_equal(counts.misfit_trial, 5);
    assert_int_equal(counts.open, 2);
    assert_int_equal(counts.unlike, 1);
    str_release(&told.text);
    scene_close(&scene);
}

static void test_a_search_of_another_name_will_do_if_it_is_the_only_one(void **state)
{
    (void)state;
    struct scene scene;
    struct told told = {0};
    struct warm_counts counts;
    scene_open(&scene, "experiments:\n  other:\n    parameters: {x: {range: 0-10}}\n" SEARCH);
    read_log(&scene, SUGGESTED("0", "null", "{\"x\":1}") RESULT("0", "succeeded", "{\"acc\":2}"),
             &told, &counts);
    assert_string_equal(str_text(&told.text), "0 1 finished 2\n");
    str_release(&told.text);
    read_log(&scene, "", &told, &counts);
    assert_int_equal(counts.told, 0);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_trial_of_the_same_space_is_found_again),
        cmocka_unit_test(test_what_is_not_of_the_space_is_named),
        cmocka_unit_test(test_results_are_told_as_what_they_are),
        cmocka_unit_test(test_a_search_of_another_name_will_do_if_it_is_the_only_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
