/* The conformance suite over every driver, and the promises of the faulty wrapper itself. */
#include "base/check.h"
#include "base/rng.h"
#include "store/store_conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct store *open_memory(struct conformance_driver *driver)
{
    (void)driver;
    return store_memory_create();
}

static struct store *open_sqlite(struct conformance_driver *driver)
{
    char *path = conformance_path(driver->folder, "store.db");
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, STORE_WRITE, &store, &err);
    if (code != ERR_OK) {
        print_error("%s\n", err.text);
    }
    CHECK(code == ERR_OK);
    free(path);
    return store;
}

static struct store *with_faults(struct conformance_driver *driver, struct store *inner)
{
    struct store_faults faults = {
        .seed = driver->seed, .fail = 0.2, .full = 0.1, .lost_reply = 0.2, .delay_us = 20};
    return store_faulty_create(inner, &faults);
}

static struct store *open_faulty_memory(struct conformance_driver *driver)
{
    return with_faults(driver, store_memory_create());
}

static struct store *open_faulty_sqlite(struct conformance_driver *driver)
{
    return with_faults(driver, open_sqlite(driver));
}

enum { CALLS = 2000 };

/* Asks for the last record and appends the next, over and over; notes each answer. */
static void record_answers(uint64_t seed, enum err_code *answers)
{
    struct store_faults faults = {.seed = seed, .fail = 0.1, .full = 0.2, .lost_reply = 0.3};
    struct store *store = store_faulty_create(store_memory_create(), &faults);
    uint64_t next = 1;
    for (int i = 0; i < CALLS; i++) {
        answers[i] = store->ops->append(store, next, 1, "x", 1, NULL);
        next += answers[i] == ERR_OK || answers[i] == ERR_EXISTS;
    }
    store->ops->close(store);
}

static void test_faults_follow_from_the_seed(void **state)
{
    (void)state;
    static enum err_code first[CALLS];
    static enum err_code second[CALLS];
    static enum err_code other[CALLS];
    record_answers(1, first);
    record_answers(1, second);
    record_answers(2, other);
    assert_memory_equal(first, second, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
}

static void test_faults_come_in_their_shares(void **state)
{
    (void)state;
    static enum err_code answers[CALLS];
    record_answers(7, answers);
    int quota = 0;
    int io = 0;
    int exists = 0;
    for (int i = 0; i < CALLS; i++) {
        quota += answers[i] == ERR_QUOTA;
        io += answers[i] == ERR_IO;
        exists += answers[i] == ERR_EXISTS;
    }
    assert_in_range(quota, CALLS * 16 / 100, CALLS * 24 / 100);
    assert_in_range(io, CALLS * 35 / 100, CALLS * 45 / 100);
    assert_true(exists > CALLS / 10); /* lost replies, settled by asking again */
}

static void test_a_failed_call_does_nothing_and_a_lost_one_happens(void **state)
{
    (void)state;
    struct store *memory = store_memory_create();
    struct store_faults always_fail = {.fail = 1};
    struct store *store = store_faulty_create(memory, &always_fail);
    struct err err = {0};
    assert_int_equal(store->ops->append(store, 1, 1, "x", 1, &err), ERR_IO);
    assert_string_equal(err.text, "faulty: append failed by plan");
    assert_int_equal(conformance_last(memory), 0);
    store->ops->close(store);

    memory = store_memory_create();
    struct store_faults always_lost = {.lost_reply = 1};
    store = store_faulty_create(memory, &always_lost);
    assert_int_equal(store->ops->append(store, 1, 1, "x", 1, &err), ERR_IO);
    assert_int_equal(store->ops->doc_put(store, "d", "y", 1, &err), ERR_IO);
    uint64_t last = 0;
    assert_int_equal(store->ops->last(store, &last, &err), ERR_OK); /* reads get their reply */
    assert_int_equal(last, 1);
    store->ops->close(store);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : rng_seed_from_system();
    struct conformance_driver drivers[] = {
        {.name = "memory", .open = open_memory, .random_steps = 3000},
        {.name = "sqlite", .open = open_sqlite, .reopens = true, .random_steps = 300},
        {.name = "faulty(memory)",
         .open = open_faulty_memory,
         .is_faulty = true,
         .random_steps = 1000},
        {.name = "faulty(sqlite)",
         .open = open_faulty_sqlite,
         .is_faulty = true,
         .reopens = true,
         .random_steps = 200},
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults_follow_from_the_seed),
        cmocka_unit_test(test_faults_come_in_their_shares),
        cmocka_unit_test(test_a_failed_call_does_nothing_and_a_lost_one_happens),
    };
    int failed = cmocka_run_group_tests_name("faulty", tests, NULL, NULL);
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++) {
        drivers[i].seed = seed;
        failed += conformance_run(&drivers[i]);
    }
    return failed;
}
