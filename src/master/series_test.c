#include "master/series.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "master/series_block.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAY_MS = 24 * 3600 * 1000, MINUTE_MS = 60 * 1000 };
static const int64_t start_ms = (int64_t)20000 * DAY_MS + 7200000;

static struct rng seeded(void)
{
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return (struct rng){seed};
}

static char *make_folder(char *folder)
{
    snprintf(folder, 64, "/tmp/drover-series-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static void remove_folder(const char *folder)
{
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

/* --- a store against the plainest model ------------------------------------------------------- */

enum { MODEL_SERIES = 6, MODEL_SAMPLES = 5000 };

struct model {
    size_t count;
    struct series_row rows[MODEL_SAMPLES];
};

static Drover__Usage usage_of(const uint64_t *values)
{
    Drover__Usage usage = DROVER__USAGE__INIT;
    usage.cpu_milli = (uint32_t)values[0];
    usage.memory_bytes = values[1];
    usage.disk_read_bytes = values[2];
    usage.disk_write_bytes = values[3];
    usage.net_in_bytes = values[4];
    usage.net_out_bytes = values[5];
    usage.gpu_milli = (uint32_t)values[6];
    usage.gpu_memory_bytes = values[7];
    return usage;
}

static struct series_point point_of(int64_t at_ms, const double *means)
{
    return (struct series_point){(int64_t)at_ms,     (uint32_t)means[0], (uint64_t)means[1],
                                 (uint64_t)means[2], (uint64_t)means[3], (uint64_t)means[4],
                                 (uint64_t)means[5], (uint32_t)means[6], (uint64_t)means[7]};
}

static struct series_who who_of(int index)
{
    if (index % 2 == 0) {
        return (struct series_who){.node = (uint32_t)index};
    }
    return (struct series_who){
        .workflow = 1 + (uint32_t)index % 3, .experiment = 4, .task = (uint64_t)index * 997};
}

/* What should be read: samples of each step, added up one by one. */
static size_t model_read(const struct model *model, const struct series_span *span,
                         struct series_point *out)
{
    size_t count = 0;
    for (size_t i = 0; i < model->count && count < span->max;) {
        int64_t at_ms = model->rows[i].at_ms;
        if (at_ms < span->from_ms || at_ms >= span->to_ms) {
            i++;
            continue;
        }
        int64_t begin_ms = at_ms;
        int64_t end_ms = at_ms + 1;
        if (span->step_ms > 0) {
            begin_ms = span->from_ms + (at_ms - span->from_ms) / span->step_ms * span->step_ms;
            end_ms =
                begin_ms + span->step_ms < span->to_ms ? begin_ms + span->step_ms : span->to_ms;
        }
        double sums[SERIES_COLUMNS] = {0};
        size_t first = i;
        for (; i < model->count && model->rows[i].at_ms < end_ms; i++) {
            for (int j = 0; j < SERIES_COLUMNS; j++) {
                sums[j] += (double)model->rows[i].values[j];
            }
        }
        for (int j = 0; j < SERIES_COLUMNS; j++) {
            sums[j] /= (double)(i - first);
        }
        out[count++] = point_of(begin_ms, sums);
    }
    return count;
}

static void check_read(struct series *series, int index, const struct model *model,
                       const struct series_span *span)
{
    struct series_who who = who_of(index);
    AUTO_FREE struct series_point *want = mem_array(span->max, sizeof *want);
    AUTO_FREE struct series_point *got = mem_array(span->max, sizeof *got);
    size_t want_count = model_read(model, span, want);
    size_t got_count = 0;
    assert_int_equal(series_read(series, &who, span, got, &got_count, NULL), ERR_OK);
    assert_int_equal(got_count, want_count);
    for (size_t i = 0; i < got_count; i++) {
        assert_int_equal(got[i].at_ms, want[i].at_ms);
        assert_int_equal(got[i].cpu_milli, want[i].cpu_milli);
        assert_int_equal(got[i].memory_bytes, want[i].memory_bytes);
        assert_int_equal(got[i].net_out_bytes, want[i].net_out_bytes);
        assert_int_equal(got[i].gpu_milli, want[i].gpu_milli);
        assert_int_equal(got[i].gpu_memory_bytes, want[i].gpu_memory_bytes);
    }
}

static void add_random(struct rng *rng, struct series *series, int index, struct model *model,
                       int64_t now_ms)
{
    struct series_who who = who_of(index);
    uint64_t values[SERIES_COLUMNS];
    for (int j = 0; j < SERIES_COLUMNS; j++) {
        values[j] = rng_below(rng, 2) ? rng_below(rng, 4000) : rng_below(rng, 1u << 30);
    }
    Drover__Usage usage = usage_of(values);
    int64_t at_ms = now_ms - now_ms % 100;
    series_add(series, &who, now_ms, &usage);
    if (model->count > 0 && at_ms <= model->rows[model->count - 1].at_ms) {
        return;
    }
    struct series_row *row = &model->rows[model->count++];
    row->at_ms = at_ms;
    for (int j = 0; j < SERIES_COLUMNS; j++) {
        row->values[j] = series_value(series_code(values[j]));
    }
}

static void check_random_span(struct rng *rng, struct series *series, struct model **models,
                              int64_t now_ms)
{
    int index = (int)rng_below(rng, MODEL_SERIES);
    struct series_span span = {.from_ms = start_ms + (int64_t)rng_below(rng, DAY_MS),
                               .step_ms = (int64_t)rng_below(rng, 3) *
                                          (int64_t)rng_below(rng, (uint64_t)MINUTE_MS * 10),
                               .max = 1 + rng_below(rng, MODEL_SAMPLES)};
    span.to_ms =
        span.from_ms + (int64_t)rng_below(rng, (uint64_t)(now_ms + DAY_MS - span.from_ms) + 1);
    if (span.step_ms > 0 && (span.to_ms - span.from_ms) / span.step_ms > SERIES_POINTS_MAX) {
        span.step_ms = 0;
    }
    check_read(series, index, models[index], &span);
}

static void random_series_read_like_the_model(void **state)
{
    (void)state;
    struct rng rng = seeded();
    char folder[64];
    struct series_options options = {.folder = make_folder(folder), .raw_ms = (int64_t)90 * DAY_MS};
    struct series *series = series_open(&options);
    struct model *models[MODEL_SERIES];
    for (int i = 0; i < MODEL_SERIES; i++) {
        models[i] = mem_alloc(sizeof *models[i]);
        add_random(&rng, series, i, models[i],
                   start_ms); /* two at least, or a task has no series */
        add_random(&rng, series, i, models[i], start_ms + 2000);
    }
    int64_t now_ms = start_ms + 2000;
    for (int step = 0; step < 12000; step++) {
        now_ms += (int64_t)rng_below(&rng, rng_below(&rng, 400) == 0 ? 4000000 : 3000);
        int index = (int)rng_below(&rng, MODEL_SERIES);
        struct series_who who = who_of(index);
        uint64_t what = rng_below(&rng, 1000);
        /* A lone sample of a task that has gone silent is dropped: that is tested elsewhere. */
        if (what < 990 && models[index]->count + 2 < MODEL_SAMPLES) {
            add_random(&rng, series, index, models[index], now_ms);
            add_random(&rng, series, index, models[index], now_ms += 2000);
        } else if (what < 993) {
            series_end(series, &who);
        } else if (what < 996) {
            series_close(series);
            series = series_open(&options);
        } else {
            check_random_span(&rng, series, models, now_ms);
        }
        if (step % 3 == 0) {
            series_tick(series, now_ms);
        }
    }
    for (int i = 0; i < MODEL_SERIES; i++) {
        struct series_span span = {.to_ms = INT64_MAX, .max = MODEL_SAMPLES};
        check_read(series, i, models[i], &span);
        free(models[i]);
    }
    struct series_counts counts;
    series_counts(series, &counts);
    assert_int_equal(counts.lost, 0);
    series_close(series);
    remove_folder(folder);
}

/* --- the rules ------------------------------------------------------------------------------- */

static size_t read_count(struct series *series, const struct series_who *who)
{
    struct series_span span = {.to_ms = INT64_MAX, .max = SERIES_POINTS_MAX};
    AUTO_FREE struct series_point *points = mem_array(span.max, sizeof *points);
    size_t count = 0;
    assert_int_equal(series_read(series, who, &span, points, &count, NULL), ERR_OK);
    return count;
}

static bool is_there(const char *folder, const char *rest)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, rest);
    return access(path, F_OK) == 0;
}

static void add_steady(struct series *series, const struct series_who *who, int64_t at_ms,
                       uint32_t cpu_milli)
{
    Drover__Usage usage = DROVER__USAGE__INIT;
    usage.cpu_milli = cpu_milli;
    usage.memory_bytes = 1 << 30;
    series_add(series, who, at_ms, &usage);
}

static void a_short_task_leaves_nothing(void **state)
{
    (void)state;
    char folder[64];
    struct series *series = series_open(&(struct series_options){.folder = make_folder(folder)});
    struct series_who one = {.workflow = 1, .task = 1};
    struct series_who two = {.workflow = 1, .task = 2};
    add_steady(series, &one, start_ms, 100);
    add_steady(series, &two, start_ms, 100);
    add_steady(series, &two, start_ms + 2000, 100);
    add_steady(series, &two, start_ms + 2000, 100); /* not later: dropped */
    assert_int_equal(read_count(series, &one), 1);
    series_end(series, &one);
    series_end(series, &two);
    series_end(series, &two);
    assert_int_equal(read_count(series, &one), 0);
    assert_int_equal(read_count(series, &two), 2);
    assert_false(is_there(folder, "20000/tasks/1/0/0/1"));
    assert_true(is_there(folder, "20000/tasks/1/0/0/2"));
    struct series_counts counts;
    series_counts(series, &counts);
    assert_int_equal(counts.samples, 4);
    assert_int_equal(counts.dropped, 1);
    assert_int_equal(counts.live, 0);
    series_close(series);
    remove_folder(folder);
}

static void a_sample_takes_about_ten_bytes_and_few_writes(void **state)
{
    (void)state;
    struct rng rng = seeded();
    char folder[64];
    struct series *series = series_open(&(struct series_options){.folder = make_folder(folder)});
    struct series_who who = {.node = 7};
    enum { SAMPLES = 20000 };
    uint64_t memory = (uint64_t)8 << 30;
    for (int i = 0; i < SAMPLES; i++) {
        Drover__Usage usage = DROVER__USAGE__INIT;
        memory += rng_below(&rng, 1 << 20);
        usage.cpu_milli = 3000 + (uint32_t)rng_below(&rng, 900);
        usage.memory_bytes = memory;
        usage.disk_read_bytes = 5000000 + rng_below(&rng, 2000000);
        usage.disk_write_bytes = 800000 + rng_below(&rng, 900000);
        usage.net_in_bytes = 10000 + rng_below(&rng, 20000);
        usage.net_out_bytes = 10000 + rng_below(&rng, 10000);
        usage.gpu_milli = 900 + (uint32_t)rng_below(&rng, 10) * 10;
        usage.gpu_memory_bytes = (uint64_t)12 << 30;
        int64_t at_ms = start_ms + (int64_t)i * 2000 + (int64_t)rng_below(&rng, 50);
        series_add(series, &who, at_ms, &usage);
        series_tick(series, at_ms);
    }
    struct series_counts counts;
    series_end(series, &who);
    series_counts(series, &counts);
    printf("%.1f bytes a sample\n", (double)counts.written_bytes / SAMPLES);
    assert_true(counts.written_bytes < UINT64_C(15) * SAMPLES);
    assert_int_equal(read_count(series, &who), SAMPLES);
    series_close(series);
    remove_folder(folder);
}

static void a_torn_end_is_stepped_over(void **state)
{
    (void)state;
    char folder[64];
    char path[PATH_MAX];
    struct series_options options = {.folder = make_folder(folder)};
    struct series_who who = {.node = 7};
    struct series *series = series_open(&options);
    for (int i = 0; i < 10; i++) {
        add_steady(series, &who, start_ms + (int64_t)i * 2000, 100);
    }
    series_end(series, &who);
    for (int i = 10; i < 20; i++) {
        add_steady(series, &who, start_ms + (int64_t)i * 2000, 100);
    }
    series_close(series);
    snprintf(path, sizeof path, "%s/20000/nodes/7", folder);
    struct stat stat_now;
    assert_int_equal(stat(path, &stat_now), 0);
    assert_int_equal(truncate(path, stat_now.st_size - 3), 0);
    series = series_open(&options);
    assert_int_equal(read_count(series, &who), 10);
    for (int i = 20; i < 30; i++) {
        add_steady(series, &who, start_ms + (int64_t)i * 2000, 100);
    }
    series_end(series, &who);
    assert_int_equal(read_count(series, &who), 20);
    series_close(series);
    remove_folder(folder);
}

static void old_days_are_thinned_to_minutes(void **state)
{
    (void)state;
    char folder[64];
    char path[PATH_MAX];
    struct series_options options = {.folder = make_folder(folder)};
    struct series *series = series_open(&options);
    struct series_who who = {.node = 7};
    struct series_who task = {.workflow = 3, .experiment = 1, .task = 5000};
    for (int i = 0; i < 3000; i++) { /* a hundred minutes, the middle value of each 100 + minute */
        int64_t at_ms = start_ms + (int64_t)i * 2000;
        uint32_t minute = (uint32_t)i / 30;
        add_steady(series, &who, at_ms, 100 + minute + (i % 2 ? 50 : 0) - (i % 2 ? 0 : 50));
        add_steady(series, &task, at_ms, 200);
    }
    series_end(series, &who);
    series_end(series, &task);
    struct stat before;
    struct stat after;
    snprintf(path, sizeof path, "%s/20000/nodes/7", folder);
    assert_int_equal(stat(path, &before), 0);
    snprintf(path, sizeof path, "%s/20000/nodes/9~", folder); /* left from a crash */
    assert_int_equal(io_replace_file(path, "x", 1, 0600, NULL), ERR_OK);

    int64_t now_ms = (int64_t)20002 * DAY_MS - 1000;
    for (int i = 0; i < 20; i++) {
        series_tick(series, now_ms);
    }
    assert_int_equal(read_count(series, &who), 3000); /* its day ended less than a day ago */
    for (int i = 0; i < 50 && !is_there(folder, "20000/thin"); i++) {
        series_tick(series, now_ms + 2000);
    }
    assert_int_equal(read_count(series, &who), 100);
    assert_int_equal(read_count(series, &task), 100);
    assert_false(is_there(folder, "20000/nodes/9~"));
    snprintf(path, sizeof path, "%s/20000/nodes/7", folder);
    assert_int_equal(stat(path, &after), 0);
    assert_true(after.st_size * 10 < before.st_size);

    struct series_span span = {.from_ms = start_ms, .to_ms = INT64_MAX, .max = 100};
    struct series_point points[100];
    size_t count = 0;
    assert_int_equal(series_read(series, &who, &span, points, &count, NULL), ERR_OK);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(points[i].at_ms, start_ms + i * (int64_t)MINUTE_MS);
        assert_int_equal(points[i].cpu_milli, 100 + i);
    }
    series_close(series);
    series = series_open(&options); /* and stay so */
    series_tick(series, now_ms + 3000);
    assert_int_equal(read_count(series, &who), 100);
    series_close(series);
    remove_folder(folder);
}

static void old_days_and_too_many_bytes_go(void **state)
{
    (void)state;
    char folder[64];
    struct series_options options = {.folder = make_folder(folder),
                                     .raw_ms = (int64_t)90 * DAY_MS,
                                     .keep_ms = (int64_t)5 * DAY_MS};
    struct series *series = series_open(&options);
    struct series_who who = {.node = 7};
    for (int i = 0; i < 10; i++) {
        add_steady(series, &who, start_ms + i * (int64_t)DAY_MS, 100);
        add_steady(series, &who, start_ms + i * (int64_t)DAY_MS + 2000, 100);
    }
    series_close(series);
    series = series_open(&options);
    int64_t now_ms = start_ms + (int64_t)9 * DAY_MS;
    for (int i = 0; i < 20; i++) {
        series_tick(series, now_ms);
    }
    assert_false(is_there(folder, "20002"));
    assert_false(is_there(folder, "20002.removed"));
    assert_false(is_there(folder, "20003"));
    assert_true(is_there(folder, "20004"));
    assert_int_equal(read_count(series, &who), 12);
    series_close(series);

    options.bytes_max = 100; /* two days fit, more do not */
    series = series_open(&options);
    for (int i = 0; i < 20; i++) {
        series_tick(series, now_ms);
    }
    assert_int_equal(read_count(series, &who), 4);
    series_close(series);
    remove_folder(folder);
}

static void a_forgotten_workflow_goes_with_what_is_in_memory(void **state)
{
    (void)state;
    char folder[64];
    struct series *series = series_open(&(struct series_options){.folder = make_folder(folder)});
    struct series_who mine = {.workflow = 1, .task = 1};
    struct series_who other = {.workflow = 2, .task = 1};
    for (int i = 0; i < 100; i++) {
        add_steady(series, &mine, start_ms + (int64_t)i * 2000, (uint32_t)i * 100);
        add_steady(series, &other, start_ms + (int64_t)i * 2000, (uint32_t)i * 100);
    }
    assert_true(is_there(folder, "20000/tasks/1"));
    series_forget(series, 1);
    for (int i = 0; i < 5; i++) {
        series_tick(series, start_ms + 200000);
    }
    assert_false(is_there(folder, "20000/tasks/1"));
    assert_int_equal(read_count(series, &mine), 0);
    assert_int_equal(read_count(series, &other), 100);
    series_close(series);
    remove_folder(folder);
}

static void a_folder_that_cannot_be_written_costs_samples_only(void **state)
{
    (void)state;
    char folder[64];
    char path[PATH_MAX];
    make_folder(folder);
    snprintf(path, sizeof path, "%s/usage", folder);
    assert_int_equal(io_replace_file(path, "x", 1, 0600, NULL), ERR_OK);
    struct series *series = series_open(&(struct series_options){.folder = path});
    struct series_who who = {.node = 7};
    add_steady(series, &who, start_ms, 100);
    add_steady(series, &who, start_ms + 2000, 100);
    series_end(series, &who);
    struct series_counts counts;
    series_counts(series, &counts);
    assert_int_equal(counts.lost, 2);
    series_tick(series, start_ms + 4000);
    series_close(series);
    series_close(NULL);
    remove_folder(folder);
}

static void spans_without_sense_are_refused(void **state)
{
    (void)state;
    char folder[64];
    struct series *series = series_open(&(struct series_options){.folder = make_folder(folder)});
    struct series_who who = {.node = 7};
    struct series_point point;
    size_t count = 7;
    struct series_span back = {.from_ms = 10, .to_ms = 5, .max = 1};
    struct series_span many = {.from_ms = 0, .to_ms = INT64_MAX, .step_ms = 1, .max = 1};
    struct series_span empty = {.from_ms = 5, .to_ms = 5, .step_ms = 1, .max = 1};
    assert_int_equal(series_read(series, &who, &back, &point, &count, NULL), ERR_RANGE);
    assert_int_equal(series_read(series, &who, &many, &point, &count, NULL), ERR_RANGE);
    assert_int_equal(series_read(series, &who, &empty, &point, &count, NULL), ERR_OK);
    assert_int_equal(count, 0);
    series_close(series);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_series_read_like_the_model),
        cmocka_unit_test(a_short_task_leaves_nothing),
        cmocka_unit_test(a_sample_takes_about_ten_bytes_and_few_writes),
        cmocka_unit_test(a_torn_end_is_stepped_over),
        cmocka_unit_test(old_days_are_thinned_to_minutes),
        cmocka_unit_test(old_days_and_too_many_bytes_go),
        cmocka_unit_test(a_forgotten_workflow_goes_with_what_is_in_memory),
        cmocka_unit_test(a_folder_that_cannot_be_written_costs_samples_only),
        cmocka_unit_test(spans_without_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
