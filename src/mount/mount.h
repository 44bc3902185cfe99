/* mount.h - a volume as a folder of this machine (FUSE).
 *
 * One thread does everything: it takes the kernel's requests, asks the engine, and answers. A
 * request that needs something which has to be fetched first is parked, and tried again from its
 * beginning when something has come; others go on meanwhile. So nothing is shared and nothing is
 * locked. Transfers happen in the store's own thread (object_threaded_open).
 *
 * What is written to an open file stays a draft (draft.h) until close or fsync, which make the
 * whole of it part of the volume at once. Fsync answers when it is stored; close does not wait.
 */
#ifndef MOUNT_MOUNT_H
#define MOUNT_MOUNT_H

#include "base/err.h"
#include "meta/dealer.h"
#include "volume/reader.h"
#include "volume/volume.h"

#include <stdbool.h>
#include <stdint.h>

struct mount_options {
    const char *folder; /* where; it must be there */
    const char *label;  /* what the table of mounts shows as the source */
    bool read_only;     /* always, for a volume opened as a reader */
    /* A folder on a local disk: what never changes may be shown by the kernel itself (shown.h),
     * from a file there. NULL: FUSE alone. */
    const char *scratch;
    bool allow_other; /* other users may enter, as modes permit (only root may always ask for it) */
    /* Called in this thread when the folder is mounted, before the first request is served. */
    void (*ready)(void *context);
    void *context;
};

/* Mounts and serves until the folder is unmounted or SIGINT, SIGTERM or SIGHUP comes (then it
 * unmounts); everything written is committed before it returns, or the error says what was not.
 * The volume and the reader are borrowed. ERR_INVALID: the folder cannot be mounted on. */
MUST_USE enum err_code mount_run(struct volume *volume, struct reader *reader,
                                 const struct mount_options *options, struct err *err);

/* The same for a volume whose owner is elsewhere (drover meta): the kernel believes nothing for
 * longer than it must, so that what another machine has closed is seen by the next open here; close
 * waits until the owner has it, fsync until it is stored; flock holds between machines. The dealer
 * has joined; the store is where the mount reads and stores large files itself. All borrowed. */
struct mount_remote {
    struct meta_dealer *dealer;
    struct object_store *store;
    const struct volume_format *format;
};
MUST_USE enum err_code mount_run_remote(const struct mount_remote *remote, struct reader *reader,
                                        const struct mount_options *options, struct err *err);

#endif
