/* What only the directory driver does: names of files, litter of the dead, other processes. */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "object/object_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
    char path[128];
};

static int set_up(void **state)
{
    struct folder *folder = mem_alloc(sizeof *folder);
    const char *parent = getenv("TMPDIR");
    snprintf(folder->path, sizeof folder->path, "%s/drover-directory-XXXXXX",
             parent ? parent : "/tmp");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

static int tear_down(void **state)
{
    struct folder *folder = *state;
    int failed = io_remove_tree(folder->path, NULL) == ERR_OK ? 0 : -1;
    free(folder);
    return failed;
}

static struct object_store *open_store(const char *path)
{
    struct object_store *store = NULL;
    struct err err = {0};
    enum err_code code = object_directory_open(path, false, &store, &err);
    if (code != ERR_OK) {
        print_error("%s\n", err.text);
    }
    CHECK(code == ERR_OK);
    return store;
}

static char *path_of(const struct folder *folder, const char *name)
{
    struct str path = {0};
    str_addf(&path, "%s/%s", folder->path, name);
    return str_take(&path);
}

static bool exists(const struct folder *folder, const char *name)
{
    AUTO_FREE char *path = path_of(folder, name);
    struct stat st;
    return lstat(path, &st) == 0;
}

static void make_dir(const struct folder *folder, const char *name)
{
    AUTO_FREE char *path = path_of(folder, name);
    assert_int_equal(io_make_dirs(path, NULL), ERR_OK);
}

static void make_file(const struct folder *folder, const char *name)
{
    AUTO_FREE char *path = path_of(folder, name);
    assert_int_equal(io_replace_file(path, "x", 1, 0600, NULL), ERR_OK);
}

static void put(struct object_store *store, const char *key)
{
    assert_int_equal(object_put(store, key, key, strlen(key), NULL), ERR_OK);
}

static bool count_item(void *context, const struct object_item *item)
{
    (void)item;
    ++*(size_t *)context;
    return true;
}

static size_t count_objects(struct object_store *store)
{
    size_t count = 0;
    assert_int_equal(object_each(store, "", count_item, &count, NULL), ERR_OK);
    return count;
}

/* -- names ------------------------------------------------------------------------------------ */

static void assert_path(const char *key, const char *expected)
{
    AUTO_STR struct str path = {0};
    directory_add_path(&path, key);
    assert_string_equal(str_text(&path), expected);
}

static void test_file_names_are_readable(void **state)
{
    (void)state;
    assert_path("head", "head");
    assert_path("packs/a-1", "packs,/a-1");
    assert_path("a/b/c", "a,/b,/c");
    AUTO_STR struct str key = {0};
    AUTO_STR struct str path = {0};
    str_add_repeat(&key, "x", DIRECTORY_PIECE);
    str_addf(&path, "%s^/^", str_text(&key));
    assert_path(str_text(&key), str_text(&path));
    str_add(&key, "..");
    str_add(&path, "..");
    assert_path(str_text(&key), str_text(&path));
    str_clear(&path);
    str_add_repeat(&path, "x", DIRECTORY_PIECE);
    str_add(&path, "^/..,/y");
    str_add(&key, "/y");
    assert_path(str_text(&key), str_text(&path));
}

static void test_names_of_others_are_not_taken_for_keys(void **state)
{
    (void)state;
    static const char *const foreign[] = {".",       "..",          ",lock", ",tmp", "a b",  "a~",
                                          ".x.swp~", "a,b",         "a^",    "^a",   "^...", "",
                                          "a:",      "caf\xc3\xa9", "a,,",   "^,",   ",^"};
    AUTO_STR struct str out = {0};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        assert_false(directory_add_fragment(&out, foreign[i]));
        assert_int_equal(out.size, 0);
    }
    AUTO_STR struct str longer = {0};
    str_add_repeat(&longer, "x", DIRECTORY_PIECE);
    assert_false(directory_add_fragment(&out, str_text(&longer)));
    str_add(&longer, ",");
    assert_false(directory_add_fragment(&out, str_text(&longer)));
}

static void test_strange_files_do_no_harm(void **state)
{
    struct folder *folder = *state;
    make_file(folder, "notes~");
    make_file(folder, "file,"); /* a file where a folder is expected */
    make_dir(folder, "object"); /* and the other way round */
    make_dir(folder, "empty,/empty,/empty,");
    AUTO_FREE char *pipe = path_of(folder, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    AUTO_FREE char *link = path_of(folder, "link");
    assert_int_equal(symlink("/etc/passwd", link), 0);
    struct object_store *store = open_store(folder->path);
    put(store, "a/b");
    AUTO_STR struct str out = {0};
    assert_int_equal(count_objects(store), 1);
    assert_int_equal(object_get(store, "object", &out, NULL, NULL), ERR_NOT_FOUND);
    assert_int_equal(object_get(store, "file/x", &out, NULL, NULL), ERR_NOT_FOUND);
    assert_int_equal(object_get(store, "pipe", &out, NULL, NULL), ERR_NOT_FOUND);
    assert_int_equal(object_get(store, "link", &out, NULL, NULL), ERR_IO);
    assert_int_equal(object_delete(store, "file/x", NULL), ERR_OK);
    object_close(store);
}

/* -- what is left behind ---------------------------------------------------------------------- */

static void test_files_are_private_and_emptied_folders_go(void **state)
{
    struct folder *folder = *state;
    AUTO_FREE char *inner = path_of(folder, "made/for/us");
    struct object_store *store = NULL;
    struct err err = {0};
    assert_int_equal(object_directory_open(inner, false, &store, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "made/for/us"));
    mode_t mask = umask(0);
    assert_int_equal(object_directory_open(inner, true, &store, &err), ERR_OK);
    put(store, "a/b/c");
    put(store, "a/d");
    umask(mask);
    static const struct {
        const char *name;
        mode_t mode;
    } modes[] = {{"made/for/us", S_IFDIR | 0700},
                 {"made/for/us/a,", S_IFDIR | 0700},
                 {"made/for/us/a,/d", S_IFREG | 0600},
                 {"made/for/us/,tmp", S_IFDIR | 0700},
                 {"made/for/us/,lock", S_IFREG | 0600}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        AUTO_FREE char *path = path_of(folder, modes[i].name);
        struct stat st;
        assert_int_equal(lstat(path, &st), 0);
        assert_int_equal(st.st_mode, modes[i].mode);
    }
    assert_int_equal(object_delete(store, "a/b/c", NULL), ERR_OK);
    assert_false(exists(folder, "made/for/us/a,/b,"));
    assert_true(exists(folder, "made/for/us/a,/d"));
    assert_int_equal(object_delete(store, "a/d", NULL), ERR_OK);
    assert_false(exists(folder, "made/for/us/a,"));
    put(store, "a/b/c"); /* through folders that we had open */
    object_close(store);
    store = open_store(inner);
    assert_int_equal(count_objects(store), 1);
    object_close(store);
    AUTO_FREE char *tmp = path_of(folder, "made/for/us/,tmp");
    assert_int_equal(rmdir(tmp), 0); /* nothing is in it */
}

static void test_litter_of_the_dead_is_removed_that_of_the_living_stays(void **state)
{
    struct folder *folder = *state;
    make_dir(folder, ",tmp/123-0");
    make_file(folder, ",tmp/123-0/7");
    make_dir(folder, ",tmp/124-0");
    AUTO_FREE char *living = path_of(folder, ",tmp/124-0");
    int fd = open(living, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH), 0);
    make_file(folder, ",tmp/124-0/7");
    struct object_store *first = open_store(folder->path);
    put(first, "a");
    struct object_store *second = open_store(folder->path);
    put(second, "b");
    put(first, "c"); /* its own folder is still there */
    assert_false(exists(folder, ",tmp/123-0"));
    assert_true(exists(folder, ",tmp/124-0/7"));
    close(fd);
    object_close(first);
    object_close(second);
    object_close(open_store(folder->path));
    assert_false(exists(folder, ",tmp/124-0"));
}

/* -- etags ------------------------------------------------------------------------------------ */

/* On a file system in memory a PUT takes no time. */
static void test_etags_differ_even_where_puts_take_no_time(void **state)
{
    (void)state;
    enum { PUTS = 2000 };
    char folder[] = "/dev/shm/drover-directory-XXXXXX";
    if (!mkdtemp(folder)) {
        skip();
    }
    static char etags[PUTS][OBJECT_ETAG_MAX];
    struct object_store *store = open_store(folder);
    for (size_t i = 0; i < PUTS; i++) {
        struct object_call call = {.verb = OBJECT_PUT, .key = "k", .data = "x", .data_size = 1};
        assert_int_equal(object_do(store, &call, NULL), ERR_OK);
        memcpy(etags[i], call.etag, sizeof etags[i]);
        for (size_t j = i > 20 ? i - 20 : 0; j < i; j++) {
            assert_string_not_equal(etags[i], etags[j]);
        }
    }
    object_close(store);
    assert_int_equal(io_remove_tree(folder, NULL), ERR_OK);
}

static void test_etags_differ_even_where_the_clock_is_set_back(void **state)
{
    struct folder *folder = *state;
    struct object_store *store = open_store(folder->path);
    int64_t ahead_s = (int64_t)time(NULL) + 3600;
    ((struct directory *)store)->newest_ns = ahead_s * 1000000000;
    AUTO_FREE char *path = path_of(folder, "k");
    struct timespec before = {.tv_sec = (time_t)ahead_s};
    for (int i = 0; i < 3; i++) {
        struct stat st;
        put(store, "k");
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mtim.tv_sec, before.tv_sec);
        assert_true(st.st_mtim.tv_nsec > before.tv_nsec);
        before = st.st_mtim;
    }
    object_close(store);
}

/* -- other processes -------------------------------------------------------------------------- */

enum { WRITERS = 3, ROUNDS = 100 };

/* Adds 1 to the number in "counter", ROUNDS times. */
static void count_up(const char *path)
{
    struct object_store *store = open_store(path);
    for (int i = 0; i < ROUNDS;) {
        AUTO_STR struct str text = {0};
        char etag[OBJECT_ETAG_MAX];
        CHECK(object_get(store, "counter", &text, etag, NULL) == ERR_OK);
        char next[32];
        snprintf(next, sizeof next, "%ld", strtol(str_text(&text), NULL, 10) + 1);
        enum err_code code = object_put_if_match(store, "counter", next, strlen(next), etag, NULL);
        CHECK(code == ERR_OK || code == ERR_STALE || code == ERR_AGAIN);
        i += code == ERR_OK;
    }
    object_close(store);
}

static void test_put_if_match_loses_no_update_between_processes(void **state)
{
    struct folder *folder = *state;
    struct object_store *store = open_store(folder->path);
    assert_int_equal(object_put(store, "counter", "0", 1, NULL), ERR_OK);
    pid_t pids[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            count_up(folder->path);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    AUTO_STR struct str text = {0};
    assert_int_equal(object_get(store, "counter", &text, NULL, NULL), ERR_OK);
    assert_int_equal(strtol(str_text(&text), NULL, 10), WRITERS * ROUNDS);
    object_close(store);
}

/* Puts objects of one repeated byte for ever, some anew, some over others, and says which are in.
 */
static void write_for_ever(const char *path, int report)
{
    struct object_store *store = open_store(path);
    for (uint32_t i = 0;; i++) {
        char bytes[5000];
        char key[32];
        memset(bytes, 'a' + (int)(i % 26), sizeof bytes);
        snprintf(key, sizeof key, "w/%" PRIu32 "/%" PRIu32, i % 3, i % 2 ? i : i % 5);
        CHECK(object_put(store, key, bytes, sizeof bytes, NULL) == ERR_OK);
        CHECK(write(report, &i, sizeof i) == sizeof i);
        if (i % 7 == 0) {
            CHECK(object_delete(store, key, NULL) == ERR_OK);
        }
    }
}

static bool check_whole(void *context, const struct object_item *item)
{
    AUTO_STR struct str body = {0};
    assert_int_equal(item->size, 5000);
    assert_int_equal(object_get(context, item->key, &body, NULL, NULL), ERR_OK);
    for (size_t i = 0; i < body.size; i++) {
        assert_int_equal(body.text[i], body.text[0]);
    }
    return true;
}

static void test_a_killed_writer_leaves_whole_objects_and_no_litter(void **state)
{
    struct folder *folder = *state;
    struct rng rng = {.state = rng_seed_from_system()};
    print_message("seed %" PRIu64 "\n", rng.state);
    for (int round = 0; round < 20; round++) {
        int report[2];
        assert_int_equal(pipe2(report, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            write_for_ever(folder->path, report[1]);
        }
        close(report[1]);
        uint32_t last = 0;
        assert_int_equal(read(report[0], &last, sizeof last), sizeof last);
        nanosleep(&(struct timespec){.tv_nsec = (long)rng_below(&rng, 20000000)}, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (read(report[0], &last, sizeof last) == sizeof last) {
            /* up to the last that was answered */
        }
        close(report[0]);
        struct object_store *store = open_store(folder->path);
        assert_int_equal(object_each(store, "", check_whole, store, NULL), ERR_OK);
        if (last % 2 && last % 7) {
            char key[32];
            AUTO_STR struct str body = {0};
            snprintf(key, sizeof key, "w/%" PRIu32 "/%" PRIu32, last % 3, last);
            assert_int_equal(object_get(store, key, &body, NULL, NULL), ERR_OK);
        }
        object_close(store);
        AUTO_FREE char *tmp = path_of(folder, ",tmp");
        assert_int_equal(rmdir(tmp), 0); /* so it was empty */
    }
}

/* -- trouble ---------------------------------------------------------------------------------- */

/* In a child with mounts of its own, on a file system of 1 MB. Exit 77: not possible here. */
static int fill_disk(const char *path)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path, "tmpfs", 0, "size=1m") != 0) {
        return 77;
    }
    struct object_store *store = open_store(path);
    AUTO_STR struct str bytes = {0};
    str_add_repeat(&bytes, "0123456789abcdef", 600 * 1024 / 16);
    struct err err = {0};
    CHECK(object_put(store, "a", bytes.text, bytes.size, &err) == ERR_OK);
    CHECK(object_put(store, "b", bytes.text, bytes.size, &err) == ERR_QUOTA);
    CHECK(strstr(err.text, "b: "));
    CHECK(object_put_if_absent(store, "b", bytes.text, bytes.size, &err) == ERR_QUOTA);
    CHECK(object_delete(store, "a", NULL) == ERR_OK);
    CHECK(object_put(store, "b", bytes.text, bytes.size, &err) == ERR_OK); /* nothing was left */
    object_close(store);
    return 0;
}

static void test_a_full_disk_is_a_quota_error_and_leaves_nothing(void **state)
{
    struct folder *folder = *state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(fill_disk(folder->path));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_a_held_lock_is_waited_for_only_so_long(void **state)
{
    struct folder *folder = *state;
    struct object_store *store = open_store(folder->path);
    put(store, "a");
    AUTO_FREE char *path = path_of(folder, ",lock");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(object_put(store, "a", "y", 1, NULL), ERR_AGAIN);
    assert_int_equal(object_delete(store, "a", NULL), ERR_AGAIN);
    assert_int_equal(object_put_if_absent(store, "b", "y", 1, NULL), ERR_OK); /* needs none */
    close(fd);
    assert_int_equal(object_put(store, "a", "y", 1, NULL), ERR_OK);
    object_close(store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_file_names_are_readable),
        TEST(test_names_of_others_are_not_taken_for_keys),
        TEST(test_strange_files_do_no_harm),
        TEST(test_files_are_private_and_emptied_folders_go),
        TEST(test_litter_of_the_dead_is_removed_that_of_the_living_stays),
        TEST(test_etags_differ_even_where_puts_take_no_time),
        TEST(test_etags_differ_even_where_the_clock_is_set_back),
        TEST(test_put_if_match_loses_no_update_between_processes),
        TEST(test_a_killed_writer_leaves_whole_objects_and_no_litter),
        TEST(test_a_full_disk_is_a_quota_error_and_leaves_nothing),
        TEST(test_a_held_lock_is_waited_for_only_so_long),
    };
    return cmocka_run_group_tests_name("object directory", tests, NULL, NULL);
}
