#include "meta/inodes.h"

#include "base/mem.h"

#include <stdlib.h>

enum { CAP_MIN = 64 };

void inodes_release(struct inodes *set)
{
    free(set->slots);
    *set = (struct inodes){0};
}

static size_t home_of(const struct inodes *set, uint64_t inode)
{
    return (size_t)((inode * 0x9E3779B97F4A7C15U) >> 20) & (set->cap - 1);
}

/* Where it is, or where it would be put. */
static size_t slot_of(const struct inodes *set, uint64_t inode)
{
    size_t at = home_of(set, inode);
    while (set->slots[at] != 0 && set->slots[at] != inode) {
        at = (at + 1) & (set->cap - 1);
    }
    return at;
}

bool inodes_have(const struct inodes *set, uint64_t inode)
{
    return set->count > 0 && set->slots[slot_of(set, inode)] == inode;
}

static void grow(struct inodes *set)
{
    struct inodes old = *set;
    set->cap = old.cap ? old.cap * 2 : CAP_MIN;
    set->slots = mem_array(set->cap, sizeof *set->slots);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i] != 0) {
            set->slots[slot_of(set, old.slots[i])] = old.slots[i];
        }
    }
    free(old.slots);
}

void inodes_add(struct inodes *set, uint64_t inode)
{
    CHECK(inode != 0);
    if (set->count + set->count / 2 >= set->cap) {
        grow(set);
    }
    size_t at = slot_of(set, inode);
    set->count += set->slots[at] == 0;
    set->slots[at] = inode;
}

/* Those behind it that had to step aside move up. */
bool inodes_remove(struct inodes *set, uint64_t inode)
{
    if (!inodes_have(set, inode)) {
        return false;
    }
    size_t mask = set->cap - 1;
    size_t hole = slot_of(set, inode);
    for (size_t at = (hole + 1) & mask; set->slots[at] != 0; at = (at + 1) & mask) {
        size_t home = home_of(set, set->slots[at]);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            set->slots[hole] = set->slots[at];
            hole = at;
        }
    }
    set->slots[hole] = 0;
    set->count--;
    return true;
}
