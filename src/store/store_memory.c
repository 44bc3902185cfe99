#include "base/check.h"
#include "base/mem.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct memory_batch {
    uint64_t first;
    uint32_t count;
    void *bytes;
    size_t size;
};

struct memory_doc {
    char *name;
    void *bytes;
    size_t size;
};

struct memory_store {
    struct store base;
    struct memory_batch *batches; /* in order, without gaps */
    size_t batch_count;
    size_t batch_cap;
    struct memory_doc *docs;
    size_t doc_count;
    size_t doc_cap;
    uint64_t last;
    bool has_snapshot;
    uint64_t snapshot_upto;
    struct str snapshot;
};

static struct memory_store *of(struct store *store)
{
    return (struct memory_store *)store;
}

static bool is_same(const struct memory_batch *batch, uint32_t count, const void *bytes,
                    size_t size)
{
    return batch->count == count && batch->size == size &&
           (size == 0 || memcmp(batch->bytes, bytes, size) == 0);
}

static enum err_code refuse(const struct memory_store *store, const struct memory_batch *given,
                            struct err *err)
{
    for (size_t i = 0; i < store->batch_count; i++) {
        const struct memory_batch *batch = &store->batches[i];
        if (batch->first == given->first &&
            is_same(batch, given->count, given->bytes, given->size)) {
            return err_set(err, ERR_EXISTS, "memory: the batch at record %" PRIu64 " is there",
                           given->first);
        }
    }
    return err_set(err, ERR_STALE,
                   "memory: a batch begins at record %" PRIu64 ", but the log ends at %" PRIu64,
                   given->first, store->last);
}

static enum err_code memory_append(struct store *base, uint64_t first, uint32_t count,
                                   const void *bytes, size_t size, struct err *err)
{
    struct memory_store *store = of(base);
    CHECK(count > 0);
    struct memory_batch batch = {.first = first, .count = count, .size = size};
    if (first != store->last + 1) {
        batch.bytes = (void *)bytes; /* only to compare */
        return refuse(store, &batch, err);
    }
    batch.bytes = mem_dup(bytes, size);
    VEC_PUSH(store->batches, store->batch_count, store->batch_cap) = batch;
    store->last += count;
    return ERR_OK;
}

static enum err_code memory_last(struct store *base, uint64_t *out, struct err *err)
{
    (void)err;
    *out = of(base)->last;
    return ERR_OK;
}

static enum err_code memory_replay(struct store *base, uint64_t after, store_replay_fn fn,
                                   void *context, struct err *err)
{
    (void)err;
    struct memory_store *store = of(base);
    for (size_t i = 0; i < store->batch_count; i++) {
        const struct memory_batch *batch = &store->batches[i];
        if (batch->first > after &&
            !fn(context, batch->first, batch->count, batch->bytes, batch->size)) {
            break;
        }
    }
    return ERR_OK;
}

static void forget_covered(struct memory_store *store)
{
    size_t covered = 0;
    while (covered < store->batch_count &&
           store->batches[covered].first + store->batches[covered].count - 1 <=
               store->snapshot_upto) {
        free(store->batches[covered].bytes);
        covered++;
    }
    store->batch_count -= covered;
    if (covered > 0 && store->batch_count > 0) {
        memmove(store->batches, store->batches + covered,
                store->batch_count * sizeof store->batches[0]);
    }
}

static enum err_code memory_snapshot_put(struct store *base, uint64_t upto, const void *bytes,
                                         size_t size, struct err *err)
{
    struct memory_store *store = of(base);
    if (upto > store->last) {
        return err_set(err, ERR_RANGE,
                       "memory: a snapshot up to record %" PRIu64 ", but the log ends at %" PRIu64,
                       upto, store->last);
    }
    if (upto < store->snapshot_upto) {
        return err_set(err, ERR_STALE,
                       "memory: a snapshot up to record %" PRIu64
                       ", but there is one up to %" PRIu64,
                       upto, store->snapshot_upto);
    }
    str_clear(&store->snapshot);
    str_add_bytes(&store->snapshot, bytes, size);
    store->has_snapshot = true;
    store->snapshot_upto = upto;
    forget_covered(store);
    return ERR_OK;
}

static enum err_code memory_snapshot_get(struct store *base, uint64_t *upto, struct str *out,
                                         struct err *err)
{
    struct memory_store *store = of(base);
    if (!store->has_snapshot) {
        return err_set(err, ERR_NOT_FOUND, "memory: no snapshot");
    }
    str_add_bytes(out, store->snapshot.text, store->snapshot.size);
    *upto = store->snapshot_upto;
    return ERR_OK;
}

static struct memory_doc *find_doc(struct memory_store *store, const char *name)
{
    for (size_t i = 0; i < store->doc_count; i++) {
        if (strcmp(store->docs[i].name, name) == 0) {
            return &store->docs[i];
        }
    }
    return NULL;
}

static enum err_code memory_doc_put(struct store *base, const char *name, const void *bytes,
                                    size_t size, struct err *err)
{
    (void)err;
    struct memory_store *store = of(base);
    struct memory_doc *doc = find_doc(store, name);
    if (!doc) {
        VEC_PUSH(store->docs, store->doc_count, store->doc_cap) =
            (struct memory_doc){.name = mem_strdup(name)};
        doc = &store->docs[store->doc_count - 1];
    }
    free(doc->bytes);
    doc->bytes = mem_dup(bytes, size);
    doc->size = size;
    return ERR_OK;
}

static enum err_code memory_doc_get(struct store *base, const char *name, struct str *out,
                                    struct err *err)
{
    const struct memory_doc *doc = find_doc(of(base), name);
    if (!doc) {
        return err_set(err, ERR_NOT_FOUND, "memory: no document \"%s\"", name);
    }
    str_add_bytes(out, doc->bytes, doc->size);
    return ERR_OK;
}

static void memory_close(struct store *base)
{
    if (!base) {
        return;
    }
    struct memory_store *store = of(base);
    for (size_t i = 0; i < store->batch_count; i++) {
        free(store->batches[i].bytes);
    }
    for (size_t i = 0; i < store->doc_count; i++) {
        free(store->docs[i].name);
        free(store->docs[i].bytes);
    }
    free(store->batches);
    free(store->docs);
    str_release(&store->snapshot);
    free(store);
}

static const struct store_ops memory_ops = {
    .append = memory_append,
    .last = memory_last,
    .replay = memory_replay,
    .snapshot_put = memory_snapshot_put,
    .snapshot_get = memory_snapshot_get,
    .doc_put = memory_doc_put,
    .doc_get = memory_doc_get,
    .close = memory_close,
};

struct store *store_memory_create(void)
{
    struct memory_store *store = mem_alloc(sizeof *store);
    store->base.ops = &memory_ops;
    return &store->base;
}
