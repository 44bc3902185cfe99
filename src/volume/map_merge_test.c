#include "volume/map_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_merge_of_all_forgets_what_is_deleted(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    assert_int_equal(fixture_merge(fixture, true), 0);
    fixture_put(fixture, "a", "1");
    fixture_put(fixture, "b", "1");
    fixture_checkpoint(fixture);
    map_delete(fixture->map, "a", 1);
    fixture_put(fixture, "b", "2");
    fixture_checkpoint(fixture);
    assert_false(map_merge_is_due(fixture->map));
    assert_int_equal(fixture_merge(fixture, false), 0);
    assert_true(fixture_merge(fixture, true) > 0);
    struct map_run run;
    assert_int_equal(map_runs(fixture->map, &run, 1), 1);
    assert_int_equal(run.level, 1);
    assert_int_equal(run.keys, 1);
    fixture_expect(fixture, "a", "-");
    fixture_expect(fixture, "b", "2");
    assert_int_equal(fixture_merge(fixture, true), 0); /* it is one level already */
    map_delete(fixture->map, "b", 1);
    fixture_checkpoint(fixture);
    assert_true(fixture_merge(fixture, true) > 0);
    assert_int_equal(map_runs(fixture->map, NULL, 0), 0);
    fixture_destroy(fixture);
}

static void tombstones_stay_while_something_lies_below(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture_put(fixture, "a", "1");
    fixture_put(fixture, "c", "1");
    fixture_checkpoint(fixture);
    assert_true(fixture_merge(fixture, true) > 0);
    fixture->map->levels[1].runs[0]->info.level = 3; /* as merges would, in time */
    fixture_reload(fixture, 1 << 20);
    map_delete(fixture->map, "a", 1);
    fixture_checkpoint(fixture);
    for (int i = 0; i < 3; i++) {
        fixture_put(fixture, "b", "2");
        fixture_checkpoint(fixture);
    }
    assert_true(fixture_merge(fixture, false) > 0);
    fixture_expect(fixture, "a", "-");
    fixture_expect(fixture, "b", "2");
    fixture_expect(fixture, "c", "1");
    struct map_run runs[4];
    assert_int_equal(map_runs(fixture->map, runs, 4), 2);
    assert_int_equal(runs[0].level, 1);
    assert_int_equal(runs[0].keys, 2);
    assert_int_equal(runs[1].level, 3);
    fixture_destroy(fixture);
}

static void checkpoints_may_be_taken_while_a_merge_runs(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    for (int i = 0; i < 4; i++) {
        fixture_put(fixture, "a", "old");
        fixture_put(fixture, "b", "old");
        fixture_checkpoint(fixture);
    }
    struct map_merge *running = map_merge_create(fixture->map, false, 1, &fixture->next_number);
    assert_non_null(running);
    fixture_put(fixture, "a", "new");
    fixture_checkpoint(fixture);
    enum map_merge_state at = MAP_MERGE_NEEDS;
    struct str out = {0};
    while (at != MAP_MERGE_DONE) {
        struct map_run run;
        struct map_want wants[WANTS];
        assert_int_equal(map_merge_step(running, &at, &run, &out, NULL), ERR_OK);
        if (at == MAP_MERGE_OUTPUT) {
            fixture_store(fixture, &run.container, &out);
        }
        size_t count = map_merge_wanted(running, wants, WANTS);
        for (size_t i = 0; i < count; i++) {
            const uint8_t *bytes =
                fixture_stored(fixture, &wants[i].run, wants[i].offset, wants[i].size);
            assert_int_equal(map_merge_supply(running, &wants[i], bytes, NULL), ERR_OK);
        }
    }
    map_merge_apply(fixture->map, running);
    map_merge_destroy(running);
    str_release(&out);
    fixture_expect(fixture, "a", "new");
    fixture_expect(fixture, "b", "old");
    struct map_run runs[4];
    assert_int_equal(map_runs(fixture->map, runs, 4), 2);
    assert_int_equal(runs[0].level, 0);
    assert_int_equal(runs[1].level, 1);
    fixture_destroy(fixture);
}

/* Keys that only ever come behind the old ones: old runs are not rewritten, and there are not many
 * small ones. */
static void runs_that_need_no_change_are_moved_as_they_are(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    fixture->map->run_bytes = 200 << 10;
    fixture->map->level_one_bytes = 800 << 10;
    uint64_t written = 0;
    for (size_t i = 0; i < 100; i++) {
        fixture_put_many(fixture, 'D', i * 500, 500);
        fixture_put_many(fixture, 'I', i * 500, 500);
        fixture_checkpoint(fixture);
        while (fixture_merge(fixture, false) > 0) {
        }
    }
    for (size_t i = 0; i < fixture->object_count; i++) {
        written += fixture->objects[i].size;
    }
    static struct map_run runs[MAP_RUNS_MAX];
    size_t count = map_runs(fixture->map, runs, MAP_RUNS_MAX);
    uint64_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        kept += runs[i].size;
    }
    printf("%llu bytes written for %llu kept in %zu runs\n", (unsigned long long)written,
           (unsigned long long)kept, count);
    assert_true(written < 4 * kept);
    assert_true(count < 80);
    for (size_t i = 0; i < fixture->map->levels[2].count; i++) {
        assert_null(fixture->map->levels[2].runs[i]->filter);
    }
    assert_true(fixture->map->levels[2].count > 0);
    assert_int_equal(fixture_list(fixture, "D"), 50000);
    assert_int_equal(fixture_list(fixture, "I"), 50000);
    fixture_reload(fixture, 1 << 20);
    assert_int_equal(fixture_list(fixture, ""), 100000);
    fixture_destroy(fixture);
}

/* Even if it is the first key, and nothing of the newer one is left to write. */
static void a_run_of_which_one_key_is_newer_is_not_moved(void **state)
{
    (void)state;
    static const char *const touched[] = {"k00000000", "k00000500", "k00000999"};
    for (size_t i = 0; i < 6; i++) {
        const char *key = touched[i % 3];
        struct fixture *fixture = fixture_create(1 << 20);
        fixture->map->run_bytes = 100 << 10;
        fixture_put_many(fixture, 'k', 0, 1000);
        fixture_checkpoint(fixture);
        assert_true(fixture_merge(fixture, true) > 0);
        for (int k = 0; k < 4; k++) {
            fixture_put(fixture, "kz", "new");
            fixture_put(fixture, key, "new");
            if (i >= 3) {
                map_delete(fixture->map, key, strlen(key));
            }
            fixture_checkpoint(fixture);
        }
        assert_true(fixture_merge(fixture, false) > 0);
        fixture_expect(fixture, key, i < 3 ? "new" : "-");
        assert_int_equal(fixture_list(fixture, "k"), i < 3 ? 1001 : 1000);
        assert_int_equal(map_runs(fixture->map, NULL, 0), 1);
        fixture_destroy(fixture);
    }
}

static void a_merge_goes_in_small_steps(void **state)
{
    (void)state;
    struct fixture *fixture = fixture_create(1 << 20);
    for (size_t i = 0; i < 4; i++) {
        fixture_put_many(fixture, 'k', i, 60000); /* 4.5 MB each */
        fixture_checkpoint(fixture);
    }
    assert_true(fixture_merge(fixture, false) > 18);
    assert_int_equal(fixture_list(fixture, "k"), 60003);
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_merge_of_all_forgets_what_is_deleted),
        cmocka_unit_test(tombstones_stay_while_something_lies_below),
        cmocka_unit_test(checkpoints_may_be_taken_while_a_merge_runs),
        cmocka_unit_test(runs_that_need_no_change_are_moved_as_they_are),
        cmocka_unit_test(a_run_of_which_one_key_is_newer_is_not_moved),
        cmocka_unit_test(a_merge_goes_in_small_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
