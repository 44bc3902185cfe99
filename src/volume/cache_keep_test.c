/* What is written to the disk cache by its thread. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/cache_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONTAINERS = 4 };
#define MIB ((size_t)1 << 20)
#define SPACE (12 * MIB)

/* The linker leads the library's pwrite here. The thread calls it. */
static atomic_int disk_errno;
static atomic_int every_nth_fails; /* 0: none */
static atomic_int writes;
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t size, off_t offset);

static atomic_bool is_held; /* nothing is written while it is set */

static bool must_fail(void)
{
    while (is_held) {
        usleep(100);
    }
    int nth = every_nth_fails;
    bool fails = disk_errno && (nth == 0 || ++writes % nth == 0);
    errno = fails ? disk_errno : errno;
    return fails;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return must_fail() ? -1 : __real_pwrite(fd, bytes, size, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    return must_fail() ? -1 : __real_pwrite64(fd, bytes, size, offset);
}

/* -- containers whose bytes are known ---------------------------------------------------------- */

static struct cache_bodies *home;
static char folder[64];

static struct container nth(size_t index)
{
    return (struct container){CONTAINER_PACK, 0, 1, index};
}

static uint64_t word_at(size_t container, uint64_t offset)
{
    return (offset / 8 + 1) * 0x9E3779B97F4A7C15U + container;
}

static void fill(size_t container, uint64_t offset, char *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint64_t at = offset + i;
        if (at % 8 == 0 && size - i >= 8) {
            uint64_t word = word_at(container, at);
            memcpy(out + i, &word, 8);
            i += 7;
        } else {
            out[i] = (char)(word_at(container, at) >> (8 * (at % 8)));
        }
    }
}

static struct cache_body *body_of(size_t container, uint64_t offset, size_t size)
{
    struct str room = cache_bodies_room(home, size);
    assert_true(room.cap > size);
    fill(container, offset, room.text, size);
    room.size = size;
    room.text[size] = '\0';
    return cache_body_create(home, &room);
}

static void keep(struct cache_disk *disk, size_t index, uint64_t offset, size_t size)
{
    struct container container = nth(index);
    struct cache_body *body = body_of(index, offset, size);
    cache_disk_keep(disk, &container, offset, body, size % 2 == 0 || size > MIB);
    cache_body_drop(body);
}

static uint64_t check_disk(struct cache_disk *disk)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CONTAINERS; i++) {
        struct container container = nth(i);
        uint64_t at = cache_disk_next(disk, &container, 0);
        while (at != UINT64_MAX) {
            uint64_t end = cache_disk_covered_to(disk, &container, at);
            size_t size = (size_t)(end - at);
            AUTO_FREE char *expect = mem_alloc(size);
            AUTO_FREE char *got = mem_alloc(size);
            fill(i, at, expect, size);
            assert_true(cache_disk_read(disk, &container, at, got, size));
            assert_memory_equal(got, expect, size);
            total += size;
            at = cache_disk_next(disk, &container, end);
        }
    }
    return total;
}

static struct cache_disk *open_disk(uint64_t limit)
{
    struct cache_disk *disk = NULL;
    struct err err = {0};
    if (cache_disk_open(folder, limit, &disk, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    return disk;
}

static int set_up(void **state)
{
    (void)state;
    disk_errno = every_nth_fails = writes = 0;
    snprintf(folder, sizeof folder, "/tmp/drover-test-keep-XXXXXX");
    home = cache_bodies_create();
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    disk_errno = 0;
    cache_bodies_destroy(home); /* which looks whether every body is gone */
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

/* -- tests ------------------------------------------------------------------------------------- */

static void test_what_is_kept_is_there_once_it_is_settled(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    keep(disk, 0, 0, 4 * MIB);
    keep(disk, 0, 4 * MIB, 3 * MIB + 17); /* its end fills no page */
    keep(disk, 1, 4096, 300000);
    keep(disk, 1, 1000001, 300000); /* begins within a page */
    keep(disk, 2, 5, 10);           /* too small to be worth waiting for */
    assert_int_equal(cache_disk_covered_to(disk, &(struct container){CONTAINER_PACK, 0, 1, 2}, 5),
                     15);
    cache_disk_settle(disk, true);
    assert_int_equal(check_disk(disk), 7 * MIB + 17 + 600000 + 10);
    cache_disk_close(disk);
    disk = open_disk(64 * MIB);
    assert_int_equal(check_disk(disk), 7 * MIB + 17 + 600000 + 10);
    cache_disk_close(disk);
}

static void test_closing_waits_for_what_is_being_written(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    for (uint64_t i = 0; i < 3; i++) {
        keep(disk, 0, i * 4 * MIB, 4 * MIB);
    }
    cache_disk_close(disk);
    disk = open_disk(64 * MIB);
    assert_int_equal(check_disk(disk), 12 * MIB);
    cache_disk_close(disk);
}

static void test_a_disk_that_is_full_costs_only_the_cache(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    keep(disk, 0, 0, 4 * MIB);
    cache_disk_settle(disk, true);
    disk_errno = ENOSPC;
    keep(disk, 1, 0, 4 * MIB);
    cache_disk_settle(disk, true);
    disk_errno = 0;
    assert_true(check_disk(disk) <= 4 * MIB);
    keep(disk, 2, 0, 4 * MIB); /* not so soon again */
    cache_disk_settle(disk, true);
    assert_true(check_disk(disk) <= 4 * MIB);
    cache_disk_close(disk);
}

static void test_a_folder_that_vanishes_while_it_is_written_to(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    keep(disk, 0, 0, 4 * MIB);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
    keep(disk, 1, 0, 4 * MIB);
    keep(disk, 2, 0, 4 * MIB);
    cache_disk_settle(disk, true);
    check_disk(disk);
    cache_disk_close(disk);
}

/* The first of two writes to the same place fails and is taken out again, after the second. */
static void test_a_write_that_failed_takes_nothing_from_the_next(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    keep(disk, 0, 8 * MIB, 100000); /* so that the file is open */
    disk_errno = EIO;
    every_nth_fails = 2;
    writes = 1;
    is_held = true;
    keep(disk, 0, 0, 300001);
    keep(disk, 0, 4096, 300001);
    is_held = false;
    while (writes < 3) {
        usleep(100);
    }
    usleep(50000);
    disk_errno = 0;
    cache_disk_settle(disk, true);
    check_disk(disk);
    cache_disk_close(disk);
}

/* A stream, the first piece of which was dropped (damaged) while it was written. */
static void test_a_write_that_does_not_count_takes_nothing_from_its_neighbours(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    struct container container = nth(0);
    is_held = true;
    keep(disk, 0, 0, 300001);
    cache_disk_drop(disk, &container, 1000, 10);
    keep(disk, 0, 1 * MIB, 300001);
    is_held = false;
    for (uint64_t i = 2; i < 12; i++) { /* one is always under way when the next comes */
        usleep(20000);
        is_held = true;
        keep(disk, 0, i * MIB, 300001);
        is_held = false;
    }
    cache_disk_settle(disk, true);
    assert_int_equal(cache_disk_next(disk, &container, 0), MIB);
    assert_int_equal(check_disk(disk), 11 * 300001);
    cache_disk_close(disk);
}

/* What came damaged is being written when it is dropped, fetched again and written at once. */
static void test_what_is_written_at_once_is_not_overwritten_by_what_was_before(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(64 * MIB);
    struct container container = nth(0);
    struct cache_body *bad = body_of(1, 0, MIB + 1); /* another container's bytes */
    is_held = true;
    cache_disk_keep(disk, &container, 0, bad, false);
    cache_body_drop(bad);
    cache_disk_drop(disk, &container, 4096, 8192);
    is_held = false;
    keep(disk, 0, 4096, 8192);
    cache_disk_settle(disk, true);
    assert_int_equal(check_disk(disk), 8192);
    cache_disk_close(disk);
}

/* Files come and go, and are cut, while they are written to. */
static void test_random_work_never_leaves_wrong_bytes(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    uint64_t limit = (2 + rng_below(&rng, 20)) * MIB;
    struct cache_disk *disk = open_disk(limit);
    for (int step = 0; step < 120; step++) {
        size_t index = (size_t)rng_below(&rng, rng_below(&rng, 2) ? 1 : CONTAINERS);
        struct container container = nth(index);
        uint64_t offset = rng_below(&rng, SPACE) / 4096 * 4096 + (rng_below(&rng, 4) == 0);
        size_t size = 1 + (size_t)rng_below(&rng, rng_below(&rng, 3) ? 4 * MIB : MIB);
        uint64_t what = rng_below(&rng, 10);
        if (what < 7) {
            keep(disk, index, offset, size);
        } else if (what == 7) {
            cache_disk_settle(disk, rng_below(&rng, 2) == 0);
        } else if (what == 8) {
            cache_disk_drop(disk, &container, offset, size);
        } else {
            every_nth_fails = 5;
            disk_errno = rng_below(&rng, 8) == 0 ? EIO : 0;
        }
        assert_true(cache_disk_bytes(disk) <= limit);
        if (step % 20 == 0) {
            check_disk(disk);
        }
    }
    check_disk(disk);
    cache_disk_close(disk);
    disk = open_disk(limit);
    check_disk(disk);
    cache_disk_close(disk);
}

static void test_memory_of_the_usual_size_is_used_again(void **state)
{
    (void)state;
    struct cache_body *body = body_of(0, 0, 4 * MIB);
    const char *first = body->bytes.text;
    cache_body_hold(body);
    cache_body_drop(body);
    assert_ptr_equal(body->bytes.text, first); /* somebody still holds it */
    cache_body_drop(body);
    body = body_of(0, 0, 3 * MIB);
    assert_ptr_equal(body->bytes.text, first);
    cache_body_drop(body);
    struct str small = cache_bodies_room(home, 100);
    assert_ptr_not_equal(small.text, first);
    assert_int_equal((uintptr_t)small.text % CACHE_PAGE_BYTES, 0);
    cache_bodies_return(home, &small);
    assert_null(small.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_kept_is_there_once_it_is_settled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_closing_waits_for_what_is_being_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_disk_that_is_full_costs_only_the_cache, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_folder_that_vanishes_while_it_is_written_to, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_write_that_failed_takes_nothing_from_the_next,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_write_that_does_not_count_takes_nothing_from_its_neighbours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_what_is_written_at_once_is_not_overwritten_by_what_was_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random_work_never_leaves_wrong_bytes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_memory_of_the_usual_size_is_used_again, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
