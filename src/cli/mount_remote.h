/* mount_remote.h - mounting a volume whose owner is elsewhere (drover meta). */
#ifndef CLI_MOUNT_REMOTE_H
#define CLI_MOUNT_REMOTE_H

#include "base/err.h"
#include "cli/volume_ref.h"
#include "mount/mount.h"

#include <stdbool.h>

struct mount_remote_options {
    const char *address;           /* @FILE or a URL */
    const struct volume_ref *over; /* options of the store that were given here; not NULL */
    const char *cache_folder;      /* NULL: the volume's own; "": none */
    uint64_t cache_bytes;
    struct mount_options mount; /* its label is set here */
};

bool mount_remote_is_address(const char *text);

/* Joins, opens the store that the owner names, serves until it is unmounted, and leaves.
 * ERR_TIMEOUT: nobody is there. ERR_DENIED: refused. */
MUST_USE enum err_code mount_remote_serve(const struct mount_remote_options *options,
                                          struct err *err);

#endif
