#include "base/rng.h"
#include "core/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct fact random_fact(struct rng *rng)
{
    return (struct fact){.kind = (enum fact_kind)(1 + rng_below(rng, FACT_KIND_COUNT - 1)),
                         .workflow = (uint32_t)rng_next(rng),
                         .experiment = (uint32_t)(rng_next(rng) >> rng_below(rng, 64)),
                         .task = rng_next(rng) >> rng_below(rng, 64),
                         .attempt = (uint32_t)rng_below(rng, 65536),
                         .term = (uint32_t)rng_next(rng),
                         .node = (uint32_t)(rng_next(rng) >> rng_below(rng, 64)),
                         .outcome = (uint32_t)rng_below(rng, 10),
                         .code = (uint32_t)rng_below(rng, 256),
                         .flags = (uint32_t)rng_below(rng, 8),
                         .at_ms = (int64_t)(rng_next(rng) >> 22),
                         .started_ms = (int64_t)(rng_next(rng) >> 22),
                         .duration_ms = (int64_t)(rng_next(rng) >> 24),
                         .due_ms = (int64_t)(rng_next(rng) >> 22)};
}

static void test_facts_read_back_and_are_small(void **state)
{
    (void)state;
    struct rng rng = {.state = 5};
    for (int i = 0; i < 100000; i++) {
        struct fact fact = random_fact(&rng);
        uint8_t bytes[FACT_BYTES_MAX];
        size_t size = fact_encode(&fact, bytes);
        struct fact back;
        size_t used = 0;
        assert_int_equal(fact_decode(bytes, size, &back, &used, NULL), ERR_OK);
        assert_int_equal(used, size);
        uint8_t again[FACT_BYTES_MAX];
        assert_int_equal(fact_encode(&back, again), size);
        assert_memory_equal(again, bytes, size);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(fact_decode(bytes, cut, &back, &used, NULL), ERR_CORRUPT);
        }
    }
}

static void test_a_usual_task_costs_about_forty_bytes_of_log(void **state)
{
    (void)state;
    struct fact assigned = {.kind = FACT_ASSIGNED,
                            .workflow = 1,
                            .task = 999999,
                            .attempt = 1,
                            .term = 3,
                            .at_ms = 1794735356123};
    struct fact accepted = {.kind = FACT_ACCEPTED,
                            .workflow = 1,
                            .task = 999999,
                            .attempt = 1,
                            .flags = 1,
                            .started_ms = 1794735356123,
                            .duration_ms = 61000};
    uint8_t bytes[FACT_BYTES_MAX];
    assert_in_range(fact_encode(&assigned, bytes) + fact_encode(&accepted, bytes), 1, 40);
}

static void test_numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    struct fact fact;
    size_t used = 0;
    uint8_t too_wide[] = {FACT_TERM, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00};
    assert_int_equal(fact_decode(too_wide, sizeof too_wide, &fact, &used, NULL), ERR_CORRUPT);
    uint8_t endless[32];
    memset(endless, 0xff, sizeof endless);
    endless[0] = FACT_SKIPPED;
    assert_int_equal(fact_decode(endless, sizeof endless, &fact, &used, NULL), ERR_CORRUPT);
    uint8_t no_kind[] = {0, 1, 2};
    assert_int_equal(fact_decode(no_kind, sizeof no_kind, &fact, &used, NULL), ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_read_back_and_are_small),
        cmocka_unit_test(test_a_usual_task_costs_about_forty_bytes_of_log),
        cmocka_unit_test(test_numbers_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("fact", tests, NULL, NULL);
}
