/* image.h - what a volume that does not change holds, as a file system that the kernel reads
 * itself.
 *
 * The format is EROFS. Attributes, names, links and extended attributes are written to a file, the
 * image. Contents are not: the image says that they lie on a second device, one file behind the
 * other, each from a block of its own, and image_find tells which file a stretch of that device is.
 * So the kernel asks for contents only, and for nothing that it has read before.
 *
 * Layout of the image, in blocks of IMAGE_BLOCK: 0 the superblock; from 1 on attributes; from
 * IMAGE_NAMES on names; from IMAGE_ROWS on what image_find needs. Most of it is never written, so
 * it takes little room.
 *
 * Private to src/mount. Time stamps are mtime alone, and all of a file counts as written: EROFS
 * knows no other.
 */
#ifndef MOUNT_IMAGE_H
#define MOUNT_IMAGE_H

#include "base/err.h"
#include "volume/engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IMAGE_BLOCK = 4096,
    IMAGE_NAMES = 1 << 24,
    IMAGE_ROWS = 1 << 25,
};

struct image;

struct image_xattr {
    const char *name;
    const void *value;
    size_t size;
};

struct image_node {
    const struct engine_attr *attr;
    const char *target; /* of a symlink: attr->size bytes */
    const struct image_xattr *xattrs;
    size_t xattr_count;
};

/* Writes to fd, an empty file, which is borrowed. */
struct image *image_create(int fd);
void image_destroy(struct image *image);

/* Adds a node; *number is what folders call it. The root comes first. ERR_RANGE: there is more than
 * the format holds; or what writing to a file fails with. */
MUST_USE enum err_code image_add(struct image *image, const struct image_node *node,
                                 uint64_t *number, struct err *err);

/* The entries of a folder that was added, in byte order of their names, between a begin and an end.
 * Nodes may be added meanwhile. */
struct image_folder {
    uint64_t number, parent; /* the root's is itself */
};
void image_folder_begin(struct image *image, const struct image_folder *folder);
MUST_USE enum err_code image_folder_add(struct image *image, const char *name, uint64_t number,
                                        uint32_t mode, struct err *err);
MUST_USE enum err_code image_folder_end(struct image *image, struct err *err);

/* All is added. */
MUST_USE enum err_code image_finish(struct image *image, const uint8_t uuid[16], struct err *err);

uint64_t image_data_bytes(const struct image *image); /* the size of the second device */
/* Which file's, and where in it: `size` bytes from `offset` of the second device, or as many of
 * them as lie in the blocks of one file. False: no file's. */
struct image_spot {
    uint64_t inode;
    uint64_t offset;
    size_t size;
};
bool image_find(const struct image *image, uint64_t offset, size_t size, struct image_spot *out);

#endif
