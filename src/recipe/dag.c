#include "recipe/dag.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static bool waits_for(const struct dag *dag, size_t node, uint32_t other)
{
    size_t low = 0;
    size_t high = dag->dep_counts[node];
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (dag->deps[node][middle] == other) {
            return true;
        }
        if (dag->deps[node][middle] < other) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

/* Places what can be placed, lowest number first; returns how many. After each one the search
 * starts over, so that what it set free comes at its number. */
static size_t place_all(const struct dag *dag, bool *placed, uint32_t *order)
{
    AUTO_FREE size_t *missing = mem_dup(dag->dep_counts, dag->count * sizeof *missing);
    size_t placed_count = 0;
    for (size_t node = 0; node < dag->count;) {
        if (placed[node] || missing[node] > 0) {
            node++;
            continue;
        }
        for (size_t other = 0; other < dag->count; other++) {
            missing[other] -= waits_for(dag, other, (uint32_t)node);
        }
        placed[node] = true;
        if (order) {
            order[placed_count] = (uint32_t)node;
        }
        placed_count++;
        node = 0;
    }
    return placed_count;
}

bool dag_order(const struct dag *dag, uint32_t *order)
{
    AUTO_FREE bool *placed = mem_array(dag->count, sizeof *placed);
    return place_all(dag, placed, order) == dag->count;
}

/* A node that cannot be placed waits for another such node. */
static uint32_t first_unplaced_dep(const struct dag *dag, const bool *placed, size_t node)
{
    size_t i = 0;
    while (i < dag->dep_counts[node] && placed[dag->deps[node][i]]) {
        i++;
    }
    CHECK(i < dag->dep_counts[node]);
    return dag->deps[node][i];
}

/* Turns the ring so that its lowest number comes first. */
static void rotate_lowest_first(uint32_t *ring, size_t count)
{
    size_t lowest = 0;
    for (size_t i = 1; i < count; i++) {
        if (ring[i] < ring[lowest]) {
            lowest = i;
        }
    }
    AUTO_FREE uint32_t *copy = mem_dup(ring, count * sizeof *ring);
    for (size_t i = 0; i < count; i++) {
        ring[i] = copy[(lowest + i) % count];
    }
}

size_t dag_cycle(const struct dag *dag, uint32_t *cycle)
{
    AUTO_FREE bool *placed = mem_array(dag->count, sizeof *placed);
    CHECK(place_all(dag, placed, NULL) < dag->count);
    AUTO_FREE size_t *step_of = mem_array(dag->count, sizeof *step_of); /* from 1 */
    size_t node = 0;
    while (placed[node]) {
        node++;
    }
    size_t steps = 0;
    while (step_of[node] == 0) { /* what cannot be placed leads, in the end, round a cycle */
        cycle[steps++] = (uint32_t)node;
        step_of[node] = steps;
        node = first_unplaced_dep(dag, placed, node);
    }
    size_t first = step_of[node] - 1;
    memmove(cycle, cycle + first, (steps - first) * sizeof *cycle);
    rotate_lowest_first(cycle, steps - first);
    return steps - first;
}

static size_t words_per_row(const struct dag *dag)
{
    return (dag->count + 63) / 64;
}

uint64_t *dag_closure(const struct dag *dag, const uint32_t *order)
{
    size_t words = words_per_row(dag);
    uint64_t *closure = mem_array(dag->count * words, sizeof *closure);
    for (size_t at = 0; at < dag->count; at++) {
        uint64_t *row = closure + order[at] * words;
        for (size_t i = 0; i < dag->dep_counts[order[at]]; i++) {
            uint32_t dep = dag->deps[order[at]][i];
            row[dep / 64] |= UINT64_C(1) << (dep % 64);
            for (size_t word = 0; word < words; word++) {
                row[word] |= closure[dep * words + word];
            }
        }
    }
    return closure;
}

bool dag_reaches(const struct dag *dag, const uint64_t *closure, uint32_t from, uint32_t to)
{
    return closure[from * words_per_row(dag) + to / 64] >> (to % 64) & 1;
}
