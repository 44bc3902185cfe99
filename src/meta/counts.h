/* counts.h - how often each inode is open. One owner; pure code. Zeroed is empty. */
#ifndef META_COUNTS_H
#define META_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct count {
    uint64_t inode;
    uint64_t count; /* never 0 */
};

struct counts {
    struct count *items; /* by inode */
    size_t count, cap;
    uint64_t sum;
};

void counts_release(struct counts *counts);
uint64_t counts_of(const struct counts *counts, uint64_t inode);
void counts_add(struct counts *counts, uint64_t inode);
bool counts_remove(struct counts *counts, uint64_t inode); /* once; false: it was not there */

#endif
