/* Finding the extents of a file.
 *
 * An operation on a file of very many extents may have to wait for blocks so often that the first
 * ones have left the cache before the last one comes. So what it has gathered is kept when it has
 * to wait, until it is called again or the file changes.
 */
#include "base/mem.h"
#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

struct gather {
    struct extent_list *list;
    uint64_t to;
    uint64_t size;  /* of the file */
    uint64_t count; /* of extents there can be */
    uint64_t next;
    bool is_bad;
};

static bool take_extent(void *context, struct map_slice key, struct map_slice value)
{
    struct gather *gather = context;
    struct extent extent;
    if (!codec_extent_read(key, value, &extent)) {
        gather->is_bad = true;
        return false;
    }
    if (extent.file_offset >= gather->to) {
        return false;
    }
    struct extent_list *list = gather->list;
    /* Two ranges next to one another may both touch it. */
    if (list->count == 0 || list->items[list->count - 1].file_offset < extent.file_offset) {
        VEC_PUSH(list->items, list->count, list->cap) = extent;
    }
    gather->next = extent_end(&extent);
    /* Behind the last one there may be a long stretch of keys that are deleted. */
    return gather->next < gather->size && gather->next < gather->to && list->count < gather->count;
}

static bool overlaps(const struct extent *extent, uint64_t from, uint64_t to)
{
    return extent->file_offset < to && extent_end(extent) > from;
}

/* Scans 'E' from the extent on that ends behind `from`. */
static enum err_code scan_extents(struct engine *engine, uint64_t inode, uint64_t from,
                                  struct gather *gather, struct err *err)
{
    struct codec_key prefix;
    codec_key_inode(&prefix, 'E', inode);
    struct codec_key first;
    codec_key_extent(&first, inode, from + 1);
    struct map_range range = {.prefix = slice_of_key(&prefix), .from = slice_of_key(&first)};
    gather->next = from;
    enum err_code code = map_scan(engine->map, &range, take_extent, gather, err);
    if (gather->is_bad) {
        return err_set(err, ERR_CORRUPT, "inode %" PRIu64 ": an extent is damaged", inode);
    }
    return code;
}

/* What `latest` says was gathered is kept if it is long. */
static void keep(struct engine *engine, struct extent_list *list, uint64_t next, bool is_whole)
{
    struct gather_rest *rest = &engine->rest;
    if (engine->latest.inode == 0 || list->count < engine->rest_min) {
        return;
    }
    struct extent_list spare = rest->list;
    *rest = engine->latest;
    rest->next = next;
    rest->is_whole = is_whole;
    rest->list = *list;
    *list = spare;
    list->count = 0;
}

void data_keep(struct engine *engine, const struct gather_rest *asked, struct extent_list *list)
{
    engine->latest = *asked;
    keep(engine, list, 0, true);
}

/* Gets it back if it is what is asked for; returns true if it is all. */
static bool take_rest(struct engine *engine, struct extent_list *list, uint64_t *next)
{
    struct gather_rest *rest = &engine->rest;
    const struct gather_rest *asked = &engine->latest;
    if (rest->inode != asked->inode || rest->from != asked->from || rest->to != asked->to) {
        return false;
    }
    struct extent_list spare = *list;
    *list = rest->list;
    *next = rest->next;
    *rest = (struct gather_rest){.is_whole = rest->is_whole, .list = spare};
    rest->list.count = 0;
    return rest->is_whole;
}

enum err_code data_gather(struct engine *engine, const struct engine_node *node, uint64_t from,
                          uint64_t to, struct extent_list *list, struct err *err)
{
    uint64_t inode = node->attr.inode;
    if (!node->spread) {
        if (node->extents > 0 && overlaps(&node->extent, from, to)) {
            VEC_PUSH(list->items, list->count, list->cap) = node->extent;
        }
        return ERR_OK;
    }
    if (from >= node->attr.size || from >= to) {
        return ERR_OK;
    }
    size_t before = list->count;
    struct gather gather = {.list = list,
                            .to = to,
                            .size = node->attr.size,
                            .count = from == 0 ? node->extents : UINT64_MAX,
                            .next = from};
    engine->latest = (struct gather_rest){.inode = before ? 0 : inode, .from = from, .to = to};
    if (before == 0 && take_rest(engine, list, &gather.next)) {
        return ERR_OK;
    }
    enum err_code code = scan_extents(engine, inode, gather.next, &gather, err);
    if (code == ERR_AGAIN && before == 0) {
        keep(engine, list, gather.next, false);
    }
    return code;
}

enum err_code engine_extents(struct engine *engine, const struct engine_span *span,
                             engine_extent_fn each, void *context, int *posix, struct err *err)
{
    *posix = 0;
    struct engine_node node;
    enum err_code code = engine_read_node(engine, span->inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return engine_refuse(posix, ENOENT, err);
    }
    if (code != ERR_OK || span->size == 0) {
        return code;
    }
    uint64_t end = 0;
    if (__builtin_add_overflow(span->offset, span->size, &end)) {
        end = UINT64_MAX;
    }
    if (!node.spread) {
        if (node.extents > 0 && overlaps(&node.extent, span->offset, end)) {
            (void)each(context, &node.extent);
        }
        return ERR_OK;
    }
    struct extent_list list = {0}; /* our own: `each` may use the engine */
    code = data_gather(engine, &node, span->offset, end, &list, err);
    for (size_t i = 0; code == ERR_OK && i < list.count && each(context, &list.items[i]); i++) {
    }
    free(list.items);
    return code;
}
