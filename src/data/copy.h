/* copy.h - files into a volume and out of it.
 *
 * Both ways a file that is there already with the same size and time of change is passed over, so
 * that a copy that was interrupted goes on where it stopped, and a second one moves only what has
 * changed. A folder's contents go into the folder named as the target, which is made. Symbolic
 * links are copied as links; permissions and times are kept, owners if we are root; sockets,
 * devices and pipes are passed over with a word.
 *
 * A file's new content shows in the volume all at once. Out of the volume, a file is written beside
 * its name and renamed.
 */
#ifndef DATA_COPY_H
#define DATA_COPY_H

#include "base/err.h"
#include "data/tree.h"

#include <stdbool.h>
#include <stdint.h>

struct copy_counts {
    uint64_t files, bytes;     /* copied */
    uint64_t same, same_bytes; /* passed over: unchanged */
    uint64_t folders, links, odd;
};

struct copy {
    struct tree tree;
    struct copy_counts counts;
    /* Called now and then while bytes move, and for each thing that is passed over as odd (why is
     * not NULL then). */
    void (*note)(void *context, const struct copy_counts *counts, const char *path,
                 const char *why);
    void *context;
};

/* source: a file or folder of this machine; path: what it is called in the volume. A path that ends
 * with '/' or is a folder takes a file under its own name. Not yet durable: volume_sync. */
MUST_USE enum err_code copy_put(struct copy *copy, const char *source, const char *path,
                                struct err *err);
/* path in the volume to a file or folder of this machine. */
MUST_USE enum err_code copy_get(struct copy *copy, const char *path, const char *target,
                                struct err *err);
/* How much a source is, for the progress bar; what cannot be read is left out. */
void copy_measure(const char *source, uint64_t *files, uint64_t *bytes);

/* One file from bytes that come piece by piece (imports). read returns the number of bytes it has
 * put into buffer (0: the end), or -1 with err set. */
struct copy_source {
    int64_t (*read)(void *context, void *buffer, size_t size, struct err *err);
    void *context;
    int64_t mtime_ns;
    uint32_t mode; /* permissions */
    uint32_t uid, gid;
};
MUST_USE enum err_code copy_put_bytes(struct copy *copy, uint64_t folder, const char *name,
                                      const struct copy_source *source, struct err *err);

#endif
