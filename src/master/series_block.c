#include "master/series_block.h"

#include "base/check.h"
#include "base/rng.h"

#include <endian.h>
#include <string.h>

enum { CODE_BITS = 8, CODE_LINEAR = 2 << CODE_BITS, CODE_MAX = 56 * 256 + 255, KIND_AVERAGE = 1 };

static const uint8_t magic[4] = {0xD5, 'u', 's', 1}; /* the last byte is the format's version */

/* Where things stand in a header, little-endian. */
enum {
    AT_MAGIC = 0,
    AT_CHECK = 4, /* u32, over all that follows and the rows */
    AT_FIRST = 8, /* i64 ms */
    AT_SPAN = 16, /* u64 ms, from the first row to the last */
    AT_SIZE = 24, /* u16, of the rows */
    AT_ROWS = 26, /* u8 */
    AT_KIND = 27, /* u8 */
};
_Static_assert(AT_KIND + 1 == SERIES_HEADER_BYTES, "the header ends there");

/* --- values ---------------------------------------------------------------------------------- */

uint32_t series_code(uint64_t value)
{
    if (value < CODE_LINEAR) {
        return (uint32_t)value;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - CODE_BITS;
    return (shift << CODE_BITS) + (uint32_t)(value >> shift);
}

uint64_t series_value(uint32_t code)
{
    CHECK(code <= CODE_MAX);
    if (code < CODE_LINEAR) {
        return code;
    }
    unsigned shift = (code >> CODE_BITS) - 1;
    uint64_t mantissa = (code & ((1u << CODE_BITS) - 1)) | 1u << CODE_BITS;
    return (mantissa << shift) + (1ULL << shift) / 2;
}

/* --- varints --------------------------------------------------------------------------------- */

static size_t put_varint(uint8_t *out, uint64_t value)
{
    size_t size = 0;
    while (value >= 0x80) {
        out[size++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    out[size++] = (uint8_t)value;
    return size;
}

static bool take_varint(const struct series_block *block, size_t *at, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < block->size; shift += 7) {
        uint8_t byte = block->rows[(*at)++];
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

static uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t number)
{
    return (int64_t)(number >> 1) ^ -(int64_t)(number & 1);
}

/* --- writing --------------------------------------------------------------------------------- */

bool series_build_add(struct series_build *build, const struct series_row *row)
{
    CHECK(row->at_ms >= 0);
    CHECK(row->at_ms % SERIES_TIME_UNIT_MS == 0);
    CHECK(build->rows == 0 || row->at_ms > build->last_ms);
    if (build->rows == SERIES_BLOCK_ROWS_MAX ||
        SERIES_HEADER_BYTES + build->size + SERIES_ROW_BYTES_MAX > SERIES_BUILD_BYTES) {
        return false;
    }
    if (build->rows == 0) {
        build->first_ms = row->at_ms;
        build->last_ms = row->at_ms;
    }
    uint8_t *start = build->bytes + SERIES_HEADER_BYTES + build->size;
    uint8_t *out = start;
    out += put_varint(out, (uint64_t)(row->at_ms - build->last_ms) / SERIES_TIME_UNIT_MS);
    uint8_t *changed = out++;
    *changed = 0;
    for (unsigned i = 0; i < SERIES_COLUMNS; i++) {
        uint32_t code = series_code(row->values[i]);
        if (code != build->codes[i]) {
            *changed = (uint8_t)(*changed | 1u << i);
            out += put_varint(out, zigzag((int64_t)code - (int64_t)build->codes[i]));
            build->codes[i] = code;
        }
    }
    build->last_ms = row->at_ms;
    build->size = (uint16_t)(build->size + (out - start));
    build->rows++;
    return true;
}

static uint32_t checksum(const uint8_t *block, size_t size)
{
    return (uint32_t)rng_hash_bytes(0x75736167, block + AT_FIRST, size - AT_FIRST);
}

size_t series_build_seal(struct series_build *build, bool is_average)
{
    CHECK(build->rows > 0);
    uint8_t *bytes = build->bytes;
    size_t size = SERIES_HEADER_BYTES + (size_t)build->size;
    uint64_t first = htole64((uint64_t)build->first_ms);
    uint64_t span = htole64((uint64_t)(build->last_ms - build->first_ms));
    uint16_t row_bytes = htole16(build->size);
    memcpy(bytes + AT_MAGIC, magic, sizeof magic);
    memcpy(bytes + AT_FIRST, &first, sizeof first);
    memcpy(bytes + AT_SPAN, &span, sizeof span);
    memcpy(bytes + AT_SIZE, &row_bytes, sizeof row_bytes);
    bytes[AT_ROWS] = build->rows;
    bytes[AT_KIND] = is_average ? KIND_AVERAGE : 0;
    uint32_t check = htole32(checksum(bytes, size));
    memcpy(bytes + AT_CHECK, &check, sizeof check);
    return size;
}

/* --- reading --------------------------------------------------------------------------------- */

static bool read_header(const uint8_t *bytes, size_t size, struct series_block *out)
{
    uint32_t check = 0;
    uint64_t first = 0;
    uint64_t span = 0;
    uint16_t row_bytes = 0;
    if (size < SERIES_HEADER_BYTES || memcmp(bytes, magic, sizeof magic) != 0) {
        return false;
    }
    memcpy(&check, bytes + AT_CHECK, sizeof check);
    memcpy(&first, bytes + AT_FIRST, sizeof first);
    memcpy(&span, bytes + AT_SPAN, sizeof span);
    memcpy(&row_bytes, bytes + AT_SIZE, sizeof row_bytes);
    size_t whole = SERIES_HEADER_BYTES + (size_t)le16toh(row_bytes);
    if (size < whole || le32toh(check) != checksum(bytes, whole)) {
        return false;
    }
    first = le64toh(first);
    span = le64toh(span);
    if (first > INT64_MAX || span > INT64_MAX - first || bytes[AT_ROWS] == 0) {
        return false;
    }
    *out = (struct series_block){.rows = bytes + SERIES_HEADER_BYTES,
                                 .size = whole - SERIES_HEADER_BYTES,
                                 .row_count = bytes[AT_ROWS],
                                 .first_ms = (int64_t)first,
                                 .last_ms = (int64_t)(first + span),
                                 .is_average = bytes[AT_KIND] == KIND_AVERAGE};
    return true;
}

bool series_block_next(const uint8_t *bytes, size_t size, size_t *at, struct series_block *out)
{
    while (*at < size) {
        const uint8_t *start = memchr(bytes + *at, magic[0], size - *at);
        if (!start) {
            break;
        }
        *at = (size_t)(start - bytes);
        if (read_header(start, size - *at, out)) {
            *at += SERIES_HEADER_BYTES + out->size;
            return true;
        }
        (*at)++;
    }
    *at = size;
    return false;
}

bool series_block_row(const struct series_block *block, struct series_cursor *cursor,
                      struct series_row *out)
{
    uint64_t passed = 0;
    if (cursor->row == block->row_count || !take_varint(block, &cursor->at, &passed) ||
        cursor->at == block->size) {
        return false;
    }
    int64_t before_ms = cursor->row == 0 ? block->first_ms : cursor->at_ms;
    if (passed > (uint64_t)(block->last_ms - before_ms) / SERIES_TIME_UNIT_MS) {
        return false;
    }
    cursor->at_ms = before_ms + (int64_t)passed * SERIES_TIME_UNIT_MS;
    uint8_t changed = block->rows[cursor->at++];
    for (unsigned i = 0; i < SERIES_COLUMNS; i++) {
        uint64_t difference = 0;
        if ((changed >> i & 1) == 0) {
            continue;
        }
        if (!take_varint(block, &cursor->at, &difference) || difference > 4 * (uint64_t)CODE_MAX) {
            return false;
        }
        int64_t code = (int64_t)cursor->codes[i] + unzigzag(difference);
        if (code < 0 || code > CODE_MAX) {
            return false;
        }
        cursor->codes[i] = (uint32_t)code;
    }
    cursor->row++;
    out->at_ms = cursor->at_ms;
    for (unsigned i = 0; i < SERIES_COLUMNS; i++) {
        out->values[i] = series_value(cursor->codes[i]);
    }
    return true;
}
