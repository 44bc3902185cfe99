/* volumes:, right and wrong, and what tasks see of them. */
#include "recipe/plan.h"
#include "recipe/recipe_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct recipe *good(const char *text)
{
    struct str out = {0};
    struct recipe *recipe = fixture_parse(text, NULL, 0, &out);
    assert_string_equal(str_text(&out), "");
    assert_non_null(recipe);
    str_release(&out);
    return recipe;
}

static void wrong(const char *text, const char *diagnosis)
{
    struct str out = {0};
    assert_null(fixture_parse(text, NULL, 0, &out));
    assert_string_equal(str_text(&out), diagnosis);
    str_release(&out);
}

/* An experiment with one volume of this name and place. */
static void wrong_volume(const char *volume, const char *diagnosis)
{
    struct str text = {0};
    struct str expected = {0};
    str_addf(&text, "experiments: {t: {command: x}}\nvolumes:\n  %s\n", volume);
    str_addf(&expected, "r.yaml:3:%s\n", diagnosis);
    wrong(str_text(&text), str_text(&expected));
    str_release(&text);
    str_release(&expected);
}

static const struct recipe_volume *volume_of(const struct recipe *recipe, size_t experiment,
                                             const char *name)
{
    const struct recipe_volume *volume =
        recipe_find_volume(&recipe->experiments[experiment].volumes, name);
    assert_non_null(volume);
    return volume;
}

static void test_an_experiments_volume_takes_the_place_of_the_shared_one(void **state)
{
    (void)state;
    struct recipe *recipe = good("volumes: {data: imagenet@v3, out: results}\n"
                                 "experiments:\n"
                                 "  a: {command: x}\n"
                                 "  b:\n"
                                 "    volumes: {data: 's3://b@c/p@v_4', more: 'file:///x/y@z/w'}\n"
                                 "    command: x\n");
    assert_int_equal(recipe->experiments[0].volumes.count, 2);
    assert_int_equal(recipe->experiments[1].volumes.count, 3);
    const struct recipe_volume *data = volume_of(recipe, 0, "data");
    assert_string_equal(data->listed, "imagenet");
    assert_string_equal(data->snapshot, "v3");
    assert_null(data->store);
    assert_null(volume_of(recipe, 0, "out")->snapshot);
    data = volume_of(recipe, 1, "data");
    assert_string_equal(data->store, "s3://b@c/p");
    assert_string_equal(data->snapshot, "v_4");
    assert_null(data->listed);
    assert_string_equal(volume_of(recipe, 1, "more")->store, "file:///x/y@z/w");
    assert_null(volume_of(recipe, 1, "more")->snapshot); /* the @ is part of a folder's name */
    assert_null(recipe_find_volume(&recipe->experiments[0].volumes, "more"));
    recipe_destroy(recipe);
}

static void test_tasks_see_folders_in_commands_and_variables(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n"
                                 "  prepare: {command: x}\n"
                                 "  t:\n"
                                 "    depends_on: prepare\n"
                                 "    volumes: {my-data: d@v1, out: o}\n"
                                 "    env: {PLACE: 'at {{volumes.out}}'}\n"
                                 "    command: x {{volumes.my-data}} {{prepare.output}}\n");
    struct plan_context context = {
        .recipe = recipe, .volume_before = "<", .volume_after = ">", .outputs_folder = "/outs"};
    struct arena arena = {0};
    struct plan_task task;
    struct str env = {0};
    plan_task(&context, 1, 0, 1, &arena, &task);
    assert_string_equal(task.argv[2], "x '<my-data>' /outs/prepare");
    for (size_t i = 0; i < task.env_count; i++) {
        str_addf(&env, "%s\n", task.env[i]);
    }
    assert_non_null(strstr(str_text(&env), "\nDROVER_VOLUME_MY_DATA=<my-data>\n"));
    assert_non_null(strstr(str_text(&env), "\nDROVER_VOLUME_OUT=<out>\n"));
    assert_non_null(strstr(str_text(&env), "\nPLACE=at <out>\n"));
    context.volume_before = NULL;
    context.volume_after = NULL;
    plan_task(&context, 1, 0, 1, &arena, &task);
    assert_string_equal(task.argv[2], "x volumes/my-data /outs/prepare");
    str_release(&env);
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void test_a_volume_that_is_none_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char form[] =
        "must be NAME, file:///folder or s3://bucket/prefix, with @SNAPSHOT if wanted";
    struct str text = {0};
    str_addf(&text, "9: volume 'data': 'ftp://x' %s", form);
    wrong_volume("data: ftp://x", str_text(&text));
    str_clear(&text);
    str_addf(&text, "9: volume 'data': 'a/b' %s", form);
    wrong_volume("data: a/b", str_text(&text));
    str_clear(&text);
    str_addf(&text, "9: volume 'data': 'file://x' %s", form);
    wrong_volume("data: file://x", str_text(&text));
    wrong_volume("data: imagenet@", "9: volume 'data': 'imagenet@' has no good name of a snapshot "
                                    "after the @");
    wrong_volume("data: imagenet@a@.b", "9: volume 'data': 'imagenet@a@.b' has no good name of a "
                                        "snapshot after the @");
    wrong_volume("data: imagenet:/sub",
                 "9: volume 'data': 'imagenet:/sub' must be a whole volume, without :/PATH");
    wrong_volume("data: 'x{{y}}'", "9: volume 'data': 'x{{y}}' cannot be a template: it is the "
                                   "same for all tasks");
    wrong_volume("data: a b", "9: volume 'data': 'a b' must not hold spaces");
    wrong_volume("data: {}", "9: a volume must be text, not a mapping");
    wrong_volume("checkpoint: x@y",
                 "15: volume 'checkpoint': 'x@y' is a snapshot, and checkpoints are written to the "
                 "volume of this name");
    wrong_volume("9x: a", "3: a volume's name is at most 64 letters, digits, _ and -, and begins "
                          "with a letter or _, unlike '9x'");
    str_release(&text);
}

static void test_other_mistakes_are_told(void **state)
{
    (void)state;
    wrong("volumes: [a]\nexperiments: {t: {command: x}}\n",
          "r.yaml:1:10: volumes must be a mapping such as {data: imagenet@v3, out: results}\n");
    wrong("volume: {a: b}\nexperiments: {t: {command: x}}\n",
          "r.yaml:1:1: unknown key 'volume' (did you mean 'volumes'?)\n");
    wrong("volumes: {a-b: x, a_b: y}\nexperiments: {t: {command: x}}\n",
          "r.yaml:1:24: volumes 'a-b' and 'a_b' would have the same environment variable\n");
    wrong("volumes: {data: x}\nexperiments: {t: {command: 'x {{volumes.dat}}'}}\n",
          "r.yaml:2:31: {{volumes.dat}}: no such name (did you mean 'volumes.data'?)\n");
    wrong(
        "experiments:\n  a: {command: 'x {{volumes.data}}'}\n  b: {command: x, volumes: {data: y}}"
        "\n",
        "r.yaml:2:19: {{volumes.data}}: no such name (a literal {{ is written {{{{)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_experiments_volume_takes_the_place_of_the_shared_one),
        cmocka_unit_test(test_tasks_see_folders_in_commands_and_variables),
        cmocka_unit_test(test_a_volume_that_is_none_is_refused_with_its_place),
        cmocka_unit_test(test_other_mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
