#include "metrics/metrics.h"

#include "base/rng.h"
#include "base/str.h"
#include "metrics/number.h"
#include "metrics/words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void add(struct metrics *metrics, const char *name, double step, double value)
{
    struct metric metric = {.name = name,
                            .value = value,
                            .step = step < 0 ? 0 : step,
                            .has_step = step >= 0,
                            .at_ms = 1000};
    assert_true(metrics_add(metrics, &metric));
}

static void the_last_least_and_greatest_are_kept(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_create();
    add(metrics, "loss", 1, 0.5);
    add(metrics, "loss", 2, 0.25);
    add(metrics, "loss", 3, 0.75);
    add(metrics, "loss", 2, 0.25);
    add(metrics, "loss", -1, NAN);
    add(metrics, "loss", -1, INFINITY);
    const struct metric_summary *loss = metrics_find(metrics, "loss");
    assert_non_null(loss);
    assert_int_equal(loss->count, 6);
    assert_int_equal(loss->finite_count, 4);
    assert_true(isinf(loss->last.value));
    assert_false(loss->last.has_step);
    assert_true(loss->least.value == 0.25);
    assert_true(loss->least.step == 2);
    assert_true(loss->greatest.value == 0.75);
    assert_true(loss->newest_step == 3);
    assert_ptr_equal(metric_best(loss, true), &loss->greatest);
    assert_ptr_equal(metric_best(loss, false), &loss->least);
    metrics_destroy(metrics);
}

static void a_metric_that_was_never_finite_has_no_best(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_create();
    add(metrics, "loss", 1, NAN);
    assert_null(metric_best(metrics_find(metrics, "loss"), false));
    assert_null(metrics_find(metrics, "acc"));
    metrics_destroy(metrics);
    metrics_destroy(NULL);
}

static void names_have_a_limit(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_create();
    struct metric_sink sink = metrics_sink(metrics);
    for (int i = 0; i < METRICS_NAMES_MAX + 10; i++) {
        char name[20];
        snprintf(name, sizeof name, "m%d", i);
        struct metric metric = {.name = name, .value = i};
        metric_send(&sink, &metric);
        metric_send(&sink, &metric);
    }
    assert_int_equal(metrics_count(metrics), METRICS_NAMES_MAX);
    assert_int_equal(metrics_dropped(metrics), 20);
    assert_string_equal(metrics_at(metrics, 7)->name, "m7");
    assert_int_equal(metrics_find(metrics, "m200")->count, 2);
    metrics_destroy(metrics);
}

static void what_a_person_means_is_found(void **state)
{
    (void)state;
    struct metrics *metrics = metrics_create();
    add(metrics, "train_accuracy", 1, 1);
    assert_string_equal(metrics_find_like(metrics, "accuracy")->name, "train_accuracy");
    add(metrics, "test/Accuracy", 1, 1);
    assert_string_equal(metrics_find_like(metrics, "accuracy")->name, "test/Accuracy");
    add(metrics, "val_accuracy", 1, 1);
    assert_string_equal(metrics_find_like(metrics, "accuracy")->name, "val_accuracy");
    add(metrics, "ACCURACY", 1, 1);
    assert_string_equal(metrics_find_like(metrics, "accuracy")->name, "ACCURACY");
    add(metrics, "accuracy", 1, 1);
    assert_string_equal(metrics_find_like(metrics, "accuracy")->name, "accuracy");
    assert_null(metrics_find_like(metrics, "curacy"));
    metrics_destroy(metrics);
}

static void progress_is_a_metric_or_the_step(void **state)
{
    (void)state;
    double seen = 0;
    struct metrics *metrics = metrics_create();
    assert_false(metrics_progress(metrics, "epoch", &seen));
    add(metrics, "loss", -1, 0.5);
    assert_false(metrics_progress(metrics, "epoch", &seen));
    add(metrics, "loss", 300, 0.5);
    add(metrics, "acc", 200, 0.5);
    assert_true(metrics_progress(metrics, "epoch", &seen));
    assert_true(seen == 300);
    add(metrics, "epoch", 300, 2);
    assert_true(metrics_progress(metrics, "epoch", &seen));
    assert_true(seen == 2);
    metrics_destroy(metrics);
}

static void names_are_checked(void **state)
{
    (void)state;
    char longest[METRIC_NAME_MAX + 2];
    memset(longest, 'x', sizeof longest);
    assert_true(metric_name_valid(longest, METRIC_NAME_MAX));
    assert_false(metric_name_valid(longest, METRIC_NAME_MAX + 1));
    assert_true(metric_name_valid("Loss/train top-5", 16));
    assert_true(metric_name_valid("\xC3\xA9", 2));
    static const char *const bad[] = {"", " a", "a ", "a\nb", "a\x7F", "\xFF", "\xC3", "\xC2\x85"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(metric_name_valid(bad[i], strlen(bad[i])));
    }
    assert_false(metric_name_valid("a\0b", 3));
}

static void long_curves_are_thinned_evenly(void **state)
{
    (void)state;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < 1 << 20; i++) {
        kept += metric_is_kept(i);
    }
    assert_int_equal(kept, 8192 + 7 * 4096);
    assert_true(metric_is_kept(0));
    assert_true(metric_is_kept(8191));
    assert_true(metric_is_kept(8192));
    assert_false(metric_is_kept(8193));
    assert_true(metric_is_kept(8194));
    assert_false(metric_is_kept(16386));
    assert_false(metric_is_kept(UINT64_MAX));
}

/* Random points against the plainest model: all of them, looked through each time. */
static void summaries_agree_with_a_list(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 50; round++) {
        double values[200];
        char names[200][8];
        struct metrics *metrics = metrics_create();
        for (size_t i = 0; i < 200; i++) {
            snprintf(names[i], sizeof names[i], "m%d", (int)rng_below(&rng, 12));
            values[i] = rng_below(&rng, 10) == 0 ? NAN : (double)rng_below(&rng, 50);
            add(metrics, names[i], (double)i, values[i]);
        }
        for (size_t m = 0; m < metrics_count(metrics); m++) {
            const struct metric_summary *summary = metrics_at(metrics, m);
            double least = INFINITY;
            uint64_t count = 0;
            for (size_t i = 0; i < 200; i++) {
                if (strcmp(names[i], summary->name) == 0) {
                    least = values[i] < least ? values[i] : least;
                    count++;
                }
            }
            assert_int_equal(summary->count, count);
            if (summary->finite_count > 0) {
                assert_true(summary->least.value == least);
            }
        }
        metrics_destroy(metrics);
    }
}

static void numbers_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        double value;
    } cases[] = {
        {"12", 2, 12},
        {"-1.5e3x", 6, -1500},
        {"+.5", 3, 0.5},
        {"3.", 1, 3},
        {"1e", 1, 1},
        {"1e+", 1, 1},
        {"1e-5", 4, 1e-5},
        {"0x10", 1, 0},
        {"inf", 3, INFINITY},
        {"-Infinity", 9, -INFINITY},
        {"1e999", 5, INFINITY},
        {"", 0, 0},
        {"-", 0, 0},
        {".", 0, 0},
        {"e5", 0, 0},
        {"na", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0;
        assert_int_equal(number_read(cases[i].text, strlen(cases[i].text), &value),
                         cases[i].length);
        assert_true(value == cases[i].value);
    }
    double value = 0;
    assert_int_equal(number_read("NaN", 3, &value), 3);
    assert_true(isnan(value));
    AUTO_STR struct str digits = {0};
    str_add_repeat(&digits, "1", 100);
    assert_int_equal(number_read(str_text(&digits), 100, &value), 0);
    assert_int_equal(number_read(str_text(&digits), NUMBER_CHARS_MAX, &value), NUMBER_CHARS_MAX);
    assert_true(number_parse("12.5%", 5, &value));
    assert_true(value == 0.125);
    assert_false(number_parse("12.5%%", 6, &value));
    assert_false(number_parse("5 ", 2, &value));
}

static void words_are_judged_by_their_parts(void **state)
{
    (void)state;
    assert_true(words_of_name("Loss/train", 10) & WORD_METRIC);
    assert_true(words_of_name("total_loss", 10) & WORD_METRIC);
    assert_true(words_of_name("loss_weight", 11) & WORD_NEVER);
    assert_true(words_of_name("batch_size", 10) & WORD_NEVER);
    assert_true(words_of_name("error", 5) & WORD_EVERYDAY);
    assert_false(words_of_name("val_error", 9) & WORD_EVERYDAY);
    assert_int_equal(words_of_name("glossy", 6), 0);
    assert_int_equal(words_of_name("", 0), 0);
    assert_int_equal(words_of_name("___", 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_least_and_greatest_are_kept),
        cmocka_unit_test(a_metric_that_was_never_finite_has_no_best),
        cmocka_unit_test(names_have_a_limit),
        cmocka_unit_test(what_a_person_means_is_found),
        cmocka_unit_test(progress_is_a_metric_or_the_step),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(long_curves_are_thinned_evenly),
        cmocka_unit_test(summaries_agree_with_a_list),
        cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(words_are_judged_by_their_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
