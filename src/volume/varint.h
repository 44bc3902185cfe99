/* varint.h - integers in as few bytes as they need: seven bits a byte, the lowest first, the top
 * bit set on all but the last. Pure code. */
#ifndef VOLUME_VARINT_H
#define VOLUME_VARINT_H

#include <stddef.h>
#include <stdint.h>

enum { VARINT_BYTES_MAX = 5 }; /* of 32 bits */

/* Writes number to out, which has room for VARINT_BYTES_MAX bytes; returns how many it took. */
static inline size_t varint_put(uint8_t *out, uint32_t number)
{
    size_t size = 0;
    while (number >= 0x80) {
        out[size++] = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    out[size++] = (uint8_t)number;
    return size;
}

/* Reads one from [at, end); returns where it ends, or NULL: cut off, or more than 32 bits. */
static inline const uint8_t *varint_get(const uint8_t *at, const uint8_t *end, uint32_t *number)
{
    uint32_t result = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (at == end) {
            return NULL;
        }
        uint32_t byte = *at++;
        if (shift == 28 && byte > 0x0f) {
            return NULL;
        }
        result |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = result;
            return at;
        }
    }
    return NULL;
}

#endif
