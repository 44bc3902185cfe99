/* inodes.h - a set of inode numbers, 8 to 24 bytes for each. One owner; pure code. Zeroed is empty.
 * 0 is no inode. */
#ifndef META_INODES_H
#define META_INODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inodes {
    uint64_t *slots;
    size_t count, cap; /* cap: a power of two, or 0 */
};

void inodes_release(struct inodes *set);
bool inodes_have(const struct inodes *set, uint64_t inode);
void inodes_add(struct inodes *set, uint64_t inode);
bool inodes_remove(struct inodes *set, uint64_t inode); /* false: it was not there */

#endif
