#include "advise/rank.h"

#include "advise/next_run.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TYPES = 6, SERVERS = 2, OFFERS = TYPES * SERVERS };

struct fixture {
    struct catalog catalog;
    struct profile profile;
    struct model models[TYPES];
    struct rank_offer offers[OFFERS];
};

static const char machines[] = "provider,region,type,vcpus,memory_gib,network_mbps,price_hour,spot_"
                               "hour,billing_s,date,source\n"
                               "a,r,w0,4,16,,0.2,0.06,1,2020,s\na,r,w1,8,32,,0.45,0.1,1,2020,s\n"
                               "a,r,w2,16,64,,0.8,0.3,3600,2020,s\na,r,w3,4,16,,1.7,,1,2020,s\n"
                               "a,r,w4,4,16,,0.1,0.02,60,2020,s\na,r,w5,4,16,,3.1,1,1,2020,s\n"
                               "a,r,x0,2,8,1000,0.1,,1,2020,s\na,r,x1,2,8,10000,0.9,,1,2020,s\n";

static const char runs[] = "type,batch,workers,bandwidth_mbps,steps_per_s,mode\n"
                           "w0,64,1,50,1,async\nw1,64,1,90,1.9,async\nw2,64,1,160,3.5,async\n"
                           "w3,64,1,600,12,async\nw4,64,1,20,0.4,async\nw5,64,1,1500,31,async\n";

static void begin(struct fixture *f)
{
    struct err err = {0};
    *f = (struct fixture){0};
    if (catalog_add_csv(&f->catalog, "m", machines, strlen(machines), &err) != ERR_OK ||
        profile_add_csv(&f->profile, "p", runs, strlen(runs), &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < OFFERS; i++) {
        size_t type = i / SERVERS;
        const struct catalog_row *worker = &f->catalog.rows[type];
        if (model_fit(&f->profile, worker->type, PROFILE_ASYNC, 10000, &f->models[type], &err) !=
            ERR_OK) {
            fail_msg("%s", err.text);
        }
        f->offers[i] = (struct rank_offer){.worker = worker,
                                           .server = &f->catalog.rows[TYPES + i % SERVERS],
                                           .servers = 1,
                                           .model = &f->models[type]};
    }
}

static void end(struct fixture *f)
{
    catalog_release(&f->catalog);
    profile_release(&f->profile);
}

static struct rank_request ask(const struct fixture *f)
{
    return (struct rank_request){.offers = f->offers,
                                 .offer_count = OFFERS,
                                 .workers_min = 1,
                                 .workers_max = 32,
                                 .examples = 5e6};
}

/* Every candidate by itself, as the plainest model of the ranking. */
static size_t all_candidates(struct rank_request request, struct rank_row *out)
{
    size_t count = 0;
    const struct rank_offer *offers = request.offers;
    size_t offer_count = request.offer_count;
    for (size_t i = 0; i < offer_count; i++) {
        for (uint32_t n = 1; n <= 32; n++) {
            struct rank_answer one;
            request.offers = &offers[i];
            request.offer_count = 1;
            request.workers_min = request.workers_max = n;
            assert_int_not_equal(rank(&request, &one, NULL), ERR_INVALID);
            out[count] = one.rows[0];
            out[count++].offer = i;
            rank_release(&one);
        }
    }
    return count;
}

static void check_against_all(const struct rank_request *request)
{
    static struct rank_row all[OFFERS * 32];
    struct rank_answer answer;
    struct err err = {0};
    size_t count = all_candidates(*request, all);
    enum err_code code = rank(request, &answer, &err);
    size_t front = 0;
    size_t fitting = 0;
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (all[i].verdict != RANK_BEST) {
            continue;
        }
        fitting++;
        bool beaten = false;
        for (size_t j = 0; j < count && !beaten; j++) {
            /* Nearly equal costs may fall either way: ranking sees them in single precision. */
            beaten = all[j].verdict == RANK_BEST && all[j].time_s < all[i].time_s * (1 - 1e-5) &&
                     (double)all[j].cost_micro < (double)all[i].cost_micro * (1 - 1e-5);
        }
        front += !beaten;
        least = all[i].cost_micro < least ? all[i].cost_micro : least;
    }
    assert_int_equal(code == ERR_OK, fitting > 0);
    if (fitting > 0) {
        assert_true(answer.front_count <= front);
        assert_true(answer.front_count + 2 >= front / 2);
        assert_true(llabs(answer.rows[0].cost_micro - least) <= least / 100000 + 1);
        for (size_t i = 1; i < answer.front_count; i++) {
            assert_true(answer.front[i].time_s < answer.front[i - 1].time_s);
        }
        for (size_t i = 0; i < answer.row_count; i++) {
            AUTO_STR struct str why = {0};
            rank_why(request, &answer, &answer.rows[i], &why);
            assert_true(why.size > 0);
            assert_true(answer.rows[i].time_low_s <= answer.rows[i].time_s);
            assert_true(answer.rows[i].time_s <= answer.rows[i].time_high_s);
        }
    }
    rank_release(&answer);
}

static void test_the_order_is_that_of_all_candidates_one_by_one(void **state)
{
    (void)state;
    struct fixture f;
    struct rng rng = {.state = 3};
    printf("seed 3\n");
    begin(&f);
    for (int round = 0; round < 25; round++) {
        struct rank_request request = ask(&f);
        request.examples = 1e5 + rng_unit(&rng) * 1e7;
        request.deadline_s = rng_below(&rng, 2) ? rng_unit(&rng) * 40000 : 0;
        request.budget_hour_micro = rng_below(&rng, 2) ? (int64_t)rng_below(&rng, 20000000) : 0;
        request.budget_total_micro = rng_below(&rng, 2) ? (int64_t)rng_below(&rng, 50000000) : 0;
        check_against_all(&request);
    }
    end(&f);
}

static void test_limits_and_missing_runs_are_named_as_reasons(void **state)
{
    (void)state;
    struct fixture f;
    struct rank_answer answer;
    struct err err = {0};
    begin(&f);
    f.offers[0].model = NULL;
    struct rank_request request = ask(&f);
    request.deadline_s = 1;
    assert_int_equal(rank(&request, &answer, &err), ERR_NOT_FOUND);
    AUTO_STR struct str why = {0};
    rank_why(&request, &answer, &answer.rows[0], &why);
    assert_non_null(strstr(str_text(&why), "misses the deadline"));
    assert_int_equal(answer.rows[OFFERS - 1].verdict, RANK_UNMEASURED);
    rank_release(&answer);
    request.deadline_s = 0;
    request.examples = (double)NAN;
    assert_int_equal(rank(&request, &answer, &err), ERR_INVALID);
    end(&f);
}

static void test_spot_pays_until_losses_eat_it(void **state)
{
    (void)state;
    struct fixture f;
    struct rank_answer cheap;
    struct rank_answer dear;
    struct err err = {0};
    begin(&f);
    struct rank_offer offers[2] = {f.offers[0], f.offers[0]};
    offers[1].spot_share = 1;
    struct rank_request request = ask(&f);
    request.offers = offers;
    request.offer_count = 2;
    request.save_s = 30;
    request.restart_s = 120;
    request.loss_rate_hour = .05;
    assert_int_equal(rank(&request, &cheap, &err), ERR_OK);
    assert_int_equal(cheap.rows[0].offer, 1);
    assert_true(cheap.rows[0].losses > 0 && cheap.rows[0].interval_s > 30);
    request.loss_rate_hour = 30;
    assert_int_equal(rank(&request, &dear, &err), ERR_OK);
    assert_int_equal(dear.rows[0].offer, 0);
    rank_release(&cheap);
    rank_release(&dear);
    end(&f);
}

static void test_a_run_is_proposed_where_the_choice_is_open(void **state)
{
    (void)state;
    struct fixture f;
    struct rank_answer answer;
    struct next_run next;
    struct err err = {0};
    begin(&f);
    struct rank_request request = ask(&f);
    request.examples = 5e7;
    request.deadline_s = 36000;
    assert_int_equal(rank(&request, &answer, &err), ERR_OK);
    assert_int_equal(next_run(&request, &answer, 300, &next, &err), ERR_OK);
    assert_true(next.worth > next.cost);
    assert_true(next.sd_after < next.sd_before);
    rank_release(&answer);
    request.deadline_s = 0;
    request.examples = 10; /* a job of seconds is not worth measuring for */
    assert_int_equal(rank(&request, &answer, &err), ERR_OK);
    assert_int_equal(next_run(&request, &answer, 300, &next, &err), ERR_NOT_FOUND);
    rank_release(&answer);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_is_that_of_all_candidates_one_by_one),
        cmocka_unit_test(test_limits_and_missing_runs_are_named_as_reasons),
        cmocka_unit_test(test_spot_pays_until_losses_eat_it),
        cmocka_unit_test(test_a_run_is_proposed_where_the_choice_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
