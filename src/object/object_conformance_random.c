/* The conformance suite: random calls, checked one by one against the plainest model. */
#include "base/mem.h"
#include "base/rng.h"
#include "object/object_conformance.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In byte order: what is an object here is a folder there, and neighbours sort around the slash. */
static const char *const names[] = {"a",      "a+",      "a-",       "a-/b",    "a.",    "a/-",
                                    "a/a",    "a/a/a",   "a/a/b",    "a/b",     "a/b-c", "a/b/c/d",
                                    "a/b/d",  "a/b0",    "a0",       "aa",      "b",     "b/1",
                                    "b/2",    "b/3",     "head",     "log/1",   "log/2", "log/3",
                                    "packs-", "packs/a", "packs/a.", "packs/b", "x/x/x", "x/y"};
enum { NAMES = sizeof names / sizeof names[0], SIZE_MAX_RANDOM = 3000 };

struct model {
    struct conformance *test;
    struct rng rng;
    uint64_t count; /* of PUTs: no two have the same bytes */
    struct {
        bool is_there;
        struct str bytes;
        char etag[OBJECT_ETAG_MAX];
    } objects[NAMES];
    char old_etag[OBJECT_ETAG_MAX]; /* of something that was there once */
};

static size_t below(struct model *model, size_t limit)
{
    return (size_t)rng_below(&model->rng, limit);
}

static bool is_folder(const char *name)
{
    bool is_one = false;
    for (size_t i = 0; i < NAMES; i++) {
        is_one = is_one || conformance_is_below(names[i], name);
    }
    return is_one;
}

static void step_put(struct model *model, enum object_condition condition)
{
    size_t i = below(model, NAMES);
    if (model->test->driver->is_tree && is_folder(names[i])) {
        return;
    }
    struct str bytes = {0};
    str_addf(&bytes, "%" PRIu64 ":", model->count++);
    conformance_fill(&bytes, model->count, below(model, SIZE_MAX_RANDOM));
    struct object_call call = {.verb = OBJECT_PUT,
                               .key = names[i],
                               .data = bytes.text,
                               .data_size = bytes.size,
                               .condition = condition};
    bool is_there = model->objects[i].is_there;
    enum err_code expected = ERR_OK;
    if (condition == OBJECT_IF_ABSENT && is_there) {
        expected = ERR_EXISTS;
    } else if (condition == OBJECT_IF_MATCH) {
        bool is_old = !is_there || below(model, 4) == 0;
        memcpy(call.match, is_old ? model->old_etag : model->objects[i].etag, sizeof call.match);
        expected = !is_there ? ERR_NOT_FOUND : is_old ? ERR_STALE : ERR_OK;
    }
    assert_int_equal(conformance_put(model->test, &call), expected);
    if (expected != ERR_OK) {
        str_release(&bytes);
        return;
    }
    if (is_there) {
        memcpy(model->old_etag, model->objects[i].etag, sizeof model->old_etag);
    }
    str_release(&model->objects[i].bytes);
    model->objects[i].bytes = bytes;
    model->objects[i].is_there = true;
    memcpy(model->objects[i].etag, call.etag, sizeof call.etag);
}

static void step_get(struct model *model)
{
    size_t i = below(model, NAMES);
    const struct str *bytes = &model->objects[i].bytes;
    struct object_call call = {.verb = OBJECT_GET, .key = names[i]};
    if (below(model, 2)) {
        call.offset = below(model, SIZE_MAX_RANDOM);
        call.size = below(model, SIZE_MAX_RANDOM);
    }
    bool is_whole = call.offset == 0 && call.size == 0;
    enum err_code code = conformance_do(model->test, &call);
    if (!model->objects[i].is_there) {
        assert_int_equal(code, ERR_NOT_FOUND);
    } else if (call.offset >= bytes->size && !is_whole) {
        assert_int_equal(code, ERR_RANGE);
    } else {
        size_t rest = bytes->size - (size_t)call.offset;
        size_t size = call.size && call.size < rest ? (size_t)call.size : rest;
        assert_int_equal(code, ERR_OK);
        assert_int_equal(call.body.size, size);
        assert_memory_equal(call.body.text, bytes->text + call.offset, size);
        assert_int_equal(call.object_size, bytes->size);
        assert_string_equal(call.etag, model->objects[i].etag);
    }
    object_call_release(&call);
}

static void step_head(struct model *model)
{
    size_t i = below(model, NAMES);
    struct object_call call = {.verb = OBJECT_HEAD, .key = names[i]};
    enum err_code code = conformance_do(model->test, &call);
    assert_int_equal(code, model->objects[i].is_there ? ERR_OK : ERR_NOT_FOUND);
    if (code == ERR_OK) {
        assert_int_equal(call.object_size, model->objects[i].bytes.size);
        assert_string_equal(call.etag, model->objects[i].etag);
    }
    object_call_release(&call);
}

static void step_delete(struct model *model)
{
    enum { KEYS_MAX = 6 };
    const char *keys[KEYS_MAX];
    size_t count = below(model, KEYS_MAX + 1);
    for (size_t k = 0; k < count; k++) {
        size_t i = below(model, NAMES);
        keys[k] = names[i];
        model->objects[i].is_there = false;
        str_clear(&model->objects[i].bytes);
    }
    struct object_call call = {.verb = OBJECT_DELETE, .keys = keys, .key_count = count};
    assert_int_equal(conformance_do(model->test, &call), ERR_OK);
}

static void step_list(struct model *model)
{
    char prefix[32];
    char after[32];
    const char *of = names[below(model, NAMES)];
    snprintf(prefix, sizeof prefix, "%.*s", (int)below(model, strlen(of) + 1), of);
    of = names[below(model, NAMES)];
    snprintf(after, sizeof after, "%.*s", (int)below(model, strlen(of) + 1), of);
    struct object_call call = {
        .verb = OBJECT_LIST, .key = prefix, .after = after, .max = 1 + below(model, NAMES)};
    assert_int_equal(conformance_do(model->test, &call), ERR_OK);
    size_t at = 0;
    bool more = false;
    for (size_t i = 0; i < NAMES; i++) {
        if (!model->objects[i].is_there || strcmp(names[i], after) <= 0 ||
            strncmp(names[i], prefix, strlen(prefix)) != 0) {
            continue;
        }
        if (at == call.max) {
            more = true;
            break;
        }
        assert_true(at < call.page_count);
        assert_string_equal(call.page[at].key, names[i]);
        assert_int_equal(call.page[at].size, model->objects[i].bytes.size);
        at++;
    }
    assert_int_equal(call.page_count, at);
    assert_true(call.more || !more); /* to say more and have none is allowed */
    object_call_release(&call);
}

static void step(struct model *model)
{
    switch (below(model, 16)) {
    case 0:
    case 1:
    case 2:
        step_put(model, OBJECT_ALWAYS);
        break;
    case 3:
    case 4:
        step_put(model, OBJECT_IF_ABSENT);
        break;
    case 5:
    case 6:
        step_put(model, OBJECT_IF_MATCH);
        break;
    case 7:
        step_delete(model);
        break;
    case 8:
    case 9:
    case 10:
        step_list(model);
        break;
    case 11:
        step_head(model);
        break;
    default:
        step_get(model);
        break;
    }
}

void conformance_random_calls_do_what_a_plain_model_does(void **state)
{
    struct conformance *test = *state;
    struct object_conformance *driver = test->driver;
    print_message("%s: seed %" PRIu64 ", %d steps\n", driver->name, driver->seed,
                  driver->random_steps);
    struct model *model = mem_alloc(sizeof *model);
    model->test = test;
    model->rng.state = driver->seed;
    snprintf(model->old_etag, sizeof model->old_etag, "none");
    for (int i = 0; i < driver->random_steps; i++) {
        step(model);
        if (below(model, 300) == 0) {
            object_close(test->store);
            test->store = driver->open(driver);
        }
    }
    for (size_t i = 0; i < NAMES; i++) {
        str_release(&model->objects[i].bytes);
    }
    free(model);
}
