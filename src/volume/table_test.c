#include "volume/table.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 20000 };

struct row {
    uint8_t key[40];
    size_t key_size;
    uint8_t value[64];
    size_t size;
    bool put, deleted;
};

static struct map_slice row_key(const struct row *row)
{
    return (struct map_slice){row->key, row->key_size};
}

static int row_compare(const void *a, const void *b)
{
    return key_compare(row_key(a), row_key(b));
}

static struct map_slice text(const char *bytes)
{
    return (struct map_slice){(const uint8_t *)bytes, strlen(bytes)};
}

static void an_empty_table_knows_nothing(void **state)
{
    (void)state;
    struct table *table = table_create();
    struct map_slice value;
    struct map_slice key;
    struct table_cursor cursor;
    assert_false(table_get(table, text("a"), &value));
    table_seek(table, text(""), &cursor);
    assert_false(table_cursor_get(&cursor, &key, &value));
    assert_int_equal(table_count(table), 0);
    table_destroy(table);
    table_destroy(NULL);
}

static void a_deleted_key_is_known_as_deleted(void **state)
{
    (void)state;
    struct table *table = table_create();
    struct map_slice value = text("x");
    table_put(table, text("a"), text("1"));
    table_put(table, text("a"), (struct map_slice){NULL, 0});
    assert_true(table_get(table, text("a"), &value));
    assert_null(value.bytes);
    table_put(table, text("a"), text("")); /* there, and empty */
    assert_true(table_get(table, text("a"), &value));
    assert_non_null(value.bytes);
    assert_int_equal(value.size, 0);
    assert_int_equal(table_count(table), 1);
    table_destroy(table);
}

static void a_value_that_fits_takes_no_more_memory(void **state)
{
    (void)state;
    struct table *table = table_create();
    table_put(table, text("key"), text("0123456789"));
    size_t before = table_bytes(table);
    for (int i = 0; i < 1000; i++) {
        table_put(table, text("key"), text("9876543210"));
    }
    assert_int_equal(table_bytes(table), before);
    table_put(table, text("key"), text("012345678901234567890123456789"));
    assert_true(table_bytes(table) > before);
    table_destroy(table);
}

static void a_key_that_another_begins_with_comes_first(void **state)
{
    (void)state;
    static const char *const keys[] = {"", "a", "aa", "aaaaaaaaaa", "aaaaaaaaaaa", "b"};
    struct table *table = table_create();
    for (size_t i = 6; i-- > 0;) {
        table_put(table, text(keys[i]), text(keys[i]));
    }
    table_put(table, (struct map_slice){(const uint8_t *)"a\0", 2}, text("zero"));
    static const size_t sizes[] = {0, 1, 2, 2, 10, 11, 1};
    struct table_cursor cursor;
    struct map_slice key;
    struct map_slice value;
    table_seek(table, text(""), &cursor);
    for (size_t i = 0; i < 7; i++) {
        assert_true(table_cursor_get(&cursor, &key, &value));
        assert_int_equal(key.size, sizes[i]);
        table_cursor_next(&cursor);
    }
    assert_false(table_cursor_get(&cursor, &key, &value));
    table_destroy(table);
}

/* Random use beside an array. ------------------------------------------------------------------ */

static struct row *make_rows(struct rng *rng, size_t *count)
{
    struct row *rows = mem_array(KEYS, sizeof *rows);
    for (size_t i = 0; i < KEYS; i++) {
        struct row *row = &rows[i];
        row->key_size = 1 + rng_below(rng, sizeof row->key - 1);
        memset(row->key, 0, sizeof row->key);
        row->key[0] = (uint8_t) "DI"[rng_below(rng, 2)];
        for (size_t k = 1 + rng_below(rng, row->key_size); k < row->key_size; k++) {
            row->key[k] = (uint8_t)rng_below(rng, 4);
        }
    }
    qsort(rows, KEYS, sizeof *rows, row_compare);
    *count = 1;
    for (size_t i = 1; i < KEYS; i++) {
        if (row_compare(&rows[i], &rows[*count - 1]) != 0) {
            rows[(*count)++] = rows[i];
        }
    }
    return rows;
}

static void put_row(struct table *table, struct row *row, struct rng *rng)
{
    row->put = true;
    row->deleted = rng_below(rng, 5) == 0;
    row->size = row->deleted ? 0 : rng_below(rng, sizeof row->value);
    for (size_t i = 0; i < row->size; i++) {
        row->value[i] = (uint8_t)rng_next(rng);
    }
    struct map_slice value = {row->deleted ? NULL : row->value, row->size};
    table_put(table, row_key(row), value);
}

static void compare_value(const struct row *row, struct map_slice value)
{
    assert_int_equal(value.bytes == NULL, row->deleted);
    assert_int_equal(value.size, row->size);
    if (row->size) {
        assert_memory_equal(value.bytes, row->value, row->size);
    }
}

static void compare(const struct table *table, const struct row *rows, size_t count, size_t from)
{
    struct table_cursor cursor;
    struct map_slice key;
    struct map_slice value;
    table_seek(table, row_key(&rows[from]), &cursor);
    size_t put = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(table_get(table, row_key(&rows[i]), &value), rows[i].put);
        if (!rows[i].put) {
            continue;
        }
        put++;
        compare_value(&rows[i], value);
        if (i >= from) {
            assert_true(table_cursor_get(&cursor, &key, &value));
            assert_int_equal(key_compare(key, row_key(&rows[i])), 0);
            compare_value(&rows[i], value);
            table_cursor_next(&cursor);
        }
    }
    assert_false(table_cursor_get(&cursor, &key, &value));
    assert_int_equal(table_count(table), put);
}

/* order: 0 random, 1 rising, 2 falling, 3 rising in many places at once */
static void run_order(uint64_t seed, int order)
{
    struct rng rng = {.state = seed};
    size_t count = 0;
    struct row *rows = make_rows(&rng, &count);
    struct table *table = table_create();
    for (size_t i = 0; i < 2 * count; i++) {
        size_t at = order == 0 || i >= count ? rng_below(&rng, count)
                    : order == 1             ? i
                    : order == 2             ? count - 1 - i
                                             : i % 50 * (count / 50) + i / 50;
        put_row(table, &rows[at < count ? at : 0], &rng);
        if (i % (count / 4) == 0) {
            compare(table, rows, count, rng_below(&rng, count));
        }
    }
    compare(table, rows, count, 0);
    table_destroy(table);
    free(rows);
}

static void random_use_matches_an_array(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    for (int order = 0; order < 4; order++) {
        printf("seed %llu, order %d\n", (unsigned long long)seed, order);
        run_order(seed, order);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_knows_nothing),
        cmocka_unit_test(a_deleted_key_is_known_as_deleted),
        cmocka_unit_test(a_value_that_fits_takes_no_more_memory),
        cmocka_unit_test(a_key_that_another_begins_with_comes_first),
        cmocka_unit_test(random_use_matches_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
