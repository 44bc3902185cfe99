#include "search/pareto.h"

#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const bool mixed[] = {true, false};

static void test_the_front_keeps_what_nothing_beats(void **state)
{
    (void)state;
    struct pareto *pareto = pareto_create(mixed, 2, 0); /* accuracy up, time down */
    assert_int_equal(pareto_add(pareto, 0, (double[]){0.8, 10}), PARETO_MOVED);
    assert_int_equal(pareto_add(pareto, 1, (double[]){0.7, 12}), PARETO_DOMINATED);
    assert_int_equal(pareto_add(pareto, 2, (double[]){0.9, 20}), PARETO_MOVED);
    assert_int_equal(pareto_add(pareto, 3, (double[]){0.8, 10}), PARETO_EQUAL);
    assert_int_equal(pareto_add(pareto, 4, (double[]){(double)NAN, 1}), PARETO_FAILED);
    assert_int_equal(pareto_add(pareto, 5, (double[]){0.99, -(double)INFINITY}), PARETO_FAILED);
    assert_int_equal(pareto_count(pareto), 3);
    assert_int_equal(pareto_at(pareto, 0).trial, 2);
    assert_int_equal(pareto_at(pareto, 1).trial, 0);
    assert_int_equal(pareto_at(pareto, 2).trial, 3);
    assert_true(pareto_at(pareto, 0).values[0] == 0.9 && pareto_at(pareto, 0).values[1] == 20);
    assert_int_equal(pareto_add(pareto, 6, (double[]){0.9, 9}), PARETO_MOVED);
    assert_int_equal(pareto_count(pareto), 1);
    pareto_destroy(pareto);
}

static void test_the_volume_is_measured_from_the_stated_reference(void **state)
{
    (void)state;
    struct pareto *pareto = pareto_create(mixed, 2, 0);
    double reference[2];
    assert_false(pareto_reference(pareto, reference));
    assert_true(pareto_hypervolume(pareto, (double[]){0, 10}) == 0);
    pareto_add(pareto, 0, (double[]){3, 2});
    pareto_add(pareto, 1, (double[]){5, 6});
    pareto_add(pareto, 2, (double[]){1, 12});
    assert_true(pareto_reference(pareto, reference));
    assert_true(fabs(reference[0] - 0.6) < 1e-12 && fabs(reference[1] - 13) < 1e-12);
    assert_true(pareto_hypervolume(pareto, (double[]){0, 10}) == 3 * 8 + 2 * 4);
    assert_true(pareto_hypervolume(pareto, (double[]){4, 10}) == 4);
    assert_true(pareto_hypervolume(pareto, (double[]){9, 10}) == 0);
    pareto_destroy(pareto);
}

static void test_a_full_front_takes_no_more(void **state)
{
    (void)state;
    struct pareto *pareto = pareto_create(mixed, 2, 2);
    assert_int_equal(pareto_add(pareto, 0, (double[]){1, 1}), PARETO_MOVED);
    assert_int_equal(pareto_add(pareto, 1, (double[]){2, 2}), PARETO_MOVED);
    assert_int_equal(pareto_add(pareto, 2, (double[]){3, 3}), PARETO_FULL);
    assert_int_equal(pareto_add(pareto, 3, (double[]){3, 1}), PARETO_MOVED); /* beats both */
    assert_int_equal(pareto_count(pareto), 1);
    pareto_destroy(pareto);
}

enum { POINTS = 60, SIDE = 8 };

static bool dominates(const bool *maximize, const double *a, const double *b, size_t goals)
{
    bool better = false;
    for (size_t g = 0; g < goals; g++) {
        double d = maximize[g] ? a[g] - b[g] : b[g] - a[g];
        if (d < 0) {
            return false;
        }
        better = better || d > 0;
    }
    return better;
}

/* Unit cells of the cube that some point is at least as good as. */
static double count_cells(const bool *maximize, double points[][PARETO_GOALS_MAX], size_t count,
                          size_t goals)
{
    size_t cells = 1;
    for (size_t g = 0; g < goals; g++) {
        cells *= SIDE;
    }
    double found = 0;
    for (size_t cell = 0; cell < cells; cell++) {
        bool covered = false;
        for (size_t i = 0; i < count && !covered; i++) {
            size_t rest = cell;
            covered = true;
            for (size_t g = 0; g < goals; g++, rest /= SIDE) {
                double low = (double)(rest % SIDE);
                covered = covered && (maximize[g] ? points[i][g] >= low + 1 : points[i][g] <= low);
            }
        }
        found += covered;
    }
    return found;
}

static void run_against_model(uint64_t seed)
{
    struct rng rng = {.state = seed};
    size_t goals = 1 + (size_t)rng_below(&rng, 4);
    bool maximize[PARETO_GOALS_MAX];
    double reference[PARETO_GOALS_MAX];
    for (size_t g = 0; g < goals; g++) {
        maximize[g] = rng_below(&rng, 2);
        reference[g] = maximize[g] ? 0 : SIDE;
    }
    struct pareto *pareto = pareto_create(maximize, goals, 0);
    double points[POINTS][PARETO_GOALS_MAX] = {0};
    size_t count = 1 + (size_t)rng_below(&rng, POINTS);
    for (size_t i = 0; i < count; i++) {
        for (size_t g = 0; g < goals; g++) {
            points[i][g] = (double)rng_below(&rng, SIDE + 1);
        }
        pareto_add(pareto, i, points[i]);
    }
    size_t expected = 0;
    for (size_t i = 0; i < count; i++) {
        bool beaten = false;
        for (size_t k = 0; k < count; k++) {
            beaten = beaten || dominates(maximize, points[k], points[i], goals);
        }
        bool found = false;
        for (size_t f = 0; f < pareto_count(pareto); f++) {
            found = found || pareto_at(pareto, f).trial == i;
        }
        assert_true(found == !beaten);
        expected += !beaten;
    }
    assert_int_equal(pareto_count(pareto), expected);
    double volume = pareto_hypervolume(pareto, reference);
    if (goals <= 3) {
        assert_true(volume == count_cells(maximize, points, count, goals));
    } else {
        assert_true(isnan(volume));
    }
    pareto_destroy(pareto);
}

static void test_random_results_match_the_definitions(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        print_message("%" PRIu64 "%c", seed, seed % 30 ? ' ' : '\n');
        run_against_model(seed);
    }
}

static void test_the_order_of_results_does_not_matter(void **state)
{
    (void)state;
    bool down[3] = {false, false, false};
    struct pareto *forth = pareto_create(down, 3, 0);
    struct pareto *back = pareto_create(down, 3, 0);
    struct rng rng = {.state = 3};
    double points[500][3];
    for (size_t i = 0; i < 500; i++) {
        for (size_t g = 0; g < 3; g++) {
            points[i][g] = rng_unit(&rng);
        }
    }
    for (size_t i = 0; i < 500; i++) {
        pareto_add(forth, i, points[i]);
        pareto_add(back, 499 - i, points[499 - i]);
    }
    assert_int_equal(pareto_count(forth), pareto_count(back));
    for (size_t i = 0; i < pareto_count(forth); i++) {
        assert_true(pareto_at(forth, i).trial == pareto_at(back, i).trial);
    }
    double reference[3] = {1, 1, 1};
    assert_true(pareto_hypervolume(forth, reference) == pareto_hypervolume(back, reference));
    pareto_destroy(forth);
    pareto_destroy(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_front_keeps_what_nothing_beats),
        cmocka_unit_test(test_the_volume_is_measured_from_the_stated_reference),
        cmocka_unit_test(test_a_full_front_takes_no_more),
        cmocka_unit_test(test_random_results_match_the_definitions),
        cmocka_unit_test(test_the_order_of_results_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
