#include "object/object_driver.h"

#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* -- one call --------------------------------------------------------------------------------- */

static const char *subject(const struct object_call *call)
{
    switch (call->verb) {
    case OBJECT_GET:
    case OBJECT_HEAD:
    case OBJECT_PUT:
        return call->key ? call->key : "(no key)";
    case OBJECT_DELETE:
        return call->key_count == 1 && call->keys[0] ? call->keys[0] : "(delete)";
    case OBJECT_LIST:
        return "(list)";
    }
    return "(unknown verb)";
}

enum err_code object_call_fail(struct object_call *call, enum err_code code, const char *format,
                               ...)
{
    char text[sizeof call->err.text];
    va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    call->code = code;
    /* A long key must not push the trouble out of the text. */
    return err_set(&call->err, code, "%.240s: %s", subject(call), text);
}

bool object_call_judge(struct object_call *call)
{
    if (call->verb == OBJECT_LIST) {
        return true; /* a prefix that no key can have finds nothing */
    }
    size_t count = call->verb == OBJECT_DELETE ? call->key_count : 1;
    for (size_t i = 0; i < count; i++) {
        const char *key = call->verb == OBJECT_DELETE ? call->keys[i] : call->key;
        if (!object_key_is_sound(key)) {
            object_call_fail(call, ERR_RANGE, "'%.100s' is not a sound key", key ? key : "");
            return false;
        }
    }
    return true;
}

bool object_call_range(struct object_call *call, uint64_t object_size, uint64_t *size)
{
    bool is_whole = call->offset == 0 && call->size == 0; /* fine for an empty object, too */
    if (!is_whole && call->offset >= object_size) {
        object_call_fail(call, ERR_RANGE,
                         "the range begins at %" PRIu64 ", the object has %" PRIu64 " bytes",
                         call->offset, object_size);
        return false;
    }
    uint64_t rest = object_size - call->offset;
    *size = call->size && call->size < rest ? call->size : rest;
    call->object_size = object_size;
    return true;
}

bool object_call_reserve(struct object_call *call, uint64_t size)
{
    CHECK(call->body.size == 0);
    str_release(&call->body);
    if (call->room.cap > size) {
        call->body = call->room;
        call->room = (struct str){0};
        str_clear(&call->body);
        return true;
    }
    char *text = size < SIZE_MAX ? malloc((size_t)size + 1) : NULL;
    if (!text) {
        object_call_fail(call, ERR_AGAIN, "no memory for %" PRIu64 " bytes", size);
        return false;
    }
    text[0] = '\0';
    call->body = (struct str){.text = text, .cap = (size_t)size + 1};
    return true;
}

bool object_call_add_item(struct object_call *call, const char *key, uint64_t size)
{
    size_t max = call->max ? call->max : OBJECT_LIST_MAX;
    if (call->page_count == max) {
        call->more = true;
        return false;
    }
    if (!call->page) {
        call->page = mem_array(max, sizeof call->page[0]);
    }
    call->page[call->page_count++] = (struct object_item){.key = mem_strdup(key), .size = size};
    return true;
}

bool object_call_wants_key(const struct object_call *call, const char *key)
{
    return (!call->key || strncmp(key, call->key, strlen(call->key)) == 0) &&
           (!call->after || strcmp(key, call->after) > 0);
}

void object_stats_count(struct object_stats *stats, const struct object_call *call)
{
    switch (call->verb) {
    case OBJECT_GET:
        stats->gets++;
        stats->bytes_in += call->body.size;
        break;
    case OBJECT_HEAD:
        stats->heads++;
        break;
    case OBJECT_PUT:
        stats->puts++;
        stats->bytes_out += call->data_size;
        break;
    case OBJECT_DELETE:
        stats->deletes++;
        break;
    case OBJECT_LIST:
        stats->lists++;
        break;
    }
}

/* -- a line ----------------------------------------------------------------------------------- */

enum err_code object_line_init(struct object_line *line, struct err *err)
{
    *line = (struct object_line){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (line->fd < 0) {
        return err_errno(err, errno, "eventfd");
    }
    return ERR_OK;
}

void object_line_release(struct object_line *line)
{
    CHECK(!line->first);
    if (line->fd >= 0) {
        close(line->fd);
    }
    line->fd = -1;
}

void object_line_add(struct object_line *line, struct object_call *call)
{
    call->next = NULL;
    if (line->last) {
        line->last->next = call;
    } else {
        line->first = call;
        CHECK(eventfd_write(line->fd, 1) == 0);
    }
    line->last = call;
}

struct object_call *object_line_take(struct object_line *line)
{
    struct object_call *call = line->first;
    if (!call) {
        return NULL;
    }
    line->first = call->next;
    call->next = NULL;
    if (!line->first) {
        line->last = NULL;
        eventfd_t value = 0;
        CHECK(eventfd_read(line->fd, &value) == 0);
    }
    return call;
}

void object_line_cancel(struct object_line *line)
{
    for (struct object_call *call = NULL; (call = object_line_take(line));) {
        object_call_fail(call, ERR_CANCELLED, "the store was closed");
        call->done(call);
    }
}
