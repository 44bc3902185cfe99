/* Any bytes as the index of a run, and as its only block: refused, or good for every use. Checksums
 * are made right, so that what lies behind them is reached. The first byte says which. */
#include "base/check.h"
#include "base/mem.h"
#include "volume/le.h"
#include "volume/run.h"
#include "volume/run_format.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_index(const uint8_t *bytes, size_t size)
{
    if (size < RUN_HEADER_BYTES) {
        return;
    }
    struct map_run info = {
        .container = {CONTAINER_RUN, 0, le_get_u32(bytes + RUN_AT_TERM),
                      le_get_u64(bytes + RUN_AT_NUMBER)},
        .keys = le_get_u64(bytes + RUN_AT_KEYS),
        .index_checksum = XXH3_64bits(bytes, size),
    };
    /* The blocks' size is what the index says it is: tried up to a bound. */
    for (uint32_t offset = 0; offset < 4000; offset += offset < 40 ? 1 : 99) {
        struct run *run = NULL;
        info.index_offset = offset;
        info.size = offset + size;
        if (run_create(&info, bytes, size, &run, NULL) != ERR_OK) {
            continue;
        }
        CHECK(run->offsets[run->block_count] == offset);
        for (uint32_t i = 0; i < run->block_count; i++) {
            CHECK(run_block_of(run, run_block_key(run, i)) == i);
            CHECK(run_block_at(run, run->offsets[i]) == i);
        }
        run_may_hold(run, run_hash(run->first));
        struct run *copy = run_copy(run);
        CHECK(copy->block_count == run->block_count);
        run_destroy(copy);
        run_destroy(run);
    }
}

static void use_block(const struct block *block)
{
    struct block_cursor cursor;
    struct block_cursor other;
    size_t count = 0;
    block_cursor_first(&cursor, block);
    do {
        struct map_slice key = {cursor.key, cursor.key_size};
        struct map_slice value = {0};
        CHECK(block_find(block, key, &value));
        CHECK(value.bytes == cursor.value.bytes && value.size == cursor.value.size);
        CHECK(block_cursor_seek(&other, block, key));
        CHECK(other.value.bytes == cursor.value.bytes && other.key_size == cursor.key_size);
        count++;
    } while (count < 300 && block_cursor_next(&cursor));
    block_cursor_last(&cursor, block);
}

static void read_block(const uint8_t *bytes, size_t size, uint8_t codec)
{
    uint8_t *stored = mem_alloc(size + BLOCK_TRAILER_BYTES);
    memcpy(stored, bytes, size);
    stored[size] = codec;
    le_put_u64(stored + size + 1, XXH3_64bits_withSeed(stored, size + 1, 7));
    ZSTD_DCtx *zstd = ZSTD_createDCtx();
    struct block block;
    enum err_code code = block_unpack(stored, size + BLOCK_TRAILER_BYTES, 7, zstd, &block, NULL);
    if (code == ERR_OK) {
        use_block(&block);
        free((void *)block.bytes);
    } else {
        CHECK(code == ERR_CORRUPT);
    }
    ZSTD_freeDCtx(zstd);
    free(stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    uint8_t *copy = mem_dup(data + 1, size - 1); /* so that reading too far is seen */
    if (data[0] % 4 == 0) {
        read_index(copy, size - 1);
    } else {
        read_block(copy, size - 1, data[0] % 4 == 3 ? 1 : 0);
    }
    free(copy);
    return 0;
}
