#include "master/depot_testing.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static Drover__Attempt attempt_of(uint64_t task, uint32_t attempt)
{
    Drover__Attempt id = DROVER__ATTEMPT__INIT;
    id.workflow = 1;
    id.experiment = 0;
    id.task = task;
    id.attempt = attempt;
    id.term = 1;
    return id;
}

static void open_pair(struct pair *pair, const char *name)
{
    pair_open(pair, name);
    pair_start_depot(pair);
    pair_start_bulk(pair, false);
}

static void path_in(char *out, size_t size, const char *folder, const char *rest)
{
    snprintf(out, size, "%s/%s", folder, rest);
}

static void random_outputs_arrive_byte_for_byte(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system() % 1000000;
    print_message("seed %" PRIu64 "\n", seed);
    struct rng rng = {seed};
    struct pair pair;
    open_pair(&pair, "outputs");
    for (uint64_t task = 0; task < 6; task++) {
        char from[700];
        char to[700];
        snprintf(from, sizeof from, "%s/out%" PRIu64, pair.work, task);
        snprintf(to, sizeof to, "%s/attempts/alpha/1/%" PRIu64 ".2", pair.flow, 1000 + task);
        testing_make_tree(from, &rng, (int)rng_below(&rng, 300), task == 5 ? 3000000 : 20000);
        Drover__Attempt id = attempt_of(1000 + task, 2);
        pair_expect_done(&pair, bulk_send_output(pair.bulk, &id, from));
        testing_assert_same(from, to);
    }
    assert_true(pair.questions == 6);
    pair_close(&pair);
}

static void an_upload_goes_on_after_the_master_restarted(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "restart");
    char from[700];
    char to[700];
    path_in(from, sizeof from, pair.work, "out");
    path_in(to, sizeof to, pair.flow, "attempts/alpha/0/7.1");
    struct rng rng = {5};
    testing_make_tree(from, &rng, 60, 8 << 20);
    Drover__Attempt id = attempt_of(7, 1);
    uint64_t ticket = bulk_send_output(pair.bulk, &id, from);
    for (int i = 0; i < 4; i++) {
        if (pair_wait(&pair, ticket, 20 + 15 * i, NULL)) {
            print_message("it was quicker than the restarts\n");
            ticket = 0;
            break;
        }
        pair_stop_depot(&pair);
        pair_start_depot(&pair);
    }
    if (ticket) {
        pair_expect_done(&pair, ticket);
    }
    testing_assert_same(from, to);
    pair_close(&pair);
}

static void a_log_grows_on_the_master_while_the_task_prints(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "log");
    char file[700];
    char there[700];
    path_in(file, sizeof file, pair.work, "log");
    path_in(there, sizeof there, pair.flow, "logs/alpha/0/3.1.log");
    testing_write(file, "one\n", 4);
    Drover__Attempt id = attempt_of(3, 1);
    uint64_t ticket = bulk_follow_log(pair.bulk, &id, file);
    struct stat stat_there = {0};
    for (int i = 0; i < 100 && stat_there.st_size < 4; i++) {
        assert_false(pair_wait(&pair, ticket, 20, NULL));
        stat(there, &stat_there);
    }
    assert_int_equal(stat_there.st_size, 4);
    /* a restart in between, and a megabyte more */
    pair_stop_depot(&pair);
    AUTO_STR struct str text = {0};
    str_add(&text, "one\n");
    for (int i = 0; i < 100000; i++) {
        str_addf(&text, "line %d\n", i);
    }
    testing_write(file, text.text, text.size);
    pair_start_depot(&pair);
    bulk_finish(pair.bulk, ticket);
    pair_expect_done(&pair, ticket);
    AUTO_STR struct str got = {0};
    assert_int_equal(io_read_file(there, 1 << 24, &got, NULL), ERR_OK);
    assert_true(got.size == text.size && memcmp(got.text, text.text, got.size) == 0);
    pair_close(&pair);
}

static void a_log_beyond_its_limit_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "limit");
    pair.log_limit_bytes = 1000;
    char file[700];
    path_in(file, sizeof file, pair.work, "log");
    AUTO_FREE char *bytes = mem_alloc(100000);
    memset(bytes, 'x', 100000);
    testing_write(file, bytes, 100000);
    Drover__Attempt id = attempt_of(3, 1);
    uint64_t ticket = bulk_follow_log(pair.bulk, &id, file);
    bulk_finish(pair.bulk, ticket);
    struct bulk_event event;
    assert_true(pair_wait(&pair, ticket, 10000, &event));
    assert_int_equal(event.err.code, ERR_QUOTA);
    pair_close(&pair);
}

static void a_stale_attempt_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "stale");
    pair.verdict = ERR_STALE;
    char from[700];
    char to[700];
    path_in(from, sizeof from, pair.work, "out");
    path_in(to, sizeof to, pair.flow, "attempts/alpha/0/1.1");
    struct rng rng = {9};
    testing_make_tree(from, &rng, 10, 1000);
    Drover__Attempt id = attempt_of(1, 1);
    struct bulk_event event;
    assert_true(pair_wait(&pair, bulk_send_output(pair.bulk, &id, from), 10000, &event));
    assert_int_equal(event.err.code, ERR_STALE);
    assert_int_not_equal(access(to, F_OK), 0);
    /* "not known yet" is asked again until it is known */
    pair.verdict = ERR_AGAIN;
    uint64_t ticket = bulk_send_output(pair.bulk, &id, from);
    assert_false(pair_wait(&pair, ticket, 700, NULL));
    pair.verdict = ERR_OK;
    pair_expect_done(&pair, ticket);
    testing_assert_same(from, to);
    pair_close(&pair);
}

static void a_checkpoint_follows_its_task(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "checkpoint");
    char here[700];
    char there[700];
    char next[700];
    path_in(here, sizeof here, pair.work, "checkpoint");
    path_in(next, sizeof next, pair.work, "other/checkpoint");
    path_in(there, sizeof there, pair.flow, "checkpoints/alpha/0/5");
    Drover__Attempt id = attempt_of(5, 1);
    struct bulk_event event;
    uint64_t fetch = bulk_fetch_checkpoint(pair.bulk, &id, here);
    assert_true(pair_wait(&pair, fetch, 10000, &event));
    assert_int_equal(event.err.code, ERR_NOT_FOUND);

    struct rng rng = {11};
    testing_make_tree(here, &rng, 40, 100000);
    uint64_t watch = bulk_watch_checkpoint(pair.bulk, &id, here);
    for (int i = 0; i < 200 && access(there, F_OK) != 0; i++) {
        assert_false(pair_wait(&pair, watch, 20, NULL));
    }
    testing_assert_same(here, there);
    /* one file more: only that one travels */
    struct depot_counts before;
    struct depot_counts after;
    assert_false(pair_wait(&pair, watch, 1200, NULL));
    depot_counts(pair.depot, &before);
    char file[800];
    path_in(file, sizeof file, here, "step-2");
    testing_write(file, "weights", 7);
    bulk_finish(pair.bulk, watch);
    pair_expect_done(&pair, watch);
    testing_assert_same(here, there);
    assert_false(pair_wait(&pair, 0, 1200, NULL));
    depot_counts(pair.depot, &after);
    assert_true(after.bytes_in > before.bytes_in && after.bytes_in - before.bytes_in < 2000);

    /* the next attempt gets it, and does not send it back */
    id = attempt_of(5, 2);
    pair_expect_done(&pair, bulk_fetch_checkpoint(pair.bulk, &id, next));
    testing_assert_same(here, next);
    watch = bulk_watch_checkpoint(pair.bulk, &id, next);
    bulk_finish(pair.bulk, watch);
    pair_expect_done(&pair, watch);
    /* it adds to it; then the older attempt comes too late */
    watch = bulk_watch_checkpoint(pair.bulk, &id, next);
    path_in(file, sizeof file, next, "step-3");
    testing_write(file, "more", 4);
    bulk_finish(pair.bulk, watch);
    pair_expect_done(&pair, watch);
    testing_assert_same(next, there);
    id = attempt_of(5, 1);
    path_in(file, sizeof file, here, "step-99");
    testing_write(file, "late", 4);
    watch = bulk_watch_checkpoint(pair.bulk, &id, here);
    bulk_finish(pair.bulk, watch);
    assert_true(pair_wait(&pair, watch, 10000, &event));
    assert_int_equal(event.err.code, ERR_STALE);
    testing_assert_same(next, there);
    pair_close(&pair);
}

/* Task 3 is the first rung of trial 2, task 9 the next: the later task's checkpoint is the newer,
 * whatever its attempt. */
static void rungs_of_a_trial_share_a_checkpoint(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "rungs");
    pair.checkpoint = 2;
    char first[700];
    char second[700];
    char there[700];
    char file[800];
    path_in(first, sizeof first, pair.work, "first");
    path_in(second, sizeof second, pair.work, "second");
    path_in(there, sizeof there, pair.flow, "checkpoints/alpha/0/2");
    Drover__Attempt id = attempt_of(3, 5);
    struct bulk_event event;
    assert_int_equal(mkdir(first, 0755), 0);
    path_in(file, sizeof file, first, "step-1");
    testing_write(file, "one", 3);
    uint64_t watch = bulk_watch_checkpoint(pair.bulk, &id, first);
    bulk_finish(pair.bulk, watch);
    pair_expect_done(&pair, watch);
    testing_assert_same(first, there);

    Drover__Attempt next = attempt_of(9, 1);
    pair_expect_done(&pair, bulk_fetch_checkpoint(pair.bulk, &next, second));
    testing_assert_same(first, second);
    path_in(file, sizeof file, second, "step-2");
    testing_write(file, "two", 3);
    watch = bulk_watch_checkpoint(pair.bulk, &next, second);
    bulk_finish(pair.bulk, watch);
    pair_expect_done(&pair, watch);
    testing_assert_same(second, there);

    path_in(file, sizeof file, first, "late");
    testing_write(file, "late", 4);
    watch = bulk_watch_checkpoint(pair.bulk, &id, first);
    bulk_finish(pair.bulk, watch);
    assert_true(pair_wait(&pair, watch, 10000, &event));
    assert_int_equal(event.err.code, ERR_STALE);
    testing_assert_same(second, there);
    pair_close(&pair);
}

static void outputs_go_down_and_stay_while_they_are_the_same(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "inputs");
    struct rng rng = {21};
    char path[800];
    char wanted[700];
    path_in(wanted, sizeof wanted, pair.folder, "wanted");
    path_in(path, sizeof path, pair.flow, "outputs/alpha");
    assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
    for (int i = 0; i < 12; i++) {
        char target[800];
        struct rng copy = rng;
        snprintf(path, sizeof path, "%s/attempts/alpha/0/%d.1", pair.flow, i);
        testing_make_tree(path, &rng, 20, i == 3 ? 5000000 : 5000);
        snprintf(target, sizeof target, "../../attempts/alpha/0/%d.1", i);
        snprintf(path, sizeof path, "%s/outputs/alpha/%d", pair.flow, i);
        assert_int_equal(symlink(target, path), 0);
        (void)copy;
    }
    snprintf(path, sizeof path, "%s/outputs/alpha/evil", pair.flow);
    assert_int_equal(symlink("/etc", path), 0);
    char into[700];
    path_in(into, sizeof into, pair.work, "outputs/alpha");
    Drover__Attempt id = attempt_of(0, 1);
    id.experiment = 1;
    pair_expect_done(&pair, bulk_fetch_outputs(pair.bulk, &id, "alpha", into));
    for (int i = 0; i < 12; i++) {
        char got[800];
        snprintf(path, sizeof path, "%s/attempts/alpha/0/%d.1", pair.flow, i);
        snprintf(got, sizeof got, "%s/%d", into, i);
        testing_assert_same(path, got);
    }
    snprintf(path, sizeof path, "%s/evil", into);
    assert_int_not_equal(access(path, F_OK), 0);
    struct stat first;
    struct stat second;
    stat(into, &first);
    pair_expect_done(&pair, bulk_fetch_outputs(pair.bulk, &id, "alpha", into));
    stat(into, &second);
    assert_true(first.st_ino == second.st_ino);
    /* an experiment without any */
    path_in(into, sizeof into, pair.work, "outputs/beta");
    pair_expect_done(&pair, bulk_fetch_outputs(pair.bulk, &id, "beta", into));
    assert_int_equal(access(into, F_OK), 0);
    pair_close(&pair);
}

static void a_download_goes_on_after_the_master_restarted(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "down");
    struct rng rng = {31};
    char there[700];
    char here[700];
    path_in(there, sizeof there, pair.flow, "checkpoints/alpha/0/5");
    path_in(here, sizeof here, pair.work, "checkpoint");
    testing_make_tree(there, &rng, 60, 8 << 20);
    Drover__Attempt id = attempt_of(5, 1);
    uint64_t ticket = bulk_fetch_checkpoint(pair.bulk, &id, here);
    for (int i = 0; i < 3 && ticket; i++) {
        if (pair_wait(&pair, ticket, 30, NULL)) {
            ticket = 0;
            break;
        }
        pair_stop_depot(&pair);
        pair_start_depot(&pair);
    }
    if (ticket) {
        pair_expect_done(&pair, ticket);
    }
    testing_assert_same(there, here);
    pair_close(&pair);
}

static void a_revoked_node_is_refused(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "revoked");
    depot_forget_node(pair.depot, pair.node_keys.public_key);
    char from[700];
    path_in(from, sizeof from, pair.work, "out");
    assert_int_equal(io_make_dirs(from, NULL), ERR_OK);
    Drover__Attempt id = attempt_of(1, 1);
    struct bulk_event event;
    assert_true(pair_wait(&pair, bulk_send_output(pair.bulk, &id, from), 10000, &event));
    assert_int_equal(event.err.code, ERR_DENIED);
    assert_true(pair.questions == 0);
    depot_welcome_node(pair.depot, pair.node_keys.public_key);
    pair_expect_done(&pair, bulk_send_output(pair.bulk, &id, from));
    pair_close(&pair);
}

static void a_dropped_request_ends_and_leaves_nothing(void **state)
{
    (void)state;
    struct pair pair;
    open_pair(&pair, "drop");
    pair.verdict = ERR_AGAIN;
    char from[700];
    path_in(from, sizeof from, pair.work, "out");
    struct rng rng = {41};
    testing_make_tree(from, &rng, 10, 100000);
    Drover__Attempt id = attempt_of(1, 1);
    uint64_t ticket = bulk_send_output(pair.bulk, &id, from);
    assert_false(pair_wait(&pair, ticket, 100, NULL));
    bulk_drop(pair.bulk, ticket);
    struct bulk_event event;
    assert_true(pair_wait(&pair, ticket, 10000, &event));
    assert_int_equal(event.err.code, ERR_CANCELLED);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_outputs_arrive_byte_for_byte),
        cmocka_unit_test(an_upload_goes_on_after_the_master_restarted),
        cmocka_unit_test(a_log_grows_on_the_master_while_the_task_prints),
        cmocka_unit_test(a_log_beyond_its_limit_is_refused),
        cmocka_unit_test(a_stale_attempt_is_refused),
        cmocka_unit_test(a_checkpoint_follows_its_task),
        cmocka_unit_test(rungs_of_a_trial_share_a_checkpoint),
        cmocka_unit_test(outputs_go_down_and_stay_while_they_are_the_same),
        cmocka_unit_test(a_download_goes_on_after_the_master_restarted),
        cmocka_unit_test(a_revoked_node_is_refused),
        cmocka_unit_test(a_dropped_request_ends_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
