#include "recipe/dims.h"

#include "base/check.h"
#include "base/rng.h"
#include "base/str.h"
#include "recipe/space_internal.h"

#include <math.h>
#include <string.h>

struct dim_data {
    struct dims_dim about;
    const size_t *members; /* parameters */
    size_t member_count;
    bool descends; /* of a lattice that counts down, index 0 is its end */
};

struct dims {
    const struct space *space;
    struct dim_data *dims;
    size_t count;
    size_t *dim_of; /* by parameter */
};

/* The parameters of a point as conditions see them; those not settled count as absent. */
struct view {
    struct expr_value seen[SPACE_PARAMS_MAX];
    char texts[SPACE_PARAMS_MAX][RANGE_TEXT_MAX];
};

size_t dims_count(const struct dims *dims)
{
    return dims->count;
}

const struct dims_dim *dims_at(const struct dims *dims, size_t dim)
{
    CHECK(dim < dims->count);
    return &dims->dims[dim].about;
}

/* --- a point's parameters ----------------------------------------------------------------------
 */

static uint64_t place_in(const struct dim_data *dim, uint64_t index)
{
    return dim->descends ? dim->about.count - 1 - index : index;
}

/* Equality of a drawn number with text is not worth its digits: it has no text here. */
static struct expr_value see(const struct dims *dims, size_t param, const struct dims_point *point,
                             char text[RANGE_TEXT_MAX])
{
    const struct param *of = &dims->space->params[param];
    uint64_t k = place_in(&dims->dims[dims->dim_of[param]], point->index);
    if (of->form == PARAM_LIST) {
        return expr_value_of(&of->list[k]);
    }
    if (of->form == PARAM_FILES) {
        return (struct expr_value){.kind = VALUE_TEXT, .text = ""};
    }
    if (of->form == PARAM_DRAWN && !of->dist.stepped) {
        return (struct expr_value){.kind = VALUE_NUMBER, .number = point->number};
    }
    const struct lattice *lattice = of->form == PARAM_LATTICE ? &of->lattice : &of->dist.lattice;
    return (struct expr_value){.kind = VALUE_NUMBER,
                               .number = lattice_number(lattice, k),
                               .text = text,
                               .size = lattice_text(lattice, k, text)};
}

/* A parameter alone on its dimension is there if that is; in a group each has its own condition. */
static bool is_there(const struct dims *dims, size_t param, const struct dims_point *points,
                     const struct view *view)
{
    const struct dim_data *dim = &dims->dims[dims->dim_of[param]];
    const struct expr *when = dims->space->params[param].when;
    if (!points[dims->dim_of[param]].present) {
        return false;
    }
    return dim->member_count == 1 || !when || expr_holds(when, view->seen);
}

/* Sees the parameters of the first `known` dimensions: all, or those that conditions mention. */
static void look(const struct dims *dims, const struct dims_point *points, size_t known, bool all,
                 struct view *view)
{
    const struct space *space = dims->space;
    for (size_t i = 0; i < space->param_count; i++) {
        view->seen[i] = (struct expr_value){.kind = VALUE_ABSENT};
    }
    for (size_t i = 0; i < space->param_count; i++) {
        size_t param = space->order[i];
        size_t dim = dims->dim_of[param];
        if (dim < known && (all || space->params[param].is_mentioned) &&
            is_there(dims, param, points, view)) {
            view->seen[param] = see(dims, param, &points[dim], view->texts[param]);
        }
    }
}

bool dims_present(const struct dims *dims, size_t dim, const struct dims_point *points)
{
    CHECK(dim < dims->count);
    const struct dim_data *of = &dims->dims[dim];
    if (!of->about.conditional) {
        return true;
    }
    struct view view;
    look(dims, points, dim, false, &view);
    for (size_t i = 0; i < of->member_count; i++) {
        const struct expr *when = dims->space->params[of->members[i]].when;
        if (!when || expr_holds(when, view.seen)) {
            return true;
        }
    }
    return false;
}

bool dims_holds(const struct dims *dims, const struct expr *expr, const struct dims_point *points)
{
    struct view view;
    look(dims, points, dims->count, true, &view);
    for (size_t i = 0; i < dims->space->param_count; i++) {
        if (view.seen[i].kind == VALUE_ABSENT && expr_mentions(expr, i)) {
            return true;
        }
    }
    return expr_holds(expr, view.seen);
}

const char *dims_misfit(const struct dims *dims, const struct dims_point *points)
{
    for (size_t i = 0; i < dims->count; i++) {
        const struct dims_dim *dim = &dims->dims[i].about;
        const struct dims_point *point = &points[i];
        if (point->present != dims_present(dims, i, points)) {
            return dim->name;
        }
        bool fits = dim->count > 0 ? point->index < dim->count
                                   : isfinite(point->number) && point->number >= dim->low &&
                                         point->number <= dim->high;
        if (point->present && !fits) {
            return dim->name;
        }
    }
    return NULL;
}

static struct value argument(const struct dims *dims, size_t param, const struct dims_point *point,
                             struct arena *scratch)
{
    const struct param *of = &dims->space->params[param];
    if (of->form != PARAM_DRAWN || of->dist.stepped) {
        uint64_t k = place_in(&dims->dims[dims->dim_of[param]], point->index);
        return space_param_value(of, k, scratch);
    }
    AUTO_STR struct str text = {0};
    str_add_double(&text, point->number);
    return (struct value){.kind = VALUE_NUMBER,
                          .text = arena_strndup(scratch, str_text(&text), text.size),
                          .size = text.size};
}

void dims_arguments(const struct dims *dims, const struct dims_point *points, struct value *out,
                    struct arena *scratch)
{
    struct view view;
    look(dims, points, dims->count, true, &view);
    for (size_t i = 0; i < dims->space->param_count; i++) {
        out[i] = view.seen[i].kind == VALUE_ABSENT
                     ? (struct value){.kind = VALUE_ABSENT, .text = ""}
                     : argument(dims, i, &points[dims->dim_of[i]], scratch);
    }
}

void dims_example(const struct dims *dims, uint64_t key, struct dims_point *points)
{
    struct arena scratch = {0};
    for (size_t i = 0; i < dims->count; i++) {
        const struct dim_data *dim = &dims->dims[i];
        const struct param *first = &dims->space->params[dim->members[0]];
        uint64_t bits = rng_mix(key, 0, first->name_hash);
        points[i] = (struct dims_point){.present = dims_present(dims, i, points)};
        if (dim->about.count > 0) {
            points[i].index = bits % dim->about.count;
        } else {
            (void)dist_draw(&first->dist, bits, &scratch, &points[i].number);
        }
    }
    arena_release(&scratch);
}

/* --- making them -------------------------------------------------------------------------------
 */

static bool is_monotonic(const struct param *param)
{
    double before = 0;
    double first = 0;
    for (uint64_t i = 0; i < param->count; i++) {
        double number = 0;
        if (!value_number(&param->list[i], &number)) {
            return false;
        }
        if (i >= 2 && (number > before) != (before > first)) {
            return false;
        }
        first = i == 0 ? number : first;
        if (i > 0 && number == before) {
            return false;
        }
        before = number;
    }
    return true;
}

/* Whether what lies next to each other is alike. */
static bool is_ordered(const struct param *param)
{
    switch (param->form) {
    case PARAM_LIST:
        return param->ordered == PARAM_ORDERED ||
               (param->ordered == PARAM_ORDER_UNSAID && is_monotonic(param));
    case PARAM_LATTICE:
        return param->ordered != PARAM_UNORDERED;
    case PARAM_FILES:
    case PARAM_DRAWN:
        break;
    }
    return false;
}

static void describe_lattice(const struct lattice *lattice, struct dim_data *dim)
{
    const struct lattice steps = {
        .start = lattice->step, .step = 1, .scale = lattice->scale, .count = 1};
    dim->about.count = lattice->count;
    dim->descends = lattice->step < 0;
    dim->about.step = fabs(lattice_number(&steps, 0));
    dim->about.low = lattice_number(lattice, dim->descends ? lattice->count - 1 : 0);
    dim->about.high = lattice_number(lattice, dim->descends ? 0 : lattice->count - 1);
}

static void describe_drawn(const struct dist *dist, struct dim_data *dim)
{
    dim->about.kind = dist->shape == DIST_LOG      ? DIMS_LOG
                      : dist->shape == DIST_NORMAL ? DIMS_NORMAL
                                                   : DIMS_UNIFORM;
    dim->about.low = dist->low;
    dim->about.high = dist->high;
    dim->about.mean = dist->mean;
    dim->about.sd = dist->sd;
    if (dist->stepped) {
        describe_lattice(&dist->lattice, dim);
    }
}

static void describe_discrete(const struct space *space, struct dim_data *dim)
{
    const struct param *first = &space->params[dim->members[0]];
    bool ordered = false;
    bool refused = false;
    for (size_t i = 0; i < dim->member_count; i++) {
        const struct param *member = &space->params[dim->members[i]];
        ordered = ordered || is_ordered(member);
        refused = refused || member->ordered == PARAM_UNORDERED;
    }
    dim->about.count = first->count;
    dim->about.kind = ordered && !refused ? DIMS_ORDERED : DIMS_CATEGORICAL;
    if (dim->member_count == 1 && first->form == PARAM_LATTICE && ordered) {
        dim->about.kind = DIMS_UNIFORM;
        describe_lattice(&first->lattice, dim);
    }
}

static const char *name_of(struct arena *arena, const struct space *space,
                           const struct dim_data *dim)
{
    AUTO_STR struct str name = {0};
    for (size_t i = 0; i < dim->member_count; i++) {
        str_addf(&name, "%s%s", i ? "+" : "", space->params[dim->members[i]].name);
    }
    return arena_strdup(arena, str_text(&name));
}

static void describe(struct arena *arena, const struct space *space, struct dim_data *dim)
{
    const struct param *first = &space->params[dim->members[0]];
    dim->about.name = name_of(arena, space, dim);
    if (first->form == PARAM_DRAWN) {
        describe_drawn(&first->dist, dim);
    } else {
        describe_discrete(space, dim);
    }
    if (dim->about.count == 1) {
        dim->about.kind = DIMS_FIXED;
    }
    dim->about.conditional = true;
    for (size_t i = 0; i < dim->member_count; i++) {
        dim->about.conditional = dim->about.conditional && space->params[dim->members[i]].when;
    }
}

/* --- their order -------------------------------------------------------------------------------
 */

/* Adds the dimensions (by their number in the order written) that must be known before it can be
 * said whether the parameter is there. What is alone on its dimension is known with it; a member
 * of a group leads further. */
static void add_needs(const struct dims *dims, size_t param, bool *needs, bool *seen)
{
    const struct space *space = dims->space;
    const struct expr *when = space->params[param].when;
    if (!when || seen[param]) {
        return;
    }
    seen[param] = true;
    for (size_t i = 0; i < space->param_count; i++) {
        if (!expr_mentions(when, i)) {
            continue;
        }
        needs[dims->dim_of[i]] = true;
        if (dims->dims[dims->dim_of[i]].member_count > 1) {
            add_needs(dims, i, needs, seen);
        }
    }
}

static bool is_next(const struct dims *dims, size_t dim, const bool *placed)
{
    const struct dim_data *of = &dims->dims[dim];
    bool needs[SPACE_PARAMS_MAX] = {0};
    bool seen[SPACE_PARAMS_MAX] = {0};
    if (placed[dim]) {
        return false;
    }
    for (size_t i = 0; i < of->member_count && of->about.conditional; i++) {
        add_needs(dims, of->members[i], needs, seen);
    }
    for (size_t d = 0; d < dims->count; d++) {
        if (needs[d] && !placed[d]) {
            return false;
        }
    }
    return true;
}

/* The next dimension to place: the first whose needs are met; else a group that is in its own way,
 * which then is always there. */
static size_t choose(struct dims *dims, const bool *placed)
{
    for (size_t d = 0; d < dims->count; d++) {
        if (is_next(dims, d, placed)) {
            return d;
        }
    }
    size_t group = 0;
    while (placed[group] || dims->dims[group].member_count == 1) {
        group++;
        CHECK(group < dims->count); /* conditions of single parameters go in no circle */
    }
    dims->dims[group].about.conditional = false;
    return group;
}

static void put_in_order(struct arena *arena, struct dims *dims)
{
    bool placed[SPACE_PARAMS_MAX] = {0};
    size_t order[SPACE_PARAMS_MAX] = {0};
    for (size_t i = 0; i < dims->count; i++) {
        order[i] = choose(dims, placed);
        placed[order[i]] = true;
    }
    struct dim_data *sorted = arena_alloc(arena, dims->count * sizeof *sorted);
    for (size_t i = 0; i < dims->count; i++) {
        sorted[i] = dims->dims[order[i]];
        for (size_t m = 0; m < sorted[i].member_count; m++) {
            dims->dim_of[sorted[i].members[m]] = i;
        }
    }
    dims->dims = sorted;
}

/* --- conditions on one parent ------------------------------------------------------------------
 */

/* The one parameter that the condition mentions; false if there are several. */
static bool only_mention(const struct space *space, const struct expr *when, size_t *out)
{
    size_t count = 0;
    for (size_t i = 0; i < space->param_count; i++) {
        if (expr_mentions(when, i)) {
            *out = i;
            count++;
        }
    }
    return count == 1;
}

static void find_parent(struct arena *arena, struct dims *dims, size_t number)
{
    struct dim_data *dim = &dims->dims[number];
    const struct expr *when = dims->space->params[dim->members[0]].when;
    size_t param = 0;
    if (!dim->about.conditional || dim->member_count > 1 ||
        !only_mention(dims->space, when, &param)) {
        return;
    }
    const struct param *mentioned = &dims->space->params[param];
    const struct dim_data *parent = &dims->dims[dims->dim_of[param]];
    bool own_condition = parent->member_count > 1 && mentioned->when;
    struct view view = {0}; /* all absent */
    if (parent->about.count == 0 || parent->about.count > DIMS_WHEN_MAX || own_condition ||
        (mentioned->when && expr_holds(when, view.seen))) {
        return;
    }
    uint64_t *indices = arena_alloc(arena, parent->about.count * sizeof *indices);
    for (uint64_t k = 0; k < parent->about.count; k++) {
        struct dims_point point = {.present = true, .index = k};
        view.seen[param] = see(dims, param, &point, view.texts[param]);
        if (expr_holds(when, view.seen)) {
            indices[dim->about.when_count++] = k;
        }
    }
    dim->about.has_parent = dim->about.when_count > 0;
    dim->about.parent = dims->dim_of[param];
    dim->about.when = indices;
}

struct dims *dims_create(struct arena *arena, const struct space *space)
{
    struct dims *dims = arena_alloc(arena, sizeof *dims);
    dims->space = space;
    dims->dims = arena_alloc(arena, space->param_count * sizeof *dims->dims);
    dims->dim_of = arena_alloc(arena, space->param_count * sizeof *dims->dim_of);
    size_t *alone = arena_alloc(arena, space->param_count * sizeof *alone);
    for (size_t i = 0; i < space->param_count; i++) {
        const struct param *param = &space->params[i];
        const struct axis *axis = param->form == PARAM_DRAWN ? NULL : &space->axes[param->axis];
        alone[i] = i;
        if (axis && axis->members[0] != i) {
            dims->dim_of[i] = dims->dim_of[axis->members[0]];
            continue;
        }
        dims->dim_of[i] = dims->count;
        dims->dims[dims->count++] =
            (struct dim_data){.members = axis ? axis->members : &alone[i],
                              .member_count = axis ? axis->member_count : 1};
    }
    for (size_t d = 0; d < dims->count; d++) {
        describe(arena, space, &dims->dims[d]);
    }
    put_in_order(arena, dims);
    for (size_t d = 0; d < dims->count; d++) {
        find_parent(arena, dims, d);
    }
    return dims;
}
