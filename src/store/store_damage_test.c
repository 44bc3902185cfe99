/* Damaged files and failing system calls: never wrong data, never a crash, always usable after. */
#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/store_conformance.h"

#include <errno.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 60, FORGOTTEN = 20, FLIPS = 500 };

static uint64_t seed_of_run;

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

/* -- contents that anyone can check ----------------------------------------------------------- */

static void add_batch_at(struct str *out, uint64_t first)
{
    conformance_fill(out, first, (size_t)(rng_mix(2, first, 0) % (first % 8 == 0 ? 9000 : 900)));
}

static enum err_code append_at(struct store *store, uint64_t first, struct err *err)
{
    AUTO_STR struct str bytes = {0};
    add_batch_at(&bytes, first);
    return store->ops->append(store, first, 1, bytes.text, bytes.size, err);
}

static struct store *open_store(const char *path)
{
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, STORE_WRITE, &store, &err);
    if (code != ERR_OK) {
        print_error("%s\n", err.text);
    }
    CHECK(code == ERR_OK);
    return store;
}

static void fill_store(struct store *store)
{
    for (uint64_t i = 1; i <= RECORDS; i++) {
        assert_int_equal(append_at(store, i, NULL), ERR_OK);
    }
    AUTO_STR struct str bytes = {0};
    conformance_fill(&bytes, 1, 20000);
    assert_int_equal(store->ops->snapshot_put(store, FORGOTTEN, bytes.text, 5000, NULL), ERR_OK);
    assert_int_equal(store->ops->doc_put(store, "recipe", bytes.text, 6000, NULL), ERR_OK);
}

struct judgement {
    uint64_t next;
};

static bool judge_batch(void *context, uint64_t first, uint32_t count, const void *bytes,
                        size_t size)
{
    struct judgement *judgement = context;
    AUTO_STR struct str want = {0};
    add_batch_at(&want, first);
    assert_int_equal(count, 1);
    assert_int_equal(first, judgement->next);
    assert_int_equal(size, want.size);
    assert_true(size == 0 || memcmp(bytes, want.text, size) == 0);
    judgement->next++;
    return true;
}

static bool is_start_of_fill(const struct str *bytes, size_t size)
{
    AUTO_STR struct str want = {0};
    conformance_fill(&want, 1, size);
    return bytes->size == size && memcmp(bytes->text, want.text, size) == 0;
}

/* -- flipped bytes ---------------------------------------------------------------------------- */

struct tally {
    int refused;
    int found;
    int intact;
};

/* Reads all there is; every answer is either the truth or ERR_CORRUPT. */
static void judge_damaged(struct store *store, struct tally *tally)
{
    struct judgement judgement = {.next = FORGOTTEN + 1};
    enum err_code replayed = store->ops->replay(store, 0, judge_batch, &judgement, NULL);
    assert_true(replayed == ERR_OK || replayed == ERR_CORRUPT);
    if (replayed == ERR_OK) {
        assert_int_equal(judgement.next, RECORDS + 1);
    }
    struct judgement later = {.next = 41};
    enum err_code code = store->ops->replay(store, 40, judge_batch, &later, NULL);
    assert_true(code == ERR_OK || code == ERR_CORRUPT);
    uint64_t last = 0;
    code = store->ops->last(store, &last, NULL);
    assert_true(code == ERR_CORRUPT || (code == ERR_OK && last == RECORDS));

    AUTO_STR struct str bytes = {0};
    uint64_t upto = 0;
    enum err_code got = store->ops->snapshot_get(store, &upto, &bytes, NULL);
    if (got == ERR_OK) {
        assert_int_equal(upto, FORGOTTEN);
        assert_true(is_start_of_fill(&bytes, 5000));
    } else {
        assert_int_equal(got, ERR_CORRUPT);
    }
    str_clear(&bytes);
    code = store->ops->doc_get(store, "recipe", &bytes, NULL);
    if (code == ERR_OK) {
        assert_true(is_start_of_fill(&bytes, 6000));
    } else {
        assert_int_equal(code, ERR_CORRUPT);
    }
    bool intact = replayed == ERR_OK && got == ERR_OK && code == ERR_OK;
    tally->intact += intact;
    tally->found += !intact;
}

static void judge_file(const char *path, const char *bytes, size_t size, enum store_access access,
                       struct tally *tally)
{
    assert_int_equal(io_replace_file(path, bytes, size, 0600, NULL), ERR_OK);
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, access, &store, &err);
    if (code == ERR_OK) {
        judge_damaged(store, tally);
        store->ops->close(store);
        return;
    }
    if (code != ERR_CORRUPT) {
        print_error("%s: %s\n", err_name(code), err.text);
    }
    assert_int_equal(code, ERR_CORRUPT);
    tally->refused++;
}

static void judge_flip(const char *path, const struct str *sound, size_t at, unsigned char flip,
                       struct tally *tally)
{
    AUTO_STR struct str damaged = {0};
    str_add_bytes(&damaged, sound->text, sound->size);
    damaged.text[at] = (char)(damaged.text[at] ^ flip);
    judge_file(path, damaged.text, damaged.size, STORE_WRITE, tally);
    judge_file(path, damaged.text, damaged.size, STORE_READ, tally);
}

static void test_a_flipped_byte_is_noticed_or_harmless(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    AUTO_STR struct str sound = {0};
    assert_int_equal(io_read_file(fixture->path, 1 << 24, &sound, NULL), ERR_OK);
    AUTO_FREE char *damaged = conformance_path(fixture->folder, "damaged.db");

    struct tally tally = {0};
    struct rng rng = {.state = seed_of_run};
    print_message("seed %llu\n", (unsigned long long)seed_of_run);
    for (int i = 0; i < FLIPS; i++) {
        /* half of them where the structure is: the file's first bytes and each page's first */
        size_t page = (size_t)rng_below(&rng, sound.size / 4096);
        size_t at = i % 2 ? (size_t)rng_below(&rng, sound.size)
                          : page * 4096 + (size_t)rng_below(&rng, page ? 40 : 400);
        judge_flip(damaged, &sound, at, (unsigned char)(1 + rng_below(&rng, 255)), &tally);
    }
    print_message("refused at opening %d, found when reading %d, harmless %d\n", tally.refused,
                  tally.found, tally.intact);
}

static void test_a_damaged_name_does_not_hide_a_document(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    AUTO_STR struct str sound = {0};
    assert_int_equal(io_read_file(fixture->path, 1 << 24, &sound, NULL), ERR_OK);
    const char *name = memmem(sound.text, sound.size, "recipe", 6);
    assert_non_null(name);
    struct tally tally = {0};
    for (size_t i = 0; i < 6; i++) {
        judge_flip(fixture->path, &sound, (size_t)(name - sound.text) + i, 1, &tally);
    }
    assert_int_equal(tally.found, 12);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The code of a replay after `after` in a store of which rows have been changed by hand. */
static enum err_code replay_after(const char *path, uint64_t after)
{
    struct store *store = open_store(path);
    struct judgement judgement = {.next = (after > FORGOTTEN ? after : FORGOTTEN) + 1};
    enum err_code code = store->ops->replay(store, after, judge_batch, &judgement, NULL);
    store->ops->close(store);
    return code;
}

static void test_a_missing_batch_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    assert_int_equal(replay_after(fixture->path, 0), ERR_OK);
    run_sql(fixture->path, "DELETE FROM log WHERE first = 40");
    assert_int_equal(replay_after(fixture->path, 0), ERR_CORRUPT);
    assert_int_equal(replay_after(fixture->path, 38), ERR_CORRUPT);
    assert_int_equal(replay_after(fixture->path, 39), ERR_CORRUPT);
    assert_int_equal(replay_after(fixture->path, 41), ERR_OK);
    run_sql(fixture->path, "DELETE FROM log WHERE first <= 41");
    assert_int_equal(replay_after(fixture->path, 0), ERR_CORRUPT); /* the snapshot ends before */
    assert_int_equal(replay_after(fixture->path, 30), ERR_CORRUPT);
    assert_int_equal(replay_after(fixture->path, 42), ERR_OK);
}

static void test_a_snapshot_of_another_place_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    run_sql(fixture->path, "UPDATE snapshot SET upto = upto + 1");
    store = open_store(fixture->path);
    AUTO_STR struct str bytes = {0};
    uint64_t upto = 0;
    assert_int_equal(store->ops->snapshot_get(store, &upto, &bytes, NULL), ERR_CORRUPT);
    assert_int_equal(store->ops->replay(store, 0, judge_batch, NULL, NULL), ERR_CORRUPT);
    assert_int_equal(store->ops->snapshot_put(store, 30, "x", 1, NULL), ERR_CORRUPT);
    assert_int_equal(bytes.size, 0);
    store->ops->close(store);
}

/* Else the next append would take a page that is in use for a free one. */
static void test_a_damaged_free_list_is_noticed_at_opening(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    AUTO_STR struct str bytes = {0};
    assert_int_equal(io_read_file(fixture->path, 1 << 24, &bytes, NULL), ERR_OK);
    assert_int_equal(bytes.text[36 + 2], 0); /* some pages are free, but few: */
    assert_true(bytes.text[36 + 3] > 0);
    bytes.text[32 + 3] = 2; /* the list's first page */
    struct tally tally = {0};
    judge_file(fixture->path, bytes.text, bytes.size, STORE_WRITE, &tally);
    judge_file(fixture->path, bytes.text, bytes.size, STORE_READ, &tally);
    assert_int_equal(tally.refused, 2);
}

static void test_a_file_cut_short_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    fill_store(store);
    store->ops->close(store);
    AUTO_STR struct str sound = {0};
    assert_int_equal(io_read_file(fixture->path, 1 << 24, &sound, NULL), ERR_OK);
    AUTO_FREE char *damaged = conformance_path(fixture->folder, "damaged.db");
    struct tally tally = {0};
    /* from 2: SQLite takes a file of one byte for an empty one */
    for (size_t size = 2; size < sound.size; size += 1013) {
        judge_file(damaged, sound.text, size, STORE_WRITE, &tally);
        judge_file(damaged, sound.text, size, STORE_READ, &tally);
    }
    assert_true(tally.refused > 0);
}

/* -- failing system calls --------------------------------------------------------------------- */

/* The k-th call from now on fails, once or from then on. */
static struct {
    int countdown; /* 0: none fails */
    bool stays;
    int errno_value;
    int fired;
    int syncs;
} plan;

static bool fails_now(void)
{
    if (plan.countdown == 0 || --plan.countdown > 0) {
        return false;
    }
    plan.countdown = plan.stays ? 1 : 0;
    plan.fired++;
    errno = plan.errno_value;
    return true;
}

static ssize_t planned_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return fails_now() ? -1 : pwrite(fd, bytes, size, at);
}

static ssize_t planned_write(int fd, const void *bytes, size_t size)
{
    return fails_now() ? -1 : write(fd, bytes, size);
}

static int planned_ftruncate(int fd, off_t size)
{
    return fails_now() ? -1 : ftruncate(fd, size);
}

/* SQLite has no hook for this one; ours comes before the C library's. */
int fdatasync(int fd)
{
    plan.syncs++;
    return fails_now() ? -1 : (int)syscall(SYS_fdatasync, fd);
}

static void plan_system_calls(bool ours)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_syscall_ptr pwrite_call = (sqlite3_syscall_ptr)planned_pwrite;
    sqlite3_syscall_ptr write_call = (sqlite3_syscall_ptr)planned_write;
    sqlite3_syscall_ptr truncate_call = (sqlite3_syscall_ptr)planned_ftruncate;
    vfs->xSetSystemCall(vfs, "pwrite", ours ? pwrite_call : NULL);
    vfs->xSetSystemCall(vfs, "pwrite64", ours ? pwrite_call : NULL);
    vfs->xSetSystemCall(vfs, "write", ours ? write_call : NULL);
    vfs->xSetSystemCall(vfs, "ftruncate", ours ? truncate_call : NULL);
}

static void test_an_append_is_synced_before_it_returns(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = open_store(fixture->path);
    for (uint64_t i = 1; i <= 20; i++) {
        int before = plan.syncs;
        assert_int_equal(append_at(store, i, NULL), ERR_OK);
        assert_true(plan.syncs > before);
    }
    store->ops->close(store);
}

/* What a store holds, to be compared before and after a call that failed. */
static void describe(struct store *store, struct str *out)
{
    struct judgement judgement = {.next = FORGOTTEN + 1};
    uint64_t upto = 0;
    str_clear(out);
    assert_int_equal(store->ops->snapshot_get(store, &upto, out, NULL), ERR_OK);
    assert_int_equal(store->ops->doc_get(store, "recipe", out, NULL), ERR_OK);
    judgement.next = upto + 1;
    assert_int_equal(store->ops->replay(store, 0, judge_batch, &judgement, NULL), ERR_OK);
    str_addf(out, "%llu %llu", (unsigned long long)upto, (unsigned long long)judgement.next);
    assert_int_equal(conformance_last(store) + 1, judgement.next);
}

enum call { CALL_APPEND, CALL_SNAPSHOT, CALL_DOC, CALL_KINDS };

static enum err_code do_call(struct store *store, enum call call, uint64_t last, struct err *err)
{
    AUTO_STR struct str bytes = {0};
    conformance_fill(&bytes, last, 30000);
    switch (call) {
    case CALL_APPEND:
        return append_at(store, last + 1, err);
    case CALL_SNAPSHOT:
        return store->ops->snapshot_put(store, last - 3, bytes.text, bytes.size, err);
    case CALL_DOC:
        return store->ops->doc_put(store, "recipe", bytes.text, bytes.size, err);
    case CALL_KINDS:
        break;
    }
    check_failed(__FILE__, __LINE__, __func__, "a known call");
}

/* Returns whether the plan struck. */
static bool call_with_trouble(struct store *store, enum call call, int countdown)
{
    AUTO_STR struct str before = {0};
    AUTO_STR struct str after = {0};
    uint64_t last = conformance_last(store);
    describe(store, &before);
    struct err err = {0};
    plan.fired = 0;
    plan.countdown = countdown;
    enum err_code code = do_call(store, call, last, &err);
    plan.countdown = 0;
    if (code != ERR_OK) {
        assert_true(plan.fired > 0);
        assert_int_equal(code, plan.errno_value == ENOSPC ? ERR_QUOTA : ERR_IO);
        describe(store, &after);
        assert_int_equal(before.size, after.size);
        assert_memory_equal(before.text, after.text, before.size);
        assert_int_equal(do_call(store, call, last, &err), ERR_OK);
    }
    return plan.fired > 0;
}

static void torture(const char *path, enum call call)
{
    struct store *store = open_store(path);
    fill_store(store);
    int countdown = 1;
    while (call_with_trouble(store, call, countdown)) {
        countdown++;
        assert_true(countdown < 1000);
    }
    assert_true(countdown > 3);
    AUTO_STR struct str before = {0};
    AUTO_STR struct str after = {0};
    describe(store, &before);
    store->ops->close(store);
    store = open_store(path);
    describe(store, &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.text, after.text, before.size);
    store->ops->close(store);
}

static void test_each_failing_write_leaves_the_store_as_it_was(void **state)
{
    struct fixture *fixture = *state;
    plan_system_calls(true);
    for (int round = 0; round < 3 * CALL_KINDS; round++) {
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s-%d", fixture->path, round);
        plan.stays = round % 3 > 0;
        plan.errno_value = round % 3 == 2 ? ENOSPC : EIO;
        torture(str_text(&path), (enum call)(round / 3));
    }
    plan_system_calls(false);
}

static void test_each_failing_write_while_opening_can_be_tried_again(void **state)
{
    struct fixture *fixture = *state;
    plan_system_calls(true);
    plan.stays = true;
    plan.errno_value = EIO;
    bool struck = true;
    for (int countdown = 1; struck; countdown++) {
        AUTO_STR struct str path = {0};
        str_addf(&path, "%s-%d", fixture->path, countdown);
        plan.fired = 0;
        plan.countdown = countdown;
        struct store *store = NULL;
        enum err_code code = store_sqlite_open(str_text(&path), STORE_WRITE, &store, NULL);
        plan.countdown = 0;
        struck = plan.fired > 0;
        assert_true(code == ERR_OK || (struck && code == ERR_IO));
        if (code != ERR_OK) {
            store = open_store(str_text(&path));
        }
        assert_int_equal(append_at(store, 1, NULL), ERR_OK);
        store->ops->close(store);
    }
    plan_system_calls(false);
}

/* -- killed while making the file ------------------------------------------------------------- */

static int die_at_unlink(const char *path)
{
    (void)path;
    _exit(0);
}

/* Making a file goes through one ordinary transaction, whose journal its end unlinks. */
static void test_a_file_left_in_the_making_is_no_store_yet_and_can_be_made(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
        vfs->xSetSystemCall(vfs, "unlink", (sqlite3_syscall_ptr)die_at_unlink);
        open_store(fixture->path);
        _exit(1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    struct store *store = NULL;
    struct err err = {0};
    assert_int_equal(store_sqlite_open(fixture->path, STORE_READ, &store, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "its maker was killed"));
    store = open_store(fixture->path);
    assert_int_equal(append_at(store, 1, NULL), ERR_OK);
    store->ops->close(store);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(int argc, char **argv)
{
    seed_of_run = argc > 1 ? strtoull(argv[1], NULL, 10) : rng_seed_from_system();
    const struct CMUnitTest tests[] = {
        TEST(test_a_flipped_byte_is_noticed_or_harmless),
        TEST(test_a_damaged_name_does_not_hide_a_document),
        TEST(test_a_missing_batch_is_noticed),
        TEST(test_a_snapshot_of_another_place_is_noticed),
        TEST(test_a_damaged_free_list_is_noticed_at_opening),
        TEST(test_a_file_cut_short_is_noticed),
        TEST(test_an_append_is_synced_before_it_returns),
        TEST(test_each_failing_write_leaves_the_store_as_it_was),
        TEST(test_each_failing_write_while_opening_can_be_tried_again),
        TEST(test_a_file_left_in_the_making_is_no_store_yet_and_can_be_made),
    };
    return cmocka_run_group_tests_name("store_damage", tests, NULL, NULL);
}
