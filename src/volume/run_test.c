#include "volume/run.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/le.h"
#include "volume/run_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

static const struct container name = {.kind = CONTAINER_RUN, .term = 3, .number = 9};

struct built {
    struct map_run info;
    struct str object;
    size_t keys;
};

static struct map_slice text(const char *bytes)
{
    return (struct map_slice){(const uint8_t *)bytes, strlen(bytes)};
}

static size_t number_key(size_t number, char *out)
{
    return (size_t)snprintf(out, 32, "key %07zu", number);
}

/* Every other number from 0 on is a key; of every seventh key the value is deleted. */
static void build(struct built *built, size_t keys, size_t block_bytes, uint32_t level)
{
    struct run_builder *builder = run_builder_create(&name, level, block_bytes);
    struct rng rng = {.state = keys};
    for (size_t i = 0; i < keys; i++) {
        char key[32];
        size_t size = number_key(2 * i, key);
        uint8_t value[64];
        for (size_t k = 0; k < sizeof value; k++) {
            value[k] = (uint8_t)rng_below(&rng, 4);
        }
        struct map_slice bytes = {i % 7 ? value : NULL, i % 7 ? i % sizeof value : 0};
        run_builder_add(builder, (struct map_slice){(const uint8_t *)key, size}, bytes);
    }
    *built = (struct built){.keys = keys};
    run_builder_finish(builder, &built->info, &built->object);
    run_builder_destroy(builder);
}

static enum err_code open_built(const struct built *built, struct run **run)
{
    return run_create(&built->info, built->object.text + built->info.index_offset,
                      built->object.size - built->info.index_offset, run, NULL);
}

static struct run *open_run(const struct built *built)
{
    struct run *run = NULL;
    assert_int_equal(open_built(built, &run), ERR_OK);
    return run;
}

static enum err_code load(const struct built *built, const struct run *run, uint32_t index,
                          struct block *block)
{
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    enum err_code code =
        run_load(run, index, built->object.text + run->offsets[index], zstd, block, NULL);
    ZSTD_freeDCtx(zstd);
    return code;
}

static void every_key_is_found_and_no_other(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 15, 16, 17, 32, 33, 1000, 5000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct built built;
        build(&built, sizes[s], 300, 2);
        struct run *run = open_run(&built);
        for (size_t i = 0; i < 2 * built.keys; i++) {
            char key[32];
            struct map_slice asked = {(const uint8_t *)key, number_key(i, key)};
            struct block block;
            assert_int_equal(load(&built, run, run_block_of(run, asked), &block), ERR_OK);
            struct map_slice value = {0};
            assert_int_equal(block_find(&block, asked, &value), i % 2 == 0);
            if (i % 2 == 0) {
                assert_int_equal(value.bytes == NULL, i / 2 % 7 == 0);
                assert_int_equal(value.size, i / 2 % 7 ? i / 2 % 64 : 0);
            }
            asked.size--; /* a key that others begin with, and one that goes on */
            assert_false(block_find(&block, asked, &value));
            key[asked.size + 1] = '!';
            asked.size += 2;
            assert_false(block_find(&block, asked, &value));
            free((void *)block.bytes);
        }
        run_destroy(run);
        str_release(&built.object);
    }
}

static void a_cursor_goes_through_every_key(void **state)
{
    (void)state;
    struct built built;
    build(&built, 3000, 500, 0);
    struct run *run = open_run(&built);
    assert_true(run->block_count > 50);
    size_t at = 0;
    for (uint32_t i = 0; i < run->block_count; i++) {
        struct block block;
        assert_int_equal(load(&built, run, i, &block), ERR_OK);
        struct block_cursor cursor;
        block_cursor_first(&cursor, &block);
        do {
            char key[32];
            assert_int_equal(cursor.key_size, number_key(2 * at++, key));
            assert_memory_equal(cursor.key, key, cursor.key_size);
        } while (block_cursor_next(&cursor));
        free((void *)block.bytes);
    }
    assert_int_equal(at, built.keys);
    run_destroy(run);
    str_release(&built.object);
}

static void a_run_without_keys_is_a_run(void **state)
{
    (void)state;
    struct built built;
    build(&built, 0, 300, 0);
    struct run *run = open_run(&built);
    assert_int_equal(run->block_count, 0);
    assert_int_equal(built.info.keys, 0);
    run_destroy(run);
    str_release(&built.object);
}

static void values_of_any_size_fit(void **state)
{
    (void)state;
    struct run_builder *builder = run_builder_create(&name, 0, MAP_BLOCK_BYTES);
    uint8_t *value = mem_alloc(MAP_VALUE_MAX);
    struct rng rng = {.state = 5};
    for (size_t i = 0; i < MAP_VALUE_MAX; i++) {
        value[i] = (uint8_t)rng_next(&rng);
    }
    uint8_t key[MAP_KEY_MAX];
    memset(key, 'k', sizeof key);
    run_builder_add(builder, (struct map_slice){key, 0}, text(""));
    for (size_t i = 0; i < 5; i++) {
        key[MAP_KEY_MAX - 1] = (uint8_t)('0' + i);
        run_builder_add(builder, (struct map_slice){key, MAP_KEY_MAX},
                        (struct map_slice){value, i == 3 ? 20 : MAP_VALUE_MAX});
    }
    struct built built = {0};
    run_builder_finish(builder, &built.info, &built.object);
    run_builder_destroy(builder);
    struct run *run = open_run(&built);
    struct map_slice asked = {key, MAP_KEY_MAX};
    for (size_t i = 0; i < 5; i++) {
        key[MAP_KEY_MAX - 1] = (uint8_t)('0' + i);
        struct block block;
        assert_int_equal(load(&built, run, run_block_of(run, asked), &block), ERR_OK);
        struct map_slice found = {0};
        assert_true(block_find(&block, asked, &found));
        assert_int_equal(found.size, i == 3 ? 20 : MAP_VALUE_MAX);
        assert_memory_equal(found.bytes, value, found.size);
        free((void *)block.bytes);
    }
    run_destroy(run);
    str_release(&built.object);
    free(value);
}

static void the_filter_knows_every_key_and_few_others(void **state)
{
    (void)state;
    struct built built;
    build(&built, 50000, MAP_BLOCK_BYTES, 1);
    struct run *run = open_run(&built);
    assert_non_null(run->filter);
    size_t wrong = 0;
    for (size_t i = 0; i < 2 * built.keys; i++) {
        char key[32];
        struct map_slice asked = {(const uint8_t *)key, number_key(i, key)};
        bool may = run_may_hold(run, run_hash(asked));
        assert_true(may || i % 2 == 1);
        wrong += may && i % 2 == 1;
    }
    printf("%zu of %zu absent keys pass the filter\n", wrong, built.keys);
    assert_true(wrong < built.keys / 40);
    run_drop_filter(run);
    assert_true(run_may_hold(run, run_hash(text("nothing"))));
    run_destroy(run);
    /* Moved to a lower level, the same object goes without. */
    built.info.level = 2;
    run = open_run(&built);
    assert_null(run->filter);
    run_destroy(run);
    str_release(&built.object);
}

/* Damage. -------------------------------------------------------------------------------------- */

static void damage_of_any_byte_is_detected(void **state)
{
    (void)state;
    struct built built;
    build(&built, 300, 400, 0);
    struct run *run = open_run(&built);
    for (size_t i = 0; i < built.object.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            built.object.text[i] ^= (char)(1 << bit);
            struct block block;
            struct run *other = NULL;
            if (i >= built.info.index_offset) {
                assert_int_equal(open_built(&built, &other), ERR_CORRUPT);
            } else {
                uint32_t index = 0;
                while (run->offsets[index + 1] <= i) {
                    index++;
                }
                const char *stored = built.object.text + run->offsets[index];
                assert_int_equal(load(&built, run, index, &block), ERR_CORRUPT);
                assert_int_equal(run_verify(run, index, stored, NULL), ERR_CORRUPT);
            }
            built.object.text[i] ^= (char)(1 << bit);
        }
    }
    run_destroy(run);
    str_release(&built.object);
}

static void a_block_in_the_place_of_another_is_detected(void **state)
{
    (void)state;
    struct built built;
    build(&built, 200, 100, 2);
    struct run *run = open_run(&built);
    uint32_t a = 1;
    uint32_t b = 2;
    while (run_block_size(run, a) != run_block_size(run, b)) {
        b = b + 1 < run->block_count ? b + 1 : ++a + 1;
        assert_true(b < run->block_count);
    }
    memcpy(built.object.text + run->offsets[a], built.object.text + run->offsets[b],
           run_block_size(run, a));
    struct block block;
    assert_int_equal(load(&built, run, a, &block), ERR_CORRUPT);
    run->info.container.number++; /* of another run */
    assert_int_equal(load(&built, run, b, &block), ERR_CORRUPT);
    run_destroy(run);
    str_release(&built.object);
}

static void build_two(struct built *built, const char *first, const char *last)
{
    struct run_builder *builder = run_builder_create(&name, 2, MAP_BLOCK_BYTES);
    run_builder_add(builder, text(first), text("value"));
    run_builder_add(builder, text(last), text("value"));
    *built = (struct built){.keys = 2};
    run_builder_finish(builder, &built->info, &built->object);
    run_builder_destroy(builder);
}

/* Sound blocks with good checksums, but of other keys than the index says. */
static void a_block_with_keys_it_should_not_hold_is_refused(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"a", "c"}, {"A", "b"}, {"aa", "b"}, {"0", "z"}};
    struct built right;
    build_two(&right, "a", "b");
    struct run *run = open_run(&right);
    struct block block;
    assert_int_equal(load(&right, run, 0, &block), ERR_OK);
    free((void *)block.bytes);
    for (size_t i = 0; i < 4; i++) {
        struct built other;
        build_two(&other, others[i][0], others[i][1]);
        run->offsets[1] = (uint32_t)other.info.index_offset;
        assert_int_equal(load(&other, run, 0, &block), ERR_CORRUPT);
        str_release(&other.object);
    }
    run_destroy(run);
    str_release(&right.object);
}

static void what_a_checkpoint_says_must_fit(void **state)
{
    (void)state;
    struct built built;
    build(&built, 100, 400, 0);
    struct map_run right = built.info;
    struct run *run = NULL;
    built.info.keys++;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.container.number++;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.container.term++;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.container.kind = CONTAINER_PACK;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.index_checksum++;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.size++;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    built.info = right;
    built.info.index_offset--;
    built.info.size--;
    assert_int_equal(open_built(&built, &run), ERR_CORRUPT);
    str_release(&built.object);
}

/* Bytes with a good checksum that are no index, cut off at any place or with any byte changed. */
static void a_hostile_index_is_refused_or_harmless(void **state)
{
    (void)state;
    struct built built;
    build(&built, 300, 400, 0);
    size_t size = built.object.size - built.info.index_offset;
    uint8_t *index = (uint8_t *)built.object.text + built.info.index_offset;
    for (size_t i = 0; i < size; i++) {
        struct map_run info = built.info;
        struct run *run = NULL;
        uint8_t *cut = mem_dup(index, i); /* exactly so many bytes, for the sanitizer */
        info.size = info.index_offset + i;
        info.index_checksum = XXH3_64bits(cut, i);
        assert_int_equal(run_create(&info, cut, i, &run, NULL), ERR_CORRUPT);
        free(cut);
        info.size = built.info.size;
        for (int change = 1; change < 256; change *= 2) {
            index[i] ^= (uint8_t)change;
            info.index_checksum = XXH3_64bits(index, size);
            if (run_create(&info, index, size, &run, NULL) == ERR_OK) {
                assert_true(run->offsets[run->block_count] == info.index_offset);
                run_block_of(run, text("key 0000100"));
                run_may_hold(run, run_hash(text("key 0000100")));
                run_destroy(run);
            }
            index[i] ^= (uint8_t)change;
        }
    }
    str_release(&built.object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_found_and_no_other),
        cmocka_unit_test(a_cursor_goes_through_every_key),
        cmocka_unit_test(a_run_without_keys_is_a_run),
        cmocka_unit_test(values_of_any_size_fit),
        cmocka_unit_test(the_filter_knows_every_key_and_few_others),
        cmocka_unit_test(damage_of_any_byte_is_detected),
        cmocka_unit_test(a_block_in_the_place_of_another_is_detected),
        cmocka_unit_test(a_block_with_keys_it_should_not_hold_is_refused),
        cmocka_unit_test(what_a_checkpoint_says_must_fit),
        cmocka_unit_test(a_hostile_index_is_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
