#include "volume/block_cache.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>

struct slot {
    struct block block;
    uint32_t *owner; /* NULL: free */
    bool used;
    uint32_t next_free;
};

struct block_cache {
    size_t bytes_max;
    size_t bytes;
    size_t least;
    size_t count;       /* blocks */
    struct slot *slots; /* slot 0 is never used */
    size_t slot_count, slot_cap;
    uint32_t first_free; /* 0: none */
    size_t hand;
};

struct block_cache *block_cache_create(size_t bytes_max)
{
    struct block_cache *cache = mem_alloc(sizeof *cache);
    cache->bytes_max = bytes_max;
    VEC_PUSH(cache->slots, cache->slot_count, cache->slot_cap) = (struct slot){0};
    cache->hand = 1;
    return cache;
}

void block_cache_destroy(struct block_cache *cache)
{
    if (cache) {
        for (size_t i = 1; i < cache->slot_count; i++) {
            free((void *)cache->slots[i].block.bytes);
        }
        free(cache->slots);
        free(cache);
    }
}

void block_cache_set_least(struct block_cache *cache, size_t count)
{
    cache->least = count;
}

size_t block_cache_limit(const struct block_cache *cache)
{
    size_t count = cache->bytes_max / MAP_BLOCK_BYTES;
    return count > cache->least ? count : cache->least;
}

size_t block_cache_bytes(const struct block_cache *cache)
{
    return cache->bytes;
}

/* What a block takes, malloc's part and ours included, about. */
static size_t cost(const struct block *block)
{
    return block->size + sizeof(struct slot) + 16;
}

static void empty_slot(struct block_cache *cache, uint32_t number)
{
    struct slot *slot = &cache->slots[number];
    *slot->owner = 0;
    cache->bytes -= cost(&slot->block);
    cache->count--;
    free((void *)slot->block.bytes);
    *slot = (struct slot){.next_free = cache->first_free};
    cache->first_free = number;
}

static void evict_one(struct block_cache *cache)
{
    for (;;) {
        if (cache->hand >= cache->slot_count) {
            cache->hand = 1;
        }
        struct slot *slot = &cache->slots[cache->hand++];
        if (slot->owner && !slot->used) {
            empty_slot(cache, (uint32_t)(cache->hand - 1));
            return;
        }
        slot->used = false;
    }
}

void block_cache_add(struct block_cache *cache, uint32_t *slot, const struct block *block)
{
    CHECK(*slot == 0);
    while (cache->count >= cache->least && cache->count > 0 &&
           cache->bytes + cost(block) > cache->bytes_max) {
        evict_one(cache);
    }
    uint32_t number = cache->first_free;
    if (number) {
        cache->first_free = cache->slots[number].next_free;
    } else {
        number = (uint32_t)cache->slot_count;
        VEC_PUSH(cache->slots, cache->slot_count, cache->slot_cap) = (struct slot){0};
    }
    cache->slots[number] = (struct slot){.block = *block, .owner = slot};
    cache->bytes += cost(block);
    cache->count++;
    *slot = number;
}

const struct block *block_cache_get(struct block_cache *cache, uint32_t slot)
{
    CHECK(slot > 0 && slot < cache->slot_count);
    cache->slots[slot].used = true;
    return &cache->slots[slot].block;
}

void block_cache_drop(struct block_cache *cache, uint32_t *slot)
{
    if (*slot) {
        CHECK(cache->slots[*slot].owner == slot);
        empty_slot(cache, *slot);
    }
}
