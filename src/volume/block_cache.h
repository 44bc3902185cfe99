/* block_cache.h - decoded blocks that are kept in memory, up to a limit.
 *
 * Who owns a block keeps its slot number (0: not cached), whose address the cache remembers, so
 * that it can write 0 there when the block goes. Room is made by the clock's rule: a hand goes
 * round, a block that was used since the hand's last visit is left until the next one. Pure code;
 * one thread.
 */
#ifndef VOLUME_BLOCK_CACHE_H
#define VOLUME_BLOCK_CACHE_H

#include "volume/block.h"

#include <stddef.h>
#include <stdint.h>

struct block_cache;

struct block_cache *block_cache_create(size_t bytes_max);
void block_cache_destroy(struct block_cache *cache); /* NULL does nothing; writes to no owner */

/* This many blocks are kept even if they take more than the limit. */
void block_cache_set_least(struct block_cache *cache, size_t count);
size_t block_cache_limit(const struct block_cache *cache); /* in blocks of the usual size, about */
size_t block_cache_bytes(const struct block_cache *cache);

/* Takes block->bytes (from malloc) over and sets *slot. */
void block_cache_add(struct block_cache *cache, uint32_t *slot, const struct block *block);
/* The block of a slot that is not 0, which counts as a use; valid until the next add or drop. */
const struct block *block_cache_get(struct block_cache *cache, uint32_t slot);
void block_cache_drop(struct block_cache *cache, uint32_t *slot); /* 0: does nothing */

#endif
