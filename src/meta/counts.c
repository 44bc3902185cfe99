#include "meta/counts.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void counts_release(struct counts *counts)
{
    free(counts->items);
    *counts = (struct counts){0};
}

/* Index of the first whose inode is not below this one. */
static size_t position(const struct counts *counts, uint64_t inode)
{
    size_t low = 0;
    size_t high = counts->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (counts->items[middle].inode < inode) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t counts_of(const struct counts *counts, uint64_t inode)
{
    size_t at = position(counts, inode);
    return at < counts->count && counts->items[at].inode == inode ? counts->items[at].count : 0;
}

void counts_add(struct counts *counts, uint64_t inode)
{
    size_t at = position(counts, inode);
    counts->sum++;
    if (at < counts->count && counts->items[at].inode == inode) {
        counts->items[at].count++;
        return;
    }
    (void)VEC_PUSH(counts->items, counts->count, counts->cap);
    memmove(&counts->items[at + 1], &counts->items[at],
            (counts->count - 1 - at) * sizeof counts->items[0]);
    counts->items[at] = (struct count){inode, 1};
}

bool counts_remove(struct counts *counts, uint64_t inode)
{
    size_t at = position(counts, inode);
    if (at == counts->count || counts->items[at].inode != inode) {
        return false;
    }
    counts->sum--;
    if (--counts->items[at].count == 0) {
        counts->count--;
        memmove(&counts->items[at], &counts->items[at + 1],
                (counts->count - at) * sizeof counts->items[0]);
    }
    return true;
}
