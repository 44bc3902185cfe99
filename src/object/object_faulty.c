/* A store that goes wrong by seed: see object.h. */
#include "base/mem.h"
#include "base/rng.h"
#include "object/object_driver.h"
#include "object/object_wrap.h"

struct faulty_store {
    struct object_wrap wrap;
    struct object_faults faults;
    uint64_t count; /* of calls so far */
};

struct faulty_call {
    struct object_wrapped wrapped;
    bool fails;
    bool loses_reply;
    bool repeats; /* once more */
    bool truncates;
    double keeps; /* that share of the body, where truncated */
    int64_t delay_ms;
};

/* One draw for each kind of fault, used or not: nothing but the seed and n decides. */
static void draw_fate(const struct faulty_store *faulty, struct faulty_call *mine)
{
    enum draw { FAIL, LOSE, REPEAT, TRUNCATE, KEEP, DELAY, DRAWS };
    double unit[DRAWS];
    for (uint64_t i = 0; i < DRAWS; i++) {
        unit[i] = rng_unit_of(rng_mix(faulty->faults.seed, faulty->count, i));
    }
    mine->fails = unit[FAIL] < faulty->faults.fail;
    mine->loses_reply = unit[LOSE] < faulty->faults.lost_reply;
    mine->repeats = unit[REPEAT] < faulty->faults.repeated;
    mine->truncates = unit[TRUNCATE] < faulty->faults.truncated;
    mine->keeps = unit[KEEP];
    mine->delay_ms = (int64_t)(unit[DELAY] * (faulty->faults.delay_ms + 1));
}

static void cut_body(struct object_call *call, double keeps)
{
    if (call->body.size > 0) {
        call->body.size = (size_t)((double)call->body.size * keeps);
        call->body.text[call->body.size] = '\0';
    }
}

static void on_done(struct object_call *call)
{
    struct faulty_call *mine = call->context;
    struct object_wrap *wrap = mine->wrapped.wrap;
    bool changes = call->verb == OBJECT_PUT || call->verb == OBJECT_DELETE;
    if (wrap->is_closing) {
        object_wrap_end(&mine->wrapped);
        return;
    }
    if (changes && mine->repeats) {
        mine->repeats = false;
        object_call_release(call);
        object_start(wrap->inner, call);
        return;
    }
    if (changes && mine->loses_reply) {
        object_call_release(call);
        object_call_fail(call, ERR_AGAIN, "the reply was lost");
    } else if (call->verb == OBJECT_GET && call->code == ERR_OK && mine->truncates) {
        cut_body(call, mine->keeps);
        object_call_fail(call, ERR_AGAIN, "the reply was cut short");
    }
    object_wrap_keep(&mine->wrapped, mine->delay_ms);
}

static void faulty_due(struct object_wrapped *wrapped)
{
    object_wrap_end(wrapped);
}

static void faulty_start(struct object_store *store, struct object_call *call)
{
    struct faulty_store *faulty = (struct faulty_store *)store;
    struct faulty_call *mine = mem_alloc(sizeof *mine);
    faulty->count++;
    draw_fate(faulty, mine);
    object_wrap_take(&faulty->wrap, call, &mine->wrapped, on_done);
    if (faulty->wrap.is_closing || mine->fails) {
        object_call_fail(call, ERR_AGAIN, "not now");
        object_wrap_keep(&mine->wrapped, mine->delay_ms);
        return;
    }
    object_start(faulty->wrap.inner, call);
}

static const struct object_ops ops = {
    .start = faulty_start,
    .run = object_wrap_run,
    .fd = object_wrap_fd,
    .stats = object_wrap_stats,
    .close = object_wrap_close,
};

struct object_store *object_faulty_create(struct object_store *inner,
                                          const struct object_faults *faults)
{
    CHECK(faults->delay_ms >= 0);
    struct faulty_store *faulty = mem_alloc(sizeof *faulty);
    faulty->faults = *faults;
    object_wrap_init(&faulty->wrap, inner, faulty_due);
    faulty->wrap.store.ops = &ops;
    return &faulty->wrap.store;
}
