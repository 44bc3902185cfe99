/* Writers killed at any instant, rivals, and disks that fill up: nothing acknowledged may be lost.
 */
#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "store/store_conformance.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 250, ROUNDS_PER_FILE = 25, LIFE_MAX_US = 5000, SKIPPED = 77 };

/* The batch at record `first` is always the same one, so whoever reads can tell what must be there.
 */
static uint32_t batch_count_at(uint64_t first)
{
    return (uint32_t)(1 + rng_mix(1, first, 0) % 3);
}

static void add_batch_at(struct str *out, uint64_t first)
{
    uint64_t dice = rng_mix(2, first, 0);
    conformance_fill(out, first, (size_t)(dice % (dice % 16 == 0 ? 60000 : 3000)));
}

static struct store *open_store(const char *path, enum store_access access)
{
    struct store *store = NULL;
    struct err err = {0};
    enum err_code code = store_sqlite_open(path, access, &store, &err);
    if (code == ERR_NOT_FOUND && access == STORE_READ) {
        return NULL;
    }
    if (code != ERR_OK) {
        fprintf(stderr, "%s\n", err.text);
    }
    CHECK(code == ERR_OK);
    return store;
}

/* -- the writer, in a child ------------------------------------------------------------------- */

/* Appends until it is killed, and tells of each batch that is said to be durable. */
static _Noreturn void write_until_killed(const char *path, int tell)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct store *store = open_store(path, STORE_WRITE);
    uint64_t last = conformance_last(store);
    for (uint64_t turn = 1;; turn++) {
        AUTO_STR struct str bytes = {0};
        add_batch_at(&bytes, last + 1);
        uint32_t count = batch_count_at(last + 1);
        enum err_code code =
            store->ops->append(store, last + 1, count, bytes.text, bytes.size, NULL);
        CHECK(code == ERR_OK);
        last += count;
        CHECK(write(tell, &last, sizeof last) == sizeof last);
        if (turn % 10 == 0) {
            code = store->ops->snapshot_put(store, last - 5, &last, sizeof last, NULL);
            CHECK(code == ERR_OK);
        }
    }
}

static uint64_t read_last_told(int hear, uint64_t before)
{
    uint64_t last = before;
    uint64_t told = 0;
    while (read(hear, &told, sizeof told) == sizeof told) {
        last = told;
    }
    return last;
}

/* -- the judge -------------------------------------------------------------------------------- */

struct judgement {
    uint64_t next; /* 0: any may come first */
};

static bool judge_batch(void *context, uint64_t first, uint32_t count, const void *bytes,
                        size_t size)
{
    struct judgement *judgement = context;
    AUTO_STR struct str want = {0};
    add_batch_at(&want, first);
    assert_int_equal(count, batch_count_at(first));
    assert_int_equal(size, want.size);
    assert_true(size == 0 || memcmp(bytes, want.text, size) == 0);
    if (judgement->next) {
        assert_int_equal(first, judgement->next);
    }
    judgement->next = first + count;
    return true;
}

/* Everything told is there, and at most one batch more; returns the last record. */
static uint64_t judge(const char *path, enum store_access access, uint64_t told)
{
    struct store *store = open_store(path, access);
    if (!store) {
        assert_int_equal(told, 0);
        return 0;
    }
    uint64_t last = conformance_last(store);
    if (last != told) {
        assert_int_equal(last, told + batch_count_at(told + 1));
    }
    AUTO_STR struct str snapshot = {0};
    uint64_t upto = 0;
    enum err_code code = store->ops->snapshot_get(store, &upto, &snapshot, NULL);
    assert_true(code == ERR_OK || code == ERR_NOT_FOUND);
    assert_int_equal(snapshot.size, code == ERR_OK ? sizeof(uint64_t) : 0);

    struct judgement judgement = {.next = code == ERR_NOT_FOUND};
    struct err err = {0};
    code = store->ops->replay(store, 0, judge_batch, &judgement, &err);
    if (code != ERR_OK) {
        print_error("%s\n", err.text);
    }
    assert_int_equal(code, ERR_OK);
    assert_int_equal(judgement.next, last + 1);
    store->ops->close(store);
    return last;
}

/* One life of a writer. Sometimes a reader looks in while it lives. */
static uint64_t live_and_die(const char *path, uint64_t last, struct rng *rng)
{
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t writer = fork();
    CHECK(writer >= 0);
    if (writer == 0) {
        close(ends[0]);
        write_until_killed(path, ends[1]);
    }
    close(ends[1]);
    uint64_t told = last;
    if (rng_below(rng, 4) > 0) { /* else it may die before it has begun */
        CHECK(read(ends[0], &told, sizeof told) == sizeof told);
    }
    usleep((useconds_t)rng_below(rng, LIFE_MAX_US));
    if (rng_below(rng, 4) == 0) {
        struct store *reader = open_store(path, STORE_READ);
        if (reader) {
            struct judgement judgement = {0};
            assert_int_equal(reader->ops->replay(reader, 0, judge_batch, &judgement, NULL), ERR_OK);
            reader->ops->close(reader);
        }
        usleep((useconds_t)rng_below(rng, 1000));
    }
    CHECK(kill(writer, SIGKILL) == 0);
    int status = 0;
    CHECK(waitpid(writer, &status, 0) == writer);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    told = read_last_told(ends[0], told);
    close(ends[0]);
    return told;
}

static uint64_t seed_of_run;

static void test_a_killed_writer_loses_nothing_it_acknowledged(void **state)
{
    (void)state;
    struct rng rng = {.state = seed_of_run};
    uint64_t batches_judged = 0;
    print_message("seed %llu\n", (unsigned long long)seed_of_run);
    for (int file = 0; file < ROUNDS / ROUNDS_PER_FILE; file++) {
        char folder[64];
        conformance_folder_make(folder, sizeof folder);
        AUTO_FREE char *path = conformance_path(folder, "store.db");
        uint64_t last = 0;
        for (int round = 0; round < ROUNDS_PER_FILE; round++) {
            uint64_t told = live_and_die(path, last, &rng);
            uint64_t seen = judge(path, STORE_READ, told); /* with -wal and -shm left over */
            if (rng_below(&rng, 2) == 0) {
                assert_int_equal(judge(path, STORE_WRITE, told), seen);
            }
            last = seen;
        }
        batches_judged += last;
        conformance_folder_remove(folder);
    }
    print_message("%d kills, %llu records kept\n", ROUNDS, (unsigned long long)batches_judged);
    assert_true(batches_judged > 0);
}

/* -- two writers ------------------------------------------------------------------------------ */

enum { RIVAL_APPENDS = 150 };

/* Appends in the face of a rival: stale means to look again, and nothing else may go wrong. */
static _Noreturn void write_beside_rival(const char *path)
{
    struct store *store = open_store(path, STORE_WRITE);
    for (int done = 0; done < RIVAL_APPENDS;) {
        uint64_t last = conformance_last(store);
        AUTO_STR struct str bytes = {0};
        add_batch_at(&bytes, last + 1);
        struct err err = {0};
        enum err_code code = store->ops->append(store, last + 1, batch_count_at(last + 1),
                                                bytes.text, bytes.size, &err);
        /* the rival's batch at this place is the same as ours */
        if (code != ERR_OK && code != ERR_STALE && code != ERR_EXISTS) {
            fprintf(stderr, "%s: %s\n", err_name(code), err.text);
            _exit(1);
        }
        done += code == ERR_OK;
    }
    store->ops->close(store);
    _exit(0);
}

static void test_two_writers_make_one_log(void **state)
{
    (void)state;
    char folder[64];
    conformance_folder_make(folder, sizeof folder);
    AUTO_FREE char *path = conformance_path(folder, "store.db");
    pid_t writers[2];
    for (int i = 0; i < 2; i++) {
        writers[i] = fork();
        CHECK(writers[i] >= 0);
        if (writers[i] == 0) {
            write_beside_rival(path);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 0;
        CHECK(waitpid(writers[i], &status, 0) == writers[i]);
        assert_int_equal(status, 0);
    }
    uint64_t last = 0;
    for (int i = 0; i < 2 * RIVAL_APPENDS; i++) {
        last += batch_count_at(last + 1);
    }
    assert_int_equal(judge(path, STORE_WRITE, last), last);
    conformance_folder_remove(folder);
}

/* -- a full disk, in a child ------------------------------------------------------------------ */

static bool mount_small_disk(const char *folder)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", folder, "tmpfs", 0, "size=6m") == 0;
}

static bool count_records(void *context, uint64_t first, uint32_t count, const void *bytes,
                          size_t size)
{
    AUTO_STR struct str want = {0};
    add_batch_at(&want, first);
    CHECK(size == want.size);
    CHECK(size == 0 || memcmp(bytes, want.text, size) == 0);
    *(uint64_t *)context += count;
    return true;
}

static enum err_code append_next(struct store *store, uint64_t *last, struct err *err)
{
    AUTO_STR struct str bytes = {0};
    add_batch_at(&bytes, *last + 1);
    uint32_t count = batch_count_at(*last + 1);
    enum err_code code = store->ops->append(store, *last + 1, count, bytes.text, bytes.size, err);
    *last += code == ERR_OK ? count : 0;
    return code;
}

static void check_kept(struct store *store, uint64_t last)
{
    uint64_t records = 0;
    enum err_code code = store->ops->replay(store, 0, count_records, &records, NULL);
    CHECK(code == ERR_OK);
    CHECK(records == last);
    CHECK(conformance_last(store) == last);
}

/* Fills what is left of the disk, so that freeing it is a matter of removing one file. */
static void fill_disk(const char *path, size_t size_max)
{
    AUTO_CLOSE int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    static char block[4096];
    for (size_t size = 0; size < size_max && write(fd, block, sizeof block) > 0;) {
        size += sizeof block;
    }
}

static void check_refused(struct store *store, uint64_t last)
{
    struct err err = {0};
    static char big[1 << 20];
    for (int i = 0; i < 3; i++) {
        CHECK(append_next(store, &last, &err) == ERR_QUOTA);
        CHECK(strstr(err.text, "full"));
        check_kept(store, last);
        CHECK(store->ops->snapshot_put(store, last, big, sizeof big, &err) == ERR_QUOTA);
        CHECK(store->ops->doc_put(store, "recipe", big, sizeof big, &err) == ERR_QUOTA);
        AUTO_STR struct str out = {0};
        CHECK(store->ops->doc_get(store, "recipe", &out, &err) == ERR_NOT_FOUND);
        check_kept(store, last);
    }
}

static int run_on_small_disk(const char *folder)
{
    if (!mount_small_disk(folder)) {
        return SKIPPED;
    }
    AUTO_FREE char *path = conformance_path(folder, "store.db");
    AUTO_FREE char *filler = conformance_path(folder, "filler");
    fill_disk(filler, 3 << 20);
    struct store *store = open_store(path, STORE_WRITE);
    uint64_t last = 0;
    struct err err = {0};
    enum err_code code = ERR_OK;
    while (code == ERR_OK) {
        code = append_next(store, &last, &err);
    }
    CHECK(code == ERR_QUOTA);
    CHECK(last > 100);
    AUTO_FREE char *rest = conformance_path(folder, "rest");
    fill_disk(rest, SIZE_MAX); /* now not even a small batch finds room */
    check_refused(store, last);

    CHECK(unlink(filler) == 0);
    for (int i = 0; i < 50; i++) {
        code = append_next(store, &last, &err);
        CHECK(code == ERR_OK);
    }
    check_kept(store, last);
    store->ops->close(store);
    store = open_store(path, STORE_WRITE);
    check_kept(store, last);
    store->ops->close(store);
    return 0;
}

/* A store that cannot be made for want of room says so, and can be made later. */
static int make_on_full_disk(const char *folder)
{
    if (!mount_small_disk(folder)) {
        return SKIPPED;
    }
    AUTO_FREE char *path = conformance_path(folder, "store.db");
    AUTO_FREE char *filler = conformance_path(folder, "filler");
    fill_disk(filler, SIZE_MAX);
    struct store *store = NULL;
    struct err err = {0};
    for (int pages = 0; pages < 16; pages++) { /* run out of room a little later each time */
        CHECK(truncate(filler, (6 << 20) - 4096 * (3 + pages)) == 0);
        enum err_code code = store_sqlite_open(path, STORE_WRITE, &store, &err);
        if (code == ERR_OK) {
            store->ops->close(store);
        } else if (code != ERR_QUOTA) {
            fprintf(stderr, "%d: %s: %s\n", pages, err_name(code), err.text);
            return 1;
        }
    }
    CHECK(unlink(filler) == 0);
    store = open_store(path, STORE_WRITE);
    uint64_t last = 0;
    enum err_code code = append_next(store, &last, &err);
    CHECK(code == ERR_OK);
    store->ops->close(store);
    return 0;
}

static void run_in_child(int (*function)(const char *folder))
{
    char folder[64];
    conformance_folder_make(folder, sizeof folder);
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        _exit(function(folder));
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    conformance_folder_remove(folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        print_message("skipped: a small disk cannot be mounted here (not root)\n");
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_full_disk_refuses_and_keeps_and_recovers(void **state)
{
    (void)state;
    run_in_child(run_on_small_disk);
}

static void test_a_store_is_made_once_there_is_room(void **state)
{
    (void)state;
    run_in_child(make_on_full_disk);
}

int main(int argc, char **argv)
{
    seed_of_run = argc > 1 ? strtoull(argv[1], NULL, 10) : rng_seed_from_system();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_killed_writer_loses_nothing_it_acknowledged),
        cmocka_unit_test(test_two_writers_make_one_log),
        cmocka_unit_test(test_a_full_disk_refuses_and_keeps_and_recovers),
        cmocka_unit_test(test_a_store_is_made_once_there_is_room),
    };
    return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL);
}
