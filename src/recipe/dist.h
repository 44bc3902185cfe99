/* dist.h - the distribution of a `range:` parameter, drawn by inverting its cumulative function.
 *
 * One draw takes 64 random bits and no state, costs O(1) and lies inside the range. With a step,
 * draws lie on low, low + step, ... and their text is exact decimal; without one, it is the
 * shortest text that reads back as the same double. The same bits give the same text on every
 * machine. Pure; any thread.
 */
#ifndef RECIPE_DIST_H
#define RECIPE_DIST_H

#include "base/arena.h"
#include "recipe/range.h"
#include "recipe/value.h"

#include <stdbool.h>
#include <stdint.h>

enum dist_shape { DIST_UNIFORM, DIST_LOG, DIST_NORMAL };

/* Filled by the caller up to `lattice`, then completed by dist_prepare. */
struct dist {
    enum dist_shape shape;
    bool stepped;
    double low; /* low < high; -infinity and infinity for a normal without bounds */
    double high;
    double mean;            /* DIST_NORMAL, finite */
    double sd;              /* DIST_NORMAL, finite and above 0 */
    struct lattice lattice; /* where stepped */

    bool mirrored;  /* DIST_NORMAL above its mean: drawn from the lower tail, which is precise */
    double p_low;   /* DIST_LOG: ln low; DIST_NORMAL: cumulative probability at the lower end */
    double p_width; /* and the distance to that of the upper end */
};

/* Returns NULL, or what is wrong with the numbers. */
const char *dist_prepare(struct dist *dist);

/* The draw for these bits; text in the scratch arena. *number is its value as a double. */
struct value dist_draw(const struct dist *dist, uint64_t bits, struct arena *scratch,
                       double *number);

#endif
