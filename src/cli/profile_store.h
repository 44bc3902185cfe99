/* profile_store.h - measured runs, kept by the code that was run.
 *
 * One CSV file for each code, named by the hash of the command and of the files it names, with the
 * columns that drover advise reads: below XDG_DATA_HOME/drover/profiles, or where told.
 */
#ifndef CLI_PROFILE_STORE_H
#define CLI_PROFILE_STORE_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct profile_record {
    const char *type;
    const char *mode; /* "": not said */
    double batch;     /* 0: not said */
    uint32_t workers;
    double bandwidth_mbps; /* 0: not measured, here and below */
    double steps_per_s;
    double examples_per_s;
    double cpu_cores;
    double gpu_percent;
};

/* 32 hexadecimal digits of the words of the command and the content of those that are files, and of
 * `code` (a file or folder; NULL: none). */
MUST_USE enum err_code profile_store_hash(char **words, const char *code, struct str *out,
                                          struct err *err);

/* The file for this hash; `file` if given. */
MUST_USE enum err_code profile_store_path(const char *file, const char *hash, struct str *out,
                                          struct err *err);

/* Is there a run of this type, batch and number of workers? A missing file has none. */
MUST_USE enum err_code profile_store_has(const char *path, const struct profile_record *record,
                                         bool *found, struct err *err);

/* Writes the record in place of one with the same type, batch and workers, or adds it. */
MUST_USE enum err_code profile_store_put(const char *path, const struct profile_record *record,
                                         struct err *err);

#endif
