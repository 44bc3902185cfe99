#include "advise/next_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TYPES = 3 };

/* Two worker types that were measured once, one that never was, and a server. */
struct fixture {
    struct catalog_row workers[TYPES];
    struct catalog_row server;
    struct model models[TYPES];
    struct rank_offer offers[TYPES];
    struct rank_request request;
    struct rank_answer answer;
};

static void fit(struct model *model, const char *type, double steps_per_s, uint32_t runs)
{
    struct profile_run all[MODEL_RUNS_MAX];
    struct profile profile = {.runs = all, .count = runs};
    for (uint32_t i = 0; i < runs; i++) {
        all[i] = (struct profile_run){.type = (char *)(uintptr_t)type,
                                      .workers = 1 + i,
                                      .servers = 1,
                                      .batch = 64,
                                      .bandwidth_mbps = 50,
                                      .steps_per_s = steps_per_s * (1 + i),
                                      .mode = PROFILE_ASYNC};
    }
    assert_int_equal(model_fit(&profile, type, PROFILE_ASYNC, 10000, model, NULL), ERR_OK);
}

/* runs: how often each measured type was; second: steps a second of the second type. */
static void begin(struct fixture *f, uint32_t runs, double second, size_t types, double examples)
{
    static const char *const names[TYPES] = {"w0", "w1", "w2"};
    *f = (struct fixture){.server = {.type = "s",
                                     .currency = "USD",
                                     .network_mbps = 10000,
                                     .price_hour_micro = 100000,
                                     .billing = {.granule_s = 1}}};
    for (size_t i = 0; i < types; i++) {
        f->workers[i] = (struct catalog_row){.type = names[i],
                                             .currency = "USD",
                                             .price_hour_micro = 500000,
                                             .billing = {.granule_s = 1}};
        f->offers[i] =
            (struct rank_offer){.worker = &f->workers[i], .server = &f->server, .servers = 1};
        if (i < 2) {
            fit(&f->models[i], names[i], i == 0 ? 2 : second, runs);
            f->offers[i].model = &f->models[i];
        }
    }
    f->request = (struct rank_request){.offers = f->offers,
                                       .offer_count = types,
                                       .workers_min = 1,
                                       .workers_max = 8,
                                       .examples = examples};
    assert_int_equal(rank(&f->request, &f->answer, NULL), ERR_OK);
}

static void test_a_close_rival_of_a_long_run_is_worth_measuring(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run next;
    begin(&f, 1, 1.95, 2, 1e9);
    assert_int_equal(next_run(&f.request, &f.answer, 300, &next, NULL), ERR_OK);
    assert_true(next.offer < 2 && next.workers >= 1 && next.workers <= 8);
    assert_true(next.worth > next.cost && next.cost > 0);
    assert_true(next.sd_after < next.sd_before);
    rank_release(&f.answer);
}

static void test_nothing_is_worth_measuring_for_a_short_run(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run next;
    struct err err = {0};
    begin(&f, 1, 1.95, 2, 1e3);
    assert_int_equal(next_run(&f.request, &f.answer, 300, &next, &err), ERR_NOT_FOUND);
    assert_true(strlen(err.text) > 0);
    rank_release(&f.answer);
}

static void test_more_runs_leave_less_to_learn(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run few;
    struct next_run many = {0};
    begin(&f, 1, 1.95, 2, 1e9);
    assert_int_equal(next_run(&f.request, &f.answer, 300, &few, NULL), ERR_OK);
    rank_release(&f.answer);
    begin(&f, 8, 1.95, 2, 1e9);
    enum err_code code = next_run(&f.request, &f.answer, 300, &many, NULL);
    assert_true(code == ERR_NOT_FOUND || many.worth < few.worth);
    rank_release(&f.answer);
}

static void test_a_rival_that_is_far_behind_is_left_alone(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run close;
    struct next_run far = {0};
    begin(&f, 1, 1.95, 2, 1e9);
    assert_int_equal(next_run(&f.request, &f.answer, 300, &close, NULL), ERR_OK);
    rank_release(&f.answer);
    begin(&f, 1, .02, 2, 1e9);
    enum err_code code = next_run(&f.request, &f.answer, 300, &far, NULL);
    assert_true(code == ERR_NOT_FOUND || far.worth < close.worth / 10);
    rank_release(&f.answer);
}

static void test_a_type_never_measured_is_tried_with_one_worker(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run next;
    begin(&f, 8, .02, 3, 1e9); /* the first two are settled */
    assert_int_equal(next_run(&f.request, &f.answer, 300, &next, NULL), ERR_OK);
    assert_int_equal(next.offer, 2);
    assert_int_equal(next.workers, 1);
    assert_true(fabs(next.cost - .5 * 300 / 3600) < 1e-9);
    rank_release(&f.answer);
}

static void test_a_longer_profile_run_costs_more(void **state)
{
    (void)state;
    struct fixture f;
    struct next_run brief;
    struct next_run tedious;
    begin(&f, 1, 1.95, 2, 1e9);
    assert_int_equal(next_run(&f.request, &f.answer, 60, &brief, NULL), ERR_OK);
    assert_int_equal(next_run(&f.request, &f.answer, 600, &tedious, NULL), ERR_OK);
    assert_true(brief.worth - brief.cost > tedious.worth - tedious.cost);
    struct next_run none;
    assert_int_equal(next_run(&f.request, &f.answer, 1e12, &none, NULL), ERR_NOT_FOUND);
    rank_release(&f.answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_close_rival_of_a_long_run_is_worth_measuring),
        cmocka_unit_test(test_nothing_is_worth_measuring_for_a_short_run),
        cmocka_unit_test(test_more_runs_leave_less_to_learn),
        cmocka_unit_test(test_a_rival_that_is_far_behind_is_left_alone),
        cmocka_unit_test(test_a_type_never_measured_is_tried_with_one_worker),
        cmocka_unit_test(test_a_longer_profile_run_costs_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
