/* spots.h - where the kernel has each folder, so that one that was moved elsewhere gets a new
 * number.
 *
 * The kernel has a folder in one place only. When a folder that another mount has moved is looked
 * up at its new place, the kernel moves it too; but it cannot while a rename is under way, and the
 * rename that looked it up fails (ESTALE) for as long as the old place is remembered. So the
 * number that we give the kernel for a folder changes with its place, when it was not the kernel
 * itself that moved it: to the kernel it is another folder, and the old one will not be found
 * again.
 *
 * A number is the inode and, above it, how often that has happened to any. Only folders have spots;
 * what the kernel forgets is forgotten here. One thread owns it.
 */
#ifndef MOUNT_SPOTS_H
#define MOUNT_SPOTS_H

#include <stddef.h>
#include <stdint.h>

struct spots;

struct spots *spots_create(void);
void spots_destroy(struct spots *spots); /* NULL: nothing */

/* The number for a folder that the kernel is told of, as `name` in `folder`; it counts one more. */
uint64_t spots_give(struct spots *spots, uint64_t inode, uint64_t folder, const char *name);
/* The kernel has moved it there itself. */
void spots_move(struct spots *spots, uint64_t inode, uint64_t folder, const char *name);
/* The kernel has forgotten so many. */
void spots_forget(struct spots *spots, uint64_t number, uint64_t count);
size_t spots_count(const struct spots *spots);

static inline uint64_t spots_inode(uint64_t number)
{
    return number & (((uint64_t)1 << 48) - 1);
}

#endif
