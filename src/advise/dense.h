/* dense.h - the little linear algebra we need, for matrices of tens to hundreds of rows.
 *
 * Matrices are square, row by row, n * n doubles. Only + - * / and sqrt, so the same bits on every
 * machine. Pure; the caller owns all memory.
 */
#ifndef ADVISE_DENSE_H
#define ADVISE_DENSE_H

#include <stdbool.h>
#include <stddef.h>

/* Replaces the lower triangle of a symmetric positive definite matrix by its Cholesky factor (the
 * upper one is left alone). false: it is not positive definite; the matrix is then spoilt. */
bool dense_cholesky(double *matrix, size_t n);

/* Solves L x = b and L' x = b in place, with the factor from above. */
void dense_solve_lower(const double *factor, size_t n, double *b);
void dense_solve_upper(const double *factor, size_t n, double *b);

/* Both: (L L') x = b. */
void dense_solve(const double *factor, size_t n, double *b);

/* 2 * sum of log of the diagonal: log of the determinant of the matrix that was factored. */
double dense_log_det(const double *factor, size_t n);

double dense_dot(const double *a, const double *b, size_t n);

/* Non-negative least squares (Lawson and Hanson's active set): the x >= 0 that makes
 * |rows * x - y| smallest. rows is row_count * column_count, at most DENSE_NNLS_MAX columns. A
 * column that the rows cannot tell apart from others stays 0. */
enum { DENSE_NNLS_MAX = 16 };
void dense_nnls(const double *rows, const double *y, size_t row_count, size_t column_count,
                double *x);

#endif
