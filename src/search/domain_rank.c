#include "search/domain.h"

#include "base/check.h"

#include <math.h>

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t axis_count(const struct dim *dim, uint32_t levels)
{
    return dim->discrete ? dim->param.count : levels;
}

static bool in_when(const struct dim *child, uint64_t index)
{
    for (size_t i = 0; i < child->param.when_count; i++) {
        if (child->param.when[i] == index) {
            return true;
        }
    }
    return false;
}

static uint64_t tree_count(const struct domain *space, size_t at, uint32_t levels);

/* Combinations of all that is present where `at` has this value. */
static uint64_t branch_count(const struct domain *space, size_t at, uint64_t index, uint32_t levels)
{
    const struct dim *dim = &space->dims[at];
    uint64_t count = 1;
    for (size_t i = 0; i < dim->child_count; i++) {
        if (in_when(&space->dims[dim->children[i]], index)) {
            count = times(count, tree_count(space, dim->children[i], levels));
        }
    }
    return count;
}

/* Conditions do not run in circles, so this ends; its depth is that of the conditions. */
// NOLINTNEXTLINE(misc-no-recursion)
static uint64_t tree_count(const struct domain *space, size_t at, uint32_t levels)
{
    const struct dim *dim = &space->dims[at];
    if (dim->child_count == 0) {
        return axis_count(dim, levels);
    }
    uint64_t count = 0;
    for (uint64_t index = 0; index < dim->param.count; index++) {
        count = plus(count, branch_count(space, at, index, levels));
    }
    return count;
}

uint64_t domain_rank_count(const struct domain *space, uint32_t levels)
{
    uint64_t count = 1;
    for (size_t i = 0; i < space->count; i++) {
        if (!space->dims[i].param.conditional) {
            count = times(count, tree_count(space, i, levels));
        }
    }
    return count;
}

static double level_coordinate(const struct dim *dim, uint32_t levels, uint64_t index)
{
    if (dim->nominal) {
        return (double)index;
    }
    if (dim->discrete) {
        struct search_value value = {.present = true, .index = index};
        return domain_coordinate(dim, &value);
    }
    bool endless = !isfinite(dim->param.low) || !isfinite(dim->param.high);
    if (levels == 1 || endless) {
        return ((double)index + 0.5) / levels;
    }
    return (double)index / (levels - 1);
}

static void place(const struct domain *space, size_t at, uint32_t levels, uint64_t rank,
                  double *point);

/* Splits rank among the children that are present beside this value. */
static void place_children(const struct domain *space, size_t at, uint64_t index, uint32_t levels,
                           uint64_t rank, double *point)
{
    const struct dim *dim = &space->dims[at];
    for (size_t i = 0; i < dim->child_count; i++) {
        size_t child = dim->children[i];
        if (in_when(&space->dims[child], index)) {
            uint64_t count = tree_count(space, child, levels);
            CHECK(count > 0);
            place(space, child, levels, rank % count, point);
            rank /= count;
        }
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void place(const struct domain *space, size_t at, uint32_t levels, uint64_t rank,
                  double *point)
{
    const struct dim *dim = &space->dims[at];
    uint64_t index = rank;
    if (dim->child_count > 0) {
        index = 0;
        for (uint64_t part = branch_count(space, at, 0, levels); rank >= part;
             part = branch_count(space, at, index, levels)) {
            rank -= part;
            index++;
        }
        place_children(space, at, index, levels, rank, point);
    }
    point[at] = level_coordinate(dim, levels, index);
}

/* Of the ranks that differ only in what `present` takes away, the one with first values counts. */
static bool stands_for_itself(const struct domain *space, uint32_t levels, double *point)
{
    struct search_value values[SEARCH_PARAMS_MAX];
    double safe[SEARCH_PARAMS_MAX];
    for (size_t i = 0; i < space->count; i++) {
        safe[i] = isnan(point[i]) ? 0 : point[i];
    }
    domain_values(space, safe, values);
    for (size_t i = 0; i < space->count; i++) {
        if (!values[i].present && !isnan(point[i])) {
            if (point[i] > level_coordinate(&space->dims[i], levels, 0)) {
                return false;
            }
            point[i] = NAN;
        }
    }
    return true;
}

bool domain_unrank(const struct domain *space, uint32_t levels, uint64_t rank, double *point)
{
    for (size_t i = 0; i < space->count; i++) {
        point[i] = NAN;
    }
    for (size_t i = 0; i < space->count; i++) {
        if (!space->dims[i].param.conditional) {
            uint64_t count = tree_count(space, i, levels);
            CHECK(count > 0);
            place(space, i, levels, rank % count, point);
            rank /= count;
        }
    }
    return !space->present || stands_for_itself(space, levels, point);
}
