#include "recipe/grid.h"

#include "base/check.h"
#include "recipe/perm.h"

#include <inttypes.h>
#include <stdio.h>

static const struct expr_value absent = {.kind = VALUE_ABSENT};

static struct expr_value value_for_conditions(struct space *space, const struct param *param,
                                              uint64_t k)
{
    if (param->form == PARAM_LIST) {
        return expr_value_of(&param->list[k]);
    }
    CHECK(param->form == PARAM_LATTICE);
    char text[RANGE_TEXT_MAX];
    size_t size = lattice_text(&param->lattice, k, text);
    return (struct expr_value){.kind = VALUE_NUMBER,
                               .number = lattice_number(&param->lattice, k),
                               .text = arena_strndup(space->arena, text, size),
                               .size = size};
}

static void mark_controllers(struct space *space)
{
    for (size_t i = 0; i < space->param_count; i++) {
        struct param *param = &space->params[i];
        for (size_t j = 0; j < space->param_count && param->when; j++) {
            bool mentioned = expr_mentions(param->when, j);
            bool controls = mentioned && param->form != PARAM_DRAWN;
            space->params[j].is_mentioned |= mentioned;
            space->params[j].is_controller |= controls;
            if (controls) {
                space->axes[space->params[j].axis].is_controller = true;
            }
        }
    }
}

/* The first parameter on a controlling axis, to have a place for the complaint. */
static const struct ynode *first_controller(const struct space *space)
{
    for (size_t i = 0; i < space->param_count; i++) {
        if (space->params[i].is_controller) {
            return space->params[i].key;
        }
    }
    return space->params[0].key;
}

static bool check_cost(const struct space *space, struct diag_list *diags)
{
    uint64_t assignments = 1;
    for (size_t i = 0; i < space->axis_count; i++) {
        uint64_t count = space->axes[i].is_controller ? space->axes[i].count : 1;
        if (count > GRID_ASSIGNMENTS_MAX || assignments * count > GRID_ASSIGNMENTS_MAX) {
            const struct ynode *place = first_controller(space);
            diag_add(diags, place->line, place->column,
                     "the parameters that conditions mention have more than %d combinations",
                     GRID_ASSIGNMENTS_MAX);
            return false;
        }
        assignments *= count;
    }
    uint64_t steps = 0;
    for (size_t i = 0; i < space->param_count; i++) {
        const struct param *param = &space->params[i];
        steps += param->when && param->form != PARAM_DRAWN ? expr_op_count(param->when) : 0;
    }
    if (assignments * steps > GRID_STEPS_MAX) {
        const struct ynode *place = first_controller(space);
        diag_add(diags, place->line, place->column,
                 "the conditions are too long for the %" PRIu64
                 " combinations of the parameters they mention",
                 assignments);
        return false;
    }
    return true;
}

bool grid_prepare(struct space *space, struct diag_list *diags)
{
    mark_controllers(space);
    if (!check_cost(space, diags)) {
        return false;
    }
    for (size_t i = 0; i < space->param_count; i++) {
        struct param *param = &space->params[i];
        if (param->is_controller) {
            param->known = arena_alloc(space->arena, param->count * sizeof *param->known);
            for (uint64_t k = 0; k < param->count; k++) {
                param->known[k] = value_for_conditions(space, param, k);
            }
        }
    }
    return true;
}

/* Which discrete parameters are present when the controlling axes stand at at[]. */
static void find_present(const struct space *space, const uint64_t *at, bool *present,
                         struct expr_value *vars)
{
    for (size_t i = 0; i < space->param_count; i++) {
        size_t number = space->order[i];
        const struct param *param = &space->params[number];
        if (param->form == PARAM_DRAWN) {
            continue;
        }
        present[number] = !param->when || expr_holds(param->when, vars);
        if (param->is_controller) {
            vars[number] = present[number] ? param->known[at[param->axis]] : absent;
        }
    }
}

static bool axis_is_active(const struct axis *axis, const bool *present)
{
    for (size_t i = 0; i < axis->member_count && axis->can_vanish; i++) {
        if (present[axis->members[i]]) {
            return true;
        }
    }
    return !axis->can_vanish;
}

static void decode_assignment(const struct space *space, uint64_t assignment, uint64_t *at)
{
    for (size_t i = space->axis_count; i-- > 0;) {
        if (space->axes[i].is_controller) {
            at[i] = assignment % space->axes[i].count;
            assignment /= space->axes[i].count;
        }
    }
}

/* How many combinations share this assignment: 0 when it only repeats another one, because a
 * vanished axis stands anywhere but at its start. False when there are more than 2^63. */
static bool count_group(const struct space *space, uint64_t assignment, uint64_t *out)
{
    uint64_t at[SPACE_PARAMS_MAX];
    bool present[SPACE_PARAMS_MAX];
    struct expr_value vars[SPACE_PARAMS_MAX];
    decode_assignment(space, assignment, at);
    find_present(space, at, present, vars);
    uint64_t product = 1;
    bool fits = true;
    bool is_empty = false;
    for (size_t i = 0; i < space->axis_count; i++) {
        const struct axis *axis = &space->axes[i];
        bool active = axis_is_active(axis, present);
        if (axis->is_controller) {
            is_empty |= !active && at[i] != 0;
        } else if (active) {
            is_empty |= axis->count == 0;
            fits = fits && !__builtin_mul_overflow(product, axis->count, &product) &&
                   product <= PERM_COUNT_MAX;
        }
    }
    *out = is_empty ? 0 : product;
    return is_empty || fits;
}

/* Files in a zip group get their count late. */
static bool settle_axes(struct space *space)
{
    for (size_t i = 0; i < space->axis_count; i++) {
        struct axis *axis = &space->axes[i];
        const struct param *first = &space->params[axis->members[0]];
        axis->count = first->count;
        for (size_t j = 1; j < axis->member_count; j++) {
            const struct param *other = &space->params[axis->members[j]];
            if (other->count != first->count) {
                char text[256];
                int size = snprintf(text, sizeof text,
                                    "zip: %s has %" PRIu64 " values but %s has %" PRIu64,
                                    first->name, first->count, other->name, other->count);
                space->grid.code = ERR_INVALID;
                space->grid.problem = arena_strndup(space->arena, text, (size_t)size);
                return false;
            }
        }
    }
    return true;
}

static uint64_t count_assignments(const struct space *space)
{
    uint64_t count = 1;
    for (size_t i = 0; i < space->axis_count; i++) {
        count *= space->axes[i].is_controller ? space->axes[i].count : 1;
    }
    CHECK(count <= GRID_ASSIGNMENTS_MAX);
    return count;
}

void grid_build(struct space *space)
{
    struct grid *grid = &space->grid;
    *grid = (struct grid){.assignments = grid->assignments, .ends = grid->ends};
    if (!settle_axes(space)) {
        return;
    }
    grid->assignment_count = count_assignments(space);
    if (!grid->ends) {
        grid->assignments = arena_alloc(space->arena, grid->assignment_count * sizeof(uint32_t));
        grid->ends = arena_alloc(space->arena, grid->assignment_count * sizeof(uint64_t));
    }
    for (uint64_t i = 0; i < grid->assignment_count; i++) {
        uint64_t group = 0;
        if (!count_group(space, i, &group) || group > PERM_COUNT_MAX - grid->size) {
            grid->code = ERR_RANGE;
            grid->problem = "the parameters have more than 2^63 combinations";
            return;
        }
        if (group > 0) {
            grid->size += group;
            grid->assignments[grid->count] = (uint32_t)i;
            grid->ends[grid->count++] = grid->size;
        }
    }
}

/* The first group that ends after rank. */
static size_t find_group(const struct grid *grid, uint64_t rank)
{
    size_t low = 0;
    size_t high = grid->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (grid->ends[middle] > rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void grid_unrank(const struct space *space, uint64_t rank, uint64_t *at, bool *present,
                 struct expr_value *vars)
{
    const struct grid *grid = &space->grid;
    CHECK(rank < grid->size);
    if (!space->has_conditions) {
        for (size_t i = space->axis_count; i-- > 0;) {
            at[i] = rank % space->axes[i].count;
            rank /= space->axes[i].count;
        }
        return;
    }
    size_t group = find_group(grid, rank);
    rank -= group > 0 ? grid->ends[group - 1] : 0;
    decode_assignment(space, grid->assignments[group], at);
    find_present(space, at, present, vars);
    for (size_t i = space->axis_count; i-- > 0;) {
        const struct axis *axis = &space->axes[i];
        if (!axis->is_controller && axis_is_active(axis, present)) {
            at[i] = rank % axis->count;
            rank /= axis->count;
        }
    }
}
