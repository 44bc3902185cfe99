#include "object/object.h"

#include <stdlib.h>
#include <string.h>

/* -- the front -------------------------------------------------------------------------------- */

static void clear_answer(struct object_call *call)
{
    call->code = ERR_OK;
    call->err.code = ERR_OK;
    call->err.text[0] = '\0';
    call->body = (struct str){0};
    call->object_size = 0;
    call->etag[0] = '\0';
    call->page = NULL;
    call->page_count = 0;
    call->more = false;
    call->next = NULL;
    call->driver = NULL;
}

void object_start(struct object_store *store, struct object_call *call)
{
    CHECK(call->done);
    CHECK(call->key_count <= OBJECT_DELETE_MAX);
    CHECK(call->max <= OBJECT_LIST_MAX);
    CHECK(memchr(call->match, '\0', sizeof call->match));
    clear_answer(call);
    store->ops->start(store, call);
}

size_t object_run(struct object_store *store, int wait_ms)
{
    CHECK(wait_ms >= 0);
    return store->ops->run(store, wait_ms);
}

int object_fd(struct object_store *store)
{
    return store->ops->fd(store);
}

void object_stats(const struct object_store *store, struct object_stats *out)
{
    store->ops->stats(store, out);
}

void object_close(struct object_store *store)
{
    if (store) {
        store->ops->close(store);
    }
}

void object_call_release(struct object_call *call)
{
    str_release(&call->body);
    str_release(&call->room);
    for (size_t i = 0; i < call->page_count; i++) {
        free(call->page[i].key);
    }
    free(call->page);
    call->page = NULL;
    call->page_count = 0;
}

static bool character_is_sound(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._@=+-", c));
}

bool object_key_is_sound(const char *key)
{
    if (!key || strnlen(key, OBJECT_KEY_MAX + 1) > OBJECT_KEY_MAX) {
        return false;
    }
    for (const char *part = key;;) {
        size_t size = 0;
        while (character_is_sound(part[size])) {
            size++;
        }
        bool is_dots = (size == 1 && part[0] == '.') || (size == 2 && memcmp(part, "..", 2) == 0);
        if (size == 0 || is_dots) {
            return false;
        }
        if (part[size] != '/') {
            return part[size] == '\0';
        }
        part += size + 1;
    }
}

/* -- blocking forms --------------------------------------------------------------------------- */

enum { WAIT_MS = 1000 };

static void note_end(struct object_call *call)
{
    *(bool *)call->context = true;
}

enum err_code object_do(struct object_store *store, struct object_call *call, struct err *err)
{
    void (*done)(struct object_call * call) = call->done;
    void *context = call->context;
    bool has_ended = false;
    call->done = note_end;
    call->context = &has_ended;
    object_start(store, call);
    while (!has_ended) {
        object_run(store, WAIT_MS);
    }
    call->done = done;
    call->context = context;
    if (call->code != ERR_OK && err) {
        *err = call->err;
    }
    return call->code;
}

enum err_code object_get(struct object_store *store, const char *key, struct str *out, char *etag,
                         struct err *err)
{
    struct object_call call = {.verb = OBJECT_GET, .key = key};
    enum err_code code = object_do(store, &call, err);
    if (code == ERR_OK && out->size == 0) {
        str_release(out); /* what came is handed over as it is */
        *out = call.body;
        call.body = (struct str){0};
    } else if (code == ERR_OK) {
        str_add_bytes(out, call.body.text, call.body.size);
    }
    if (code == ERR_OK && etag) {
        memcpy(etag, call.etag, sizeof call.etag);
    }
    object_call_release(&call);
    return code;
}

enum err_code object_put(struct object_store *store, const char *key, const void *data, size_t size,
                         struct err *err)
{
    struct object_call call = {.verb = OBJECT_PUT, .key = key, .data = data, .data_size = size};
    return object_do(store, &call, err);
}

enum err_code object_put_if_absent(struct object_store *store, const char *key, const void *data,
                                   size_t size, struct err *err)
{
    struct object_call call = {.verb = OBJECT_PUT,
                               .key = key,
                               .data = data,
                               .data_size = size,
                               .condition = OBJECT_IF_ABSENT};
    return object_do(store, &call, err);
}

enum err_code object_put_if_match(struct object_store *store, const char *key, const void *data,
                                  size_t size, char *match, struct err *err)
{
    struct object_call call = {.verb = OBJECT_PUT,
                               .key = key,
                               .data = data,
                               .data_size = size,
                               .condition = OBJECT_IF_MATCH};
    size_t length = strnlen(match, sizeof call.match);
    CHECK(length < sizeof call.match);
    memcpy(call.match, match, length + 1);
    enum err_code code = object_do(store, &call, err);
    if (code == ERR_OK) {
        memcpy(match, call.etag, sizeof call.etag);
    }
    return code;
}

enum err_code object_delete(struct object_store *store, const char *key, struct err *err)
{
    struct object_call call = {.verb = OBJECT_DELETE, .keys = &key, .key_count = 1};
    return object_do(store, &call, err);
}

enum err_code object_each(struct object_store *store, const char *prefix,
                          bool (*each)(void *context, const struct object_item *item),
                          void *context, struct err *err)
{
    struct str after = {0};
    bool goes_on = true;
    enum err_code code = ERR_OK;
    while (goes_on && code == ERR_OK) {
        struct object_call call = {.verb = OBJECT_LIST, .key = prefix, .after = str_text(&after)};
        code = object_do(store, &call, err);
        goes_on = code == ERR_OK && call.more;
        CHECK(!goes_on || call.page_count > 0);
        if (goes_on) {
            str_clear(&after);
            str_add(&after, call.page[call.page_count - 1].key);
        }
        for (size_t i = 0; i < call.page_count; i++) {
            if (!each(context, &call.page[i])) {
                goes_on = false;
                break;
            }
        }
        object_call_release(&call);
    }
    str_release(&after);
    return code;
}
