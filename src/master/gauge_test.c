#include "base/io.h"
#include "base/mem.h"
#include "master/gauge.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[128];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gauge-test.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static void append(const char *file, const char *text)
{
    AUTO_CLOSE int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(io_write_all(fd, text, strlen(text), NULL), ERR_OK);
}

static struct recipe *parse(const char *more)
{
    AUTO_STR struct str text = {0};
    struct diag_list diags = {0};
    str_addf(&text,
             "experiments:\n  train:\n    parameters: {x: {range: 0..1}}\n"
             "    search: {metric: reward, goal: maximize, trials: 5}\n%s"
             "    command: run\n",
             more);
    struct recipe *recipe = recipe_parse("r.yaml", str_text(&text), text.size, NULL, 0, &diags);
    if (!recipe) {
        fail_msg("%s", diags.items[0].text);
    }
    return recipe;
}

static double last_of(const struct gauge *gauge, const char *name)
{
    const struct metric_summary *found = metrics_find(gauge_metrics(gauge), name);
    assert_non_null(found);
    return found->last.value;
}

static void a_log_is_read_as_it_grows(void **state)
{
    (void)state;
    struct recipe *recipe = parse("");
    struct gauge *gauge = gauge_create(&recipe->experiments[0], NULL);
    assert_false(gauge_read_log(gauge, path, 1)); /* not there yet */
    append(path, "reward=1\nrew");
    assert_false(gauge_read_log(gauge, path, 1));
    assert_true(last_of(gauge, "reward") == 1);
    append(path, "ard=2\nreward=3");
    assert_false(gauge_read_log(gauge, path, 1));
    assert_true(last_of(gauge, "reward") == 2);
    gauge_end_log(gauge, 1);
    assert_true(last_of(gauge, "reward") == 3);
    gauge_destroy(gauge);
    recipe_destroy(recipe);
}

static void a_long_log_is_read_in_pieces(void **state)
{
    (void)state;
    struct recipe *recipe = parse("");
    struct gauge *gauge = gauge_create(&recipe->experiments[0], NULL);
    AUTO_STR struct str text = {0};
    for (int i = 1; i <= 100000; i++) {
        str_addf(&text, "step %d reward=%d\n", i, i);
    }
    append(path, str_text(&text));
    int pieces = 1;
    while (gauge_read_log(gauge, path, 1)) {
        pieces++;
    }
    assert_true(pieces > 5);
    assert_true(last_of(gauge, "reward") == 100000);
    assert_int_equal(metrics_find(gauge_metrics(gauge), "reward")->count, 100000);
    gauge_destroy(gauge);
    recipe_destroy(recipe);
}

static void with_patterns_only_they_count(void **state)
{
    (void)state;
    struct recipe *recipe = parse("    metrics: ['got <{value}>', 'size {bytes}']\n");
    struct diag_list diags = {0};
    assert_true(gauge_check(recipe, &diags));
    struct gauge *gauge = gauge_create(&recipe->experiments[0], NULL);
    append(path, "got <0.5>\nsize 7\nloss=3\n");
    assert_false(gauge_read_log(gauge, path, 1));
    assert_true(last_of(gauge, "reward") == 0.5);
    assert_true(last_of(gauge, "bytes") == 7);
    assert_null(metrics_find(gauge_metrics(gauge), "loss"));
    gauge_destroy(gauge);
    recipe_destroy(recipe);
}

static void a_pattern_that_is_none_is_said_with_its_place(void **state)
{
    (void)state;
    struct recipe *recipe = parse("    metrics: 'got <{value'\n");
    struct diag_list diags = {0};
    assert_false(gauge_check(recipe, &diags));
    assert_int_equal(diags.count, 1);
    assert_int_equal(diags.items[0].line, 5);
    assert_non_null(strstr(diags.items[0].text, "character"));
    diag_release(&diags);
    recipe_destroy(recipe);
}

static void the_output_folder_counts_at_the_end_and_as_it_grows(void **state)
{
    (void)state;
    struct recipe *recipe = parse("");
    struct gauge *gauge = gauge_create(&recipe->experiments[0], NULL);
    char file[128];
    snprintf(file, sizeof file, "%s/metrics.jsonl", folder);
    gauge_read_folder(gauge, "/nowhere/at/all", 1);
    assert_int_equal(metrics_count(gauge_metrics(gauge)), 0);
    append(file, "{\"step\":1,\"reward\":4}\n");
    gauge_follow_folder(gauge, folder, 1);
    assert_true(last_of(gauge, "reward") == 4);
    append(file, "{\"step\":2,\"reward\":5}\n{\"step\":3,\"reward\":6}");
    gauge_follow_folder(gauge, folder, 2);
    assert_true(last_of(gauge, "reward") == 5);
    gauge_read_folder(gauge, folder, 3);
    assert_true(last_of(gauge, "reward") == 6);
    gauge_destroy(gauge);
    recipe_destroy(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_log_is_read_as_it_grows, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_long_log_is_read_in_pieces, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(with_patterns_only_they_count, make_folder, remove_folder),
        cmocka_unit_test(a_pattern_that_is_none_is_said_with_its_place),
        cmocka_unit_test_setup_teardown(the_output_folder_counts_at_the_end_and_as_it_grows,
                                        make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
