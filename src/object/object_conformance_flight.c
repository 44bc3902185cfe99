/* The conformance suite: many calls at once, and the end of the store. */
#include "base/clock.h"
#include "base/mem.h"
#include "object/object_conformance.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CALLS = 200, RIVALS = 12, WAIT_MS = 1000, PATIENCE_MS = 60000 };

struct text {
    char text[32];
};

static void make_keys(struct text keys[CALLS])
{
    for (int i = 0; i < CALLS; i++) {
        snprintf(keys[i].text, sizeof keys[i].text, "flight/%d/%d", i % 7, i);
    }
}

void conformance_many_calls_are_in_flight_at_once(void **state)
{
    struct conformance *test = *state;
    static struct text keys[CALLS];
    make_keys(keys);
    AUTO_FREE struct object_call *calls = mem_array(CALLS, sizeof *calls);
    AUTO_STR struct str bytes = {0};
    conformance_fill(&bytes, 5, 10000);
    for (size_t i = 0; i < CALLS; i++) {
        calls[i] = (struct object_call){.verb = OBJECT_PUT,
                                        .key = keys[i].text,
                                        .data = bytes.text + i,
                                        .data_size = bytes.size - i};
    }
    conformance_do_all(test, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].code, ERR_OK);
        calls[i] = (struct object_call){.verb = OBJECT_GET, .key = keys[i].text};
    }
    conformance_do_all(test, calls, CALLS);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i].code, ERR_OK);
        assert_int_equal(calls[i].body.size, bytes.size - i);
        assert_memory_equal(calls[i].body.text, bytes.text + i, bytes.size - i);
        object_call_release(&calls[i]);
    }
}

/* -- a chain: each call is started when the one before has ended ------------------------------ */

struct chain {
    struct conformance *test;
    struct object_call calls[2]; /* in turn: a call that has just ended is still the caller's */
    struct text keys[2];
    int ended;
    bool is_inside; /* one of our functions that may not see a call end */
};

enum { CHAIN = 50 };

static void start_next(struct chain *chain);

static void on_link(struct object_call *call)
{
    struct chain *chain = call->context;
    CHECK(!chain->is_inside);
    bool asks_again = chain->test->driver->is_faulty && call->code == ERR_AGAIN;
    if (!asks_again) {
        CHECK(call->code == ERR_OK);
        chain->ended++;
    }
    object_call_release(call);
    if (chain->ended < CHAIN) {
        start_next(chain);
    }
}

static void start_next(struct chain *chain)
{
    int turn = chain->ended % 2;
    snprintf(chain->keys[turn].text, sizeof chain->keys[turn].text, "chain/%d", chain->ended / 2);
    chain->calls[turn] = (struct object_call){.verb = turn ? OBJECT_GET : OBJECT_PUT,
                                              .key = chain->keys[turn].text,
                                              .data = "link",
                                              .data_size = 4,
                                              .done = on_link,
                                              .context = chain};
    bool was_inside = chain->is_inside;
    chain->is_inside = true;
    object_start(chain->test->store, &chain->calls[turn]);
    chain->is_inside = was_inside;
}

void conformance_done_starts_further_calls(void **state)
{
    struct chain chain = {.test = *state};
    start_next(&chain);
    while (chain.ended < CHAIN) {
        object_run(chain.test->store, WAIT_MS);
    }
    assert_int_equal(chain.ended, CHAIN);
}

/* -- the descriptor --------------------------------------------------------------------------- */

void conformance_the_descriptor_tells_when_to_run(void **state)
{
    struct chain chain = {.test = *state};
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    int fd = object_fd(chain.test->store);
    start_next(&chain);
    while (chain.ended < CHAIN) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_true(poll(&wait, 1, PATIENCE_MS) == 1); /* else it would have slept for ever */
        object_run(chain.test->store, 0);
        assert_true(clock_mono_ms() < until_ms);
    }
    assert_int_equal(object_fd(chain.test->store), fd);
}

/* -- races ------------------------------------------------------------------------------------ */

/* Many PUTs of one key at once, each with its own bytes: at most one may succeed, and it is the one
 * whose bytes are there. Where no reply is lost, one does. */
static void race(struct conformance *test, enum object_condition condition, const char *etag,
                 enum err_code loss)
{
    struct object_call calls[RIVALS] = {0};
    struct text texts[RIVALS] = {0};
    for (size_t i = 0; i < RIVALS; i++) {
        snprintf(texts[i].text, sizeof texts[i].text, "rival %zu", i);
        calls[i] = (struct object_call){.verb = OBJECT_PUT,
                                        .key = "race",
                                        .data = texts[i].text,
                                        .data_size = strlen(texts[i].text),
                                        .condition = condition};
        memcpy(calls[i].match, etag, strlen(etag) + 1);
    }
    conformance_do_all(test, calls, RIVALS);
    AUTO_STR struct str body = {0};
    assert_int_equal(conformance_get(test, "race", &body), ERR_OK);
    size_t winners = 0;
    bool is_one_of_us = false;
    for (size_t i = 0; i < RIVALS; i++) {
        bool is_there = strcmp(str_text(&body), texts[i].text) == 0;
        is_one_of_us = is_one_of_us || is_there;
        winners += calls[i].code == ERR_OK;
        assert_true(calls[i].code == ERR_OK || calls[i].code == loss);
        assert_true(calls[i].code != ERR_OK || is_there);
    }
    assert_true(is_one_of_us);
    assert_true(winners == 1 || (winners == 0 && test->driver->is_faulty));
}

void conformance_one_of_many_puts_if_absent_wins(void **state)
{
    race(*state, OBJECT_IF_ABSENT, "", ERR_EXISTS);
}

void conformance_one_of_many_puts_if_match_wins(void **state)
{
    struct conformance *test = *state;
    struct object_call put = {.verb = OBJECT_PUT, .key = "race", .data = "begin", .data_size = 5};
    assert_int_equal(conformance_do(test, &put), ERR_OK);
    race(test, OBJECT_IF_MATCH, put.etag, ERR_STALE);
}

/* -- close ------------------------------------------------------------------------------------ */

struct last {
    struct object_call call;
    struct conformance *test;
    int ended;
    struct last *successor; /* started when this one is cancelled */
};

static void on_last(struct object_call *call)
{
    struct last *last = call->context;
    last->ended++;
    if (call->code == ERR_CANCELLED && last->successor) {
        object_start(last->test->store, &last->successor->call);
        last->successor = NULL;
    }
}

static struct object_call make_last(struct last *last, enum object_verb verb, const char *key)
{
    return (struct object_call){
        .verb = verb, .key = key, .data = "last", .data_size = 4, .done = on_last, .context = last};
}

void conformance_close_ends_every_call_once(void **state)
{
    struct conformance *test = *state;
    static struct text keys[CALLS];
    make_keys(keys);
    AUTO_FREE struct last *lasts = mem_array(CALLS, sizeof *lasts);
    struct last successor = {.test = test};
    successor.call = make_last(&successor, OBJECT_GET, "none");
    for (size_t i = 0; i < CALLS; i++) {
        lasts[i].test = test;
        lasts[i].call = make_last(&lasts[i], i % 3 ? OBJECT_PUT : OBJECT_LIST, keys[i].text);
        object_start(test->store, &lasts[i].call);
    }
    lasts[CALLS - 1].successor = &successor;
    object_run(test->store, 0);
    object_close(test->store);
    bool was_cancelled = lasts[CALLS - 1].call.code == ERR_CANCELLED;
    assert_int_equal(successor.ended, was_cancelled);
    assert_true(!was_cancelled || successor.call.code == ERR_CANCELLED);
    test->store = test->driver->open(test->driver);
    AUTO_STR struct str body = {0};
    for (size_t i = 0; i < CALLS; i++) {
        struct object_call *call = &lasts[i].call;
        assert_int_equal(lasts[i].ended, 1);
        assert_true(call->code == ERR_OK || call->code == ERR_CANCELLED ||
                    (test->driver->is_faulty && call->code == ERR_AGAIN));
        if (call->verb == OBJECT_PUT && call->code == ERR_OK) {
            assert_int_equal(conformance_get(test, call->key, &body), ERR_OK);
            assert_string_equal(str_text(&body), "last");
        }
        object_call_release(call);
    }
    object_call_release(&successor.call);
}
