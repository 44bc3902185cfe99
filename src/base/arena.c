#include "base/arena.h"

#include "base/mem.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16384 };

struct arena_block {
    struct arena_block *older;
    size_t used;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
    size_t rounded = 0;
    CHECK(!__builtin_add_overflow(size, alignof(max_align_t) - 1, &rounded));
    rounded &= ~(alignof(max_align_t) - 1);
    struct arena_block *block = arena->newest;
    if (!block || block->size - block->used < rounded) {
        size_t block_size = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        block = mem_alloc(sizeof *block + block_size);
        block->size = block_size;
        block->older = arena->newest;
        arena->newest = block;
    }
    void *memory = block->bytes + block->used;
    block->used += rounded;
    arena->used_bytes += rounded;
    return memory;
}

char *arena_strndup(struct arena *arena, const char *text, size_t size)
{
    char *copy = arena_alloc(arena, size + 1);
    if (size) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

static void free_older(struct arena_block *block)
{
    while (block) {
        struct arena_block *older = block->older;
        free(block);
        block = older;
    }
}

void arena_reset(struct arena *arena)
{
    struct arena_block *block = arena->newest;
    arena->used_bytes = 0;
    if (!block) {
        return;
    }
    free_older(block->older);
    block->older = NULL;
    memset(block->bytes, 0, block->used); /* arena_alloc promises zeroes */
    block->used = 0;
}

void arena_release(struct arena *arena)
{
    if (!arena) {
        return;
    }
    free_older(arena->newest);
    *arena = (struct arena){0};
}
