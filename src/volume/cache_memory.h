/* cache_memory.h - what was fetched or decoded lately, in a bounded amount of memory.
 *
 * Two kinds of things: segments, the bytes of a container as they were fetched (those of one
 * container never overlap), and decoded extents that have been checked. The least lately used go
 * first, but before them segments of a stream that were read to their end, for they are older than
 * what lies ahead; a segment that somebody waits for stays until it has been looked at, and one
 * that somebody else holds too until that has ended, or twice the limit is reached. Pointers given
 * out are valid until the next call that changes the cache. It owns all of it. Pure code; one
 * thread owns a cache.
 */
#ifndef VOLUME_CACHE_MEMORY_H
#define VOLUME_CACHE_MEMORY_H

#include "volume/cache_body.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_memory;

struct cache_memory *cache_memory_create(size_t limit);
void cache_memory_destroy(struct cache_memory *memory);

enum {
    CACHE_AWAITED = 1, /* somebody waits for some of it */
    CACHE_PASSING = 2, /* of a stream: it will not be read twice soon */
};
/* Holds the body, as the bytes from offset on. What was there of these bytes is replaced. how: a
 * set of the above. */
void cache_memory_add(struct cache_memory *memory, const struct container *container,
                      uint64_t offset, struct cache_body *body, unsigned how);
/* The bytes from `at` on, of which *size are wanted; *size becomes how many lie in one piece, which
 * may be less or more. NULL: that one is not here. Counts as use. */
const uint8_t *cache_memory_at(struct cache_memory *memory, const struct container *container,
                               uint64_t at, size_t *size);
/* As cache_disk_covered_to and cache_disk_next: for finding holes; no use. */
uint64_t cache_memory_covered_to(const struct cache_memory *memory,
                                 const struct container *container, uint64_t at);
uint64_t cache_memory_next(const struct cache_memory *memory, const struct container *container,
                           uint64_t at);
/* Forgets segments and decoded extents that overlap. */
void cache_memory_drop(struct cache_memory *memory, const struct container *container,
                       uint64_t offset, size_t size);

/* The decoded bytes of an extent that has been checked since it came; NULL: not here. */
const void *cache_memory_extent(struct cache_memory *memory, const struct extent *extent);
/* A plain extent that lies in one segment as it is has been checked. */
void cache_memory_mark(struct cache_memory *memory, const struct extent *extent);
/* Takes `decoded` (extent->whole bytes, from malloc), which has been checked. */
void cache_memory_keep(struct cache_memory *memory, const struct extent *extent, void *decoded);

/* Drops what does not fit besides `other_bytes` (fetches on their way), but never the newest. */
void cache_memory_trim(struct cache_memory *memory, size_t other_bytes);
size_t cache_memory_bytes(const struct cache_memory *memory);

#endif
