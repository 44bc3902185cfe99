/* Includes the source: what to do on a kernel without "children" files cannot be tried otherwise.
 */
#include "node/tree.c" // NOLINT(bugprone-suspicious-include)

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>

#include <cmocka.h>

enum { WIDTH = 3, DEPTH = 3, TREE_SIZE = 3 + 9 + 27 };

/* Each process of the tree writes one byte when its own children have been made. */
static void grow(int depth, int ready)
{
    for (int i = 0; i < WIDTH; i++) {
        if (fork() == 0) {
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

static bool has_member(pid_t pid)
{
    for (size_t i = 0; i < member_count; i++) {
        if (members[i].pid == pid) {
            return true;
        }
    }
    return false;
}

static void test_both_ways_of_looking_find_all_descendants(void **state)
{
    (void)state;
    grow_tree();
    find_members(NULL);
    assert_int_equal(member_count, TREE_SIZE);
    static struct member found[TREE_SIZE];
    memcpy(found, members, sizeof found);
    find_members_slowly(NULL);
    assert_int_equal(member_count, TREE_SIZE);
    for (size_t i = 0; i < TREE_SIZE; i++) {
        assert_true(has_member(found[i].pid));
    }
    int64_t cpu_us = 0;
    assert_true(tree_kill(NULL, 5000, &cpu_us));
    assert_int_equal(wait4(-1, NULL, WNOHANG, NULL), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_those_spared_live_on(void **state)
{
    (void)state;
    pid_t in_session = fork();
    if (in_session == 0) {
        for (;;) {
            pause();
        }
    }
    int ends[2];
    char byte = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t apart[2];
    for (int i = 0; i < 2; i++) {
        apart[i] = fork();
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
    pid_t child = fork();
    if (child == 0) {
        pid_t pid = fork();
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
    struct member stranger = {.pid = grandchild, .parent = child + 100000};
    signal_member(&stranger, SIGKILL);
    struct member own = {.pid = grandchild, .parent = child};
    struct process_stat stat;
    assert_true(read_stat(grandchild, &stat)); /* a dead one would still be there as a zombie... */
    assert_int_equal(stat.parent, child);
    assert_int_equal(stat.state, 'S'); /* ...but not asleep */
    signal_member(&own, SIGKILL);
    int64_t cpu_us = 0;
    assert_true(tree_kill(NULL, 5000, &cpu_us));
}

int main(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_ways_of_looking_find_all_descendants),
        cmocka_unit_test(test_those_spared_live_on),
        cmocka_unit_test(test_a_number_that_passed_to_a_stranger_is_not_signalled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
