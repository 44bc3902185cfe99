/* block.h - sorted keys and values in one piece: the unit in which runs (run.h) are read.
 *
 * Decoded, a block is its entries, one behind the other, then the offsets of every
 * BLOCK_RESTART-th entry and their count. An entry is how many bytes of its key are the previous
 * key's, how many follow, the value's size plus one (0: the key is deleted), then those bytes. At a
 * restart the whole key is there, so a search goes by restarts first and then reads a few entries.
 *
 * Stored, a block is those bytes compressed with zstd (or as they are where that does not help), a
 * byte that says which, and a checksum over both that also depends on where the block belongs, so
 * that a block in another's place is found out.
 *
 * block_unpack trusts nothing: what it returns has been walked through from end to end, and the
 * functions behind it rely on that. Pure code.
 */
#ifndef VOLUME_BLOCK_H
#define VOLUME_BLOCK_H

#include "base/err.h"
#include "base/str.h"
#include "volume/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

enum {
    BLOCK_RESTART = 16,
    BLOCK_TRAILER_BYTES = 9,
    BLOCK_DECODED_MAX = MAP_BLOCK_BYTES + MAP_VALUE_MAX + (16 << 10),
    BLOCK_STORED_MAX = BLOCK_DECODED_MAX + BLOCK_TRAILER_BYTES,
};

/* Below zero, zero or above: the order of keys. */
static inline int key_compare(struct map_slice a, struct map_slice b)
{
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.bytes, b.bytes, common) : 0;
    if (order) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}

/* How many bytes a and b have in common at their beginning. */
size_t key_common(struct map_slice a, struct map_slice b);

struct block { /* decoded and checked */
    const uint8_t *bytes;
    uint32_t size; /* all of it */
    uint32_t entries_size;
    uint32_t restart_count;
};

/* Writing: keys in rising order. `struct block_writer w = {0};` is empty and valid. */
struct block_writer {
    struct str bytes;   /* entries so far */
    uint32_t *restarts; /* their offsets */
    size_t restart_count, restart_cap;
    size_t count; /* entries */
    size_t key_size;
    uint8_t key[MAP_KEY_MAX]; /* the last one */
};
void block_writer_release(struct block_writer *writer);
void block_writer_add(struct block_writer *writer, struct map_slice key, struct map_slice value);
size_t block_writer_size(const struct block_writer *writer); /* decoded, if it ended here */

/* Appends the block as it is stored to out and empties the writer, which holds an entry at least.
 * decoded: gets a copy as block_unpack would give it, unless NULL. */
void block_writer_pack(struct block_writer *writer, struct ZSTD_CCtx_s *zstd, uint64_t place,
                       struct str *out, struct block *decoded);

/* Reading. ERR_CORRUPT: not what was stored at that place. */
MUST_USE enum err_code block_checksum(const void *stored, size_t size, uint64_t place,
                                      struct err *err);
/* The decoded bytes, which the caller frees (free). ERR_CORRUPT: the checksum does not hold, or
 * they are no block. */
MUST_USE enum err_code block_unpack(const void *stored, size_t size, uint64_t place,
                                    struct ZSTD_DCtx_s *zstd, struct block *out, struct err *err);
struct map_slice block_first_key(const struct block *block);
/* True: the key is there; value->bytes NULL: as deleted. */
bool block_find(const struct block *block, struct map_slice key, struct map_slice *value);

/* A place in a block; key and value are valid until the cursor moves. */
struct block_cursor {
    const uint8_t *next, *end;
    struct map_slice value;
    size_t key_size;
    uint8_t key[MAP_KEY_MAX];
};
void block_cursor_first(struct block_cursor *cursor, const struct block *block);
void block_cursor_last(struct block_cursor *cursor, const struct block *block);
/* To the first key that is not below `key`; false: there is none. */
bool block_cursor_seek(struct block_cursor *cursor, const struct block *block,
                       struct map_slice key);
bool block_cursor_next(struct block_cursor *cursor); /* false: that was the last */

#endif
