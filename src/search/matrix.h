/* matrix.h - the linear algebra of small Gaussian processes and covariance matrices. Internal.
 *
 * Matrices are row by row with a row length (stride) of their own, so that they can grow in place.
 * Only + - * / and sqrt, always in the same order: a factor grown row by row has the same bits as
 * one made at once. Pure; the caller owns all memory.
 */
#ifndef SEARCH_MATRIX_H
#define SEARCH_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

double matrix_dot(const double *a, const double *b, size_t count);

/* Replaces rows [from, count) of the lower triangle of a symmetric positive definite matrix by
 * those of its Cholesky factor, the rows above being factored already. False: not positive
 * definite; those rows are then spoilt. */
bool matrix_cholesky(double *matrix, size_t stride, size_t from, size_t count);

/* Solves L x = b and L' x = b in place. */
void matrix_forward(const double *factor, size_t stride, size_t count, double *b);
void matrix_backward(const double *factor, size_t stride, size_t count, double *b);

/* The inverse of L L' from L, both triangles, into `inverse` (count * count, stride count). */
void matrix_inverse(const double *factor, size_t stride, size_t count, double *inverse);

/* Eigenvalues and eigenvectors (columns) of a symmetric matrix, count * count, by Jacobi's
 * rotations; the matrix is spoilt. */
void matrix_eigen(double *matrix, size_t count, double *values, double *vectors);

#endif
