#include "volume/logobj.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/le.h"
#include "volume/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

enum { COUNT_MAX = 60 };

struct commit {
    struct logobj_header header;
    struct str data;
    struct logobj_change changes[COUNT_MAX];
    size_t count;
    size_t seen; /* while reading */
};

static uint8_t *random_bytes(struct rng *rng, size_t size)
{
    uint8_t *bytes = mem_alloc(size);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)rng_next(rng);
    }
    return bytes;
}

static void commit_make(struct commit *commit, struct rng *rng, size_t sizes_max)
{
    *commit = (struct commit){0};
    for (size_t i = 0; i < 16; i++) {
        commit->header.uuid[i] = (uint8_t)rng_next(rng);
    }
    commit->header.seq = rng_next(rng);
    commit->header.term = (uint32_t)rng_next(rng);
    commit->header.flags = (uint32_t)rng_below(rng, 2);
    size_t size = (size_t)rng_below(rng, sizes_max);
    AUTO_FREE uint8_t *data = random_bytes(rng, size);
    str_add_bytes(&commit->data, data, size);
    commit->count = (size_t)rng_below(rng, COUNT_MAX + 1);
    for (size_t i = 0; i < commit->count; i++) {
        struct logobj_change *change = &commit->changes[i];
        change->key_size = 1 + (size_t)rng_below(rng, MAP_KEY_MAX);
        change->key = random_bytes(rng, change->key_size);
        if (rng_below(rng, 4) > 0) {
            change->value_size = (size_t)rng_below(rng, sizes_max);
            change->value = random_bytes(rng, change->value_size);
        }
    }
}

static void commit_release(struct commit *commit)
{
    str_release(&commit->data);
    for (size_t i = 0; i < commit->count; i++) {
        free((void *)(uintptr_t)commit->changes[i].key);
        free((void *)(uintptr_t)commit->changes[i].value);
    }
}

static void expect_change(void *context, const struct logobj_change *change)
{
    struct commit *commit = context;
    assert_true(commit->seen < commit->count);
    const struct logobj_change *want = &commit->changes[commit->seen++];
    assert_int_equal(change->key_size, want->key_size);
    assert_memory_equal(change->key, want->key, want->key_size);
    assert_int_equal(change->value == NULL, want->value == NULL);
    assert_int_equal(change->value_size, want->value_size);
    if (want->value_size > 0) {
        assert_memory_equal(change->value, want->value, want->value_size);
    }
}

static void never(void *context, const struct logobj_change *change)
{
    (void)context;
    (void)change;
    fail_msg("a change of a damaged commit was given out");
}

static void test_a_commit_reads_back_what_was_written(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    struct str object = {0};
    for (int round = 0; round < 50; round++) {
        struct commit commit;
        commit_make(&commit, &rng, 20000);
        logobj_write(&commit.header, &commit.data, commit.changes, commit.count, &object);
        assert_memory_equal(object.text + LOGOBJ_HEADER_BYTES, str_text(&commit.data),
                            commit.data.size);
        struct logobj_header header = {0};
        struct err err = {0};
        assert_int_equal(logobj_read(object.text, object.size, &commit.header, &header,
                                     expect_change, &commit, &err),
                         ERR_OK);
        assert_int_equal(commit.seen, commit.count);
        assert_memory_equal(&header, &commit.header, sizeof header);
        commit_release(&commit);
    }
    str_release(&object);
}

static void test_an_empty_commit_is_a_commit(void **state)
{
    (void)state;
    struct logobj_header header = {.seq = 1, .term = 1, .flags = LOGOBJ_FENCE};
    struct logobj_header back = {0};
    struct str object = {0};
    logobj_write(&header, NULL, NULL, 0, &object);
    assert_int_equal(object.size, LOGOBJ_HEADER_BYTES);
    assert_int_equal(logobj_read(object.text, object.size, NULL, &back, never, NULL, NULL), ERR_OK);
    assert_int_equal(back.flags, LOGOBJ_FENCE);
    str_release(&object);
}

static void test_damage_of_every_byte_is_seen(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    struct commit commit;
    commit_make(&commit, &rng, 100);
    struct str object = {0};
    logobj_write(&commit.header, &commit.data, commit.changes, commit.count, &object);
    struct logobj_header header = {0};
    for (size_t i = 0; i < object.size; i++) {
        char old = object.text[i];
        object.text[i] = (char)(old ^ (1 << rng_below(&rng, 8)));
        assert_int_equal(logobj_read(object.text, object.size, NULL, &header, never, NULL, NULL),
                         ERR_CORRUPT);
        object.text[i] = old;
        assert_int_equal(logobj_read(object.text, i, NULL, &header, never, NULL, NULL),
                         ERR_CORRUPT);
    }
    str_add_char(&object, 'x');
    assert_int_equal(logobj_read(object.text, object.size, NULL, &header, never, NULL, NULL),
                     ERR_CORRUPT);
    commit_release(&commit);
    str_release(&object);
}

static void test_another_volume_or_place_is_refused(void **state)
{
    (void)state;
    struct logobj_header header = {.uuid = {1}, .seq = 5, .term = 1};
    struct str object = {0};
    logobj_write(&header, NULL, NULL, 0, &object);
    struct logobj_header other = header;
    struct err err = {0};
    other.seq = 6;
    assert_int_equal(logobj_read(object.text, object.size, &other, NULL, never, NULL, &err),
                     ERR_CORRUPT);
    assert_string_equal(err.text, "log object 5 lies where 6 should");
    other = header;
    other.uuid[15] = 1;
    assert_int_equal(logobj_read(object.text, object.size, &other, NULL, never, NULL, &err),
                     ERR_CORRUPT);
    assert_string_equal(err.text, "a log object is of another volume");
    other = header;
    other.term = 9; /* not compared: an older term's commits are replayed by the next owner */
    assert_int_equal(logobj_read(object.text, object.size, &other, NULL, never, NULL, &err),
                     ERR_OK);
    str_release(&object);
}

/* With a right checksum, so that the sizes themselves are judged. */
static void test_hostile_sizes_are_refused(void **state)
{
    (void)state;
    struct logobj_header header = {.seq = 5};
    struct logobj_change changes[2] = {{(const uint8_t *)"key", 3, (const uint8_t *)"value", 5},
                                       {(const uint8_t *)"k", 1, NULL, 0}};
    struct str data = {0};
    str_add(&data, "0123456789");
    struct {
        size_t at;
        uint64_t value;
        size_t width;
    } faults[] = {
        {48, 11, 8},         {48, UINT64_MAX, 8}, {48, 0, 8},        {56, 0, 8},
        {56, UINT64_MAX, 8}, {64, 1, 8},          {64, 3, 8},        {64, UINT64_MAX, 8},
        {106, 0, 4},         {106, 4, 4},         {106, 5000, 4},    {106, UINT32_MAX, 4},
        {110, 4, 4},         {110, 6, 4},         {110, 1 << 21, 4}, {110, UINT32_MAX - 1, 4},
        {110, UINT32_MAX, 4}};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct str object = {0};
        logobj_write(&header, &data, changes, 2, &object);
        uint8_t *bytes = (uint8_t *)object.text;
        if (faults[i].width == 8) {
            le_put_u64(bytes + faults[i].at, faults[i].value);
        } else {
            le_put_u32(bytes + faults[i].at, (uint32_t)faults[i].value);
        }
        uint64_t sum = XXH3_64bits(bytes, 88);
        sum = XXH3_64bits_withSeed(bytes + 96, object.size - 96, sum);
        le_put_u64(bytes + 88, sum);
        assert_int_equal(logobj_read(bytes, object.size, NULL, NULL, never, NULL, NULL),
                         ERR_CORRUPT);
        str_release(&object);
    }
    str_release(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_commit_reads_back_what_was_written),
        cmocka_unit_test(test_an_empty_commit_is_a_commit),
        cmocka_unit_test(test_damage_of_every_byte_is_seen),
        cmocka_unit_test(test_another_volume_or_place_is_refused),
        cmocka_unit_test(test_hostile_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
