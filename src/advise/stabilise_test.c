#include "advise/stabilise.h"

#include "advise/series.h"
#include "advise/stabilise_families.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

enum { CURVES = 60, POINTS = 100 };

static const double tolerance = 0.03;
static const double noises[] = {0, 0.01, 0.02, 0.05};

static struct stabilise_result whole(const struct curve_point *points, size_t count)
{
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE};
    struct stabilise_result result;
    stabilise_whole(points, count, &options, &result);
    return result;
}

static void test_the_median_error_on_known_curves_is_below_5_per_cent_of_the_steps(void **state)
{
    (void)state;
    struct rng rng = {.state = 2024};
    print_message("seed %" PRIu64 "\n", rng.state);
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        for (size_t n = 0; n < sizeof noises / sizeof noises[0]; n++) {
            double errors[CURVES];
            for (size_t i = 0; i < CURVES; i++) {
                struct family_curve curve;
                family_draw(family, noises[n], tolerance, &rng, &curve);
                struct stabilise_result result = whole(curve.points, curve.count);
                errors[i] = fabs(result.step - curve.truth) / curve.length;
                family_release(&curve);
            }
            double median = series_median(errors, CURVES);
            print_message(
                "%-12s noise %.0f %%: error of the step, median %.1f %%, 90 %% below %.1f %%\n",
                family_name(family), 100 * noises[n], 100 * median,
                100 * series_quantile(errors, CURVES, 0.9));
            /* noise that lingers at 5 % is the hardest there is: 4 % in long runs */
            assert_true(median <= (family == FAMILY_LINGERING ? 0.08 : 0.05));
        }
    }
}

static void test_online_hardly_ever_stops_early_and_mostly_does_stop(void **state)
{
    (void)state;
    struct rng rng = {.state = 77};
    print_message("seed %" PRIu64 "\n", rng.state);
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE};
    size_t early = 0;
    size_t curves = 0;
    size_t plateaus = 0;
    size_t fired = 0;
    for (enum family family = 0; family < FAMILY_COUNT; family++) {
        for (size_t i = 0; i < CURVES && family != FAMILY_STAIRCASE; i++) {
            struct family_curve curve;
            family_draw(family, noises[i % 4], tolerance, &rng, &curve);
            size_t stop = stabilise_replay(curve.points, curve.count, &options);
            bool has_plateau = curve.truth < 0.5 * curve.length;
            curves++;
            plateaus += has_plateau;
            fired += has_plateau && stop > 0;
            early += stop > 0 && family_left(&curve, stop - 1) > 0.03;
            family_release(&curve);
        }
    }
    print_message("stopped early on %zu of %zu, stopped on %zu of %zu with a plateau\n", early,
                  curves, fired, plateaus);
    assert_true(early * 20 <= curves);
    assert_true(fired * 4 >= plateaus * 3);
}

static void draw_stairs(struct curve_point *points, size_t count, const double *drops,
                        size_t drop_count)
{
    for (size_t i = 0; i < count; i++) {
        double t = (double)i / (double)count;
        double value = 1 - det_exp(-t / 0.02);
        for (size_t d = 0; d < drop_count; d++) {
            value += t > drops[d] ? 0.2 : 0;
        }
        points[i] = (struct curve_point){.step = (double)i, .metric = value};
    }
}

static void test_a_staircase_is_not_stable_before_its_last_drop(void **state)
{
    (void)state;
    static const double drops[] = {0.3, 0.55, 0.8};
    struct curve_point points[POINTS];
    draw_stairs(points, POINTS, drops, 3);
    struct stabilise_result result = whole(points, POINTS);
    assert_int_equal(result.verdict, STABILISE_STABLE);
    assert_true(result.step == 81);
}

static void
test_online_waits_for_a_planned_drop_and_then_for_as_long_as_it_waited_before(void **state)
{
    (void)state;
    static const double drops[] = {0.2, 0.4};
    struct curve_point points[POINTS];
    draw_stairs(points, POINTS, drops, 2);
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE, .not_before_step = 21};
    size_t stop = stabilise_replay(points, POINTS, &options);
    print_message("stopped after %zu points\n", stop);
    assert_true(stop == 0 || points[stop - 1].step > 41 + 20);
}

static void test_a_long_curve_is_judged_as_well_as_a_short_one(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    struct curve_point *points = mem_array(LONG, sizeof *points);
    struct rng rng = {.state = 8};
    for (size_t i = 0; i < LONG; i++) {
        double noise = det_normal_quantile(rng_open_unit_of(rng_next(&rng)));
        points[i] = (struct curve_point){.step = (double)i,
                                         .metric = 1 - det_exp(-(double)i / 20000) + 0.03 * noise};
    }
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE};
    double truth = -det_log(tolerance) * 20000;
    assert_true(fabs(whole(points, LONG).step - truth) < 0.01 * LONG);
    assert_true(fabs(whole(points, LONG).noise - 0.03) < 0.005);
    size_t stop = stabilise_replay(points, LONG, &options);
    assert_true((double)stop > truth && stop < LONG);
    free(points);
}

static void test_the_same_answer_for_minimize_and_maximize_and_any_scale(void **state)
{
    (void)state;
    struct rng rng = {.state = 9};
    for (size_t i = 0; i < 40; i++) {
        struct family_curve curve;
        family_draw((enum family)(i % FAMILY_COUNT), 0.02, tolerance, &rng, &curve);
        struct stabilise_result up = whole(curve.points, curve.count);
        for (size_t k = 0; k < curve.count; k++) {
            curve.points[k].metric *= -1024;
        }
        struct stabilise_options options = {.goal = STABILISE_MINIMIZE};
        struct stabilise_result down;
        stabilise_whole(curve.points, curve.count, &options, &down);
        assert_int_equal(up.verdict, down.verdict);
        assert_int_equal(up.index, down.index);
        family_release(&curve);
    }
}

static struct curve_point *make(size_t count, double (*value)(size_t i))
{
    struct curve_point *points = mem_array(count, sizeof *points);
    for (size_t i = 0; i < count; i++) {
        points[i] = (struct curve_point){.step = (double)i, .metric = value(i)};
    }
    return points;
}

static double rising(size_t i)
{
    return (double)i;
}

static double logarithm(size_t i)
{
    return det_log(1 + (double)i);
}

static double constant(size_t i)
{
    (void)i;
    return 0.1;
}

static double noise_only(size_t i)
{
    return rng_unit_of(rng_mix(1, i, 0));
}

static double getting_worse(size_t i)
{
    return -(double)i;
}

static double huge(size_t i)
{
    return i % 2 ? 1e100 : -1e100;
}

static void test_not_yet_stable_is_said_when_it_is_the_truth(void **state)
{
    (void)state;
    static const struct {
        double (*value)(size_t i);
        enum stabilise_verdict verdict;
    } cases[] = {{rising, STABILISE_MOVING},         {logarithm, STABILISE_MOVING},
                 {constant, STABILISE_NO_GAIN},      {noise_only, STABILISE_NO_GAIN},
                 {getting_worse, STABILISE_NO_GAIN}, {huge, STABILISE_NO_GAIN}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct curve_point *points = make(200, cases[i].value);
        struct stabilise_options options = {.goal = STABILISE_MAXIMIZE};
        assert_int_equal(whole(points, 200).verdict, cases[i].verdict);
        assert_int_equal(stabilise_replay(points, 200, &options), 0);
        free(points);
    }
}

static void test_few_points_are_too_few(void **state)
{
    (void)state;
    struct curve_point *points = make(STABILISE_POINTS_MIN, logarithm);
    struct stabilise_result result;
    for (size_t count = 0; count < STABILISE_POINTS_MIN; count++) {
        assert_int_equal(whole(points, count).verdict, STABILISE_TOO_SHORT);
        stabilise_online(points, count, &(struct stabilise_options){0}, &result);
        assert_int_equal(result.verdict, STABILISE_TOO_SHORT);
    }
    free(points);
}

static struct stabilise_group group_of(const struct curve *runs, size_t count, uint64_t seed)
{
    struct stabilise_options options = {.goal = STABILISE_MAXIMIZE, .seed = seed, .resamples = 100};
    struct stabilise_result *results = mem_array(count, sizeof *results);
    for (size_t i = 0; i < count; i++) {
        stabilise_whole(runs[i].points, runs[i].count, &options, &results[i]);
    }
    struct stabilise_group group;
    stabilise_repeats(runs, results, count, &options, &group);
    free(results);
    return group;
}

static void test_the_interval_covers_the_truth_and_is_the_same_each_time(void **state)
{
    (void)state;
    enum { GROUPS = 40, RUNS = 3 };
    struct rng rng = {.state = 31};
    size_t covered = 0;
    for (size_t g = 0; g < GROUPS; g++) {
        struct family_curve curves[RUNS];
        struct curve runs[RUNS] = {0};
        struct rng same_shape = rng;
        for (size_t r = 0; r < RUNS; r++) {
            struct rng own = same_shape;
            family_draw(FAMILY_EXPONENTIAL, 0, tolerance, &own, &curves[r]);
            struct rng noise = {.state = g * RUNS + r};
            for (size_t i = 0; i < curves[r].count; i++) {
                double range = curves[r].clean[curves[r].count - 1] - curves[r].clean[0];
                curves[r].points[i].metric +=
                    0.03 * range * det_normal_quantile(rng_open_unit_of(rng_next(&noise)));
            }
            runs[r].points = curves[r].points;
            runs[r].count = curves[r].count;
            rng = own;
        }
        struct stabilise_group group = group_of(runs, RUNS, 1);
        struct stabilise_group again = group_of(runs, RUNS, 1);
        assert_memory_equal(&group, &again, sizeof group);
        double slack = curves[0].length / (double)curves[0].count;
        covered += group.verdict == STABILISE_STABLE && group.low_step - slack <= curves[0].truth &&
                   group.high_step + slack >= curves[0].truth;
        for (size_t r = 0; r < RUNS; r++) {
            family_release(&curves[r]);
        }
    }
    print_message("the 90 %% interval covers the truth in %zu of %d\n", covered, GROUPS);
    assert_true(covered >= 3 * (size_t)GROUPS / 4);
}

static void test_random_and_hostile_curves_are_survived(void **state)
{
    (void)state;
    struct rng rng = {.state = 123};
    print_message("seed %" PRIu64 "\n", rng.state);
    static const double extremes[] = {0, -0.0, 1e100, -1e100, 1e-300, 1, 1 + 1e-15, -1e50};
    for (int round = 0; round < 2000; round++) {
        size_t count = (size_t)rng_below(&rng, 40);
        struct curve_point *points = mem_array(count, sizeof *points);
        double step = 0;
        for (size_t i = 0; i < count; i++) {
            step += rng_below(&rng, 4) ? 1 + rng_unit(&rng) : 1e95 * rng_unit(&rng) + 1;
            step = i > 0 && step <= points[i - 1].step ? points[i - 1].step * 1.5 + 1 : step;
            points[i].step = step;
            points[i].metric = rng_below(&rng, 2) ? extremes[rng_below(&rng, 8)] : rng_unit(&rng);
        }
        struct stabilise_options options = {.goal =
                                                round % 2 ? STABILISE_MAXIMIZE : STABILISE_MINIMIZE,
                                            .resamples = round % 50 ? 0 : 20};
        struct curve run = {.points = points, .count = count};
        struct stabilise_result result;
        struct stabilise_group group;
        stabilise_whole(points, count, &options, &result);
        assert_true(count == 0 || result.index < count);
        assert_true(isfinite(result.step) && isfinite(result.level) && isfinite(result.range));
        stabilise_repeats(&run, &result, 1, &options, &group);
        assert_true(stabilise_replay(points, count, &options) <= count);
        free(points);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_median_error_on_known_curves_is_below_5_per_cent_of_the_steps),
        cmocka_unit_test(test_online_hardly_ever_stops_early_and_mostly_does_stop),
        cmocka_unit_test(test_a_staircase_is_not_stable_before_its_last_drop),
        cmocka_unit_test(
            test_online_waits_for_a_planned_drop_and_then_for_as_long_as_it_waited_before),
        cmocka_unit_test(test_a_long_curve_is_judged_as_well_as_a_short_one),
        cmocka_unit_test(test_the_same_answer_for_minimize_and_maximize_and_any_scale),
        cmocka_unit_test(test_not_yet_stable_is_said_when_it_is_the_truth),
        cmocka_unit_test(test_few_points_are_too_few),
        cmocka_unit_test(test_the_interval_covers_the_truth_and_is_the_same_each_time),
        cmocka_unit_test(test_random_and_hostile_curves_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
