/* Requests to the store: each is repeated, the same bytes under the same key, until it is answered.
 *
 * The retry wrapper below gives up after a while; a volume does not, because what it would give up
 * is somebody's data. Answers that mean something (there, not there, changed by another) go to the
 * caller; a call that could never succeed makes the volume fail for good. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DELAY_FIRST_MS = 50, DELAY_LONGEST_MS = 10000 };

enum outcome { ANSWERED, NOT_NOW, NEVER };

static enum outcome outcome_of(const struct object_call *call)
{
    bool conditional = call->verb == OBJECT_PUT && call->condition != OBJECT_ALWAYS;
    bool reading = call->verb == OBJECT_GET || call->verb == OBJECT_HEAD;
    switch (call->code) {
    case ERR_OK:
        return ANSWERED;
    case ERR_NOT_FOUND: /* of others: the bucket is away */
        return reading || conditional ? ANSWERED : NOT_NOW;
    case ERR_EXISTS:
    case ERR_STALE:
        return conditional ? ANSWERED : NOT_NOW;
    case ERR_RANGE:
        return call->verb == OBJECT_GET ? ANSWERED : NEVER;
    case ERR_CANCELLED:
    case ERR_INVALID:
    case ERR_UNSUPPORTED:
        return NEVER;
    case ERR_AGAIN:
    case ERR_QUOTA:
    case ERR_DENIED:
    case ERR_CORRUPT:
    case ERR_TIMEOUT:
    case ERR_IO:
        return NOT_NOW;
    }
    return NOT_NOW;
}

enum err_code volume_fail(struct volume *volume, enum err_code code, const char *format, ...)
{
    if (volume->failed.code == ERR_OK) {
        va_list args;
        va_start(args, format);
        volume->failed.code = code;
        // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
        (void)vsnprintf(volume->failed.text, sizeof volume->failed.text, format, args);
        va_end(args);
        volume->progress++;
    }
    return code;
}

static void wait_in_line(struct volume_call *call)
{
    struct volume *volume = call->volume;
    int shift = call->tries < 8 ? call->tries : 8;
    int64_t longest = DELAY_FIRST_MS << shift;
    longest = longest < DELAY_LONGEST_MS ? longest : DELAY_LONGEST_MS;
    call->tries++;
    call->due_mono_ms = clock_mono_ms() + 1 + (int64_t)rng_below(&volume->rng, (uint64_t)longest);
    volume->away = call->call.err;
    volume->away.code = ERR_AGAIN;
    object_call_release(&call->call);
    call->next = volume->waiting;
    volume->waiting = call;
}

static void finished(struct object_call *object_call)
{
    struct volume_call *call = object_call->context;
    struct volume *volume = call->volume;
    if (volume->gone) {
        volume_call_discard(call);
        return;
    }
    switch (outcome_of(object_call)) {
    case NOT_NOW:
        wait_in_line(call);
        return;
    case NEVER:
        (void)volume_fail(volume, object_call->code, "%s", object_call->err.text);
        volume_call_discard(call);
        return;
    case ANSWERED:
        break;
    }
    volume->away.code = ERR_OK;
    call->then(call);
    volume_call_discard(call);
}

struct volume_call *volume_call_create(struct volume *volume, enum object_verb verb,
                                       const char *key, void (*then)(struct volume_call *call))
{
    struct volume_call *call = mem_alloc(sizeof *call);
    size_t size = strlen(key);
    CHECK(size < sizeof call->key);
    memcpy(call->key, key, size + 1);
    call->volume = volume;
    call->then = then;
    call->call.verb = verb;
    call->call.key = call->key;
    call->call.done = finished;
    call->call.context = call;
    volume->calls++;
    return call;
}

void volume_call_start(struct volume_call *call)
{
    object_start(call->volume->store, &call->call);
}

void volume_call_discard(struct volume_call *call)
{
    call->volume->calls--;
    object_call_release(&call->call);
    free(call);
}

void volume_calls_resume(struct volume *volume, bool all)
{
    if (volume->waiting == NULL) {
        return;
    }
    int64_t now_ms = clock_mono_ms();
    struct volume_call **at = &volume->waiting;
    while (*at != NULL) {
        struct volume_call *call = *at;
        if (!all && call->due_mono_ms > now_ms) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = NULL;
        volume_call_start(call);
    }
}

int64_t volume_calls_due(const struct volume *volume)
{
    int64_t due_ms = INT64_MAX;
    for (const struct volume_call *call = volume->waiting; call != NULL; call = call->next) {
        due_ms = call->due_mono_ms < due_ms ? call->due_mono_ms : due_ms;
    }
    return due_ms;
}
