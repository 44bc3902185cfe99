#include "advise/dense.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_a_random_system_is_solved(void **state)
{
    (void)state;
    struct rng rng = {.state = 5};
    enum { N = 12 };
    double half[N * N];
    double matrix[N * N] = {0};
    double x[N];
    double b[N] = {0};
    for (size_t i = 0; i < sizeof half / sizeof half[0]; i++) {
        half[i] = rng_unit(&rng) - .5;
    }
    for (size_t i = 0; i < N; i++) {
        x[i] = rng_unit(&rng);
        for (size_t j = 0; j < N; j++) {
            matrix[i * N + j] = dense_dot(half + i * N, half + j * N, N) + (i == j);
        }
    }
    for (size_t i = 0; i < N; i++) {
        b[i] = dense_dot(matrix + i * N, x, N);
    }
    assert_true(dense_cholesky(matrix, N));
    dense_solve(matrix, N, b);
    for (size_t i = 0; i < N; i++) {
        assert_true(fabs(b[i] - x[i]) < 1e-10);
    }
    double bad[] = {1, 2, 2, 1};
    assert_false(dense_cholesky(bad, 2));
}

static double squares(const double *rows, const double *y, size_t n, size_t m, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double off = dense_dot(rows + i * m, x, m) - y[i];
        sum += off * off;
    }
    return sum;
}

/* The plainest model: no small step that keeps x >= 0 makes the sum of squares smaller. */
static void test_random_least_squares_are_least_and_not_negative(void **state)
{
    (void)state;
    struct rng rng = {.state = 77};
    printf("seed 77\n");
    for (int round = 0; round < 200; round++) {
        enum { N = 9, M = 4 };
        double rows[N * M];
        double y[N];
        double x[M];
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            rows[i] = rng_unit(&rng) * 2 - (round % 2);
        }
        for (size_t i = 0; i < N; i++) {
            y[i] = rng_unit(&rng) * 4 - 1;
        }
        dense_nnls(rows, y, N, M, x);
        double least = squares(rows, y, N, M, x);
        for (size_t i = 0; i < M; i++) {
            assert_true(x[i] >= 0);
            for (double step = -1e-3; step <= 1e-3; step += 2e-3) {
                double moved[M];
                memcpy(moved, x, sizeof x);
                moved[i] += step;
                assert_true(moved[i] < 0 || squares(rows, y, N, M, moved) >= least - 1e-12);
            }
        }
    }
}

static void test_columns_that_are_alike_or_empty_do_no_harm(void **state)
{
    (void)state;
    double rows[] = {1, 1, 0, 2, 2, 0, 3, 3, 0};
    double y[] = {2, 4, 6};
    double x[3];
    dense_nnls(rows, y, 3, 3, x);
    assert_true(fabs(x[0] + x[1] - 2) < 1e-6);
    assert_true(x[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_random_system_is_solved),
        cmocka_unit_test(test_random_least_squares_are_least_and_not_negative),
        cmocka_unit_test(test_columns_that_are_alike_or_empty_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
