#include "volume/cache_index.h"

#include "volume/le.h"

#include <string.h>
#include <xxhash.h>

/* The head: magic 8, version 4, count 4. A container: kind 4, writer 4, term 4, how many ranges 4,
 * number 8; then its ranges, begin 8 and end 8 each. The end: checksum 8. */
enum { VERSION = 1, HEAD_BYTES = 16, CONTAINER_BYTES = 24, RANGE_BYTES = 16, SUM_BYTES = 8 };
static const char MAGIC[8] = {'d', 'r', 'v', 'c', 'a', 'c', 'h', '\n'};

void cache_index_begin(struct str *out)
{
    uint8_t head[HEAD_BYTES] = {0};
    memcpy(head, MAGIC, sizeof MAGIC);
    le_put_u32(head + 8, VERSION);
    str_clear(out);
    str_add_bytes(out, head, sizeof head);
}

void cache_index_add(struct str *out, const struct container *container,
                     const struct ranges *ranges)
{
    uint8_t bytes[CONTAINER_BYTES];
    le_put_u32(bytes, container->kind);
    le_put_u32(bytes + 4, container->writer);
    le_put_u32(bytes + 8, container->term);
    le_put_u32(bytes + 12, (uint32_t)ranges->count);
    le_put_u64(bytes + 16, container->number);
    str_add_bytes(out, bytes, sizeof bytes);
    for (size_t i = 0; i < ranges->count; i++) {
        le_put_u64(bytes, ranges->items[i].begin);
        le_put_u64(bytes + 8, ranges->items[i].end);
        str_add_bytes(out, bytes, RANGE_BYTES);
    }
    uint8_t *count = (uint8_t *)out->text + 12;
    le_put_u32(count, le_get_u32(count) + 1);
}

void cache_index_end(struct str *out)
{
    uint8_t sum[SUM_BYTES];
    le_put_u64(sum, XXH3_64bits(out->text, out->size));
    str_add_bytes(out, sum, sizeof sum);
}

/* Reads the container at *at; false: it does not fit or cannot be. */
static bool take_container(const uint8_t *bytes, size_t end, size_t *at,
                           struct container *container, struct ranges *ranges)
{
    if (end - *at < CONTAINER_BYTES) {
        return false;
    }
    const uint8_t *head = bytes + *at;
    uint32_t kind = le_get_u32(head);
    *container = (struct container){(uint8_t)kind, le_get_u32(head + 4), le_get_u32(head + 8),
                                    le_get_u64(head + 16)};
    size_t count = le_get_u32(head + 12);
    *at += CONTAINER_BYTES;
    if (kind < CONTAINER_PACK || kind > CONTAINER_RUN || count > (end - *at) / RANGE_BYTES) {
        return false;
    }
    uint64_t last = 0;
    for (size_t i = 0; i < count; i++, *at += RANGE_BYTES) {
        uint64_t begin = le_get_u64(bytes + *at);
        uint64_t stop = le_get_u64(bytes + *at + 8);
        if (begin < last || stop <= begin || stop > INT64_MAX) {
            return false;
        }
        if (ranges) {
            ranges_add(ranges, begin, stop);
        }
        last = stop;
    }
    return true;
}

enum err_code cache_index_read(const void *bytes, size_t size,
                               void (*each)(void *context, const struct container *container,
                                            struct ranges *ranges),
                               void *context, struct err *err)
{
    const uint8_t *head = bytes;
    if (size < HEAD_BYTES + SUM_BYTES || memcmp(head, MAGIC, sizeof MAGIC) != 0 ||
        le_get_u32(head + 8) != VERSION) {
        return err_set(err, ERR_CORRUPT, "not an index of a cache");
    }
    size_t end = size - SUM_BYTES;
    if (XXH3_64bits(bytes, end) != le_get_u64(head + end)) {
        return err_set(err, ERR_CORRUPT, "the index does not have its checksum");
    }
    uint32_t count = le_get_u32(head + 12);
    struct container container = {0};
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        if (!take_container(head, end, &at, &container, NULL)) {
            return err_set(err, ERR_CORRUPT, "the index's container %u cannot be", i);
        }
    }
    if (at != end) {
        return err_set(err, ERR_CORRUPT, "the index holds more than it says");
    }
    at = HEAD_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        struct ranges ranges = {0};
        CHECK(take_container(head, end, &at, &container, &ranges));
        each(context, &container, &ranges);
        ranges_release(&ranges);
    }
    return ERR_OK;
}
