/* What exec and map ask for is read back by the recipe's own reader: what each task would run is
 * compared with what was meant. */
#include "base/jread.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/batch.h"
#include "cli/selector.h"
#include "recipe/plan.h"
#include "recipe/recipe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static struct recipe *read_recipe(const struct str *text)
{
    struct diag_list diags = {.file = "COMMAND"};
    struct recipe *recipe = recipe_parse("COMMAND", str_text(text), text->size, NULL, 0, &diags);
    if (!recipe) {
        struct str why = {0};
        diag_print(&diags, &why);
        fail_msg("%s", str_text(&why));
    }
    diag_release(&diags);
    return recipe;
}

static uint32_t find_experiment(const struct recipe *recipe, const char *name)
{
    for (uint32_t e = 0; e < recipe->experiment_count; e++) {
        if (strcmp(recipe->experiments[e].name, name) == 0) {
            return e;
        }
    }
    fail_msg("no experiment %s", name);
    return 0;
}

/* --- exec ----------------------------------------------------------------------------------- */

static void test_exec_has_one_experiment_for_each_node(void **state)
{
    (void)state;
    char program[] = "echo";
    char odd[] = "{{x}} it's \"$HOME\" \x7f\n";
    char *argv[] = {program, odd};
    static const char *const nodes[] = {"gpu-1", "gpu-2"};
    struct batch_exec exec = {
        .argv = argv, .argc = 2, .nodes = nodes, .node_count = 2, .timeout_ms = 1500};
    struct str text = {0};
    batch_exec_recipe(&text, &exec);
    struct recipe *recipe = read_recipe(&text);
    assert_int_equal(recipe->experiment_count, 2);
    assert_int_equal(recipe->priority, RECIPE_PRIORITY_MAX);
    for (uint32_t i = 0; i < 2; i++) {
        const struct experiment *experiment = &recipe->experiments[i];
        char label[32];
        snprintf(label, sizeof label, "node=%s", nodes[i]);
        assert_string_equal(experiment->name, nodes[i]);
        assert_int_equal(experiment->task_count, 1);
        assert_int_equal(experiment->hardware.label_count, 1);
        assert_string_equal(experiment->hardware.labels[0], label);
        assert_true(experiment->hardware.cpu_milli <= 1);
        assert_int_equal(experiment->timeout_ms, 1500);
        assert_int_equal(experiment->crash_limit, 1);
        struct arena arena = {0};
        struct plan_context context = {.recipe = recipe, .workflow = "w"};
        struct plan_task task = {0};
        plan_task(&context, i, 0, 1, &arena, &task);
        assert_int_equal(task.argc, 2);
        assert_string_equal(task.argv[1], odd);
        arena_release(&arena);
    }
    recipe_destroy(recipe);
    str_release(&text);
}

static void test_nodes_with_odd_names_get_experiments_with_plain_ones(void **state)
{
    (void)state;
    char program[] = "true";
    char *argv[] = {program};
    static const char *const nodes[] = {"a.example.org", "b"};
    struct batch_exec exec = {.argv = argv, .argc = 1, .nodes = nodes, .node_count = 2};
    struct str text = {0};
    struct str name = {0};
    batch_exec_recipe(&text, &exec);
    batch_exec_name(&name, &exec, 1);
    assert_string_equal(str_text(&name), "node-2");
    struct recipe *recipe = read_recipe(&text);
    assert_string_equal(recipe->experiments[0].hardware.labels[0], "node=a.example.org");
    recipe_destroy(recipe);
    str_release(&name);
    str_release(&text);
}

/* --- map ------------------------------------------------------------------------------------ */

static void test_the_input_is_where_the_braces_are(void **state)
{
    (void)state;
    static const struct {
        const char *command;
        const char *expected;
    } cases[] = {
        {"echo", "echo {{input}}"},
        {"echo {} x", "echo {{input}} x"},
        {"a {} {}.png", "a {{input}} {{input}}.png"},
        {"awk '{{print}}' {}", "awk '{{{{print}}' {{input}}"},
        {"{{lr}}", "{{{{lr}} {{input}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct str out = {0};
        batch_map_command(&out, cases[i].command);
        assert_string_equal(str_text(&out), cases[i].expected);
        str_release(&out);
    }
}

/* The task that the line is said to be has this line as its input. */
static void check_line(struct recipe *recipe, const struct batch_line *line)
{
    struct str name = {0};
    struct str params = {0};
    struct arena arena = {0};
    struct jread doc = {0};
    batch_map_experiment(&name, line);
    uint32_t number = find_experiment(recipe, str_text(&name));
    assert_true(line->index < recipe->experiments[number].task_count);
    struct plan_context context = {.recipe = recipe, .workflow = "w"};
    plan_params_json(&context, number, line->index, &arena, &params);
    assert_int_equal(jread_parse(&doc, str_text(&params), params.size, NULL), ERR_OK);
    const char *input = jread_text(doc.root, "input", NULL);
    assert_non_null(input);
    assert_int_equal(strlen(input), line->size);
    assert_memory_equal(input, line->text, line->size);
    jread_release(&doc);
    arena_release(&arena);
    str_release(&params);
    str_release(&name);
}

static void check_map(const char *input, size_t size)
{
    struct batch_map map = {0};
    struct err err = {0};
    assert_int_equal(batch_map_split(&map, input, size, &err), ERR_OK);
    struct batch_map_options options = {.command = "cat {}", .workers = 3, .retries = 1};
    uint64_t tasks = 0;
    for (uint32_t r = 0; r < map.recipe_count; r++) {
        struct str text = {0};
        batch_map_recipe(&text, &map, r, &options);
        struct recipe *recipe = read_recipe(&text);
        for (size_t e = 0; e < recipe->experiment_count; e++) {
            tasks += recipe->experiments[e].task_count;
        }
        for (size_t i = 0; i < map.count; i++) {
            if (map.lines[i].recipe == r) {
                check_line(recipe, &map.lines[i]);
            }
        }
        recipe_destroy(recipe);
        str_release(&text);
    }
    assert_int_equal(tasks, map.count);
    /* no two lines are the same task */
    for (size_t i = 0; i < map.count; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_false(map.lines[i].recipe == map.lines[j].recipe &&
                         map.lines[i].experiment == map.lines[j].experiment &&
                         map.lines[i].index == map.lines[j].index);
        }
    }
    batch_map_release(&map);
}

static void test_each_line_is_a_task_that_gets_this_line(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        "",
        "\n\n",
        "one",
        "one\n",
        "one\ntwo\n\nthree\n",
        "a\na\na\nb\nb\nc\n",
        "0..9\ntrue\nnull\n~\n1e3\n- x\n{a: b}\n[1]\n# no\n\"q\"\n'q'\n*x\n&y\n!z\n%\n@\n",
        "\xc3\xa9\n\xf0\x9f\x98\x80\n\xef\xbf\xbd\n",
        "{{x}}\n{}\n$(reboot)\n`id`\n\\\n",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        check_map(inputs[i], strlen(inputs[i]));
    }
}

static void test_random_inputs_with_repeats_find_their_tasks(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %" PRIu64 "\n", seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 40; round++) {
        struct str text = {0};
        uint64_t kinds = 1 + rng_below(&rng, 12);
        for (uint64_t i = rng_below(&rng, 60); i > 0; i--) {
            str_addf(&text, "w%" PRIu64 "\n", rng_below(&rng, kinds));
        }
        check_map(str_text(&text), text.size);
        str_release(&text);
    }
}

static void test_lines_that_no_recipe_can_hold_are_refused_by_number(void **state)
{
    (void)state;
    struct batch_map map = {0};
    struct err err = {0};
    assert_int_equal(batch_map_split(&map, "a\n\xff\n", 4, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(batch_map_split(&map, "a\0b\n", 4, &err), ERR_INVALID);
    struct str text = {0};
    str_add_repeat(&text, "x", BATCH_LINE_BYTES_MAX + 1);
    assert_int_equal(batch_map_split(&map, str_text(&text), text.size, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "line 1"));
    str_release(&text);
}

static void test_many_inputs_make_several_recipes_that_are_not_too_large(void **state)
{
    (void)state;
    struct str text = {0};
    for (uint64_t i = 0; i < 300000; i++) {
        str_addf(&text, "a rather long name of a file number %" PRIu64 "\n", i);
    }
    struct batch_map map = {0};
    assert_int_equal(batch_map_split(&map, str_text(&text), text.size, NULL), ERR_OK);
    assert_int_equal(map.count, 300000);
    assert_true(map.recipe_count > 1);
    struct batch_map_options options = {.command = "echo"};
    for (uint32_t r = 0; r < map.recipe_count; r++) {
        struct str recipe = {0};
        batch_map_recipe(&recipe, &map, r, &options);
        assert_true(recipe.size < (8 << 20));
        str_release(&recipe);
    }
    batch_map_release(&map);
    str_release(&text);
}

static void test_settings_of_map_reach_the_recipe(void **state)
{
    (void)state;
    struct batch_map map = {0};
    struct str text = {0};
    assert_int_equal(batch_map_split(&map, "x\n", 2, NULL), ERR_OK);
    struct batch_map_options options = {.command = "true",
                                        .label = "zone=a",
                                        .workers = 7,
                                        .cpu = 0.5,
                                        .retries = 2,
                                        .timeout_ms = 90000};
    batch_map_recipe(&text, &map, 0, &options);
    struct recipe *recipe = read_recipe(&text);
    const struct experiment *experiment = &recipe->experiments[0];
    assert_string_equal(experiment->hardware.labels[0], "zone=a");
    assert_int_equal(experiment->hardware.cpu_milli, 500);
    assert_int_equal(experiment->workers, 7);
    assert_int_equal(experiment->retries, 2);
    assert_int_equal(experiment->timeout_ms, 90000);
    recipe_destroy(recipe);
    str_release(&text);
    batch_map_release(&map);
}

/* --- selectors ------------------------------------------------------------------------------ */

static bool selects(const char *text, const char *name)
{
    static const char *const labels[] = {"zone=a", "fast"};
    struct selector selector = {0};
    assert_int_equal(selector_parse(text, &selector, NULL), ERR_OK);
    bool matches = selector_matches(&selector, name, labels, 2);
    selector_release(&selector);
    return matches;
}

static void test_a_selector_names_nodes_and_labels(void **state)
{
    (void)state;
    assert_true(selects("gpu-1", "gpu-1"));
    assert_false(selects("gpu-1", "gpu-10"));
    assert_true(selects("zone=a", "gpu-1"));
    assert_false(selects("zone=b", "gpu-1"));
    assert_true(selects("fast", "gpu-1"));
    assert_true(selects("zone=b,gpu-1", "gpu-1"));
    assert_true(selects(" zone=b , fast ", "gpu-1"));
    assert_true(selects("gpu-*", "gpu-1"));
    assert_true(selects("*", "gpu-1"));
    assert_true(selects("*u*1", "gpu-1"));
    assert_false(selects("g*2", "gpu-1"));
    assert_true(selects("zone=*", "gpu-1"));
    assert_true(selects("node=gpu-1", "gpu-1"));
    struct selector none = {0};
    assert_true(selector_matches(&none, "any", NULL, 0));
    struct selector selector = {0};
    assert_int_equal(selector_parse("", &selector, NULL), ERR_INVALID);
    assert_int_equal(selector_parse("a,,b", &selector, NULL), ERR_INVALID);
    assert_int_equal(selector_parse("a,", &selector, NULL), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exec_has_one_experiment_for_each_node),
        cmocka_unit_test(test_nodes_with_odd_names_get_experiments_with_plain_ones),
        cmocka_unit_test(test_the_input_is_where_the_braces_are),
        cmocka_unit_test(test_each_line_is_a_task_that_gets_this_line),
        cmocka_unit_test(test_random_inputs_with_repeats_find_their_tasks),
        cmocka_unit_test(test_lines_that_no_recipe_can_hold_are_refused_by_number),
        cmocka_unit_test(test_many_inputs_make_several_recipes_that_are_not_too_large),
        cmocka_unit_test(test_settings_of_map_reach_the_recipe),
        cmocka_unit_test(test_a_selector_names_nodes_and_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
