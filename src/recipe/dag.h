/* dag.h - which experiment may run after which. Pure; the same edges give the same answers. */
#ifndef RECIPE_DAG_H
#define RECIPE_DAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Node i waits for deps[i][0..dep_counts[i]): numbers below count, ascending, no repeats. Borrowed.
 */
struct dag {
    size_t count;
    const uint32_t *const *deps;
    const size_t *dep_counts;
};

/* Fills order[0..count) so that each node comes after those it waits for, and is otherwise as early
 * as its number. False when there is a cycle; then order is not meaningful. */
bool dag_order(const struct dag *dag, uint32_t *order);

/* One cycle of a graph that has one: cycle[0] waits for cycle[1], and so on; the last waits for the
 * first, which has the lowest number of them. cycle has room for count. Returns its length. */
size_t dag_cycle(const struct dag *dag, uint32_t *cycle);

/* For a graph without cycles: a bit matrix of what waits for what, directly or not. The caller
 * frees it. */
uint64_t *dag_closure(const struct dag *dag, const uint32_t *order);
bool dag_reaches(const struct dag *dag, const uint64_t *closure, uint32_t from, uint32_t to);

#endif
