#include "metrics/metrics_file.h"

#include "base/io.h"
#include "base/rng.h"
#include "metrics/block.h"
#include "metrics/metrics_testing.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    struct str folder;
    struct str path;
};

static int begin(void **state)
{
    static struct place place;
    testing_folder(&place.folder);
    str_clear(&place.path);
    str_addf(&place.path, "%s/curves", str_text(&place.folder));
    *state = &place;
    return 0;
}

static int finish(void **state)
{
    struct place *place = *state;
    int failed = io_remove_tree(str_text(&place->folder), NULL) != ERR_OK;
    str_release(&place->folder);
    str_release(&place->path);
    return failed;
}

static const char *path_of(void **state)
{
    return str_text(&((struct place *)*state)->path);
}

static struct metrics_file *open_file(void **state)
{
    struct metrics_file *file = NULL;
    struct err err = {0};
    if (metrics_file_open(path_of(state), &file, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    return file;
}

static void add(struct metrics_file *file, const char *name, double step, double value)
{
    struct metric metric = {
        .name = name, .value = value, .step = step, .has_step = true, .at_ms = 5};
    assert_int_equal(metrics_file_add(file, &metric, NULL), ERR_OK);
}

static void expect(void **state, uint64_t *offset, const char *expected)
{
    AUTO_STR struct str out = {0};
    struct metric_sink sink = testing_sink(&out);
    struct err err = {0};
    assert_int_equal(metrics_file_read(path_of(state), offset, &sink, &err), ERR_OK);
    assert_string_equal(str_text(&out), expected);
}

static void points_come_back(void **state)
{
    uint64_t offset = 0;
    struct metrics_file *file = open_file(state);
    add(file, "loss", 1, 0.5);
    add(file, "acc", 1, 0.25);
    expect(state, &offset, ""); /* gathered, not written */
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    expect(state, &offset, "loss@1=0.5 acc@1=0.25");
    expect(state, &offset, "");
    add(file, "loss", 2.5, NAN);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    expect(state, &offset, "loss@2.5=nan");
    metrics_file_close(file);
    metrics_file_close(NULL);
}

static void a_summary_goes_on_where_it_stood(void **state)
{
    struct metrics_file *file = open_file(state);
    add(file, "loss", 1, 0.5);
    add(file, "loss", 2, 0.25);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    metrics_file_close(file);
    file = open_file(state);
    add(file, "loss", 3, 0.75);
    const struct metric_summary *loss = metrics_find(metrics_file_summary(file), "loss");
    assert_int_equal(loss->count, 3);
    assert_true(loss->least.value == 0.25);
    metrics_file_close(file);
}

static void a_torn_tail_costs_its_own_points_only(void **state)
{
    struct stat about;
    struct metrics_file *file = open_file(state);
    add(file, "loss", 1, 0.5);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    assert_int_equal(stat(path_of(state), &about), 0);
    off_t first = about.st_size;
    add(file, "loss", 2, 0.25);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    metrics_file_close(file);
    assert_int_equal(stat(path_of(state), &about), 0);
    for (off_t size = about.st_size - 1; size >= first; size--) {
        uint64_t offset = 0;
        assert_int_equal(truncate(path_of(state), size), 0);
        expect(state, &offset, "loss@1=0.5");
        assert_int_equal(offset, first); /* where the torn one may still grow */
    }
    assert_int_equal(truncate(path_of(state), first), 0);
    int fd = open(path_of(state), O_WRONLY | O_APPEND);
    assert_int_equal(io_write_all(fd, "\xD5mt\x01 torn", 9, NULL), ERR_OK);
    close(fd);
    file = open_file(state);
    add(file, "loss", 3, 0.75);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    metrics_file_close(file);
    uint64_t offset = (uint64_t)first;
    expect(state, &offset, "loss@3=0.75");
}

static void what_is_no_file_of_ours_is_refused(void **state)
{
    struct place *place = *state;
    struct metrics_file *file = NULL;
    struct err err = {0};
    uint64_t offset = 0;
    AUTO_STR struct str out = {0};
    struct metric_sink sink = testing_sink(&out);
    assert_int_equal(metrics_file_read(path_of(state), &offset, &sink, &err), ERR_NOT_FOUND);
    assert_int_equal(mkfifo(path_of(state), 0600), 0);
    assert_int_equal(metrics_file_read(path_of(state), &offset, &sink, &err), ERR_CORRUPT);
    assert_int_equal(metrics_file_open(str_text(&place->folder), &file, &err), ERR_IO);
    assert_int_equal(unlink(path_of(state)), 0);
    assert_int_equal(io_replace_file(path_of(state), "just text, long enough", 22, 0600, &err),
                     ERR_OK);
    expect(state, &offset, "");
}

/* A disk that is full: no room behind the first bytes. */
static void a_full_disk_loses_no_summary(void **state)
{
    struct rlimit old;
    struct stat about;
    struct metrics_file *file = open_file(state);
    add(file, "loss", 1, 0.5);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(stat(path_of(state), &about), 0);
    off_t size = about.st_size;
    assert_true(size < 60);
    struct rlimit small = {.rlim_cur = 60, .rlim_max = old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum err_code last = ERR_OK;
    for (int i = 0; i < 3000; i++) {
        struct metric metric = {.name = "loss", .value = i / 3.0, .step = i, .has_step = true};
        struct err err = {0};
        enum err_code code = metrics_file_add(file, &metric, &err);
        last = code != ERR_OK ? code : last;
    }
    /* First the limit, which our own output is under too. */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(stat(path_of(state), &about), 0);
    assert_int_equal(about.st_size, size); /* half a block was taken back */
    assert_int_equal(last, ERR_IO);
    assert_true(metrics_file_lost(file) > 0);
    assert_int_equal(metrics_find(metrics_file_summary(file), "loss")->count, 3001);
    assert_int_equal(metrics_file_flush(file, NULL), ERR_OK); /* what was kept */
    uint64_t lost = metrics_file_lost(file);
    metrics_file_close(file);
    struct metrics_file *again = open_file(state);
    assert_int_equal(metrics_find(metrics_file_summary(again), "loss")->count + lost, 3001);
    metrics_file_close(again);
}

/* --- blocks ---------------------------------------------------------------------------------- */

struct list {
    struct metric points[4000];
    size_t count;
};

static void take(void *owner, const struct metric *metric)
{
    struct list *list = owner;
    assert_true(list->count < 4000);
    list->points[list->count] = *metric;
    list->points[list->count++].name = metric->name[0] == 'a'   ? "a"
                                       : metric->name[0] == 'b' ? "bb/b"
                                                                : "c c";
}

static double random_value(struct rng *rng)
{
    switch (rng_below(rng, 10)) {
    case 0:
        return NAN;
    case 1:
        return rng_below(rng, 2) ? INFINITY : -INFINITY;
    case 2:
        return rng_below(rng, 2) ? 0.0 : -0.0;
    case 3: {
        uint64_t bits = rng_next(rng);
        double value = 0;
        memcpy(&value, &bits, sizeof value);
        return isnan(value) ? NAN : value;
    }
    case 4:
        return (double)(float)rng_unit(rng);
    case 5:
        return rng_unit(rng);
    case 6:
        return (double)(int64_t)rng_next(rng);
    default:
        return (double)rng_below(rng, 20000) / 10000 - 1;
    }
}

static struct metric random_point(struct rng *rng, int64_t *at_ms, double *step)
{
    static const char *const names[] = {"a", "bb/b", "c c"};
    *at_ms += rng_below(rng, 50) == 0 ? (int64_t)rng_next(rng) / 4 : (int64_t)rng_below(rng, 2000);
    *at_ms = *at_ms < 0 ? 0 : *at_ms % (INT64_MAX / 2);
    *step += rng_below(rng, 3) == 0 ? (double)rng_below(rng, 100) : 1;
    struct metric metric = {.name = names[rng_below(rng, 3)],
                            .value = random_value(rng),
                            .at_ms = *at_ms,
                            .has_step = rng_below(rng, 10) != 0};
    metric.step = !metric.has_step ? 0 : rng_below(rng, 20) == 0 ? rng_unit(rng) * -1e300 : *step;
    return metric;
}

static uint64_t bits_of(double value)
{
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool same(const struct metric *one, const struct metric *other)
{
    return strcmp(one->name, other->name) == 0 && one->at_ms == other->at_ms &&
           one->has_step == other->has_step && bits_of(one->step) == bits_of(other->step) &&
           ((isnan(one->value) && isnan(other->value)) ||
            bits_of(one->value) == bits_of(other->value));
}

static void blocks_give_back_every_bit(void **state)
{
    (void)state;
    static struct block block;
    static struct metric points[4000];
    static struct list list;
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        int64_t at_ms = 1700000000000;
        double step = 0;
        size_t count = 0;
        block_start(&block);
        do {
            points[count] = random_point(&rng, &at_ms, &step);
        } while (block_add(&block, &points[count]) && ++count < 4000);
        size_t size = block_seal(&block);
        const uint8_t *found = NULL;
        size_t found_size = 0;
        size_t at = 0;
        list.count = 0;
        const struct metric_sink sink = {.take = take, .owner = &list};
        assert_true(block_next(block.bytes, size, &at, &found, &found_size));
        assert_int_equal(found_size, size);
        assert_int_equal(at, size);
        assert_true(block_read(found, found_size, &sink));
        assert_int_equal(list.count, count);
        for (size_t i = 0; i < count; i++) {
            assert_true(same(&list.points[i], &points[i]));
        }
    }
}

static void a_point_of_a_log_takes_few_bytes(void **state)
{
    (void)state;
    static struct block block;
    block_start(&block);
    size_t count = 0;
    for (int step = 0;; step++, count += 2) {
        struct metric loss = {.name = "loss",
                              .value = (1000 + step * 7 % 100) / 10000.0,
                              .step = step * 100,
                              .has_step = true,
                              .at_ms = 1700000000000 + step * INT64_C(1500)};
        struct metric acc = loss;
        acc.name = "accuracy";
        acc.value = (9000 + step * 3 % 100) / 10000.0;
        if (!block_add(&block, &loss) || !block_add(&block, &acc)) {
            break;
        }
    }
    size_t size = block_seal(&block);
    print_message("%zu points in %zu bytes\n", count, size);
    assert_true(size < count * 6);
}

/* Blocks with bytes changed, lost and added: whatever is found was written, in order. */
static void damage_costs_only_what_it_hits(void **state)
{
    (void)state;
    static struct block block;
    static struct list list;
    uint64_t seed = rng_seed_from_system();
    struct rng rng = {.state = seed};
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int round = 0; round < 300; round++) {
        AUTO_STR struct str file = {0};
        for (int b = 0; b < 10; b++) {
            block_start(&block);
            struct metric metric = {.name = "a", .value = b, .step = b, .has_step = true};
            assert_true(block_add(&block, &metric));
            size_t size = block_seal(&block);
            str_add_bytes(&file, block.bytes, size);
        }
        size_t hit = rng_below(&rng, file.size);
        file.text[hit] ^= (char)(1 + rng_below(&rng, 255));
        const uint8_t *found = NULL;
        size_t found_size = 0;
        list.count = 0;
        const struct metric_sink sink = {.take = take, .owner = &list};
        for (size_t at = 0;
             block_next((const uint8_t *)file.text, file.size, &at, &found, &found_size);) {
            assert_true(block_read(found, found_size, &sink));
        }
        assert_true(list.count == 9);
        for (size_t i = 1; i < list.count; i++) {
            assert_true(list.points[i].value > list.points[i - 1].value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(points_come_back, begin, finish),
        cmocka_unit_test_setup_teardown(a_summary_goes_on_where_it_stood, begin, finish),
        cmocka_unit_test_setup_teardown(a_torn_tail_costs_its_own_points_only, begin, finish),
        cmocka_unit_test_setup_teardown(what_is_no_file_of_ours_is_refused, begin, finish),
        cmocka_unit_test_setup_teardown(a_full_disk_loses_no_summary, begin, finish),
        cmocka_unit_test(blocks_give_back_every_bit),
        cmocka_unit_test(a_point_of_a_log_takes_few_bytes),
        cmocka_unit_test(damage_costs_only_what_it_hits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
