#include "advise/costtab.h"

#include "advise/series.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { METRIC_POINTS = 5 };

bool costtab_at_step(const struct curve *run, double step, double *time_s, double *metric)
{
    size_t at = curve_find(run, step);
    if (at == run->count) {
        return false;
    }
    const struct curve_point *after = &run->points[at];
    *time_s = after->time_s;
    if (at > 0 && after->step > step) {
        const struct curve_point *before = after - 1;
        double w = (step - before->step) / (after->step - before->step);
        *time_s = before->time_s + w * (after->time_s - before->time_s);
    }
    size_t end = at + METRIC_POINTS < run->count ? at + METRIC_POINTS : run->count;
    double sum = 0;
    for (size_t i = at; i < end; i++) {
        sum += run->points[i].metric;
    }
    *metric = sum / (double)(end - at);
    return true;
}

static bool same_batch(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b;
}

/* The stabilisation point of a batch size, over all types: NAN if there is none. */
static double batch_point(const struct curve_set *set, const struct stabilise_result *results,
                          const struct costtab_options *options, double batch)
{
    for (size_t i = 0; i < options->point_count; i++) {
        if (same_batch(options->points[i].batch, batch)) {
            return options->points[i].step;
        }
    }
    double *steps = mem_array(set->count, sizeof *steps);
    size_t stable = 0;
    size_t all = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (!same_batch(set->runs[i].batch, batch)) {
            continue;
        }
        all++;
        if (results[i].verdict == STABILISE_STABLE) {
            steps[stable++] = results[i].step;
        }
    }
    double step = 2 * stable > all ? series_median(steps, stable) : NAN;
    free(steps);
    return step;
}

static struct costtab_mean mean_of(const double *values, size_t count)
{
    struct costtab_mean out = {0};
    for (size_t i = 0; i < count; i++) {
        out.mean += values[i] / (double)count;
    }
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - out.mean) * (values[i] - out.mean);
    }
    out.deviation = count > 1 ? sqrt(squares / (double)(count - 1)) : 0;
    return out;
}

static const struct costtab_price *find_price(const struct costtab_options *options,
                                              const char *type)
{
    for (size_t i = 0; i < options->price_count; i++) {
        if (strcmp(options->prices[i].type, type) == 0) {
            return &options->prices[i];
        }
    }
    return NULL;
}

static double bill(const struct costtab_price *price, double time_s)
{
    double seconds = ceil(time_s);
    int64_t whole_s = seconds < 1e15 ? (int64_t)seconds : (int64_t)1e15;
    return money_units(money_bill(price->price_hour_micro, &price->billing, 1, whole_s));
}

static void add_row(const struct curve_set *set, size_t first, size_t end,
                    const struct costtab_price *price, struct costtab_row *row)
{
    double *times = mem_array(end - first, sizeof *times);
    double *metrics = mem_array(end - first, sizeof *metrics);
    double *costs = mem_array(end - first, sizeof *costs);
    for (size_t i = first; i < end; i++) {
        size_t at = row->runs;
        if (costtab_at_step(&set->runs[i], row->step, &times[at], &metrics[at])) {
            costs[at] = bill(price, times[at]);
            row->runs++;
        } else {
            row->runs_short++;
        }
    }
    row->time_s = mean_of(times, row->runs);
    row->metric = mean_of(metrics, row->runs);
    row->cost = mean_of(costs, row->runs);
    row->cost_micro = money_of_units(row->cost.mean);
    free(times);
    free(metrics);
    free(costs);
}

static enum err_code check_group(const struct curve_set *set, size_t first, size_t end,
                                 const struct costtab_price *price, struct err *err)
{
    const struct curve *run = &set->runs[first];
    if (!price) {
        return err_set(err, ERR_NOT_FOUND, "no price for type '%s'", run->type);
    }
    for (size_t i = first; i < end; i++) {
        if (!set->runs[i].has_time) {
            return err_set(err, ERR_INVALID, "run '%s': its points need times that never go back",
                           set->runs[i].run);
        }
    }
    return ERR_OK;
}

static enum err_code add_rows(const struct curve_set *set, const struct stabilise_result *results,
                              const struct costtab_options *options, struct costtab *table,
                              struct err *err)
{
    for (size_t first = 0; first < set->count;) {
        size_t end = curve_set_group_end(set, first);
        const struct curve *run = &set->runs[first];
        const struct costtab_price *price = find_price(options, run->type);
        enum err_code code = check_group(set, first, end, price, err);
        if (code != ERR_OK) {
            return code;
        }
        struct costtab_row row = {.type = run->type,
                                  .batch = run->batch,
                                  .step = batch_point(set, results, options, run->batch),
                                  .speedup = NAN,
                                  .saving = NAN};
        if (isnan(row.step)) {
            table->unstable_batches++;
        } else {
            add_row(set, first, end, price, &row);
        }
        if (row.runs > 0) {
            VEC_PUSH(table->rows, table->count, table->cap) = row;
        }
        first = end;
    }
    return table->count > 0 ? ERR_OK
                            : err_set(err, ERR_INVALID,
                                      "no batch size has become stable, so there is nothing to "
                                      "price (give the points if you know them)");
}

static int compare_rows(const void *left, const void *right)
{
    const struct costtab_row *a = left;
    const struct costtab_row *b = right;
    double batch_a = isnan(a->batch) ? -1 : a->batch;
    double batch_b = isnan(b->batch) ? -1 : b->batch;
    int by_batch = (batch_a > batch_b) - (batch_a < batch_b);
    return by_batch != 0 ? by_batch : strcmp(a->type, b->type);
}

/* No other row is as good in both and better in one. */
static bool is_on_front(const struct costtab *table, size_t index)
{
    const struct costtab_row *row = &table->rows[index];
    for (size_t i = 0; i < table->count; i++) {
        const struct costtab_row *other = &table->rows[i];
        bool as_good = other->cost.mean <= row->cost.mean && other->time_s.mean <= row->time_s.mean;
        bool better = other->cost.mean < row->cost.mean || other->time_s.mean < row->time_s.mean;
        if (as_good && better) {
            return false;
        }
    }
    return true;
}

static double cost_times_time(const struct costtab_row *row)
{
    return row->cost.mean * row->time_s.mean;
}

static void recommend(struct costtab *table, const struct costtab_options *options)
{
    table->cheapest = table->fastest = table->best = -1;
    for (size_t i = 0; i < table->count; i++) {
        struct costtab_row *row = &table->rows[i];
        row->on_front = is_on_front(table, i);
        row->meets_target = !options->has_target || (options->goal == STABILISE_MAXIMIZE
                                                         ? row->metric.mean >= options->target
                                                         : row->metric.mean <= options->target);
        if (!row->meets_target) {
            continue;
        }
        const struct costtab_row *rows = table->rows;
        if (table->cheapest < 0 || row->cost.mean < rows[table->cheapest].cost.mean) {
            table->cheapest = (int)i;
        }
        if (table->fastest < 0 || row->time_s.mean < rows[table->fastest].time_s.mean) {
            table->fastest = (int)i;
        }
        if (table->best < 0 || cost_times_time(row) < cost_times_time(&rows[table->best])) {
            table->best = (int)i;
        }
    }
}

/* The baseline type's cheapest row; without a type, that of the dearest row. */
static enum err_code pick_baseline(struct costtab *table, const struct costtab_options *options,
                                   struct err *err)
{
    const struct costtab_row *rows = table->rows;
    size_t dearest = 0;
    for (size_t i = 1; i < table->count; i++) {
        dearest = rows[i].cost.mean > rows[dearest].cost.mean ? i : dearest;
    }
    const char *type = options->baseline_type ? options->baseline_type : rows[dearest].type;
    table->baseline = -1;
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(rows[i].type, type) == 0 &&
            (table->baseline < 0 || rows[i].cost.mean < rows[table->baseline].cost.mean)) {
            table->baseline = (int)i;
        }
    }
    return table->baseline >= 0 ? ERR_OK : err_set(err, ERR_NOT_FOUND, "no row of type '%s'", type);
}

static void compare_with_baseline(struct costtab *table)
{
    const struct costtab_row *baseline = &table->rows[table->baseline];
    for (size_t i = 0; i < table->count; i++) {
        struct costtab_row *row = &table->rows[i];
        row->saving = baseline->cost.mean > 0 ? 1 - row->cost.mean / baseline->cost.mean : NAN;
        for (size_t k = 0; k < table->count; k++) {
            const struct costtab_row *other = &table->rows[k];
            if (strcmp(other->type, baseline->type) == 0 && same_batch(other->batch, row->batch) &&
                row->time_s.mean > 0) {
                row->speedup = other->time_s.mean / row->time_s.mean;
            }
        }
    }
}

enum err_code costtab_make(const struct curve_set *set, const struct stabilise_result *results,
                           const struct costtab_options *options, struct costtab *out,
                           struct err *err)
{
    struct costtab table = {0};
    enum err_code code = add_rows(set, results, options, &table, err);
    if (code == ERR_OK) {
        CHECK(table.rows);
        qsort(table.rows, table.count, sizeof *table.rows, compare_rows);
        code = pick_baseline(&table, options, err);
    }
    if (code != ERR_OK) {
        costtab_release(&table);
        return code;
    }
    recommend(&table, options);
    compare_with_baseline(&table);
    *out = table;
    return ERR_OK;
}

void costtab_release(struct costtab *table)
{
    if (table) {
        free(table->rows);
        *table = (struct costtab){0};
    }
}
