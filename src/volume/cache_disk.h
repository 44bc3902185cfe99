/* cache_disk.h - parts of containers, kept in sparse files of a folder.
 *
 * One file for each container, named as it is with '/' replaced by '_', and a list in memory of the
 * ranges that are in it. Up to a limit of bytes; the container that was used longest ago goes
 * first, never the one that was read last or is being written to; if nothing else is left, what
 * lies furthest from the place being written in that container goes (a hole is punched).
 *
 * It is a cache: no call fails. What cannot be written is not there later; a file that cannot be
 * read is forgotten. A full disk or a vanished folder turns writing off for some seconds. Bytes are
 * not checked here: a damaged file gives damaged bytes, which the caller finds and drops.
 *
 * One cache at a time uses a folder (a lock file). The list is saved now and then and at the end;
 * the next cache goes on with what it names and removes other files of this kind. Files with other
 * names are never touched. One thread owns a cache.
 */
#ifndef VOLUME_CACHE_DISK_H
#define VOLUME_CACHE_DISK_H

#include "base/err.h"
#include "volume/cache_body.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_disk;

/* The folder is made if missing, mode 0700. limit 0: 10 GiB, or nine tenths of what is free.
 * ERR_AGAIN: another cache uses it. ERR_DENIED, ERR_IO and others: it cannot be used. */
MUST_USE enum err_code cache_disk_open(const char *folder, uint64_t limit, struct cache_disk **out,
                                       struct err *err);
void cache_disk_close(struct cache_disk *disk); /* saves the list; NULL does nothing */

/* The container is being read, be it from memory: it is the last to go. */
void cache_disk_use(struct cache_disk *disk, const struct container *container);
/* The end of the bytes that are there from `at` on; `at` itself if that one is not. */
uint64_t cache_disk_covered_to(const struct cache_disk *disk, const struct container *container,
                               uint64_t at);
/* The first byte that is there at or behind `at`; UINT64_MAX: none. */
uint64_t cache_disk_next(const struct cache_disk *disk, const struct container *container,
                         uint64_t at);
/* Reads all of it or, when that fails, forgets the container and returns false. */
MUST_USE bool cache_disk_read(struct cache_disk *disk, const struct container *container,
                              uint64_t offset, void *out, size_t size);
void cache_disk_write(struct cache_disk *disk, const struct container *container, uint64_t offset,
                      const void *bytes, size_t size);
/* The same, but a large one is written by a thread: it is there only once settle has seen that, and
 * its body is held until then. passing: it will not be read back soon, so the system's page cache
 * need not have it. */
void cache_disk_keep(struct cache_disk *disk, const struct container *container, uint64_t offset,
                     struct cache_body *body, bool passing);
void cache_disk_settle(struct cache_disk *disk, bool wait); /* wait: for all of them */
void cache_disk_drop(struct cache_disk *disk, const struct container *container, uint64_t offset,
                     size_t size);

uint64_t cache_disk_limit(const struct cache_disk *disk);
uint64_t cache_disk_bytes(const struct cache_disk *disk);   /* in use now */
uint64_t cache_disk_evicted(const struct cache_disk *disk); /* so far */

#endif
