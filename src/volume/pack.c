#include "volume/pack.h"

#include "base/mem.h"
#include "volume/le.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

/* An item of the footer: offset 8, checksum 8, inode 8, file offset 8, stored size 4, size 4,
 * codec 4. The tail: footer size 8, count 4, version 4, checksum 8 (of all of the footer before
 * it), magic 8. */
enum { ITEM_BYTES = 44, TAIL_CHECKED_BYTES = 16, VERSION = 1, FIRST_BYTES = 256 << 10 };
static const char MAGIC[8] = {'d', 'r', 'v', 'p', 'a', 'c', 'k', '\n'};

struct packer {
    struct container container;
    struct str bytes;
    struct str items; /* encoded, for the footer */
    size_t count;
    size_t bytes_max;
    int level;
    ZSTD_CCtx *zstd; /* made when first needed */
};

struct packer *packer_create(const struct container *container, size_t bytes_max, int level)
{
    CHECK(container->kind == CONTAINER_PACK);
    CHECK(bytes_max >= PACK_BYTES_MIN);
    CHECK(bytes_max <= PACK_BYTES_MAX);
    CHECK(level >= 0);
    CHECK(level <= ZSTD_maxCLevel());
    struct packer *packer = mem_alloc(sizeof *packer);
    packer->container = *container;
    packer->bytes_max = bytes_max;
    packer->level = level;
    return packer;
}

void packer_destroy(struct packer *packer)
{
    if (packer) {
        str_release(&packer->bytes);
        str_release(&packer->items);
        ZSTD_freeCCtx(packer->zstd);
        free(packer);
    }
}

size_t packer_size(const struct packer *packer)
{
    return packer->bytes.size;
}

bool packer_has_room(const struct packer *packer, size_t size)
{
    return packer->count < PACK_ITEMS_MAX && size <= packer->bytes_max - packer->bytes.size;
}

/* Room for `size` more bytes behind those there are. */
static uint8_t *reserve(struct str *str, size_t size)
{
    size_t cap = str->cap ? str->cap : FIRST_BYTES;
    while (cap < str->size + size + 1) {
        cap *= 2;
    }
    if (cap != str->cap) {
        str->text = mem_resize(str->text, cap, 1);
        str->cap = cap;
    }
    return (uint8_t *)str->text + str->size;
}

static void advance(struct str *str, size_t size)
{
    str->size += size;
    str->text[str->size] = '\0';
}

/* What is compressed and is at least an eighth smaller; 0: store it plain. */
static size_t compress(struct packer *packer, const void *data, size_t size, uint8_t *out)
{
    size_t limit = size - (size + 7) / 8;
    if (packer->level == 0 || limit == 0) {
        return 0;
    }
    if (!packer->zstd) {
        packer->zstd = ZSTD_createCCtx();
        CHECK(packer->zstd);
    }
    size_t stored = ZSTD_compressCCtx(packer->zstd, out, limit, data, size, packer->level);
    return ZSTD_isError(stored) ? 0 : stored;
}

static void add_item(struct packer *packer, uint64_t inode, uint64_t file_offset,
                     const struct extent *extent)
{
    uint8_t *item = reserve(&packer->items, ITEM_BYTES);
    le_put_u64(item, extent->offset);
    le_put_u64(item + 8, extent->checksum);
    le_put_u64(item + 16, inode);
    le_put_u64(item + 24, file_offset);
    le_put_u32(item + 32, extent->stored_size);
    le_put_u32(item + 36, extent->whole);
    le_put_u32(item + 40, extent->codec);
    advance(&packer->items, ITEM_BYTES);
    packer->count++;
}

void packer_add(struct packer *packer, uint64_t inode, uint64_t file_offset, const void *data,
                size_t size, struct extent *out)
{
    CHECK(size >= 1);
    CHECK(size <= EXTENT_BYTES_MAX);
    CHECK(packer_has_room(packer, size));
    uint8_t *stored = reserve(&packer->bytes, size);
    size_t stored_size = compress(packer, data, size, stored);
    bool plain = stored_size == 0;
    if (plain) {
        memcpy(stored, data, size);
        stored_size = size;
    }
    *out = (struct extent){
        .file_offset = file_offset,
        .size = (uint32_t)size,
        .container = packer->container,
        .offset = packer->bytes.size,
        .stored_size = (uint32_t)stored_size,
        .codec = plain ? EXTENT_PLAIN : EXTENT_ZSTD,
        .checksum = XXH3_64bits(stored, stored_size),
        .whole = (uint32_t)size,
    };
    advance(&packer->bytes, stored_size);
    add_item(packer, inode, file_offset, out);
}

void packer_add_stored(struct packer *packer, uint64_t inode, const struct extent *in,
                       const void *stored, struct extent *out)
{
    CHECK(in->stored_size >= 1);
    CHECK(in->stored_size <= EXTENT_BYTES_MAX);
    CHECK(packer_has_room(packer, in->stored_size));
    struct extent extent = *in;
    extent.container = packer->container;
    extent.offset = packer->bytes.size;
    memcpy(reserve(&packer->bytes, in->stored_size), stored, in->stored_size);
    advance(&packer->bytes, in->stored_size);
    /* The footer tells of the decoded extent, so of where its first byte was in the file. */
    uint64_t begin = in->file_offset >= in->skip ? in->file_offset - in->skip : 0;
    add_item(packer, inode, begin, &extent);
    *out = extent;
}

const void *packer_bytes(const struct packer *packer, uint64_t offset, size_t size)
{
    if (offset > packer->bytes.size || size > packer->bytes.size - offset) {
        return NULL;
    }
    return str_text(&packer->bytes) + offset;
}

static uint64_t footer_checksum(const uint8_t *footer, size_t size)
{
    return XXH3_64bits(footer, size - PACK_TAIL_BYTES + TAIL_CHECKED_BYTES);
}

void packer_seal(struct packer *packer, struct str *out)
{
    size_t size = packer->items.size + PACK_TAIL_BYTES;
    uint8_t *footer = reserve(&packer->bytes, size);
    if (packer->items.size > 0) {
        memcpy(footer, packer->items.text, packer->items.size);
    }
    uint8_t *tail = footer + packer->items.size;
    le_put_u64(tail, size);
    le_put_u32(tail + 8, (uint32_t)packer->count);
    le_put_u32(tail + 12, VERSION);
    le_put_u64(tail + 16, footer_checksum(footer, size));
    memcpy(tail + 24, MAGIC, sizeof MAGIC);
    advance(&packer->bytes, size);

    str_release(out);
    *out = packer->bytes;
    packer->bytes = (struct str){0};
    str_clear(&packer->items);
    packer->count = 0;
}

enum err_code pack_tail_read(const void *tail, uint64_t object_size, uint64_t *footer_offset,
                             uint64_t *footer_size, struct err *err)
{
    const uint8_t *bytes = tail;
    if (object_size < PACK_TAIL_BYTES || memcmp(bytes + 24, MAGIC, sizeof MAGIC) != 0) {
        return err_set(err, ERR_CORRUPT, "not a pack: it does not end as one");
    }
    uint32_t version = le_get_u32(bytes + 12);
    if (version != VERSION) {
        return err_set(err, ERR_CORRUPT, "a pack of version %" PRIu32 ", which is unknown",
                       version);
    }
    uint64_t size = le_get_u64(bytes);
    uint32_t count = le_get_u32(bytes + 8);
    if (count > PACK_ITEMS_MAX || size != (uint64_t)count * ITEM_BYTES + PACK_TAIL_BYTES ||
        size > object_size) {
        return err_set(err, ERR_CORRUPT, "a pack whose footer cannot be: %" PRIu64 " bytes", size);
    }
    *footer_offset = object_size - size;
    *footer_size = size;
    return ERR_OK;
}

static bool item_read(const uint8_t *item, struct pack_item *out)
{
    struct extent *extent = &out->extent;
    extent->offset = le_get_u64(item);
    extent->checksum = le_get_u64(item + 8);
    out->inode = le_get_u64(item + 16);
    extent->file_offset = le_get_u64(item + 24);
    extent->stored_size = le_get_u32(item + 32);
    extent->size = le_get_u32(item + 36);
    extent->whole = extent->size;
    uint32_t codec = le_get_u32(item + 40);
    extent->codec = (uint8_t)codec;

    bool sized = extent->size >= 1 && extent->size <= EXTENT_BYTES_MAX && extent->stored_size >= 1;
    bool plain = codec == EXTENT_PLAIN && extent->stored_size == extent->size;
    bool packed = codec == EXTENT_ZSTD && extent->stored_size < extent->size;
    return sized && (plain || packed) && extent->file_offset <= (uint64_t)INT64_MAX - extent->size;
}

// NOLINTNEXTLINE(readability-function-size): bytes in, list out, each with its size
enum err_code pack_footer_read(const struct container *container, const void *footer, size_t size,
                               uint64_t object_size, struct pack_item **items, size_t *count,
                               struct err *err)
{
    const uint8_t *bytes = footer;
    if (size < PACK_TAIL_BYTES || size > object_size) {
        return err_set(err, ERR_CORRUPT, "a pack's footer of %zu bytes cannot be", size);
    }
    uint64_t footer_offset = 0;
    uint64_t footer_size = 0;
    const uint8_t *tail = bytes + size - PACK_TAIL_BYTES;
    enum err_code code = pack_tail_read(tail, object_size, &footer_offset, &footer_size, err);
    if (code != ERR_OK) {
        return code;
    }
    if (footer_size != size ||
        footer_checksum(bytes, size) != le_get_u64(tail + TAIL_CHECKED_BYTES)) {
        return err_set(err, ERR_CORRUPT, "a pack's footer does not have its checksum");
    }
    size_t total = le_get_u32(tail + 8);
    struct pack_item *list = mem_array(total, sizeof *list);
    uint64_t end = 0;
    for (size_t i = 0; i < total; i++) {
        bool sound = item_read(bytes + i * ITEM_BYTES, &list[i]);
        struct extent *extent = &list[i].extent;
        extent->container = *container;
        if (!sound || extent->offset < end || extent->offset > footer_offset ||
            extent->stored_size > footer_offset - extent->offset) {
            free(list);
            return err_set(err, ERR_CORRUPT, "a pack's item %zu cannot be", i);
        }
        end = extent->offset + extent->stored_size;
    }
    *items = list;
    *count = total;
    return ERR_OK;
}
