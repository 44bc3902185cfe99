/* store_sqlite_file.h - the database file of the sqlite store: making it, opening it, judging it.
 *
 * Private to src/store. A connection from here is of a file that is ours (application id, a version
 * we know, exactly our tables), is set up for a durable log (WAL, synchronous FULL) and needs no
 * mutex: one thread at a time uses it. Nothing foreign is ever written to: whatever is not a drover
 * store is refused before the first change.
 */
#ifndef STORE_STORE_SQLITE_FILE_H
#define STORE_STORE_SQLITE_FILE_H

#include "base/err.h"
#include "store/store.h"

#include <sqlite3.h>
#include <stddef.h>

enum { SQLITE_FILE_APPLICATION_ID = 0x64726f76 }; /* "drov", at byte 68 of the file */

/* Rewrites a file of one version as the next, inside a transaction that the caller holds. */
typedef enum err_code (*sqlite_file_upgrade_fn)(sqlite3 *db, const char *path, struct err *err);

/* What a file should hold. A parameter, so that tests can make up other versions. */
struct sqlite_file_format {
    int version;                            /* >= 1 */
    const char *const *tables;              /* CREATE statements, each as SQLite keeps it */
    size_t table_count;                     /* one of them is meta(name, value) */
    const sqlite_file_upgrade_fn *upgrades; /* [v - 1] makes v + 1 of v; version - 1 of them */
};

/* Opens path, or makes it (STORE_WRITE, mode 0600). The errors are those of store_sqlite_open. The
 * caller owns *out (sqlite3_close). */
MUST_USE enum err_code sqlite_file_open(const char *path, enum store_access access,
                                        const struct sqlite_file_format *format, sqlite3 **out,
                                        struct err *err);

/* Turns SQLite's result of the latest call on db into ours, with the text "PATH: what". errno must
 * have been 0 before that call. */
enum err_code sqlite_file_fail(sqlite3 *db, const char *path, int result, struct err *err);

/* Runs statements that give no rows we need. */
MUST_USE enum err_code sqlite_file_exec(sqlite3 *db, const char *path, const char *sql,
                                        struct err *err);

#endif
