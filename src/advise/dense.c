#include "advise/dense.h"

#include "base/check.h"
#include "base/detmath.h"

#include <math.h>
#include <string.h>

double dense_dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

bool dense_cholesky(double *matrix, size_t n)
{
    for (size_t row = 0; row < n; row++) {
        double *at = matrix + row * n;
        for (size_t column = 0; column <= row; column++) {
            const double *other = matrix + column * n;
            double left = at[column] - dense_dot(at, other, column);
            if (column < row) {
                at[column] = left / other[column];
            } else if (left > 0) {
                at[row] = sqrt(left);
            } else {
                return false; /* also for NaN */
            }
        }
    }
    return true;
}

void dense_solve_lower(const double *factor, size_t n, double *b)
{
    for (size_t row = 0; row < n; row++) {
        b[row] = (b[row] - dense_dot(factor + row * n, b, row)) / factor[row * n + row];
    }
}

void dense_solve_upper(const double *factor, size_t n, double *b)
{
    for (size_t row = n; row-- > 0;) {
        double sum = b[row];
        for (size_t i = row + 1; i < n; i++) {
            sum -= factor[i * n + row] * b[i];
        }
        b[row] = sum / factor[row * n + row];
    }
}

void dense_solve(const double *factor, size_t n, double *b)
{
    dense_solve_lower(factor, n, b);
    dense_solve_upper(factor, n, b);
}

double dense_log_det(const double *factor, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += det_log(factor[i * n + i]);
    }
    return 2 * sum;
}

/* ---- non-negative least squares -------------------------------------------------------------- */

struct nnls {
    size_t columns;
    double gram[DENSE_NNLS_MAX * DENSE_NNLS_MAX]; /* rows' rows */
    double right[DENSE_NNLS_MAX];                 /* rows' y */
    bool passive[DENSE_NNLS_MAX];                 /* may be above 0 */
};

/* The unconstrained solution over the passive columns; false if they are not independent. */
static bool solve_passive(const struct nnls *nnls, double *x)
{
    double matrix[DENSE_NNLS_MAX * DENSE_NNLS_MAX];
    double b[DENSE_NNLS_MAX];
    size_t which[DENSE_NNLS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < nnls->columns; i++) {
        if (nnls->passive[i]) {
            which[n++] = i;
        }
    }
    for (size_t i = 0; i < n; i++) {
        b[i] = nnls->right[which[i]];
        for (size_t j = 0; j < n; j++) {
            matrix[i * n + j] = nnls->gram[which[i] * nnls->columns + which[j]];
        }
        matrix[i * n + i] *= 1 + 1e-10;
    }
    if (!dense_cholesky(matrix, n)) {
        return false;
    }
    dense_solve(matrix, n, b);
    memset(x, 0, nnls->columns * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[which[i]] = b[i];
    }
    return true;
}

/* The column whose growth from 0 would help most; columns: none would. */
static size_t find_entering(const struct nnls *nnls, const double *x, const bool *barred)
{
    size_t best = nnls->columns;
    double best_gain = 0;
    for (size_t i = 0; i < nnls->columns; i++) {
        if (nnls->passive[i] || barred[i]) {
            continue;
        }
        double gain = nnls->right[i] - dense_dot(nnls->gram + i * nnls->columns, x, nnls->columns);
        double scale = sqrt(nnls->gram[i * nnls->columns + i]);
        if (scale > 0 && gain / scale > best_gain + 1e-12) {
            best_gain = gain / scale;
            best = i;
        }
    }
    return best;
}

/* Walks from x towards `goal` until a passive column would turn negative, and bars that one. */
static bool step_towards(struct nnls *nnls, double *x, const double *goal)
{
    double step = 1;
    size_t blocking = nnls->columns;
    for (size_t i = 0; i < nnls->columns; i++) {
        if (nnls->passive[i] && goal[i] <= 0) {
            double reach = x[i] > goal[i] ? x[i] / (x[i] - goal[i]) : 0;
            if (reach < step || blocking == nnls->columns) {
                step = reach < step ? reach : step;
                blocking = i;
            }
        }
    }
    for (size_t i = 0; i < nnls->columns; i++) {
        x[i] += step * (goal[i] - x[i]);
        if (nnls->passive[i] && x[i] <= 0) {
            x[i] = 0;
        }
    }
    if (blocking == nnls->columns) {
        return true;
    }
    x[blocking] = 0;
    nnls->passive[blocking] = false;
    return false;
}

void dense_nnls(const double *rows, const double *y, size_t row_count, size_t column_count,
                double *x)
{
    CHECK(column_count <= DENSE_NNLS_MAX);
    struct nnls nnls = {.columns = column_count};
    bool barred[DENSE_NNLS_MAX] = {false};
    for (size_t r = 0; r < row_count; r++) {
        const double *row = rows + r * column_count;
        for (size_t i = 0; i < column_count; i++) {
            nnls.right[i] += row[i] * y[r];
            for (size_t j = 0; j < column_count; j++) {
                nnls.gram[i * column_count + j] += row[i] * row[j];
            }
        }
    }
    memset(x, 0, column_count * sizeof *x);
    /* Each round settles a set of columns that has not been seen before; the bound only guards
     * against rounding that would let two sets alternate. */
    for (size_t round = 0; round < 3 * column_count; round++) {
        size_t entering = find_entering(&nnls, x, barred);
        if (entering == column_count) {
            break;
        }
        nnls.passive[entering] = true;
        double goal[DENSE_NNLS_MAX];
        bool settled = false;
        while (!settled) {
            if (!solve_passive(&nnls, goal)) {
                nnls.passive[entering] = false;
                barred[entering] = true;
                break;
            }
            settled = step_towards(&nnls, x, goal);
        }
    }
}
