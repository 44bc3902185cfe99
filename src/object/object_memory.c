/* A store in memory, for tests and as the plainest example of a driver. */
#include "base/mem.h"
#include "object/object_driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_object {
    char *key;
    char *bytes;
    size_t size;
    uint64_t version;
};

struct object_shelf {
    struct memory_object **objects; /* in order of keys */
    size_t count, cap;
    uint64_t version; /* the newest given out */
};

struct memory_store {
    struct object_store store;
    struct object_shelf *shelf;
    bool owns_shelf;
    struct object_line line;
    struct object_stats stats;
};

/* -- the shelf -------------------------------------------------------------------------------- */

struct object_shelf *object_shelf_create(void)
{
    return mem_alloc(sizeof(struct object_shelf));
}

static void object_free(struct memory_object *object)
{
    free(object->key);
    free(object->bytes);
    free(object);
}

void object_shelf_destroy(struct object_shelf *shelf)
{
    if (!shelf) {
        return;
    }
    for (size_t i = 0; i < shelf->count; i++) {
        object_free(shelf->objects[i]);
    }
    free(shelf->objects);
    free(shelf);
}

/* Where key is, or would be. */
static size_t find(const struct object_shelf *shelf, const char *key, bool *is_there)
{
    size_t low = 0;
    size_t high = shelf->count;
    *is_there = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(shelf->objects[middle]->key, key);
        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void insert(struct object_shelf *shelf, size_t index, const char *key)
{
    VEC_PUSH(shelf->objects, shelf->count, shelf->cap) = NULL;
    memmove(shelf->objects + index + 1, shelf->objects + index,
            (shelf->count - 1 - index) * sizeof shelf->objects[0]);
    shelf->objects[index] = mem_alloc(sizeof *shelf->objects[index]);
    shelf->objects[index]->key = mem_strdup(key);
}

/* -- the verbs -------------------------------------------------------------------------------- */

static void set_etag(struct object_call *call, const struct memory_object *object)
{
    snprintf(call->etag, sizeof call->etag, "v%" PRIu64, object->version);
}

static void memory_get(struct object_shelf *shelf, struct object_call *call)
{
    bool is_there = false;
    size_t index = find(shelf, call->key, &is_there);
    if (!is_there) {
        object_call_fail(call, ERR_NOT_FOUND, "no such object");
        return;
    }
    const struct memory_object *object = shelf->objects[index];
    if (call->verb == OBJECT_GET) {
        uint64_t size = 0;
        if (!object_call_range(call, object->size, &size) || !object_call_reserve(call, size)) {
            return;
        }
        str_add_bytes(&call->body, object->bytes + call->offset, (size_t)size);
    }
    call->object_size = object->size;
    set_etag(call, object);
}

static bool condition_holds(struct object_call *call, const struct memory_object *object)
{
    if (call->condition == OBJECT_IF_ABSENT && object) {
        object_call_fail(call, ERR_EXISTS, "there is one already");
        return false;
    }
    if (call->condition == OBJECT_IF_MATCH && !object) {
        object_call_fail(call, ERR_NOT_FOUND, "no such object");
        return false;
    }
    if (call->condition == OBJECT_IF_MATCH) {
        set_etag(call, object);
        bool is_same = strcmp(call->etag, call->match) == 0;
        call->etag[0] = '\0';
        if (!is_same) {
            object_call_fail(call, ERR_STALE, "the object has changed");
            return false;
        }
    }
    return true;
}

static void memory_put(struct object_shelf *shelf, struct object_call *call)
{
    bool is_there = false;
    size_t index = find(shelf, call->key, &is_there);
    if (!condition_holds(call, is_there ? shelf->objects[index] : NULL)) {
        return;
    }
    char *bytes = mem_dup(call->data_size ? call->data : "", call->data_size);
    if (!is_there) {
        insert(shelf, index, call->key);
    }
    struct memory_object *object = shelf->objects[index];
    free(object->bytes);
    object->bytes = bytes;
    object->size = call->data_size;
    object->version = ++shelf->version;
    set_etag(call, object);
}

static void memory_delete(struct object_shelf *shelf, const struct object_call *call)
{
    for (size_t i = 0; i < call->key_count; i++) {
        bool is_there = false;
        size_t index = find(shelf, call->keys[i], &is_there);
        if (is_there) {
            object_free(shelf->objects[index]);
            shelf->count--;
            memmove(shelf->objects + index, shelf->objects + index + 1,
                    (shelf->count - index) * sizeof shelf->objects[0]);
        }
    }
}

static void memory_list(const struct object_shelf *shelf, struct object_call *call)
{
    const char *prefix = call->key ? call->key : "";
    const char *from = call->after && strcmp(call->after, prefix) > 0 ? call->after : prefix;
    bool is_there = false;
    for (size_t i = find(shelf, from, &is_there); i < shelf->count; i++) {
        const struct memory_object *object = shelf->objects[i];
        if (strncmp(object->key, prefix, strlen(prefix)) != 0) {
            return;
        }
        if (object_call_wants_key(call, object->key) &&
            !object_call_add_item(call, object->key, object->size)) {
            return;
        }
    }
}

static void carry_out(struct memory_store *memory, struct object_call *call)
{
    if (!object_call_judge(call)) {
        return;
    }
    switch (call->verb) {
    case OBJECT_GET:
    case OBJECT_HEAD:
        memory_get(memory->shelf, call);
        break;
    case OBJECT_PUT:
        memory_put(memory->shelf, call);
        break;
    case OBJECT_DELETE:
        memory_delete(memory->shelf, call);
        break;
    case OBJECT_LIST:
        memory_list(memory->shelf, call);
        break;
    }
    object_stats_count(&memory->stats, call);
}

/* -- the store -------------------------------------------------------------------------------- */

static void memory_start(struct object_store *store, struct object_call *call)
{
    object_line_add(&((struct memory_store *)store)->line, call);
}

/* Nothing is ever waited for: a call that is in line can be carried out. */
static size_t memory_run(struct object_store *store, int wait_ms)
{
    (void)wait_ms;
    struct memory_store *memory = (struct memory_store *)store;
    size_t count = 0;
    while (count < OBJECT_IN_FLIGHT_MAX && memory->line.first) {
        struct object_call *call = object_line_take(&memory->line);
        carry_out(memory, call);
        call->done(call);
        count++;
    }
    return count;
}

static int memory_fd(struct object_store *store)
{
    return ((struct memory_store *)store)->line.fd;
}

static void memory_stats(const struct object_store *store, struct object_stats *out)
{
    *out = ((const struct memory_store *)store)->stats;
}

static void memory_close(struct object_store *store)
{
    struct memory_store *memory = (struct memory_store *)store;
    object_line_cancel(&memory->line);
    object_line_release(&memory->line);
    if (memory->owns_shelf) {
        object_shelf_destroy(memory->shelf);
    }
    free(memory);
}

static const struct object_ops ops = {
    .start = memory_start,
    .run = memory_run,
    .fd = memory_fd,
    .stats = memory_stats,
    .close = memory_close,
};

struct object_store *object_memory_open(struct object_shelf *shelf)
{
    struct memory_store *memory = mem_alloc(sizeof *memory);
    memory->store.ops = &ops;
    memory->shelf = shelf;
    enum err_code code = object_line_init(&memory->line, NULL);
    CHECK(code == ERR_OK);
    return &memory->store;
}

struct object_store *object_memory_open_alone(void)
{
    struct object_store *store = object_memory_open(object_shelf_create());
    ((struct memory_store *)store)->owns_shelf = true;
    return store;
}
