#include "volume/logobj.h"

#include "volume/le.h"
#include "volume/map.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

/* The header: magic 8, version 4, flags 4, uuid 16, seq 8, term 4, zero 4, size of the inline bytes
 * 8, size of the changes 8, count 8, zero 16, checksum 8 (of everything else). A change: key size
 * 4, value size 4 (DELETED: none), key, value. */
enum { VERSION = 1, CHANGE_BYTES = 8, CHECKSUM_AT = 88 };
#define DELETED UINT32_MAX
static const char MAGIC[8] = {'d', 'r', 'v', 'l', 'o', 'g', '\n', '\0'};
_Static_assert(CHECKSUM_AT + 8 == LOGOBJ_HEADER_BYTES, "the checksum ends the header");

static uint64_t checksum_of(const uint8_t *bytes, size_t size)
{
    /* The seed of the second half is the first's sum: one number over both sides of the gap. */
    uint64_t header = XXH3_64bits(bytes, CHECKSUM_AT);
    return XXH3_64bits_withSeed(bytes + LOGOBJ_HEADER_BYTES, size - LOGOBJ_HEADER_BYTES, header);
}

static void add_change(struct str *out, const struct logobj_change *change)
{
    CHECK(change->key_size >= 1);
    CHECK(change->key_size <= MAP_KEY_MAX);
    CHECK(!change->value || change->value_size <= MAP_VALUE_MAX);
    uint8_t sizes[CHANGE_BYTES];
    le_put_u32(sizes, (uint32_t)change->key_size);
    le_put_u32(sizes + 4, change->value ? (uint32_t)change->value_size : DELETED);
    str_add_bytes(out, sizes, sizeof sizes);
    str_add_bytes(out, change->key, change->key_size);
    if (change->value) {
        str_add_bytes(out, change->value, change->value_size);
    }
}

void logobj_write(const struct logobj_header *header, const struct str *data,
                  const struct logobj_change *changes, size_t count, struct str *out)
{
    uint8_t head[LOGOBJ_HEADER_BYTES] = {0};
    size_t data_size = data ? data->size : 0;
    str_clear(out);
    str_add_bytes(out, head, sizeof head);
    if (data_size > 0) {
        str_add_bytes(out, data->text, data_size);
    }
    for (size_t i = 0; i < count; i++) {
        add_change(out, &changes[i]);
    }
    uint8_t *bytes = (uint8_t *)out->text;
    memcpy(bytes, MAGIC, sizeof MAGIC);
    le_put_u32(bytes + 8, VERSION);
    le_put_u32(bytes + 12, header->flags);
    memcpy(bytes + 16, header->uuid, sizeof header->uuid);
    le_put_u64(bytes + 32, header->seq);
    le_put_u32(bytes + 40, header->term);
    le_put_u64(bytes + 48, data_size);
    le_put_u64(bytes + 56, out->size - LOGOBJ_HEADER_BYTES - data_size);
    le_put_u64(bytes + 64, count);
    le_put_u64(bytes + CHECKSUM_AT, checksum_of(bytes, out->size));
}

/* Reads the change at *at of `end` bytes; false: it does not fit or cannot be. */
static bool take_change(const uint8_t *bytes, size_t end, size_t *at, struct logobj_change *out)
{
    if (end - *at < CHANGE_BYTES) {
        return false;
    }
    uint32_t key_size = le_get_u32(bytes + *at);
    uint32_t value_size = le_get_u32(bytes + *at + 4);
    bool deleted = value_size == DELETED;
    size_t room = end - *at - CHANGE_BYTES;
    if (key_size == 0 || key_size > MAP_KEY_MAX || key_size > room ||
        (!deleted && (value_size > MAP_VALUE_MAX || value_size > room - key_size))) {
        return false;
    }
    out->key = bytes + *at + CHANGE_BYTES;
    out->key_size = key_size;
    out->value = deleted ? NULL : out->key + key_size;
    out->value_size = deleted ? 0 : value_size;
    *at += CHANGE_BYTES + key_size + out->value_size;
    return true;
}

static bool changes_are_sound(const uint8_t *bytes, size_t begin, size_t end, uint64_t count)
{
    struct logobj_change change = {0};
    size_t at = begin;
    for (uint64_t i = 0; i < count; i++) {
        if (!take_change(bytes, end, &at, &change)) {
            return false;
        }
    }
    return at == end;
}

static enum err_code read_header(const uint8_t *bytes, size_t size, struct logobj_header *out,
                                 struct err *err)
{
    if (size < LOGOBJ_HEADER_BYTES || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        return err_set(err, ERR_CORRUPT, "not a log object");
    }
    uint32_t version = le_get_u32(bytes + 8);
    if (version != VERSION) {
        return err_set(err, ERR_CORRUPT, "a log object of version %" PRIu32 ", which is unknown",
                       version);
    }
    if (checksum_of(bytes, size) != le_get_u64(bytes + CHECKSUM_AT)) {
        return err_set(err, ERR_CORRUPT, "a log object does not have its checksum");
    }
    memcpy(out->uuid, bytes + 16, sizeof out->uuid);
    out->flags = le_get_u32(bytes + 12);
    out->seq = le_get_u64(bytes + 32);
    out->term = le_get_u32(bytes + 40);
    return ERR_OK;
}

// NOLINTNEXTLINE(readability-function-size): bytes, two headers, a callback
enum err_code logobj_read(const void *bytes, size_t size, const struct logobj_header *expect,
                          struct logobj_header *header,
                          void (*each)(void *context, const struct logobj_change *change),
                          void *context, struct err *err)
{
    const uint8_t *at = bytes;
    struct logobj_header found = {0};
    enum err_code code = read_header(at, size, &found, err);
    if (code != ERR_OK) {
        return code;
    }
    if (expect && memcmp(found.uuid, expect->uuid, sizeof found.uuid) != 0) {
        return err_set(err, ERR_CORRUPT, "a log object is of another volume");
    }
    if (expect && found.seq != expect->seq) {
        return err_set(err, ERR_CORRUPT, "log object %" PRIu64 " lies where %" PRIu64 " should",
                       found.seq, expect->seq);
    }
    uint64_t data_size = le_get_u64(at + 48);
    uint64_t changes_size = le_get_u64(at + 56);
    uint64_t count = le_get_u64(at + 64);
    uint64_t body = size - LOGOBJ_HEADER_BYTES;
    if (data_size > body || changes_size != body - data_size ||
        !changes_are_sound(at, LOGOBJ_HEADER_BYTES + (size_t)data_size, size, count)) {
        return err_set(err, ERR_CORRUPT, "a log object's sizes cannot be");
    }
    if (header) {
        *header = found;
    }
    size_t next = LOGOBJ_HEADER_BYTES + (size_t)data_size;
    struct logobj_change change = {0};
    for (uint64_t i = 0; each && i < count; i++) {
        CHECK(take_change(at, size, &next, &change));
        each(context, &change);
    }
    return ERR_OK;
}

bool logobj_claims_fence(const void *bytes, size_t size)
{
    return size >= LOGOBJ_HEADER_BYTES && memcmp(bytes, MAGIC, sizeof MAGIC) == 0 &&
           (le_get_u32((const uint8_t *)bytes + 12) & LOGOBJ_FENCE) != 0;
}
