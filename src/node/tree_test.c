#include "node/testing.h"
#include "node/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WIDTH = 3, DEPTH = 3, TREE_SIZE = 3 + 9 + 27 };

static pid_t start_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind either */
    }
    return pid;
}

/* Each process of the tree writes one byte when its own children have been made. */
static void grow(int depth, int ready)
{
    for (int i = 0; i < WIDTH; i++) {
        if (start_process() == 0) {
            if (depth % 2 == 0) {
                setsid();
            }
            if (depth > 1) {
                grow(depth - 1, ready);
            }
            (void)!write(ready, "", 1);
            for (;;) {
                pause();
            }
        }
    }
}

static void grow_tree(void)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    grow(DEPTH, ends[1]);
    for (int i = 0; i < TREE_SIZE; i++) {
        assert_int_equal(read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
}

static void assert_tree_is_found_and_killed(void)
{
    grow_tree();
    assert_int_equal(tree_signal(0, NULL), TREE_SIZE);
    int64_t cpu_us = 0;
    assert_true(tree_kill(NULL, 5000, &cpu_us));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_all_descendants_are_found_and_killed(void **state)
{
    (void)state;
    assert_tree_is_found_and_killed();
}

static void test_so_they_are_on_a_kernel_without_children_files(void **state)
{
    (void)state;
    tree_set_fast(false);
    assert_tree_is_found_and_killed();
    tree_set_fast(true);
}

static void test_those_spared_live_on(void **state)
{
    (void)state;
    pid_t in_session = start_process();
    if (in_session == 0) {
        for (;;) {
            pause();
        }
    }
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t apart[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        apart[i] = start_process();
        if (apart[i] == 0) {
            setsid();
            (void)!write(ends[1], "", 1);
            for (;;) {
                pause();
            }
        }
        assert_int_equal(read(ends[0], &byte, 1), 1);
    }
    close(ends[0]);
    close(ends[1]);
    struct tree_spare spare = {.session = getsid(0), .pids = &apart[0], .count = 1};
    int64_t cpu_us = 0;
    assert_true(tree_kill(&spare, 5000, &cpu_us));
    assert_int_equal(kill(in_session, 0), 0);
    assert_int_equal(kill(apart[0], 0), 0);
    assert_int_equal(kill(apart[1], 0), -1);
    assert_true(tree_kill(NULL, 5000, &cpu_us));
    assert_int_equal(kill(in_session, 0), -1);
}

static void test_a_number_that_passed_to_a_stranger_is_not_signalled(void **state)
{
    (void)state;
    int ends[2];
    pid_t grandchild = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = start_process();
    if (child == 0) {
        pid_t pid = start_process();
        if (pid > 0) {
            (void)!write(ends[1], &pid, sizeof pid);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ends[0], &grandchild, sizeof grandchild), sizeof grandchild);
    close(ends[0]);
    close(ends[1]);
    tree_signal_one(grandchild, child + 100000, SIGKILL);
    assert_false(testing_is_gone_within(grandchild, 50));
    tree_signal_one(grandchild, child, SIGKILL);
    assert_true(testing_is_gone_within(grandchild, 5000));
    int64_t cpu_us = 0;
    assert_true(tree_kill(NULL, 5000, &cpu_us));
}

int main(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_descendants_are_found_and_killed),
        cmocka_unit_test(test_so_they_are_on_a_kernel_without_children_files),
        cmocka_unit_test(test_those_spared_live_on),
        cmocka_unit_test(test_a_number_that_passed_to_a_stranger_is_not_signalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
