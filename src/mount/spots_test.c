#include "mount/spots.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROOT = 1, A = 10, B = 11, D = 12 };

static int setup(void **state)
{
    *state = spots_create();
    return 0;
}

static int teardown(void **state)
{
    spots_destroy(*state);
    return 0;
}

static void test_a_folder_that_stays_keeps_its_number(void **state)
{
    struct spots *spots = *state;
    assert_int_equal(spots_give(spots, D, A, "d"), D);
    assert_int_equal(spots_give(spots, D, A, "d"), D);
    assert_int_equal(spots_give(spots, D, D, "."), D);
    assert_int_equal(spots_give(spots, D, B, ".."), D);
}

static void test_one_that_is_found_elsewhere_gets_another(void **state)
{
    struct spots *spots = *state;
    uint64_t first = spots_give(spots, D, A, "d");
    uint64_t second = spots_give(spots, D, B, "d");
    uint64_t third = spots_give(spots, D, B, "e");
    assert_true(first != second && second != third && first != third);
    assert_int_equal(spots_inode(second), D);
    assert_int_equal(spots_inode(third), D);
    uint64_t back = spots_give(spots, D, A, "d"); /* where the kernel may have the first still */
    assert_true(back != first && back != second && back != third);
}

static void test_what_the_kernel_has_moved_keeps_its_number(void **state)
{
    struct spots *spots = *state;
    uint64_t number = spots_give(spots, D, A, "d");
    spots_move(spots, D, B, "e");
    assert_int_equal(spots_give(spots, D, B, "e"), number);
    spots_move(spots, B, ROOT, "unknown"); /* it was not told of that one */
    assert_int_equal(spots_count(spots), 1);
}

static void test_what_the_kernel_has_forgotten_is_forgotten(void **state)
{
    struct spots *spots = *state;
    uint64_t first = spots_give(spots, D, A, "d");
    uint64_t second = spots_give(spots, D, B, "d");
    assert_int_equal(spots_give(spots, D, B, "d"), second);
    spots_forget(spots, first, 1);
    spots_forget(spots, second, 1);
    assert_int_equal(spots_count(spots), 1);
    assert_int_equal(spots_give(spots, D, B, "d"), second);
    spots_forget(spots, second, 2);
    assert_int_equal(spots_count(spots), 0);
    spots_forget(spots, second, 2);
}

/* Against a plain array. */
static void test_many_come_and_go(void **state)
{
    enum { INODES = 500, STEPS = 200000 };
    struct spots *spots = *state;
    struct {
        uint64_t number, place, count;
    } *model = mem_array(INODES, sizeof *model);
    struct rng rng = {.state = rng_seed_from_system()};
    printf("# seed %llu\n", (unsigned long long)rng.state);
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = rng_below(&rng, INODES);
        uint64_t inode = (i + 2) * 64; /* so that many have one home */
        uint64_t place = 1 + rng_below(&rng, 3);
        if (rng_below(&rng, 2) == 0) {
            uint64_t number = spots_give(spots, inode, place, "x");
            assert_int_equal(spots_inode(number), inode);
            bool is_same = model[i].count > 0 && model[i].place == place;
            assert_true(model[i].count == 0 || (number == model[i].number) == is_same);
            model[i].count = is_same ? model[i].count + 1 : 1;
            model[i].number = number;
            model[i].place = place;
        } else if (model[i].count > 0 && rng_below(&rng, 3) == 0) {
            spots_move(spots, inode, place, "x");
            model[i].place = place;
        } else if (model[i].count > 0) {
            uint64_t count = 1 + rng_below(&rng, model[i].count);
            spots_forget(spots, model[i].number, count);
            model[i].count -= count;
        }
    }
    size_t held = 0;
    for (size_t i = 0; i < INODES; i++) {
        held += model[i].count > 0;
    }
    assert_int_equal(spots_count(spots), held);
    free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_that_stays_keeps_its_number, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_found_elsewhere_gets_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_the_kernel_has_moved_keeps_its_number, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_the_kernel_has_forgotten_is_forgotten, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_many_come_and_go, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
