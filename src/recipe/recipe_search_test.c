/* search:, metrics: and require:, right and wrong. */
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

/* What stands below search:, in an experiment with one range and one list. */
static void wrong_search(const char *lines, const char *diagnosis)
{
    struct str text = {0};
    str_add(&text, "experiments:\n"
                   "  t:\n"
                   "    command: x {{lr}} {{batch}}\n"
                   "    parameters: {lr: {range: 0-1}, batch: [1, 2]}\n"
                   "    search:\n");
    str_add(&text, lines);
    wrong(str_text(&text), diagnosis);
    str_release(&text);
}

static void test_the_search_of_the_manual_is_read(void **state)
{
    (void)state;
    struct recipe *recipe =
        good("experiments:\n"
             "  t:\n"
             "    parameters: {lr: {range: 1e-5..1e-1, sampling: log}, batch: [32, 64]}\n"
             "    metrics: ['epoch {step}: acc={accuracy}', 'x']\n"
             "    require: batch * lr <= 3\n"
             "    command: x {{lr}} {{batch}} {{trial}} {{rung}} {{budget}} {{checkpoint}}\n"
             "    search:\n"
             "      algorithm: tpe\n"
             "      metric: accuracy\n"
             "      goal: maximize\n"
             "      trials: 200\n"
             "      parallel: 16\n"
             "      stop: { target: 0.99, patience: 50, cost: 5 USD, time: 2h }\n"
             "      early_stop: { algorithm: asha, resource: epoch, min: 1, max: 27, eta: 3 }\n"
             "      seed: 7\n");
    const struct experiment *t = &recipe->experiments[0];
    const struct search_spec *search = t->search;
    assert_non_null(search);
    assert_int_equal(search->algorithm, RECIPE_TPE);
    assert_int_equal(search->goal_count, 1);
    assert_string_equal(search->goals[0].metric, "accuracy");
    assert_true(search->goals[0].maximize);
    assert_int_equal(search->trials, 200);
    assert_int_equal(search->parallel, 16);
    assert_true(search->stop.has_target && search->stop.target == 0.99);
    assert_int_equal(search->stop.patience, 50);
    assert_int_equal(search->stop.cost_micro, 5000000);
    assert_string_equal(search->stop.currency, "USD");
    assert_int_equal(search->stop.time_ms, 7200000);
    assert_int_equal(search->early.algorithm, RECIPE_EARLY_ASHA);
    assert_string_equal(search->early.resource, "epoch");
    assert_int_equal(search->early.min, 1);
    assert_int_equal(search->early.max, 27);
    assert_int_equal(search->early.eta, 3);
    assert_int_equal(search->rungs_max, 4);
    assert_true(search->has_seed && search->seed == 7);
    assert_int_equal(search->require_count, 1);
    assert_int_equal(t->task_count, 800);
    assert_true(t->checkpoint); /* a trial that goes on needs one */
    assert_false(t->sampled);
    assert_int_equal(t->metric_count, 2);
    assert_string_equal(t->metrics[0].text, "epoch {step}: acc={accuracy}");
    assert_int_equal(t->metrics[0].line, 4);
    recipe_destroy(recipe);
}

static void test_a_short_search_is_enough(void **state)
{
    (void)state;
    struct recipe *recipe = good("experiments:\n"
                                 "  t:\n"
                                 "    parameters: {trial: [1, 2], x: {range: 0-1}}\n"
                                 "    samples: 3\n"
                                 "    command: x {{trial}}\n" /* only a search takes the name */
                                 "  u:\n"
                                 "    parameters: {x: {range: 0-1}}\n"
                                 "    gang: 2\n"
                                 "    command: x {{x}}\n"
                                 "    search: {metric: [a, b], goal: minimise, trials: 10}\n"
                                 "  v:\n"
                                 "    parameters: {x: [1, 2, 3], y: 0..9}\n"
                                 "    command: x {{x}}\n"
                                 "    search: {algorithm: grid, metric: a, goal: maximise}\n");
    assert_null(recipe->experiments[0].search);
    const struct search_spec *u = recipe->experiments[1].search;
    assert_int_equal(u->algorithm, RECIPE_AUTO);
    assert_int_equal(u->goal_count, 2);
    assert_false(u->goals[0].maximize || u->goals[1].maximize);
    assert_int_equal(u->early.algorithm, RECIPE_EARLY_NONE);
    assert_int_equal(recipe->experiments[1].task_count, 20);
    assert_false(recipe->experiments[1].checkpoint);
    assert_int_equal(recipe->experiments[2].search->trials, 30); /* the whole grid */
    recipe_destroy(recipe);
}

static void test_a_space_too_large_for_a_grid_can_be_searched(void **state)
{
    (void)state;
    struct recipe *recipe =
        good("experiments:\n"
             "  t:\n"
             "    parameters: {a: 0..9999999999, b: 0..9999999999, c: 0..9999999999}\n"
             "    command: x {{a}}\n"
             "    search: {metric: [a, b], goal: [minimize, maximize], trials: 10}\n");
    recipe_destroy(recipe);
}

static void test_mistakes_are_told_with_their_place(void **state)
{
    (void)state;
    wrong_search("      {metric: a, goal: maximise, trials: 3, algoritm: tpe}\n",
                 "r.yaml:6:46: unknown key 'algoritm' (did you mean 'algorithm'?)\n");
    wrong_search(
        "      {metric: a, goal: maximze, trials: 3}\n",
        "r.yaml:6:25: goal must be minimize, maximize, minimise or maximise, not 'maximze' "
        "(did you mean 'maximize'?)\n");
    wrong_search("      {goal: maximize, trials: 3}\n",
                 "r.yaml:5:5: search needs metric:, the name of what is to be made best\n");
    wrong_search("      {metric: a, trials: 3}\n",
                 "r.yaml:5:5: search needs goal: minimize or maximize\n");
    wrong_search("      {metric: a, goal: minimize}\n",
                 "r.yaml:5:5: search needs trials:, how many to try at most\n");
    wrong_search("      {metric: a, goal: minimize, algorithm: grid}\n",
                 "r.yaml:5:5: search needs trials:, how many to try at most\n");
    wrong_search("      {metric: a, goal: minimize, trials: 0}\n",
                 "r.yaml:6:43: trials must be a whole number from 1 to 10000000, not '0'\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, algorithm: cmaes}\n",
                 "r.yaml:6:57: algorithm must be auto, grid, random, sobol, tpe, gp or cma-es, not "
                 "'cmaes' (did you mean 'cma-es'?)\n");
    wrong_search("      {metric: [a, b], goal: [minimize], trials: 3}\n",
                 "r.yaml:6:30: goal lists 1 words for 2 metrics; give one for each, or one for "
                 "all\n");
    wrong_search("      {metric: [a, a], goal: minimize, trials: 3}\n",
                 "r.yaml:6:20: metric 'a' is listed twice\n");
    wrong_search("      {metric: [a, b], goal: minimize, trials: 3, stop: {target: 1}}\n",
                 "r.yaml:6:66: target needs a search with a single metric\n");
    wrong_search("      3\n", "r.yaml:6:7: search must be a mapping such as {metric: accuracy, "
                              "goal: maximize, trials: 100}\n");
}

static void test_mistakes_in_stop_and_early_stop_are_told(void **state)
{
    (void)state;
    wrong_search("      {metric: a, goal: minimize, trials: 3, stop: {cost: 5}}\n",
                 "r.yaml:6:59: cost must be an amount above 0 with its currency, such as 5 USD or "
                 "0.25 EUR\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, stop: {target: high}}\n",
                 "r.yaml:6:61: target must be a number: the value of the metric that is good "
                 "enough\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, stop: {tme: 2h}}\n",
                 "r.yaml:6:53: unknown key 'tme' (did you mean 'time'?)\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, early_stop: asha}\n",
                 "r.yaml:6:58: asha needs max:, how far a trial may go at most, such as max: 27\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, early_stop: medain}\n",
                 "r.yaml:6:58: early_stop: algorithm must be asha, median, stabilised or "
                 "stabilized, not 'medain' (did you mean 'median'?)\n");
    wrong_search("      {metric: a, goal: minimize, trials: 3, early_stop: {max: 3}}\n",
                 "r.yaml:6:58: early_stop must be a mapping such as {algorithm: asha, resource: "
                 "epoch, min: 1, max: 27}\n");
    wrong_search(
        "      {metric: a, goal: minimize, trials: 3, early_stop: {algorithm: asha, min: 3, max: "
        "2}}\n",
        "r.yaml:6:89: max is less than min\n");
    wrong_search(
        "      {metric: a, goal: minimize, trials: 3, early_stop: {algorithm: median, eta: 2}}\n",
        "r.yaml:6:83: eta goes with asha, not with median\n");
    wrong_search("      {metric: a, goal: minimize, trials: 9999999, early_stop: {algorithm: asha, "
                 "max: 1000000000000, eta: 2}}\n",
                 "r.yaml:5:5: 9999999 trials may become 409999959 tasks, more than 100000000\n");
}

static void test_what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    wrong("experiments:\n"
          "  t:\n"
          "    command: x\n"
          "    samples: 3\n"
          "    parameters: {a: [1, 2]}\n"
          "    search: {metric: a, goal: minimize, trials: 3}\n",
          "r.yaml:4:14: samples: and search: do not go together; trials: says how many are "
          "tried\n");
    wrong("experiments:\n"
          "  t:\n"
          "    parameters: {a: [1, 2]}\n"
          "    require: a < 2\n"
          "    command: x {{a}} {{trial}}\n",
          "r.yaml:4:5: require: is for experiments with search:; a grid is thinned by when:\n"
          "r.yaml:5:22: {{trial}}: no such name (a literal {{ is written {{{{)\n");
}

static void test_names_of_a_search_are_taken(void **state)
{
    (void)state;
    wrong("experiments:\n"
          "  t:\n"
          "    command: x\n"
          "    search: {metric: a, goal: minimize, trials: 3}\n",
          "r.yaml:4:5: search needs parameters: to choose\n");
    wrong("experiments:\n"
          "  t:\n"
          "    command: x\n"
          "    parameters: {trial: [1, 2]}\n"
          "    search: {metric: a, goal: minimize, trials: 3}\n",
          "r.yaml:4:18: 'trial' cannot be a parameter: {{trial}} is built in\n");
    wrong("experiments:\n"
          "  t:\n"
          "    parameters: {a: [1, 2]}\n"
          "    command: x\n"
          "    require: [a < 2, b > 1]\n"
          "    search: {metric: a, goal: minimize, trials: 3}\n",
          "r.yaml:5:22: 'b' is not a parameter\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_search_of_the_manual_is_read),
        cmocka_unit_test(test_a_short_search_is_enough),
        cmocka_unit_test(test_a_space_too_large_for_a_grid_can_be_searched),
        cmocka_unit_test(test_mistakes_are_told_with_their_place),
        cmocka_unit_test(test_mistakes_in_stop_and_early_stop_are_told),
        cmocka_unit_test(test_what_does_not_go_together_is_refused),
        cmocka_unit_test(test_names_of_a_search_are_taken),
    };
    return cmocka_run_group_tests_name("recipe_search", tests, NULL, NULL);
}
