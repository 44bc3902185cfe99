/* cache_writer.h - a thread that writes bodies to files of the disk cache.
 *
 * Copying into the system's page cache costs more time than fetching; what will not be read back
 * soon can go past it. A job belongs to the thread from start to take; its bytes are only read.
 * Jobs are done one after another, in order.
 */
#ifndef VOLUME_CACHE_WRITER_H
#define VOLUME_CACHE_WRITER_H

#include "volume/cache_body.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_job {
    int fd; /* for writing; closed by the thread */
    uint64_t offset;
    struct cache_body *body;
    bool direct; /* past the system's page cache, as far as it fills whole pages */
    int failed;  /* the answer: an errno, or 0 */
};

enum { CACHE_JOBS_MAX = 32 }; /* under way at once */

struct cache_writer;

struct cache_writer *cache_writer_create(void);         /* NULL: there can be no thread */
void cache_writer_destroy(struct cache_writer *writer); /* nothing is under way; NULL: nothing */

void cache_writer_start(struct cache_writer *writer, struct cache_job *job);
/* The next job that has ended, in their order; NULL: none has yet (wait: none is under way). */
struct cache_job *cache_writer_take(struct cache_writer *writer, bool wait);
size_t cache_writer_jobs(const struct cache_writer *writer);  /* under way */
size_t cache_writer_bytes(const struct cache_writer *writer); /* of these */

/* 0, or why not (errno): all of it at this place of the file. */
int cache_write_at(int fd, uint64_t offset, const void *bytes, size_t size);

#endif
