#include "search/gp.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { POINTS = 30 };

static const struct search_param params[] = {
    {.name = "x", .kind = SEARCH_UNIFORM, .low = 0, .high = 1},
    {.name = "y", .kind = SEARCH_UNIFORM, .low = 0, .high = 1},
    {.name = "z", .kind = SEARCH_CATEGORICAL, .count = 3},
    {.name = "useless", .kind = SEARCH_UNIFORM, .low = 0, .high = 1},
};

struct fixture {
    struct domain domain;
    double points[POINTS][4];
    const double *rows[POINTS];
    double values[POINTS];
};

static double truth(const double *point)
{
    return sin(5 * point[0]) + point[1] * point[1] + 0.3 * point[2];
}

static void fixture_init(struct fixture *fixture)
{
    struct search_options options = {.params = params, .param_count = 4};
    struct rng rng = {5};
    assert_int_equal(domain_init(&fixture->domain, &options, NULL), ERR_OK);
    for (size_t i = 0; i < POINTS; i++) {
        for (size_t k = 0; k < 4; k++) {
            fixture->points[i][k] = domain_draw(&fixture->domain.dims[k], &rng);
        }
        fixture->rows[i] = fixture->points[i];
        fixture->values[i] = truth(fixture->points[i]);
    }
}

static void fill(struct gp_model *model, const struct fixture *fixture, size_t running)
{
    gp_model_init(model, &fixture->domain, POINTS);
    for (size_t i = 0; i < POINTS - running; i++) {
        gp_model_add(model, fixture->points[i], fixture->values[i]);
    }
    for (size_t i = POINTS - running; i < POINTS; i++) {
        gp_model_add_running(model, fixture->points[i]);
    }
}

static void test_the_model_passes_through_what_it_knows(void **state)
{
    (void)state;
    struct fixture fixture;
    struct gp_model model;
    struct gp_hyper hyper;
    fixture_init(&fixture);
    fill(&model, &fixture, 2);
    gp_hyper_init(&hyper, &fixture.domain);
    assert_true(gp_model_solve(&model, &hyper));
    for (size_t i = 0; i < POINTS; i++) {
        double mean = 0;
        double sd = 0;
        gp_model_predict(&model, fixture.points[i], &mean, &sd);
        assert_true(sd < 0.1); /* running trials as well: nothing is to be learnt there */
        assert_true(i >= POINTS - 2 || fabs(mean - fixture.values[i]) < 0.05);
    }
    gp_model_release(&model);
    domain_release(&fixture.domain);
}

static void test_the_gradient_of_the_gain_is_its_slope(void **state)
{
    (void)state;
    struct fixture fixture;
    struct gp_model model;
    struct gp_hyper hyper;
    struct rng rng = {6};
    fixture_init(&fixture);
    fill(&model, &fixture, 3);
    gp_hyper_init(&hyper, &fixture.domain);
    hyper.log_length[0] = -1;
    hyper.log_noise = -5;
    assert_true(gp_model_solve(&model, &hyper));
    for (int round = 0; round < 50; round++) {
        double point[4];
        double gradient[4];
        for (size_t i = 0; i < 4; i++) {
            point[i] = domain_draw(&fixture.domain.dims[i], &rng);
        }
        (void)gp_model_gain(&model, point, gradient);
        for (size_t i = 0; i < 4; i++) {
            if (fixture.domain.dims[i].nominal) {
                assert_true(gradient[i] == 0);
                continue;
            }
            double at = point[i];
            point[i] = at + 1e-6;
            double above = gp_model_gain(&model, point, NULL);
            point[i] = at - 1e-6;
            double below = gp_model_gain(&model, point, NULL);
            point[i] = at;
            double slope = (above - below) / 2e-6;
            assert_true(fabs(slope - gradient[i]) < 0.01 * fabs(slope) + 0.01);
        }
    }
    gp_model_release(&model);
    domain_release(&fixture.domain);
}

static void test_fitting_foretells_better_and_sees_what_is_useless(void **state)
{
    (void)state;
    struct fixture fixture;
    struct gp_hyper hyper[2];
    double errors[2] = {0};
    fixture_init(&fixture);
    gp_hyper_init(&hyper[0], &fixture.domain);
    hyper[1] = hyper[0];
    gp_fit(&hyper[1], &fixture.domain, fixture.rows, fixture.values, POINTS, 40);
    assert_true(hyper[1].log_length[3] > hyper[1].log_length[0]);
    for (int fitted = 0; fitted < 2; fitted++) {
        struct gp_model model;
        struct rng rng = {7};
        fill(&model, &fixture, 0);
        assert_true(gp_model_solve(&model, &hyper[fitted]));
        for (int i = 0; i < 200; i++) {
            double point[4];
            double mean = 0;
            double sd = 0;
            for (size_t k = 0; k < 4; k++) {
                point[k] = domain_draw(&fixture.domain.dims[k], &rng);
            }
            gp_model_predict(&model, point, &mean, &sd);
            errors[fitted] += (mean - truth(point)) * (mean - truth(point));
        }
        gp_model_release(&model);
    }
    assert_true(errors[1] < errors[0]);
    domain_release(&fixture.domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_model_passes_through_what_it_knows),
        cmocka_unit_test(test_the_gradient_of_the_gain_is_its_slope),
        cmocka_unit_test(test_fitting_foretells_better_and_sees_what_is_useless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
