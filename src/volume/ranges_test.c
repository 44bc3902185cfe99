#include "volume/ranges.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/container_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { POSITIONS = 200, CONTAINERS = 300 };

static struct rng new_rng(void)
{
    uint64_t seed = rng_seed_from_system();
    printf("seed %llu\n", (unsigned long long)seed);
    return (struct rng){seed};
}

static void compare(const struct ranges *ranges, const bool *model)
{
    uint64_t bytes = 0;
    size_t runs = 0;
    for (uint64_t at = 0; at < POSITIONS; at++) {
        bytes += model[at];
        runs += model[at] && (at == 0 || !model[at - 1]);
        uint64_t end = at;
        while (end < POSITIONS && model[end]) {
            end++;
        }
        assert_int_equal(ranges_covered_to(ranges, at), end);
        uint64_t next = at;
        while (next < POSITIONS && !model[next]) {
            next++;
        }
        assert_int_equal(ranges_next(ranges, at), next == POSITIONS ? UINT64_MAX : next);
    }
    assert_int_equal(ranges->bytes, bytes);
    assert_int_equal(ranges->count, runs);
}

static void test_ranges_are_a_set_of_positions(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    for (int round = 0; round < 30; round++) {
        struct ranges ranges = {0};
        bool model[POSITIONS] = {0};
        for (int step = 0; step < 60; step++) {
            uint64_t begin = rng_below(&rng, POSITIONS);
            uint64_t end = begin + rng_below(&rng, (POSITIONS - begin) / 4 + 2);
            end = end > POSITIONS ? POSITIONS : end;
            bool add = rng_below(&rng, 5) < 3;
            add ? ranges_add(&ranges, begin, end) : ranges_remove(&ranges, begin, end);
            memset(model + begin, add, (size_t)(end - begin));
            compare(&ranges, model);
        }
        ranges_release(&ranges);
    }
    ranges_release(NULL);
}

static void test_a_container_map_keeps_what_is_put(void **state)
{
    (void)state;
    struct rng rng = new_rng();
    struct container_map map = {0};
    int values[CONTAINERS];
    bool there[CONTAINERS] = {0};
    size_t count = 0;
    assert_null(container_map_get(&map, &(struct container){1, 0, 0, 0}));
    container_map_remove(&map, &(struct container){1, 0, 0, 0});
    for (int step = 0; step < 5000; step++) {
        size_t i = (size_t)rng_below(&rng, CONTAINERS);
        struct container container = {(uint8_t)(1 + i % 3), (uint32_t)i / 100, (uint32_t)i / 50,
                                      i / 3};
        bool put = rng_below(&rng, 2) == 0;
        put ? container_map_put(&map, &container, &values[i])
            : container_map_remove(&map, &container);
        count = count - there[i] + put;
        there[i] = put;
        assert_int_equal(map.count, count);
        for (size_t k = 0; step % 50 == 0 && k < CONTAINERS; k++) {
            struct container other = {(uint8_t)(1 + k % 3), (uint32_t)k / 100, (uint32_t)k / 50,
                                      k / 3};
            assert_ptr_equal(container_map_get(&map, &other), there[k] ? &values[k] : NULL);
        }
    }
    container_map_release(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_are_a_set_of_positions),
        cmocka_unit_test(test_a_container_map_keeps_what_is_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
