/* Files and folders larger than the map's cache, over the real map: operations that have to wait
 * for one block after another come to an end. */
#include "base/mem.h"
#include "volume/engine.h"
#include "volume/engine_internal.h"
#include "volume/engine_testmap.h"
#include "volume/logobj.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum {
    EXTENTS = 200000,
    EXTENTS_AT_ONCE = 1000,
    EXTENTS_OF_PACK = 20000,
    EXTENT_BYTES = 4096,
    ENTRIES = 60000,
    WAITS_MAX =
        5000, /* blocks that an operation may have to wait for; rather more than there are */
};

static const struct engine_caller caller = {.now_ns = 5000};

struct bed {
    struct testmap *testmap;
    struct engine *engine;
};

static struct bed bed_create(void)
{
    struct bed bed = {.testmap = testmap_create(1, 1)};
    bed.engine = engine_create(testmap_map(bed.testmap));
    engine_set_seq(bed.engine, 1);
    engine_format(bed.engine, &caller, 0755);
    return bed;
}

static void bed_destroy(struct bed *bed)
{
    engine_destroy(bed->engine);
    testmap_destroy(bed->testmap);
}

static void ignore_change(void *context, const struct logobj_change *change)
{
    (void)context;
    (void)change;
}

static bool ignore_pair(void *context, struct map_slice key, struct map_slice value)
{
    (void)context;
    (void)key;
    (void)value;
    return true;
}

static void checkpoint(struct bed *bed)
{
    engine_take(bed->engine, ignore_change, NULL);
    testmap_checkpoint(bed->testmap, bed->engine, ignore_pair, NULL);
}

#define PATIENTLY(bed_, code, call)                                                                \
    for (int waits_ = 0; ((code) = (call)) == ERR_AGAIN; waits_++) {                               \
        assert_true(waits_ < WAITS_MAX);                                                           \
        testmap_supply((bed_)->testmap);                                                           \
    }

static uint64_t make(struct bed *bed, const char *name)
{
    struct engine_make how = {.folder = ENGINE_ROOT, .name = name, .mode = S_IFREG | 0644};
    struct engine_attr attr;
    int posix = 0;
    enum err_code code = ERR_OK;
    PATIENTLY(bed, code, engine_make(bed->engine, &caller, &how, &attr, &posix, NULL));
    assert_int_equal(code, ERR_OK);
    return attr.inode;
}

static void write_many(struct bed *bed, uint64_t inode, uint64_t first, uint64_t pack,
                       uint64_t size)
{
    struct extent extents[EXTENTS_AT_ONCE];
    for (uint64_t i = 0; i < EXTENTS_AT_ONCE; i++) {
        extents[i] = (struct extent){.file_offset = (first + i) * EXTENT_BYTES,
                                     .size = EXTENT_BYTES,
                                     .container = {CONTAINER_PACK, 0, 1, pack},
                                     .offset = (first + i) * EXTENT_BYTES,
                                     .stored_size = EXTENT_BYTES,
                                     .checksum = first * i,
                                     .whole = EXTENT_BYTES};
    }
    struct engine_write write = {
        .inode = inode, .size = size, .extents = extents, .count = EXTENTS_AT_ONCE};
    struct engine_attr attr;
    int posix = 0;
    enum err_code code = ERR_OK;
    PATIENTLY(bed, code, engine_write(bed->engine, &caller, &write, &attr, &posix, NULL));
    assert_int_equal(code, ERR_OK);
}

static bool count_extent(void *context, const struct extent *extent)
{
    (void)extent;
    ++*(size_t *)context;
    return true;
}

static bool see_dead(void *context, const struct engine_container *container)
{
    assert_int_equal(container->live, 0);
    assert_int_equal(container->dead, 2);
    ++*(size_t *)context;
    return true;
}

static void test_a_file_of_very_many_extents_is_read_cut_and_removed(void **state)
{
    (void)state;
    struct bed bed = bed_create();
    uint64_t inode = make(&bed, "big");
    for (uint64_t i = 0; i < EXTENTS; i += EXTENTS_AT_ONCE) {
        write_many(&bed, inode, i, i / EXTENTS_OF_PACK, (i + EXTENTS_AT_ONCE) * EXTENT_BYTES);
    }
    size_t packs = EXTENTS / EXTENTS_OF_PACK + 1; /* the last is for later */
    for (uint64_t i = 0; i < packs; i++) {
        engine_container_add(bed.engine, &(struct engine_container){
                                             .container = {CONTAINER_PACK, 0, 1, i}, .born = 1});
    }
    checkpoint(&bed);
    size_t count = 0;
    int posix = 0;
    enum err_code code = ERR_OK;
    struct engine_span span = {inode, 0, UINT64_MAX};
    PATIENTLY(&bed, code, engine_extents(bed.engine, &span, count_extent, &count, &posix, NULL));
    assert_int_equal(count, EXTENTS);
    engine_set_seq(bed.engine, 2);
    struct engine_set half = {
        .attr = {.inode = inode, .size = (uint64_t)EXTENTS / 2 * EXTENT_BYTES},
        .set = ENGINE_SET_SIZE};
    struct engine_attr attr;
    PATIENTLY(&bed, code, engine_setattr(bed.engine, &caller, &half, &attr, &posix, NULL));
    assert_int_equal(attr.stored, half.attr.size);
    checkpoint(&bed);
    /* What is written and what is cut off need not be next to one another. */
    write_many(&bed, inode, 0, packs - 1, half.attr.size / 3 * 2);
    checkpoint(&bed);
    /* A removal that is waiting while someone writes sees what was written. */
    struct engine_remove remove = {.folder = ENGINE_ROOT, .name = "big"};
    while (bed.engine->rest.inode != inode) {
        code = engine_remove(bed.engine, &caller, &remove, &posix, NULL);
        assert_int_equal(code, ERR_AGAIN);
        testmap_supply(bed.testmap);
    }
    write_many(&bed, inode, EXTENTS_AT_ONCE, packs - 1, half.attr.size);
    PATIENTLY(&bed, code, engine_remove(bed.engine, &caller, &remove, &posix, NULL));
    assert_int_equal(code, ERR_OK);
    struct engine_usage usage;
    engine_usage(bed.engine, &usage);
    assert_int_equal(usage.files, 1);
    assert_int_equal(usage.bytes, 0);
    count = 0;
    PATIENTLY(&bed, code, engine_containers(bed.engine, see_dead, &count, NULL));
    assert_int_equal(count, packs);
    bed_destroy(&bed);
}

struct listed {
    char last[32];
    size_t count;
};

static bool see_entry(void *context, const struct engine_entry *entry)
{
    struct listed *listed = context;
    assert_true(strcmp(listed->last, entry->name) < 0);
    assert_non_null(entry->attr);
    (void)snprintf(listed->last, sizeof listed->last, "%s", entry->name);
    listed->count++;
    return true;
}

/* step: 1 makes inodes in the order of names, others scatter them. */
static void list_many(uint64_t step)
{
    struct bed bed = bed_create();
    for (uint64_t i = 0; i < ENTRIES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "entry-%06llu", (unsigned long long)(i * step % ENTRIES));
        (void)make(&bed, name);
    }
    checkpoint(&bed);
    struct listed listed = {0};
    enum err_code code = ERR_AGAIN;
    for (int waits = 0; code == ERR_AGAIN; waits++) {
        char after[32];
        (void)snprintf(after, sizeof after, "%s", listed.last);
        struct engine_listing listing = {
            .folder = ENGINE_ROOT, .after = *after ? after : NULL, .plus = true};
        int posix = 0;
        assert_true(waits < WAITS_MAX);
        code = engine_list(bed.engine, &listing, see_entry, &listed, &posix, NULL);
        testmap_supply(bed.testmap);
    }
    assert_int_equal(code, ERR_OK);
    assert_int_equal(listed.count, ENTRIES);
    bed_destroy(&bed);
}

static void test_a_large_folder_is_listed_with_little_memory(void **state)
{
    (void)state;
    list_many(1);
    list_many(7919);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_of_very_many_extents_is_read_cut_and_removed),
        cmocka_unit_test(test_a_large_folder_is_listed_with_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
