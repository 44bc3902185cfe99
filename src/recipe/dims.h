/* dims.h - a space of parameters as a search sees it: dimensions in which to move, and the way
 * back from a point to the arguments of a task.
 *
 * Each parameter is one dimension, but parameters of one `zip:` group are one together. Dimensions
 * are in an order in which conditions can be settled: whether one is present depends on earlier
 * ones alone. (The members of a zip group whose conditions lead back to the group itself cannot be
 * settled so; such a dimension is always present, and only its members may be absent.)
 *
 * A point says for each dimension whether it is present and where in it: an index below `count`
 * where that is above 0, a number otherwise. The same point gives the same arguments, to the bit,
 * on every machine. Pure; read-only once made; lives in the arena and borrows the space, whose
 * files must be bound first.
 */
#ifndef RECIPE_DIMS_H
#define RECIPE_DIMS_H

#include "recipe/expr.h"
#include "recipe/space.h"

enum dims_kind {
    DIMS_UNIFORM, /* low to high; with count > 0 the numbers low + index * step */
    DIMS_LOG,     /* the same, even in the logarithm */
    DIMS_NORMAL,  /* mean and sd, cut off at low and high, which may be infinite */
    DIMS_CATEGORICAL,
    DIMS_ORDERED, /* neighbours are alike */
    DIMS_FIXED,   /* one value: count is 1 */
};

struct dims_dim {
    const char *name; /* of the parameter; of a group: "a+b" */
    enum dims_kind kind;
    double low;
    double high;
    double mean;
    double sd;
    double step;
    uint64_t count; /* 0: continuous */

    bool conditional; /* may be absent: dims_present says */
    /* Where that is a matter of one earlier dimension alone, has_parent is set: it is present iff
     * the parent is, at one of the indices when[0..when_count), which ascend. */
    bool has_parent;
    size_t parent;
    const uint64_t *when;
    size_t when_count;
};

enum { DIMS_WHEN_MAX = 65536 }; /* values of a parent that when[] is made for */

struct dims_point {
    bool present;
    uint64_t index;
    double number; /* of a range: its value; otherwise not looked at */
};

struct dims;

/* Memory: a few hundred bytes a parameter, and 8 for each value that a when[] lists. */
struct dims *dims_create(struct arena *arena, const struct space *space);

size_t dims_count(const struct dims *dims);
const struct dims_dim *dims_at(const struct dims *dims, size_t dim);

/* Whether dimension `dim` is there, by the points of those before it. */
bool dims_present(const struct dims *dims, size_t dim, const struct dims_point *points);

/* Whether a condition over the space's parameters holds at these points, all of them given. One
 * that mentions an absent parameter holds: it has nothing to say there. */
bool dims_holds(const struct dims *dims, const struct expr *expr, const struct dims_point *points);

/* Whether these points can be a trial at all: presence as the conditions say, indices and numbers
 * in their ranges. For points that come from a disk. Returns NULL, or the name of the first
 * dimension that is wrong. */
const char *dims_misfit(const struct dims *dims, const struct dims_point *points);

/* The arguments at these points, which fit: out[0..space_param_count). Text lives in the scratch
 * arena or the space. A number is written as the shortest text that reads back as the same. */
void dims_arguments(const struct dims *dims, const struct dims_point *points, struct value *out,
                    struct arena *scratch);

/* Some points that fit, drawn by these bits: an example, and tests. */
void dims_example(const struct dims *dims, uint64_t key, struct dims_point *points);

#endif
