#include "volume/map_fixture.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void newer_layers_hide_older_ones(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture_put(fixture, "a", "run");
    fixture_put(fixture, "b", "run");
    fixture_put(fixture, "c", "run");
    fixture_put(fixture, "d", "run");
    fixture_checkpoint(fixture);
    fixture_put(fixture, "b", "frozen");
    fixture_put(fixture, "c", "frozen");
    map_delete(fixture->map, "d", 1);
    assert_int_equal(map_freeze(fixture->map, NULL), ERR_OK);
    fixture_put(fixture, "c", "table");
    fixture_put(fixture, "e", "");
    map_delete(fixture->map, "a", 1);
    for (int i = 0; i < 2; i++) {
        fixture_expect(fixture, "a", "-");
        fixture_expect(fixture, "b", "frozen");
        fixture_expect(fixture, "c", "table");
        fixture_expect(fixture, "d", "-");
        fixture_expect(fixture, "e", "");
        fixture_expect(fixture, "f", "-");
        assert_int_equal(fixture_list(fixture, ""), 3);
        if (i == 0) {
            map_unfreeze(fixture->map);
        }
    }
    assert_int_equal(map_table_count(fixture->map), 5);
    fixture_destroy(fixture);
}

/* More deleted keys than the cache holds, and one behind them: each attempt gets further. */
static void a_scan_passes_any_number_of_deleted_keys(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(0);
    fixture_put_many(fixture, 'k', 0, 60000);
    fixture_checkpoint(fixture);
    for (size_t i = 0; i < 60000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%08zu", i);
        map_delete(fixture->map, key, strlen(key));
    }
    fixture_checkpoint(fixture);
    fixture_put(fixture, "kz", "last");
    fixture_checkpoint(fixture);
    assert_int_equal(fixture_list(fixture, "k"), 1);
    fixture_put(fixture, "k00030000", "again");
    assert_int_equal(fixture_list(fixture, "k"), 2);
    fixture_destroy(fixture);
}

static void values_stay_valid_while_others_are_looked_up(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture_put_many(fixture, 'k', 0, 2000);
    fixture_put(fixture, "first", "value of the first");
    fixture_checkpoint(fixture);
    struct map_slice first = {0};
    assert_int_equal(map_get(fixture->map, "first", 5, &first, NULL), ERR_OK);
    for (size_t i = 0; i < 2000; i++) {
        char key[16];
        struct map_slice other;
        snprintf(key, sizeof key, "k%08zu", i);
        assert_int_equal(map_get(fixture->map, key, strlen(key), &other, NULL), ERR_OK);
    }
    assert_memory_equal(first.bytes, "value of the first", first.size);
    fixture_destroy(fixture);
}

static void a_checkpoint_leaves_its_blocks_in_the_cache(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(4 << 20);
    fixture_put_many(fixture, 'k', 0, 5000);
    fixture_checkpoint(fixture);
    assert_int_equal(fixture_list(fixture, "k"), 5000);
    assert_int_equal(fixture->requests, 0);
    fixture_reload(fixture, 4 << 20);
    assert_int_equal(fixture_list(fixture, "k"), 5000);
    assert_true(fixture->requests > 0);
    fixture_destroy(fixture);
}

static void damaged_blocks_are_refused_and_asked_for_again(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture_put_many(fixture, 'k', 0, 100);
    fixture_checkpoint(fixture);
    fixture_reload(fixture, 1 << 20);
    struct map_slice value;
    struct map_want want;
    struct err err = {0};
    assert_int_equal(map_get(fixture->map, "k00000050", 9, &value, &err), ERR_AGAIN);
    assert_int_equal(map_wanted(fixture->map, &want, 1), 1);
    assert_int_equal(map_wanted(fixture->map, &want, 1), 0);
    uint8_t *bytes = mem_dup(fixture_stored(fixture, &want.run, want.offset, want.size), want.size);
    bytes[want.size / 2] ^= 1;
    assert_int_equal(map_supply(fixture->map, &want, bytes, &err), ERR_CORRUPT);
    assert_int_equal(map_get(fixture->map, "k00000050", 9, &value, &err), ERR_AGAIN);
    bytes[want.size / 2] ^= 1;
    assert_int_equal(map_supply(fixture->map, &want, bytes, &err), ERR_OK);
    assert_int_equal(map_supply(fixture->map, &want, bytes, &err), ERR_OK); /* once more */
    assert_int_equal(map_get(fixture->map, "k00000050", 9, &value, &err), ERR_OK);
    want.run.number = 999;
    assert_int_equal(map_supply(fixture->map, &want, bytes, &err), ERR_OK); /* of no run */
    free(bytes);
    fixture_destroy(fixture);
}

static void the_cache_keeps_within_its_bound(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(3 << 20);
    for (size_t i = 0; i < 4; i++) {
        fixture_put_many(fixture, 'k', i * 50000, 50000);
        fixture_checkpoint(fixture);
    }
    fixture_reload(fixture, 3 << 20);
    assert_int_equal(fixture_list(fixture, "k"), 200000);
    struct map_memory memory;
    map_memory(fixture->map, &memory);
    assert_true(memory.cache <= 3 << 20);
    assert_true(memory.cache > 2 << 20);
    fixture_destroy(fixture);
}

static void a_listing_reads_ahead_but_not_too_far(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(64 << 20);
    fixture_put_many(fixture, 'a', 0, 50000);
    fixture_put_many(fixture, 'm', 0, 20);
    fixture_put_many(fixture, 'z', 0, 50000);
    struct map_run run = fixture_checkpoint(fixture);
    fixture_reload(fixture, 64 << 20);
    assert_int_equal(fixture_list(fixture, "m"), 20);
    assert_int_equal(fixture->requests, 1);
    assert_true(fixture->bytes <
                3 * (uint64_t)MAP_BLOCK_BYTES); /* one or two blocks of incompressible */
    fixture_reload(fixture, 64 << 20);
    assert_int_equal(fixture_list(fixture, ""), 100020);
    printf("%zu requests in %zu rounds for %llu bytes\n", fixture->requests, fixture->rounds,
           (unsigned long long)fixture->bytes);
    assert_true(fixture->rounds < 20);
    assert_int_equal(fixture->bytes, run.index_offset); /* nothing twice */
    fixture_destroy(fixture);
}

static void lookups_in_a_row_read_ahead_too(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(64 << 20);
    fixture_put_many(fixture, 'k', 0, 50000);
    fixture_checkpoint(fixture);
    fixture_reload(fixture, 64 << 20);
    struct map_slice value;
    for (size_t i = 0; i < 50000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%08zu", i);
        while (map_get(fixture->map, key, strlen(key), &value, NULL) == ERR_AGAIN) {
            fixture_supply(fixture);
        }
    }
    assert_true(fixture->rounds < 20);
    fixture_destroy(fixture);
}

static void keys_that_are_nowhere_are_hardly_ever_fetched(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(64 << 20);
    for (size_t i = 0; i < 3; i++) {
        fixture_put_many(fixture, 'k', i * 20000, 20000);
        fixture_checkpoint(fixture);
    }
    fixture_reload(fixture, 0);
    for (size_t i = 0; i < 2000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%08zu+", i * 25);
        fixture_expect(fixture, key, "-");
    }
    printf("%zu requests for 2000 lookups\n", fixture->requests);
    assert_true(fixture->requests < 100);
    fixture_destroy(fixture);
}

static void runs_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture_put_many(fixture, 'a', 0, 100);
    struct map_run run = fixture_checkpoint(fixture);
    size_t size = (size_t)(run.size - run.index_offset);
    const uint8_t *index = fixture_stored(fixture, &run.container, run.index_offset, size);
    struct map *map = map_create(0);
    run.level = MAP_LEVELS;
    assert_int_equal(map_add_run(map, &run, index, size, NULL), ERR_RANGE);
    run.level = 2;
    assert_int_equal(map_add_run(map, &run, index, size - 1, NULL), ERR_CORRUPT);
    assert_int_equal(map_add_run(map, &run, index, size, NULL), ERR_OK);
    assert_int_equal(map_add_run(map, &run, index, size, NULL), ERR_CORRUPT); /* overlaps */
    run.level = 0;
    for (size_t i = 1; i < MAP_RUNS_MAX; i++) {
        assert_int_equal(map_add_run(map, &run, index, size, NULL), ERR_OK);
    }
    assert_int_equal(map_add_run(map, &run, index, size, NULL), ERR_RANGE);
    map_destroy(map);
    fixture_destroy(fixture);
}

static void an_empty_checkpoint_does_no_harm(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    for (int i = 0; i < 5; i++) {
        fixture_checkpoint(fixture);
    }
    fixture_expect(fixture, "a", "-");
    assert_int_equal(fixture_list(fixture, ""), 0);
    assert_true(map_merge_is_due(fixture->map));
    assert_true(fixture_merge(fixture, false) > 0);
    assert_int_equal(map_runs(fixture->map, NULL, 0), 0);
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_layers_hide_older_ones),
        cmocka_unit_test(a_scan_passes_any_number_of_deleted_keys),
        cmocka_unit_test(values_stay_valid_while_others_are_looked_up),
        cmocka_unit_test(a_checkpoint_leaves_its_blocks_in_the_cache),
        cmocka_unit_test(damaged_blocks_are_refused_and_asked_for_again),
        cmocka_unit_test(the_cache_keeps_within_its_bound),
        cmocka_unit_test(a_listing_reads_ahead_but_not_too_far),
        cmocka_unit_test(lookups_in_a_row_read_ahead_too),
        cmocka_unit_test(keys_that_are_nowhere_are_hardly_ever_fetched),
        cmocka_unit_test(runs_that_cannot_be_are_refused),
        cmocka_unit_test(an_empty_checkpoint_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
