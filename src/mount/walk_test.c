#include "mount/walk.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void list_folders(struct walk *walk, uint64_t count, bool looks)
{
    for (uint64_t folder = 1; folder <= count; folder++) {
        walk_probe(walk, folder, "first");
        if (looks) {
            walk_looked_up(walk, folder, "first");
        }
    }
}

static void test_who_only_lists_gets_names_after_a_while(void **state)
{
    (void)state;
    struct walk walk = {0};
    assert_false(walk_wants_names_only(&walk));
    list_folders(&walk, WALK_SILENT - 1, false);
    assert_false(walk_wants_names_only(&walk));
    list_folders(&walk, 1000, false);
    assert_true(walk_wants_names_only(&walk));
}

static void test_who_looks_gets_attributes(void **state)
{
    (void)state;
    struct walk walk = {0};
    list_folders(&walk, 1000, true);
    assert_false(walk_wants_names_only(&walk));
    list_folders(&walk, 100, false);
    walk_looked_up(&walk, 100, "second");
    walk_looked_up(&walk, 5000, "first");
    assert_true(walk_wants_names_only(&walk)); /* that was no probe */
    walk_looked_up(&walk, 100, "first");
    assert_false(walk_wants_names_only(&walk));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_only_lists_gets_names_after_a_while),
        cmocka_unit_test(test_who_looks_gets_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
