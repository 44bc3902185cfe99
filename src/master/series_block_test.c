#include "master/series_block.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct rng seeded(void)
{
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return (struct rng){seed};
}

static uint64_t random_value(struct rng *rng)
{
    return rng_next(rng) >> rng_below(rng, 64);
}

static void a_value_keeps_nine_bits(void **state)
{
    (void)state;
    struct rng rng = seeded();
    assert_int_equal(series_value(series_code(0)), 0);
    assert_int_equal(series_value(series_code(511)), 511);
    assert_true(series_value(series_code(UINT64_MAX)) > UINT64_MAX / 512 * 511);
    for (int i = 0; i < 100000; i++) {
        uint64_t value = random_value(&rng);
        uint32_t code = series_code(value);
        uint64_t back = series_value(code);
        uint64_t error = back > value ? back - value : value - back;
        assert_true(error <= value / 500);
        assert_int_equal(series_code(back), code);
        assert_true(value == UINT64_MAX || series_code(value + 1) >= code);
    }
}

enum { MODEL_ROWS = 4000 };

/* Random rows in blocks, one behind the other. Returns how many bytes they took. */
static size_t write_rows(struct rng *rng, struct series_row *rows, size_t count, uint8_t *out)
{
    struct series_build build = {0};
    size_t size = 0;
    int64_t at_ms = (int64_t)(rng_next(rng) >> 20) / 100 * 100;
    for (size_t i = 0; i < count; i++) {
        at_ms += 100 * (1 + (int64_t)rng_below(rng, rng_below(rng, 10) == 0 ? 1u << 30 : 30));
        rows[i].at_ms = at_ms;
        for (int j = 0; j < SERIES_COLUMNS; j++) {
            rows[i].values[j] =
                rng_below(rng, 3) == 0 && i > 0 ? rows[i - 1].values[j] : random_value(rng);
        }
        if (!series_build_add(&build, &rows[i])) {
            size_t block = series_build_seal(&build, false);
            memcpy(out + size, build.bytes, block);
            size += block;
            build = (struct series_build){0};
            assert_true(series_build_add(&build, &rows[i]));
        }
        for (int j = 0; j < SERIES_COLUMNS; j++) {
            rows[i].values[j] = series_value(series_code(rows[i].values[j]));
        }
    }
    size_t block = series_build_seal(&build, false);
    memcpy(out + size, build.bytes, block);
    return size + block;
}

/* Reads all rows and finds them, in order, among the model's. Returns how many. */
static size_t match_rows(const uint8_t *bytes, size_t size, const struct series_row *rows,
                         size_t count)
{
    size_t found = 0;
    size_t next = 0;
    struct series_block block;
    for (size_t at = 0; series_block_next(bytes, size, &at, &block);) {
        struct series_cursor cursor = {0};
        struct series_row row;
        while (series_block_row(&block, &cursor, &row)) {
            while (next < count && rows[next].at_ms < row.at_ms) {
                next++;
            }
            assert_true(next < count);
            assert_memory_equal(&rows[next], &row, sizeof row);
            found++;
        }
    }
    return found;
}

static void random_rows_come_back_and_damage_costs_only_its_block(void **state)
{
    (void)state;
    struct rng rng = seeded();
    AUTO_FREE struct series_row *rows = mem_array(MODEL_ROWS, sizeof *rows);
    AUTO_FREE uint8_t *bytes = mem_array(MODEL_ROWS, SERIES_ROW_BYTES_MAX + SERIES_HEADER_BYTES);
    size_t size = write_rows(&rng, rows, MODEL_ROWS, bytes);
    assert_int_equal(match_rows(bytes, size, rows, MODEL_ROWS), MODEL_ROWS);
    for (int round = 0; round < 200; round++) {
        size_t at = rng_below(&rng, size);
        uint8_t before = bytes[at];
        bytes[at] ^= (uint8_t)(1 + rng_below(&rng, 255));
        assert_true(match_rows(bytes, size, rows, MODEL_ROWS) + SERIES_BLOCK_ROWS_MAX >=
                    MODEL_ROWS);
        bytes[at] = before;
        match_rows(bytes, at, rows, MODEL_ROWS); /* torn */
        match_rows(bytes + at, size - at, rows, MODEL_ROWS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_keeps_nine_bits),
        cmocka_unit_test(random_rows_come_back_and_damage_costs_only_its_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
