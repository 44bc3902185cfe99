/* pareto.h - the trials that no other beats in every goal, kept up to date result by result.
 *
 * A trial dominates another if it is at least as good in every goal and better in one. The front is
 * those that nothing dominates; trials with equal values are all on it. A value that is NaN or
 * infinite makes a trial a failure, which is never on the front. The front depends on the set of
 * results alone, not on their order (unless front_max cut it). Pure; O(front * goals) a result;
 * memory for the front alone. One thread.
 */
#ifndef SEARCH_PARETO_H
#define SEARCH_PARETO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARETO_GOALS_MAX = 8, PARETO_FRONT_MAX = 65536 };

enum pareto_change {
    PARETO_FAILED,    /* a value is not finite */
    PARETO_DOMINATED, /* the front is as it was */
    PARETO_EQUAL,     /* on the front beside one with the same values: nothing was gained */
    PARETO_MOVED,     /* on the front, as something new */
    PARETO_FULL,      /* not dominated, but the front has front_max trials */
};

struct pareto_point {
    uint64_t trial;
    double values[PARETO_GOALS_MAX];
};

struct pareto;

/* maximize[i]: goal i is to be large. 1 .. PARETO_GOALS_MAX goals; front_max 0: PARETO_FRONT_MAX.
 */
struct pareto *pareto_create(const bool *maximize, size_t goal_count, size_t front_max);
void pareto_destroy(struct pareto *pareto); /* NULL does nothing */

/* values: one a goal. The same trial is not to be added twice. */
enum pareto_change pareto_add(struct pareto *pareto, uint64_t trial, const double *values);

/* In order of the first goal, best first; then of the second and so on; then of the trial. */
size_t pareto_count(const struct pareto *pareto);
struct pareto_point pareto_at(const struct pareto *pareto, size_t index);

/* A reference point for the hypervolume when the caller has none: in each goal a tenth of the range
 * of all finite results worse than the worst of them. It moves when a worse result comes, so
 * compare volumes only with the same reference. False while there are no results. */
bool pareto_reference(const struct pareto *pareto, double *out);

/* The volume, in the units of the goals multiplied, of all points that some trial of the front is
 * at least as good as and that are better than the reference; trials that are not better than it in
 * every goal add nothing. 1 to 3 goals: O(n), O(n) and O(n^2) for a front of n. NaN for more. */
double pareto_hypervolume(const struct pareto *pareto, const double *reference);

#endif
