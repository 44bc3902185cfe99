/* Any bytes as the index of a cache: refused, or writing what it says again can be read. The
 * checksum is also made right, so that what lies behind it is reached. */
#include "base/check.h"
#include "base/mem.h"
#include "volume/cache_index.h"
#include "volume/le.h"

#include <stdint.h>
#include <stdlib.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_again(void *context, const struct container *container, struct ranges *ranges)
{
    uint64_t last = 0;
    for (size_t i = 0; i < ranges->count; i++) {
        CHECK(i == 0 || ranges->items[i].begin > last);
        CHECK(ranges->items[i].end > ranges->items[i].begin);
        last = ranges->items[i].end;
    }
    char name[CONTAINER_NAME_MAX];
    container_name(container, name);
    cache_index_add(context, container, ranges);
}

static void count(void *context, const struct container *container, struct ranges *ranges)
{
    (void)container;
    (void)ranges;
    (*(size_t *)context)++;
}

static void read_index(const uint8_t *bytes, size_t size)
{
    struct str again = {0};
    size_t seen = 0;
    cache_index_begin(&again);
    if (cache_index_read(bytes, size, write_again, &again, NULL) == ERR_OK) {
        cache_index_end(&again);
        CHECK(cache_index_read(again.text, again.size, count, &seen, NULL) == ERR_OK);
        CHECK(seen == le_get_u32(bytes + 12));
    }
    str_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_index(data, size);
    if (size >= 8) {
        AUTO_FREE uint8_t *copy = mem_dup(data, size);
        le_put_u64(copy + size - 8, XXH3_64bits(copy, size - 8));
        read_index(copy, size);
    }
    return 0;
}
