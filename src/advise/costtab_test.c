#include "advise/costtab.h"

#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* Table 2 of Malta et al. (2019): per batch the point, hours on p2.xlarge, the speed-up of
 * p3.2xlarge, accuracy, and what each cost. The p3 hours are taken from the speed-up, which has
 * more digits than the hours printed. */
struct paper_row {
    double batch;
    double step;
    double p2_h;
    double p2_deviation_h;
    double speedup;
    double accuracy;
    double accuracy_deviation;
    double p2_cost;
    double p3_cost;
};

static const struct paper_row paper[] = {
    {64, 60000, 1.33, 1.26e-3, 2.70, 91.20, 0.39, 1.20, 1.51},
    {128, 30000, 1.17, 1.16e-3, 3.51, 91.67, 0.30, 1.05, 1.02},
    {256, 17000, 1.17, 2.20e-3, 3.68, 91.03, 0.49, 1.05, 0.97},
    {512, 8000, 1.00, 5.92e-3, 3.63, 89.77, 0.21, 0.90, 0.85},
};

enum { BATCHES = 4, REPEATS = 3, POINTS = 60 };

/* Three runs around a mean with just that deviation: one below, one on it, one above. The curve is
 * a steep start and a plateau; a record half as long again as the point. */
static void add_run(struct curve_set *set, const char *type, const struct paper_row *row,
                    double hours, double hours_deviation, int repeat)
{
    char name[8];
    snprintf(name, sizeof name, "%d", repeat);
    double sign = repeat - 1;
    double rate_s = (hours + sign * hours_deviation) * 3600 / row->step;
    double level = row->accuracy + sign * row->accuracy_deviation;
    struct curve_key key = {.run = name, .type = type, .batch = row->batch};
    for (int i = 0; i < POINTS; i++) {
        double step = row->step * i / (POINTS * 2.0 / 3);
        double share = step / row->step;
        struct curve_point point = {.step = step,
                                    .time_s = rate_s * step,
                                    .metric = share < 1 ? level * (0.1 + 0.85 * share) : level};
        assert_int_equal(curve_set_add(set, &key, &point, NULL), ERR_OK);
    }
}

static void fill(struct curve_set *set)
{
    for (size_t b = 0; b < BATCHES; b++) {
        for (int r = 0; r < REPEATS; r++) {
            add_run(set, "p2.xlarge", &paper[b], paper[b].p2_h, paper[b].p2_deviation_h, r);
            add_run(set, "p3.2xlarge", &paper[b], paper[b].p2_h / paper[b].speedup, 0, r);
        }
    }
    curve_set_finish(set);
}

static const struct costtab_price prices[] = {
    {.type = "p2.xlarge", .price_hour_micro = 900000, .billing = {.granule_s = 1}},
    {.type = "p3.2xlarge", .price_hour_micro = 3060000, .billing = {.granule_s = 1}},
};

static struct stabilise_result *judge(const struct curve_set *set)
{
    struct stabilise_result *results = mem_array(set->count, sizeof *results);
    for (size_t i = 0; i < set->count; i++) {
        stabilise_whole(set->runs[i].points, set->runs[i].count, &(struct stabilise_options){0},
                        &results[i]);
    }
    return results;
}

static bool near(double a, double b, double within)
{
    return fabs(a - b) <= within;
}

static void test_the_paper_s_table_comes_out_of_its_runs(void **state)
{
    (void)state;
    struct curve_set set = {0};
    fill(&set);
    struct stabilise_result *results = judge(&set);
    struct costtab_options options = {
        .prices = prices, .price_count = 2, .baseline_type = "p2.xlarge"};
    struct costtab table;
    assert_int_equal(costtab_make(&set, results, &options, &table, NULL), ERR_OK);
    assert_int_equal(table.count, 2 * BATCHES);
    int cheaper = 0;
    for (size_t b = 0; b < BATCHES; b++) {
        const struct costtab_row *p2 = &table.rows[2 * b];
        const struct costtab_row *p3 = &table.rows[2 * b + 1];
        assert_string_equal(p2->type, "p2.xlarge");
        assert_true(p2->batch == paper[b].batch && p3->batch == paper[b].batch);
        assert_true(near(p2->step / paper[b].step, 1, 0.03));
        assert_int_equal(p2->runs, REPEATS);
        assert_true(near(p2->time_s.mean / 3600, paper[b].p2_h, 0.005));
        assert_true(near(p2->time_s.deviation / 3600, paper[b].p2_deviation_h, 1e-5));
        assert_true(near(p3->speedup, paper[b].speedup, 0.005));
        assert_true(p2->speedup == 1);
        assert_true(near(p2->metric.mean, paper[b].accuracy, 0.01));
        assert_true(near(p2->metric.deviation, paper[b].accuracy_deviation, 0.01));
        assert_true(near(p2->cost.mean, paper[b].p2_cost, 0.01));
        assert_true(near(p3->cost.mean, paper[b].p3_cost, 0.01));
        cheaper += p3->cost.mean < p2->cost.mean;
    }
    assert_int_equal(cheaper, 3); /* on 75 % of occasions, says the paper */
    costtab_release(&table);
    free(results);
    curve_set_release(&set);
}

static void test_the_recommendation_heeds_the_target(void **state)
{
    (void)state;
    struct curve_set set = {0};
    fill(&set);
    struct stabilise_result *results = judge(&set);
    static const struct costtab_point points[] = {
        {64, 60000}, {128, 30000}, {256, 17000}, {512, 8000}};
    struct costtab_options options = {
        .prices = prices, .price_count = 2, .points = points, .point_count = BATCHES};
    static const struct {
        double target;
        double batch;
    } cases[] = {{80, 512}, {91, 256}, {91.5, 128}};
    struct costtab table;
    for (size_t i = 0; i < 3; i++) {
        options.has_target = true;
        options.target = cases[i].target;
        assert_int_equal(costtab_make(&set, results, &options, &table, NULL), ERR_OK);
        assert_true(table.cheapest >= 0);
        assert_true(table.rows[table.cheapest].batch == cases[i].batch);
        assert_string_equal(table.rows[table.cheapest].type, "p3.2xlarge");
        assert_true(table.rows[table.fastest].batch == cases[i].batch);
        assert_true(table.rows[table.best].batch == cases[i].batch);
        costtab_release(&table);
    }
    options.target = 99;
    assert_int_equal(costtab_make(&set, results, &options, &table, NULL), ERR_OK);
    assert_int_equal(table.cheapest, -1);
    assert_int_equal(table.best, -1);
    assert_string_equal(table.rows[table.baseline].type, "p3.2xlarge"); /* 1.51 is the dearest */
    costtab_release(&table);
    free(results);
    curve_set_release(&set);
}

static void test_what_cannot_be_priced_is_said(void **state)
{
    (void)state;
    struct curve_set set = {0};
    fill(&set);
    struct stabilise_result *results = judge(&set);
    struct costtab_options options = {.prices = prices, .price_count = 1};
    struct costtab table;
    struct err err;
    assert_int_equal(costtab_make(&set, results, &options, &table, &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "no price for type 'p3.2xlarge'");
    options.price_count = 2;
    options.baseline_type = "p4d";
    assert_int_equal(costtab_make(&set, results, &options, &table, &err), ERR_NOT_FOUND);
    options.baseline_type = NULL;
    set.runs[2].has_time = false;
    assert_int_equal(costtab_make(&set, results, &options, &table, &err), ERR_INVALID);
    set.runs[2].has_time = true;
    for (size_t i = 0; i < set.count; i++) {
        results[i].verdict = STABILISE_MOVING;
    }
    assert_int_equal(costtab_make(&set, results, &options, &table, &err), ERR_INVALID);
    free(results);
    curve_set_release(&set);
}

static void test_runs_that_end_before_the_point_are_left_out_and_counted(void **state)
{
    (void)state;
    struct curve_set set = {0};
    fill(&set);
    struct stabilise_result *results = judge(&set);
    set.runs[0].count /= 2;
    struct costtab_options options = {.prices = prices, .price_count = 2};
    struct costtab table;
    assert_int_equal(costtab_make(&set, results, &options, &table, NULL), ERR_OK);
    assert_int_equal(table.rows[0].runs, 2);
    assert_int_equal(table.rows[0].runs_short, 1);
    costtab_release(&table);
    free(results);
    curve_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_paper_s_table_comes_out_of_its_runs),
        cmocka_unit_test(test_the_recommendation_heeds_the_target),
        cmocka_unit_test(test_what_cannot_be_priced_is_said),
        cmocka_unit_test(test_runs_that_end_before_the_point_are_left_out_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
