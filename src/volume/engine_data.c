/* The contents of files: which extents a file consists of.
 *
 * A write is a splice: the pieces that the new extents touch go, what is left of them at either end
 * stays as smaller pieces of the same stored bytes, and the new ones come. A file with at most one
 * extent has it in its 'I' value; when a second one comes they all move under 'E' keys, and they
 * move back when an operation that sees all of them leaves at most one.
 */
#include "base/mem.h"
#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SCRATCH_MAX = 4096 }; /* extents whose memory is kept between operations */

/* Stored bytes that gain or lose their last piece. --------------------------------------------- */

struct stored { /* the stored bytes that a piece is of */
    struct container container;
    uint64_t offset;
    uint32_t stored_size;
    uint32_t whole;
    uint64_t base;   /* where in the file they would begin */
    bool is_partial; /* a piece does not cover them all: there may be others */
    bool is_new;
};

static int compare_stored(const void *a, const void *b)
{
    const struct stored *left = a;
    const struct stored *right = b;
    int order = container_compare(&left->container, &right->container);
    if (order != 0) {
        return order;
    }
    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

static bool is_of(const struct extent *extent, const struct stored *stored)
{
    return extent->offset == stored->offset &&
           container_equal(&extent->container, &stored->container);
}

static void list_stored(struct stored *out, const struct extent_list *list, bool is_new)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct extent *extent = &list->items[i];
        out[i] = (struct stored){.container = extent->container,
                                 .offset = extent->offset,
                                 .stored_size = extent->stored_size,
                                 .whole = extent->whole,
                                 .base = extent->file_offset - extent->skip,
                                 .is_partial = extent->size != extent->whole,
                                 .is_new = is_new};
    }
}

static bool is_touched(const struct extent_list *touched, uint64_t file_offset)
{
    size_t low = 0;
    size_t high = touched->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (touched->items[middle].file_offset < file_offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < touched->count && touched->items[low].file_offset == file_offset;
}

/* Is there a piece of it that this operation does not touch? */
static enum err_code has_kin(struct engine *engine, const struct engine_node *node,
                             const struct stored *stored, bool *kin, struct err *err)
{
    *kin = false;
    if (!stored->is_partial || engine->touched.count == node->extents) {
        return ERR_OK;
    }
    engine->kin.count = 0;
    enum err_code code =
        data_gather(engine, node, stored->base, stored->base + stored->whole, &engine->kin, err);
    for (size_t i = 0; code == ERR_OK && i < engine->kin.count; i++) {
        const struct extent *extent = &engine->kin.items[i];
        *kin |= is_of(extent, stored) && !is_touched(&engine->touched, extent->file_offset);
    }
    return code;
}

/* What becomes of the stored bytes that all these are pieces of, before and after. */
static enum err_code weigh(struct engine *engine, const struct engine_node *node,
                           const struct stored *all, size_t count, struct container_delta *out,
                           struct err *err)
{
    bool was = false;
    bool is = false;
    struct stored merged = all[0];
    for (size_t i = 0; i < count; i++) {
        was |= !all[i].is_new;
        is |= all[i].is_new;
        merged.is_partial |= all[i].is_partial;
    }
    *out = (struct container_delta){.container = all[0].container};
    if (was == is) {
        return ERR_OK;
    }
    bool kin = false;
    enum err_code code = has_kin(engine, node, &merged, &kin, err);
    if (code == ERR_OK && !kin) {
        out->bytes = is ? (int64_t)merged.stored_size : -(int64_t)merged.stored_size;
    }
    return code;
}

/* engine->touched make room for engine->result. */
static enum err_code account(struct engine *engine, const struct engine_node *node, struct err *err)
{
    size_t count = engine->touched.count + engine->result.count;
    if (count == 0) {
        return ERR_OK;
    }
    struct stored *all = mem_array(count, sizeof *all);
    struct container_delta *deltas = mem_array(count, sizeof *deltas);
    list_stored(all, &engine->touched, false);
    list_stored(all + engine->touched.count, &engine->result, true);
    qsort(all, count, sizeof *all, compare_stored);
    enum err_code code = ERR_OK;
    size_t delta_count = 0;
    for (size_t first = 0, end = 0; first < count && code == ERR_OK; first = end) {
        for (end = first + 1; end < count && compare_stored(&all[first], &all[end]) == 0; end++) {
        }
        code = weigh(engine, node, all + first, end - first, &deltas[delta_count], err);
        delta_count += code == ERR_OK && deltas[delta_count].bytes != 0 ? 1 : 0;
    }
    if (code == ERR_OK) {
        code = containers_account(engine, deltas, delta_count, err);
    }
    free(all);
    free(deltas);
    return code;
}

/* Splicing. ------------------------------------------------------------------------------------ */

/* Adds what follows the last one of touched. */
static void append_tail(struct engine *engine)
{
    struct extent_list *list = &engine->touched;
    struct extent_list *tail = &engine->tail;
    if (list->count == 0) {
        struct extent_list empty = *list;
        *list = *tail;
        *tail = empty;
        return;
    }
    engine->tail_asked = engine->latest;
    engine->latest.inode = 0; /* touched is not what was gathered at once */
    for (size_t i = 0; i < tail->count; i++) {
        if (tail->items[i].file_offset > list->items[list->count - 1].file_offset) {
            VEC_PUSH(list->items, list->count, list->cap) = tail->items[i];
        }
    }
}

static enum err_code find_touched(struct engine *engine, const struct engine_node *node,
                                  const struct data_splice *splice, struct err *err)
{
    engine->touched.count = 0;
    engine->tail.count = 0;
    engine->latest.inode = 0; /* what other operations asked for is not what these lists hold */
    engine->tail_asked.inode = 0;
    /* What lies behind the new end comes last, whether it was written or not: pieces are in order.
     */
    for (size_t i = 0, next = 0; i < splice->count && splice->extents[i].file_offset < splice->size;
         i = next) {
        uint64_t from = splice->extents[i].file_offset;
        uint64_t to = extent_end(&splice->extents[i]);
        for (next = i + 1; next < splice->count && splice->extents[next].file_offset == to;
             next++) {
            to = extent_end(&splice->extents[next]);
        }
        if (node->spread || engine->touched.count == 0) {
            enum err_code code = data_gather(engine, node, from, to, &engine->touched, err);
            if (code != ERR_OK) {
                return code;
            }
        }
    }
    if (splice->size >= node->attr.size || (!node->spread && engine->touched.count > 0)) {
        return ERR_OK;
    }
    /* A list of its own, so that it can be kept if it is long and the operation has to wait. */
    enum err_code code = data_gather(engine, node, splice->size, UINT64_MAX, &engine->tail, err);
    if (code == ERR_OK) {
        append_tail(engine);
    }
    return code;
}

/* Adds the part of a piece that lies in [from, to) and within the file. */
static void add_part(struct engine *engine, const struct extent *piece, uint64_t from, uint64_t to,
                     uint64_t size)
{
    to = to < size ? to : size;
    if (from >= to) {
        return;
    }
    struct extent part = *piece;
    part.file_offset = from;
    part.size = (uint32_t)(to - from);
    part.skip = piece->skip + (uint32_t)(from - piece->file_offset);
    struct extent_list *result = &engine->result;
    VEC_PUSH(result->items, result->count, result->cap) = part;
}

static void find_result(struct engine *engine, const struct data_splice *splice)
{
    engine->result.count = 0;
    size_t first = 0;
    for (size_t i = 0; i < engine->touched.count; i++) {
        const struct extent *piece = &engine->touched.items[i];
        while (first < splice->count && extent_end(&splice->extents[first]) <= piece->file_offset) {
            first++;
        }
        uint64_t at = piece->file_offset;
        uint64_t end = extent_end(piece);
        for (size_t j = first; j < splice->count && splice->extents[j].file_offset < end; j++) {
            add_part(engine, piece, at, splice->extents[j].file_offset, splice->size);
            at = extent_end(&splice->extents[j]);
        }
        add_part(engine, piece, at, end, splice->size);
    }
    for (size_t i = 0; i < splice->count; i++) {
        const struct extent *fresh = &splice->extents[i];
        if (fresh->container.kind != 0) {
            add_part(engine, fresh, fresh->file_offset, extent_end(fresh), splice->size);
        }
    }
}

static void put_extent(struct engine *engine, uint64_t inode, const struct extent *extent)
{
    struct codec_key key;
    codec_key_extent(&key, inode, extent_end(extent));
    uint8_t value[CODEC_EXTENT_MAX];
    change_put(engine, &key, value, codec_extent_write(value, extent));
}

static uint64_t sum_sizes(const struct extent_list *list)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < list->count; i++) {
        sum += list->items[i].size;
    }
    return sum;
}

/* Do the inode and the extents found agree? */
static enum err_code check_counts(const struct engine *engine, const struct engine_node *node,
                                  struct err *err)
{
    if (engine->touched.count > node->extents || sum_sizes(&engine->touched) > node->attr.stored) {
        return err_set(err, ERR_CORRUPT, "inode %" PRIu64 ": more extents than it should have",
                       node->attr.inode);
    }
    return ERR_OK;
}

/* Notes that result takes the place of touched. */
static void exchange(struct engine *engine, struct engine_node *node)
{
    struct extent_list *touched = &engine->touched;
    struct extent_list *result = &engine->result;
    uint64_t inode = node->attr.inode;
    bool seen_all = touched->count == node->extents;
    if (node->spread) {
        for (size_t i = 0; i < touched->count; i++) {
            struct codec_key key;
            codec_key_extent(&key, inode, extent_end(&touched->items[i]));
            change_delete(engine, slice_of_key(&key));
        }
    } else if (!seen_all && result->count > 0) {
        put_extent(engine, inode, &node->extent); /* no longer the only one */
    }
    node->attr.stored += sum_sizes(result) - sum_sizes(touched);
    node->extents += result->count - touched->count;
    if (seen_all && result->count <= 1) {
        node->spread = false;
        node->extent = result->count ? result->items[0] : (struct extent){0};
    } else if (node->spread || result->count > 0) {
        node->spread = true;
        for (size_t i = 0; i < result->count; i++) {
            put_extent(engine, inode, &result->items[i]);
        }
    }
    engine->change.content = inode;
    change_touch(engine, node);
}

/* The memory of a huge file's extents is not kept. */
static void trim(struct extent_list *list)
{
    if (list->cap > SCRATCH_MAX) {
        free(list->items);
        *list = (struct extent_list){0};
    }
}

enum err_code data_splice(struct engine *engine, struct engine_node *node,
                          const struct data_splice *splice, struct err *err)
{
    enum err_code code = find_touched(engine, node, splice, err);
    if (code != ERR_OK) {
        return code;
    }
    struct gather_rest asked = engine->latest;
    find_result(engine, splice);
    code = check_counts(engine, node, err);
    if (code == ERR_OK) {
        code = account(engine, node, err);
    }
    if (code != ERR_OK) {
        if (code == ERR_AGAIN && asked.inode) {
            data_keep(engine, &asked, &engine->touched);
        } else if (code == ERR_AGAIN) {
            data_keep(engine, &engine->tail_asked, &engine->tail);
        }
        return code;
    }
    exchange(engine, node);
    trim(&engine->touched);
    trim(&engine->result);
    trim(&engine->kin);
    trim(&engine->tail);
    engine->change.size_bytes += splice->size - node->attr.size;
    node->attr.size = splice->size;
    node->attr.generation++;
    return ERR_OK;
}

enum err_code data_free(struct engine *engine, struct engine_node *node, struct err *err)
{
    enum err_code code = xattr_free(engine, node, err);
    if (code == ERR_OK && S_ISREG(node->attr.mode)) {
        struct data_splice splice = {.size = 0};
        code = data_splice(engine, node, &splice, err);
    }
    if (code == ERR_OK) {
        change_drop_node(engine, node);
    }
    return code;
}

/* Operations. ---------------------------------------------------------------------------------- */

/* 0, or why these extents cannot be written. */
static int write_refusal(const struct engine_write *write)
{
    uint64_t end = 0;
    if (write->size > INT64_MAX) {
        return EFBIG;
    }
    for (size_t i = 0; i < write->count; i++) {
        const struct extent *extent = &write->extents[i];
        if (extent->file_offset > INT64_MAX || extent->size > INT64_MAX - extent->file_offset) {
            return EFBIG;
        }
        bool is_hole = extent->container.kind == 0 && extent->size > 0;
        if (extent->file_offset < end || (!is_hole && !codec_extent_is_sound(extent))) {
            return EINVAL;
        }
        end = extent_end(extent);
    }
    return 0;
}

enum err_code engine_write(struct engine *engine, const struct engine_caller *caller,
                           const struct engine_write *write, struct engine_attr *out, int *posix,
                           struct err *err)
{
    *posix = 0;
    change_begin(engine);
    struct engine_node *node = NULL;
    enum err_code code = engine_named_node(engine, write->inode, &node, posix, err);
    if (code != ERR_OK) {
        return code;
    }
    if (!S_ISREG(node->attr.mode)) {
        return engine_refuse(posix, S_ISDIR(node->attr.mode) ? EISDIR : EINVAL, err);
    }
    int refusal = write_refusal(write);
    if (refusal) {
        return engine_refuse(posix, refusal, err);
    }
    struct data_splice splice = {write->extents, write->count, write->size};
    code = data_splice(engine, node, &splice, err);
    if (code != ERR_OK) {
        return code;
    }
    node->attr.mtime_ns = write->mtime_ns;
    node->attr.ctime_ns = caller->now_ns;
    if (write->kill_priv) {
        engine_kill_priv(node);
    }
    *out = node->attr;
    change_apply(engine);
    return ERR_OK;
}

/* Fills touched and result with the pieces of `old` and where they will lie; false: they do not all
 * lie within `fresh`, or there are none. */
static bool plan_move(struct engine *engine, const struct extent *old, const struct extent *fresh)
{
    struct stored stored = {.container = old->container, .offset = old->offset};
    uint64_t base = fresh->file_offset - fresh->skip;
    size_t kept = 0;
    engine->result.count = 0;
    for (size_t i = 0; i < engine->touched.count; i++) {
        struct extent piece = engine->touched.items[i];
        if (!is_of(&piece, &stored)) {
            continue;
        }
        if (piece.file_offset < base || extent_end(&piece) > base + fresh->whole) {
            return false;
        }
        engine->touched.items[kept++] = piece;
        struct extent moved = *fresh;
        moved.file_offset = piece.file_offset;
        moved.size = piece.size;
        moved.skip = (uint32_t)(piece.file_offset - base);
        VEC_PUSH(engine->result.items, engine->result.count, engine->result.cap) = moved;
    }
    engine->touched.count = kept;
    return kept > 0;
}

enum err_code engine_move(struct engine *engine, uint64_t inode, const struct extent *old,
                          const struct extent *fresh, bool *moved, struct err *err)
{
    *moved = false;
    change_begin(engine);
    if (!codec_extent_is_sound(old) || !codec_extent_is_sound(fresh)) {
        return ERR_OK; /* a footer may say anything */
    }
    struct engine_node *node = NULL;
    enum err_code code = change_node(engine, inode, &node, err);
    if (code == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (code != ERR_OK) {
        return code;
    }
    uint64_t base = old->file_offset - old->skip;
    engine->touched.count = 0;
    code = data_gather(engine, node, base, base + old->whole, &engine->touched, err);
    if (code != ERR_OK || !plan_move(engine, old, fresh)) {
        return code;
    }
    code = check_counts(engine, node, err);
    if (code == ERR_OK) {
        code = account(engine, node, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    exchange(engine, node);
    change_apply(engine);
    *moved = true;
    return ERR_OK;
}
