#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/store.h"
#include "store/store_sqlite_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* By name, as the check of the tables reads them. Sums stand before bytes, so that reading them
 * does not walk through a big blob. A snapshot's sum covers upto and bytes_sum, so that upto can be
 * trusted without reading 40 MB. */
static const char *const tables[] = {
    "CREATE TABLE doc(name TEXT NOT NULL PRIMARY KEY, sum INTEGER NOT NULL, bytes BLOB NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE log(first INTEGER PRIMARY KEY, count INTEGER NOT NULL, sum INTEGER NOT NULL,"
    " bytes BLOB NOT NULL) STRICT",
    "CREATE TABLE meta(name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL)"
    " STRICT, WITHOUT ROWID",
    "CREATE TABLE snapshot(upto INTEGER PRIMARY KEY, sum INTEGER NOT NULL,"
    " bytes_sum INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT",
};

static const struct sqlite_file_format format = {
    .version = 1,
    .tables = tables,
    .table_count = sizeof tables / sizeof tables[0],
    .upgrades = NULL, /* the first version: none older to upgrade from */
};

enum statement {
    BEGIN_READ,
    BEGIN_WRITE,
    COMMIT,
    ROLLBACK,
    LOG_INSERT,
    LOG_END,
    LOG_LAST,
    LOG_FIND,
    LOG_SCAN,
    LOG_FORGET,
    SNAPSHOT_HEAD,
    SNAPSHOT_READ,
    SNAPSHOT_CLEAR,
    SNAPSHOT_INSERT,
    DOC_PUT,
    DOC_GET,
    DOC_SCAN,
    STATEMENT_COUNT,
};

static const char *const statement_sql[STATEMENT_COUNT] = {
    [BEGIN_READ] = "BEGIN",
    [BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [LOG_INSERT] = "INSERT INTO log(first, count, sum, bytes) VALUES(?1, ?2, ?3, ?4)",
    [LOG_END] = "SELECT first + count - 1 FROM log ORDER BY first DESC LIMIT 1",
    [LOG_LAST] = "SELECT first, count, sum, bytes FROM log ORDER BY first DESC LIMIT 1",
    [LOG_FIND] = "SELECT first, count, sum, bytes FROM log WHERE first = ?1",
    /* from the batch at or before ?1 on, so that a gap right after it is seen */
    [LOG_SCAN] = ("SELECT first, count, sum, bytes FROM log WHERE first >="
                  " coalesce((SELECT max(first) FROM log WHERE first <= ?1), 0) ORDER BY first"),
    [LOG_FORGET] = "DELETE FROM log WHERE first <= ?1 AND first + count - 1 <= ?1",
    [SNAPSHOT_HEAD] = "SELECT upto, sum, bytes_sum FROM snapshot ORDER BY upto DESC LIMIT 1",
    [SNAPSHOT_READ] = "SELECT bytes FROM snapshot WHERE upto = ?1",
    [SNAPSHOT_CLEAR] = "DELETE FROM snapshot",
    [SNAPSHOT_INSERT] = "INSERT INTO snapshot(upto, sum, bytes_sum, bytes) VALUES(?1, ?2, ?3, ?4)",
    [DOC_PUT] = "INSERT OR REPLACE INTO doc(name, sum, bytes) VALUES(?1, ?2, ?3)",
    [DOC_GET] = "SELECT name, sum, bytes FROM doc WHERE name = ?1",
    [DOC_SCAN] = "SELECT name, sum, bytes FROM doc",
};

struct sqlite_store {
    struct store base;
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[STATEMENT_COUNT];
};

/* What the sums are keyed with: bytes of one kind never pass for another. */
enum { SUM_BATCH = 1, SUM_SNAPSHOT = 2, SUM_DOC = 3 };

static uint64_t batch_sum(uint64_t first, uint32_t count, const void *bytes, size_t size)
{
    return rng_hash_bytes(rng_mix(SUM_BATCH, first, count), bytes, size);
}

static uint64_t snapshot_sum(uint64_t upto, uint64_t bytes_sum)
{
    return rng_mix(SUM_SNAPSHOT, upto, bytes_sum);
}

static uint64_t doc_sum(const char *name, const void *bytes, size_t size)
{
    return rng_hash_bytes(rng_hash_bytes(SUM_DOC, name, strlen(name)), bytes, size);
}

/* -- statements ------------------------------------------------------------------------------- */

static struct sqlite_store *of(struct store *store)
{
    return (struct sqlite_store *)store;
}

static enum err_code failed(struct sqlite_store *store, int result, struct err *err)
{
    return sqlite_file_fail(store->db, store->path, result, err);
}

static sqlite3_stmt *statement(struct sqlite_store *store, enum statement which)
{
    return store->statements[which];
}

static void bind_number(sqlite3_stmt *query, int at, uint64_t number)
{
    int result = sqlite3_bind_int64(query, at, (int64_t)number);
    CHECK(result == SQLITE_OK);
}

static uint64_t column_number(sqlite3_stmt *query, int at)
{
    return (uint64_t)sqlite3_column_int64(query, at);
}

/* The bytes are borrowed until finish(). A NULL pointer would be SQL's NULL. */
static void bind_bytes(sqlite3_stmt *query, int at, const void *bytes, size_t size)
{
    /* Too big a blob binds NULL, which the table refuses; the callers have asked before. */
    (void)sqlite3_bind_blob64(query, at, size ? bytes : "", size, SQLITE_STATIC);
}

static enum err_code size_check(struct sqlite_store *store, size_t size, struct err *err)
{
    size_t size_max = (size_t)sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, -1) - 4096;
    return size <= size_max ? ERR_OK
                            : err_set(err, ERR_RANGE, "%s: %zu bytes are more than %zu at once",
                                      store->path, size, size_max);
}

static void finish(sqlite3_stmt *query)
{
    sqlite3_reset(query); /* repeats the error of the step, which has been dealt with */
    sqlite3_clear_bindings(query);
}

/* Runs a statement that gives no rows. */
static enum err_code perform(struct sqlite_store *store, enum statement which, struct err *err)
{
    sqlite3_stmt *query = statement(store, which);
    errno = 0; /* as sqlite_file_fail wants it */
    int result = sqlite3_step(query);
    enum err_code code = result == SQLITE_DONE ? ERR_OK : failed(store, result, err);
    finish(query);
    return code;
}

/* Steps to the only row of a query: ERR_NOT_FOUND (and no text) if there is none. The caller
 * finishes the query. */
static enum err_code fetch(struct sqlite_store *store, sqlite3_stmt *query, struct err *err)
{
    errno = 0; /* as sqlite_file_fail wants it */
    int result = sqlite3_step(query);
    if (result == SQLITE_DONE) {
        return ERR_NOT_FOUND;
    }
    return result == SQLITE_ROW ? ERR_OK : failed(store, result, err);
}

/* Ends a transaction by the code of what was done in it: all of it, or nothing. */
static enum err_code end(struct sqlite_store *store, enum err_code code, struct err *err)
{
    if (code == ERR_OK) {
        code = perform(store, COMMIT, err);
    }
    if (!sqlite3_get_autocommit(store->db)) {
        (void)perform(store, ROLLBACK, NULL); /* a full disk may have rolled back already */
    }
    return code;
}

/* -- batches ---------------------------------------------------------------------------------- */

struct batch {
    uint64_t first;
    uint32_t count;
    const void *bytes;
    size_t size;
};

/* The batch of the row, whose columns are those of the LOG_ queries; valid until the next step. */
static enum err_code read_batch(struct sqlite_store *store, sqlite3_stmt *query, struct batch *out,
                                struct err *err)
{
    int64_t first = sqlite3_column_int64(query, 0);
    int64_t count = sqlite3_column_int64(query, 1);
    out->bytes = sqlite3_column_blob(query, 3);
    out->size = (size_t)sqlite3_column_bytes(query, 3);
    if (first >= 1 && count >= 1 && count <= UINT32_MAX && (out->bytes || out->size == 0)) {
        out->first = (uint64_t)first;
        out->count = (uint32_t)count;
        uint64_t sum = batch_sum(out->first, out->count, out->bytes, out->size);
        if (sum == column_number(query, 2)) {
            return ERR_OK;
        }
    }
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM) { /* then the bytes came out as none */
        return failed(store, SQLITE_NOMEM, err);
    }
    return err_set(err, ERR_CORRUPT, "%s: the batch at record %" PRId64 " is damaged", store->path,
                   first);
}

/* How far the snapshot reaches, 0 if there is none; and the sum of its bytes. */
static enum err_code snapshot_head(struct sqlite_store *store, uint64_t *upto, uint64_t *bytes_sum,
                                   struct err *err)
{
    sqlite3_stmt *query = statement(store, SNAPSHOT_HEAD);
    *upto = 0;
    enum err_code code = fetch(store, query, err);
    if (code == ERR_OK) {
        *upto = column_number(query, 0);
        *bytes_sum = column_number(query, 2);
        if (snapshot_sum(*upto, *bytes_sum) != column_number(query, 1)) {
            code = err_set(err, ERR_CORRUPT, "%s: the snapshot is damaged", store->path);
        }
    }
    finish(query);
    return code;
}

/* The last record's number, inside whatever transaction there is, from a batch whose sum has been
 * checked (an append cannot afford that each time; it asks LOG_END). */
static enum err_code find_last(struct sqlite_store *store, enum statement which, uint64_t *out,
                               struct err *err)
{
    sqlite3_stmt *query = statement(store, which);
    uint64_t last = 0;
    enum err_code code = fetch(store, query, err);
    if (code == ERR_OK && which == LOG_LAST) {
        struct batch batch = {0};
        code = read_batch(store, query, &batch, err);
        last = batch.first + batch.count - 1;
    } else if (code == ERR_OK) {
        last = column_number(query, 0);
    }
    finish(query);
    if (code == ERR_NOT_FOUND) { /* everything is in the snapshot, if there is anything */
        uint64_t bytes_sum = 0;
        code = snapshot_head(store, &last, &bytes_sum, err);
    }
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    *out = last;
    return ERR_OK;
}

/* Why a batch that does not begin at last + 1 is refused. */
static enum err_code refuse(struct sqlite_store *store, const struct batch *given, uint64_t last,
                            struct err *err)
{
    sqlite3_stmt *query = statement(store, LOG_FIND);
    struct batch have = {0};
    bind_number(query, 1, given->first);
    enum err_code code = fetch(store, query, err);
    if (code == ERR_OK) {
        code = read_batch(store, query, &have, err);
    }
    bool same = code == ERR_OK && have.count == given->count && have.size == given->size &&
                (have.size == 0 || memcmp(have.bytes, given->bytes, have.size) == 0);
    finish(query);
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    return same ? err_set(err, ERR_EXISTS, "%s: the batch at record %" PRIu64 " is there already",
                          store->path, given->first)
                : err_set(err, ERR_STALE,
                          "%s: a batch begins at record %" PRIu64 ", but the log ends at %" PRIu64,
                          store->path, given->first, last);
}

static enum err_code append_in_transaction(struct sqlite_store *store, const struct batch *batch,
                                           struct err *err)
{
    uint64_t last = 0;
    enum err_code code = find_last(store, LOG_END, &last, err);
    if (code != ERR_OK) {
        return code;
    }
    if (batch->first != last + 1) {
        return refuse(store, batch, last, err);
    }
    if (batch->first > INT64_MAX) {
        return err_set(err, ERR_RANGE, "%s: the log has used up its numbers", store->path);
    }
    sqlite3_stmt *query = statement(store, LOG_INSERT);
    bind_number(query, 1, batch->first);
    bind_number(query, 2, batch->count);
    bind_number(query, 3, batch_sum(batch->first, batch->count, batch->bytes, batch->size));
    bind_bytes(query, 4, batch->bytes, batch->size);
    return perform(store, LOG_INSERT, err);
}

static enum err_code sqlite_append(struct store *base, uint64_t first, uint32_t count,
                                   const void *bytes, size_t size, struct err *err)
{
    struct sqlite_store *store = of(base);
    CHECK(count > 0);
    struct batch batch = {.first = first, .count = count, .bytes = bytes, .size = size};
    enum err_code code = size_check(store, size, err);
    if (code == ERR_OK) {
        code = perform(store, BEGIN_WRITE, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    return end(store, append_in_transaction(store, &batch, err), err);
}

static enum err_code sqlite_last(struct store *base, uint64_t *out, struct err *err)
{
    struct sqlite_store *store = of(base);
    enum err_code code = perform(store, BEGIN_READ, err);
    return code == ERR_OK ? end(store, find_last(store, LOG_LAST, out, err), err) : code;
}

/* Walks the scan, whose first row may be the batch before those wanted. The rows must follow each
 * other without a gap, from the snapshot on: a lost row is damage as much as a changed one. */
static enum err_code replay_rows(struct sqlite_store *store, uint64_t after, store_replay_fn fn,
                                 void *context, struct err *err)
{
    uint64_t upto = 0;
    uint64_t bytes_sum = 0;
    enum err_code code = snapshot_head(store, &upto, &bytes_sum, err);
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    sqlite3_stmt *scan = statement(store, LOG_SCAN);
    bind_number(scan, 1, after < INT64_MAX ? after : INT64_MAX);
    uint64_t next = 0;
    while ((code = fetch(store, scan, err)) == ERR_OK) {
        struct batch batch = {0};
        code = read_batch(store, scan, &batch, err);
        if (code != ERR_OK) {
            return code;
        }
        bool in_place =
            next ? batch.first == next : batch.first <= after || batch.first <= upto + 1;
        if (!in_place) {
            return err_set(err, ERR_CORRUPT, "%s: records before %" PRIu64 " are missing",
                           store->path, batch.first);
        }
        next = batch.first + batch.count;
        if (batch.first > after &&
            !fn(context, batch.first, batch.count, batch.bytes, batch.size)) {
            return ERR_OK;
        }
    }
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

static enum err_code sqlite_replay(struct store *base, uint64_t after, store_replay_fn fn,
                                   void *context, struct err *err)
{
    struct sqlite_store *store = of(base);
    enum err_code code = perform(store, BEGIN_READ, err);
    if (code != ERR_OK) {
        return code;
    }
    code = replay_rows(store, after, fn, context, err);
    finish(statement(store, LOG_SCAN));
    return end(store, code, err);
}

/* -- the snapshot ----------------------------------------------------------------------------- */

static enum err_code check_upto(struct sqlite_store *store, uint64_t upto, struct err *err)
{
    uint64_t last = 0;
    uint64_t old = 0;
    uint64_t bytes_sum = 0;
    enum err_code code = find_last(store, LOG_LAST, &last, err);
    if (code != ERR_OK) {
        return code;
    }
    code = snapshot_head(store, &old, &bytes_sum, err);
    if (code != ERR_OK && code != ERR_NOT_FOUND) {
        return code;
    }
    if (upto > last) {
        return err_set(err, ERR_RANGE,
                       "%s: a snapshot up to record %" PRIu64 ", but the log ends at %" PRIu64,
                       store->path, upto, last);
    }
    return upto >= old ? ERR_OK
                       : err_set(err, ERR_STALE,
                                 "%s: a snapshot up to record %" PRIu64 ", but there is one up to"
                                 " %" PRIu64,
                                 store->path, upto, old);
}

static enum err_code replace_snapshot(struct sqlite_store *store, uint64_t upto, const void *bytes,
                                      size_t size, struct err *err)
{
    enum err_code code = check_upto(store, upto, err);
    if (code == ERR_OK) { /* first, so that the new one can have the old one's pages */
        code = perform(store, SNAPSHOT_CLEAR, err);
    }
    if (code == ERR_OK) {
        bind_number(statement(store, LOG_FORGET), 1, upto);
        code = perform(store, LOG_FORGET, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    uint64_t bytes_sum = rng_hash_bytes(SUM_SNAPSHOT, bytes, size);
    sqlite3_stmt *insert = statement(store, SNAPSHOT_INSERT);
    bind_number(insert, 1, upto);
    bind_number(insert, 2, snapshot_sum(upto, bytes_sum));
    bind_number(insert, 3, bytes_sum);
    bind_bytes(insert, 4, bytes, size);
    return perform(store, SNAPSHOT_INSERT, err);
}

static enum err_code sqlite_snapshot_put(struct store *base, uint64_t upto, const void *bytes,
                                         size_t size, struct err *err)
{
    struct sqlite_store *store = of(base);
    enum err_code code = size_check(store, size, err);
    if (code == ERR_OK) {
        code = perform(store, BEGIN_WRITE, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    return end(store, replace_snapshot(store, upto, bytes, size, err), err);
}

static enum err_code read_snapshot(struct sqlite_store *store, uint64_t *upto, struct str *out,
                                   struct err *err)
{
    uint64_t found = 0;
    uint64_t bytes_sum = 0;
    enum err_code code = snapshot_head(store, &found, &bytes_sum, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_NOT_FOUND, "%s: no snapshot", store->path);
    }
    if (code != ERR_OK) {
        return code;
    }
    sqlite3_stmt *query = statement(store, SNAPSHOT_READ);
    bind_number(query, 1, found);
    code = fetch(store, query, err);
    const void *bytes = code == ERR_OK ? sqlite3_column_blob(query, 0) : NULL;
    size_t size = code == ERR_OK ? (size_t)sqlite3_column_bytes(query, 0) : 0;
    if (code == ERR_NOT_FOUND ||
        (code == ERR_OK && rng_hash_bytes(SUM_SNAPSHOT, bytes, size) != bytes_sum)) {
        code = err_set(err, ERR_CORRUPT, "%s: the snapshot is damaged", store->path);
    }
    if (code == ERR_OK) {
        str_add_bytes(out, bytes, size);
        *upto = found;
    }
    finish(query);
    return code;
}

static enum err_code sqlite_snapshot_get(struct store *base, uint64_t *upto, struct str *out,
                                         struct err *err)
{
    struct sqlite_store *store = of(base);
    enum err_code code = perform(store, BEGIN_READ, err);
    return code == ERR_OK ? end(store, read_snapshot(store, upto, out, err), err) : code;
}

/* -- documents -------------------------------------------------------------------------------- */

static void bind_name(sqlite3_stmt *query, int at, const char *name)
{
    int result = sqlite3_bind_text(query, at, name, -1, SQLITE_STATIC);
    CHECK(result == SQLITE_OK);
}

static enum err_code sqlite_doc_put(struct store *base, const char *name, const void *bytes,
                                    size_t size, struct err *err)
{
    struct sqlite_store *store = of(base);
    enum err_code code = size_check(store, size, err);
    if (code != ERR_OK) {
        return code;
    }
    sqlite3_stmt *query = statement(store, DOC_PUT);
    bind_name(query, 1, name);
    bind_number(query, 2, doc_sum(name, bytes, size));
    bind_bytes(query, 3, bytes, size);
    return perform(store, DOC_PUT, err);
}

/* Steps to the next document of a query for name, sum and bytes; ERR_NOT_FOUND after the last. */
static enum err_code fetch_doc(struct sqlite_store *store, sqlite3_stmt *query, struct err *err)
{
    enum err_code code = fetch(store, query, err);
    if (code != ERR_OK) {
        return code;
    }
    const char *name = (const char *)sqlite3_column_text(query, 0);
    const void *bytes = sqlite3_column_blob(query, 2);
    size_t size = (size_t)sqlite3_column_bytes(query, 2);
    if (name && doc_sum(name, bytes, size) == column_number(query, 1)) {
        return ERR_OK;
    }
    return err_set(err, ERR_CORRUPT, "%s: the document \"%s\" is damaged", store->path,
                   name ? name : "");
}

/* A document that is not there may be there under a damaged name, which its sum does not fit. */
static enum err_code doc_not_found(struct sqlite_store *store, const char *name, struct err *err)
{
    sqlite3_stmt *scan = statement(store, DOC_SCAN);
    enum err_code code = ERR_OK;
    while (code == ERR_OK) {
        code = fetch_doc(store, scan, err);
    }
    finish(scan);
    return code == ERR_NOT_FOUND
               ? err_set(err, ERR_NOT_FOUND, "%s: no document \"%s\"", store->path, name)
               : code;
}

static enum err_code sqlite_doc_get(struct store *base, const char *name, struct str *out,
                                    struct err *err)
{
    struct sqlite_store *store = of(base);
    sqlite3_stmt *query = statement(store, DOC_GET);
    bind_name(query, 1, name);
    enum err_code code = fetch_doc(store, query, err);
    if (code == ERR_OK) {
        str_add_bytes(out, sqlite3_column_blob(query, 2), (size_t)sqlite3_column_bytes(query, 2));
    }
    finish(query);
    return code == ERR_NOT_FOUND ? doc_not_found(store, name, err) : code;
}

/* -- opening and closing ---------------------------------------------------------------------- */

static void sqlite_close(struct store *base)
{
    if (!base) {
        return;
    }
    struct sqlite_store *store = of(base);
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        sqlite3_finalize(store->statements[i]);
    }
    int result = sqlite3_close(store->db);
    CHECK(result == SQLITE_OK); /* busy would mean a statement of ours still runs */
    free(store->path);
    free(store);
}

static const struct store_ops sqlite_ops = {
    .append = sqlite_append,
    .last = sqlite_last,
    .replay = sqlite_replay,
    .snapshot_put = sqlite_snapshot_put,
    .snapshot_get = sqlite_snapshot_get,
    .doc_put = sqlite_doc_put,
    .doc_get = sqlite_doc_get,
    .close = sqlite_close,
};

static enum err_code prepare_all(struct sqlite_store *store, struct err *err)
{
    for (size_t i = 0; i < STATEMENT_COUNT; i++) {
        errno = 0;
        int result = sqlite3_prepare_v3(store->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                        &store->statements[i], NULL);
        if (result != SQLITE_OK) {
            return failed(store, result, err);
        }
    }
    return ERR_OK;
}

enum err_code store_sqlite_open(const char *path, enum store_access access, struct store **out,
                                struct err *err)
{
    struct sqlite_store *store = mem_alloc(sizeof *store);
    store->base.ops = &sqlite_ops;
    store->path = mem_strdup(path);
    enum err_code code = sqlite_file_open(path, access, &format, &store->db, err);
    if (code == ERR_OK) {
        code = prepare_all(store, err);
    }
    if (code == ERR_OK) { /* appends go by the last batch's count, so it must be sound */
        uint64_t last = 0;
        code = sqlite_last(&store->base, &last, err);
    }
    if (code == ERR_OK) {
        *out = &store->base;
    } else {
        sqlite_close(&store->base);
    }
    return code;
}
