#include "search/matrix.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { N = 9 };

/* A random symmetric positive definite matrix: A A' + I. */
static void fill(struct rng *rng, double *matrix)
{
    double a[N * N];
    for (size_t i = 0; i < (size_t)N * N; i++) {
        a[i] = rng_unit(rng) - 0.5;
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < N; k++) {
            matrix[i * N + k] = matrix_dot(a + i * N, a + k * N, N) + (i == k);
        }
    }
}

static void test_factor_times_itself_is_the_matrix(void **state)
{
    (void)state;
    struct rng rng = {1};
    double matrix[N * N];
    double factor[N * N];
    fill(&rng, matrix);
    memcpy(factor, matrix, sizeof factor);
    assert_true(matrix_cholesky(factor, N, 0, N));
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k <= i; k++) {
            double product = matrix_dot(factor + i * N, factor + k * N, k + 1);
            assert_true(fabs(product - matrix[i * N + k]) < 1e-13);
        }
    }
}

static void test_factor_grown_row_by_row_has_the_same_bits(void **state)
{
    (void)state;
    struct rng rng = {2};
    double at_once[N * N];
    double grown[N * N];
    fill(&rng, at_once);
    memcpy(grown, at_once, sizeof grown);
    assert_true(matrix_cholesky(at_once, N, 0, N));
    for (size_t row = 0; row < N; row++) {
        assert_true(matrix_cholesky(grown, N, row, row + 1));
    }
    assert_memory_equal(at_once, grown, sizeof grown);
}

static void test_what_is_not_positive_definite_is_refused(void **state)
{
    (void)state;
    double matrix[4] = {1, 2, 2, 1};
    assert_false(matrix_cholesky(matrix, 2, 0, 2));
    double broken[1] = {NAN};
    assert_false(matrix_cholesky(broken, 1, 0, 1));
}

static void test_solving_and_inverse_agree_with_the_matrix(void **state)
{
    (void)state;
    struct rng rng = {3};
    double matrix[N * N];
    double factor[N * N];
    double inverse[N * N];
    double b[N];
    fill(&rng, matrix);
    memcpy(factor, matrix, sizeof factor);
    assert_true(matrix_cholesky(factor, N, 0, N));
    matrix_inverse(factor, N, N, inverse);
    for (size_t column = 0; column < N; column++) {
        for (size_t i = 0; i < N; i++) {
            b[i] = i == column;
        }
        matrix_forward(factor, N, N, b);
        matrix_backward(factor, N, N, b);
        for (size_t i = 0; i < N; i++) {
            assert_true(fabs(b[i] - inverse[i * N + column]) < 1e-12);
            double one = matrix_dot(matrix + i * N, b, N);
            assert_true(fabs(one - (i == column)) < 1e-12);
        }
    }
}

static void test_eigenvectors_rebuild_the_matrix(void **state)
{
    (void)state;
    struct rng rng = {4};
    double matrix[N * N];
    double copy[N * N];
    double values[N];
    double vectors[N * N];
    fill(&rng, matrix);
    memcpy(copy, matrix, sizeof copy);
    matrix_eigen(copy, N, values, vectors);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < N; k++) {
            double sum = 0;
            for (size_t j = 0; j < N; j++) {
                sum += vectors[i * N + j] * values[j] * vectors[k * N + j];
            }
            assert_true(fabs(sum - matrix[i * N + k]) < 1e-11);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factor_times_itself_is_the_matrix),
        cmocka_unit_test(test_factor_grown_row_by_row_has_the_same_bits),
        cmocka_unit_test(test_what_is_not_positive_definite_is_refused),
        cmocka_unit_test(test_solving_and_inverse_agree_with_the_matrix),
        cmocka_unit_test(test_eigenvectors_rebuild_the_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
