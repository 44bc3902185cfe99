/* A folder of plain files stands for the kernel's. */
#include "base/io.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void put(const char *name, const char *text)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/%s", root, name);
    char *slash = strrchr(path.text, '/');
    *slash = '\0';
    assert_int_equal(io_make_dirs(path.text, NULL), ERR_OK);
    *slash = '/';
    assert_int_equal(io_replace_file(path.text, text, strlen(text), 0644, NULL), ERR_OK);
}

static void put_own(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "drover-%ld/%s", (long)getpid(), name);
    put(path, text);
}

static void assert_own(const char *name, const char *expected)
{
    AUTO_STR struct str path = {0};
    AUTO_STR struct str text = {0};
    str_addf(&path, "%s/drover-%ld/%s", root, (long)getpid(), name);
    assert_int_equal(io_read_file(str_text(&path), 4096, &text, NULL), ERR_OK);
    assert_memory_equal(str_text(&text), expected, strlen(expected));
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/drover-cgroup-test-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("cgroup.controllers", "cpuset cpu memory pids\n");
    put("cgroup.subtree_control", "");
    put_own("cgroup.subtree_control", "");
    put_own("slot-3/memory.max", "");
    put_own("slot-3/cgroup.procs", "");
    put_own("slot-3/memory.events", "low 0\noom 4\noom_kill 4\n");
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    return io_remove_tree(root, NULL) == ERR_OK ? 0 : -1;
}

static void test_our_group_is_found_in_pure_and_hybrid_mounts(void **state)
{
    (void)state;
    char path[256];
    static const char pure[] = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
    static const char hybrid[] =
        "40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
    assert_int_equal(cgroup_find(pure, "0::/user.slice/a.scope\n", path, sizeof path, NULL),
                     ERR_OK);
    assert_string_equal(path, "/sys/fs/cgroup/user.slice/a.scope");
    assert_int_equal(cgroup_find(hybrid, "9:name=systemd:/\n0::/\n", path, sizeof path, NULL),
                     ERR_OK);
    assert_string_equal(path, "/sys/fs/cgroup/unified");
    assert_int_equal(cgroup_find("", "0::/\n", path, sizeof path, NULL), ERR_NOT_FOUND);
    assert_int_equal(cgroup_find(pure, "4:memory:/x\n", path, sizeof path, NULL), ERR_NOT_FOUND);
    assert_int_equal(cgroup_find(pure, "0::/user.slice\n", path, 8, NULL), ERR_RANGE);
}

static void test_without_a_memory_controller_nothing_is_made(void **state)
{
    (void)state;
    struct cgroup group;
    struct err err = {0};
    put("cgroup.controllers", "cpu memory_other\n");
    assert_int_equal(cgroup_open(&group, root, &err), ERR_UNSUPPORTED);
    assert_string_equal(err.text, "cgroup v2 has no memory controller here");
    assert_false(group.available);
    assert_int_equal(cgroup_open(&group, "", &err), ERR_UNSUPPORTED);
    struct cgroup_slot slot;
    cgroup_slot_open(&group, &slot, 3);
    assert_int_equal(slot.procs_fd, -1);
    cgroup_slot_limit(&group, &slot, 5);
    assert_false(cgroup_slot_was_oom(&group, &slot));
    cgroup_slot_close(&group, &slot);
    cgroup_close(&group);
}

static void test_a_limit_is_written_when_it_changes(void **state)
{
    (void)state;
    struct cgroup group;
    struct cgroup_slot slot;
    struct err err = {0};
    assert_int_equal(cgroup_open(&group, root, &err), ERR_OK);
    cgroup_slot_open(&group, &slot, 3);
    assert_true(slot.procs_fd >= 0);
    assert_own("slot-3/memory.max", "max");
    cgroup_slot_limit(&group, &slot, 1 << 20);
    assert_own("slot-3/memory.max", "1048576");
    put_own("slot-3/memory.max", "untouched");
    cgroup_slot_limit(&group, &slot, 1 << 20);
    assert_own("slot-3/memory.max", "untouched");
    cgroup_slot_limit(&group, &slot, 0);
    assert_own("slot-3/memory.max", "max");
    cgroup_slot_close(&group, &slot);
    cgroup_close(&group);
}

static void test_out_of_memory_is_a_count_that_grew(void **state)
{
    (void)state;
    struct cgroup group;
    struct cgroup_slot slot;
    struct err err = {0};
    assert_int_equal(cgroup_open(&group, root, &err), ERR_OK);
    cgroup_slot_open(&group, &slot, 3);
    assert_false(cgroup_slot_was_oom(&group, &slot));
    put_own("slot-3/memory.events", "low 0\noom 5\noom_kill 5\noom_group_kill 0\n");
    assert_true(cgroup_slot_was_oom(&group, &slot));
    assert_false(cgroup_slot_was_oom(&group, &slot));
    cgroup_slot_close(&group, &slot);
    cgroup_close(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_our_group_is_found_in_pure_and_hybrid_mounts,
                                        make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_without_a_memory_controller_nothing_is_made, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(test_a_limit_is_written_when_it_changes, make_root,
                                        remove_root),
        cmocka_unit_test_setup_teardown(test_out_of_memory_is_a_count_that_grew, make_root,
                                        remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
