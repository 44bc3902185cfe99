#include "recipe/dist.h"

#include "base/detmath.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DRAWS = 20000 };

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct lattice lattice_of(const char *text)
{
    struct range range;
    struct lattice lattice;
    size_t at = 0;
    assert_true(range_parse(text, false, &range, &at));
    assert_null(lattice_init(&lattice, &range.low, &range.high, &range.step));
    return lattice;
}

/* The cumulative probability that was meant. */
static double expected(const struct dist *dist, double x)
{
    double from = 0;
    double to = 0;
    switch (dist->shape) {
    case DIST_UNIFORM:
        return (x - dist->low) / (dist->high - dist->low);
    case DIST_LOG:
        return (log(x) - log(dist->low)) / (log(dist->high) - log(dist->low));
    case DIST_NORMAL:
        from = erfc((dist->mean - dist->low) / dist->sd / sqrt(2)) / 2;
        to = erfc((dist->mean - dist->high) / dist->sd / sqrt(2)) / 2;
        return (erfc((dist->mean - x) / dist->sd / sqrt(2)) / 2 - from) / (to - from);
    }
    return 0;
}

/* Kolmogorov and Smirnov's distance stays below what one draw set in a million would exceed. */
static void assert_follows(struct dist dist)
{
    static double draws[DRAWS];
    struct arena scratch = {0};
    assert_null(dist_prepare(&dist));
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct value value = dist_draw(&dist, rng_mix(41, i, 2), &scratch, &draws[i]);
        assert_true(draws[i] >= dist.low && draws[i] <= dist.high);
        assert_true(strtod(value.text, NULL) == draws[i]);
        assert_int_equal(value.kind, VALUE_NUMBER);
    }
    arena_release(&scratch);
    qsort(draws, DRAWS, sizeof draws[0], compare_doubles);
    double worst = 0;
    for (int i = 0; i < DRAWS; i++) {
        double want = expected(&dist, draws[i]);
        worst = fmax(worst, fmax(fabs(want - (double)i / DRAWS), fabs((i + 1.0) / DRAWS - want)));
    }
    assert_true(worst * sqrt(DRAWS) < 2.7);
}

static void test_draws_follow_their_distribution(void **state)
{
    (void)state;
    assert_follows((struct dist){.shape = DIST_UNIFORM, .low = 0.1, .high = 0.3});
    assert_follows((struct dist){.shape = DIST_UNIFORM, .low = -5, .high = 12});
    assert_follows((struct dist){.shape = DIST_LOG, .low = 1e-5, .high = 1e-1});
    assert_follows((struct dist){.shape = DIST_LOG, .low = 3, .high = 4});
    assert_follows((struct dist){.shape = DIST_NORMAL, .low = -3, .high = 3, .mean = 0, .sd = 1});
    assert_follows((struct dist){.shape = DIST_NORMAL, .low = 0.5, .high = 4, .mean = 0, .sd = 1});
    assert_follows(
        (struct dist){.shape = DIST_NORMAL, .low = -9, .high = -1, .mean = 0, .sd = 1.5});
    assert_follows((struct dist){
        .shape = DIST_NORMAL, .low = -INFINITY, .high = INFINITY, .mean = 10, .sd = 3});
}

static void test_a_range_far_out_in_the_tail_still_has_its_shape(void **state)
{
    (void)state;
    struct dist far = {.shape = DIST_NORMAL, .low = 30, .high = 31, .mean = 0, .sd = 1};
    assert_null(dist_prepare(&far));
    struct arena scratch = {0};
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double drawn = 0;
        dist_draw(&far, rng_mix(42, i, 0), &scratch, &drawn);
        assert_true(drawn >= 30 && drawn <= 31);
        sum += drawn - 30;
    }
    arena_release(&scratch);
    assert_true(fabs(sum / DRAWS * 30 - 1) < 0.05); /* nearly exponential with rate 30 */
    struct dist beyond = {.shape = DIST_NORMAL, .low = 60, .high = 61, .mean = 0, .sd = 1};
    assert_non_null(dist_prepare(&beyond));
}

static void test_steps_are_drawn_evenly_and_written_exactly(void **state)
{
    (void)state;
    struct dist dist = {.shape = DIST_UNIFORM, .low = 0, .high = 1, .stepped = true};
    dist.lattice = lattice_of("0..1 step 0.1");
    assert_null(dist_prepare(&dist));
    unsigned cells[11] = {0};
    struct arena scratch = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        double drawn = 0;
        struct value value = dist_draw(&dist, rng_mix(43, i, 0), &scratch, &drawn);
        assert_true(value.size <= 3);
        assert_true(drawn == strtod(value.text, NULL));
        cells[lround(drawn * 10)]++;
    }
    arena_release(&scratch);
    double chi_square = 0;
    for (size_t i = 0; i < 11; i++) {
        chi_square += pow(cells[i] - DRAWS / 11.0, 2) / (DRAWS / 11.0);
    }
    assert_true(chi_square < 40);
}

static void test_steps_of_a_log_range_stay_inside(void **state)
{
    (void)state;
    struct dist dist = {.shape = DIST_LOG, .low = 1, .high = 1000, .stepped = true};
    dist.lattice = lattice_of("1..1000 step 1");
    assert_null(dist_prepare(&dist));
    struct arena scratch = {0};
    unsigned low = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double drawn = 0;
        struct value value = dist_draw(&dist, rng_mix(44, i, 0), &scratch, &drawn);
        assert_int_equal(value.kind, VALUE_INTEGER);
        assert_true(drawn >= 1 && drawn <= 1000 && drawn == floor(drawn));
        low += drawn <= 31;
    }
    arena_release(&scratch);
    assert_true(fabs((double)low / DRAWS - 0.5) < 0.02);
}

static void test_extreme_bits_and_bounds_stay_inside(void **state)
{
    (void)state;
    struct dist dists[] = {
        {.shape = DIST_UNIFORM, .low = -1.7e308, .high = 1.7e308},
        {.shape = DIST_UNIFORM, .low = 0.1, .high = 0.1 + 0x1p-56},
        {.shape = DIST_LOG, .low = 5e-324, .high = 1.7e308},
        {.shape = DIST_NORMAL, .low = 0, .high = 1e-300, .mean = 1, .sd = 1},
        {.shape = DIST_NORMAL, .low = -INFINITY, .high = INFINITY, .mean = 1e300, .sd = 1e300},
    };
    static const uint64_t bits[] = {0, 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX};
    struct arena scratch = {0};
    for (size_t i = 0; i < sizeof dists / sizeof dists[0]; i++) {
        if (dist_prepare(&dists[i])) {
            continue;
        }
        for (size_t j = 0; j < sizeof bits / sizeof bits[0]; j++) {
            double drawn = 0;
            dist_draw(&dists[i], bits[j], &scratch, &drawn);
            assert_true(isfinite(drawn) && drawn >= dists[i].low && drawn <= dists[i].high);
        }
    }
    arena_release(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_follow_their_distribution),
        cmocka_unit_test(test_a_range_far_out_in_the_tail_still_has_its_shape),
        cmocka_unit_test(test_steps_are_drawn_evenly_and_written_exactly),
        cmocka_unit_test(test_steps_of_a_log_range_stay_inside),
        cmocka_unit_test(test_extreme_bits_and_bounds_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
