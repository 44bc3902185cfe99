/* image_tree.h - the image (image.h) of all that a volume's engine has.
 *
 * Private to src/mount.
 */
#ifndef MOUNT_IMAGE_TREE_H
#define MOUNT_IMAGE_TREE_H

#include "mount/image.h"

enum { IMAGE_FILES_MAX = 2000000 }; /* a volume of more would keep its users waiting */

struct image_tree {
    struct image *image; /* an empty one */
    struct engine *engine;
    const struct image_xattr *root_xattr; /* one that the root gets besides its own */
    const uint8_t *uuid;
    /* Called for ERR_AGAIN: ERR_OK when it is worth trying again. */
    enum err_code (*wait)(void *context, struct err *err);
    void *context;
};

/* ERR_RANGE: there is more than an image holds. */
MUST_USE enum err_code image_tree_build(const struct image_tree *tree, struct err *err);

#endif
