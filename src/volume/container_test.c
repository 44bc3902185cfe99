#include "volume/container.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include <cmocka.h>

static void test_names_are_what_the_header_says(void **state)
{
    (void)state;
    char name[CONTAINER_NAME_MAX];
    container_name(&(struct container){CONTAINER_PACK, 1, 0x2a, 0xbeef}, name);
    assert_string_equal(name, "packs/00000001-0000002a-000000000000beef");
    container_name(&(struct container){CONTAINER_LOG, 0, 0, 7}, name);
    assert_string_equal(name, "log/0000000000000007");
    container_name(&(struct container){CONTAINER_RUN, 0, 3, UINT64_MAX}, name);
    assert_string_equal(name, "runs/00000003-ffffffffffffffff");
}

static void test_names_read_back_and_sort_as_numbers(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    for (int i = 0; i < 2000; i++) {
        struct container a = {CONTAINER_PACK, 0, 5, rng_next(&rng) >> (rng_next(&rng) & 63)};
        struct container b = {CONTAINER_PACK, 0, 5, rng_next(&rng) >> (rng_next(&rng) & 63)};
        a.kind = b.kind = (uint8_t)(1 + rng_below(&rng, 3));
        a.term = b.term = a.kind == CONTAINER_LOG ? 0 : (uint32_t)rng_next(&rng);
        a.writer = b.writer = a.kind == CONTAINER_PACK ? (uint32_t)rng_next(&rng) : 0;
        char name_a[CONTAINER_NAME_MAX];
        char name_b[CONTAINER_NAME_MAX];
        container_name(&a, name_a);
        container_name(&b, name_b);
        struct container back = {0};
        assert_true(container_parse(name_a, &back));
        assert_true(container_equal(&a, &back));
        assert_int_equal(container_equal(&a, &b), a.number == b.number);
        assert_int_equal(strcmp(name_a, name_b) < 0, a.number < b.number);
    }
}

static void test_other_names_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {
        "",
        "packs/",
        "log/",
        "log",
        "head",
        "log/000000000000000",
        "log/00000000000000000",
        "log/000000000000000G",
        "log/000000000000000A",
        "log/-000000000000001",
        " log/0000000000000001",
        "log/0000000000000001 ",
        "runs/00000003-fffffffffffffff",
        "runs/00000003_ffffffffffffffff",
        "packs/00000001-0000002a-000000000000beef/",
        "packs/00000001-0000002a",
        "packs/00000001-0000002a000000000000beef0",
        "Packs/00000001-0000002a-000000000000beef",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct container out = {9, 9, 9, 9};
        assert_false(container_parse(names[i], &out));
        assert_true(container_equal(&out, &(struct container){9, 9, 9, 9}));
    }
}

enum { SIZE = 3000 };

static struct extent make_extent(uint8_t codec, uint8_t *stored, const uint8_t *plain)
{
    struct extent extent = {.size = SIZE,
                            .whole = SIZE,
                            .stored_size = SIZE,
                            .codec = codec,
                            .container = {CONTAINER_PACK, 0, 1, 2}};
    if (codec == EXTENT_PLAIN) {
        memcpy(stored, plain, SIZE);
    } else {
        size_t size = ZSTD_compress(stored, SIZE, plain, SIZE, 3);
        assert_false(ZSTD_isError(size));
        extent.stored_size = (uint32_t)size;
    }
    extent.checksum = XXH3_64bits(stored, extent.stored_size);
    return extent;
}

static void test_damage_of_every_byte_of_an_extent_is_seen(void **state)
{
    (void)state;
    uint8_t plain[SIZE];
    uint8_t stored[SIZE];
    uint8_t out[SIZE];
    for (size_t i = 0; i < SIZE; i++) {
        plain[i] = (uint8_t)(i / 7);
    }
    for (int codec = EXTENT_PLAIN; codec <= EXTENT_ZSTD; codec++) {
        struct extent extent = make_extent((uint8_t)codec, stored, plain);
        assert_int_equal(extent_decode(&extent, stored, out, NULL), ERR_OK);
        assert_memory_equal(out, plain, SIZE);
        for (size_t i = 0; i < extent.stored_size; i++) {
            stored[i] ^= (uint8_t)(1 << (i & 7));
            struct err err = {0};
            assert_int_equal(extent_decode(&extent, stored, out, &err), ERR_CORRUPT);
            assert_string_equal(err.text, "packs/00000000-00000001-0000000000000002: the extent at "
                                          "0 does not have its checksum");
            stored[i] ^= (uint8_t)(1 << (i & 7));
        }
    }
}

static void test_impossible_extents_are_refused(void **state)
{
    (void)state;
    uint8_t plain[SIZE] = {1, 2, 3};
    uint8_t stored[SIZE];
    uint8_t *out = mem_array(2, SIZE);
    struct extent good = make_extent(EXTENT_ZSTD, stored, plain);
    struct extent bad = good;
    bad.whole = SIZE - 1; /* more comes out than fits */
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad.whole = SIZE + 1;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad.whole = 0;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad.whole = UINT32_MAX;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad = good;
    bad.codec = 7;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad.codec = EXTENT_PLAIN; /* its size is not the decoded one */
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad = good;
    bad.stored_size = 0;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    bad = good;
    bad.container.kind = 0; /* foreign metadata: no name, no crash */
    bad.checksum++;
    assert_int_equal(extent_decode(&bad, stored, out, NULL), ERR_CORRUPT);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_are_what_the_header_says),
        cmocka_unit_test(test_names_read_back_and_sort_as_numbers),
        cmocka_unit_test(test_other_names_are_refused),
        cmocka_unit_test(test_damage_of_every_byte_of_an_extent_is_seen),
        cmocka_unit_test(test_impossible_extents_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
