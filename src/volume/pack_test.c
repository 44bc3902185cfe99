#include "volume/pack.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/le.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

static const struct container CONTAINER = {CONTAINER_PACK, 0, 3, 9};

struct item {
    uint64_t inode;
    struct extent extent;
    uint8_t *data;
};

static struct rng new_rng(void)
{
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return (struct rng){seed};
}

/* Bytes that compress well, or not at all. */
static uint8_t *make_data(struct rng *rng, size_t size)
{
    uint8_t *data = mem_alloc(size);
    bool noise = rng_below(rng, 2) == 0;
    for (size_t i = 0; i < size; i++) {
        data[i] = noise ? (uint8_t)rng_next(rng) : (uint8_t)(i / 50);
    }
    return data;
}

static void seal(struct item *items, size_t count, int level, struct rng *rng, struct str *out)
{
    struct packer *packer = packer_create(&CONTAINER, PACK_BYTES_DEFAULT, level);
    for (size_t i = 0; i < count; i++) {
        size_t size = 1 + (size_t)rng_below(rng, i % 10 == 9 ? EXTENT_BYTES_MAX : 5000);
        items[i].inode = rng_next(rng);
        items[i].data = make_data(rng, size);
        assert_true(packer_has_room(packer, size));
        packer_add(packer, items[i].inode, i * 1000, items[i].data, size, &items[i].extent);
        const struct extent *extent = &items[i].extent;
        assert_int_equal(packer_size(packer), extent->offset + extent->stored_size);
        uint8_t *decoded = mem_alloc(extent->whole);
        assert_int_equal(extent_decode(extent,
                                       packer_bytes(packer, extent->offset, extent->stored_size),
                                       decoded, NULL),
                         ERR_OK);
        assert_memory_equal(decoded, items[i].data, size);
        free(decoded);
    }
    assert_null(packer_bytes(packer, 1, packer_size(packer)));
    packer_seal(packer, out);
    packer_destroy(packer);
}

static enum err_code open_pack(const uint8_t *bytes, size_t size, struct pack_item **items,
                               size_t *count, struct err *err)
{
    uint64_t offset = 0;
    uint64_t footer_size = 0;
    if (size < PACK_TAIL_BYTES) {
        return err_set(err, ERR_CORRUPT, "too short");
    }
    enum err_code code =
        pack_tail_read(bytes + size - PACK_TAIL_BYTES, size, &offset, &footer_size, err);
    if (code != ERR_OK) {
        return code;
    }
    assert_int_equal(offset + footer_size, size);
    return pack_footer_read(&CONTAINER, bytes + offset, (size_t)footer_size, size, items, count,
                            err);
}

static void check_pack(const struct str *pack, const struct item *items, size_t count)
{
    struct pack_item *found = NULL;
    size_t found_count = 0;
    struct err err = {0};
    enum err_code code =
        open_pack((const uint8_t *)pack->text, pack->size, &found, &found_count, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(code, ERR_OK);
    assert_int_equal(found_count, count);
    CHECK(found);
    for (size_t i = 0; i < count; i++) {
        const struct extent *a = &items[i].extent;
        const struct extent *b = &found[i].extent;
        assert_int_equal(found[i].inode, items[i].inode);
        assert_true(container_equal(&b->container, &CONTAINER));
        assert_int_equal(a->file_offset, b->file_offset);
        assert_int_equal(a->size, b->size);
        assert_int_equal(a->offset, b->offset);
        assert_int_equal(a->stored_size, b->stored_size);
        assert_int_equal(a->codec, b->codec);
        assert_int_equal(a->checksum, b->checksum);
        assert_int_equal(b->whole, b->size);
        assert_int_equal(b->skip, 0);
        uint8_t *decoded = mem_alloc(b->whole);
        assert_int_equal(extent_decode(b, pack->text + b->offset, decoded, NULL), ERR_OK);
        assert_memory_equal(decoded, items[i].data, b->size);
        free(decoded);
    }
    free(found);
}

static void free_items(struct item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(items[i].data);
    }
}

static void test_a_pack_reads_back_what_was_added(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    for (int level = 0; level <= 3; level += 3) {
        struct item items[40] = {0};
        struct str pack = {0};
        seal(items, 40, level, &rng, &pack);
        check_pack(&pack, items, 40);
        size_t packed = 0;
        for (size_t i = 0; i < 40; i++) {
            const struct extent *extent = &items[i].extent;
            packed += extent->codec == EXTENT_ZSTD;
            assert_true(extent->codec == EXTENT_PLAIN ||
                        extent->stored_size <= extent->size - extent->size / 8);
        }
        assert_int_equal(packed > 0, level > 0);
        free_items(items, 40);
        str_release(&pack);
    }
}

static void test_an_empty_pack_is_a_pack(void **state)
{
    (void)state;
    struct str pack = {0};
    struct packer *packer = packer_create(&CONTAINER, PACK_BYTES_MIN, 0);
    assert_true(packer_has_room(packer, EXTENT_BYTES_MAX));
    packer_seal(packer, &pack);
    packer_destroy(packer);
    packer_destroy(NULL);
    check_pack(&pack, NULL, 0);
    str_release(&pack);
}

static void test_room_ends_with_the_bytes_and_with_the_items(void **state)
{
    (void)state;
    struct packer *packer = packer_create(&CONTAINER, PACK_BYTES_MIN, 0);
    uint8_t *data = mem_alloc(EXTENT_BYTES_MAX);
    struct extent extent = {0};
    packer_add(packer, 1, 0, data, EXTENT_BYTES_MAX - 5, &extent);
    assert_true(packer_has_room(packer, 5));
    assert_false(packer_has_room(packer, 6));
    packer_destroy(packer);
    packer = packer_create(&CONTAINER, PACK_BYTES_MAX, 0);
    for (size_t i = 0; i < PACK_ITEMS_MAX; i++) {
        assert_true(packer_has_room(packer, 1));
        packer_add(packer, i, 0, data, 1, &extent);
    }
    assert_false(packer_has_room(packer, 1));
    packer_destroy(packer);
    free(data);
}

static void test_stored_extents_move_as_they_are(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    struct item items[20] = {0};
    struct str pack = {0};
    seal(items, 20, 3, &rng, &pack);
    struct container fresh = {CONTAINER_PACK, 0, 4, 1};
    struct packer *packer = packer_create(&fresh, PACK_BYTES_DEFAULT, 0);
    for (size_t i = 1; i < 20; i += 2) {
        struct extent cut = items[i].extent; /* its first byte was overwritten */
        cut.skip = cut.size > 1;
        cut.file_offset += cut.skip;
        cut.size -= cut.skip;
        struct extent moved = {0};
        packer_add_stored(packer, items[i].inode, &cut, pack.text + cut.offset, &moved);
        assert_true(container_equal(&moved.container, &fresh));
        assert_int_equal(moved.skip, cut.skip);
        assert_int_equal(moved.file_offset, cut.file_offset);
        assert_memory_equal(packer_bytes(packer, moved.offset, moved.stored_size),
                            pack.text + cut.offset, cut.stored_size);
    }
    struct str again = {0};
    packer_seal(packer, &again);
    packer_destroy(packer);
    struct pack_item *found = NULL;
    size_t count = 0;
    assert_int_equal(open_pack((uint8_t *)again.text, again.size, &found, &count, NULL), ERR_OK);
    assert_int_equal(count, 10);
    assert_int_equal(found[2].extent.file_offset, items[5].extent.file_offset);
    assert_int_equal(found[2].extent.whole, items[5].extent.whole);
    free(found);
    free_items(items, 20);
    str_release(&pack);
    str_release(&again);
}

/* How many extents of a pack are damaged, or -1: the pack does not open. */
static int count_damaged(const uint8_t *bytes, size_t size)
{
    struct pack_item *items = NULL;
    size_t count = 0;
    if (open_pack(bytes, size, &items, &count, NULL) != ERR_OK) {
        return -1;
    }
    int damaged = 0;
    for (size_t i = 0; i < count; i++) {
        const struct extent *extent = &items[i].extent;
        uint8_t *decoded = mem_alloc(extent->whole);
        damaged += extent_decode(extent, bytes + extent->offset, decoded, NULL) == ERR_CORRUPT;
        free(decoded);
    }
    free(items);
    return damaged;
}

static void test_damage_of_every_byte_is_seen(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    struct item items[5] = {0};
    struct str pack = {0};
    seal(items, 5, 1, &rng, &pack);
    size_t data_end = (size_t)items[4].extent.offset + items[4].extent.stored_size;
    uint8_t *bytes = (uint8_t *)pack.text;
    for (size_t i = 0; i < pack.size; i++) {
        uint8_t flip = (uint8_t)(1 << rng_below(&rng, 8));
        bytes[i] ^= flip;
        assert_int_equal(count_damaged(bytes, pack.size), i < data_end ? 1 : -1);
        bytes[i] ^= flip;
    }
    for (size_t size = 0; size < pack.size; size++) { /* cut at either end */
        assert_int_equal(count_damaged(bytes, size), -1);
        int begin_cut = size == 0 ? -1 : count_damaged(bytes + pack.size - size, size);
        assert_true(begin_cut != 0);
    }
    assert_int_equal(count_damaged(bytes, pack.size), 0);
    free_items(items, 5);
    str_release(&pack);
}

static void write_checksum(uint8_t *footer, size_t size)
{
    le_put_u64(footer + size - 16, XXH3_64bits(footer, size - 16));
}

#define ITEMS_END ((size_t)132) /* of three items in a footer */

static void test_hostile_footers_are_refused(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    struct item items[3] = {0};
    struct str pack = {0};
    seal(items, 3, 0, &rng, &pack);
    const size_t size = ITEMS_END + PACK_TAIL_BYTES;
    size_t at = pack.size - size;
    uint8_t *footer = (uint8_t *)pack.text + at;
    uint8_t good[ITEMS_END + PACK_TAIL_BYTES];
    memcpy(good, footer, size);
    struct {
        size_t at;
        uint64_t value;
        size_t width;
    } faults[] = {
        {0, UINT64_MAX, 8},       /* offset of the first */
        {0, at, 8},               /* it would end in the footer */
        {44, 0, 8},               /* the second lies on the first */
        {44, UINT64_MAX - 10, 8}, /* its end wraps */
        {32, 0, 4},               /* no bytes */
        {32, UINT32_MAX, 4},      /* too many */
        {36, 0, 4},               /* no size */
        {36, EXTENT_BYTES_MAX + 1, 4},
        {40, 1, 4},         /* zstd that is not smaller */
        {40, 0x100, 4},     /* an unknown codec that ends in 0 */
        {24, INT64_MAX, 8}, /* the file would end behind the largest offset */
        {ITEMS_END, 0, 8},  /* the footer's size */
        {ITEMS_END, UINT64_MAX, 8},
        {ITEMS_END + 8, UINT32_MAX, 4},
        {ITEMS_END + 8, 2, 4},
        {ITEMS_END + 12, 2, 4}, /* version */
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        memcpy(footer, good, size);
        if (faults[i].width == 8) {
            le_put_u64(footer + faults[i].at, faults[i].value);
        } else {
            le_put_u32(footer + faults[i].at, (uint32_t)faults[i].value);
        }
        write_checksum(footer, size);
        assert_int_equal(count_damaged((uint8_t *)pack.text, pack.size), -1);
    }
    memcpy(footer, good, size);
    write_checksum(footer, size);
    assert_int_equal(count_damaged((uint8_t *)pack.text, pack.size), 0);
    free_items(items, 3);
    str_release(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pack_reads_back_what_was_added),
        cmocka_unit_test(test_an_empty_pack_is_a_pack),
        cmocka_unit_test(test_room_ends_with_the_bytes_and_with_the_items),
        cmocka_unit_test(test_stored_extents_move_as_they_are),
        cmocka_unit_test(test_damage_of_every_byte_is_seen),
        cmocka_unit_test(test_hostile_footers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
