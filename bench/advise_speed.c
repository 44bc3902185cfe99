#include "bench/advise_speed.h"

#include "advise/model.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES_MAX = 64, KNOWN = 3 };

struct series {
    bool async;
    double batch;
    size_t count;
    double workers[SIZES_MAX];
    double steps[SIZES_MAX]; /* a second */
};

static const char *text(const struct csv *csv, size_t row, const char *column)
{
    return csv_text(csv, row, (size_t)csv_find_column(csv, column));
}

static double number(const struct csv *csv, size_t row, const char *column)
{
    double value = 0;
    enum err_code code = csv_number(csv, row, (size_t)csv_find_column(csv, column), &value, NULL);
    return code == ERR_OK ? value : 0;
}

static bool same_series(const struct csv *csv, size_t a, size_t b)
{
    static const char *const columns[] = {"batch_size", "learning_rate", "synchronism",
                                          "vm_flavor"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (strcmp(text(csv, a, columns[i]), text(csv, b, columns[i])) != 0) {
            return false;
        }
    }
    return true;
}

static void insert(struct series *series, double workers, double steps)
{
    size_t at = series->count;
    if (at == SIZES_MAX || !(workers > 0) || !(steps > 0)) {
        return;
    }
    while (at > 0 && series->workers[at - 1] > workers) {
        series->workers[at] = series->workers[at - 1];
        series->steps[at] = series->steps[at - 1];
        at--;
    }
    series->workers[at] = workers;
    series->steps[at] = steps;
    series->count++;
}

static double *push(double **items, size_t count, size_t cap)
{
    *items = mem_resize(*items, cap, sizeof **items);
    return *items + count;
}

static void foretell(struct speed_errors *errors, const struct series *series)
{
    struct profile_run runs[KNOWN];
    struct profile profile = {.runs = runs, .count = KNOWN};
    enum profile_mode mode = series->async ? PROFILE_ASYNC : PROFILE_SYNC;
    for (size_t i = 0; i < KNOWN; i++) {
        runs[i] = (struct profile_run){.type = "x",
                                       .workers = (uint32_t)series->workers[i],
                                       .servers = 1,
                                       .batch = series->batch,
                                       .steps_per_s = series->steps[i],
                                       .mode = mode};
    }
    struct model model;
    if (model_fit(&profile, "x", mode, 0, &model, NULL) != ERR_OK) {
        return;
    }
    for (size_t i = KNOWN; i < series->count; i++) {
        int kind = series->async;
        size_t at = errors->count[kind]++;
        struct model_setting setting = {.workers = (uint32_t)series->workers[i], .servers = 1};
        double truth = series->steps[i];
        double ours = model_predict(&model, &setting).steps_per_s;
        double linear = series->steps[0] / series->workers[0] * series->workers[i];
        *push(&errors->ours[kind], at, at + 1) = fabs(ours / truth - 1);
        *push(&errors->last[kind], at, at + 1) = fabs(series->steps[KNOWN - 1] / truth - 1);
        *push(&errors->linear[kind], at, at + 1) = fabs(linear / truth - 1);
    }
}

bool speed_add(struct speed_errors *errors, const struct csv *csv)
{
    static const char *const columns[] = {"n_workers",       "batch_size", "learning_rate",
                                          "synchronism",     "vm_flavor",  "training_time",
                                          "total_iterations"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (csv_find_column(csv, columns[i]) < 0) {
            return false;
        }
    }
    bool *done = mem_array(csv_row_count(csv), sizeof *done);
    for (size_t a = 0; a < csv_row_count(csv); a++) {
        struct series series = {.async = strcmp(text(csv, a, "synchronism"), "async") == 0,
                                .batch = number(csv, a, "batch_size")};
        for (size_t b = a; !done[a] && b < csv_row_count(csv); b++) {
            if (same_series(csv, a, b)) {
                done[b] = b > a;
                insert(&series, number(csv, b, "n_workers"),
                       number(csv, b, "total_iterations") / number(csv, b, "training_time"));
            }
        }
        if (series.count > KNOWN) {
            foretell(errors, &series);
        }
    }
    free(done);
    return true;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(const double *values, size_t count)
{
    double *sorted = mem_dup(values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    double middle = sorted[count / 2];
    free(sorted);
    return 100 * middle;
}

int speed_report(struct speed_errors *errors)
{
    static const char *const names[] = {"sync", "async"};
    int missed = 0;
    for (size_t kind = 0; kind < 2; kind++) {
        size_t count = errors->count[kind];
        if (count == 0) {
            continue;
        }
        double ours = median(errors->ours[kind], count);
        double last = median(errors->last[kind], count);
        printf("throughput, %s: median error of %zu predictions: ours %.1f %%, last value again "
               "%.1f %%, linear %.0f %%\n",
               names[kind], count, ours, last, median(errors->linear[kind], count));
        printf("bench advise-throughput-%s ours %.1f %%, limit 12 %%, ratio %.3f, target <=1, %s\n",
               names[kind], ours, ours / 12, ours <= 12 ? "pass" : "short");
        missed += ours > 12;
    }
    for (size_t kind = 0; kind < 2; kind++) {
        free(errors->ours[kind]);
        free(errors->last[kind]);
        free(errors->linear[kind]);
    }
    return missed;
}
