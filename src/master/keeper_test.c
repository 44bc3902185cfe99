#include "base/clock.h"
#include "base/mem.h"
#include "master/keeper.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <cmocka.h>

/* A store whose records outlive it, so that a test can look after keeper_stop closed it. */
struct peek {
    struct store store;
    struct store *inner;
    uint64_t *records; /* every byte string appended, as its numbers */
    size_t record_count;
    size_t record_cap;
    int appends;
    uint64_t snapshot_upto;
    bool refuse; /* fail every append */
    bool closed;
};

static enum err_code peek_append(struct store *store, uint64_t first, uint32_t count,
                                 const void *bytes, size_t size, struct err *err)
{
    struct peek *peek = (struct peek *)store;
    if (peek->refuse) {
        return err_set(err, ERR_QUOTA, "no room");
    }
    enum err_code code = peek->inner->ops->append(peek->inner, first, count, bytes, size, err);
    if (code == ERR_OK || code == ERR_EXISTS) {
        assert_int_equal(size, count * sizeof(uint64_t));
        for (uint32_t i = 0; i < count; i++) { /* EXISTS: kept, but the reply was lost */
            uint64_t number = 0;
            memcpy(&number, (const char *)bytes + i * sizeof number, sizeof number);
            VEC_PUSH(peek->records, peek->record_count, peek->record_cap) = number;
        }
        peek->appends++;
    }
    return code;
}

static enum err_code peek_snapshot(struct store *store, uint64_t upto, const void *bytes,
                                   size_t size, struct err *err)
{
    struct peek *peek = (struct peek *)store;
    enum err_code code = peek->inner->ops->snapshot_put(peek->inner, upto, bytes, size, err);
    if (code == ERR_OK) {
        peek->snapshot_upto = upto;
    }
    return code;
}

static void peek_close(struct store *store)
{
    struct peek *peek = (struct peek *)store;
    peek->inner->ops->close(peek->inner);
    peek->closed = true;
}

static const struct store_ops peek_ops = {
    .append = peek_append, .snapshot_put = peek_snapshot, .close = peek_close};

struct fixture {
    void *context;
    struct peek peek;
    struct keeper *keeper;
    uint64_t posted;
    uint64_t durable;
};

static void begin(struct fixture *fixture, struct store *inner)
{
    *fixture = (struct fixture){.context = zmq_ctx_new()};
    fixture->peek = (struct peek){.store = {.ops = &peek_ops}, .inner = inner};
    struct keeper_options options = {
        .zmq_context = fixture->context, .store = &fixture->peek.store, .sync_fd = -1};
    fixture->keeper = keeper_start(&options);
}

static void post(struct fixture *fixture, uint32_t count)
{
    uint64_t numbers[64];
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = fixture->posted + 1 + i;
    }
    keeper_post(fixture->keeper, fixture->posted + 1, count, numbers, count * sizeof numbers[0]);
    fixture->posted += count;
}

static void wait_durable(struct fixture *fixture)
{
    struct keeper_news news;
    while (fixture->durable < fixture->posted) {
        assert_true(keeper_wait(fixture->keeper, 10000, &news));
        assert_true(news.kind != KEEPER_FATAL);
        if (news.kind == KEEPER_DURABLE) {
            assert_true(news.durable > fixture->durable && news.durable <= fixture->posted);
            fixture->durable = news.durable;
        }
    }
}

static void end(struct fixture *fixture, bool all_durable)
{
    assert_int_equal(keeper_stop(fixture->keeper, 200), all_durable);
    assert_true(fixture->peek.closed);
    for (size_t i = 0; i < fixture->peek.record_count; i++) {
        assert_int_equal(fixture->peek.records[i], i + 1);
    }
    free(fixture->peek.records);
    zmq_ctx_term(fixture->context);
}

static void test_facts_are_kept_in_order_and_in_groups(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, store_memory_create());
    for (int i = 0; i < 5000; i++) {
        post(&fixture, 1 + (uint32_t)i % 7);
    }
    wait_durable(&fixture);
    assert_int_equal(fixture.peek.record_count, fixture.posted);
    assert_in_range(fixture.peek.appends, 1, 500);
    end(&fixture, true);
}

static void test_a_failing_store_loses_nothing(void **state)
{
    (void)state;
    struct store_faults faults = {.seed = 11, .fail = 0.2, .full = 0.1, .lost_reply = 0.2};
    printf("seed %" PRIu64 "\n", faults.seed);
    struct fixture fixture;
    begin(&fixture, store_faulty_create(store_memory_create(), &faults));
    for (int i = 0; i < 30; i++) {
        post(&fixture, 3);
        wait_durable(&fixture);
    }
    end(&fixture, true);
}

static void test_trouble_is_told_once_and_its_end_too(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, store_memory_create());
    fixture.peek.refuse = true;
    post(&fixture, 1);
    struct keeper_news news;
    assert_true(keeper_wait(fixture.keeper, 10000, &news));
    assert_int_equal(news.kind, KEEPER_TROUBLE);
    assert_string_equal(news.err.text, "no room");
    assert_false(keeper_wait(fixture.keeper, 300, &news));
    __atomic_store_n(&fixture.peek.refuse, false, __ATOMIC_SEQ_CST);
    assert_true(keeper_wait(fixture.keeper, 10000, &news));
    assert_int_equal(news.kind, KEEPER_RECOVERED);
    wait_durable(&fixture);
    end(&fixture, true);
}

static void test_stopping_with_a_dead_store_gives_up_and_says_so(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, store_memory_create());
    fixture.peek.refuse = true;
    post(&fixture, 1);
    int64_t began_ms = clock_mono_ms();
    end(&fixture, false);
    assert_in_range(clock_mono_ms() - began_ms, 0, 3000);
}

static void test_a_stop_is_heard_behind_facts_that_wait(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, store_memory_create());
    fixture.peek.refuse = true;
    post(&fixture, 1);
    struct keeper_news news;
    assert_true(keeper_wait(fixture.keeper, 10000, &news));
    assert_int_equal(news.kind, KEEPER_TROUBLE);
    for (int i = 0; i < 10; i++) {
        post(&fixture, 3);
    }
    int64_t began_ms = clock_mono_ms();
    end(&fixture, false);
    assert_in_range(clock_mono_ms() - began_ms, 0, 3000);
}

static void test_a_snapshot_follows_the_facts_before_it(void **state)
{
    (void)state;
    struct fixture fixture;
    begin(&fixture, store_memory_create());
    post(&fixture, 5);
    keeper_post_snapshot(fixture.keeper, 5, "state", 5);
    post(&fixture, 2);
    wait_durable(&fixture);
    end(&fixture, true);
    assert_int_equal(fixture.peek.snapshot_upto, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_are_kept_in_order_and_in_groups),
        cmocka_unit_test(test_a_failing_store_loses_nothing),
        cmocka_unit_test(test_trouble_is_told_once_and_its_end_too),
        cmocka_unit_test(test_stopping_with_a_dead_store_gives_up_and_says_so),
        cmocka_unit_test(test_a_stop_is_heard_behind_facts_that_wait),
        cmocka_unit_test(test_a_snapshot_follows_the_facts_before_it),
    };
    return cmocka_run_group_tests_name("keeper", tests, NULL, NULL);
}
