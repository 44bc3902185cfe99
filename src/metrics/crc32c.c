#include "metrics/crc32c.h"

#include <string.h>

/* Four bits at a time: polynomial 0x1EDC6F41, reflected. */
static const uint32_t table[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

uint32_t crc32c_plain(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#ifdef __x86_64__

__attribute__((target("sse4.2"))) static uint32_t fast(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t state = (uint32_t)~crc;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof word);
        state = __builtin_ia32_crc32di(state, word);
    }
    uint32_t rest = (uint32_t)state;
    for (; size > 0; size--, at++) {
        rest = __builtin_ia32_crc32qi(rest, *at);
    }
    return ~rest;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? fast(crc, bytes, size)
                                            : crc32c_plain(crc, bytes, size);
}

#else

uint32_t crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return crc32c_plain(crc, bytes, size);
}

#endif

uint32_t crc32c_masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}
