#include "search/importance.h"

#include "base/mem.h"
#include "search/importance_bins.h"
#include "search/importance_forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = 32, TREES_MAX = 256, POINTS = 4096 };

struct work {
    const struct importance_table *table;
    const struct importance_options *options;
    struct rng rng;
    uint32_t *trials; /* row to trial */
    double *results;  /* of rows; centred once binned */
    uint8_t *bins;
    struct forest_axis *axes;
    struct forest_data data;
    struct forest_tree *trees;
    size_t tree_count;
    double *gains;     /* by param */
    double mean;       /* of what the forest predicts, over the space */
    double *effects;   /* effects[param * FOREST_BINS_MAX + bin]: mean there, less the mean */
    double *variances; /* by param: of its effects */
};

static void work_release(struct work *work)
{
    for (size_t t = 0; t < work->tree_count; t++) {
        forest_release(&work->trees[t]);
    }
    free(work->trials);
    free(work->results);
    free(work->bins);
    free(work->axes);
    free(work->trees);
    free(work->gains);
    free(work->effects);
    free(work->variances);
}

/* --- rows ------------------------------------------------------------------------------------ */

/* The trials to use, of very many a random choice in their order (selection sampling). */
static void choose_rows(struct work *work)
{
    const struct importance_table *table = work->table;
    size_t left = 0;
    for (size_t t = 0; t < table->trial_count; t++) {
        left += isfinite(table->results[t]) || !work->options->drop_failed;
    }
    size_t wanted = left < IMPORTANCE_ROWS_MAX ? left : IMPORTANCE_ROWS_MAX;
    work->trials = mem_array(wanted, sizeof *work->trials);
    for (size_t t = 0; t < table->trial_count; t++) {
        if (!isfinite(table->results[t]) && work->options->drop_failed) {
            continue;
        }
        if (rng_below(&work->rng, left) < wanted - work->data.rows) {
            work->trials[work->data.rows++] = (uint32_t)t;
        }
        left--;
    }
}

struct ranked {
    double result;
    size_t row;
};

static int by_result(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    if (a->result != b->result) {
        return a->result < b->result ? -1 : 1;
    }
    return (a->row > b->row) - (a->row < b->row);
}

/* Equal results share the middle of their ranks. */
static void to_ranks(double *results, size_t count)
{
    struct ranked *ranked = mem_array(count, sizeof *ranked);
    for (size_t i = 0; i < count; i++) {
        ranked[i] = (struct ranked){.result = results[i], .row = i};
    }
    qsort(ranked, count, sizeof *ranked, by_result);
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && ranked[end].result == ranked[i].result) {
            end++;
        }
        for (size_t k = i; k < end; k++) {
            results[ranked[k].row] = ((double)i + (double)(end - 1)) / 2;
        }
        i = end;
    }
    free(ranked);
}

/* Results with mean 0 and the largest 1, so that sums of squares neither overflow nor vanish;
 * false where all are the same. */
static bool centre(double *results, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(results[i]));
    }
    double mean = 0;
    for (size_t i = 0; i < count; i++) {
        results[i] = largest > 0 ? results[i] / largest : 0;
        mean += results[i] / (double)count;
    }
    double widest = 0;
    for (size_t i = 0; i < count; i++) {
        results[i] -= mean;
        widest = fmax(widest, fabs(results[i]));
    }
    if (widest < 1e-14) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        results[i] /= widest;
    }
    return true;
}

static enum err_code read_results(struct work *work, struct err *err)
{
    const double *results = work->table->results;
    size_t rows = work->data.rows;
    double worst = (double)NAN;
    for (size_t i = 0; i < rows; i++) {
        double result = results[work->trials[i]];
        if (isfinite(result)) { /* fmin and fmax pass over the NaN */
            worst = work->options->maximize ? fmin(worst, result) : fmax(worst, result);
        }
    }
    if (rows < IMPORTANCE_TRIALS_MIN || isnan(worst)) {
        return err_set(err, ERR_INVALID, "importance: %zu usable trials are too few, %d are needed",
                       isnan(worst) ? 0 : rows, IMPORTANCE_TRIALS_MIN);
    }
    work->results = mem_array(rows, sizeof *work->results);
    for (size_t i = 0; i < rows; i++) {
        double result = results[work->trials[i]];
        work->results[i] = isfinite(result) ? result : worst;
    }
    if (work->options->ranks) {
        to_ranks(work->results, rows);
    }
    if (!centre(work->results, rows)) {
        return err_set(err, ERR_INVALID, "importance: every trial has the same result");
    }
    work->data.results = work->results;
    return ERR_OK;
}

static void read_values(struct work *work)
{
    const struct importance_table *table = work->table;
    struct forest_data *data = &work->data;
    double *column = mem_array(data->rows, sizeof *column);
    work->bins = mem_array(data->rows * data->params, 1);
    work->axes = mem_array(data->params, sizeof *work->axes);
    for (size_t p = 0; p < data->params; p++) {
        for (size_t row = 0; row < data->rows; row++) {
            column[row] = table->values[work->trials[row] * table->param_count + p];
        }
        importance_bin(&table->params[p], column, data, p, &work->axes[p], work->bins);
    }
    data->bins = work->bins;
    data->axes = work->axes;
    free(column);
}

/* --- the forest -------------------------------------------------------------------------------*/

/* Grows it; returns its R^2 over the rows that some trees were not shown, by those trees alone. */
static double grow_forest(struct work *work)
{
    size_t rows = work->data.rows;
    double *sums = mem_array(rows, sizeof *sums);
    double *counts = mem_array(rows, sizeof *counts);
    bool *used = mem_array(rows, sizeof *used);
    work->gains = mem_array(work->data.params, sizeof *work->gains);
    work->tree_count = work->options->trees > 0 ? work->options->trees : TREES;
    work->trees = mem_array(work->tree_count, sizeof *work->trees);
    for (size_t t = 0; t < work->tree_count; t++) {
        memset(used, 0, rows * sizeof *used);
        forest_grow(&work->data, &work->rng, used, work->gains, &work->trees[t]);
        for (size_t row = 0; row < rows; row++) {
            if (!used[row]) {
                sums[row] += forest_predict(&work->trees[t], work->bins + row * work->data.params);
                counts[row]++;
            }
        }
    }
    double missed = 0;
    double total = 0;
    for (size_t row = 0; row < rows; row++) {
        if (counts[row] > 0) {
            double off = work->results[row] - sums[row] / counts[row];
            missed += off * off;
            total += work->results[row] * work->results[row];
        }
    }
    free(sums);
    free(counts);
    free(used);
    return total > 0 ? 1 - missed / total : 0;
}

static double weight_of(const struct work *work, size_t param, size_t low, size_t high)
{
    return work->axes[param].sums[high] - work->axes[param].sums[low];
}

/* The part of the space that a leaf has, were params a and b (which may be one) all its own. */
static double leaf_weight(const struct work *work, const struct forest_tree *tree, size_t leaf,
                          size_t a, size_t b)
{
    size_t params = work->data.params;
    const uint8_t *low = tree->low + leaf * params;
    const uint8_t *high = tree->high + leaf * params;
    double own = weight_of(work, a, low[a], high[a]);
    own *= a == b ? 1 : weight_of(work, b, low[b], high[b]);
    if (own > 0 && tree->weights[leaf] > 0) {
        return tree->weights[leaf] / own;
    }
    double weight = 1;
    for (size_t p = 0; p < params; p++) {
        weight *= p == a || p == b ? 1 : weight_of(work, p, low[p], high[p]);
    }
    return weight;
}

/* Mean prediction for each bin of a param: leaves are added at their ends, then summed up. */
static void find_effect(struct work *work, size_t param)
{
    double ends[FOREST_BINS_MAX + 1] = {0};
    size_t params = work->data.params;
    for (size_t t = 0; t < work->tree_count; t++) {
        const struct forest_tree *tree = &work->trees[t];
        for (size_t leaf = 0; leaf < tree->leaf_count; leaf++) {
            double part = tree->values[leaf] * leaf_weight(work, tree, leaf, param, param);
            ends[tree->low[leaf * params + param]] += part;
            ends[tree->high[leaf * params + param]] -= part;
        }
    }
    double *effect = work->effects + param * FOREST_BINS_MAX;
    double sum = 0;
    double mean = 0;
    for (size_t b = 0; b < work->axes[param].bins; b++) {
        sum += ends[b];
        effect[b] = sum / (double)work->tree_count;
        mean += effect[b] * weight_of(work, param, b, b + 1);
    }
    work->mean = mean; /* the same for each param */
    for (size_t b = 0; b < work->axes[param].bins; b++) {
        effect[b] -= mean;
        work->variances[param] += effect[b] * effect[b] * weight_of(work, param, b, b + 1);
    }
}

/* The variance of a pair beyond both alone. `grid` has room for (bins + 1)^2. */
static double find_pair(const struct work *work, size_t a, size_t b, double *grid)
{
    size_t params = work->data.params;
    size_t width = work->axes[b].bins + 1;
    memset(grid, 0, (work->axes[a].bins + 1) * width * sizeof *grid);
    for (size_t t = 0; t < work->tree_count; t++) {
        const struct forest_tree *tree = &work->trees[t];
        for (size_t leaf = 0; leaf < tree->leaf_count; leaf++) {
            const uint8_t *low = tree->low + leaf * params;
            const uint8_t *high = tree->high + leaf * params;
            double part = tree->values[leaf] * leaf_weight(work, tree, leaf, a, b);
            grid[low[a] * width + low[b]] += part;
            grid[low[a] * width + high[b]] -= part;
            grid[high[a] * width + low[b]] -= part;
            grid[high[a] * width + high[b]] += part;
        }
    }
    double variance = 0;
    for (size_t i = 0; i < work->axes[a].bins; i++) {
        double along = 0;
        double weight = weight_of(work, a, i, i + 1);
        for (size_t k = 0; k < work->axes[b].bins; k++) {
            double *cell = &grid[i * width + k];
            along += *cell; /* of this row; the rows above are in the cell above */
            double above = i > 0 ? grid[(i - 1) * width + k] : 0;
            *cell = along + above;
            double effect = *cell / (double)work->tree_count - work->mean -
                            work->effects[a * FOREST_BINS_MAX + i] -
                            work->effects[b * FOREST_BINS_MAX + k];
            variance += effect * effect * weight * weight_of(work, b, k, k + 1);
        }
    }
    return variance;
}

static uint8_t draw_bin(struct work *work, size_t param)
{
    const struct forest_axis *axis = &work->axes[param];
    double u = rng_unit(&work->rng);
    size_t low = 0;
    size_t high = axis->bins - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (axis->sums[middle + 1] <= u) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint8_t)low;
}

/* The variance that main effects leave over, at random points of the space. */
static double find_remainder(struct work *work)
{
    uint8_t bins[IMPORTANCE_PARAMS_MAX];
    double squares = 0;
    for (size_t i = 0; i < POINTS; i++) {
        double additive = work->mean;
        for (size_t p = 0; p < work->data.params; p++) {
            bins[p] = draw_bin(work, p);
            additive += work->effects[p * FOREST_BINS_MAX + bins[p]];
        }
        double sum = 0;
        for (size_t t = 0; t < work->tree_count; t++) {
            sum += forest_predict(&work->trees[t], bins);
        }
        double off = sum / (double)work->tree_count - additive;
        squares += off * off / POINTS;
    }
    return squares;
}

/* --- shares -----------------------------------------------------------------------------------*/

/* The params that trees gain most by, in ascending order; a pair matters only if both are split. */
static size_t choose_paired(const struct work *work, size_t *chosen)
{
    size_t count = 0;
    for (size_t p = 0; p < work->data.params; p++) {
        size_t better = 0;
        for (size_t k = 0; k < work->data.params; k++) {
            better +=
                work->gains[k] > work->gains[p] || (work->gains[k] == work->gains[p] && k < p);
        }
        if (better < IMPORTANCE_PAIRED_MAX && work->gains[p] > 0) {
            chosen[count++] = p;
        }
    }
    return count;
}

static void keep_pair(struct importance *out, struct importance_pair pair)
{
    size_t at = out->pair_count;
    while (at > 0 && out->pairs[at - 1].share < pair.share) {
        at--;
    }
    if (at == IMPORTANCE_PAIRS_MAX) {
        return;
    }
    out->pair_count += out->pair_count < IMPORTANCE_PAIRS_MAX;
    for (size_t i = out->pair_count - 1; i > at; i--) {
        out->pairs[i] = out->pairs[i - 1];
    }
    out->pairs[at] = pair;
}

/* Returns the variance of all pairs looked at. */
static double find_pairs(const struct work *work, struct importance *out)
{
    size_t chosen[IMPORTANCE_PAIRED_MAX];
    size_t count = choose_paired(work, chosen);
    enum { SIDE = FOREST_BINS_MAX + 1 };
    double *grid = mem_array((size_t)SIDE * SIDE, sizeof *grid);
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            double variance = find_pair(work, chosen[i], chosen[k], grid);
            sum += variance;
            keep_pair(out, (struct importance_pair){chosen[i], chosen[k], variance});
        }
    }
    free(grid);
    return sum;
}

static void find_shares(struct work *work, struct importance *out)
{
    size_t params = work->data.params;
    work->effects = mem_array(params * FOREST_BINS_MAX, sizeof *work->effects);
    work->variances = mem_array(params, sizeof *work->variances);
    double alone = 0;
    for (size_t p = 0; p < params; p++) {
        find_effect(work, p);
        alone += work->variances[p];
    }
    double paired = find_pairs(work, out);
    /* the remainder is an estimate, pairs are exact: it cannot be less than them */
    double total = alone + fmax(find_remainder(work), paired);
    double scale = total > 0 ? 1 / total : 0;
    for (size_t p = 0; p < params; p++) {
        out->main[p] = work->variances[p] * scale;
    }
    for (size_t i = 0; i < out->pair_count; i++) {
        out->pairs[i].share *= scale;
    }
    out->rest = total > 0 ? fmax(0, (total - alone - paired) * scale) : 0;
}

enum err_code importance_compute(const struct importance_table *table,
                                 const struct importance_options *options, struct importance *out,
                                 struct err *err)
{
    CHECK(options->trees <= TREES_MAX);
    if (table->param_count < 1 || table->param_count > IMPORTANCE_PARAMS_MAX) {
        return err_set(err, ERR_INVALID, "importance: %zu parameters, not 1 to %d",
                       table->param_count, IMPORTANCE_PARAMS_MAX);
    }
    struct work work = {.table = table, .options = options, .rng = {.state = options->seed}};
    work.data.params = table->param_count;
    choose_rows(&work);
    enum err_code code = read_results(&work, err);
    if (code == ERR_OK) {
        struct importance result = {.used = work.data.rows};
        read_values(&work);
        result.fit = grow_forest(&work);
        find_shares(&work, &result);
        *out = result;
    }
    work_release(&work);
    return code;
}
