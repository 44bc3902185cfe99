/* Any bytes as a log object: refused, or writing what it says again gives the same bytes. The
 * checksum is also made right, so that what lies behind it is reached. */
#include "base/check.h"
#include "base/mem.h"
#include "volume/le.h"
#include "volume/logobj.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct list {
    struct logobj_change *changes;
    size_t count, cap;
};

static void keep(void *context, const struct logobj_change *change)
{
    struct list *list = context;
    VEC_PUSH(list->changes, list->count, list->cap) = *change;
}

static void read_object(const uint8_t *bytes, size_t size)
{
    struct list list = {0};
    struct logobj_header header = {0};
    struct err err = {0};
    if (logobj_read(bytes, size, NULL, &header, keep, &list, &err) != ERR_OK) {
        CHECK(list.count == 0);
        return;
    }
    struct str data = {0};
    struct str again = {0};
    str_add_bytes(&data, bytes + LOGOBJ_HEADER_BYTES, (size_t)le_get_u64(bytes + 48));
    logobj_write(&header, &data, list.changes, list.count, &again);
    CHECK(again.size == size);
    CHECK(memcmp(again.text + LOGOBJ_HEADER_BYTES, bytes + LOGOBJ_HEADER_BYTES,
                 size - LOGOBJ_HEADER_BYTES) == 0);
    str_release(&data);
    str_release(&again);
    free(list.changes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_object(data, size);
    if (size >= LOGOBJ_HEADER_BYTES) {
        AUTO_FREE uint8_t *copy = mem_dup(data, size);
        uint64_t sum = XXH3_64bits(copy, 88);
        sum = XXH3_64bits_withSeed(copy + LOGOBJ_HEADER_BYTES, size - LOGOBJ_HEADER_BYTES, sum);
        le_put_u64(copy + 88, sum);
        read_object(copy, size);
    }
    return 0;
}
