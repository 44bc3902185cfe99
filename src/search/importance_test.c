#include "search/importance.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMS_MAX = 12 };

/* A table in the making: params in the unit cube unless the test says otherwise. */
struct sample {
    struct importance_param params[PARAMS_MAX];
    double *values;
    double *results;
    size_t param_count;
    size_t trial_count;
};

static struct sample draw(size_t params, size_t trials, uint64_t seed)
{
    struct sample sample = {.values = mem_array(params * trials, sizeof(double)),
                            .results = mem_array(trials, sizeof(double)),
                            .param_count = params,
                            .trial_count = trials};
    struct rng rng = {.state = seed};
    for (size_t i = 0; i < params * trials; i++) {
        sample.values[i] = rng_unit(&rng);
    }
    for (size_t p = 0; p < params; p++) {
        sample.params[p].high = 1;
    }
    return sample;
}

static void release(struct sample *sample)
{
    free(sample->values);
    free(sample->results);
}

static struct importance compute(const struct sample *sample, struct importance_options options)
{
    struct importance_table table = {.params = sample->params,
                                     .param_count = sample->param_count,
                                     .values = sample->values,
                                     .results = sample->results,
                                     .trial_count = sample->trial_count};
    struct importance out;
    struct err err = {0};
    enum err_code code = importance_compute(&table, &options, &out, &err);
    if (code != ERR_OK) {
        print_message("%s\n", err.text);
    }
    assert_int_equal(code, ERR_OK);
    double sum = out.rest;
    for (size_t p = 0; p < sample->param_count; p++) {
        assert_true(out.main[p] >= 0 && out.main[p] <= 1);
        sum += out.main[p];
    }
    for (size_t i = 0; i < out.pair_count; i++) {
        assert_true(out.pairs[i].a < out.pairs[i].b && out.pairs[i].share >= 0);
        assert_true(i == 0 || out.pairs[i].share <= out.pairs[i - 1].share);
        sum += out.pairs[i].share;
    }
    assert_true(sum <= 1 + 1e-9);
    return out;
}

static void show(const char *name, const struct importance *found, size_t params)
{
    print_message("%s: fit %.3f, main", name, found->fit);
    for (size_t p = 0; p < params; p++) {
        print_message(" %.3f", found->main[p]);
    }
    for (size_t i = 0; i < found->pair_count && i < 3; i++) {
        print_message(", pair %zu-%zu %.3f", found->pairs[i].a, found->pairs[i].b,
                      found->pairs[i].share);
    }
    print_message(", rest %.3f\n", found->rest);
}

static void assert_near(double got, double expected, double tolerance)
{
    if (fabs(got - expected) > tolerance) {
        print_message("%g is not within %g of %g\n", got, tolerance, expected);
        assert_true(false);
    }
}

/* sum of a_p x_p: main shares are a_p^2 over their sum, interactions none. */
static void test_an_additive_function_has_only_main_effects(void **state)
{
    (void)state;
    struct sample sample = draw(5, 3000, 1);
    static const double slopes[] = {4, 2, 1, 0, 0};
    for (size_t t = 0; t < sample.trial_count; t++) {
        for (size_t p = 0; p < 5; p++) {
            sample.results[t] += slopes[p] * sample.values[t * 5 + p];
        }
    }
    struct importance found = compute(&sample, (struct importance_options){.seed = 1});
    show("additive", &found, 5);
    for (size_t p = 0; p < 5; p++) {
        assert_near(found.main[p], slopes[p] * slopes[p] / 21, 0.03);
    }
    assert_true(found.pairs[0].share < 0.02);
    assert_true(found.fit > 0.97);
    release(&sample);
}

/* Ishigami's function, sin x0 + 7 sin^2 x1 + 0.1 x2^4 sin x0 over -pi..pi: shares 0.3139, 0.4424
 * and 0, and 0.2437 for the pair of x0 and x2. */
static void test_ishigami_is_divided_up_as_known(void **state)
{
    (void)state;
    double pi = acos(-1);
    struct sample sample = draw(3, 5000, 2);
    for (size_t p = 0; p < 3; p++) {
        sample.params[p].low = -pi;
        sample.params[p].high = pi;
    }
    for (size_t t = 0; t < sample.trial_count; t++) {
        double *x = sample.values + 3 * t;
        for (size_t p = 0; p < 3; p++) {
            x[p] = (2 * x[p] - 1) * pi;
        }
        sample.results[t] = sin(x[0]) + 7 * sin(x[1]) * sin(x[1]) + 0.1 * pow(x[2], 4) * sin(x[0]);
    }
    struct importance found = compute(&sample, (struct importance_options){.seed = 2});
    show("Ishigami", &found, 3);
    assert_near(found.main[0], 0.3139, 0.05);
    assert_near(found.main[1], 0.4424, 0.05);
    assert_near(found.main[2], 0, 0.02);
    assert_int_equal(found.pairs[0].a, 0);
    assert_int_equal(found.pairs[0].b, 2);
    assert_near(found.pairs[0].share, 0.2437, 0.05);
    release(&sample);
}

/* Two categories that must match: no main effect at all, everything is their interaction. */
static void test_a_pure_interaction_of_categories_is_found(void **state)
{
    (void)state;
    struct sample sample = draw(4, 2000, 3);
    for (size_t p = 0; p < 2; p++) {
        sample.params[p] = (struct importance_param){.kind = IMPORTANCE_CATEGORY};
        for (size_t t = 0; t < sample.trial_count; t++) {
            sample.values[4 * t + p] = floor(3 * sample.values[4 * t + p]);
        }
    }
    for (size_t t = 0; t < sample.trial_count; t++) {
        sample.results[t] = sample.values[4 * t] == sample.values[4 * t + 1] ? 1 : 0;
    }
    struct importance found = compute(&sample, (struct importance_options){.seed = 3});
    show("match", &found, 4);
    assert_true(found.main[0] < 0.02 && found.main[1] < 0.02);
    assert_true(found.pairs[0].a == 0 && found.pairs[0].b == 1 && found.pairs[0].share > 0.9);
    release(&sample);
}

/* Category k has mean c_k: the share is the variance of the c_k. A log parameter is uniform in its
 * logarithm; a whole number 1..4 in steps. y = c_k + 2 * log10(x) / 4 + n. */
static void test_kinds_are_weighted_by_their_own_scale(void **state)
{
    (void)state;
    static const double c[] = {0.3, 1.5, 0, 0.9, 2.1};
    struct sample sample = draw(3, 4000, 4);
    sample.params[0] = (struct importance_param){.kind = IMPORTANCE_CATEGORY};
    sample.params[1] = (struct importance_param){.kind = IMPORTANCE_LOG, .low = 1e-4, .high = 1};
    sample.params[2] = (struct importance_param){.low = 1, .high = 4, .step = 1};
    for (size_t t = 0; t < sample.trial_count; t++) {
        double *x = sample.values + 3 * t;
        double u = x[1];
        x[0] = floor(5 * x[0]);
        x[1] = pow(10, 4 * u - 4);
        x[2] = 1 + floor(4 * x[2] * x[2]); /* drawn unevenly, as a search would */
        sample.results[t] = c[(size_t)x[0]] + 2 * u + x[2];
    }
    double mean = (0.3 + 1.5 + 0 + 0.9 + 2.1) / 5;
    double variances[3] = {0, 4.0 / 12, 15.0 / 12};
    for (size_t k = 0; k < 5; k++) {
        variances[0] += (c[k] - mean) * (c[k] - mean) / 5;
    }
    double total = variances[0] + variances[1] + variances[2];
    struct importance found = compute(&sample, (struct importance_options){.seed = 4});
    show("kinds", &found, 3);
    for (size_t p = 0; p < 3; p++) {
        assert_near(found.main[p], variances[p] / total, 0.03);
    }
    release(&sample);
}

/* x0 chooses; x1 is there only with x0 = 1 and then matters: y = x0 * (1 + 3 x1). */
static void test_an_absent_parameter_has_a_value_of_its_own(void **state)
{
    (void)state;
    struct sample sample = draw(3, 3000, 5);
    sample.params[0] = (struct importance_param){.kind = IMPORTANCE_CATEGORY};
    for (size_t t = 0; t < sample.trial_count; t++) {
        double *x = sample.values + 3 * t;
        x[0] = x[0] < 0.5;
        sample.results[t] = x[0] > 0 ? 1 + 3 * x[1] : 0;
        x[1] = x[0] > 0 ? x[1] : (double)NAN;
    }
    struct importance found = compute(&sample, (struct importance_options){.seed = 5});
    show("conditional", &found, 3);
    assert_true(found.main[0] + found.main[1] > 0.7);
    assert_true(found.main[1] > 0.3);
    assert_true(found.main[2] < 0.02);
    release(&sample);
}

static void test_noise_is_told_by_the_fit(void **state)
{
    (void)state;
    struct sample sample = draw(4, 500, 6);
    struct rng rng = {.state = 60};
    for (size_t t = 0; t < sample.trial_count; t++) {
        sample.results[t] = rng_unit(&rng);
    }
    struct importance found = compute(&sample, (struct importance_options){.seed = 6});
    show("noise", &found, 4);
    assert_true(found.fit < IMPORTANCE_FIT_MIN);
    release(&sample);
}

/* Where x0 > 0.8 trials fail; others have x1^8, mostly near 0. So failures stand out if they count
 * as 1, which is worst where results are to be low, and hardly if they count as 0. */
static void test_failures_count_as_worst_or_are_left_out(void **state)
{
    (void)state;
    struct sample sample = draw(2, 1000, 7);
    for (size_t t = 0; t < sample.trial_count; t++) {
        double *x = sample.values + 2 * t;
        sample.results[t] = x[0] > 0.8 ? (double)NAN : pow(x[1], 8);
    }
    struct importance low = compute(&sample, (struct importance_options){.seed = 7});
    struct importance high =
        compute(&sample, (struct importance_options){.seed = 7, .maximize = true});
    struct importance dropped =
        compute(&sample, (struct importance_options){.seed = 7, .drop_failed = true});
    show("failures, low is good", &low, 2);
    show("failures, high is good", &high, 2);
    show("failures dropped", &dropped, 2);
    assert_true(low.main[0] > 0.6 && low.used == 1000);
    assert_true(high.main[0] < 0.2 && high.used == 1000);
    assert_true(dropped.main[0] < 0.02 && dropped.main[1] > 0.95 && dropped.used < 1000);
    release(&sample);
}

static void test_ranks_look_past_a_loss_that_explodes(void **state)
{
    (void)state;
    struct sample sample = draw(2, 1000, 8);
    for (size_t t = 0; t < sample.trial_count; t++) {
        double *x = sample.values + 2 * t;
        sample.results[t] = x[0] > 0.99 ? 1e300 * x[0] : x[1];
    }
    struct importance values = compute(&sample, (struct importance_options){.seed = 8});
    struct importance ranks =
        compute(&sample, (struct importance_options){.seed = 8, .ranks = true});
    assert_true(values.main[1] < 0.2);
    assert_true(ranks.main[1] > 0.8);
    release(&sample);
}

static void test_bad_tables_are_refused(void **state)
{
    (void)state;
    struct sample sample = draw(2, 20, 9);
    struct importance_table table = {.params = sample.params,
                                     .param_count = 2,
                                     .values = sample.values,
                                     .results = sample.results,
                                     .trial_count = 20};
    struct importance_options options = {0};
    struct importance out;
    struct err err = {0};
    assert_int_equal(importance_compute(&table, &options, &out, &err), ERR_INVALID);
    assert_string_equal(err.text, "importance: every trial has the same result");
    for (size_t t = 0; t < 20; t++) {
        sample.results[t] = t < 5 ? (double)t : (double)NAN;
    }
    options.drop_failed = true;
    assert_int_equal(importance_compute(&table, &options, &out, &err), ERR_INVALID);
    assert_string_equal(err.text, "importance: 5 usable trials are too few, 8 are needed");
    table.param_count = 0;
    assert_int_equal(importance_compute(&table, &options, &out, &err), ERR_INVALID);
    release(&sample);
}

static void test_any_numbers_are_survived(void **state)
{
    (void)state;
    static const double odd[] = {
        (double)NAN, (double)INFINITY, -(double)INFINITY, 0, -0.0, 1e308, -1e308, 5e-324, 1, 2,
        0.5};
    struct rng rng = {.state = 10};
    print_message("seed 10\n");
    for (int round = 0; round < 300; round++) {
        struct sample sample =
            draw(1 + (size_t)rng_below(&rng, 6), 8 + (size_t)rng_below(&rng, 60), rng_next(&rng));
        for (size_t p = 0; p < sample.param_count; p++) {
            sample.params[p] =
                (struct importance_param){.kind = (enum importance_kind)rng_below(&rng, 3),
                                          .low = odd[rng_below(&rng, 11)],
                                          .high = odd[rng_below(&rng, 11)],
                                          .step = odd[rng_below(&rng, 11)]};
        }
        for (size_t i = 0; i < sample.param_count * sample.trial_count; i++) {
            sample.values[i] = rng_below(&rng, 2) ? odd[rng_below(&rng, 11)] : sample.values[i];
        }
        for (size_t t = 0; t < sample.trial_count; t++) {
            sample.results[t] = rng_below(&rng, 2) ? odd[rng_below(&rng, 11)] : rng_unit(&rng);
        }
        sample.results[0] = 0;
        sample.results[1] = 1;
        (void)compute(&sample, (struct importance_options){.seed = 1, .trees = 4});
        release(&sample);
    }
}

static void test_five_thousand_trials_take_less_than_a_second(void **state)
{
    (void)state;
    struct sample sample = draw(12, 5000, 11);
    for (size_t t = 0; t < sample.trial_count; t++) {
        const double *x = sample.values + 12 * t;
        sample.results[t] = sin(6 * x[0]) + 2 * x[1] * x[2] + x[3] * x[3] + 0.1 * x[11];
    }
    int64_t begun_us = clock_mono_us();
    struct importance found = compute(&sample, (struct importance_options){.seed = 11});
    double took_s = (double)(clock_mono_us() - begun_us) / 1e6;
    show("12 parameters", &found, 12);
    print_message("%.3f s\n", took_s);
    struct importance again = compute(&sample, (struct importance_options){.seed = 11});
    assert_memory_equal(&found, &again, sizeof found);
    assert_true(took_s < 10); /* a sanitizer's build, a busy machine; the bench has the limit */
    release(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_additive_function_has_only_main_effects),
        cmocka_unit_test(test_ishigami_is_divided_up_as_known),
        cmocka_unit_test(test_a_pure_interaction_of_categories_is_found),
        cmocka_unit_test(test_kinds_are_weighted_by_their_own_scale),
        cmocka_unit_test(test_an_absent_parameter_has_a_value_of_its_own),
        cmocka_unit_test(test_noise_is_told_by_the_fit),
        cmocka_unit_test(test_failures_count_as_worst_or_are_left_out),
        cmocka_unit_test(test_ranks_look_past_a_loss_that_explodes),
        cmocka_unit_test(test_bad_tables_are_refused),
        cmocka_unit_test(test_any_numbers_are_survived),
        cmocka_unit_test(test_five_thousand_trials_take_less_than_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
