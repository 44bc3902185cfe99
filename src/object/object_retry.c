/* The one owner of retries: see object.h. */
#include "base/mem.h"
#include "base/rng.h"
#include "object/object_wrap.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 8, FIRST_MS = 50, LONGEST_MS = 5000 };

struct retry_store {
    struct object_wrap wrap;
    struct object_patience patience;
    struct rng rng;
    uint64_t retries;
};

struct retry_call {
    struct object_wrapped wrapped;
    int tries;
};

static int64_t next_delay_ms(struct retry_store *retry, int tries)
{
    int64_t bound_ms = retry->patience.first_ms;
    for (int i = 1; i < tries && bound_ms < retry->patience.longest_ms; i++) {
        bound_ms *= 2;
    }
    if (bound_ms > retry->patience.longest_ms) {
        bound_ms = retry->patience.longest_ms;
    }
    return (int64_t)rng_below(&retry->rng, (uint64_t)bound_ms + 1);
}

static void say_how_often(struct object_call *call, int tries)
{
    char suffix[32];
    int size = snprintf(suffix, sizeof suffix, " (tried %d times)", tries);
    /* It has to be read even where the rest fills all the room. */
    size_t room = sizeof call->err.text - (size_t)size - 1;
    size_t end = strnlen(call->err.text, room);
    memcpy(call->err.text + end, suffix, (size_t)size + 1);
}

static void on_done(struct object_call *call)
{
    struct retry_call *mine = call->context;
    struct retry_store *retry = (struct retry_store *)mine->wrapped.wrap;
    bool is_passing = call->code == ERR_AGAIN || call->code == ERR_TIMEOUT;
    mine->tries++;
    if (!is_passing || retry->wrap.is_closing || mine->tries >= retry->patience.tries) {
        if (is_passing && mine->tries > 1) {
            say_how_often(call, mine->tries);
        }
        object_wrap_end(&mine->wrapped);
        return;
    }
    object_wrap_keep(&mine->wrapped, next_delay_ms(retry, mine->tries));
}

static void retry_due(struct object_wrapped *wrapped)
{
    ((struct retry_store *)wrapped->wrap)->retries++;
    object_call_release(wrapped->call);
    object_start(wrapped->wrap->inner, wrapped->call);
}

static void retry_start(struct object_store *store, struct object_call *call)
{
    struct object_wrap *wrap = (struct object_wrap *)store;
    struct retry_call *mine = mem_alloc(sizeof *mine);
    object_wrap_take(wrap, call, &mine->wrapped, on_done);
    if (wrap->is_closing) {
        object_wrap_keep(&mine->wrapped, 0);
        return;
    }
    object_start(wrap->inner, call);
}

static void retry_stats(const struct object_store *store, struct object_stats *out)
{
    object_wrap_stats(store, out);
    out->retries += ((const struct retry_store *)store)->retries;
}

static const struct object_ops ops = {
    .start = retry_start,
    .run = object_wrap_run,
    .fd = object_wrap_fd,
    .stats = retry_stats,
    .close = object_wrap_close,
};

struct object_store *object_retry_create(struct object_store *inner,
                                         const struct object_patience *patience)
{
    CHECK(patience->tries >= 0);
    CHECK(patience->first_ms >= 0);
    CHECK(patience->longest_ms >= 0);
    struct retry_store *retry = mem_alloc(sizeof *retry);
    retry->patience = *patience;
    retry->patience.tries = patience->tries ? patience->tries : TRIES;
    retry->patience.first_ms = patience->first_ms ? patience->first_ms : FIRST_MS;
    retry->patience.longest_ms = patience->longest_ms ? patience->longest_ms : LONGEST_MS;
    retry->rng.state = patience->seed;
    object_wrap_init(&retry->wrap, inner, retry_due);
    retry->wrap.store.ops = &ops;
    return &retry->wrap.store;
}
