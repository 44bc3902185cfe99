#include "volume/run.h"

#include "base/mem.h"
#include "volume/le.h"
#include "volume/run_format.h"
#include "volume/varint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct reader { /* of an index */
    const uint8_t *at, *end;
};

static enum err_code corrupt(const struct map_run *info, const char *trouble, struct err *err)
{
    char name[CONTAINER_NAME_MAX];
    container_name(&info->container, name);
    return err_set(err, ERR_CORRUPT, "%s: %s", name, trouble);
}

static const uint8_t *take(struct reader *reader, size_t size)
{
    if ((size_t)(reader->end - reader->at) < size) {
        return NULL;
    }
    const uint8_t *bytes = reader->at;
    reader->at += size;
    return bytes;
}

static struct map_slice slice_dup(const uint8_t *bytes, size_t size)
{
    return (struct map_slice){mem_dup(bytes, size), size};
}

/* Header. -------------------------------------------------------------------------------------- */

static enum err_code read_header(struct run *run, struct reader *reader, struct err *err)
{
    const struct map_run *info = &run->info;
    const uint8_t *header = take(reader, RUN_HEADER_BYTES);
    if (!header || memcmp(header, RUN_MAGIC, 8) != 0) {
        return corrupt(info, "not an index of a run", err);
    }
    if (le_get_u32(header + RUN_AT_TERM) != info->container.term ||
        le_get_u64(header + RUN_AT_NUMBER) != info->container.number) {
        return corrupt(info, "the index of another run", err);
    }
    run->block_count = le_get_u32(header + RUN_AT_BLOCKS);
    run->filter_lines = le_get_u32(header + RUN_AT_LINES);
    size_t first_size = le_get_u32(header + RUN_AT_FIRST);
    size_t last_size = le_get_u32(header + RUN_AT_LAST);
    const uint8_t *first = first_size <= MAP_KEY_MAX ? take(reader, first_size) : NULL;
    const uint8_t *last = last_size <= MAP_KEY_MAX ? take(reader, last_size) : NULL;
    /* A block takes two bytes of the index at least: no more memory than bytes came. */
    if (!first || !last || le_get_u64(header + RUN_AT_KEYS) != info->keys ||
        run->block_count > (size_t)(reader->end - reader->at) / 2 ||
        run->block_count > info->keys || (run->block_count == 0) != (info->keys == 0)) {
        return corrupt(info, "its index contradicts itself", err);
    }
    run->first = slice_dup(first, first_size);
    run->last = slice_dup(last, last_size);
    if (info->keys > 0 && key_compare(run->first, run->last) > 0) {
        return corrupt(info, "its keys do not rise", err);
    }
    return ERR_OK;
}

/* Blocks. -------------------------------------------------------------------------------------- */

/* Appends the least key of a block, which begins with `shared` bytes of the one before. */
static bool read_key(struct reader *reader, struct str *keys, size_t last_begin)
{
    uint32_t shared = 0;
    uint32_t added = 0;
    const uint8_t *at = varint_get(reader->at, reader->end, &shared);
    at = at ? varint_get(at, reader->end, &added) : NULL;
    if (!at || shared > keys->size - last_begin || added > MAP_KEY_MAX - shared) {
        return false;
    }
    reader->at = at;
    const uint8_t *bytes = take(reader, added);
    if (!bytes) {
        return false;
    }
    uint8_t key[MAP_KEY_MAX];
    if (shared) {
        memcpy(key, keys->text + last_begin, shared);
    }
    memcpy(key + shared, bytes, added);
    str_add_bytes(keys, key, shared + added);
    return true;
}

static bool read_blocks(struct run *run, struct reader *reader, struct str *keys)
{
    size_t last_begin = 0;
    uint64_t offset = 0;
    for (uint32_t i = 0; i < run->block_count; i++) {
        uint32_t stored = 0;
        reader->at = varint_get(reader->at, reader->end, &stored);
        size_t begin = keys->size;
        if (!reader->at || stored <= BLOCK_TRAILER_BYTES || stored > BLOCK_STORED_MAX ||
            !read_key(reader, keys, last_begin) || keys->size > UINT32_MAX) {
            return false;
        }
        run->offsets[i] = (uint32_t)offset;
        run->key_ends[i] = (uint32_t)keys->size;
        struct map_slice last = {(const uint8_t *)keys->text + last_begin, begin - last_begin};
        struct map_slice key = {(const uint8_t *)keys->text + begin, keys->size - begin};
        if (i > 0 && key_compare(last, key) >= 0) {
            return false;
        }
        last_begin = begin;
        offset += stored;
        if (offset > run->info.index_offset) {
            return false;
        }
    }
    run->offsets[run->block_count] = (uint32_t)offset;
    return offset == run->info.index_offset;
}

static enum err_code read_rest(struct run *run, struct reader *reader, struct err *err)
{
    run->offsets = mem_array((size_t)run->block_count + 1, sizeof *run->offsets);
    run->key_ends = mem_array(run->block_count, sizeof *run->key_ends);
    struct str keys = {0};
    bool sound = read_blocks(run, reader, &keys);
    run->keys = mem_dup(keys.text, keys.size);
    str_release(&keys);
    if (!sound) {
        return corrupt(&run->info, "the blocks in its index are not in order", err);
    }
    if (run->block_count > 0) {
        uint32_t last = run->block_count - 1;
        if (key_compare(run_block_key(run, 0), run->first) > 0 ||
            key_compare(run_block_key(run, last), run->last) > 0) {
            return corrupt(&run->info, "its keys are not within its blocks", err);
        }
    }
    size_t filter_size = (size_t)run->filter_lines * RUN_LINE_BYTES;
    const uint8_t *filter = take(reader, filter_size);
    if (!filter || reader->at != reader->end) {
        return corrupt(&run->info, "its index has the wrong size", err);
    }
    if (run_has_filter(run->info.level) && run->filter_lines > 0) {
        run->filter = mem_dup(filter, filter_size);
    } else {
        run->filter_lines = 0;
    }
    return ERR_OK;
}

/* Runs. ---------------------------------------------------------------------------------------- */

enum err_code run_create(const struct map_run *info, const void *index, size_t size,
                         struct run **out, struct err *err)
{
    if (info->container.kind != CONTAINER_RUN || info->size > UINT32_MAX ||
        info->index_offset > info->size || info->size - info->index_offset != size) {
        return corrupt(info, "its index has the wrong size", err);
    }
    if (XXH3_64bits(index, size) != info->index_checksum) {
        return corrupt(info, "the checksum of its index is wrong", err);
    }
    struct run *run = mem_alloc(sizeof *run);
    run->info = *info;
    struct reader reader = {index, (const uint8_t *)index + size};
    enum err_code code = read_header(run, &reader, err);
    if (!code) {
        code = read_rest(run, &reader, err);
    }
    if (code) {
        run_destroy(run);
        return code;
    }
    *out = run;
    return ERR_OK;
}

struct run *run_copy(const struct run *run)
{
    struct run *copy = mem_alloc(sizeof *copy);
    size_t count = run->block_count;
    copy->info = run->info;
    copy->block_count = run->block_count;
    copy->offsets = mem_dup(run->offsets, (count + 1) * sizeof *run->offsets);
    copy->key_ends = mem_dup(run->key_ends, count * sizeof *run->key_ends);
    copy->keys = mem_dup(run->keys, count ? run->key_ends[count - 1] : 0);
    copy->first = slice_dup(run->first.bytes, run->first.size);
    copy->last = slice_dup(run->last.bytes, run->last.size);
    return copy;
}

void run_destroy(struct run *run)
{
    if (run) {
        free(run->offsets);
        free(run->key_ends);
        free(run->keys);
        free(run->filter);
        free(run->slots);
        free((void *)run->first.bytes);
        free((void *)run->last.bytes);
        free(run);
    }
}

void run_drop_filter(struct run *run)
{
    free(run->filter);
    run->filter = NULL;
    run->filter_lines = 0;
}

size_t run_bytes(const struct run *run)
{
    size_t count = run->block_count;
    return sizeof *run + count * (sizeof *run->offsets + sizeof *run->key_ends) +
           (count ? run->key_ends[count - 1] : 0) + (run->slots ? count * sizeof *run->slots : 0) +
           run_filter_bytes(run) + run->first.size + run->last.size;
}

size_t run_filter_bytes(const struct run *run)
{
    return (size_t)run->filter_lines * RUN_LINE_BYTES;
}

uint64_t run_hash(struct map_slice key)
{
    return run_filter_hash(key);
}

bool run_may_hold(const struct run *run, uint64_t hash)
{
    if (!run->filter) {
        return true;
    }
    const uint8_t *line = run->filter + run_filter_line((uint32_t)hash, run->filter_lines);
    uint64_t bits = run_filter_bits((uint32_t)hash);
    for (int i = 0; i < RUN_FILTER_PROBES; i++, bits >>= 9) {
        if (!(line[(bits >> 3) & 63] & 1u << (bits & 7))) {
            return false;
        }
    }
    return true;
}

struct map_slice run_block_key(const struct run *run, uint32_t index)
{
    uint32_t begin = index ? run->key_ends[index - 1] : 0;
    return (struct map_slice){run->keys + begin, run->key_ends[index] - begin};
}

uint32_t run_block_of(const struct run *run, struct map_slice key)
{
    uint32_t low = 0;
    uint32_t high = run->block_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (key_compare(run_block_key(run, middle), key) <= 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t run_block_at(const struct run *run, uint64_t offset)
{
    uint32_t low = 0;
    uint32_t high = run->block_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (run->offsets[middle] < offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < run->block_count && run->offsets[low] == offset ? low : run->block_count;
}

enum err_code run_verify(const struct run *run, uint32_t index, const void *stored, struct err *err)
{
    enum err_code code = block_checksum(stored, run_block_size(run, index),
                                        run_place(&run->info.container, run->offsets[index]), NULL);
    return code ? corrupt(&run->info, "the checksum of a block is wrong", err) : ERR_OK;
}

/* The block's keys are those that the index says. */
static bool block_belongs(const struct run *run, uint32_t index, const struct block *block)
{
    struct map_slice first = block_first_key(block);
    struct block_cursor cursor;
    block_cursor_last(&cursor, block);
    struct map_slice last = {cursor.key, cursor.key_size};
    bool ends = index + 1 == run->block_count;
    return (index == 0 ? key_compare(first, run->first) == 0
                       : key_compare(first, run_block_key(run, index)) >= 0) &&
           (ends ? key_compare(last, run->last) == 0
                 : key_compare(last, run_block_key(run, index + 1)) < 0);
}

enum err_code run_load(const struct run *run, uint32_t index, const void *stored,
                       struct ZSTD_DCtx_s *zstd, struct block *out, struct err *err)
{
    struct block block;
    enum err_code code =
        block_unpack(stored, run_block_size(run, index),
                     run_place(&run->info.container, run->offsets[index]), zstd, &block, NULL);
    if (code) {
        return corrupt(&run->info, "a block is damaged", err);
    }
    if (!block_belongs(run, index, &block)) {
        free((void *)block.bytes);
        return corrupt(&run->info, "a block does not hold the keys it should", err);
    }
    *out = block;
    return ERR_OK;
}
