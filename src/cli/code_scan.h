/* code_scan.h - what of a working folder is to be sent, and what each file holds.
 *
 * Walks the folder, leaving out .git and whatever .gitignore and .droverignore say (also those of
 * the repository's folders above), and hashes the files. An index remembers (size, times, inode) ->
 * hashes from the last time, so that an unchanged file is only looked at. A file that was touched
 * within the last instants is hashed again next time: its time could not tell.
 *
 * Blocking; any thread.
 */
#ifndef CLI_CODE_SCAN_H
#define CLI_CODE_SCAN_H

#include "base/err.h"
#include "wire/manifest.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CODE_SCAN_BYTES_MAX (INT64_C(2) << 30)

struct code_scan_file {
    struct manifest_entry entry; /* texts and hashes are in the scan's arena */
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    bool is_fresh; /* hashed now, not remembered */
};

struct code_scan {
    struct code_scan_file *files; /* sorted by path; links and empty folders too */
    size_t count;
    size_t cap;
    uint64_t bytes;
    size_t hashed_count;
    struct arena arena;
};

/* index_file may be missing, or NULL; it is not written.
 * ERR_INVALID, ERR_NOT_FOUND, ERR_DENIED: a file or folder that cannot be read; the text names it.
 * ERR_QUOTA: more than CODE_SCAN_BYTES_MAX or MANIFEST_ENTRIES_MAX; the text says what to do.
 * ERR_AGAIN: it changed while it was read. */
MUST_USE enum err_code code_scan_open(const char *folder, const char *index_file,
                                      struct code_scan **out, struct err *err);
void code_scan_close(struct code_scan *scan); /* NULL does nothing */

/* Remembers it for the next time; `server` is who has all of it. A failure costs only time. */
void code_scan_save(const struct code_scan *scan, const char *index_file, const char *server);

/* The server of the last code_scan_save, or "". */
void code_scan_server(const char *index_file, struct str *out);

/* The hashes of a file of that size, read by chunks: chunk_count of them into chunks. *is_changed:
 * it is not of that size (any more). */
MUST_USE enum err_code code_scan_hash(int fd, uint64_t size, uint8_t (*chunks)[SHA256_BYTES],
                                      void *buffer, bool *is_changed, struct err *err);

#endif
