#include "base/mem.h"
#include "base/rng.h"
#include "recipe/dag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES = 12 };

/* The plainest form: edge[i][j] when i waits for j. */
struct model {
    bool edge[NODES][NODES];
    uint32_t deps[NODES][NODES];
    const uint32_t *rows[NODES];
    size_t counts[NODES];
    struct dag dag;
};

static void finish(struct model *model, size_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        model->counts[i] = 0;
        for (uint32_t j = 0; j < count; j++) {
            if (model->edge[i][j]) {
                model->deps[i][model->counts[i]++] = j;
            }
        }
        model->rows[i] = model->deps[i];
    }
    model->dag = (struct dag){.count = count, .deps = model->rows, .dep_counts = model->counts};
}

static void test_the_order_follows_the_numbers_where_it_can(void **state)
{
    (void)state;
    struct model model = {0};
    model.edge[0][3] = model.edge[1][0] = true;
    finish(&model, 5);
    uint32_t order[NODES];
    assert_true(dag_order(&model.dag, order));
    const uint32_t expected[] = {2, 3, 0, 1, 4};
    assert_memory_equal(order, expected, sizeof expected);
}

static void test_a_cycle_is_named_from_its_lowest_member(void **state)
{
    (void)state;
    struct model model = {0};
    model.edge[0][5] = true; /* leads to the cycle, is not part of it */
    model.edge[5][2] = model.edge[2][4] = model.edge[4][5] = true;
    finish(&model, 6);
    uint32_t order[NODES];
    uint32_t cycle[NODES];
    assert_false(dag_order(&model.dag, order));
    assert_int_equal(dag_cycle(&model.dag, cycle), 3);
    const uint32_t expected[] = {2, 4, 5};
    assert_memory_equal(cycle, expected, sizeof expected);
    struct model self = {0};
    self.edge[1][1] = true;
    finish(&self, 2);
    assert_int_equal(dag_cycle(&self.dag, cycle), 1);
    assert_int_equal(cycle[0], 1);
}

static void check_against_model(const struct model *model, size_t count)
{
    bool reach[NODES][NODES];
    memcpy(reach, model->edge, sizeof reach);
    for (size_t k = 0; k < count; k++) { /* Warshall */
        for (size_t i = 0; i < count; i++) {
            for (size_t j = 0; j < count; j++) {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    bool cyclic = false;
    for (size_t i = 0; i < count; i++) {
        cyclic |= reach[i][i];
    }
    uint32_t order[NODES];
    assert_int_equal(dag_order(&model->dag, order), !cyclic);
    if (cyclic) {
        uint32_t cycle[NODES];
        size_t size = dag_cycle(&model->dag, cycle);
        for (size_t i = 0; i < size; i++) {
            assert_true(model->edge[cycle[i]][cycle[(i + 1) % size]]);
            assert_true(cycle[i] >= cycle[0]);
        }
        return;
    }
    AUTO_FREE uint64_t *closure = dag_closure(&model->dag, order);
    bool done[NODES] = {false};
    for (size_t at = 0; at < count; at++) {
        for (uint32_t j = 0; j < count; j++) {
            assert_true(!model->edge[order[at]][j] || done[j]);
            assert_int_equal(dag_reaches(&model->dag, closure, order[at], j), reach[order[at]][j]);
        }
        done[order[at]] = true;
    }
}

static void test_random_graphs_match_the_model(void **state)
{
    (void)state;
    uint64_t seed = 42;
    printf("seed %llu\n", (unsigned long long)seed);
    struct rng rng = {.state = seed};
    for (int round = 0; round < 3000; round++) {
        struct model model = {0};
        size_t count = 1 + rng_below(&rng, NODES);
        for (uint64_t edges = rng_below(&rng, 20); edges > 0; edges--) {
            model.edge[rng_below(&rng, count)][rng_below(&rng, count)] = true;
        }
        finish(&model, count);
        check_against_model(&model, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order_follows_the_numbers_where_it_can),
        cmocka_unit_test(test_a_cycle_is_named_from_its_lowest_member),
        cmocka_unit_test(test_random_graphs_match_the_model),
    };
    return cmocka_run_group_tests_name("dag", tests, NULL, NULL);
}
