/* grid.h - counting and unranking the combinations of discrete parameters, with conditions.
 *
 * Parameters that conditions of discrete parameters mention are controllers. Which parameters are
 * present depends on them alone, so the combinations fall into groups, one for each distinct
 * assignment of the controllers, and each group is a plain product. A table of at most
 * GRID_ASSIGNMENTS_MAX group sizes, summed up, turns a rank into its group by bisection; the rest
 * is division. Part of the space module; see space_internal.h.
 */
#ifndef RECIPE_GRID_H
#define RECIPE_GRID_H

#include "recipe/space_internal.h"

enum {
    GRID_ASSIGNMENTS_MAX = 65536,
    GRID_STEPS_MAX = 1 << 26, /* assignments times the length of all conditions */
};

/* Marks controllers and lists their values. False with a diagnosis when there are too many. */
bool grid_prepare(struct space *space, struct diag_list *diags);

/* Counts, once every axis has its count. Sets grid.code and, if that is ERR_OK, grid.size. */
void grid_build(struct space *space);

/* The axis positions at[] of combination rank < grid.size, and which discrete parameters are
 * present. With no conditions present[] is not touched. vars[] gets what conditions see of the
 * controllers. */
void grid_unrank(const struct space *space, uint64_t rank, uint64_t *at, bool *present,
                 struct expr_value *vars);

#endif
