#include "search/matrix.h"

#include <math.h>
#include <string.h>

/* Four sums at a time: a single one would wait for each addition. */
double matrix_dot(const double *a, const double *b, size_t count)
{
    double sums[4] = {0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sums[0] += a[i] * b[i];
        sums[1] += a[i + 1] * b[i + 1];
        sums[2] += a[i + 2] * b[i + 2];
        sums[3] += a[i + 3] * b[i + 3];
    }
    double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    for (; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

bool matrix_cholesky(double *matrix, size_t stride, size_t from, size_t count)
{
    for (size_t row = from; row < count; row++) {
        double *at = matrix + row * stride;
        for (size_t column = 0; column < row; column++) {
            const double *other = matrix + column * stride;
            at[column] = (at[column] - matrix_dot(at, other, column)) / other[column];
        }
        double left = at[row] - matrix_dot(at, at, row);
        if (!(left > 0)) {
            return false;
        }
        at[row] = sqrt(left);
    }
    return true;
}

void matrix_forward(const double *factor, size_t stride, size_t count, double *b)
{
    for (size_t row = 0; row < count; row++) {
        const double *at = factor + row * stride;
        b[row] = (b[row] - matrix_dot(at, b, row)) / at[row];
    }
}

/* Row by row from the last: once x[row] is known it is taken out of all before. */
void matrix_backward(const double *factor, size_t stride, size_t count, double *b)
{
    for (size_t row = count; row-- > 0;) {
        const double *at = factor + row * stride;
        double x = b[row] / at[row];
        b[row] = x;
        for (size_t i = 0; i < row; i++) {
            b[i] -= at[i] * x;
        }
    }
}

/* Row `row` of the inverse of L (lower triangle) from those above: 0 = sum of L[row][k] M[k] plus
 * L[row][row] M[row]. Then the inverse is M' M. */
void matrix_inverse(const double *factor, size_t stride, size_t count, double *inverse)
{
    memset(inverse, 0, count * count * sizeof *inverse);
    for (size_t row = 0; row < count; row++) {
        const double *at = factor + row * stride;
        double *out = inverse + row * count;
        for (size_t k = 0; k < row; k++) {
            double weight = at[k];
            const double *above = inverse + k * count;
            for (size_t i = 0; i <= k; i++) {
                out[i] -= weight * above[i];
            }
        }
        double scale = 1 / at[row];
        for (size_t i = 0; i < row; i++) {
            out[i] *= scale;
        }
        out[row] = scale;
    }
    /* M' M in place: row i of the product needs column i of rows i and below, and each row of M is
     * used last by the row of the product with its own number. */
    for (size_t i = 0; i < count; i++) {
        double *out = inverse + i * count;
        double own = out[i];
        for (size_t k = 0; k <= i; k++) {
            out[k] *= own;
        }
        for (size_t row = i + 1; row < count; row++) {
            const double *at = inverse + row * count;
            double weight = at[i];
            for (size_t k = 0; k <= i; k++) {
                out[k] += weight * at[k];
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            inverse[k * count + i] = inverse[i * count + k];
        }
    }
}

static double off_diagonal(const double *matrix, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            sum += matrix[i * count + k] * matrix[i * count + k];
        }
    }
    return sum;
}

struct rotation {
    double c, s;
};

/* The rotation that makes element (p, q) zero. */
static struct rotation rotation_for(const double *matrix, size_t count, size_t p, size_t q)
{
    double apq = matrix[p * count + q];
    double theta = (matrix[q * count + q] - matrix[p * count + p]) / (2 * apq);
    double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1);
    return (struct rotation){c, t * c};
}

static void rotate(double *matrix, size_t count, size_t p, size_t q, double *vectors)
{
    struct rotation by = rotation_for(matrix, count, p, q);
    for (size_t i = 0; i < count; i++) {
        double a = matrix[i * count + p];
        double b = matrix[i * count + q];
        matrix[i * count + p] = by.c * a - by.s * b;
        matrix[i * count + q] = by.s * a + by.c * b;
    }
    for (size_t i = 0; i < count; i++) {
        double a = matrix[p * count + i];
        double b = matrix[q * count + i];
        matrix[p * count + i] = by.c * a - by.s * b;
        matrix[q * count + i] = by.s * a + by.c * b;
        a = vectors[i * count + p];
        b = vectors[i * count + q];
        vectors[i * count + p] = by.c * a - by.s * b;
        vectors[i * count + q] = by.s * a + by.c * b;
    }
}

void matrix_eigen(double *matrix, size_t count, double *values, double *vectors)
{
    enum { SWEEPS_MAX = 30 };
    memset(vectors, 0, count * count * sizeof *vectors);
    double size = 0;
    for (size_t i = 0; i < count; i++) {
        vectors[i * count + i] = 1;
        size += matrix[i * count + i] * matrix[i * count + i];
    }
    for (int sweep = 0; sweep < SWEEPS_MAX && off_diagonal(matrix, count) > 1e-24 * size; sweep++) {
        for (size_t p = 0; p < count; p++) {
            for (size_t q = p + 1; q < count; q++) {
                if (matrix[p * count + q] != 0) {
                    rotate(matrix, count, p, q, vectors);
                }
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = matrix[i * count + i];
    }
}
