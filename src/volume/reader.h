/* reader.h - the bytes of extents: from memory, the disk cache or the store, checked.
 *
 * A reader keeps what it has fetched of containers in files of a cache folder (one sparse file for
 * each container and a list of the ranges in it), up to a limit, the least lately used going first;
 * and decoded extents and recent fetches in a little memory. A miss fetches a range around what is
 * asked: more and further ahead the more sequential or dense the reading of that container has
 * been, up to the whole container when the cache has room; little when reading is scattered and the
 * cache cannot hold it. Every extent is checked against its checksum before it is given out: damage
 * is dropped from the cache and fetched again, and only if the store itself has damaged bytes is it
 * ERR_CORRUPT. Damaged cache files, a full disk and a vanished folder cost speed, never data.
 *
 * One thread owns a reader and drives the store's object_run elsewhere (volume_run): fetches end
 * there. The cache folder is used by one reader at a time (lock); a second one uses none. What it
 * holds is found again by the next reader.
 */
#ifndef VOLUME_READER_H
#define VOLUME_READER_H

#include "base/err.h"
#include "object/object.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader;

struct reader_options {
    const char *folder;    /* of the cache, for this volume alone; NULL: memory only. Made if
                            * missing, mode 0700 */
    uint64_t folder_bytes; /* its limit; 0: 10 GiB, or what the disk has free less a tenth */
    size_t memory_bytes;   /* 0: 128 MiB, or 64 where that is over a 32nd of the machine's; 8 MiB
                            * at least */
};

/* The store is borrowed: the volume's. A folder that another reader uses is left alone; one that
 * cannot be made or used at all is an error. */
MUST_USE enum err_code reader_create(struct object_store *store,
                                     const struct reader_options *options, struct reader **out,
                                     struct err *err);
void reader_destroy(struct reader *reader); /* notes what the cache holds; fetches in flight may end
                                             * later, while the store lives */

/* The decoded bytes of an extent (extent->whole of them; the file's begin at extent->skip), valid
 * until the next call of this reader or of the store's run. container_size: of the container's data
 * (engine_container.size), so that reading ahead knows the end; 0: unknown. ERR_AGAIN: a fetch is
 * under way; ask again when reader_progress has changed. ERR_CORRUPT; or what the store said. */
struct reader_ask {
    const struct extent *extent;
    uint64_t container_size;
    uint64_t inode; /* whose, to tell sequential reading of one file from the rest */
};
MUST_USE enum err_code reader_get(struct reader *reader, const struct reader_ask *ask,
                                  const void **bytes, struct err *err);
uint64_t reader_progress(const struct reader *reader);
/* Plain bytes of a container (metadata blocks of runs): cached the same way, no checksum here. */
MUST_USE enum err_code reader_get_raw(struct reader *reader, const struct container *container,
                                      uint64_t offset, size_t size, const void **bytes,
                                      struct err *err);
void reader_drop_raw(struct reader *reader, const struct container *container, uint64_t offset,
                     size_t size); /* it was damaged: fetch it again next time */

struct reader_stats {
    uint64_t hits_memory, hits_disk, misses; /* of extents */
    uint64_t bytes_read;                     /* of extents given out, each time */
    uint64_t bytes_fetched, fetches;
    uint64_t evicted_bytes, damaged;
    uint64_t disk_bytes, memory_bytes; /* in use now */
};
void reader_stats(const struct reader *reader, struct reader_stats *out);

#endif
