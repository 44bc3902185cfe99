#include "search/median.h"

#include "base/rng.h"
#include "search/early.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct median_judgement report(struct median *median, uint32_t trial, uint64_t step,
                                      double value)
{
    struct median_judgement judgement;
    assert_int_equal(median_report(median, trial, step, value, &judgement, NULL), ERR_OK);
    return judgement;
}

static void test_a_trial_worse_than_half_of_the_others_stops(void **state)
{
    (void)state;
    struct median *median =
        median_create(&(struct median_options){.maximize = true, .grace = 2, .trials_max = 10});
    for (uint32_t t = 0; t < 3; t++) {
        for (uint64_t step = 1; step <= 4; step++) {
            double value = (double)(t + 1 + step);
            assert_int_equal(report(median, t, step, value).verdict, MEDIAN_GO_ON);
        }
    }
    assert_int_equal(report(median, 3, 1, 1).verdict, MEDIAN_GO_ON); /* grace */
    struct median_judgement judgement = report(median, 3, 2, 2);
    assert_int_equal(judgement.verdict, MEDIAN_WORSE);
    assert_true(judgement.median == 3.5); /* the mean of 3 and 4 */
    assert_true(judgement.others == 3 && judgement.best == 2);
    assert_int_equal(report(median, 4, 3, 4).verdict, MEDIAN_GO_ON); /* not strictly worse */
    median_destroy(median);
}

static void test_few_others_and_repeated_steps_decide_nothing(void **state)
{
    (void)state;
    struct median *median = median_create(&(struct median_options){.trials_max = 10});
    report(median, 0, 1, 1);
    report(median, 1, 1, 1);
    assert_int_equal(report(median, 2, 1, 100).verdict, MEDIAN_GO_ON); /* two others */
    assert_int_equal(report(median, 3, 1, 100).verdict, MEDIAN_WORSE);
    assert_int_equal(report(median, 3, 1, 100).verdict, MEDIAN_GO_ON);
    assert_int_equal(report(median, 4, 5, (double)NAN).verdict, MEDIAN_DIVERGED);
    struct median_judgement judgement;
    assert_int_equal(median_report(median, 10, 1, 1, &judgement, NULL), ERR_RANGE);
    median_destroy(median);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

enum { TRIALS = 40, STEPS = 30 };

/* Everything reported so far; the rule computed from its definition. */
struct model {
    double values[TRIALS][STEPS + 1]; /* NaN: not reported */
    uint64_t last[TRIALS];
};

static double model_mean(const struct model *model, uint32_t trial, uint64_t step)
{
    double sum = 0;
    double count = 0;
    for (uint64_t s = 1; s <= step; s++) {
        if (!isnan(model->values[trial][s])) {
            sum += model->values[trial][s];
            count++;
        }
    }
    return sum / count;
}

/* The mean of `trial` at its first report in the interval of `step`; NaN: none. */
static double model_first(const struct model *model, uint32_t trial, uint64_t step,
                          uint64_t interval)
{
    for (uint64_t s = step / interval * interval; s <= STEPS && s / interval == step / interval;
         s++) {
        if (s > 0 && !isnan(model->values[trial][s])) {
            return model_mean(model, trial, s);
        }
    }
    return (double)NAN;
}

static double model_median(const struct model *model, uint32_t trial, uint64_t step,
                           uint64_t interval)
{
    double means[TRIALS];
    size_t count = 0;
    for (uint32_t t = 0; t < TRIALS; t++) {
        double mean = t == trial ? (double)NAN : model_first(model, t, step, interval);
        if (!isnan(mean)) {
            means[count++] = mean;
        }
    }
    if (count < 3) {
        return (double)NAN;
    }
    qsort(means, count, sizeof means[0], by_value);
    return count % 2 ? means[count / 2] : means[count / 2 - 1] / 2 + means[count / 2] / 2;
}

static void run_against_model(uint64_t seed, uint64_t interval)
{
    struct rng rng = {.state = seed};
    struct median *median =
        median_create(&(struct median_options){.interval = interval, .trials_max = TRIALS});
    struct model model = {0};
    for (uint32_t t = 0; t < TRIALS; t++) {
        for (int s = 0; s <= STEPS; s++) {
            model.values[t][s] = (double)NAN;
        }
    }
    for (int round = 0; round < 3000; round++) {
        uint32_t t = (uint32_t)rng_below(&rng, TRIALS);
        uint64_t step = model.last[t] + 1 + rng_below(&rng, 3);
        if (step > STEPS) {
            continue;
        }
        double value = (double)rng_below(&rng, 50);
        bool first = isnan(model_first(&model, t, step, interval));
        model.values[t][step] = value;
        model.last[t] = step;
        struct median_judgement got = report(median, t, step, value);
        double bar = first ? model_median(&model, t, step, interval) : (double)NAN;
        double best = (double)INFINITY;
        for (int s = 1; s <= STEPS; s++) {
            best = fmin(best, model.values[t][s]);
        }
        assert_true(got.best == best);
        assert_true(isnan(bar) ? isnan(got.median) : fabs(got.median - bar) < 1e-9);
        assert_int_equal(got.verdict, best > bar ? MEDIAN_WORSE : MEDIAN_GO_ON);
    }
    median_destroy(median);
}

static void test_random_reports_match_the_definition(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        print_message("seed %" PRIu64 "\n", seed);
        run_against_model(seed, 1 + seed % 4);
    }
}

static void test_memory_has_a_bound(void **state)
{
    (void)state;
    struct median *median =
        median_create(&(struct median_options){.trials_max = 1000, .values_max = 10});
    for (uint32_t t = 0; t < 100; t++) {
        assert_int_equal(report(median, t, UINT64_MAX, 1).others, t < 10 ? t : 10);
    }
    median_destroy(median);
}

/* --- early.h ----------------------------------------------------------------------------------*/

struct asked {
    size_t times;
    size_t longest;
    size_t stable_from;
};

static bool is_stable(void *arg, const double *steps, const double *values, size_t count)
{
    struct asked *asked = arg;
    asked->times++;
    asked->longest = count > asked->longest ? count : asked->longest;
    for (size_t i = 1; i < count; i++) {
        assert_true(steps[i] > steps[i - 1] && isfinite(values[i]));
    }
    return steps[count - 1] >= (double)asked->stable_from;
}

static void test_the_callers_judgement_stops_a_stabilised_trial(void **state)
{
    (void)state;
    struct asked asked = {.stable_from = 12};
    struct early *early =
        early_create(&(struct early_options){.rule = EARLY_STABILISED,
                                             .median = {.grace = 5, .trials_max = 10},
                                             .stable = is_stable,
                                             .arg = &asked});
    AUTO_STR struct str why = {0};
    for (uint64_t step = 1; step < 12; step++) {
        assert_false(early_report(early, 3, step, 1, &why));
        assert_false(early_report(early, 1, step, 1, &why));
        assert_false(early_report(early, 3, step, 2, &why)); /* repeated: not a new point */
    }
    assert_int_equal(asked.times, 2 * 7);
    assert_true(early_report(early, 3, 12, 1, &why));
    assert_string_equal(str_text(&why), "the curve has stabilised");
    assert_true(early_report(early, 3, 13, 1, NULL));
    early_forget(early, 3);
    early_forget(early, 3);
    assert_true(early_report(early, 1, 12, (double)NAN, NULL));
    assert_false(early_report(early, 10, 12, (double)NAN, NULL));
    early_destroy(early);
}

static void test_a_long_curve_is_thinned_and_not_judged_at_every_point(void **state)
{
    (void)state;
    struct asked asked = {.stable_from = SIZE_MAX};
    struct early *early = early_create(&(struct early_options){
        .rule = EARLY_STABILISED, .median = {.trials_max = 1}, .stable = is_stable, .arg = &asked});
    for (uint64_t step = 1; step <= 100000; step++) {
        assert_false(early_report(early, 0, step, sqrt((double)step), NULL));
    }
    assert_true(asked.longest <= EARLY_POINTS_MAX);
    assert_true(asked.times < 10000);
    early_destroy(early);
}

static void test_the_median_rule_says_why(void **state)
{
    (void)state;
    struct early *early =
        early_create(&(struct early_options){.rule = EARLY_MEDIAN, .median = {.trials_max = 10}});
    for (uint32_t t = 0; t < 3; t++) {
        assert_false(early_report(early, t, 1, 0.5, NULL));
    }
    AUTO_STR struct str why = {0};
    assert_true(early_report(early, 3, 1, 0.75, &why));
    assert_string_equal(str_text(&why),
                        "its best value 0.75 is worse than 0.5, the median of 3 others there");
    assert_true(early_report(early, 3, 2, 0, NULL)); /* once told, it stays so */
    assert_true(early_report(early, 0, 2, (double)NAN, NULL));
    early_destroy(early);
    early = early_create(&(struct early_options){.median = {.trials_max = 10}});
    assert_false(early_report(early, 0, 1, (double)NAN, NULL)); /* no rule, no stop */
    early_destroy(early);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trial_worse_than_half_of_the_others_stops),
        cmocka_unit_test(test_few_others_and_repeated_steps_decide_nothing),
        cmocka_unit_test(test_random_reports_match_the_definition),
        cmocka_unit_test(test_memory_has_a_bound),
        cmocka_unit_test(test_the_callers_judgement_stops_a_stabilised_trial),
        cmocka_unit_test(test_a_long_curve_is_thinned_and_not_judged_at_every_point),
        cmocka_unit_test(test_the_median_rule_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
