/* Any bytes as a pack: refused, or every item lies within it. The footer's checksum is also made
 * right, so that what lies behind it is reached. */
#include "base/check.h"
#include "base/mem.h"
#include "volume/le.h"
#include "volume/pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_pack(const uint8_t *bytes, size_t size)
{
    struct container container = {CONTAINER_PACK, 1, 2, 3};
    uint64_t offset = 0;
    uint64_t footer_size = 0;
    struct err err = {0};
    if (pack_tail_read(bytes + size - PACK_TAIL_BYTES, size, &offset, &footer_size, &err) !=
        ERR_OK) {
        return;
    }
    CHECK(offset + footer_size == size);
    AUTO_FREE struct pack_item *items = NULL;
    size_t count = 0;
    if (pack_footer_read(&container, bytes + offset, (size_t)footer_size, size, &items, &count,
                         &err) != ERR_OK) {
        return;
    }
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct extent *extent = &items[i].extent;
        CHECK(extent->offset >= end);
        end = extent->offset + extent->stored_size;
        CHECK(end <= offset);
        AUTO_FREE uint8_t *out = mem_alloc(extent->whole);
        struct extent trusted = *extent; /* so that zstd sees foreign bytes too */
        trusted.checksum = XXH3_64bits(bytes + extent->offset, extent->stored_size);
        enum err_code code = extent_decode(&trusted, bytes + extent->offset, out, &err);
        CHECK(code == ERR_OK || code == ERR_CORRUPT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PACK_TAIL_BYTES) {
        return 0;
    }
    read_pack(data, size);
    AUTO_FREE uint8_t *copy = mem_dup(data, size);
    uint64_t footer = le_get_u64(copy + size - PACK_TAIL_BYTES);
    if (footer >= PACK_TAIL_BYTES && footer <= size) {
        uint8_t *at = copy + size - footer;
        le_put_u64(copy + size - 16, XXH3_64bits(at, (size_t)footer - 16));
        memcpy(copy + size - 8, "drvpack\n", 8);
        read_pack(copy, size);
    }
    return 0;
}
