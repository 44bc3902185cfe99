#include "master/retention.h"

#include "base/io.h"
#include "base/rng.h"
#include "master/walk.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t day_ms = (int64_t)24 * 3600 * 1000;

static void a_workflow_goes_when_it_is_old_and_not_among_the_newest(void **state)
{
    (void)state;
    struct retention_limits limits = {.keep_ms = 30 * day_ms, .keep_newest = 2};
    int64_t now_ms = 1000 * day_ms;
    struct retention_item items[] = {
        {.number = 1, .ended_ms = 900 * day_ms}, {.number = 2}, /* runs */
        {.number = 3, .ended_ms = 950 * day_ms}, {.number = 4, .ended_ms = 980 * day_ms},
        {.number = 5, .ended_ms = 940 * day_ms}, {.number = 6, .ended_ms = 970 * day_ms},
    };
    assert_int_equal(retention_choose(items, 6, &limits, now_ms), 3);
    const bool want[] = {true, false, true, false, true, false};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(items[i].chosen, want[i]);
    }
    limits.keep_newest = 100;
    assert_int_equal(retention_choose(items, 6, &limits, now_ms), 0);
    assert_int_equal(retention_choose(items, 0, &limits, now_ms), 0);
}

static void by_default_a_month_or_a_hundred_are_kept(void **state)
{
    (void)state;
    struct retention_limits limits = retention_defaults();
    assert_int_equal(limits.keep_ms, 30 * day_ms);
    assert_int_equal(limits.keep_newest, 100);
    assert_int_equal(limits.bytes_max, 0);
}

static void too_many_bytes_send_the_oldest_away_but_not_the_last(void **state)
{
    (void)state;
    struct retention_limits limits = {.keep_ms = 30 * day_ms, .keep_newest = 100, .bytes_max = 100};
    struct retention_item items[] = {
        {.number = 1, .ended_ms = 10, .size_bytes = 60}, {.number = 2, .size_bytes = 500},
        {.number = 3, .ended_ms = 30, .size_bytes = 60}, {.number = 4, .ended_ms = 20},
        {.number = 5, .ended_ms = 40, .size_bytes = 60},
    };
    assert_int_equal(retention_choose(items, 5, &limits, 100), 3);
    assert_true(items[0].chosen && items[2].chosen && items[3].chosen);
    items[1].size_bytes = 0;
    assert_int_equal(retention_choose(items, 5, &limits, 100), 3);
    limits.bytes_max = 120;
    assert_int_equal(retention_choose(items, 5, &limits, 100), 1);
    assert_true(items[0].chosen);
}

/* The rules as they are written down, one workflow at a time. */
static bool model_goes(const struct retention_item *items, size_t count, size_t index,
                       const struct retention_limits *limits, int64_t now_ms)
{
    const struct retention_item *item = &items[index];
    size_t newer = 0;
    for (size_t i = 0; i < count; i++) {
        newer += items[i].ended_ms > item->ended_ms ||
                 (items[i].ended_ms == item->ended_ms && items[i].number > item->number);
    }
    return item->ended_ms != 0 && newer >= limits->keep_newest &&
           now_ms - item->ended_ms > limits->keep_ms;
}

static void random_workflows_are_chosen_like_the_model(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {seed};
    for (int round = 0; round < 2000; round++) {
        struct retention_item items[30];
        size_t count = rng_below(&rng, 31);
        uint64_t left = 0;
        struct retention_limits limits = {.keep_ms = (int64_t)rng_below(&rng, 60),
                                          .keep_newest = (uint32_t)rng_below(&rng, 30),
                                          .bytes_max = rng_below(&rng, 2) * 200};
        for (size_t i = 0; i < count; i++) {
            items[i] = (struct retention_item){.number = (uint32_t)i + 1,
                                               .ended_ms = (int64_t)rng_below(&rng, 60),
                                               .size_bytes = rng_below(&rng, 50)};
        }
        size_t chosen = retention_choose(items, count, &limits, 61);
        bool can_free = false;
        int64_t newest_gone = 0;
        int64_t oldest_left = INT64_MAX;
        size_t seen = 0;
        for (size_t i = 0; i < count; i++) {
            if (model_goes(items, count, i, &limits, 61)) {
                assert_true(items[i].chosen);
            } else if (limits.bytes_max == 0) {
                assert_false(items[i].chosen);
            }
            seen += items[i].chosen;
            left += items[i].chosen ? 0 : items[i].size_bytes;
            if (items[i].chosen) {
                assert_true(items[i].ended_ms > 0);
                newest_gone = items[i].ended_ms > newest_gone ? items[i].ended_ms : newest_gone;
            } else if (items[i].ended_ms > 0) {
                can_free = can_free || oldest_left != INT64_MAX;
                oldest_left = items[i].ended_ms < oldest_left ? items[i].ended_ms : oldest_left;
            }
        }
        assert_int_equal(seen, chosen);
        assert_true(limits.bytes_max == 0 || left <= limits.bytes_max || !can_free);
        assert_true(newest_gone <= oldest_left);
    }
}

/* --- removing -------------------------------------------------------------------------------- */

static void make_file(const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(io_replace_file(path, "x", 1, 0600, NULL), ERR_OK);
}

static size_t remove_all(struct removal *removal, size_t max)
{
    enum err_code code = ERR_AGAIN;
    size_t steps = 0;
    for (uint64_t before = 0; code == ERR_AGAIN; steps++) {
        code = removal_step(removal, max, NULL);
        assert_true(removal_count(removal) - before <= max + 1);
        before = removal_count(removal);
        assert_true(steps < 100000);
    }
    assert_int_equal(code, ERR_OK);
    return steps;
}

static void a_folder_goes_in_slices_and_links_are_not_followed(void **state)
{
    (void)state;
    char folder[] = "/tmp/drover-retention-XXXXXX";
    char path[PATH_MAX];
    char keep[PATH_MAX];
    assert_non_null(mkdtemp(folder));
    snprintf(keep, sizeof keep, "%s/keep", folder);
    snprintf(path, sizeof path, "%s/old/a/b", folder);
    assert_int_equal(io_make_dirs(keep, NULL), ERR_OK);
    make_file(keep, "precious");
    assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d", i);
        make_file(path, name);
    }
    snprintf(path, sizeof path, "%s/old/a/link", folder);
    assert_int_equal(symlink(keep, path), 0);
    snprintf(path, sizeof path, "%s/old/a/locked", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    make_file(path, "inside");
    assert_int_equal(chmod(path, 0), 0);

    snprintf(path, sizeof path, "%s/old", folder);
    struct removal *removal = NULL;
    assert_int_equal(removal_open(path, &removal, NULL), ERR_OK);
    struct stat stat_now;
    assert_int_equal(lstat(path, &stat_now), -1);
    assert_true(remove_all(removal, 10) >= 50);
    removal_close(removal);

    snprintf(path, sizeof path, "%s/old%s", folder, RETENTION_SUFFIX);
    assert_int_equal(lstat(path, &stat_now), -1);
    snprintf(path, sizeof path, "%s/keep/precious", folder);
    assert_int_equal(lstat(path, &stat_now), 0);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

static void a_removal_goes_on_after_a_restart(void **state)
{
    (void)state;
    char folder[] = "/tmp/drover-retention-XXXXXX";
    char path[PATH_MAX];
    char left[PATH_MAX];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/old", folder);
    snprintf(left, sizeof left, "%s/old%s", folder, RETENTION_SUFFIX);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
        for (int i = 0; i < 20; i++) {
            char name[32];
            snprintf(name, sizeof name, "file-%d", i);
            make_file(path, name);
        }
        struct removal *removal = NULL; /* the second finds the name taken */
        assert_int_equal(removal_open(path, &removal, NULL), ERR_OK);
        assert_int_equal(removal_step(removal, 5, NULL), ERR_AGAIN);
        removal_close(removal);
    }
    struct removal *removal = NULL;
    assert_int_equal(removal_open(left, &removal, NULL), ERR_OK);
    remove_all(removal, 7);
    removal_close(removal);
    snprintf(left, sizeof left, "%s/old.1%s", folder, RETENTION_SUFFIX);
    assert_int_equal(removal_open(left, &removal, NULL), ERR_OK);
    remove_all(removal, 7);
    removal_close(removal);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(removal_open(left, &removal, NULL), ERR_NOT_FOUND);
}

static void a_very_deep_tree_needs_few_descriptors(void **state)
{
    (void)state;
    enum { DEPTH = 300 };
    char folder[] = "/tmp/drover-retention-XXXXXX";
    char start[PATH_MAX];
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(start, sizeof start));
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdir("a-folder-with-a-rather-long-name", 0700), 0);
        assert_int_equal(chdir("a-folder-with-a-rather-long-name"), 0);
    }
    assert_int_equal(chdir(start), 0);
    struct removal *removal = NULL;
    assert_int_equal(removal_open(folder, &removal, NULL), ERR_OK);
    remove_all(removal, 50);
    removal_close(removal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_workflow_goes_when_it_is_old_and_not_among_the_newest),
        cmocka_unit_test(by_default_a_month_or_a_hundred_are_kept),
        cmocka_unit_test(too_many_bytes_send_the_oldest_away_but_not_the_last),
        cmocka_unit_test(random_workflows_are_chosen_like_the_model),
        cmocka_unit_test(a_folder_goes_in_slices_and_links_are_not_followed),
        cmocka_unit_test(a_removal_goes_on_after_a_restart),
        cmocka_unit_test(a_very_deep_tree_needs_few_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
