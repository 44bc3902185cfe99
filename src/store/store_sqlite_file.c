#include "store/store_sqlite_file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Readers and the writer never block each other in WAL mode; what waits is a second writer, or
 * anyone during the moments of making the file, recovering its log, or closing it. */
enum { BUSY_TIMEOUT_MS = 10000 };

/* secure_delete is on in Debian and would write every forgotten page once more. The size limit
 * gives the room of a big snapshot's log back, yet is above what appends alone need (4 MB), since
 * overwriting the log is cheaper than growing it. */
static const char *const settings = "PRAGMA synchronous = FULL;"
                                    "PRAGMA secure_delete = OFF;"
                                    "PRAGMA trusted_schema = OFF;"
                                    "PRAGMA cell_size_check = ON;"
                                    "PRAGMA journal_size_limit = 16777216";

static enum err_code code_of_result(int result, int errno_value, const char *path)
{
    switch (result & 0xff) {
    case SQLITE_FULL:
        return ERR_QUOTA;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* our statements are fixed: the file does not have what they speak of */
        return ERR_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return ERR_DENIED;
    case SQLITE_CANTOPEN:
        /* the file is there, so it is a file beside it that may not be made */
        if (errno_value == 0 || (errno_value == ENOENT && access(path, F_OK) == 0)) {
            return ERR_DENIED;
        }
        return err_errno(NULL, errno_value, "%s", path);
    case SQLITE_TOOBIG:
        return ERR_RANGE;
    case SQLITE_IOERR:
        return errno_value == ENOSPC || errno_value == EDQUOT ? ERR_QUOTA : ERR_IO;
    default:
        return ERR_IO;
    }
}

/* SQLite notes errno for most failures but not for those of COMMIT; there errno itself, which the
 * caller has cleared before, still has it. */
static int errno_behind(sqlite3 *db, int result, int errno_now)
{
    switch (result & 0xff) {
    case SQLITE_IOERR:
        return errno_now ? errno_now : sqlite3_system_errno(db);
    case SQLITE_CANTOPEN:
        return sqlite3_system_errno(db);
    default:
        return 0;
    }
}

enum err_code sqlite_file_fail(sqlite3 *db, const char *path, int result, struct err *err)
{
    int errno_value = errno_behind(db, result, errno);
    if (result == SQLITE_READONLY_ROLLBACK) { /* only making a file has a rollback journal */
        return err_set(err, ERR_NOT_FOUND, "%s: not a store yet: its maker was killed", path);
    }
    enum err_code code = code_of_result(result, errno_value, path);
    if (errno_value) {
        return err_set(err, code, "%s: %s: %s", path, sqlite3_errmsg(db), strerror(errno_value));
    }
    return err_set(err, code, "%s: %s", path, sqlite3_errmsg(db));
}

enum err_code sqlite_file_exec(sqlite3 *db, const char *path, const char *sql, struct err *err)
{
    errno = 0;
    int result = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return result == SQLITE_OK ? ERR_OK : sqlite_file_fail(db, path, result, err);
}

/* Ends a transaction by the code of what was done in it: all of it, or nothing. */
static enum err_code end_transaction(sqlite3 *db, const char *path, enum err_code code,
                                     struct err *err)
{
    if (code == ERR_OK) {
        code = sqlite_file_exec(db, path, "COMMIT", err);
    }
    if (!sqlite3_get_autocommit(db)) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    }
    return code;
}

/* The one row of a query, its columns as text joined by a blank: all that judging a file needs. */
static enum err_code ask(sqlite3 *db, const char *path, const char *sql, struct str *out,
                         struct err *err)
{
    sqlite3_stmt *query = NULL;
    errno = 0;
    int result = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    if (result == SQLITE_OK) {
        result = sqlite3_step(query);
    }
    for (int i = 0; result == SQLITE_ROW && i < sqlite3_column_count(query); i++) {
        const unsigned char *text = sqlite3_column_text(query, i);
        str_add(out, i > 0 ? " " : "");
        str_add(out, text ? (const char *)text : "null");
    }
    enum err_code code = ERR_OK;
    if (result != SQLITE_ROW && result != SQLITE_DONE) {
        code = sqlite_file_fail(db, path, result, err);
    }
    sqlite3_finalize(query);
    return code;
}

static enum err_code ask_number(sqlite3 *db, const char *path, const char *sql, int64_t *out,
                                struct err *err)
{
    AUTO_STR struct str text = {0};
    enum err_code code = ask(db, path, sql, &text, err);
    *out = code == ERR_OK ? strtoll(str_text(&text), NULL, 10) : 0;
    return code;
}

/* -- judging ---------------------------------------------------------------------------------- */

enum verdict { FILE_EMPTY, FILE_OURS };

/* An empty database is a file whose maker was killed early; it is as good as none. */
static enum err_code judge_owner(sqlite3 *db, const char *path, enum verdict *out, struct err *err)
{
    int64_t id = 0;
    int64_t objects = 0;
    enum err_code code = ask_number(db, path, "PRAGMA application_id", &id, err);
    if (code == ERR_OK) {
        code = ask_number(db, path, "SELECT count(*) FROM sqlite_schema", &objects, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (id == 0 && objects == 0) {
        *out = FILE_EMPTY;
        return ERR_OK;
    }
    *out = FILE_OURS;
    return id == SQLITE_FILE_APPLICATION_ID
               ? ERR_OK
               : err_set(err, ERR_CORRUPT, "%s: not a drover store", path);
}

/* The version is kept twice, so that one damaged byte cannot pass for another version. */
static enum err_code read_version(sqlite3 *db, const char *path, int64_t *out, struct err *err)
{
    int64_t in_meta = 0;
    enum err_code code = ask_number(db, path, "PRAGMA user_version", out, err);
    if (code == ERR_OK) {
        code = ask_number(db, path, "SELECT value FROM meta WHERE name = 'format'", &in_meta, err);
    }
    if (code == ERR_OK && (*out != in_meta || *out < 1)) {
        return err_set(err, ERR_CORRUPT,
                       "%s: damaged: its version is %lld in one place, %lld in another", path,
                       (long long)*out, (long long)in_meta);
    }
    return code;
}

static enum err_code judge_version(sqlite3 *db, const char *path, enum store_access access,
                                   const struct sqlite_file_format *format, struct err *err)
{
    int64_t version = 0;
    enum err_code code = read_version(db, path, &version, err);
    if (code != ERR_OK) {
        return code;
    }
    if (version > format->version) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: format %lld is newer than %d, the newest this drover knows", path,
                       (long long)version, format->version);
    }
    if (version < format->version && access == STORE_READ) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: format %lld is older than %d: the next run on it upgrades it", path,
                       (long long)version, format->version);
    }
    return ERR_OK;
}

/* Exactly our tables and nothing else: no trigger or view of someone else's ever runs. */
static enum err_code judge_tables(sqlite3 *db, const char *path,
                                  const struct sqlite_file_format *format, struct err *err)
{
    AUTO_STR struct str have = {0};
    AUTO_STR struct str want = {0};
    enum err_code code = ask(db, path,
                             "SELECT group_concat(coalesce(sql, name), ';') FROM"
                             " (SELECT name, sql FROM sqlite_schema ORDER BY name)",
                             &have, err);
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < format->table_count; i++) {
        str_add(&want, i > 0 ? ";" : "");
        str_add(&want, format->tables[i]);
    }
    return strcmp(str_text(&have), str_text(&want)) == 0
               ? ERR_OK
               : err_set(err, ERR_CORRUPT, "%s: its tables are not those of a drover store", path);
}

/* A lost row cannot be told from one that never was, and a damaged free list would have later
 * appends overwrite live pages; so the whole structure is looked at first. That reads the file
 * once, as the replay that follows does. */
static enum err_code judge_structure(sqlite3 *db, const char *path, struct err *err)
{
    AUTO_STR struct str answer = {0};
    enum err_code code = ask(db, path, "PRAGMA quick_check(1)", &answer, err);
    if (code == ERR_OK && strcmp(str_text(&answer), "ok") != 0) {
        return err_set(err, ERR_CORRUPT, "%s: damaged: %s", path, str_text(&answer));
    }
    return code;
}

/* -- making and upgrading --------------------------------------------------------------------- */

static enum err_code stamp_version(sqlite3 *db, const char *path, int version, struct err *err)
{
    AUTO_STR struct str sql = {0};
    str_addf(&sql,
             "PRAGMA user_version = %d; INSERT OR REPLACE INTO meta(name, value)"
             " VALUES('format', %d)",
             version, version);
    return sqlite_file_exec(db, path, str_text(&sql), err);
}

static enum err_code make_tables(sqlite3 *db, const char *path,
                                 const struct sqlite_file_format *format, struct err *err)
{
    AUTO_STR struct str sql = {0};
    str_addf(&sql, "PRAGMA application_id = %d;", SQLITE_FILE_APPLICATION_ID);
    for (size_t i = 0; i < format->table_count; i++) {
        str_addf(&sql, "%s;", format->tables[i]);
    }
    enum err_code code = sqlite_file_exec(db, path, str_text(&sql), err);
    return code == ERR_OK ? stamp_version(db, path, format->version, err) : code;
}

static enum err_code upgrade(sqlite3 *db, const char *path, const struct sqlite_file_format *format,
                             struct err *err)
{
    int64_t version = 0;
    enum err_code code = read_version(db, path, &version, err);
    for (; code == ERR_OK && version < format->version; version++) {
        code = format->upgrades[version - 1](db, path, err);
        if (code == ERR_OK) {
            code = stamp_version(db, path, (int)version + 1, err);
        }
    }
    return code;
}

/* Another process may be at the same work, so whether there is any is asked again inside the
 * transaction. A file that is as it should be is not written to. */
static enum err_code make_or_upgrade(sqlite3 *db, const char *path,
                                     const struct sqlite_file_format *format, struct err *err)
{
    int64_t version = 0;
    enum err_code code = ask_number(db, path, "PRAGMA user_version", &version, err);
    if (code != ERR_OK || version >= format->version) {
        return code;
    }
    code = sqlite_file_exec(db, path, "BEGIN IMMEDIATE", err);
    if (code != ERR_OK) {
        return code;
    }
    enum verdict verdict = FILE_OURS;
    code = judge_owner(db, path, &verdict, err);
    if (code == ERR_OK) {
        code = verdict == FILE_EMPTY ? make_tables(db, path, format, err)
                                     : upgrade(db, path, format, err);
    }
    return end_transaction(db, path, code, err);
}

/* Where two processes make the same file at once, SQLite does not wait here as it does elsewhere.
 */
static enum err_code enter_wal(sqlite3 *db, const char *path, struct err *err)
{
    enum { STEP_MS = 5 };
    AUTO_STR struct str mode = {0};
    enum err_code code = ask(db, path, "PRAGMA journal_mode = WAL", &mode, err);
    for (int waited_ms = 0; waited_ms < BUSY_TIMEOUT_MS && code != ERR_OK; waited_ms += STEP_MS) {
        if ((sqlite3_errcode(db) & 0xff) != SQLITE_BUSY) {
            break;
        }
        sqlite3_sleep(STEP_MS);
        code = ask(db, path, "PRAGMA journal_mode = WAL", &mode, err);
    }
    if (code == ERR_OK && strcmp(str_text(&mode), "wal") != 0) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: this file system cannot hold a write-ahead log (journal mode %s)", path,
                       str_text(&mode));
    }
    return code;
}

static enum err_code judge_for_writing(sqlite3 *db, const char *path,
                                       const struct sqlite_file_format *format, struct err *err)
{
    enum verdict verdict = FILE_EMPTY;
    enum err_code code = judge_owner(db, path, &verdict, err);
    if (code == ERR_OK && sqlite3_db_readonly(db, "main")) {
        return access(path, W_OK) == 0
                   ? err_set(err, ERR_CORRUPT, "%s: damaged: it claims to be read-only", path)
                   : err_set(err, ERR_DENIED, "%s: not writable", path);
    }
    return code == ERR_OK && verdict == FILE_OURS
               ? judge_version(db, path, STORE_WRITE, format, err)
               : code;
}

static enum err_code judge_for_reading(sqlite3 *db, const char *path,
                                       const struct sqlite_file_format *format, struct err *err)
{
    enum verdict verdict = FILE_EMPTY;
    enum err_code code = judge_owner(db, path, &verdict, err);
    if (code == ERR_OK && verdict == FILE_EMPTY) {
        return err_set(err, ERR_NOT_FOUND, "%s: empty, not a store yet", path);
    }
    if (code == ERR_OK) {
        code = judge_version(db, path, STORE_READ, format, err);
    }
    if (code == ERR_OK) {
        code = judge_tables(db, path, format, err);
    }
    return code == ERR_OK ? judge_structure(db, path, err) : code;
}

/* Another process may be making or upgrading the file, so what is judged is judged at one moment:
 * in one transaction. */
static enum err_code set_up(sqlite3 *db, const char *path, enum store_access access_wanted,
                            const struct sqlite_file_format *format, struct err *err)
{
    enum err_code code = sqlite_file_exec(db, path, "BEGIN", err);
    if (code != ERR_OK) {
        return code;
    }
    code = access_wanted == STORE_WRITE ? judge_for_writing(db, path, format, err)
                                        : judge_for_reading(db, path, format, err);
    code = end_transaction(db, path, code, err);
    if (code != ERR_OK || access_wanted == STORE_READ) {
        return code;
    }
    code = enter_wal(db, path, err);
    if (code == ERR_OK) {
        code = make_or_upgrade(db, path, format, err);
    }
    if (code == ERR_OK) {
        code = judge_tables(db, path, format, err);
    }
    return code == ERR_OK ? judge_structure(db, path, err) : code;
}

/* -- opening ---------------------------------------------------------------------------------- */

/* Made by us rather than by SQLite so that it is ours alone (0600); -wal and -shm take its mode. An
 * existing file must not be opened here: closing it again would drop the locks that another
 * connection of this process holds on it. */
static enum err_code make_private_file(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
    } else if (errno != EEXIST) {
        return err_errno(err, errno, "%s", path);
    }
    return ERR_OK;
}

/* SQLite takes "file:" and ":memory:" for more than names; after a folder they are only names. */
static void add_plain_name(struct str *name, const char *path)
{
    str_add(name, path[0] == '/' ? "" : "./");
    str_add(name, path);
}

static void add_immutable_uri(struct str *name, const char *path)
{
    AUTO_STR struct str plain = {0};
    add_plain_name(&plain, path);
    str_add(name, "file:");
    for (const char *at = str_text(&plain); *at; at++) {
        if (*at == '?' || *at == '#' || *at == '%') {
            str_addf(name, "%%%02X", (unsigned)*at);
        } else {
            str_add_char(name, *at);
        }
    }
    str_add(name, "?immutable=1");
}

static enum err_code connect_and_judge(const char *name, const char *path,
                                       enum store_access access_wanted,
                                       const struct sqlite_file_format *format, sqlite3 **out,
                                       struct err *err)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE |
                (access_wanted == STORE_WRITE ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    sqlite3 *db = NULL;
    errno = 0;
    int result = sqlite3_open_v2(name, &db, flags, NULL);
    CHECK(db); /* NULL only when memory has run out */
    sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    enum err_code code = ERR_OK;
    if (result != SQLITE_OK) {
        code = sqlite_file_fail(db, path, result, err);
    }
    if (code == ERR_OK) {
        code = sqlite_file_exec(db, path, settings, err);
    }
    if (code == ERR_OK) {
        code = set_up(db, path, access_wanted, format, err);
    }
    if (code == ERR_OK) {
        *out = db;
    } else {
        sqlite3_close(db);
    }
    return code;
}

static bool has_log(const char *path)
{
    AUTO_STR struct str log = {0};
    str_addf(&log, "%s-wal", path);
    struct stat stat_of_log;
    return stat(str_text(&log), &stat_of_log) == 0 && stat_of_log.st_size > 0;
}

static bool folder_is_writable(const char *path)
{
    AUTO_FREE char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');
    if (!slash) {
        return access(".", W_OK) == 0;
    }
    slash[slash == folder] = '\0'; /* "/x" is in "/" */
    return access(folder, W_OK) == 0;
}

/* A reader that may not write to the folder cannot make the -shm file that reading a log needs. If
 * there is no log, the file alone is the whole truth, and SQLite can be told so. */
static enum err_code open_immutable(const char *path, const struct sqlite_file_format *format,
                                    sqlite3 **out, struct err *err)
{
    if (has_log(path)) {
        return err_set(err, ERR_DENIED,
                       "%s: its last writer was killed, and reading what it left needs write access"
                       " to the folder",
                       path);
    }
    AUTO_STR struct str name = {0};
    add_immutable_uri(&name, path);
    return connect_and_judge(str_text(&name), path, STORE_READ, format, out, err);
}

enum err_code sqlite_file_open(const char *path, enum store_access access_wanted,
                               const struct sqlite_file_format *format, sqlite3 **out,
                               struct err *err)
{
    if (path[0] == '\0') {
        return err_set(err, ERR_INVALID, "the store needs a file name");
    }
    enum err_code code = access_wanted == STORE_WRITE ? make_private_file(path, err) : ERR_OK;
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str name = {0};
    add_plain_name(&name, path);
    code = connect_and_judge(str_text(&name), path, access_wanted, format, out, err);
    bool folder_denies = code == ERR_DENIED && access_wanted == STORE_READ &&
                         access(path, R_OK) == 0 && !folder_is_writable(path);
    return folder_denies ? open_immutable(path, format, out, err) : code;
}
