#include "base/mem.h"
#include "volume/le.h"
#include "volume/run.h"
#include "volume/run_format.h"
#include "volume/varint.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    ZSTD_LEVEL = 1,       /* higher ones gain a twentieth and take twice the time */
    FILTER_PART = 100000, /* keys that run_builder_prepare looks at */
};

struct run_builder {
    struct container container;
    uint32_t level;
    size_t block_bytes;
    uint64_t keys;
    uint32_t block_count;
    struct block_writer writer;
    struct str object;
    struct str index; /* sizes and least keys of the blocks so far */
    ZSTD_CCtx *zstd;
    struct str first; /* key of the run */
    struct str least; /* of the block in the writer */
    struct str least_before;
    uint32_t *hashes; /* of the keys, for the filter */
    size_t hash_count, hash_cap;
    size_t filtered; /* of them, in the filter */
    uint8_t *filter;
    size_t keep_bytes; /* of decoded blocks, still */
    struct block *kept;
    size_t kept_count, kept_cap;
};

static struct map_slice slice_of(const struct str *str)
{
    return (struct map_slice){(const uint8_t *)str_text(str), str->size};
}

static void str_set(struct str *str, struct map_slice slice)
{
    str_clear(str);
    str_add_bytes(str, slice.bytes, slice.size);
}

struct run_builder *run_builder_create(const struct container *container, uint32_t level,
                                       size_t block_bytes)
{
    CHECK(block_bytes <= MAP_BLOCK_BYTES);
    struct run_builder *builder = mem_alloc(sizeof *builder);
    builder->container = *container;
    builder->level = level;
    builder->block_bytes = block_bytes;
    builder->zstd = ZSTD_createCCtx();
    CHECK(builder->zstd);
    size_t code = ZSTD_CCtx_setParameter(builder->zstd, ZSTD_c_compressionLevel, ZSTD_LEVEL);
    CHECK(!ZSTD_isError(code));
    return builder;
}

void run_builder_reserve(struct run_builder *builder, size_t bytes)
{
    struct str *object = &builder->object;
    if (object->cap < bytes) {
        object->text = mem_resize(object->text, bytes, 1);
        object->cap = bytes;
    }
}

static void drop_kept(struct run_builder *builder)
{
    for (size_t i = 0; i < builder->kept_count; i++) {
        free((void *)builder->kept[i].bytes);
    }
    builder->kept_count = 0;
}

void run_builder_keep(struct run_builder *builder, size_t bytes_max)
{
    builder->keep_bytes = bytes_max;
}

struct block *run_builder_kept(struct run_builder *builder, uint32_t index)
{
    return index < builder->kept_count ? &builder->kept[index] : NULL;
}

void run_builder_restart(struct run_builder *builder, const struct container *container)
{
    drop_kept(builder);
    builder->container = *container;
    builder->keys = 0;
    builder->block_count = 0;
    builder->hash_count = 0;
    builder->filtered = 0;
    free(builder->filter);
    builder->filter = NULL;
    str_clear(&builder->object);
    str_clear(&builder->index);
    str_clear(&builder->least);
    str_clear(&builder->least_before);
}

void run_builder_destroy(struct run_builder *builder)
{
    if (builder) {
        block_writer_release(&builder->writer);
        str_release(&builder->object);
        str_release(&builder->index);
        str_release(&builder->first);
        str_release(&builder->least);
        str_release(&builder->least_before);
        free(builder->hashes);
        free(builder->filter);
        drop_kept(builder);
        free(builder->kept);
        ZSTD_freeCCtx(builder->zstd);
        free(builder);
    }
}

static void add_varint(struct str *out, size_t number)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    str_add_bytes(out, bytes, varint_put(bytes, (uint32_t)number));
}

/* Ends the block in the writer. */
static void end_block(struct run_builder *builder)
{
    size_t begin = builder->object.size;
    size_t size = block_writer_size(&builder->writer);
    struct block *kept = NULL;
    if (size <= builder->keep_bytes) {
        kept = &VEC_PUSH(builder->kept, builder->kept_count, builder->kept_cap);
        builder->keep_bytes -= size;
    } else {
        builder->keep_bytes = 0;
    }
    block_writer_pack(&builder->writer, builder->zstd, run_place(&builder->container, begin),
                      &builder->object, kept);
    struct map_slice least = slice_of(&builder->least);
    size_t shared = key_common(slice_of(&builder->least_before), least);
    add_varint(&builder->index, builder->object.size - begin);
    add_varint(&builder->index, shared);
    add_varint(&builder->index, least.size - shared);
    str_add_bytes(&builder->index, least.bytes + shared, least.size - shared);
    str_set(&builder->least_before, least);
    builder->block_count++;
}

void run_builder_add(struct run_builder *builder, struct map_slice key, struct map_slice value)
{
    struct map_slice last = {builder->writer.key, builder->writer.key_size};
    if (builder->keys == 0) {
        str_set(&builder->first, key);
    } else {
        CHECK(key_compare(last, key) < 0);
        if (block_writer_size(&builder->writer) >= builder->block_bytes) {
            end_block(builder);
            /* One byte more than what they have in common tells the key from the last block's. */
            str_set(&builder->least, (struct map_slice){key.bytes, key_common(last, key) + 1});
        }
    }
    block_writer_add(&builder->writer, key, value);
    if (run_has_filter(builder->level)) {
        VEC_PUSH(builder->hashes, builder->hash_count, builder->hash_cap) =
            (uint32_t)run_filter_hash(key);
    }
    builder->keys++;
}

size_t run_builder_size(const struct run_builder *builder)
{
    return builder->object.size + builder->writer.bytes.size / 2;
}

uint64_t run_builder_keys(const struct run_builder *builder)
{
    return builder->keys;
}

static uint32_t filter_lines(const struct run_builder *builder)
{
    return (uint32_t)((builder->hash_count + RUN_KEYS_PER_LINE - 1) / RUN_KEYS_PER_LINE);
}

static void add_header(struct run_builder *builder, struct map_slice last)
{
    uint8_t header[RUN_HEADER_BYTES];
    memcpy(header, RUN_MAGIC, 8);
    le_put_u32(header + RUN_AT_TERM, builder->container.term);
    le_put_u32(header + RUN_AT_BLOCKS, builder->block_count);
    le_put_u64(header + RUN_AT_NUMBER, builder->container.number);
    le_put_u64(header + RUN_AT_KEYS, builder->keys);
    le_put_u32(header + RUN_AT_LINES, filter_lines(builder));
    le_put_u32(header + RUN_AT_FIRST, (uint32_t)builder->first.size);
    le_put_u32(header + RUN_AT_LAST, (uint32_t)last.size);
    str_add_bytes(&builder->object, header, sizeof header);
    str_add_bytes(&builder->object, str_text(&builder->first), builder->first.size);
    str_add_bytes(&builder->object, last.bytes, last.size);
}

bool run_builder_prepare(struct run_builder *builder)
{
    uint32_t lines = filter_lines(builder);
    if (!builder->filter) {
        builder->filter = mem_alloc((size_t)lines * RUN_LINE_BYTES);
    }
    size_t end = builder->hash_count - builder->filtered < FILTER_PART
                     ? builder->hash_count
                     : builder->filtered + FILTER_PART;
    for (; builder->filtered < end; builder->filtered++) {
        uint32_t hash = builder->hashes[builder->filtered];
        uint8_t *line = builder->filter + run_filter_line(hash, lines);
        uint64_t bits = run_filter_bits(hash);
        for (int probe = 0; probe < RUN_FILTER_PROBES; probe++, bits >>= 9) {
            line[(bits >> 3) & 63] |= (uint8_t)(1u << (bits & 7));
        }
    }
    return end == builder->hash_count;
}

void run_builder_finish(struct run_builder *builder, struct map_run *info, struct str *out)
{
    while (!run_builder_prepare(builder)) {
    }
    if (builder->keys > 0) {
        end_block(builder);
    }
    size_t index_offset = builder->object.size;
    add_header(builder, (struct map_slice){builder->writer.key, builder->writer.key_size});
    str_add_bytes(&builder->object, str_text(&builder->index), builder->index.size);
    str_add_bytes(&builder->object, builder->filter,
                  (size_t)filter_lines(builder) * RUN_LINE_BYTES);
    *info = (struct map_run){
        .container = builder->container,
        .level = builder->level,
        .size = builder->object.size,
        .index_offset = index_offset,
        .index_checksum =
            XXH3_64bits(builder->object.text + index_offset, builder->object.size - index_offset),
        .keys = builder->keys,
    };
    struct str spare = *out;
    *out = builder->object;
    builder->object = spare;
}
