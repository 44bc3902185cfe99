/* code_sync.h - sending a working folder to the server, as a version of the code.
 *
 * Only what the server lacks travels. What is sent and what stays behind: code_scan.h. The index
 * that makes a second time quick is in XDG_CACHE_HOME/drover/code, else ~/.cache/drover/code;
 * without a home there is none.
 *
 * Blocking; uses the client's connection.
 */
#ifndef CLI_CODE_SYNC_H
#define CLI_CODE_SYNC_H

#include "base/err.h"
#include "http/client.h"

#include <stdint.h>

struct code_sync_result {
    char version[128];   /* for submit's code= */
    uint64_t file_count; /* in the version */
    uint64_t file_bytes;
    uint64_t sent_count; /* objects that travelled */
    uint64_t sent_bytes;
    uint64_t hashed_count; /* files that had to be read */
};

/* Called now and then while objects travel. */
typedef void (*code_sync_progress_fn)(void *context, uint64_t sent_bytes, uint64_t all_bytes);

struct code_sync_options {
    const char *folder;
    const char *server;             /* names it in the index: its URL; NULL: not known */
    const char *index_file;         /* NULL: the usual one */
    code_sync_progress_fn progress; /* or NULL */
    void *context;
};

/* ERR_IO: the server cannot be reached. ERR_DENIED: the server refuses (the token's role).
 * ERR_QUOTA: the folder is too large, or the server's disk is full. ERR_INVALID, ERR_NOT_FOUND: the
 * folder cannot be read, the text names the file. ERR_AGAIN: it kept changing. */
MUST_USE enum err_code code_sync(struct client *client, const char *folder,
                                 struct code_sync_result *result, struct err *err);
MUST_USE enum err_code code_sync_with(struct client *client,
                                      const struct code_sync_options *options,
                                      struct code_sync_result *result, struct err *err);

#endif
