#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/store.h"

#include <stdlib.h>
#include <time.h>

struct faulty_store {
    struct store base;
    struct store *inner;
    struct store_faults faults;
    struct rng rng;
};

enum fate { FATE_WELL, FATE_FAIL, FATE_FULL, FATE_LOST };
enum kind { KIND_READ, KIND_WRITE };

static struct faulty_store *of(struct store *store)
{
    return (struct faulty_store *)store;
}

static void wait_us(int64_t duration_us)
{
    struct timespec left = {.tv_sec = duration_us / 1000000,
                            .tv_nsec = duration_us % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

/* Draws the same count of numbers for each call, so that the n-th call's fate depends on the seed
 * and n alone. */
static enum fate draw_fate(struct faulty_store *store, enum kind kind)
{
    const struct store_faults *faults = &store->faults;
    double fate = rng_unit(&store->rng);
    double delay = rng_unit(&store->rng);
    if (faults->delay_us > 0) {
        wait_us((int64_t)(delay * (double)faults->delay_us));
    }
    if (fate < faults->fail) {
        return FATE_FAIL;
    }
    if (fate < faults->fail + faults->full) {
        return FATE_FULL;
    }
    bool is_lost = fate < faults->fail + faults->full + faults->lost_reply;
    return is_lost && kind == KIND_WRITE ? FATE_LOST : FATE_WELL;
}

/* True if the call is not to happen; *code is then its answer. */
static bool is_stopped(enum fate fate, const char *what, enum err_code *code, struct err *err)
{
    if (fate == FATE_FAIL) {
        *code = err_set(err, ERR_IO, "faulty: %s failed by plan", what);
        return true;
    }
    if (fate == FATE_FULL) {
        *code = err_set(err, ERR_QUOTA, "faulty: %s found no room by plan", what);
        return true;
    }
    return false;
}

/* What the caller hears of a call that happened. */
static enum err_code answer(enum fate fate, const char *what, enum err_code code, struct err *err)
{
    return fate == FATE_LOST
               ? err_set(err, ERR_IO, "faulty: the reply of %s was lost by plan", what)
               : code;
}

static enum err_code faulty_append(struct store *base, uint64_t first, uint32_t count,
                                   const void *bytes, size_t size, struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    enum fate fate = draw_fate(of(base), KIND_WRITE);
    if (is_stopped(fate, "append", &code, err)) {
        return code;
    }
    return answer(fate, "append", inner->ops->append(inner, first, count, bytes, size, err), err);
}

static enum err_code faulty_last(struct store *base, uint64_t *out, struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    if (is_stopped(draw_fate(of(base), KIND_READ), "last", &code, err)) {
        return code;
    }
    return inner->ops->last(inner, out, err);
}

static enum err_code faulty_replay(struct store *base, uint64_t after, store_replay_fn fn,
                                   void *context, struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    if (is_stopped(draw_fate(of(base), KIND_READ), "replay", &code, err)) {
        return code;
    }
    return inner->ops->replay(inner, after, fn, context, err);
}

static enum err_code faulty_snapshot_put(struct store *base, uint64_t upto, const void *bytes,
                                         size_t size, struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    enum fate fate = draw_fate(of(base), KIND_WRITE);
    if (is_stopped(fate, "snapshot_put", &code, err)) {
        return code;
    }
    return answer(fate, "snapshot_put", inner->ops->snapshot_put(inner, upto, bytes, size, err),
                  err);
}

static enum err_code faulty_snapshot_get(struct store *base, uint64_t *upto, struct str *out,
                                         struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    if (is_stopped(draw_fate(of(base), KIND_READ), "snapshot_get", &code, err)) {
        return code;
    }
    return inner->ops->snapshot_get(inner, upto, out, err);
}

static enum err_code faulty_doc_put(struct store *base, const char *name, const void *bytes,
                                    size_t size, struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    enum fate fate = draw_fate(of(base), KIND_WRITE);
    if (is_stopped(fate, "doc_put", &code, err)) {
        return code;
    }
    return answer(fate, "doc_put", inner->ops->doc_put(inner, name, bytes, size, err), err);
}

static enum err_code faulty_doc_get(struct store *base, const char *name, struct str *out,
                                    struct err *err)
{
    struct store *inner = of(base)->inner;
    enum err_code code = ERR_OK;
    if (is_stopped(draw_fate(of(base), KIND_READ), "doc_get", &code, err)) {
        return code;
    }
    return inner->ops->doc_get(inner, name, out, err);
}

static void faulty_close(struct store *base)
{
    if (base) {
        struct store *inner = of(base)->inner;
        inner->ops->close(inner);
        free(of(base));
    }
}

static const struct store_ops faulty_ops = {
    .append = faulty_append,
    .last = faulty_last,
    .replay = faulty_replay,
    .snapshot_put = faulty_snapshot_put,
    .snapshot_get = faulty_snapshot_get,
    .doc_put = faulty_doc_put,
    .doc_get = faulty_doc_get,
    .close = faulty_close,
};

struct store *store_faulty_create(struct store *inner, const struct store_faults *faults)
{
    CHECK(inner);
    CHECK(faults->fail >= 0 && faults->full >= 0 && faults->lost_reply >= 0);
    CHECK(faults->fail + faults->full + faults->lost_reply <= 1);
    struct faulty_store *store = mem_alloc(sizeof *store);
    store->base.ops = &faulty_ops;
    store->inner = inner;
    store->faults = *faults;
    store->rng.state = faults->seed;
    return &store->base;
}
