/* What only the sqlite driver promises: the file, its version, readers beside a writer. */
#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "store/store_conformance.h"
#include "store/store_sqlite_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64];
    char *path;
};

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof *fixture);
    conformance_folder_make(fixture->folder, sizeof fixture->folder);
    fixture->path = conformance_path(fixture->folder, "store.db");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    conformance_folder_remove(fixture->folder);
    free(fixture->path);
    free(fixture);
    return 0;
}

static struct store *open_store(const char *path, enum store_access access)
{
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, access, &store, &err);
    if (code != ERR_OK) {
        print_error("%s\n", err.text);
    }
    CHECK(code == ERR_OK);
    return store;
}

static void append_numbered(struct store *store, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++) {
        enum err_code code = store->ops->append(store, i, 1, &i, sizeof i, NULL);
        CHECK(code == ERR_OK);
    }
}

static bool count_batch(void *context, uint64_t first, uint32_t count, const void *bytes,
                        size_t size)
{
    CHECK(count == 1 && size == sizeof first && memcmp(bytes, &first, size) == 0);
    ++*(uint64_t *)context;
    return true;
}

static uint64_t count_batches(struct store *store)
{
    uint64_t count = 0;
    enum err_code code = store->ops->replay(store, 0, count_batch, &count, NULL);
    CHECK(code == ERR_OK);
    return count;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void check_open_fails(const char *path, enum store_access access, enum err_code want,
                             const char *part)
{
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, access, &store, &err);
    if (code != want || !strstr(err.text, part) || strncmp(err.text, path, strlen(path)) != 0) {
        print_error("%s: \"%s\"\n", err_name(code), err.text);
    }
    assert_int_equal(code, want);
    assert_int_equal(err.code, want);
    assert_non_null(strstr(err.text, part));
    assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    assert_null(store);
}

/* -- the file --------------------------------------------------------------------------------- */

static void check_mode(const char *path, const char *suffix)
{
    AUTO_STR struct str full = {0};
    str_addf(&full, "%s%s", path, suffix);
    struct stat info;
    assert_int_equal(stat(str_text(&full), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
}

static void test_the_files_are_for_their_owner_only(void **state)
{
    struct fixture *fixture = *state;
    mode_t old = umask(0);
    struct store *store = open_store(fixture->path, STORE_WRITE);
    append_numbered(store, 1, 3);
    umask(old);
    check_mode(fixture->path, "");
    check_mode(fixture->path, "-wal");
    check_mode(fixture->path, "-shm");
    store->ops->close(store);
}

static void test_special_names_are_only_names(void **state)
{
    struct fixture *fixture = *state;
    static const char *const names[] = {":memory:", "file:x?mode=memory", "100% #1? &a=b"};
    int here = open(".", O_RDONLY | O_CLOEXEC);
    assert_true(here >= 0);
    assert_int_equal(chdir(fixture->folder), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct store *store = open_store(names[i], STORE_WRITE);
        append_numbered(store, 1, 2);
        store->ops->close(store);
        assert_int_equal(access(names[i], F_OK), 0);
        store = open_store(names[i], STORE_READ);
        assert_int_equal(count_batches(store), 2);
        store->ops->close(store);
    }
    assert_int_equal(fchdir(here), 0);
    close(here);
}

static void test_what_is_not_there_is_not_found(void **state)
{
    struct fixture *fixture = *state;
    check_open_fails(fixture->path, STORE_READ, ERR_NOT_FOUND, "");
    assert_int_equal(access(fixture->path, F_OK), -1);
    AUTO_FREE char *deep = conformance_path(fixture->folder, "none/store.db");
    check_open_fails(deep, STORE_WRITE, ERR_NOT_FOUND, "No such file");
    check_open_fails(deep, STORE_READ, ERR_NOT_FOUND, "");
    struct store *store = NULL;
    assert_int_equal(store_sqlite_open("", STORE_WRITE, &store, NULL), ERR_INVALID);
}

static void test_a_file_whose_maker_died_early_is_made_again(void **state)
{
    struct fixture *fixture = *state;
    int fd = open(fixture->path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    check_open_fails(fixture->path, STORE_READ, ERR_NOT_FOUND, "not a store yet");
    run_sql(fixture->path, "PRAGMA journal_mode = WAL");
    check_open_fails(fixture->path, STORE_READ, ERR_NOT_FOUND, "not a store yet");
    struct store *store = open_store(fixture->path, STORE_WRITE);
    append_numbered(store, 1, 1);
    store->ops->close(store);
}

/* The bytes of the file must be the same after it has been refused. */
static void check_refused_untouched(const char *path, enum err_code want, const char *part)
{
    AUTO_STR struct str before = {0};
    AUTO_STR struct str after = {0};
    assert_int_equal(io_read_file(path, 1 << 20, &before, NULL), ERR_OK);
    check_open_fails(path, STORE_WRITE, want, part);
    check_open_fails(path, STORE_READ, want, part);
    assert_int_equal(io_read_file(path, 1 << 20, &after, NULL), ERR_OK);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.text, after.text, before.size);
}

static void test_what_is_not_ours_is_refused_untouched(void **state)
{
    struct fixture *fixture = *state;
    static const char text[] = "just a text that someone keeps under this name";
    assert_int_equal(io_replace_file(fixture->path, text, sizeof text, 0600, NULL), ERR_OK);
    check_refused_untouched(fixture->path, ERR_CORRUPT, "not a database");

    AUTO_FREE char *other = conformance_path(fixture->folder, "other.db");
    run_sql(other, "CREATE TABLE log(first INTEGER PRIMARY KEY)");
    check_refused_untouched(other, ERR_CORRUPT, "not a drover store");

    AUTO_FREE char *claims = conformance_path(fixture->folder, "claims.db");
    run_sql(claims, "PRAGMA application_id = 1685221238; PRAGMA user_version = 1;"
                    "CREATE TABLE log(first INTEGER PRIMARY KEY)");
    check_refused_untouched(claims, ERR_CORRUPT, "meta");
    assert_int_equal(1685221238, SQLITE_FILE_APPLICATION_ID);
}

static void test_tables_and_triggers_of_others_are_refused(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path, STORE_WRITE);
    append_numbered(store, 1, 1);
    store->ops->close(store);
    run_sql(fixture->path, "CREATE TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM log; END");
    check_open_fails(fixture->path, STORE_WRITE, ERR_CORRUPT, "tables");
    check_open_fails(fixture->path, STORE_READ, ERR_CORRUPT, "tables");
}

/* -- versions --------------------------------------------------------------------------------- */

static void test_a_newer_format_is_refused_naming_both(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path, STORE_WRITE);
    append_numbered(store, 1, 1);
    store->ops->close(store);
    run_sql(fixture->path, "PRAGMA user_version = 7; UPDATE meta SET value = 7");
    check_open_fails(fixture->path, STORE_WRITE, ERR_UNSUPPORTED, "format 7 is newer than 1");
    check_open_fails(fixture->path, STORE_READ, ERR_UNSUPPORTED, "format 7 is newer than 1");
    run_sql(fixture->path, "PRAGMA user_version = 1");
    check_open_fails(fixture->path, STORE_WRITE, ERR_CORRUPT, "damaged");
    run_sql(fixture->path, "UPDATE meta SET value = 1");
    store = open_store(fixture->path, STORE_WRITE);
    assert_int_equal(count_batches(store), 1);
    store->ops->close(store);
}

#define META "CREATE TABLE meta(name TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL)"
#define THING "CREATE TABLE thing(a INTEGER)"

static enum err_code one_to_two(sqlite3 *db, const char *path, struct err *err)
{
    return sqlite_file_exec(db, path, "ALTER TABLE thing RENAME TO thing_old;" THING, err);
}

static enum err_code two_to_three(sqlite3 *db, const char *path, struct err *err)
{
    return sqlite_file_exec(
        db, path, "INSERT INTO thing SELECT a + 1 FROM thing_old; DROP TABLE thing_old", err);
}

static enum err_code two_to_trouble(sqlite3 *db, const char *path, struct err *err)
{
    enum err_code code = two_to_three(db, path, err);
    return code == ERR_OK ? err_set(err, ERR_QUOTA, "%s: no room", path) : code;
}

/* A made-up history of three versions: the hook that a real one will use. */
static void test_an_older_format_is_upgraded_step_by_step_or_not_at_all(void **state)
{
    struct fixture *fixture = *state;
    static const char *const tables[] = {META " WITHOUT ROWID", THING};
    static const sqlite_file_upgrade_fn bad[] = {one_to_two, two_to_trouble};
    static const sqlite_file_upgrade_fn good[] = {one_to_two, two_to_three};
    struct sqlite_file_format first = {.version = 1, .tables = tables, .table_count = 2};
    struct sqlite_file_format third = first;
    third.version = 3;

    sqlite3 *db = NULL;
    struct err err = {0};
    assert_int_equal(sqlite_file_open(fixture->path, STORE_WRITE, &first, &db, &err), ERR_OK);
    assert_int_equal(sqlite_file_exec(db, "x", "INSERT INTO thing VALUES(41)", &err), ERR_OK);
    sqlite3_close(db);

    third.upgrades = bad;
    assert_int_equal(sqlite_file_open(fixture->path, STORE_READ, &third, &db, &err),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "format 1 is older than 3"));
    assert_int_equal(sqlite_file_open(fixture->path, STORE_WRITE, &third, &db, &err), ERR_QUOTA);
    assert_int_equal(sqlite_file_open(fixture->path, STORE_WRITE, &first, &db, &err), ERR_OK);
    sqlite3_close(db);

    third.upgrades = good;
    assert_int_equal(sqlite_file_open(fixture->path, STORE_WRITE, &third, &db, &err), ERR_OK);
    sqlite3_stmt *query = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT a FROM thing", -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(query, 0), 42);
    sqlite3_finalize(query);
    sqlite3_close(db);
    assert_int_equal(sqlite_file_open(fixture->path, STORE_WRITE, &first, &db, &err),
                     ERR_UNSUPPORTED);
}

/* -- readers and writers ---------------------------------------------------------------------- */

struct appending {
    struct store *writer;
    uint64_t next;
};

static bool append_meanwhile(void *context, uint64_t first, uint32_t count, const void *bytes,
                             size_t size)
{
    (void)count, (void)bytes, (void)size;
    struct appending *appending = context;
    append_numbered(appending->writer, appending->next, appending->next);
    appending->next++;
    if (first == 50) {
        enum err_code code =
            appending->writer->ops->snapshot_put(appending->writer, 60, "s", 1, NULL);
        CHECK(code == ERR_OK);
    }
    return true;
}

static void test_a_reader_sees_one_moment_while_the_writer_goes_on(void **state)
{
    struct fixture *fixture = *state;
    struct store *writer = open_store(fixture->path, STORE_WRITE);
    append_numbered(writer, 1, 100);
    struct store *reader = open_store(fixture->path, STORE_READ);
    struct appending appending = {.writer = writer, .next = 101};
    assert_int_equal(reader->ops->replay(reader, 0, append_meanwhile, &appending, NULL), ERR_OK);
    assert_int_equal(appending.next, 201);
    assert_int_equal(conformance_last(reader), 200);
    assert_int_equal(count_batches(reader), 140);
    writer->ops->close(writer);
    assert_int_equal(count_batches(reader), 140);
    reader->ops->close(reader);
}

static void test_a_reader_cannot_write(void **state)
{
    struct fixture *fixture = *state;
    struct store *writer = open_store(fixture->path, STORE_WRITE);
    append_numbered(writer, 1, 3);
    struct store *reader = open_store(fixture->path, STORE_READ);
    struct err err = {0};
    uint64_t bytes = 4;
    assert_int_equal(reader->ops->append(reader, 4, 1, &bytes, sizeof bytes, &err), ERR_DENIED);
    assert_int_equal(strncmp(err.text, fixture->path, strlen(fixture->path)), 0);
    assert_int_equal(reader->ops->snapshot_put(reader, 2, "x", 1, &err), ERR_DENIED);
    assert_int_equal(reader->ops->doc_put(reader, "d", "x", 1, &err), ERR_DENIED);
    assert_int_equal(count_batches(reader), 3);
    reader->ops->close(reader);
    append_numbered(writer, 4, 4);
    writer->ops->close(writer);
}

static void test_a_second_writer_makes_the_first_one_stale(void **state)
{
    struct fixture *fixture = *state;
    struct store *first = open_store(fixture->path, STORE_WRITE);
    struct store *second = open_store(fixture->path, STORE_WRITE);
    append_numbered(first, 1, 3);
    append_numbered(second, 4, 5);
    struct err err = {0};
    assert_int_equal(first->ops->append(first, 4, 1, "x", 1, &err), ERR_STALE);
    assert_non_null(strstr(err.text, "the log ends at 5"));
    append_numbered(first, 6, 6);
    first->ops->close(first);
    second->ops->close(second);
}

static void test_too_many_bytes_are_out_of_range(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path, STORE_WRITE);
    static const char byte = 'x'; /* the size is refused before the bytes are looked at */
    assert_int_equal(store->ops->append(store, 1, 1, &byte, (size_t)3 << 30, NULL), ERR_RANGE);
    assert_int_equal(store->ops->snapshot_put(store, 0, &byte, (size_t)3 << 30, NULL), ERR_RANGE);
    assert_int_equal(store->ops->doc_put(store, "d", &byte, (size_t)3 << 30, NULL), ERR_RANGE);
    append_numbered(store, 1, 2);
    store->ops->close(store);
}

/* -- folders one may not write to ------------------------------------------------------------- */

/* A writer in a process of its own, since SQLite's view of a file does not survive a fork: it
 * appends `count` batches, says so, and then waits. */
struct writer {
    pid_t pid;
    int hold; /* closing it lets the writer close the store and go */
};

static struct writer start_writer(const char *path, uint64_t count)
{
    int ready[2];
    int hold[2];
    CHECK(pipe(ready) == 0);
    CHECK(pipe(hold) == 0);
    struct writer writer = {.pid = fork(), .hold = hold[1]};
    CHECK(writer.pid >= 0);
    char byte = 0;
    if (writer.pid == 0) {
        close(hold[1]);
        struct store *store = open_store(path, STORE_WRITE);
        append_numbered(store, 1, count);
        CHECK(write(ready[1], &byte, 1) == 1);
        CHECK(read(hold[0], &byte, 1) == 0);
        store->ops->close(store);
        _exit(0);
    }
    close(ready[1]);
    close(hold[0]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return writer;
}

static void stop_writer(struct writer *writer, int signal_number)
{
    if (signal_number) {
        CHECK(kill(writer->pid, signal_number) == 0);
    }
    close(writer->hold);
    CHECK(waitpid(writer->pid, NULL, 0) == writer->pid);
}

/* In a child, as nobody if we are root (whom modes do not bind): opens it; exits with the
 * code, or with 100 + the number of batches it saw. */
static int open_as_stranger(const char *path, enum store_access access)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (geteuid() == 0) {
            CHECK(setgid(65534) == 0);
            CHECK(setuid(65534) == 0);
        }
        struct store *store = NULL;
        enum err_code code = store_sqlite_open(path, access, &store, NULL);
        if (code != ERR_OK) {
            _exit((int)code);
        }
        uint64_t count = count_batches(store);
        store->ops->close(store);
        _exit(100 + (int)count);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void let_strangers_read(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        AUTO_STR struct str name = {0};
        str_addf(&name, "%s%s", path, suffixes[i]);
        (void)chmod(str_text(&name), 0444);
    }
}

static void test_a_read_only_folder_can_be_read(void **state)
{
    struct fixture *fixture = *state;
    struct writer writer = start_writer(fixture->path, 7);
    let_strangers_read(fixture->path);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_int_equal(open_as_stranger(fixture->path, STORE_READ), 107); /* beside a living writer */
    assert_int_equal(chmod(fixture->folder, 0700), 0);
    stop_writer(&writer, 0);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_int_equal(open_as_stranger(fixture->path, STORE_READ), 107); /* after it */
    assert_int_equal(open_as_stranger(fixture->path, STORE_WRITE), ERR_DENIED);
    assert_int_equal(chmod(fixture->path, 0200), 0);
    assert_int_equal(open_as_stranger(fixture->path, STORE_READ), ERR_DENIED);
    assert_int_equal(chmod(fixture->folder, 0700), 0);
}

static void test_a_dead_writers_log_in_a_read_only_folder_is_read_or_refused(void **state)
{
    struct fixture *fixture = *state;
    struct writer writer = start_writer(fixture->path, 9);
    stop_writer(&writer, SIGKILL); /* -wal and -shm stay */
    let_strangers_read(fixture->path);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_int_equal(open_as_stranger(fixture->path, STORE_READ), 109);
    assert_int_equal(chmod(fixture->folder, 0700), 0);
    AUTO_STR struct str shm = {0};
    str_addf(&shm, "%s-shm", fixture->path);
    assert_int_equal(unlink(str_text(&shm)), 0);
    assert_int_equal(chmod(fixture->folder, 0555), 0);
    assert_int_equal(open_as_stranger(fixture->path, STORE_READ),
                     ERR_DENIED); /* never an old state */
    assert_int_equal(chmod(fixture->folder, 0700), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_files_are_for_their_owner_only),
        TEST(test_special_names_are_only_names),
        TEST(test_what_is_not_there_is_not_found),
        TEST(test_a_file_whose_maker_died_early_is_made_again),
        TEST(test_what_is_not_ours_is_refused_untouched),
        TEST(test_tables_and_triggers_of_others_are_refused),
        TEST(test_a_newer_format_is_refused_naming_both),
        TEST(test_an_older_format_is_upgraded_step_by_step_or_not_at_all),
        TEST(test_a_reader_sees_one_moment_while_the_writer_goes_on),
        TEST(test_a_reader_cannot_write),
        TEST(test_a_second_writer_makes_the_first_one_stale),
        TEST(test_too_many_bytes_are_out_of_range),
        TEST(test_a_read_only_folder_can_be_read),
        TEST(test_a_dead_writers_log_in_a_read_only_folder_is_read_or_refused),
    };
    return cmocka_run_group_tests_name("store_sqlite", tests, NULL, NULL);
}
