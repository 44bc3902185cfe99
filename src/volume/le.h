/* le.h - integers as little-endian bytes, at any address. */
#ifndef VOLUME_LE_H
#define VOLUME_LE_H

#include <stdint.h>

static inline void le_put_u32(uint8_t *out, uint32_t number)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(number >> (8 * i));
    }
}

static inline void le_put_u64(uint8_t *out, uint64_t number)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(number >> (8 * i));
    }
}

static inline uint32_t le_get_u32(const uint8_t *bytes)
{
    uint32_t number = 0;
    for (int i = 0; i < 4; i++) {
        number |= (uint32_t)bytes[i] << (8 * i);
    }
    return number;
}

static inline uint64_t le_get_u64(const uint8_t *bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

#endif
