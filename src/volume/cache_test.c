#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/cache_disk.h"
#include "volume/cache_index.h"
#include "volume/cache_memory.h"
#include "volume/le.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cmocka.h>

/* The linker leads the library's pwrite here, so that a disk can be full. */
static int disk_errno;
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset);
ssize_t __real_pwrite64(int fd, const void *bytes, size_t size, off_t offset);

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    if (disk_errno) {
        errno = disk_errno;
        return -1;
    }
    return __real_pwrite(fd, bytes, size, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t size, off_t offset)
{
    if (disk_errno) {
        errno = disk_errno;
        return -1;
    }
    return __real_pwrite64(fd, bytes, size, offset);
}

enum { CONTAINERS = 5, SPACE = 400000 };

static struct rng new_rng(void)
{
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return (struct rng){seed};
}

static struct container nth(size_t index)
{
    return (struct container){CONTAINER_PACK, 0, 1, index};
}

static uint8_t byte_at(size_t container, uint64_t offset)
{
    return (uint8_t)(rng_mix(3, offset / 8, container) >> (8 * (offset % 8)));
}

static uint8_t *bytes_of(size_t container, uint64_t offset, size_t size)
{
    uint8_t *bytes = mem_alloc(size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = byte_at(container, offset + i);
    }
    return bytes;
}

static char folder[64];

static struct cache_disk *open_disk(uint64_t limit)
{
    struct cache_disk *disk = NULL;
    struct err err = {0};
    if (cache_disk_open(folder, limit, &disk, &err) != ERR_OK) {
        fail_msg("%s", err.text);
    }
    return disk;
}

static void put(struct cache_disk *disk, size_t container, uint64_t offset, size_t size)
{
    AUTO_FREE uint8_t *bytes = bytes_of(container, offset, size);
    cache_disk_write(disk, &(struct container){CONTAINER_PACK, 0, 1, container}, offset, bytes,
                     size);
}

/* Every byte that the cache says it has is right; returns how many there are. */
static uint64_t check_disk(struct cache_disk *disk)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CONTAINERS; i++) {
        struct container container = nth(i);
        uint64_t at = cache_disk_next(disk, &container, 0);
        while (at != UINT64_MAX) {
            uint64_t end = cache_disk_covered_to(disk, &container, at);
            assert_true(end > at);
            AUTO_FREE uint8_t *expect = bytes_of(i, at, (size_t)(end - at));
            AUTO_FREE uint8_t *got = mem_alloc((size_t)(end - at));
            assert_true(cache_disk_read(disk, &container, at, got, (size_t)(end - at)));
            assert_memory_equal(got, expect, (size_t)(end - at));
            total += end - at;
            at = cache_disk_next(disk, &container, end);
        }
    }
    return total;
}

static uint64_t used_on_disk(void)
{
    uint64_t total = 0;
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        struct stat info = {0};
        if (strncmp(entry->d_name, "packs_", 6) == 0 &&
            fstatat(dirfd(list), entry->d_name, &info, 0) == 0) {
            total += (uint64_t)info.st_blocks * 512;
        }
    }
    closedir(list);
    return total;
}

static int make_folder(void **state)
{
    (void)state;
    disk_errno = 0;
    snprintf(folder, sizeof folder, "/tmp/cache_test.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static void test_what_the_disk_cache_has_is_right_and_within_its_limit(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    enum { LIMIT = 600000 };
    struct cache_disk *disk = open_disk(LIMIT);
    uint64_t evicted = 0;
    for (int step = 0; step < 600; step++) {
        size_t container = (size_t)rng_below(&rng, CONTAINERS);
        uint64_t offset = rng_below(&rng, SPACE);
        size_t size = 1 + (size_t)rng_below(&rng, 60000);
        uint64_t kind = rng_below(&rng, 20);
        if (kind < 14) {
            put(disk, container, offset, size);
        } else if (kind < 16) {
            cache_disk_drop(disk, &(struct container){CONTAINER_PACK, 0, 1, container}, offset,
                            size);
        } else if (kind < 19) {
            struct container reading = nth(container);
            cache_disk_use(disk, &reading);
        } else {
            evicted += cache_disk_evicted(disk);
            cache_disk_close(disk);
            disk = open_disk(LIMIT);
        }
        assert_true(cache_disk_bytes(disk) <= LIMIT);
        if (step % 30 == 0) {
            check_disk(disk);
        }
    }
    assert_true(check_disk(disk) > 0);
    assert_true(evicted > 0);
    cache_disk_close(disk);
}

static void test_the_container_being_read_stays(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(1000000);
    struct container first = nth(0);
    put(disk, 0, 0, 300000);
    cache_disk_use(disk, &first);
    for (size_t i = 1; i < CONTAINERS; i++) {
        put(disk, i, 0, 400000);
    }
    assert_int_equal(cache_disk_covered_to(disk, &first, 0), 300000);
    cache_disk_close(disk);
}

static void test_one_large_container_keeps_what_is_near(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(1 << 20);
    for (uint64_t at = 0; at < 4 << 20; at += 64 << 10) {
        put(disk, 0, at, 64 << 10);
        assert_true(cache_disk_bytes(disk) <= 1 << 20);
        struct container container = nth(0);
        assert_int_equal(cache_disk_covered_to(disk, &container, at), at + (64 << 10));
    }
    check_disk(disk);
    assert_true(used_on_disk() <= (1 << 20) + (64 << 10));
    cache_disk_close(disk);
}

static void test_the_next_cache_finds_what_is_there_and_nothing_else(void **state)
{
    (void)state;
    char stranger[128];
    char other[128];
    snprintf(stranger, sizeof stranger, "%s/packs_00000000-00000001-0000000000000004", folder);
    snprintf(other, sizeof other, "%s/precious", folder);
    struct cache_disk *disk = open_disk(1 << 20);
    put(disk, 0, 5, 10000);
    put(disk, 1, 100000, 10000);
    struct cache_disk *second = NULL;
    assert_int_equal(cache_disk_open(folder, 0, &second, NULL), ERR_AGAIN);
    cache_disk_close(disk);
    assert_int_equal(io_replace_file(stranger, "x", 1, 0600, NULL), ERR_OK);
    assert_int_equal(io_replace_file(other, "x", 1, 0600, NULL), ERR_OK);
    disk = open_disk(1 << 20);
    assert_int_equal(check_disk(disk), 20000);
    assert_int_equal(access(stranger, F_OK), -1);
    assert_int_equal(access(other, F_OK), 0);
    cache_disk_close(disk);
    disk = open_disk(15000); /* a smaller limit: the newer one stays */
    assert_int_equal(check_disk(disk), 10000);
    cache_disk_close(disk);
    disk = open_disk(0); /* the default */
    assert_true(cache_disk_limit(disk) > 1 << 20);
    cache_disk_close(disk);
}

static void test_files_that_were_cut_or_removed_are_forgotten(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(1 << 20);
    put(disk, 0, 0, 10000);
    put(disk, 1, 0, 10000);
    put(disk, 2, 0, 10000);
    cache_disk_close(disk);
    char path[128];
    snprintf(path, sizeof path, "%s/packs_00000000-00000001-0000000000000000", folder);
    assert_int_equal(truncate(path, 5000), 0);
    path[strlen(path) - 1] = '1';
    assert_int_equal(unlink(path), 0);
    disk = open_disk(1 << 20);
    assert_int_equal(check_disk(disk), 15000);
    path[strlen(path) - 1] = '2'; /* while it is in use, but before it is opened again */
    cache_disk_close(disk);
    disk = open_disk(1 << 20);
    assert_int_equal(unlink(path), 0);
    uint8_t byte = 0;
    struct container container = nth(2);
    assert_false(cache_disk_read(disk, &container, 0, &byte, 1));
    assert_int_equal(cache_disk_next(disk, &container, 0), UINT64_MAX);
    put(disk, 2, 0, 100);
    assert_int_equal(check_disk(disk), 5100);
    cache_disk_close(disk);
}

static void test_a_full_disk_costs_only_the_cache(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(1 << 20);
    for (size_t i = 0; i < CONTAINERS; i++) {
        put(disk, i, 0, 100000);
    }
    uint64_t before = cache_disk_bytes(disk);
    disk_errno = ENOSPC;
    put(disk, 0, 50000, 100000); /* half of it is there already: that half may be overwritten */
    assert_true(cache_disk_bytes(disk) < before);
    uint64_t left = check_disk(disk);
    assert_true(left > 0);
    disk_errno = 0;
    put(disk, 0, 200000, 1000); /* not so soon */
    assert_int_equal(check_disk(disk), left);
    cache_disk_close(disk);
    disk = open_disk(1 << 20);
    put(disk, 0, 200000, 1000);
    assert_int_equal(check_disk(disk), left + 1000);
    cache_disk_close(disk);
}

static void test_a_limit_on_file_sizes_costs_only_the_cache(void **state)
{
    (void)state;
    struct rlimit old = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit low = {100000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    struct cache_disk *disk = open_disk(1 << 20);
    put(disk, 0, 0, 50000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    put(disk, 0, 80000, 50000); /* half of it fits */
    assert_int_equal(check_disk(disk), 50000);
    cache_disk_close(disk);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    disk = open_disk(1 << 20);
    assert_int_equal(check_disk(disk), 50000);
    cache_disk_close(disk);
}

static void test_a_folder_that_vanishes_is_made_again(void **state)
{
    (void)state;
    struct cache_disk *disk = open_disk(1 << 20);
    put(disk, 0, 0, 10000);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
    put(disk, 1, 0, 10000); /* this one notices */
    put(disk, 2, 0, 10000);
    assert_int_equal(check_disk(disk), 10000);
    cache_disk_close(disk);
    disk = open_disk(1 << 20);
    assert_int_equal(check_disk(disk), 10000);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
    assert_int_equal(io_replace_file(folder, "a file", 6, 0600, NULL), ERR_OK);
    put(disk, 3, 0, 10000);
    put(disk, 4, 0, 10000);
    assert_int_equal(check_disk(disk), 0);
    cache_disk_close(disk);
    assert_int_not_equal(cache_disk_open(folder, 0, &disk, NULL), ERR_OK);
}

static void ignore(void *context, const struct container *container, struct ranges *ranges)
{
    (void)container;
    (void)ranges;
    (*(size_t *)context)++;
}

static void test_damage_of_every_byte_of_an_index_is_seen(void **state)
{
    (void)state;
    struct str index = {0};
    struct ranges ranges = {0};
    ranges_add(&ranges, 0, 5);
    ranges_add(&ranges, 10, 15);
    cache_index_begin(&index);
    for (size_t i = 0; i < 3; i++) {
        struct container container = nth(i);
        cache_index_add(&index, &container, &ranges);
    }
    cache_index_end(&index);
    size_t seen = 0;
    for (size_t i = 0; i < index.size; i++) {
        index.text[i] ^= 4;
        assert_int_equal(cache_index_read(index.text, index.size, ignore, &seen, NULL),
                         ERR_CORRUPT);
        index.text[i] ^= 4;
        assert_int_equal(cache_index_read(index.text, i, ignore, &seen, NULL), ERR_CORRUPT);
    }
    assert_int_equal(seen, 0);
    assert_int_equal(cache_index_read(index.text, index.size, ignore, &seen, NULL), ERR_OK);
    assert_int_equal(seen, 3);
    /* Sound to its checksum, but nonsense. */
    uint8_t *bytes = (uint8_t *)index.text;
    size_t places[] = {12, 16, 28};
    for (size_t i = 0; i < 3; i++) {
        uint32_t old = le_get_u32(bytes + places[i]);
        le_put_u32(bytes + places[i], UINT32_MAX);
        le_put_u64(bytes + index.size - 8, XXH3_64bits(bytes, index.size - 8));
        assert_int_equal(cache_index_read(bytes, index.size, ignore, &seen, NULL), ERR_CORRUPT);
        le_put_u32(bytes + places[i], old);
    }
    str_release(&index);
    ranges_release(&ranges);
}

enum { POSITIONS = 300 };

static struct cache_bodies *home;

static int make_home(void **state)
{
    (void)state;
    home = cache_bodies_create();
    return 0;
}

static int leave_home(void **state)
{
    (void)state;
    cache_bodies_destroy(home); /* which looks whether every body is gone */
    return 0;
}

static void remember(struct cache_memory *memory, const struct container *container,
                     uint64_t offset, struct str *bytes)
{
    struct cache_body *body = cache_body_create(home, bytes);
    cache_memory_add(memory, container, offset, body, CACHE_PASSING);
    cache_body_drop(body);
}

/* The plainest model of segments: for each position the number of the segment that holds it, or 0.
 * What overlaps [offset, offset + size) goes whole. */
static void model_drop(int *model, uint64_t offset, size_t size)
{
    for (uint64_t at = offset; at < offset + size; at++) {
        int gone = model[at];
        for (size_t k = 0; gone != 0 && k < POSITIONS; k++) {
            model[k] = model[k] == gone ? 0 : model[k];
        }
    }
}

static void compare_memory(struct cache_memory *memory, size_t index, const int *model)
{
    struct container container = nth(index);
    uint64_t next = UINT64_MAX;
    for (size_t k = POSITIONS; k-- > 0;) {
        size_t size = 0;
        const uint8_t *bytes = cache_memory_at(memory, &container, k, &size);
        assert_int_equal(bytes != NULL, model[k] != 0);
        uint64_t end = k;
        while (model[k] != 0 && end < POSITIONS && model[end] == model[k]) {
            end++;
        }
        assert_int_equal(cache_memory_covered_to(memory, &container, k), end);
        next = model[k] != 0 ? k : next;
        assert_int_equal(cache_memory_next(memory, &container, k), next);
        if (bytes) {
            assert_int_equal(size, end - k);
            assert_int_equal(*bytes, byte_at(index, k));
        }
    }
}

static void test_the_memory_cache_is_what_was_added_and_not_dropped(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    struct cache_memory *memory = cache_memory_create(1 << 20);
    int model[CONTAINERS][POSITIONS] = {{0}};
    for (int step = 1; step <= 3000; step++) {
        size_t index = (size_t)rng_below(&rng, CONTAINERS);
        struct container container = nth(index);
        uint64_t offset = rng_below(&rng, POSITIONS);
        size_t most = POSITIONS - offset < 40 ? (size_t)(POSITIONS - offset) : 40;
        size_t size = 1 + (size_t)rng_below(&rng, most);
        model_drop(model[index], offset, size);
        if (rng_below(&rng, 3) > 0) {
            AUTO_FREE uint8_t *bytes = bytes_of(index, offset, size);
            struct str body = {0};
            str_add_bytes(&body, bytes, size);
            remember(memory, &container, offset, &body);
            for (size_t k = 0; k < size; k++) {
                model[index][offset + k] = step;
            }
        } else {
            cache_memory_drop(memory, &container, offset, size);
        }
        compare_memory(memory, index, model[index]);
    }
    cache_memory_destroy(memory);
}

static void test_the_memory_cache_keeps_to_its_limit_and_what_is_awaited(void **state)
{
    (void)state;
    struct cache_memory *memory = cache_memory_create(100000);
    struct container container = nth(0);
    size_t size = 0;
    for (uint64_t i = 0; i < 100; i++) {
        struct str body = {0};
        str_add_repeat(&body, "x", 10000);
        struct cache_body *held = cache_body_create(home, &body);
        cache_memory_add(memory, &container, i * 20000, held, i == 0 ? CACHE_AWAITED : 0);
        cache_body_drop(held);
        cache_memory_trim(memory, 20000);
        assert_true(cache_memory_bytes(memory) <= 80000);
        assert_int_equal(cache_memory_covered_to(memory, &container, 0), 10000);
    }
    assert_non_null(cache_memory_at(memory, &container, 0, &size)); /* nobody waits any more */
    for (uint64_t i = 100; i < 110; i++) {
        struct str body = {0};
        str_add_repeat(&body, "x", 10000);
        remember(memory, &container, i * 20000, &body);
        cache_memory_trim(memory, 20000);
    }
    assert_null(cache_memory_at(memory, &container, 0, &size));
    cache_memory_destroy(memory);
}

/* A stream: what lies ahead came before the last use of what lies behind. */
static void test_what_was_read_to_its_end_goes_before_what_was_not_read(void **state)
{
    (void)state;
    struct cache_memory *memory = cache_memory_create(100000);
    struct container container = nth(0);
    for (uint64_t i = 0; i < 9; i++) {
        struct str body = {0};
        str_add_repeat(&body, "x", 10000);
        remember(memory, &container, i * 10000, &body);
    }
    for (uint64_t i = 0; i < 9; i += 4) { /* 0 and 8 to their ends, 4 not */
        size_t size = 5000;
        assert_non_null(
            cache_memory_at(memory, &container, i * 10000 + (i == 4 ? 0 : 5000), &size));
        assert_int_equal(size, i == 4 ? 10000 : 5000);
    }
    for (uint64_t i = 9; i < 12; i++) {
        struct str body = {0};
        str_add_repeat(&body, "x", 10000);
        remember(memory, &container, i * 10000, &body);
    }
    cache_memory_trim(memory, 0);
    assert_int_equal(cache_memory_next(memory, &container, 0), 10000);
    assert_int_equal(cache_memory_covered_to(memory, &container, 40000), 50000);
    assert_int_equal(cache_memory_covered_to(memory, &container, 70000), 80000);
    assert_int_equal(cache_memory_covered_to(memory, &container, 80000), 80000);
    cache_memory_destroy(memory);
}

static void test_checked_extents_are_known_until_they_are_dropped(void **state)
{
    (void)state;
    struct cache_memory *memory = cache_memory_create(100000);
    struct extent extent = {
        .container = nth(1), .offset = 500, .stored_size = 1000, .whole = 1000, .checksum = 7};
    struct str body = {0};
    str_add_repeat(&body, "x", 5000);
    remember(memory, &extent.container, 0, &body);
    assert_null(cache_memory_extent(memory, &extent));
    cache_memory_mark(memory, &extent);
    const char *bytes = cache_memory_extent(memory, &extent);
    assert_non_null(bytes);
    assert_int_equal(bytes[999], 'x');
    struct extent other = extent;
    other.checksum = 8;
    assert_null(cache_memory_extent(memory, &other));
    cache_memory_drop(memory, &extent.container, 1499, 1);
    assert_null(cache_memory_extent(memory, &extent));
    extent.codec = EXTENT_ZSTD;
    extent.whole = 30000;
    for (uint64_t i = 0; i < 5; i++) {
        extent.offset = i * 1000;
        cache_memory_keep(memory, &extent, mem_alloc(extent.whole));
        cache_memory_trim(memory, 0);
        assert_non_null(cache_memory_extent(memory, &extent)); /* the newest always stays */
        assert_true(cache_memory_bytes(memory) <= 60000);
    }
    cache_memory_drop(memory, &extent.container, 4500, 1);
    assert_null(cache_memory_extent(memory, &extent));
    cache_memory_destroy(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_the_disk_cache_has_is_right_and_within_its_limit,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_the_container_being_read_stays, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_one_large_container_keeps_what_is_near, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_the_next_cache_finds_what_is_there_and_nothing_else,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_files_that_were_cut_or_removed_are_forgotten,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_full_disk_costs_only_the_cache, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_a_limit_on_file_sizes_costs_only_the_cache,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_folder_that_vanishes_is_made_again, make_folder,
                                        remove_folder),
        cmocka_unit_test(test_damage_of_every_byte_of_an_index_is_seen),
        cmocka_unit_test_setup_teardown(test_the_memory_cache_is_what_was_added_and_not_dropped,
                                        make_home, leave_home),
        cmocka_unit_test_setup_teardown(
            test_the_memory_cache_keeps_to_its_limit_and_what_is_awaited, make_home, leave_home),
        cmocka_unit_test_setup_teardown(test_what_was_read_to_its_end_goes_before_what_was_not_read,
                                        make_home, leave_home),
        cmocka_unit_test_setup_teardown(test_checked_extents_are_known_until_they_are_dropped,
                                        make_home, leave_home),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
