#include "search/asha.h"

#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct asha *create(struct asha_options options)
{
    struct asha *asha = NULL;
    assert_int_equal(asha_create(&options, &asha, NULL), ERR_OK);
    return asha;
}

static void do_begin(struct asha *asha, uint32_t trial, uint32_t rung)
{
    assert_int_equal(asha_begin(asha, trial, rung, NULL), ERR_OK);
}

static void do_report(struct asha *asha, uint32_t trial, uint32_t rung, double value)
{
    assert_int_equal(asha_report(asha, trial, rung, value, NULL), ERR_OK);
}

static void assert_step(const struct asha *asha, enum asha_action action, uint32_t trial,
                        uint32_t rung)
{
    struct asha_step step = asha_next(asha);
    assert_int_equal(step.action, action);
    assert_int_equal(step.trial, trial);
    assert_int_equal(step.rung, rung);
}

static void check_rungs(uint64_t min, uint64_t max, uint32_t eta, const char *expected)
{
    struct asha *asha =
        create((struct asha_options){.min = min, .max = max, .eta = eta, .trials_max = 10});
    char got[256] = "";
    size_t size = 0;
    for (uint32_t r = 0; r < asha_rung_count(asha); r++) {
        size += (size_t)snprintf(got + size, sizeof got - size, "%s%" PRIu64, r > 0 ? " " : "",
                                 asha_rung_resource(asha, r));
    }
    assert_string_equal(got, expected);
    asha_destroy(asha);
}

static void test_rungs_go_from_min_to_max(void **state)
{
    (void)state;
    check_rungs(1, 27, 3, "1 3 9 27");
    check_rungs(1, 50, 3, "1 3 9 27 50");
    check_rungs(1, 30, 3, "1 3 9 30");
    check_rungs(5, 5, 4, "5");
    check_rungs(5, 6, 4, "5 6");
    check_rungs(100, 1600, 4, "100 400 1600");
    struct asha *asha = create(
        (struct asha_options){.min = 1, .max = ASHA_RESOURCE_MAX, .eta = 2, .trials_max = 1});
    assert_int_equal(asha_rung_count(asha), 41);
    assert_true(asha_rung_resource(asha, 40) == ASHA_RESOURCE_MAX);
    asha_destroy(asha);
}

static void test_bad_options_are_refused(void **state)
{
    (void)state;
    static const struct asha_options bad[] = {
        {.min = 0, .max = 9, .eta = 3, .trials_max = 1},
        {.min = 9, .max = 3, .eta = 3, .trials_max = 1},
        {.min = 1, .max = ASHA_RESOURCE_MAX + 1, .eta = 3, .trials_max = 1},
        {.min = 1, .max = 9, .eta = 1, .trials_max = 1},
        {.min = 1, .max = 9, .eta = 1001, .trials_max = 1},
        {.min = 1, .max = 9, .eta = 3, .trials_max = 0},
        {.min = 1, .max = 9, .eta = 3, .trials_max = ASHA_TRIALS_MAX + 1},
        {.min = 1, .max = 9, .eta = 3, .trials_max = 1, .brackets = 4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct asha *asha = NULL;
        struct err err = {0};
        assert_int_equal(asha_create(&bad[i], &asha, &err), ERR_INVALID);
        assert_null(asha);
        assert_true(err.text[0] != '\0');
    }
}

static void test_the_best_third_goes_on_and_nobody_waits(void **state)
{
    (void)state;
    struct asha *asha = create(
        (struct asha_options){.min = 1, .max = 9, .eta = 3, .trials_max = 4, .maximize = true});
    for (uint32_t t = 0; t < 4; t++) {
        assert_step(asha, ASHA_START, t, 0);
        do_begin(asha, t, 0);
    }
    assert_step(asha, ASHA_WAIT, 0, 0);
    do_report(asha, 0, 0, 0.5);
    do_report(asha, 1, 0, 0.7);
    assert_step(asha, ASHA_WAIT, 0, 0); /* two of three */
    do_report(asha, 2, 0, 0.6);
    assert_step(asha, ASHA_PROMOTE, 1, 1);
    struct asha_step step = asha_next(asha);
    assert_true(step.resource_from == 1 && step.resource == 3);
    do_begin(asha, 1, 1);
    assert_step(asha, ASHA_WAIT, 0, 0);
    do_report(asha, 3, 0, 0.9); /* now the best, but a third of four is one */
    assert_step(asha, ASHA_PROMOTE, 3, 1);
    do_begin(asha, 3, 1);
    do_report(asha, 3, 1, 0.91);
    do_report(asha, 1, 1, (double)NAN);
    assert_step(asha, ASHA_PROMOTE, 3, 2); /* nothing runs and nobody has reached the end */
    do_begin(asha, 3, 2);
    do_report(asha, 3, 2, 0.95);
    assert_step(asha, ASHA_DONE, 0, 0);
    struct asha_counts counts = asha_counts(asha);
    assert_int_equal(counts.finished, 1);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.resource, 4 + 2 + 2 + 6);
    asha_destroy(asha);
}

static void test_facts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct asha *asha =
        create((struct asha_options){.min = 1, .max = 9, .eta = 3, .trials_max = 2});
    assert_int_equal(asha_begin(asha, 1, 0, NULL), ERR_RANGE);
    assert_int_equal(asha_begin(asha, 0, 3, NULL), ERR_RANGE);
    assert_int_equal(asha_begin(asha, 0, 1, NULL), ERR_RANGE); /* no brackets */
    assert_int_equal(asha_report(asha, 0, 0, 1, NULL), ERR_RANGE);
    do_begin(asha, 0, 0);
    assert_int_equal(asha_begin(asha, 0, 0, NULL), ERR_STALE);
    assert_int_equal(asha_begin(asha, 0, 1, NULL), ERR_STALE);
    assert_int_equal(asha_report(asha, 0, 1, 1, NULL), ERR_STALE);
    do_report(asha, 0, 0, 1);
    assert_int_equal(asha_report(asha, 0, 0, 1, NULL), ERR_STALE);
    assert_int_equal(asha_begin(asha, 0, 2, NULL), ERR_STALE);
    do_begin(asha, 1, 0);
    do_report(asha, 1, 0, (double)INFINITY);
    assert_int_equal(asha_begin(asha, 1, 1, NULL), ERR_STALE); /* it failed */
    assert_int_equal(asha_begin(asha, 2, 0, NULL), ERR_QUOTA);
    asha_destroy(asha);
}

static void test_a_search_that_fails_altogether_ends(void **state)
{
    (void)state;
    struct asha *asha =
        create((struct asha_options){.min = 1, .max = 9, .eta = 3, .trials_max = 50});
    for (;;) {
        struct asha_step step = asha_next(asha);
        if (step.action == ASHA_DONE) {
            break;
        }
        assert_int_equal(step.action, ASHA_START);
        do_begin(asha, step.trial, step.rung);
        do_report(asha, step.trial, step.rung, (double)NAN);
    }
    assert_int_equal(asha_counts(asha).failed, 50);
    asha_destroy(asha);
}

/* --- against the plainest model: every rung is sorted anew for every question -----------------*/

enum { MODEL_TRIALS = 120, MODEL_RUNGS = 5 };

struct model_trial {
    uint32_t bracket;
    uint32_t rung;
    bool running;
    bool reported[MODEL_RUNGS];
    bool promoted[MODEL_RUNGS]; /* went on from here */
    double value[MODEL_RUNGS];
};

struct model {
    struct asha_options options;
    uint32_t rung_count;
    uint32_t brackets;
    bool closed;
    uint32_t begun;
    struct model_trial trials[MODEL_TRIALS];
};

/* How many of the same rung are better than trial t there. */
static uint32_t model_rank(const struct model *model, uint32_t t, uint32_t r, uint32_t *count)
{
    const struct model_trial *me = &model->trials[t];
    uint32_t rank = 0;
    *count = 0;
    for (uint32_t i = 0; i < model->begun; i++) {
        const struct model_trial *other = &model->trials[i];
        if (other->bracket != me->bracket || !other->reported[r]) {
            continue;
        }
        ++*count;
        double sign = model->options.maximize ? -1 : 1;
        bool finite = isfinite(other->value[r]);
        if (isfinite(me->value[r])) {
            rank += finite && (sign * other->value[r] < sign * me->value[r] ||
                               (other->value[r] == me->value[r] && i < t));
        } else {
            rank += finite || i < t;
        }
    }
    return rank;
}

/* The promotion from rung r of a bracket, if there is one. */
static bool model_promotion(const struct model *model, uint32_t b, uint32_t r, bool any,
                            uint32_t *who)
{
    uint32_t best_rank = UINT32_MAX;
    for (uint32_t t = 0; t < model->begun; t++) {
        const struct model_trial *trial = &model->trials[t];
        if (trial->bracket != b || !trial->reported[r] || trial->promoted[r] ||
            !isfinite(trial->value[r])) {
            continue;
        }
        uint32_t count = 0;
        uint32_t rank = model_rank(model, t, r, &count);
        if ((any || rank < count / model->options.eta) && rank < best_rank) {
            best_rank = rank;
            *who = t;
        }
    }
    return best_rank < UINT32_MAX;
}

static bool model_find(const struct model *model, bool any, struct asha_step *step)
{
    for (uint32_t r = model->rung_count - 1; r-- > 0;) {
        for (uint32_t b = 0; b < model->brackets; b++) {
            if (model_promotion(model, b, r, any, &step->trial)) {
                step->action = ASHA_PROMOTE;
                step->rung = r + 1;
                return true;
            }
        }
    }
    return false;
}

static struct asha_step model_next(const struct model *model)
{
    struct asha_step step = {0};
    if (model_find(model, false, &step)) {
        return step;
    }
    if (!model->closed && model->begun < model->options.trials_max) {
        return (struct asha_step){.action = ASHA_START, .trial = model->begun};
    }
    bool finished = false;
    for (uint32_t t = 0; t < model->begun; t++) {
        const struct model_trial *trial = &model->trials[t];
        if (trial->running) {
            return (struct asha_step){.action = ASHA_WAIT};
        }
        finished = finished || (trial->reported[model->rung_count - 1] &&
                                isfinite(trial->value[model->rung_count - 1]));
    }
    if (!finished && model_find(model, true, &step)) {
        return step;
    }
    return (struct asha_step){.action = ASHA_DONE};
}

static void model_begin(struct model *model, uint32_t t, uint32_t rung)
{
    struct model_trial *trial = &model->trials[t];
    if (t == model->begun) {
        model->begun++;
        trial->bracket = rung;
    } else {
        trial->promoted[trial->rung] = true;
    }
    trial->rung = rung;
    trial->running = true;
}

struct fact {
    bool report;
    uint32_t trial;
    uint32_t rung;
    double value;
};

static double random_value(struct rng *rng)
{
    uint64_t kind = rng_below(rng, 20);
    if (kind == 0) {
        return (double)NAN;
    }
    if (kind == 1) {
        return rng_below(rng, 2) ? (double)INFINITY : -(double)INFINITY;
    }
    return kind < 8 ? (double)rng_below(rng, 4) : rng_unit(rng); /* many ties */
}

/* One running trial, chosen at random, reports. */
static struct fact random_report(const struct model *model, struct rng *rng)
{
    CHECK(model->begun > 0);
    uint32_t t = (uint32_t)rng_below(rng, model->begun);
    while (!model->trials[t].running) {
        t = (t + 1) % model->begun;
    }
    return (struct fact){
        .report = true, .trial = t, .rung = model->trials[t].rung, .value = random_value(rng)};
}

static void apply(struct asha *asha, const struct fact *fact)
{
    if (fact->report) {
        do_report(asha, fact->trial, fact->rung, fact->value);
    } else {
        do_begin(asha, fact->trial, fact->rung);
    }
}

static void model_apply(struct model *model, const struct fact *fact)
{
    struct model_trial *trial = &model->trials[fact->trial];
    if (!fact->report) {
        model_begin(model, fact->trial, fact->rung);
        return;
    }
    trial->running = false;
    trial->reported[fact->rung] = true;
    trial->value[fact->rung] = fact->value;
}

static void assert_same_step(const struct asha *asha, const struct model *model,
                             struct asha_step *step)
{
    struct asha_step expected = model_next(model);
    *step = asha_next(asha);
    assert_int_equal(step->action, expected.action);
    assert_int_equal(step->trial, expected.trial);
    if (step->action == ASHA_START) {
        assert_true(step->rung < model->brackets);
    } else {
        assert_int_equal(step->rung, expected.rung);
    }
}

static struct asha_options random_options(struct rng *rng)
{
    struct asha_options options = {.maximize = rng_below(rng, 2),
                                   .min = 1 + rng_below(rng, 3),
                                   .eta = 2 + (uint32_t)rng_below(rng, 3),
                                   .trials_max = 1 + (uint32_t)rng_below(rng, MODEL_TRIALS)};
    options.max = options.min;
    for (uint64_t i = rng_below(rng, MODEL_RUNGS); i > 0; i--) {
        options.max *= options.eta;
    }
    return options;
}

static void run_against_model(uint64_t seed)
{
    struct rng rng = {.state = seed};
    struct asha_options options = random_options(&rng);
    struct asha *asha = create(options);
    struct model model = {.options = options, .brackets = 1};
    model.rung_count = asha_rung_count(asha);
    if (rng_below(&rng, 3) == 0) {
        asha_destroy(asha);
        options.brackets = model.brackets = 1 + (uint32_t)rng_below(&rng, model.rung_count);
        asha = create(options);
    }
    struct asha *replayed = create(options);
    uint64_t parallel = 1 + rng_below(&rng, 12);
    struct asha_step step;
    for (;;) {
        assert_same_step(asha, &model, &step);
        if (step.action == ASHA_DONE) {
            break;
        }
        bool can_begin = step.action != ASHA_WAIT && asha_counts(asha).running < parallel;
        struct fact fact = {.trial = step.trial, .rung = step.rung};
        if (!can_begin || (asha_counts(asha).running > 0 && rng_below(&rng, 2))) {
            fact = random_report(&model, &rng);
        }
        apply(asha, &fact);
        apply(replayed, &fact);
        model_apply(&model, &fact);
        if (rng_below(&rng, 300) == 0) {
            asha_close(asha);
            asha_close(replayed);
            model.closed = true;
        }
        struct asha_step again = asha_next(replayed);
        step = asha_next(asha);
        assert_true(again.action == step.action && again.trial == step.trial &&
                    again.rung == step.rung && again.resource == step.resource);
    }
    assert_true(asha_counts(asha).resource == asha_counts(replayed).resource);
    asha_destroy(asha);
    asha_destroy(replayed);
}

static void test_random_searches_match_the_model_and_their_replay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        print_message("%" PRIu64 "%c", seed, seed % 30 ? ' ' : '\n');
        run_against_model(seed);
    }
}

static void test_brackets_cost_about_the_same(void **state)
{
    (void)state;
    struct asha *asha = create(
        (struct asha_options){.min = 1, .max = 27, .eta = 3, .trials_max = 3000, .brackets = 4});
    struct rng rng = {.state = 1};
    double cost[4] = {0};
    uint32_t *bracket = mem_array(3000, sizeof *bracket);
    for (;;) {
        struct asha_step step = asha_next(asha);
        if (step.action == ASHA_DONE) {
            break;
        }
        if (step.action == ASHA_START) {
            bracket[step.trial] = step.rung;
        }
        cost[bracket[step.trial]] += (double)(step.resource - step.resource_from);
        do_begin(asha, step.trial, step.rung);
        do_report(asha, step.trial, step.rung, rng_unit(&rng));
    }
    free(bracket);
    for (int b = 0; b < 4; b++) {
        print_message("bracket %d: %.0f units\n", b, cost[b]);
        assert_true(cost[b] > 0.5 * cost[0] && cost[b] < 2 * cost[0]);
    }
    asha_destroy(asha);
}

static void test_a_hundred_thousand_trials_are_small_and_quick(void **state)
{
    (void)state;
    enum { TRIALS = 100000 };
    struct asha *asha =
        create((struct asha_options){.min = 1, .max = 81, .eta = 3, .trials_max = TRIALS});
    struct rng rng = {.state = 7};
    double best = 1;
    for (;;) {
        struct asha_step step = asha_next(asha);
        if (step.action == ASHA_DONE) {
            break;
        }
        double value = rng_unit(&rng);
        best = step.resource == 81 ? fmin(best, value) : best;
        do_begin(asha, step.trial, step.rung);
        do_report(asha, step.trial, step.rung, value);
    }
    struct asha_counts counts = asha_counts(asha);
    print_message("%.1f bytes a trial, %" PRIu32 " finished\n", (double)asha_bytes(asha) / TRIALS,
                  counts.finished);
    assert_true(asha_bytes(asha) < 100 * (size_t)TRIALS);
    assert_int_equal(counts.begun, TRIALS);
    assert_true(counts.finished > 1000 && counts.finished < 3000);
    asha_destroy(asha);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rungs_go_from_min_to_max),
        cmocka_unit_test(test_bad_options_are_refused),
        cmocka_unit_test(test_the_best_third_goes_on_and_nobody_waits),
        cmocka_unit_test(test_facts_that_cannot_be_are_refused),
        cmocka_unit_test(test_a_search_that_fails_altogether_ends),
        cmocka_unit_test(test_random_searches_match_the_model_and_their_replay),
        cmocka_unit_test(test_brackets_cost_about_the_same),
        cmocka_unit_test(test_a_hundred_thousand_trials_are_small_and_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
