/* run_format.h - what the reader (run.c) and the writer (run_build.c) of runs agree on. */
#ifndef VOLUME_RUN_FORMAT_H
#define VOLUME_RUN_FORMAT_H

#include "base/rng.h"
#include "volume/container.h"
#include "volume/map.h"

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#define RUN_MAGIC "drvrun\0\1" /* eight bytes; the last is the version */

/* The header of the index: little-endian integers at these offsets, then the first and last key. */
enum {
    RUN_AT_TERM = 8,    /* u32 */
    RUN_AT_BLOCKS = 12, /* u32 */
    RUN_AT_NUMBER = 16, /* u64 */
    RUN_AT_KEYS = 24,   /* u64 */
    RUN_AT_LINES = 32,  /* u32, of the filter */
    RUN_AT_FIRST = 36,  /* u32, size of the first key */
    RUN_AT_LAST = 40,   /* u32, of the last */
    RUN_HEADER_BYTES = 44,
    RUN_LINE_BYTES = 64,
    RUN_FILTER_PROBES = 6,
    RUN_KEYS_PER_LINE = 51, /* ten bits a key */
};

/* What a block's checksum depends on besides its bytes. */
static inline uint64_t run_place(const struct container *container, uint64_t offset)
{
    return rng_mix(container->number, offset, container->term);
}

/* Only its low 32 bits are used, so that a writer can keep them for each key. */
static inline uint64_t run_filter_hash(struct map_slice key)
{
    return XXH3_64bits(key.bytes, key.size) & UINT32_MAX;
}

/* Where in the filter the line of a key begins. */
static inline size_t run_filter_line(uint32_t hash, uint32_t lines)
{
    return (size_t)(((uint64_t)hash * lines) >> 32) * RUN_LINE_BYTES;
}

/* Nine bits for each probe, the lowest first: which bit of the line. */
static inline uint64_t run_filter_bits(uint32_t hash)
{
    uint64_t bits = hash * 0x9e3779b97f4a7c15u;
    return bits ^ bits >> 32;
}

#endif
