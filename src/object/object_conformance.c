#include "object/object_conformance.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Far more than any share of faults needs; a driver that never answers fails the test. */
enum { ATTEMPTS_MAX = 1000, WAIT_MS = 1000, MANY_KEYS = 2345, RANDOM_STEPS = 2000 };

/* -- the caller ------------------------------------------------------------------------------- */

static bool should_ask_again(const struct conformance *test, const struct object_call *call)
{
    return test->driver->is_faulty && (call->code == ERR_AGAIN || call->code == ERR_TIMEOUT);
}

enum err_code conformance_do(struct conformance *test, struct object_call *call)
{
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        enum err_code code = object_do(test->store, call, NULL);
        CHECK(code == call->code);
        CHECK(call->err.code == code);
        CHECK((code == ERR_OK) == (call->err.text[0] == '\0'));
        if (!should_ask_again(test, call)) {
            break;
        }
        object_call_release(call);
    }
    return call->code;
}

struct together {
    struct conformance *test;
    size_t ended;
    bool is_starting;
};

static void on_done(struct object_call *call)
{
    struct together *together = call->context;
    CHECK(!together->is_starting);
    if (should_ask_again(together->test, call)) {
        object_call_release(call);
        object_start(together->test->store, call);
        return;
    }
    together->ended++;
}

void conformance_do_all(struct conformance *test, struct object_call *calls, size_t count)
{
    struct together together = {.test = test, .is_starting = true};
    for (size_t i = 0; i < count; i++) {
        calls[i].done = on_done;
        calls[i].context = &together;
        object_start(test->store, &calls[i]);
    }
    together.is_starting = false;
    while (together.ended < count) {
        object_run(test->store, WAIT_MS);
    }
    CHECK(object_run(test->store, 0) == 0);
    CHECK(together.ended == count);
}

enum err_code conformance_put(struct conformance *test, struct object_call *call)
{
    enum err_code code = conformance_do(test, call);
    if (!test->driver->is_faulty || (code != ERR_EXISTS && code != ERR_STALE)) {
        return code;
    }
    struct object_call look = {.verb = OBJECT_GET, .key = call->key};
    enum err_code looked = conformance_do(test, &look);
    if (looked == ERR_OK && look.body.size == call->data_size &&
        (call->data_size == 0 || memcmp(look.body.text, call->data, call->data_size) == 0)) {
        memcpy(call->etag, look.etag, sizeof call->etag);
        code = ERR_OK;
    }
    object_call_release(&look);
    return code;
}

enum err_code conformance_put_text(struct conformance *test, const char *key, const char *text)
{
    struct object_call call = {
        .verb = OBJECT_PUT, .key = key, .data = text, .data_size = strlen(text)};
    return conformance_do(test, &call);
}

enum err_code conformance_get(struct conformance *test, const char *key, struct str *out)
{
    struct object_call call = {.verb = OBJECT_GET, .key = key};
    enum err_code code = conformance_do(test, &call);
    str_clear(out);
    if (code == ERR_OK) {
        CHECK(call.object_size == call.body.size);
        str_add_bytes(out, call.body.text, call.body.size);
    }
    object_call_release(&call);
    return code;
}

void conformance_list(struct conformance *test, const struct object_call *question,
                      struct conformance_keys *out)
{
    size_t max = question->max ? question->max : OBJECT_LIST_MAX;
    for (bool more = true; more;) {
        struct object_call call = *question;
        call.after = out->count ? out->keys[out->count - 1] : question->after;
        enum err_code code = conformance_do(test, &call);
        if (code != ERR_OK) {
            print_error("%s\n", call.err.text);
        }
        assert_int_equal(code, ERR_OK);
        assert_true(call.page_count <= max);
        assert_true(!call.more || call.page_count > 0);
        more = call.more;
        for (size_t i = 0; i < call.page_count; i++) {
            VEC_PUSH(out->keys, out->count, out->cap) = mem_strdup(call.page[i].key);
        }
        object_call_release(&call);
    }
}

void conformance_keys_release(struct conformance_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) {
        free(keys->keys[i]);
    }
    free(keys->keys);
    *keys = (struct conformance_keys){0};
}

void conformance_delete_all(struct conformance *test)
{
    struct conformance_keys keys = {0};
    conformance_list(test, &(struct object_call){.verb = OBJECT_LIST}, &keys);
    for (size_t i = 0; i < keys.count; i += OBJECT_DELETE_MAX) {
        size_t left = keys.count - i;
        struct object_call call = {.verb = OBJECT_DELETE,
                                   .keys = (const char *const *)keys.keys + i,
                                   .key_count =
                                       left < OBJECT_DELETE_MAX ? left : OBJECT_DELETE_MAX};
        assert_int_equal(conformance_do(test, &call), ERR_OK);
    }
    conformance_keys_release(&keys);
}

void conformance_fill(struct str *out, uint64_t seed, size_t size)
{
    struct rng rng = {.state = seed};
    while (size > 0) {
        uint64_t bits = rng_next(&rng);
        size_t step = size < sizeof bits ? size : sizeof bits;
        str_add_bytes(out, &bits, step);
        size -= step;
    }
}

/* -- the runner ------------------------------------------------------------------------------- */

static int set_up(void **state)
{
    struct conformance *test = mem_alloc(sizeof *test);
    test->driver = *state;
    test->store = test->driver->open(test->driver);
    conformance_delete_all(test);
    *state = test;
    return 0;
}

static int tear_down(void **state)
{
    struct conformance *test = *state;
    conformance_delete_all(test);
    object_close(test->store);
    free(test);
    return 0;
}

int object_conformance_run(struct object_conformance *driver)
{
#define CONFORMANCE_ENTRY(name) {#name, conformance_##name, set_up, tear_down, driver},
    const struct CMUnitTest tests[] = {CONFORMANCE_TESTS(CONFORMANCE_ENTRY)};
    driver->many_keys = driver->many_keys ? driver->many_keys : MANY_KEYS;
    driver->random_steps = driver->random_steps ? driver->random_steps : RANDOM_STEPS;
    driver->large_bytes = driver->large_bytes ? driver->large_bytes : (size_t)68 << 20;
    return cmocka_run_group_tests_name(driver->name, tests, NULL, NULL);
}
