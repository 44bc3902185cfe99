#include "volume/block.h"

#include "base/mem.h"
#include "volume/le.h"
#include "volume/varint.h"

#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

enum {
    CODEC_PLAIN = 0,
    CODEC_ZSTD = 1,
    ENTRY_HEAD_MAX = 3 * VARINT_BYTES_MAX,
};

struct entry {
    uint32_t shared;
    uint32_t added;
    uint32_t tag; /* 0: deleted, else the value's size plus one */
};

size_t key_common(struct map_slice a, struct map_slice b)
{
    size_t limit = a.size < b.size ? a.size : b.size;
    size_t common = 0;
    while (common + 8 <= limit) {
        uint64_t x;
        uint64_t y;
        memcpy(&x, a.bytes + common, 8);
        memcpy(&y, b.bytes + common, 8);
        if (x != y) {
            break;
        }
        common += 8;
    }
    while (common < limit && a.bytes[common] == b.bytes[common]) {
        common++;
    }
    return common;
}

/* Writing. ------------------------------------------------------------------------------------- */

void block_writer_release(struct block_writer *writer)
{
    if (writer) {
        str_release(&writer->bytes);
        free(writer->restarts);
        *writer = (struct block_writer){0};
    }
}

void block_writer_add(struct block_writer *writer, struct map_slice key, struct map_slice value)
{
    CHECK(key.size <= MAP_KEY_MAX);
    CHECK(value.size <= MAP_VALUE_MAX);
    size_t shared = 0;
    if (writer->count % BLOCK_RESTART == 0) {
        VEC_PUSH(writer->restarts, writer->restart_count, writer->restart_cap) =
            (uint32_t)writer->bytes.size;
    } else {
        struct map_slice last = {writer->key, writer->key_size};
        shared = key_common(last, key);
    }
    uint8_t head[ENTRY_HEAD_MAX];
    size_t size = varint_put(head, (uint32_t)shared);
    size += varint_put(head + size, (uint32_t)(key.size - shared));
    size += varint_put(head + size, value.bytes ? (uint32_t)value.size + 1 : 0);
    str_add_bytes(&writer->bytes, head, size);
    str_add_bytes(&writer->bytes, key.bytes + shared, key.size - shared);
    if (value.bytes) {
        str_add_bytes(&writer->bytes, value.bytes, value.size);
    }
    memcpy(writer->key + shared, key.bytes + shared, key.size - shared);
    writer->key_size = key.size;
    writer->count++;
}

size_t block_writer_size(const struct block_writer *writer)
{
    return writer->bytes.size + 4 * (writer->restart_count + 1);
}

static void add_u32(struct str *out, uint32_t number)
{
    uint8_t bytes[4];
    le_put_u32(bytes, number);
    str_add_bytes(out, bytes, sizeof bytes);
}

/* Makes room for size bytes behind what is in out, without counting them. */
static char *room(struct str *out, size_t size)
{
    if (out->cap - out->size < size + 1) {
        size_t cap = out->cap ? out->cap : 64;
        while (cap - out->size < size + 1) {
            cap *= 2;
        }
        out->text = mem_resize(out->text, cap, 1);
        out->cap = cap;
    }
    return out->text + out->size;
}

void block_writer_pack(struct block_writer *writer, struct ZSTD_CCtx_s *zstd, uint64_t place,
                       struct str *out, struct block *decoded)
{
    CHECK(writer->count > 0);
    size_t entries = writer->bytes.size;
    for (size_t i = 0; i < writer->restart_count; i++) {
        add_u32(&writer->bytes, writer->restarts[i]);
    }
    add_u32(&writer->bytes, (uint32_t)writer->restart_count);
    size_t plain = writer->bytes.size;
    CHECK(plain <= BLOCK_DECODED_MAX);

    size_t begin = out->size;
    size_t bound = ZSTD_compressBound(plain);
    size_t packed = ZSTD_compress2(zstd, room(out, bound), bound, writer->bytes.text, plain);
    char codec = CODEC_ZSTD;
    CHECK(!ZSTD_isError(packed));
    if (packed >= plain - plain / 8) {
        codec = CODEC_PLAIN;
        str_add_bytes(out, writer->bytes.text, plain);
    } else {
        out->size += packed;
    }
    str_add_char(out, codec);
    uint8_t checksum[8];
    le_put_u64(checksum, XXH3_64bits_withSeed(out->text + begin, out->size - begin, place));
    str_add_bytes(out, checksum, sizeof checksum);

    if (decoded) {
        *decoded = (struct block){mem_dup(writer->bytes.text, plain), (uint32_t)plain,
                                  (uint32_t)entries, (uint32_t)writer->restart_count};
    }
    str_clear(&writer->bytes);
    writer->restart_count = 0;
    writer->count = 0;
}

/* Reading. ------------------------------------------------------------------------------------- */

/* The head of the entry at `at`; NULL: there is none. */
static inline const uint8_t *entry_read(const uint8_t *at, const uint8_t *end, struct entry *entry)
{
    if (end - at >= 3 && !((at[0] | at[1] | at[2]) & 0x80)) {
        entry->shared = at[0];
        entry->added = at[1];
        entry->tag = at[2];
        return at + 3;
    }
    at = varint_get(at, end, &entry->shared);
    at = at ? varint_get(at, end, &entry->added) : NULL;
    return at ? varint_get(at, end, &entry->tag) : NULL;
}

/* An entry of a block that was checked. */
static inline const uint8_t *entry_trusted(const uint8_t *at, const uint8_t *end,
                                           struct entry *entry)
{
    at = entry_read(at, end, entry);
    CHECK(at);
    return at;
}

static inline uint32_t value_size(const struct entry *entry)
{
    return entry->tag ? entry->tag - 1 : 0;
}

static struct map_slice value_slice(const struct entry *entry, const uint8_t *at)
{
    return (struct map_slice){entry->tag ? at : NULL, value_size(entry)};
}

static inline uint32_t restart_offset(const struct block *block, uint32_t index)
{
    return le_get_u32(block->bytes + block->entries_size + 4 * (size_t)index);
}

static struct map_slice restart_key(const struct block *block, uint32_t index)
{
    struct entry entry;
    const uint8_t *at = entry_trusted(block->bytes + restart_offset(block, index),
                                      block->bytes + block->entries_size, &entry);
    return (struct map_slice){at, entry.added};
}

enum err_code block_checksum(const void *stored, size_t size, uint64_t place, struct err *err)
{
    const uint8_t *bytes = stored;
    if (size <= BLOCK_TRAILER_BYTES || size > BLOCK_STORED_MAX) {
        return err_set(err, ERR_CORRUPT, "a block of %zu bytes", size);
    }
    if (XXH3_64bits_withSeed(bytes, size - 8, place) != le_get_u64(bytes + size - 8)) {
        return err_set(err, ERR_CORRUPT, "the checksum of a block of %zu bytes is wrong", size);
    }
    return ERR_OK;
}

/* Whether what an entry adds to the shared bytes is above what the one before has there. Except at
 * restarts the very first byte must tell them apart: block_find relies on it. */
static bool rises(struct map_slice added, struct map_slice last, bool restart)
{
    if (restart) {
        return key_compare(added, last) > 0;
    }
    return added.size > 0 && (last.size == 0 || added.bytes[0] > last.bytes[0]);
}

/* The entries rise, each lies within the block, and the restarts are where they should be. */
static bool entries_are_sound(const struct block *block)
{
    const uint8_t *end = block->bytes + block->entries_size;
    const uint8_t *at = block->bytes;
    uint8_t key[MAP_KEY_MAX];
    size_t key_size = 0;
    size_t count = 0;
    for (; at != end; count++) {
        bool restart = count % BLOCK_RESTART == 0;
        if (restart && (count / BLOCK_RESTART >= block->restart_count ||
                        restart_offset(block, (uint32_t)(count / BLOCK_RESTART)) !=
                            (uint32_t)(at - block->bytes))) {
            return false;
        }
        struct entry entry;
        at = entry_read(at, end, &entry);
        if (!at || entry.shared > (restart ? 0 : key_size) ||
            entry.added > MAP_KEY_MAX - entry.shared || value_size(&entry) > MAP_VALUE_MAX ||
            (size_t)(end - at) < (size_t)entry.added + value_size(&entry)) {
            return false;
        }
        struct map_slice last = {key + entry.shared, key_size - entry.shared};
        if (count > 0 && !rises((struct map_slice){at, entry.added}, last, restart)) {
            return false;
        }
        memcpy(key + entry.shared, at, entry.added);
        key_size = entry.shared + entry.added;
        at += entry.added + value_size(&entry);
    }
    return count > 0 && (count - 1) / BLOCK_RESTART + 1 == block->restart_count;
}

static bool block_open(struct block *block, const uint8_t *bytes, size_t size)
{
    if (size < 8 || size > BLOCK_DECODED_MAX) {
        return false;
    }
    uint32_t restarts = le_get_u32(bytes + size - 4);
    if (restarts > size / 4 - 1) {
        return false;
    }
    *block = (struct block){bytes, (uint32_t)size, (uint32_t)(size - 4 * ((size_t)restarts + 1)),
                            restarts};
    return entries_are_sound(block);
}

/* The bytes before compression, or NULL. */
static uint8_t *decode(const uint8_t *stored, size_t size, ZSTD_DCtx *zstd, size_t *out_size)
{
    size_t packed = size - BLOCK_TRAILER_BYTES;
    if (stored[packed] == CODEC_PLAIN) {
        *out_size = packed;
        return mem_dup(stored, packed);
    }
    if (stored[packed] != CODEC_ZSTD) {
        return NULL;
    }
    unsigned long long plain = ZSTD_getFrameContentSize(stored, packed);
    if (plain > BLOCK_DECODED_MAX) { /* its error values are larger too */
        return NULL;
    }
    uint8_t *bytes = mem_resize(NULL, (size_t)plain, 1);
    if (ZSTD_decompressDCtx(zstd, bytes, (size_t)plain, stored, packed) != plain) {
        free(bytes);
        return NULL;
    }
    *out_size = (size_t)plain;
    return bytes;
}

enum err_code block_unpack(const void *stored, size_t size, uint64_t place,
                           struct ZSTD_DCtx_s *zstd, struct block *out, struct err *err)
{
    enum err_code code = block_checksum(stored, size, place, err);
    if (code) {
        return code;
    }
    size_t plain = 0;
    uint8_t *bytes = decode(stored, size, zstd, &plain);
    struct block block;
    if (!bytes || !block_open(&block, bytes, plain)) {
        free(bytes);
        return err_set(err, ERR_CORRUPT, "%zu bytes with a good checksum are no block", size);
    }
    *out = block;
    return ERR_OK;
}

struct map_slice block_first_key(const struct block *block)
{
    return restart_key(block, 0);
}

/* The last restart whose key is not above `key`; 0 if all are. */
static uint32_t restart_before(const struct block *block, struct map_slice key)
{
    uint32_t low = 0;
    uint32_t high = block->restart_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (key_compare(restart_key(block, middle), key) <= 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

bool block_find(const struct block *block, struct map_slice key, struct map_slice *value)
{
    const uint8_t *end = block->bytes + block->entries_size;
    const uint8_t *at = block->bytes + restart_offset(block, restart_before(block, key));
    size_t match = 0; /* bytes that key and the entry before have in common; that one is below */
    while (at != end) {
        struct entry entry;
        at = entry_trusted(at, end, &entry);
        if (entry.shared < match) {
            return false; /* it rises above the one before at a byte where key does not */
        }
        if (entry.shared == match) {
            struct map_slice rest = {key.bytes + match, key.size - match};
            struct map_slice added = {at, entry.added};
            size_t common = key_common(rest, added);
            if (common == rest.size && common == added.size) {
                *value = value_slice(&entry, at + entry.added);
                return true;
            }
            if (common == rest.size ||
                (common < added.size && added.bytes[common] > rest.bytes[common])) {
                return false;
            }
            match += common;
        }
        at += entry.added + value_size(&entry);
    }
    return false;
}

bool block_cursor_next(struct block_cursor *cursor)
{
    if (cursor->next == cursor->end) {
        return false;
    }
    struct entry entry;
    const uint8_t *at = entry_trusted(cursor->next, cursor->end, &entry);
    memcpy(cursor->key + entry.shared, at, entry.added);
    cursor->key_size = entry.shared + entry.added;
    cursor->value = value_slice(&entry, at + entry.added);
    cursor->next = at + entry.added + value_size(&entry);
    return true;
}

static void cursor_begin(struct block_cursor *cursor, const struct block *block, uint32_t offset)
{
    cursor->next = block->bytes + offset;
    cursor->end = block->bytes + block->entries_size;
    bool any = block_cursor_next(cursor);
    CHECK(any);
}

void block_cursor_first(struct block_cursor *cursor, const struct block *block)
{
    cursor_begin(cursor, block, 0);
}

void block_cursor_last(struct block_cursor *cursor, const struct block *block)
{
    cursor_begin(cursor, block, restart_offset(block, block->restart_count - 1));
    while (block_cursor_next(cursor)) {
    }
}

bool block_cursor_seek(struct block_cursor *cursor, const struct block *block, struct map_slice key)
{
    cursor_begin(cursor, block, restart_offset(block, restart_before(block, key)));
    while (key_compare((struct map_slice){cursor->key, cursor->key_size}, key) < 0) {
        if (!block_cursor_next(cursor)) {
            return false;
        }
    }
    return true;
}
