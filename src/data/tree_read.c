/* The bytes of a file, in order. */
#include "base/check.h"
#include "base/mem.h"
#include "data/tree.h"

#include <stdlib.h>

enum { EXTENTS_AT_ONCE = 1024 };

struct batch {
    struct extent *items;
    size_t count, cap;
};

static bool keep(void *context, const struct extent *extent)
{
    struct batch *batch = context;
    VEC_PUSH(batch->items, batch->count, batch->cap) = *extent;
    return batch->count < EXTENTS_AT_ONCE;
}

static enum err_code give_hole(uint64_t from, uint64_t end, tree_bytes_fn each, void *context,
                               struct err *err)
{
    return from < end ? each(context, from, NULL, (size_t)(end - from), err) : ERR_OK;
}

static enum err_code give_extent(struct tree *tree, uint64_t inode, const struct extent *extent,
                                 tree_bytes_fn each, void *context, struct err *err)
{
    const void *bytes = NULL;
    enum err_code code;
    const void *young = volume_young(tree->volume, extent);
    if (young != NULL) { /* not stored yet: from this very process */
        AUTO_FREE uint8_t *whole = mem_alloc(extent->whole);
        code = extent_decode(extent, young, whole, err);
        return code == ERR_OK
                   ? each(context, extent->file_offset, whole + extent->skip, extent->size, err)
                   : code;
    }
    struct reader_ask ask = {.extent = extent, .inode = inode};
    while ((code = reader_get(tree->reader, &ask, &bytes, err)) == ERR_AGAIN &&
           tree_wait(tree, err)) {
    }
    if (code != ERR_OK) {
        return code;
    }
    return each(context, extent->file_offset, (const uint8_t *)bytes + extent->skip, extent->size,
                err);
}

enum err_code tree_read(struct tree *tree, const struct engine_attr *attr, tree_bytes_fn each,
                        void *context, struct err *err)
{
    uint64_t at = 0;
    enum err_code code = ERR_OK;
    while (at < attr->size && code == ERR_OK) {
        struct batch batch = {0};
        struct engine_span span = {attr->inode, at, attr->size - at};
        int posix = 0;
        while ((code = engine_extents(tree->engine, &span, keep, &batch, &posix, err)) ==
                   ERR_AGAIN &&
               tree_wait(tree, err)) {
            batch.count = 0;
        }
        for (size_t i = 0; i < batch.count && code == ERR_OK; i++) {
            const struct extent *extent = &batch.items[i];
            code = give_hole(at, extent->file_offset, each, context, err);
            if (code == ERR_OK) {
                code = give_extent(tree, attr->inode, extent, each, context, err);
            }
            at = extent->file_offset + extent->size;
        }
        bool is_end = batch.count < EXTENTS_AT_ONCE;
        free(batch.items);
        if (code == ERR_OK && is_end) {
            code = give_hole(at, attr->size, each, context, err);
            at = attr->size;
        }
    }
    return code;
}
