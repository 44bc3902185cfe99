#include "search/scores.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void test_selecting_agrees_with_sorting(void **state)
{
    (void)state;
    struct rng rng = {11};
    for (int round = 0; round < 2000; round++) {
        double values[40];
        double sorted[40];
        size_t count = 1 + (size_t)rng_below(&rng, 40);
        uint64_t kinds = 1 + rng_below(&rng, 40);
        for (size_t i = 0; i < count; i++) {
            sorted[i] = values[i] = (double)rng_below(&rng, kinds);
        }
        qsort(sorted, count, sizeof sorted[0], compare);
        size_t k = (size_t)rng_below(&rng, count);
        assert_true(scores_select(values, count, k) == sorted[k]);
    }
}

static void test_order_is_kept_and_scale_is_standard(void **state)
{
    (void)state;
    struct rng rng = {12};
    void (*const changes[])(double *, size_t) = {scores_tame, scores_zoom};
    for (int round = 0; round < 400; round++) {
        double values[30];
        double changed[30];
        size_t count = 3 + (size_t)rng_below(&rng, 27);
        for (size_t i = 0; i < count; i++) {
            values[i] = exp(10 * rng_unit(&rng) * (round % 3)) + (i == 0 ? 1e12 : 0);
            changed[i] = values[i];
        }
        changes[round % 2](changed, count);
        double sum = 0;
        double squares = 0;
        for (size_t i = 0; i < count; i++) {
            sum += changed[i];
            squares += changed[i] * changed[i];
            for (size_t k = 0; k < count; k++) {
                assert_true(!(values[i] < values[k]) || changed[i] <= changed[k]);
            }
        }
        assert_true(fabs(sum) < 1e-6 * (double)count);
        assert_true(fabs(squares - (double)count) < 1e-6 * (double)count);
    }
}

static void test_equal_values_become_zero(void **state)
{
    (void)state;
    double values[3] = {7, 7, 7};
    scores_zoom(values, 3);
    assert_true(values[0] == 0 && values[1] == 0 && values[2] == 0);
    double one[1] = {3};
    scores_tame(one, 1);
    assert_true(one[0] == 0);
    scores_tame(one, 0);
}

static void test_failed_and_pruned_trials_get_a_score(void **state)
{
    (void)state;
    const struct search_param param = {.kind = SEARCH_UNIFORM, .high = 1};
    const enum search_goal goal = SEARCH_MINIMIZE;
    struct search_options options = {.params = &param,
                                     .param_count = 1,
                                     .goals = &goal,
                                     .goal_count = 1,
                                     .algorithm = SEARCH_RANDOM};
    struct search *search = search_create(&options, NULL);
    const enum search_status told[] = {SEARCH_FINISHED, SEARCH_FINISHED, SEARCH_FINISHED,
                                       SEARCH_FAILED,   SEARCH_PRUNED,   SEARCH_PRUNED};
    const double values[] = {1, 2, 5, 0, 0.5, 3};
    const double wanted[] = {1, 2, 5, 5, 2, 3};
    for (uint64_t i = 0; i < 6; i++) {
        struct search_value value;
        struct search_trial trial = {.values = &value};
        assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
        assert_int_equal(search_tell(search, i, told[i], &values[i], NULL), ERR_OK);
    }
    struct scores scores;
    scores_init(&scores, search, search->told_count, NULL);
    for (size_t i = 0; i < 6; i++) {
        assert_true(scores.values[i] == wanted[i]);
    }
    scores_release(&scores);
    search_destroy(search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selecting_agrees_with_sorting),
        cmocka_unit_test(test_order_is_kept_and_scale_is_standard),
        cmocka_unit_test(test_equal_values_become_zero),
        cmocka_unit_test(test_failed_and_pruned_trials_get_a_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
