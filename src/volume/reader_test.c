#include "volume/reader.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/pack.h"
#include "volume/reader_fake.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { PACK_BYTES = 3 << 20, EXTENT_BYTES = 50000 };

struct test {
    struct fake fake;
    struct reader *reader;
    char folder[64];
    struct reader_options options;
};

static int begin(void **state)
{
    struct test *test = mem_alloc(sizeof *test);
    fake_init(&test->fake, 4, PACK_BYTES);
    snprintf(test->folder, sizeof test->folder, "/tmp/reader_test.XXXXXX");
    test->options = (struct reader_options){
        .folder = test->folder, .folder_bytes = 100 << 20, .memory_bytes = 8 << 20};
    *state = test;
    return mkdtemp(test->folder) &&
                   reader_create(&test->fake.store, &test->options, &test->reader, NULL) == ERR_OK
               ? 0
               : -1;
}

static int end(void **state)
{
    struct test *test = *state;
    reader_destroy(test->reader);
    fake_release(&test->fake);
    enum err_code code = io_remove_tree(test->folder, NULL);
    free(test);
    return code == ERR_OK ? 0 : -1;
}

static void reopen(struct test *test)
{
    reader_destroy(test->reader);
    while (test->fake.first) {
        object_run(&test->fake.store, 0);
    }
    assert_int_equal(reader_create(&test->fake.store, &test->options, &test->reader, NULL), ERR_OK);
}

static struct reader_stats stats_of(const struct test *test)
{
    struct reader_stats stats = {0};
    reader_stats(test->reader, &stats);
    return stats;
}

/* Asks until it is no longer "again". */
static enum err_code get(struct test *test, const struct extent *extent, const void **bytes,
                         struct err *err)
{
    struct reader_ask ask = {extent, 0, 1};
    for (;;) {
        enum err_code code = reader_get(test->reader, &ask, bytes, err);
        if (code != ERR_AGAIN) {
            return code;
        }
        assert_true(test->fake.in_flight > 0);
        object_run(&test->fake.store, 0);
    }
}

static void expect(struct test *test, uint64_t pack, uint64_t offset, uint32_t size)
{
    struct extent extent = fake_extent(&test->fake, pack, offset, size);
    AUTO_FREE uint8_t *right = mem_alloc(size);
    fake_bytes(&test->fake, pack, offset, right, size);
    const void *bytes = NULL;
    struct err err = {0};
    enum err_code code = get(test, &extent, &bytes, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(code, ERR_OK);
    assert_memory_equal(bytes, right, size);
}

static void expect_pack(struct test *test, uint64_t pack)
{
    for (uint64_t at = 0; at + EXTENT_BYTES <= PACK_BYTES; at += EXTENT_BYTES) {
        expect(test, pack, at, EXTENT_BYTES);
    }
}

static void test_what_was_fetched_is_found_by_the_next_reader(void **state)
{
    struct test *test = *state;
    expect_pack(test, 0);
    expect_pack(test, 2);
    while (test->fake.first) {
        object_run(&test->fake.store, 0);
    }
    reopen(test);
    expect_pack(test, 0);
    expect_pack(test, 2);
    struct reader_stats stats = stats_of(test);
    assert_int_equal(stats.misses, 0);
    assert_int_equal(stats.hits_disk + stats.hits_memory, 2 * (PACK_BYTES / EXTENT_BYTES));
}

/* Changes a byte in each `step` of every cache file. */
static void damage_files(const struct test *test, off_t step)
{
    DIR *list = opendir(test->folder);
    if (!list) {
        return; /* the folder has vanished */
    }
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        int fd = entry->d_name[0] == 'p' ? openat(dirfd(list), entry->d_name, O_RDWR) : -1;
        struct stat info = {0};
        if (fd >= 0 && fstat(fd, &info) == 0) {
            for (off_t at = 7; at < info.st_size; at += step) {
                uint8_t byte = 0;
                assert_int_equal(pread(fd, &byte, 1, at), 1);
                byte ^= 0x20;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            }
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    closedir(list);
}

static void test_damaged_cache_files_are_fetched_again(void **state)
{
    struct test *test = *state;
    expect_pack(test, 0);
    reopen(test);
    damage_files(test, 200000);
    uint64_t bytes = test->fake.bytes;
    expect_pack(test, 0);
    assert_in_range(stats_of(test).damaged, PACK_BYTES / 200000 - 1, PACK_BYTES / 200000 + 1);
    assert_true(test->fake.bytes - bytes < PACK_BYTES); /* only what was damaged */
    reopen(test);
    expect_pack(test, 0); /* the cache was mended */
    assert_int_equal(stats_of(test).damaged, 0);
}

static void test_a_damaged_index_costs_only_fetches(void **state)
{
    struct test *test = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/index", test->folder);
    for (int round = 0; round < 4; round++) {
        expect_pack(test, 0);
        reader_destroy(test->reader);
        test->reader = NULL;
        struct str index = {0};
        assert_int_equal(io_read_file(path, 1 << 20, &index, NULL), ERR_OK);
        index.text[index.size / 4 * (size_t)round] ^= 1;
        assert_int_equal(io_replace_file(path, index.text, round == 3 ? 5 : index.size, 0600, NULL),
                         ERR_OK);
        str_release(&index);
        assert_int_equal(reader_create(&test->fake.store, &test->options, &test->reader, NULL),
                         ERR_OK);
        assert_int_equal(stats_of(test).disk_bytes, 0);
    }
    expect_pack(test, 0);
}

static void test_damage_on_the_way_is_fetched_again(void **state)
{
    struct test *test = *state;
    test->fake.damaged_at = 100;
    test->fake.damaged_times = 1;
    expect(test, 0, 50, 1000);
    assert_int_equal(stats_of(test).damaged, 1);
    assert_int_equal(test->fake.damaged_times, 0);
}

static void test_damage_in_the_cache_and_on_the_way_is_fetched_again(void **state)
{
    struct test *test = *state;
    expect_pack(test, 0);
    reopen(test);
    damage_files(test, PACK_BYTES);
    test->fake.damaged_at = 20;
    test->fake.damaged_times = 1;
    expect(test, 0, 0, 1000);
    assert_int_equal(stats_of(test).damaged, 2);
}

static void test_damage_in_the_store_is_said_and_never_given_out(void **state)
{
    struct test *test = *state;
    test->fake.damaged_at = 100;
    test->fake.damaged_times = 1000;
    struct extent bad = fake_extent(&test->fake, 0, 50, 1000);
    const void *bytes = NULL;
    for (int i = 0; i < 3; i++) {
        struct err err = {0};
        assert_int_equal(get(test, &bad, &bytes, &err), ERR_CORRUPT);
        assert_non_null(strstr(err.text, "packs/00000000-00000001-0000000000000000"));
    }
    assert_true(test->fake.damaged_times > 980);
    expect(test, 0, 2000, 1000); /* its neighbours are well */
    test->fake.damaged_times = 0;
    expect(test, 0, 50, 1000); /* and so is it once the store is */
}

/* More of them at once than anybody remembers. */
static void test_however_much_is_damaged_everybody_is_told(void **state)
{
    struct test *test = *state;
    enum { ASKS = 400 };
    bool told[ASKS] = {false};
    size_t untold = ASKS;
    test->fake.damaged_everywhere = true;
    for (int round = 0; untold > 0; round++) {
        assert_true(round < 3 * ASKS);
        for (size_t i = 0; i < ASKS; i++) {
            struct extent extent = fake_extent(&test->fake, i % 4, i / 4 * 20000, 1000);
            struct reader_ask ask = {&extent, 0, 1};
            const void *bytes = NULL;
            if (!told[i]) {
                told[i] = reader_get(test->reader, &ask, &bytes, NULL) == ERR_CORRUPT;
                untold -= told[i];
            }
        }
        object_run(&test->fake.store, 0);
    }
    test->fake.damaged_everywhere = false;
    expect(test, 1, 0, 1000);
}

static void test_however_many_others_wait_damage_is_told(void **state)
{
    struct test *test = *state;
    enum { OTHERS = 200, OTHER_BYTES = 4096 };
    test->options.folder = NULL;
    reopen(test);
    test->fake.damaged_at = 100;
    test->fake.damaged_times = 1000000;
    enum err_code code = ERR_AGAIN;
    uint64_t at = 0;
    for (int round = 0; code == ERR_AGAIN; round++) {
        assert_true(round < 10);
        struct extent bad = fake_extent(&test->fake, 0, 50, 1000);
        struct reader_ask ask = {&bad, 0, 1};
        const void *bytes = NULL;
        code = reader_get(test->reader, &ask, &bytes, NULL);
        for (int i = 0; i < OTHERS; i++, at += OTHER_BYTES) {
            struct extent other =
                fake_extent(&test->fake, 1 + at / PACK_BYTES % 3, at % PACK_BYTES, OTHER_BYTES);
            struct reader_ask other_ask = {&other, 0, 2};
            (void)!reader_get(test->reader, &other_ask, &bytes, NULL);
        }
        while (test->fake.first) {
            object_run(&test->fake.store, 0);
        }
    }
    assert_int_equal(code, ERR_CORRUPT);
}

/* Without a folder. A read of many pieces that asks for all of them again whenever one has come. */
static void test_a_read_of_many_scattered_pieces_fetches_each_once(void **state)
{
    struct test *test = *state;
    enum { PIECES = 32, PIECE_BYTES = 65536 };
    test->options.folder = NULL;
    test->options.memory_bytes = 8 << 20;
    reopen(test);
    for (uint64_t pack = 0; pack < 4; pack++) { /* memory is full of other things */
        expect_pack(test, pack);
    }
    while (test->fake.first) {
        object_run(&test->fake.store, 0);
    }
    uint64_t gets = test->fake.gets;
    for (size_t have = 0; have < PIECES;) {
        for (have = 0; have < PIECES; have++) {
            struct extent extent =
                fake_extent(&test->fake, have % 4, (have * 7 % PIECES) * PIECE_BYTES, PIECE_BYTES);
            struct reader_ask ask = {&extent, 0, have + 10};
            const void *bytes = NULL;
            if (reader_get(test->reader, &ask, &bytes, NULL) != ERR_OK) {
                break;
            }
        }
        object_run(&test->fake.store, 0);
    }
    assert_true(test->fake.gets - gets <= (uint64_t)3 * PIECES);
}

static void test_what_the_store_says_is_passed_on_once(void **state)
{
    struct test *test = *state;
    struct extent extent = fake_extent(&test->fake, 0, 50, 1000);
    static const enum err_code said[] = {ERR_DENIED, ERR_IO, ERR_AGAIN, ERR_TIMEOUT, ERR_NOT_FOUND};
    static const enum err_code heard[] = {ERR_DENIED, ERR_IO, ERR_IO, ERR_TIMEOUT, ERR_NOT_FOUND};
    const void *bytes = NULL;
    for (size_t i = 0; i < 5; i++) {
        test->fake.fail = said[i];
        struct err err = {0};
        assert_int_equal(get(test, &extent, &bytes, &err), heard[i]);
        assert_non_null(strstr(err.text, ": a failure"));
    }
    test->fake.fail = ERR_OK;
    expect(test, 0, 50, 1000);
    struct extent missing = fake_extent(&test->fake, 0, 50, 1000);
    missing.container.number = 99;
    assert_int_equal(get(test, &missing, &bytes, NULL), ERR_NOT_FOUND);
}

static enum err_code ask_once(struct test *test, uint64_t pack, uint64_t offset)
{
    struct extent extent = fake_extent(&test->fake, pack, offset, 1000);
    struct reader_ask ask = {&extent, 0, 1};
    const void *bytes = NULL;
    return reader_get(test->reader, &ask, &bytes, NULL);
}

static void test_a_failure_is_told_to_those_who_waited_and_to_nobody_else(void **state)
{
    struct test *test = *state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(ask_once(test, 0, 5000), ERR_AGAIN);
    assert_int_equal(ask_once(test, 0, 2 * mib), ERR_AGAIN);
    assert_int_equal(ask_once(test, 0, 2 * mib + 5000), ERR_AGAIN);
    test->fake.fail = ERR_IO;
    while (test->fake.first) {
        object_run(&test->fake.store, 0);
    }
    test->fake.fail = ERR_OK;
    expect(test, 0, 2 * mib + 20000, 1000);
    expect(test, 0, 20000, 1000);
    test->fake.fail = ERR_IO;
    assert_int_equal(ask_once(test, 1, mib + 5000), ERR_AGAIN);
    assert_int_equal(ask_once(test, 1, mib + 9000), ERR_AGAIN);
    while (test->fake.first) {
        object_run(&test->fake.store, 0);
    }
    uint64_t gets = test->fake.gets;
    assert_int_equal(ask_once(test, 1, mib + 5000), ERR_IO);
    assert_int_equal(ask_once(test, 1, mib + 9000), ERR_IO);
    assert_int_equal(test->fake.gets, gets); /* one fetch was enough to tell both */
    test->fake.fail = ERR_OK;
    expect(test, 1, mib + 5000, 1000);
}

static void test_however_many_wait_a_failure_is_told(void **state)
{
    struct test *test = *state;
    enum { ASKS = 1000 };
    test->fake.fail = ERR_IO;
    bool told[ASKS] = {false};
    size_t untold = ASKS;
    for (int round = 0; untold > 0; round++) {
        assert_true(round < 2 * ASKS);
        for (size_t i = 0; i < ASKS; i++) {
            if (!told[i]) {
                told[i] = ask_once(test, i % 4, (uint64_t)i * 2000) == ERR_IO;
                untold -= told[i];
            }
        }
        object_run(&test->fake.store, 0);
    }
}

static void test_extents_behind_the_end_or_impossible_are_corrupt(void **state)
{
    struct test *test = *state;
    const void *bytes = NULL;
    struct extent extent = fake_extent(&test->fake, 0, PACK_BYTES - 500, 1000);
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    extent.offset = PACK_BYTES + 5000;
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    extent.offset = UINT64_MAX - 10;
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    struct extent good = fake_extent(&test->fake, 0, 0, 1000);
    extent = good;
    extent.stored_size = 0;
    extent.whole = 0;
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    extent = good;
    extent.container.kind = CONTAINER_RUN;
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    extent = good;
    extent.whole = UINT32_MAX;
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
    extent = good;
    extent.codec = EXTENT_ZSTD; /* the bytes are right, but do not decompress */
    assert_int_equal(get(test, &extent, &bytes, NULL), ERR_CORRUPT);
}

static void test_a_vanished_folder_costs_only_fetches(void **state)
{
    struct test *test = *state;
    expect_pack(test, 0);
    assert_int_equal(io_remove_tree(test->folder, NULL), ERR_OK);
    for (uint64_t pack = 0; pack < 4; pack++) {
        expect_pack(test, pack);
    }
    expect_pack(test, 0);
    reopen(test);
    expect_pack(test, 3);
    assert_true(stats_of(test).hits_disk > 0);
}

static void test_a_second_reader_of_a_folder_uses_memory_alone(void **state)
{
    struct test *test = *state;
    expect_pack(test, 0);
    struct reader *first = test->reader;
    assert_int_equal(reader_create(&test->fake.store, &test->options, &test->reader, NULL), ERR_OK);
    expect_pack(test, 0);
    assert_int_equal(stats_of(test).disk_bytes, 0);
    assert_int_equal(stats_of(test).hits_disk, 0);
    reader_destroy(test->reader);
    test->reader = first;
    struct reader_options nowhere = {.folder = "/dev/null/cache"};
    struct reader *none = NULL;
    assert_int_not_equal(reader_create(&test->fake.store, &nowhere, &none, NULL), ERR_OK);
    assert_null(none);
}

static void test_a_reader_may_go_while_fetches_are_in_flight(void **state)
{
    struct test *test = *state;
    struct extent extent = fake_extent(&test->fake, 0, 0, 1000);
    struct reader_ask ask = {&extent, PACK_BYTES, 1};
    const void *bytes = NULL;
    assert_int_equal(reader_get(test->reader, &ask, &bytes, NULL), ERR_AGAIN);
    assert_true(test->fake.in_flight > 0);
    reopen(test); /* they end afterwards */
    assert_int_equal(reader_get(test->reader, &ask, &bytes, NULL), ERR_AGAIN);
    reader_destroy(test->reader);
    test->reader = NULL; /* and these are cancelled when the store closes */
}

static void test_raw_bytes_come_from_the_same_caches(void **state)
{
    struct test *test = *state;
    struct container container = {CONTAINER_PACK, 0, 1, 1};
    struct rng rng = {5};
    AUTO_FREE uint8_t *right = mem_alloc(2 << 20);
    for (int i = 0; i < 200; i++) {
        if (i == 100) {
            reopen(test);
        }
        uint64_t offset = rng_below(&rng, PACK_BYTES - 10);
        size_t size = 1 + (size_t)rng_below(&rng, i % 20 ? 30000 : 2 << 20);
        size = size < PACK_BYTES - offset ? size : (size_t)(PACK_BYTES - offset);
        const void *bytes = NULL;
        enum err_code code = ERR_AGAIN;
        while (code == ERR_AGAIN) {
            code = reader_get_raw(test->reader, &container, offset, size, &bytes, NULL);
            object_run(&test->fake.store, 0);
            if (code == ERR_OK) {
                break;
            }
        }
        assert_int_equal(code, ERR_OK);
        code = reader_get_raw(test->reader, &container, offset, size, &bytes, NULL);
        assert_int_equal(code, ERR_OK);
        fake_bytes(&test->fake, 1, offset, right, size);
        assert_memory_equal(bytes, right, size);
    }
    uint64_t fetched = test->fake.bytes;
    const void *bytes = NULL;
    reader_drop_raw(test->reader, &container, 5000, 100);
    assert_int_equal(reader_get_raw(test->reader, &container, 5000, 100, &bytes, NULL), ERR_AGAIN);
    object_run(&test->fake.store, 0);
    assert_int_equal(reader_get_raw(test->reader, &container, 5000, 100, &bytes, NULL), ERR_OK);
    assert_true(test->fake.bytes > fetched);
    assert_int_equal(
        reader_get_raw(test->reader, &container, PACK_BYTES - 5, SIZE_MAX / 2, &bytes, NULL),
        ERR_CORRUPT);
}

static void test_compressed_extents_of_a_real_pack_are_read(void **state)
{
    struct test *test = *state;
    struct object_shelf *shelf = object_shelf_create();
    struct object_store *store = object_memory_open(shelf);
    struct container container = {CONTAINER_PACK, 0, 7, 1};
    struct packer *packer = packer_create(&container, PACK_BYTES_DEFAULT, 3);
    AUTO_FREE uint8_t *data = mem_alloc(EXTENT_BYTES_MAX);
    struct extent extents[20] = {0};
    for (size_t i = 0; i < 20; i++) {
        memset(data, (int)i, EXTENT_BYTES_MAX);
        packer_add(packer, i, 0, data, 1 + i * 40000, &extents[i]);
    }
    struct str object = {0};
    packer_seal(packer, &object);
    packer_destroy(packer);
    char name[CONTAINER_NAME_MAX];
    container_name(&container, name);
    assert_int_equal(object_put(store, name, object.text, object.size, NULL), ERR_OK);
    str_release(&object);
    reader_destroy(test->reader);
    for (int round = 0; round < 2; round++) { /* fetched, then from the folder */
        assert_int_equal(reader_create(store, &test->options, &test->reader, NULL), ERR_OK);
        for (size_t i = 0; i < 20; i++) {
            struct reader_ask ask = {&extents[i], 0, i};
            const void *bytes = NULL;
            while (reader_get(test->reader, &ask, &bytes, NULL) == ERR_AGAIN) {
                object_run(store, 10);
            }
            memset(data, (int)i, EXTENT_BYTES_MAX);
            assert_non_null(bytes);
            assert_memory_equal(bytes, data, extents[i].whole);
        }
        assert_int_equal(stats_of(test).hits_disk > 0, round == 1);
        reader_destroy(test->reader);
    }
    test->reader = NULL;
    object_close(store);
    object_shelf_destroy(shelf);
}

/* Anything at once: small caches, damage in the files and on the way, failures, restarts. What is
 * given out is right every time, and the bounds hold. */
static void test_whatever_happens_the_bytes_are_right(void **state)
{
    struct test *test = *state;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    uint64_t at = 0;
    test->options.folder_bytes = 4 << 20;
    test->options.memory_bytes = 2 << 20;
    reopen(test);
    for (int step = 0; step < 3000; step++) {
        uint64_t kind = rng_below(&rng, 1000);
        if (kind < 3) {
            reopen(test);
        } else if (kind < 6) {
            damage_files(test, 500000);
        } else if (kind < 8) {
            assert_int_equal(io_remove_tree(test->folder, NULL), ERR_OK);
        } else if (kind < 10) {
            test->options.folder = rng_below(&rng, 2) ? test->folder : NULL;
        }
        test->fake.damaged_at = rng_below(&rng, PACK_BYTES);
        test->fake.damaged_times = rng_below(&rng, 4) == 0;
        test->fake.fail = rng_below(&rng, 10) == 0 ? ERR_IO : ERR_OK;
        uint32_t size = 1 + (uint32_t)rng_below(&rng, 100000);
        at = rng_below(&rng, 4) == 0 ? rng_below(&rng, (uint64_t)4 * PACK_BYTES) : at;
        uint64_t pack = at / PACK_BYTES % 4;
        uint64_t offset = at % PACK_BYTES;
        size = offset + size > PACK_BYTES ? (uint32_t)(PACK_BYTES - offset) : size;
        struct extent extent = fake_extent(&test->fake, pack, offset, size);
        AUTO_FREE uint8_t *right = mem_alloc(size);
        fake_bytes(&test->fake, pack, offset, right, size);
        const void *bytes = NULL;
        enum err_code code = get(test, &extent, &bytes, NULL);
        assert_true(code == ERR_OK || code == ERR_IO);
        assert_true(code == ERR_OK || test->fake.fail == ERR_IO);
        if (code == ERR_OK) {
            assert_memory_equal(bytes, right, size);
        }
        at += size;
        assert_true(stats_of(test).disk_bytes <= 4 << 20);
        assert_true(stats_of(test).memory_bytes <= 24 << 20);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_fetched_is_found_by_the_next_reader),
        TEST(test_damaged_cache_files_are_fetched_again),
        TEST(test_a_damaged_index_costs_only_fetches),
        TEST(test_damage_on_the_way_is_fetched_again),
        TEST(test_damage_in_the_cache_and_on_the_way_is_fetched_again),
        TEST(test_damage_in_the_store_is_said_and_never_given_out),
        TEST(test_however_much_is_damaged_everybody_is_told),
        TEST(test_however_many_others_wait_damage_is_told),
        TEST(test_a_read_of_many_scattered_pieces_fetches_each_once),
        TEST(test_what_the_store_says_is_passed_on_once),
        TEST(test_a_failure_is_told_to_those_who_waited_and_to_nobody_else),
        TEST(test_however_many_wait_a_failure_is_told),
        TEST(test_extents_behind_the_end_or_impossible_are_corrupt),
        TEST(test_a_vanished_folder_costs_only_fetches),
        TEST(test_a_second_reader_of_a_folder_uses_memory_alone),
        TEST(test_a_reader_may_go_while_fetches_are_in_flight),
        TEST(test_raw_bytes_come_from_the_same_caches),
        TEST(test_compressed_extents_of_a_real_pack_are_read),
        TEST(test_whatever_happens_the_bytes_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
