/* capture.h - what a task prints, in its log file, within a limit.
 *
 * The file is made when there is something to write: most short tasks print nothing, and a file for
 * each is a good part of what they cost. With a limit, when it reaches half of it (at least 4 KiB)
 * it is renamed to FILE.1, over an older one, and begun anew: the beginning of a long log is lost,
 * never its end. A disk that is full loses bytes and nothing else; what is lost is counted.
 *
 * Async-signal-safe, see tree.h.
 */
#ifndef NODE_CAPTURE_H
#define NODE_CAPTURE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture {
    int fd;          /* -1: nothing was printed yet, or the file could not be opened */
    bool is_missing; /* it could not, and all is dropped */
    uint64_t half_bytes;
    uint64_t file_bytes;    /* in FILE */
    uint64_t older_bytes;   /* in FILE.1 */
    uint64_t total_bytes;   /* printed */
    uint64_t dropped_bytes; /* of these, not in either file */
    char path[PATH_MAX];
    char older_path[PATH_MAX + 2];
};

/* path is shorter than PATH_MAX; limit_bytes 0 is none. What is there of an attempt before a crash
 * is removed. */
void capture_begin(struct capture *capture, const char *path, uint64_t limit_bytes);
void capture_add(struct capture *capture, const char *bytes, size_t size);
void capture_end(struct capture *capture);

#endif
