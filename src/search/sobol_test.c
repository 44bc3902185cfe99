#include "search/sobol.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

/* Among the first 2^k points each of 2^k equal intervals of each coordinate holds exactly one. */
static void test_points_fill_every_coordinate_evenly(void **state)
{
    (void)state;
    enum { COUNT = 256 };
    struct sobol *sobol = sobol_create(SOBOL_DIMS_MAX);
    for (size_t dim = 0; dim < SOBOL_DIMS_MAX; dim++) {
        bool seen[COUNT] = {0};
        for (uint64_t i = 0; i < COUNT; i++) {
            double x = sobol_at(sobol, 7, i, dim);
            assert_true(x >= 0 && x < 1);
            size_t cell = (size_t)(x * COUNT);
            assert_false(seen[cell]);
            seen[cell] = true;
        }
    }
    sobol_destroy(sobol);
}

/* The first ten coordinates in pairs: 256 points put 16 into each of 16 squares. */
static void test_points_fill_every_plane_evenly(void **state)
{
    (void)state;
    struct sobol *sobol = sobol_create(10);
    for (size_t a = 0; a < 10; a++) {
        for (size_t b = 0; b < a; b++) {
            int counts[16] = {0};
            for (uint64_t i = 0; i < 256; i++) {
                size_t row = (size_t)(sobol_at(sobol, 3, i, a) * 4);
                size_t column = (size_t)(sobol_at(sobol, 3, i, b) * 4);
                counts[row * 4 + column]++;
            }
            for (size_t i = 0; i < 16; i++) {
                assert_int_equal(counts[i], 16);
            }
        }
    }
    sobol_destroy(sobol);
}

static void test_seeds_give_other_points(void **state)
{
    (void)state;
    struct sobol *sobol = sobol_create(2);
    assert_true(sobol_at(sobol, 1, 5, 0) != sobol_at(sobol, 2, 5, 0));
    assert_true(sobol_at(sobol, 1, 5, 0) == sobol_at(sobol, 1, 5, 0));
    sobol_destroy(sobol);
    sobol_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points_fill_every_coordinate_evenly),
        cmocka_unit_test(test_points_fill_every_plane_evenly),
        cmocka_unit_test(test_seeds_give_other_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
