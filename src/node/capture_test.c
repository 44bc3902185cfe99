#include "base/io.h"
#include "base/rng.h"
#include "base/str.h"
#include "node/capture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[128];
static char older[128];
static struct capture capture;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/drover-capture-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(older, sizeof older, "%s/log.1", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return io_remove_tree(folder, NULL) == ERR_OK ? 0 : -1;
}

static void assert_holds(const char *file, const char *expected)
{
    AUTO_STR struct str text = {0};
    assert_int_equal(io_read_file(file, 1 << 24, &text, NULL), ERR_OK);
    assert_string_equal(str_text(&text), expected);
}

static void test_a_log_is_made_when_something_is_printed(void **state)
{
    (void)state;
    capture_begin(&capture, path, 0);
    assert_int_equal(access(path, F_OK), -1);
    capture_add(&capture, "now", 3);
    assert_holds(path, "now");
    capture_end(&capture);
    assert_int_equal(access(older, F_OK), -1);
}

static void test_logs_of_an_earlier_life_are_gone_even_if_nothing_is_printed(void **state)
{
    (void)state;
    assert_int_equal(io_replace_file(path, "old", 3, 0644, NULL), ERR_OK);
    assert_int_equal(io_replace_file(older, "older", 5, 0644, NULL), ERR_OK);
    capture_begin(&capture, path, 0);
    capture_end(&capture);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(older, F_OK), -1);
}

static void test_logs_of_an_earlier_life_are_replaced(void **state)
{
    (void)state;
    assert_int_equal(io_replace_file(path, "old", 3, 0644, NULL), ERR_OK);
    assert_int_equal(io_replace_file(older, "older", 5, 0644, NULL), ERR_OK);
    capture_begin(&capture, path, 0);
    capture_add(&capture, "new", 3);
    capture_end(&capture);
    assert_holds(path, "new");
    assert_int_equal(access(older, F_OK), -1);
}

/* Whatever is printed, the two files together are its end, whole halves apart. */
static void test_what_is_kept_is_the_end_and_the_rest_is_counted(void **state)
{
    (void)state;
    struct rng rng = {.state = rng_seed_from_system()};
    printf("seed %llu\n", (unsigned long long)rng.state);
    for (int round = 0; round < 50; round++) {
        AUTO_STR struct str all = {0};
        AUTO_STR struct str kept = {0};
        uint64_t limit = 8192 + rng_below(&rng, 20000);
        capture_begin(&capture, path, limit);
        for (uint64_t chunks = rng_below(&rng, 12); chunks > 0; chunks--) {
            char bytes[9000];
            size_t size = rng_below(&rng, sizeof bytes);
            for (size_t i = 0; i < size; i++) {
                bytes[i] = (char)('a' + rng_below(&rng, 26));
            }
            capture_add(&capture, bytes, size);
            str_add_bytes(&all, bytes, size);
        }
        capture_end(&capture);
        (void)!io_read_file(older, 1 << 24, &kept, NULL);
        enum err_code code = io_read_file(path, 1 << 24, &kept, NULL);
        assert_int_equal(code, all.size > 0 ? ERR_OK : ERR_NOT_FOUND);
        assert_true(kept.size <= limit);
        assert_int_equal(capture.total_bytes, all.size);
        assert_int_equal(capture.dropped_bytes, all.size - kept.size);
        assert_true(all.size < limit / 2 || kept.size >= limit / 2);
        assert_string_equal(str_text(&kept), str_text(&all) + all.size - kept.size);
    }
}

static void test_a_missing_folder_drops_and_counts(void **state)
{
    (void)state;
    char nowhere[160];
    snprintf(nowhere, sizeof nowhere, "%s/none/log", folder);
    capture_begin(&capture, nowhere, 100);
    capture_add(&capture, "gone", 4);
    capture_end(&capture);
    assert_int_equal(capture.total_bytes, 4);
    assert_int_equal(capture.dropped_bytes, 4);
}

static void test_a_disk_that_is_full_drops_and_counts(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) { /* a limit on file size stands for a full disk */
        struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        capture_begin(&capture, path, 0);
        capture_add(&capture, "0123456789abcdef", 16);
        capture_add(&capture, "more", 4);
        capture_end(&capture);
        _exit(capture.total_bytes == 20 && capture.dropped_bytes == 10 ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_holds(path, "0123456789");
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(test_a_log_is_made_when_something_is_printed),
        WITH_FOLDER(test_logs_of_an_earlier_life_are_gone_even_if_nothing_is_printed),
        WITH_FOLDER(test_logs_of_an_earlier_life_are_replaced),
        WITH_FOLDER(test_what_is_kept_is_the_end_and_the_rest_is_counted),
        WITH_FOLDER(test_a_missing_folder_drops_and_counts),
        WITH_FOLDER(test_a_disk_that_is_full_drops_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
