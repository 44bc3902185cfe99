#include "search/search.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMS = 6 };

static const uint64_t first_two[] = {0, 1};
static const enum search_goal goals[] = {SEARCH_MINIMIZE, SEARCH_MAXIMIZE};

static const struct search_param mixed[PARAMS] = {
    {.name = "rate", .kind = SEARCH_LOG, .low = 1e-5, .high = 1},
    {.name = "size", .kind = SEARCH_UNIFORM, .low = 1, .step = 1, .count = 20},
    {.name = "kind", .kind = SEARCH_CATEGORICAL, .count = 3},
    {.name = "momentum",
     .kind = SEARCH_UNIFORM,
     .low = 0,
     .high = 1,
     .conditional = true,
     .parent = 2,
     .when = first_two,
     .when_count = 2},
    {.name = "noise", .kind = SEARCH_NORMAL, .low = -INFINITY, .high = INFINITY, .sd = 1},
    {.name = "fixed", .kind = SEARCH_FIXED},
};

/* 4 * 5 * (2 + 2 + 1) = 100 combinations. */
static const struct search_param discrete[] = {
    {.name = "a", .kind = SEARCH_ORDERED, .count = 4},
    {.name = "b", .kind = SEARCH_UNIFORM, .low = 0, .step = 0.5, .count = 5},
    {.name = "c", .kind = SEARCH_CATEGORICAL, .count = 3},
    {.name = "d",
     .kind = SEARCH_CATEGORICAL,
     .count = 2,
     .conditional = true,
     .parent = 2,
     .when = first_two,
     .when_count = 2},
};

static struct search *create(struct search_options options)
{
    struct err err = {0};
    struct search *search = search_create(&options, &err);
    if (!search) {
        fail_msg("%s", err.text);
    }
    return search;
}

static double objective(const struct search_value *values)
{
    double rate = log10(values[0].number) + 3;
    double size = (values[1].number - 12) / 10;
    double sum = rate * rate + size * size + (double)values[2].index * 0.3;
    if (values[3].present) {
        sum += (values[3].number - 0.7) * (values[3].number - 0.7);
    }
    return sum + 0.1 * values[4].number * values[4].number;
}

/* What is written to the log: suggestions and results, in order. */
struct event {
    bool told;
    uint64_t trial;
    struct search_value values[PARAMS];
    enum search_status status;
    double results[2];
};

enum { EVENTS_MAX = 400 };

struct history {
    struct event events[EVENTS_MAX];
    size_t count;
};

static void replay(struct search *search, struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        struct event *event = &history->events[i];
        struct search_trial trial = {event->trial, event->values};
        enum err_code code =
            event->told ? search_tell(search, event->trial, event->status, event->results, NULL)
                        : search_suggested(search, &trial, NULL);
        assert_int_equal(code, ERR_OK);
    }
}

static void step_ask(struct search *search, struct history *history)
{
    struct event *event = &history->events[history->count++];
    *event = (struct event){0};
    struct search_trial trial = {.values = event->values};
    assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
    event->trial = trial.number;
}

static void step_tell(struct search *search, struct history *history, struct rng *rng,
                      const struct event *suggested)
{
    struct event *event = &history->events[history->count++];
    *event = (struct event){.told = true, .trial = suggested->trial};
    uint64_t chance = rng_below(rng, 12);
    event->status = chance == 0   ? SEARCH_FAILED
                    : chance == 1 ? SEARCH_DIVERGED
                    : chance == 2 ? SEARCH_PRUNED
                    : chance == 3 ? SEARCH_GONE
                                  : SEARCH_FINISHED;
    event->results[0] = objective(suggested->values);
    event->results[1] = suggested->values[1].number - event->results[0];
    if (chance == 4) {
        event->results[0] = NAN;
    }
    assert_int_equal(search_tell(search, event->trial, event->status, event->results, NULL),
                     ERR_OK);
}

/* Random asks and tells; up to `parallel` run at a time and end in any order. */
static void live(struct search *search, struct history *history, struct rng *rng, size_t count)
{
    size_t running[8];
    size_t running_count = 0;
    while (history->count < count) {
        if (running_count == 0 || (running_count < 8 && rng_below(rng, 2))) {
            running[running_count++] = history->count;
            step_ask(search, history);
        } else {
            size_t which = (size_t)rng_below(rng, running_count);
            struct event suggested = history->events[running[which]];
            running[which] = running[--running_count];
            step_tell(search, history, rng, &suggested);
        }
    }
}

static bool same_values(const struct search_value *a, const struct search_value *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a[i].present != b[i].present ||
            (a[i].present && (a[i].index != b[i].index || a[i].number != b[i].number))) {
            return false;
        }
    }
    return true;
}

static void test_a_restored_search_goes_on_exactly_as_before(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        for (size_t goal_count = 1; goal_count <= 2; goal_count++) {
            uint64_t seed = 100 + algorithm * 2 + goal_count;
            struct search_options options = {.params = mixed,
                                             .param_count = PARAMS,
                                             .goals = goals,
                                             .goal_count = goal_count,
                                             .algorithm = algorithm,
                                             .seed = seed,
                                             .trials = 1000,
                                             .parallel = 8};
            struct search *search = create(options);
            AUTO_FREE struct history *history = mem_alloc(sizeof *history);
            struct rng rng = {seed};
            live(search, history, &rng, 150 + rng_below(&rng, 50));
            struct search *restored = create(options);
            replay(restored, history);
            for (int i = 0; i < 8; i++) {
                struct search_value a[PARAMS] = {{0}};
                struct search_value b[PARAMS] = {{0}};
                struct search_trial trial_a = {.values = a};
                struct search_trial trial_b = {.values = b};
                assert_int_equal(search_ask(search, &trial_a, NULL), ERR_OK);
                assert_int_equal(search_ask(restored, &trial_b, NULL), ERR_OK);
                assert_int_equal(trial_a.number, trial_b.number);
                if (!same_values(a, b, PARAMS)) {
                    fail_msg("%s, seed %d", search_algorithm_name(algorithm), (int)seed);
                }
            }
            search_destroy(search);
            search_destroy(restored);
        }
    }
}

static bool allow_some(void *arg, const struct search_value *values)
{
    (void)arg;
    return values[0].index + values[1].index <= 5;
}

/* The number of combinations of `discrete` that are allowed, counted one by one. */
static size_t count_allowed(bool constrained)
{
    size_t count = 0;
    for (uint64_t a = 0; a < 4; a++) {
        for (uint64_t b = 0; b < 5; b++) {
            if (!constrained || a + b <= 5) {
                count += 2 + 2 + 1;
            }
        }
    }
    return count;
}

static void exhaust(enum search_algorithm algorithm, bool constrained)
{
    struct search_value seen[128][4];
    struct search_options options = {.params = discrete,
                                     .param_count = 4,
                                     .goals = goals,
                                     .goal_count = 1,
                                     .algorithm = algorithm,
                                     .seed = 9,
                                     .allowed = constrained ? allow_some : NULL};
    struct search *search = create(options);
    assert_int_equal(search_size(search), count_allowed(false));
    size_t count = 0;
    struct search_trial trial = {.values = seen[0]};
    struct err err = {0};
    while (search_ask(search, &trial, &err) == ERR_OK) {
        for (size_t i = 0; i < count; i++) {
            assert_false(same_values(seen[i], seen[count], 4));
        }
        assert_true(!constrained || allow_some(NULL, seen[count]));
        if (trial.number % 3) { /* some stay running */
            double value = (double)(seen[count][0].index + seen[count][2].index);
            assert_int_equal(search_tell(search, trial.number, SEARCH_FINISHED, &value, NULL),
                             ERR_OK);
        }
        trial.values = seen[++count];
        assert_true(count < 127);
    }
    assert_int_equal(err.code, ERR_NOT_FOUND);
    if (count != count_allowed(constrained)) {
        fail_msg("%s: %zu suggestions", search_algorithm_name(algorithm), count);
    }
    /* One that was lost may come again, and nothing else. */
    assert_int_equal(search_tell(search, 3, SEARCH_GONE, NULL, NULL), ERR_OK);
    assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
    assert_true(same_values(seen[3], trial.values, 4));
    assert_int_equal(search_ask(search, &trial, NULL), ERR_NOT_FOUND);
    search_destroy(search);
}

static void test_nothing_is_suggested_twice_until_everything_was(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        exhaust(algorithm, false);
        exhaust(algorithm, true);
    }
}

static void test_repeats_may_be_asked_for(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        struct search_options options = {.params = discrete,
                                         .param_count = 4,
                                         .goals = goals,
                                         .goal_count = 1,
                                         .algorithm = algorithm,
                                         .repeats = true};
        struct search *search = create(options);
        struct search_value values[4] = {{0}};
        struct search_trial trial = {.values = values};
        for (int i = 0; i < 150; i++) {
            double value = (double)i;
            assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
            assert_int_equal(search_tell(search, trial.number, SEARCH_FINISHED, &value, NULL),
                             ERR_OK);
        }
        search_destroy(search);
    }
}

static void test_a_grid_cuts_ranges_into_levels(void **state)
{
    (void)state;
    struct search_options options = {
        .params = mixed, .param_count = 3, .goals = goals, .goal_count = 1, .levels = 4};
    struct search *search = create(options);
    struct search_value values[PARAMS] = {{0}};
    struct search_trial trial = {.values = values};
    size_t count = 0;
    bool low = false;
    bool high = false;
    while (search_ask(search, &trial, NULL) == ERR_OK) {
        low = low || values[0].number == 1e-5;
        high = high || values[0].number == 1;
        count++;
    }
    assert_int_equal(count, 4 * 20 * 3);
    assert_true(low && high);
    search_destroy(search);
}

static bool allow_nothing(void *arg, const struct search_value *values)
{
    (void)arg;
    (void)values;
    return false;
}

static void test_constraints_that_nothing_meets_are_an_error(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        struct search_options options = {.params = mixed,
                                         .param_count = PARAMS,
                                         .goals = goals,
                                         .goal_count = 1,
                                         .algorithm = algorithm,
                                         .allowed = allow_nothing};
        struct search *search = create(options);
        struct search_value values[PARAMS] = {{0}};
        struct search_trial trial = {.values = values};
        assert_int_not_equal(search_ask(search, &trial, NULL), ERR_OK);
        assert_int_equal(search_count(search).suggested, 0);
        search_destroy(search);
    }
}

static void test_wrong_calls_change_nothing(void **state)
{
    (void)state;
    struct search_options options = {
        .params = mixed, .param_count = PARAMS, .goals = goals, .goal_count = 1};
    options.algorithm = SEARCH_RANDOM;
    struct search *search = create(options);
    struct search_value values[PARAMS] = {{0}};
    struct search_trial trial = {.values = values};
    struct err err = {0};
    double value = 1;
    assert_int_equal(search_tell(search, 0, SEARCH_FINISHED, &value, &err), ERR_NOT_FOUND);
    assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
    assert_int_equal(search_tell(search, 0, SEARCH_FINISHED, NULL, &err), ERR_INVALID);
    assert_int_equal(search_suggested(search, &trial, &err), ERR_STALE);
    trial.number = 1;
    values[1].index = 20;
    assert_int_equal(search_suggested(search, &trial, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "size"));
    assert_int_equal(search_tell(search, 0, SEARCH_FINISHED, &value, NULL), ERR_OK);
    assert_int_equal(search_tell(search, 0, SEARCH_FINISHED, &value, &err), ERR_EXISTS);
    struct search_counts counts = search_count(search);
    assert_int_equal(counts.suggested, 1);
    assert_int_equal(counts.finished, 1);
    assert_int_equal(counts.running, 0);
    search_destroy(search);
    options.goal_count = 0;
    assert_null(search_create(&options, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

/* The best of `trials` trials, the mean over a few seeds. */
static double mean_best(enum search_algorithm algorithm, enum search_goal goal, int trials)
{
    double sum = 0;
    for (uint64_t seed = 0; seed < 5; seed++) {
        struct search_options options = {.params = mixed,
                                         .param_count = PARAMS,
                                         .goals = &goal,
                                         .goal_count = 1,
                                         .algorithm = algorithm,
                                         .seed = seed};
        struct search *search = create(options);
        double best = INFINITY;
        for (int i = 0; i < trials; i++) {
            struct search_value values[PARAMS] = {{0}};
            struct search_trial trial = {.values = values};
            assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
            double value = objective(values);
            best = value < best ? value : best;
            value = goal == SEARCH_MAXIMIZE ? -value : value;
            assert_int_equal(search_tell(search, trial.number, SEARCH_FINISHED, &value, NULL),
                             ERR_OK);
        }
        sum += best;
        search_destroy(search);
    }
    return sum / 5;
}

static void test_models_beat_random_and_maximising_is_the_same(void **state)
{
    (void)state;
    double random = mean_best(SEARCH_RANDOM, SEARCH_MINIMIZE, 60);
    const enum search_algorithm models[] = {SEARCH_TPE, SEARCH_GP, SEARCH_CMA_ES, SEARCH_AUTO};
    for (size_t i = 0; i < 4; i++) {
        double best = mean_best(models[i], SEARCH_MINIMIZE, 60);
        if (!(best < random / 2)) {
            fail_msg("%s: %g, random %g", search_algorithm_name(models[i]), best, random);
        }
        assert_true(best == mean_best(models[i], SEARCH_MAXIMIZE, 60));
    }
}

static void test_only_failures_do_no_harm(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        struct search_options options = {.params = mixed,
                                         .param_count = PARAMS,
                                         .goals = goals,
                                         .goal_count = 2,
                                         .algorithm = algorithm};
        struct search *search = create(options);
        for (int i = 0; i < 60; i++) {
            struct search_value values[PARAMS] = {{0}};
            struct search_trial trial = {.values = values};
            const double infinite[2] = {INFINITY, 0};
            assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
            assert_int_equal(search_tell(search, trial.number,
                                         i % 2 ? SEARCH_FAILED : SEARCH_FINISHED, infinite, NULL),
                             ERR_OK);
        }
        assert_int_equal(search_count(search).failed, 60);
        search_destroy(search);
    }
}

/* Many running at once, nothing told yet: all different. */
static void test_running_trials_are_not_suggested_again(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = SEARCH_RANDOM; algorithm <= SEARCH_AUTO; algorithm++) {
        struct search_options options = {.params = mixed,
                                         .param_count = PARAMS,
                                         .goals = goals,
                                         .goal_count = 1,
                                         .algorithm = algorithm,
                                         .parallel = 100};
        struct search *search = create(options);
        struct search_value values[130][PARAMS];
        for (size_t i = 0; i < 130; i++) {
            struct search_trial trial = {.values = values[i]};
            assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
            if (i < 30) {
                double value = objective(values[i]);
                assert_int_equal(search_tell(search, i, SEARCH_FINISHED, &value, NULL), ERR_OK);
            }
            for (size_t k = 0; k < i; k++) {
                assert_false(same_values(values[i], values[k], PARAMS));
            }
        }
        search_destroy(search);
    }
}

static void test_names_and_descriptions(void **state)
{
    (void)state;
    enum search_algorithm algorithm = 0;
    assert_true(search_algorithm_find("cma-es", &algorithm));
    assert_int_equal(algorithm, SEARCH_CMA_ES);
    assert_false(search_algorithm_find("annealing", &algorithm));
    struct search_options options = {.params = discrete,
                                     .param_count = 4,
                                     .goals = goals,
                                     .goal_count = 1,
                                     .algorithm = SEARCH_AUTO};
    struct search *search = create(options);
    assert_int_equal(search_choice(search), SEARCH_GP);
    assert_non_null(strstr(search_describe(search), "auto: gp"));
    assert_non_null(strstr(search_describe(search), "100 combinations"));
    search_destroy(search);
    search_destroy(NULL);
}

static void test_a_space_without_parameters_has_one_trial(void **state)
{
    (void)state;
    for (enum search_algorithm algorithm = 0; algorithm <= SEARCH_AUTO; algorithm++) {
        struct search_options options = {.goals = goals, .goal_count = 1, .algorithm = algorithm};
        struct search *search = create(options);
        struct search_value none[1] = {{0}};
        struct search_trial trial = {.values = none};
        assert_int_equal(search_ask(search, &trial, NULL), ERR_OK);
        assert_int_equal(search_ask(search, &trial, NULL), ERR_NOT_FOUND);
        search_destroy(search);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restored_search_goes_on_exactly_as_before),
        cmocka_unit_test(test_nothing_is_suggested_twice_until_everything_was),
        cmocka_unit_test(test_repeats_may_be_asked_for),
        cmocka_unit_test(test_a_grid_cuts_ranges_into_levels),
        cmocka_unit_test(test_constraints_that_nothing_meets_are_an_error),
        cmocka_unit_test(test_wrong_calls_change_nothing),
        cmocka_unit_test(test_models_beat_random_and_maximising_is_the_same),
        cmocka_unit_test(test_only_failures_do_no_harm),
        cmocka_unit_test(test_running_trials_are_not_suggested_again),
        cmocka_unit_test(test_names_and_descriptions),
        cmocka_unit_test(test_a_space_without_parameters_has_one_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
