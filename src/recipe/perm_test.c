#include "recipe/perm.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_every_small_count_is_a_bijection(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 600; count++) {
        for (uint64_t key = 0; key < 3; key++) {
            unsigned char seen[600] = {0};
            for (uint64_t i = 0; i < count; i++) {
                uint64_t image = perm_at(count, key * 77, i);
                assert_true(image < count);
                assert_int_equal(seen[image], 0);
                seen[image] = 1;
                assert_int_equal(perm_inverse(count, key * 77, image), i);
            }
        }
    }
}

static void test_huge_counts_can_be_inverted(void **state)
{
    (void)state;
    struct rng rng = {.state = 5};
    for (int i = 0; i < 20000; i++) {
        int bits = 1 + (int)rng_below(&rng, 63);
        uint64_t count = (rng_next(&rng) >> (64 - bits)) + 1;
        count = i % 7 == 0 ? PERM_COUNT_MAX : count;
        uint64_t key = rng_next(&rng);
        uint64_t index = rng_below(&rng, count);
        uint64_t image = perm_at(count, key, index);
        assert_true(image < count);
        assert_int_equal(perm_inverse(count, key, image), index);
    }
    assert_int_equal(
        perm_inverse(PERM_COUNT_MAX, 1, perm_at(PERM_COUNT_MAX, 1, PERM_COUNT_MAX - 1)),
        PERM_COUNT_MAX - 1);
}

/* The number of the permutation in lexicographic order. */
static unsigned rank_of(uint64_t count, uint64_t key)
{
    unsigned rank = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned smaller = 0;
        for (uint64_t j = i + 1; j < count; j++) {
            smaller += perm_at(count, key, j) < perm_at(count, key, i);
        }
        rank = rank * (unsigned)(count - i) + smaller;
    }
    return rank;
}

/* Chi-square against its mean (the degrees of freedom) plus five standard deviations. */
static void assert_uniform(const unsigned *cells, size_t count, double total)
{
    double expected = total / (double)count;
    double chi_square = 0;
    for (size_t i = 0; i < count; i++) {
        chi_square += (cells[i] - expected) * (cells[i] - expected) / expected;
    }
    double freedom = (double)count - 1;
    assert_true(chi_square < freedom + 5 * sqrt(2 * freedom) + 5);
}

static void test_every_order_of_a_few_is_equally_likely(void **state)
{
    (void)state;
    static const unsigned orders[] = {1, 1, 2, 6, 24, 120, 720};
    for (uint64_t count = 2; count <= 6; count++) {
        unsigned cells[720] = {0};
        unsigned keys = orders[count] * 100;
        for (uint64_t key = 0; key < keys; key++) {
            cells[rank_of(count, key)]++;
        }
        assert_uniform(cells, orders[count], keys);
    }
}

/* For each start, every image; and for neighbours, every distance: over keys both are uniform. */
static void test_images_and_distances_are_uniform_over_keys(void **state)
{
    (void)state;
    static const uint64_t counts[] = {7, 64, 255, 256, 257, 300, 600, 1000, 1024, 1025};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint64_t count = counts[c];
        unsigned images[1025] = {0};
        unsigned distances[1025] = {0};
        unsigned keys = (unsigned)count * 30;
        for (uint64_t key = 0; key < keys; key++) {
            uint64_t first = perm_at(count, key, count / 3);
            uint64_t second = perm_at(count, key, count / 3 + 1);
            images[first]++;
            distances[(second + count - first) % count - 1]++;
        }
        assert_uniform(images, count, keys);
        assert_uniform(distances, count - 1, keys);
    }
}

static void test_consecutive_elements_do_not_follow_each_other(void **state)
{
    (void)state;
    const uint64_t count = 100003;
    unsigned cells[16 * 16] = {0};
    for (uint64_t i = 0; i + 1 < count; i++) {
        uint64_t here = perm_at(count, 9, i) * 16 / count;
        uint64_t next = perm_at(count, 9, i + 1) * 16 / count;
        cells[here * 16 + next]++;
    }
    assert_uniform(cells, sizeof cells / sizeof cells[0], (double)count - 1);
}

static void test_images_are_pinned(void **state)
{
    (void)state;
    assert_int_equal(perm_at(10, 1, 3), 7);
    assert_int_equal(perm_at(4096, 1, 0), 3131);
    assert_int_equal(perm_at(PERM_COUNT_MAX, 1, 0), UINT64_C(2468633882826775927));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_small_count_is_a_bijection),
        cmocka_unit_test(test_huge_counts_can_be_inverted),
        cmocka_unit_test(test_every_order_of_a_few_is_equally_likely),
        cmocka_unit_test(test_images_and_distances_are_uniform_over_keys),
        cmocka_unit_test(test_consecutive_elements_do_not_follow_each_other),
        cmocka_unit_test(test_images_are_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
