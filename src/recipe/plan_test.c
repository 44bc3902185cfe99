#include "base/clock.h"
#include "base/mem.h"
#include "recipe/plan.h"
#include "recipe/recipe_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct recipe *good(const char *text)
{
    struct str out = {0};
    struct recipe *recipe = fixture_parse(text, NULL, 0, &out);
    assert_string_equal(str_text(&out), "");
    str_release(&out);
    return recipe;
}

static void test_figure_1_draws_in_its_range(void **state)
{
    (void)state;
    struct recipe *recipe = good(FIGURE_1);
    struct plan_context context = {.recipe = recipe, .seed = 1};
    struct arena arena = {0};
    static const char start[] = "python train.py --lr ";
    for (uint64_t i = 0; i < 1000; i++) {
        struct plan_task task;
        plan_task(&context, 0, i, 1, &arena, &task);
        assert_int_equal(task.argc, 3);
        assert_string_equal(task.argv[0], "/bin/sh");
        assert_string_equal(task.argv[1], "-c");
        assert_memory_equal(task.argv[2], start, strlen(start));
        double lr = strtod(task.argv[2] + strlen(start), NULL);
        assert_true(lr >= 0.1 && lr <= 0.3);
        assert_null(task.argv[3]);
        arena_reset(&arena);
    }
    arena_release(&arena);
    recipe_destroy(recipe);
}

static const char *env_of(const struct plan_task *task, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < task->env_count; i++) {
        if (strncmp(task->env[i], name, size) == 0 && task->env[i][size] == '=') {
            return task->env[i] + size + 1;
        }
    }
    return NULL;
}

static void test_a_task_knows_who_and_where_it_is(void **state)
{
    (void)state;
    struct recipe *recipe = good(
        "env: {SHARED: '{{experiment}}', BOTH: a}\n"
        "experiments:\n"
        "  prep: {command: x}\n"
        "  train:\n"
        "    depends_on: prep\n"
        "    checkpoint: true\n"
        "    parameters: {name: ['a b'], n: [7]}\n"
        "    env: {BOTH: 'b {{name}}'}\n"
        "    workdir: w/{{n}}\n"
        "    outputs: ['m-{{n}}.bin', log]\n"
        "    exec: [prog, '{{name|flag}}', '{{task}}', '{{index}}', '{{attempt}}', '{{output}}',"
        " '{{checkpoint}}', '{{workflow}}', '{{seed}}', '{{prep.output}}', '']\n");
    struct plan_context context = {.recipe = recipe,
                                   .seed = 5,
                                   .workflow = "W1",
                                   .outputs_folder = "/s/outputs",
                                   .output = "/s/o",
                                   .checkpoint = "/s/c",
                                   .recipe_folder = "/r"};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 1, 0, 3, &arena, &task);
    static const char *const argv[] = {"prog", "--name", "a b", "W1/train/0",      "0", "3", "/s/o",
                                       "/s/c", "W1",     "5",   "/s/outputs/prep", ""};
    assert_int_equal(task.argc, sizeof argv / sizeof argv[0]);
    for (size_t i = 0; i < task.argc; i++) {
        assert_string_equal(task.argv[i], argv[i]);
    }
    assert_null(task.argv[task.argc]);
    assert_null(task.env[task.env_count]);
    assert_int_equal(task.env_count, 9);
    assert_string_equal(env_of(&task, "DROVER_TASK"), "W1/train/0");
    assert_string_equal(env_of(&task, "DROVER_ATTEMPT"), "3");
    assert_string_equal(env_of(&task, "DROVER_PARAMS"), "{\"name\":\"a b\",\"n\":7}");
    assert_string_equal(env_of(&task, "DROVER_EXPERIMENT"), "train");
    assert_string_equal(env_of(&task, "DROVER_INDEX"), "0");
    assert_string_equal(env_of(&task, "DROVER_OUTPUT"), "/s/o");
    assert_string_equal(env_of(&task, "DROVER_CHECKPOINT"), "/s/c");
    assert_string_equal(env_of(&task, "SHARED"), "train");
    assert_string_equal(env_of(&task, "BOTH"), "b a b");
    assert_string_equal(task.workdir, "/r/w/7");
    assert_int_equal(task.output_count, 2);
    assert_string_equal(task.outputs[0], "m-7.bin");
    struct str json = {0};
    plan_params_json(&context, 1, 0, &arena, &json);
    assert_string_equal(str_text(&json), "{\"name\":\"a b\",\"n\":7}");
    str_release(&json);
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void test_a_plan_without_places_shows_what_stands_for_them(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n  a: {command: x}\n  b:\n    depends_on: a\n"
                                 "    exec: [p, '{{output}}', '{{a.output}}', '{{task}}']\n");
    struct plan_context context = {.recipe = recipe};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 1, 0, 1, &arena, &task);
    assert_string_equal(task.argv[1], "OUTPUT");
    assert_string_equal(task.argv[2], "outputs/a");
    assert_string_equal(task.argv[3], "b/0");
    assert_string_equal(task.workdir, ".");
    assert_null(env_of(&task, "DROVER_OUTPUT"));
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void test_a_boolean_flag_is_there_or_not_in_exec_too(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n  a:\n    parameters: {amp: [true, false]}\n"
                                 "    exec: [p, '{{amp|flag}}', end]\n");
    struct plan_context context = {.recipe = recipe};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 0, 0, 1, &arena, &task);
    assert_int_equal(task.argc, 3);
    assert_string_equal(task.argv[1], "--amp");
    plan_task(&context, 0, 1, 1, &arena, &task);
    assert_int_equal(task.argc, 2);
    assert_string_equal(task.argv[1], "end");
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void test_absent_parameters_leave_no_trace(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n  e:\n    parameters:\n      opt: [adam, sgd]\n"
                                 "      mom: {values: [0.9], when: opt == sgd}\n"
                                 "    exec: [p, '{{opt|flag}}', '{{mom|flag}}']\n");
    struct plan_context context = {.recipe = recipe};
    struct arena arena = {0};
    struct plan_task task;
    assert_int_equal(recipe->experiments[0].task_count, 2);
    plan_task(&context, 0, 0, 1, &arena, &task);
    assert_int_equal(task.argc, 3);
    assert_string_equal(env_of(&task, "DROVER_PARAMS"), "{\"opt\":\"adam\"}");
    plan_task(&context, 0, 1, 1, &arena, &task);
    assert_int_equal(task.argc, 5);
    assert_string_equal(task.argv[4], "0.9");
    arena_release(&arena);
    recipe_destroy(recipe);
}

/* Runs the script of the recipe's only task and returns its exit status. */
static int run(const char *text, struct str *out)
{
    struct recipe *recipe = good(text);
    struct plan_context context = {.recipe = recipe};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 0, 0, 1, &arena, &task);
    assert_string_equal(task.argv[0], "/bin/sh");
    FILE *pipe = popen(task.argv[2], "r");
    assert_non_null(pipe);
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) {
        str_add_char(out, (char)c);
    }
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    arena_release(&arena);
    recipe_destroy(recipe);
    return WEXITSTATUS(status);
}

static void test_lines_run_in_one_shell_until_one_fails(void **state)
{
    (void)state;
    struct str out = {0};
    assert_int_equal(run("experiments: {e: {command: ['cd /', 'A=5; export A', 'echo $PWD $A', "
                         "'exec 2>&1; (exit 7)', 'echo never']}}",
                         &out),
                     7);
    assert_string_equal(str_text(&out), "/ 5\n");
    str_clear(&out);
    assert_int_equal(run("experiments: {e: {command: ['true # note', '# only a note', 'echo ok', "
                         "'(exit 3)']}}",
                         &out),
                     3);
    assert_string_equal(str_text(&out), "ok\n");
    str_clear(&out);
    assert_int_equal(run("experiments:\n  e:\n    command: |\n      false\n      echo on\n", &out),
                     0);
    assert_string_equal(str_text(&out), "on\n");
    str_release(&out);
}

static void test_no_value_becomes_shell_syntax(void **state)
{
    (void)state;
    struct str out = {0};
    assert_int_equal(
        run("experiments: {e: {parameters: {x: [\"a'b\\\"c $(echo no); `d` \\n&\"]}, "
            "command: \"printf %s {{x}}; printf %s '{{x}}'; printf %s \\\"{{x}}\\\"\"}}",
            &out),
        0);
    static const char once[] = "a'b\"c $(echo no); `d` \n&";
    struct str thrice = {0};
    str_add_repeat(&thrice, once, 3);
    assert_string_equal(str_text(&out), str_text(&thrice));
    str_release(&out);
    str_release(&thrice);
}

static void test_plans_are_the_same_every_time_and_differ_by_seed(void **state)
{
    (void)state;
    struct recipe *a = good(FIGURE_1);
    struct recipe *b = good(FIGURE_1);
    struct arena arena = {0};
    int differing = 0;
    for (uint64_t i = 0; i < 100; i++) {
        struct plan_context one = {.recipe = a, .seed = 1};
        struct plan_context two = {.recipe = b, .seed = 1};
        struct plan_context other = {.recipe = b, .seed = 2};
        struct plan_task t1;
        struct plan_task t2;
        struct plan_task t3;
        plan_task(&one, 0, i, 1, &arena, &t1);
        plan_task(&two, 0, i, 2, &arena, &t2);
        plan_task(&other, 0, i, 1, &arena, &t3);
        assert_string_equal(t1.argv[2], t2.argv[2]);
        differing += strcmp(t1.argv[2], t3.argv[2]) != 0;
        arena_reset(&arena);
    }
    assert_true(differing > 95);
    arena_release(&arena);
    recipe_destroy(a);
    recipe_destroy(b);
}

static bool give(void *owner, uint32_t experiment, uint64_t task, struct value *values,
                 struct plan_trial *out, struct arena *arena)
{
    uint64_t defined = *(uint64_t *)owner;
    assert_int_equal(experiment, 0);
    values[0] = (struct value){.kind = VALUE_NUMBER, .text = "0.25", .size = 4};
    values[1] = (struct value){.kind = VALUE_ABSENT, .text = arena_strdup(arena, "")};
    *out = (struct plan_trial){.trial = 7, .rung = 2, .budget = 9};
    return task < defined;
}

static void test_a_trial_runs_what_the_search_gave_it(void **state)
{
    (void)state;
    struct recipe *recipe =
        good("experiments:\n"
             "  t:\n"
             "    parameters:\n"
             "      lr: {range: 0-1}\n"
             "      m: {range: 2-3, when: lr > 0.5}\n"
             "    gang: 2\n"
             "    search:\n"
             "      metric: loss\n"
             "      goal: minimize\n"
             "      trials: 10\n"
             "      early_stop: {algorithm: asha, min: 3, max: 27}\n"
             "    command: x {{lr}} {{m|flag}} {{trial}} {{rung}} {{budget}}\n");
    uint64_t defined = 6;
    struct plan_context context = {.recipe = recipe,
                                   .output = "/o",
                                   .checkpoint = "/c",
                                   .given = give,
                                   .given_owner = &defined};
    struct arena arena = {0};
    struct plan_task task;
    plan_task(&context, 0, 5, 1, &arena, &task);
    assert_string_equal(task.argv[2], "x 0.25  7 2 9");
    assert_string_equal(env_of(&task, "DROVER_TRIAL"), "7");
    assert_string_equal(env_of(&task, "DROVER_RUNG"), "2");
    assert_string_equal(env_of(&task, "DROVER_BUDGET"), "9");
    assert_string_equal(env_of(&task, "DROVER_REPORT"), "/o/metrics.jsonl");
    assert_string_equal(env_of(&task, "DROVER_PARAMS"), "{\"lr\":0.25}");
    assert_true(task.is_trial);
    assert_int_equal(task.checkpoint, 15); /* the second of the gang of trial 7 */
    assert_int_equal(plan_checkpoint(&context, 0, 4, &arena), 14);
    plan_task(&context, 0, 6, 1, &arena, &task); /* not defined yet: an example */
    assert_string_equal(env_of(&task, "DROVER_TRIAL"), "3");
    assert_string_equal(env_of(&task, "DROVER_BUDGET"), "3");
    struct plan_task again;
    context.given = NULL;
    plan_task(&context, 0, 7, 1, &arena, &again);
    assert_string_equal(env_of(&task, "DROVER_PARAMS"), env_of(&again, "DROVER_PARAMS"));
    arena_release(&arena);
    recipe_destroy(recipe);
}

static void test_planning_is_quick(void **state)
{
    (void)state;
    struct recipe *recipe = good(FIGURE_1);
    struct plan_context context = {.recipe = recipe, .seed = 1};
    struct arena arena = {0};
    int64_t start_us = clock_mono_us();
    enum { ROUNDS = 100 };
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            struct plan_task task;
            plan_task(&context, 0, i, 1, &arena, &task);
            arena_reset(&arena);
        }
    }
    double each_us = (double)(clock_mono_us() - start_us) / (ROUNDS * 1000.0);
    printf("%.2f us a task\n", each_us);
    assert_true(each_us < 100); /* far above what it takes, for sanitizers on a busy machine */
    arena_release(&arena);
    recipe_destroy(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_1_draws_in_its_range),
        cmocka_unit_test(test_a_task_knows_who_and_where_it_is),
        cmocka_unit_test(test_a_plan_without_places_shows_what_stands_for_them),
        cmocka_unit_test(test_a_boolean_flag_is_there_or_not_in_exec_too),
        cmocka_unit_test(test_absent_parameters_leave_no_trace),
        cmocka_unit_test(test_lines_run_in_one_shell_until_one_fails),
        cmocka_unit_test(test_no_value_becomes_shell_syntax),
        cmocka_unit_test(test_plans_are_the_same_every_time_and_differ_by_seed),
        cmocka_unit_test(test_a_trial_runs_what_the_search_gave_it),
        cmocka_unit_test(test_planning_is_quick),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
