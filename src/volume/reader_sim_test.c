/* What reading costs: bytes fetched for bytes read, for the ways that people read. The data set is
 * that of the benchmark (files of 4 to 100 KiB, packs of 64 MiB, 1 GiB in all) at an eighth of its
 * size; READER_SIM_FULL=1 in the environment makes it the whole. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/reader.h"
#include "volume/reader_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

enum { PACKS = 16, THREADS = 8 };

struct file {
    uint64_t pack, offset;
    uint32_t size;
};

struct sim {
    struct fake fake;
    struct reader *reader;
    struct file *files;
    size_t count, cap;
    uint64_t read; /* bytes */
    struct rng rng;
    uint8_t *expect;
    char folder[64];
};

static uint64_t scale(void)
{
    return getenv("READER_SIM_FULL") ? 1 : 8;
}

static void make_files(struct sim *sim, uint32_t least, uint32_t most)
{
    for (uint64_t pack = 0; pack < PACKS; pack++) {
        uint64_t offset = 0;
        for (;;) {
            uint32_t size = least + (uint32_t)rng_below(&sim->rng, most - least + 1);
            if (offset + size > sim->fake.pack_bytes) {
                break;
            }
            VEC_PUSH(sim->files, sim->count, sim->cap) = (struct file){pack, offset, size};
            offset += size;
        }
    }
}

static void sim_begin(struct sim *sim, uint64_t cache_bytes, uint32_t least, uint32_t most)
{
    *sim = (struct sim){0};
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    sim->rng.state = seed;
    fake_init(&sim->fake, PACKS, 64 * MIB / scale());
    make_files(sim, least, most);
    sim->expect = mem_alloc(EXTENT_BYTES_MAX);
    snprintf(sim->folder, sizeof sim->folder, "/tmp/reader_sim.XXXXXX");
    assert_non_null(mkdtemp(sim->folder));
    struct reader_options options = {
        .folder = sim->folder, .folder_bytes = cache_bytes, .memory_bytes = 64 * MIB};
    assert_int_equal(reader_create(&sim->fake.store, &options, &sim->reader, NULL), ERR_OK);
}

static void sim_end(struct sim *sim)
{
    reader_destroy(sim->reader);
    fake_release(&sim->fake);
    free(sim->files);
    free(sim->expect);
    assert_int_equal(io_remove_tree(sim->folder, NULL), ERR_OK);
}

/* One ask; false: again. */
static bool ask(struct sim *sim, size_t index)
{
    const struct file *file = &sim->files[index];
    struct extent extent = fake_extent(&sim->fake, file->pack, file->offset, file->size);
    struct reader_ask question = {&extent, sim->fake.pack_bytes, index + 1};
    const void *bytes = NULL;
    struct err err = {0};
    enum err_code code = reader_get(sim->reader, &question, &bytes, &err);
    if (code == ERR_AGAIN) {
        assert_true(sim->fake.in_flight > 0);
        return false;
    }
    assert_string_equal(err.text, "");
    assert_int_equal(code, ERR_OK);
    fake_bytes(&sim->fake, file->pack, file->offset, sim->expect, file->size);
    assert_memory_equal(bytes, sim->expect, file->size);
    sim->read += file->size;
    return true;
}

static void read_one(struct sim *sim, size_t index)
{
    while (!ask(sim, index)) {
        uint64_t progress = reader_progress(sim->reader);
        object_run(&sim->fake.store, 0);
        assert_true(reader_progress(sim->reader) > progress);
    }
}

static double report(struct sim *sim, const char *name)
{
    struct reader_stats stats = {0};
    reader_stats(sim->reader, &stats);
    double ratio = (double)stats.bytes_fetched / (double)sim->read;
    printf("%s: read %.0f MiB, fetched %.0f MiB in %llu requests (ratio %.2f), %zu in flight; "
           "%llu memory, %llu disk, %llu misses; %.0f MiB of memory\n",
           name, (double)sim->read / (double)MIB, (double)stats.bytes_fetched / (double)MIB,
           (unsigned long long)stats.fetches, ratio, sim->fake.in_flight_max,
           (unsigned long long)stats.hits_memory, (unsigned long long)stats.hits_disk,
           (unsigned long long)stats.misses, (double)stats.memory_bytes / (double)MIB);
    assert_int_equal(stats.bytes_fetched, sim->fake.bytes);
    assert_true(stats.memory_bytes <= 72 * MIB);
    return ratio;
}

static void test_small_files_in_order_stream_through_the_packs(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 10240 * MIB, 4096, 102400);
    for (size_t i = 0; i < sim.count; i++) {
        read_one(&sim, i);
    }
    double ratio = report(&sim, "in order");
    assert_true(ratio <= 1.05);
    assert_true(sim.fake.in_flight_max >= 4);
    /* Four MiB each, but for the beginning and the ends of packs. */
    assert_true(sim.fake.gets <= PACKS * (64 / scale() / 4 + 2) + 16);
    sim_end(&sim);
}

/* A block of metadata; false: again. */
static bool ask_raw(struct sim *sim, uint64_t run, uint64_t offset)
{
    struct container container = {CONTAINER_RUN, 0, 1, run};
    const void *bytes = NULL;
    enum err_code code = reader_get_raw(sim->reader, &container, offset, 4096, &bytes, NULL);
    assert_true(code == ERR_OK || code == ERR_AGAIN);
    return code == ERR_OK;
}

/* Each of its own part of the files; and, where by_name, of the names too. */
static double eight_threads(struct sim *sim, bool by_name, const char *name)
{
    size_t next[THREADS];
    size_t share = sim->count / THREADS;
    for (size_t i = 0; i < THREADS; i++) {
        next[i] = i * share;
    }
    size_t left = THREADS * share;
    while (left > 0) {
        size_t answered = 0;
        for (size_t i = 0; i < THREADS; i++) {
            uint64_t block = (next[i] - i * share) / 16;
            if (next[i] < (i + 1) * share && (!by_name || ask_raw(sim, i, block * 4096)) &&
                ask(sim, next[i])) {
                next[i]++;
                answered++;
            }
        }
        left -= answered;
        if (answered == 0) {
            object_run(&sim->fake.store, 0);
        }
    }
    return report(sim, name);
}

static void test_eight_threads_stream_from_eight_places(void **state)
{
    (void)state;
    uint64_t gets[2];
    for (int by_name = 0; by_name < 2; by_name++) {
        struct sim sim;
        sim_begin(&sim, 10240 * MIB, 4096, 102400);
        assert_true(eight_threads(&sim, by_name, "eight threads") <= (by_name ? 1.4 : 1.1));
        gets[by_name] = sim.fake.gets;
        sim_end(&sim);
    }
    assert_true(gets[1] <= gets[0] + gets[0] / 4 + 2 * (uint64_t)THREADS); /* a few of the names */
}

static void test_eight_threads_stream_while_the_cache_is_evicted(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 256 * MIB / scale(), 4096, 102400);
    assert_true(eight_threads(&sim, false, "eight threads, small cache") <= 1.5);
    sim_end(&sim);
}

static void shuffled_epoch(struct sim *sim)
{
    size_t *order = mem_array(sim->count, sizeof *order);
    for (size_t i = 0; i < sim->count; i++) {
        size_t other = (size_t)rng_below(&sim->rng, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    for (size_t i = 0; i < sim->count; i++) {
        read_one(sim, order[i]);
    }
    free(order);
}

static void test_a_shuffled_epoch_that_the_cache_holds_fetches_once(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 10240 * MIB, 4096, 102400);
    shuffled_epoch(&sim);
    assert_true(report(&sim, "shuffled, held") <= 1.3);
    assert_true(sim.fake.gets <= PACKS * (64 / scale() / 4 + 8));
    uint64_t bytes = sim.fake.bytes;
    shuffled_epoch(&sim);
    assert_int_equal(sim.fake.bytes, bytes);
    sim_end(&sim);
}

static void test_a_shuffled_epoch_that_the_cache_cannot_hold_stays_bounded(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 256 * MIB / scale(), 4096, 102400);
    shuffled_epoch(&sim);
    shuffled_epoch(&sim);
    assert_true(report(&sim, "shuffled, not held") <= 5);
    struct reader_stats stats = {0};
    reader_stats(sim.reader, &stats);
    assert_true(stats.evicted_bytes > 0);
    assert_true(stats.disk_bytes <= 256 * MIB / scale());
    sim_end(&sim);
}

static void test_a_large_file_streams(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 10240 * MIB, EXTENT_BYTES_MAX, EXTENT_BYTES_MAX);
    size_t count = 256 / scale();
    for (size_t i = 0; i < count; i++) {
        for (int part = 0; part < 8; part++) { /* as the kernel asks for it */
            read_one(&sim, i);
        }
    }
    sim.read /= 8;
    assert_true(report(&sim, "large file") <= 1.3);
    assert_true(sim.fake.in_flight_max >= 2);
    sim_end(&sim);
}

/* The kernel reads ahead by itself: several asks wait, and each comes again with each answer. */
static void test_asks_that_come_again_do_not_make_fetches_smaller(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 10240 * MIB, EXTENT_BYTES_MAX, EXTENT_BYTES_MAX);
    enum { WAITING = 9 };
    bool answered[WAITING] = {false};
    for (size_t first = 0; first < sim.count;) {
        size_t end = first + WAITING < sim.count ? first + WAITING : sim.count;
        for (size_t i = first; i < end; i++) {
            answered[i % WAITING] = answered[i % WAITING] || ask(&sim, i);
        }
        if (!answered[first % WAITING]) {
            object_run(&sim.fake.store, 0);
        }
        while (first < end && answered[first % WAITING]) {
            answered[first++ % WAITING] = false;
        }
    }
    assert_true(report(&sim, "asks that come again") <= 1.05);
    assert_true(sim.fake.gets <= sim.read / (4 * MIB) + 8);
    sim_end(&sim);
}

static void test_random_reads_of_a_large_file_fetch_it_once(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 10240 * MIB, EXTENT_BYTES_MAX, EXTENT_BYTES_MAX);
    size_t count = 128;
    for (size_t i = 0; i < 8 * count; i++) {
        read_one(&sim, (size_t)rng_below(&sim.rng, count));
    }
    report(&sim, "random in a large file");
    /* Chance may look like order, and lead a little way into the pack behind the file. */
    assert_true(sim.fake.bytes <= (count + 40) * MIB);
    sim_end(&sim);
}

static void test_random_reads_of_what_the_cache_cannot_hold_fetch_what_is_asked(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 64 * MIB / scale(), EXTENT_BYTES_MAX, EXTENT_BYTES_MAX);
    for (size_t i = 0; i < 2 * sim.count; i++) {
        read_one(&sim, (size_t)rng_below(&sim.rng, sim.count));
    }
    assert_true(report(&sim, "random, not held") <= 1.5);
    sim_end(&sim);
}

static void test_one_folder_after_another_in_random_order_is_local(void **state)
{
    (void)state;
    struct sim sim;
    sim_begin(&sim, 256 * MIB / scale(), 4096, 102400);
    for (size_t folder = 0; folder + 100 <= sim.count; folder += 100) {
        size_t order[100] = {0};
        for (size_t i = 0; i < 100; i++) {
            size_t other = (size_t)rng_below(&sim.rng, i + 1);
            order[i] = order[other];
            order[other] = folder + i;
        }
        for (size_t i = 0; i < 100; i++) {
            read_one(&sim, order[i]);
        }
    }
    assert_true(report(&sim, "folder by folder") <= 1.3);
    sim_end(&sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_files_in_order_stream_through_the_packs),
        cmocka_unit_test(test_eight_threads_stream_from_eight_places),
        cmocka_unit_test(test_eight_threads_stream_while_the_cache_is_evicted),
        cmocka_unit_test(test_a_shuffled_epoch_that_the_cache_holds_fetches_once),
        cmocka_unit_test(test_a_shuffled_epoch_that_the_cache_cannot_hold_stays_bounded),
        cmocka_unit_test(test_a_large_file_streams),
        cmocka_unit_test(test_asks_that_come_again_do_not_make_fetches_smaller),
        cmocka_unit_test(test_random_reads_of_a_large_file_fetch_it_once),
        cmocka_unit_test(test_random_reads_of_what_the_cache_cannot_hold_fetch_what_is_asked),
        cmocka_unit_test(test_one_folder_after_another_in_random_order_is_local),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
