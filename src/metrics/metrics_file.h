/* metrics_file.h - the curves of one attempt on disk: points appended in blocks (block.h), and what
 * is known of each metric (metrics.h).
 *
 * Opening a file that is there reads it, so the summary goes on where it stood; a torn or damaged
 * block, from a crash or a full disk, costs its own points only. Points gather in memory until
 * metrics_file_flush, or until a block is full. Long curves are thinned (metric_is_kept), so a file
 * grows with the logarithm of their length; the summary knows every point. One writer; any number
 * of readers meanwhile, which see whole blocks. Shell code: reads and writes, blocking.
 */
#ifndef METRICS_METRICS_FILE_H
#define METRICS_METRICS_FILE_H

#include "base/err.h"
#include "metrics/metrics.h"

enum { METRICS_FILE_BYTES_MAX = 256 << 20 }; /* a reader takes no more */

struct metrics_file;

/* Opens path for appending and creates it (mode 0666 less umask) if it is missing. ERR_CORRUPT: it
 * is not a regular file. *out is the caller's. */
MUST_USE enum err_code metrics_file_open(const char *path, struct metrics_file **out,
                                         struct err *err);
/* Without flushing; NULL does nothing. */
void metrics_file_close(struct metrics_file *file);

/* Takes the point into the summary and, unless it is thinned out, into the block at hand. Writes if
 * that is full. On failure the block is kept and tried again with the next one; points that then
 * find no room are lost (metrics_file_lost) from the file, never from the summary. */
MUST_USE enum err_code metrics_file_add(struct metrics_file *file, const struct metric *metric,
                                        struct err *err);
/* Writes what has gathered, in one call of write. On failure it is kept for the next. */
MUST_USE enum err_code metrics_file_flush(struct metrics_file *file, struct err *err);

const struct metrics *metrics_file_summary(const struct metrics_file *file);
uint64_t metrics_file_lost(const struct metrics_file *file);

/* Sends the points from *offset (0 at first) on and moves it behind the last whole block, so that
 * reading again gives what was added since. ERR_NOT_FOUND: no such file. */
MUST_USE enum err_code metrics_file_read(const char *path, uint64_t *offset,
                                         const struct metric_sink *sink, struct err *err);

#endif
