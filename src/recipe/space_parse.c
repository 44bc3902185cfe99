/* Reading a whole space: parameters, groups, conditions and the order they are settled in. */
#include "base/check.h"
#include "base/rng.h"
#include "base/suggest.h"
#include "recipe/grid.h"
#include "recipe/space_internal.h"

#include <inttypes.h>
#include <string.h>

struct space_parser {
    struct arena *arena;
    struct diag_list *diags;
    struct space *space;
    const char **names;
    bool failed;
};

static bool is_good_name(const struct ynode *key)
{
    for (size_t i = 0; i < key->size; i++) {
        char c = key->text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        bool later = (c >= '0' && c <= '9') || c == '-';
        if (!letter && !(later && i > 0)) {
            return false;
        }
    }
    return key->size > 0 && key->size <= SPACE_NAME_MAX;
}

static void read_param(struct space_parser *p, size_t number, const struct ynode *key,
                       const struct ynode *node)
{
    struct param *param = &p->space->params[number];
    param->key = key;
    param->name = arena_strndup(p->arena, key->text, key->size);
    param->name_hash = rng_hash_bytes(0, key->text, key->size);
    p->names[number] = param->name;
    if (!is_good_name(key)) {
        diag_add(p->diags, key->line, key->column,
                 "a parameter's name has letters, digits, _ and -, starts with a letter or _ and "
                 "is at most %d long",
                 SPACE_NAME_MAX);
        p->failed = true;
    }
    p->failed = !space_read_form(p->arena, node, param, p->diags) || p->failed;
}

static void read_params(struct space_parser *p, const struct ynode *parameters)
{
    struct space *space = p->space;
    if (!parameters) {
        return;
    }
    if (parameters->kind != YNODE_MAPPING) {
        if (parameters->kind != YNODE_SCALAR || parameters->type != YTYPE_NULL) {
            diag_add(p->diags, parameters->line, parameters->column,
                     "parameters must be a mapping of names to values");
            p->failed = true;
        }
        return;
    }
    if (parameters->count > SPACE_PARAMS_MAX) {
        const struct ynode *key = parameters->keys[SPACE_PARAMS_MAX];
        diag_add(p->diags, key->line, key->column, "there are more than %d parameters",
                 SPACE_PARAMS_MAX);
        p->failed = true;
        return;
    }
    space->param_count = parameters->count;
    space->params = arena_alloc(p->arena, space->param_count * sizeof *space->params);
    p->names = arena_alloc(p->arena, space->param_count * sizeof *p->names);
    for (size_t i = 0; i < space->param_count; i++) {
        read_param(p, i, parameters->keys[i], parameters->items[i]);
    }
}

/* ---- zip groups ---- */

static bool find_param(const struct space_parser *p, const struct ynode *node, size_t *out)
{
    for (size_t i = 0; i < p->space->param_count && node->kind == YNODE_SCALAR; i++) {
        if (strcmp(p->names[i], node->text) == 0) {
            *out = i;
            return true;
        }
    }
    const char *text = node->kind == YNODE_SCALAR ? node->text : "";
    const char *near = suggest_nearest(text, p->names, p->space->param_count);
    diag_add(p->diags, node->line, node->column,
             near ? "zip: '%.60s' is not a parameter (did you mean '%s'?)"
                  : "zip: '%.60s' is not a parameter",
             text, near);
    return false;
}

/* Adds one name to the group on axis `number`; group_of[] says which group took each parameter. */
static void join_group(struct space_parser *p, const struct ynode *name, size_t number,
                       size_t *group_of)
{
    size_t found = 0;
    p->failed = true;
    if (!find_param(p, name, &found)) {
        return;
    }
    const struct param *param = &p->space->params[found];
    if (param->form == PARAM_DRAWN) {
        diag_add(p->diags, name->line, name->column,
                 "zip: %s is drawn from a range, so it has no values to move along", param->name);
        return;
    }
    if (group_of[found] != SIZE_MAX) {
        diag_add(p->diags, name->line, name->column,
                 group_of[found] == number ? "zip: %s is named twice" : "zip: %s is in two groups",
                 param->name);
        return;
    }
    group_of[found] = number;
    p->failed = false;
}

static void read_group(struct space_parser *p, const struct ynode *group, size_t number,
                       size_t *group_of)
{
    if (group->count < 2) {
        diag_add(p->diags, group->line, group->column, "zip needs at least two parameters");
        p->failed = true;
        return;
    }
    bool failed = p->failed;
    for (size_t i = 0; i < group->count; i++) {
        join_group(p, group->items[i], number, group_of);
        failed = failed || p->failed;
    }
    p->failed = failed;
}

static bool is_list_of_lists(const struct ynode *zip)
{
    for (size_t i = 0; i < zip->count; i++) {
        if (zip->items[i]->kind == YNODE_SEQUENCE) {
            return true;
        }
    }
    return false;
}

static void read_zip(struct space_parser *p, const struct ynode *zip, size_t *group_of)
{
    if (zip->kind != YNODE_SEQUENCE) {
        diag_add(p->diags, zip->line, zip->column,
                 "zip must be a list of parameters or a list of such lists");
        p->failed = true;
        return;
    }
    if (!is_list_of_lists(zip)) {
        read_group(p, zip, 0, group_of);
        return;
    }
    for (size_t i = 0; i < zip->count; i++) {
        const struct ynode *group = zip->items[i];
        if (group->kind == YNODE_SEQUENCE) {
            read_group(p, group, i, group_of);
        } else {
            diag_add(p->diags, group->line, group->column,
                     "zip must be a list of parameters or a list of such lists");
            p->failed = true;
        }
    }
}

/* ---- axes ---- */

static void join_axis(struct space_parser *p, struct axis *axis, size_t number,
                      const struct ynode *zip)
{
    struct param *param = &p->space->params[number];
    const struct param *first = axis->member_count ? &p->space->params[axis->members[0]] : NULL;
    for (size_t i = 0; i < axis->member_count; i++) {
        const struct param *member = &p->space->params[axis->members[i]];
        first = member->form != PARAM_FILES ? member : first;
    }
    if (first && first->form != PARAM_FILES && param->form != PARAM_FILES &&
        first->count != param->count) {
        diag_add(p->diags, zip->line, zip->column,
                 "zip: %s has %" PRIu64 " values but %s has %" PRIu64, first->name, first->count,
                 param->name, param->count);
        p->failed = true;
    }
    param->axis = (size_t)(axis - p->space->axes);
    axis->members[axis->member_count++] = number;
    axis->count = param->form != PARAM_FILES ? param->count : axis->count;
    axis->can_vanish = axis->can_vanish && param->when_node;
}

static void make_axes(struct space_parser *p, const struct ynode *zip)
{
    struct space *space = p->space;
    size_t group_of[SPACE_PARAMS_MAX];
    for (size_t i = 0; i < SPACE_PARAMS_MAX; i++) {
        group_of[i] = SIZE_MAX;
    }
    if (zip) {
        read_zip(p, zip, group_of);
    }
    space->axes = arena_alloc(p->arena, space->param_count * sizeof *space->axes);
    for (size_t i = 0; i < space->param_count; i++) {
        struct param *param = &space->params[i];
        if (param->form == PARAM_DRAWN) {
            continue;
        }
        size_t axis = space->axis_count;
        for (size_t j = 0; j < i && group_of[i] != SIZE_MAX; j++) {
            if (group_of[j] == group_of[i]) {
                axis = space->params[j].axis;
                break;
            }
        }
        if (axis == space->axis_count) {
            space->axes[space->axis_count++] = (struct axis){
                .members = arena_alloc(p->arena, (space->param_count - i) * sizeof(size_t)),
                .can_vanish = true};
        }
        join_axis(p, &space->axes[axis], i, zip);
    }
}

/* ---- conditions ---- */

static void check_mentions(struct space_parser *p, const struct param *param)
{
    for (size_t i = 0; i < p->space->param_count; i++) {
        const struct param *other = &p->space->params[i];
        if (!expr_mentions(param->when, i)) {
            continue;
        }
        const char *problem = NULL;
        if (other->form == PARAM_FILES) {
            problem = "a condition cannot depend on the files of";
        } else if (other->form == PARAM_DRAWN && param->form != PARAM_DRAWN) {
            problem = "only a parameter with a range can depend on one with a range, here";
        }
        if (problem) {
            diag_add(p->diags, param->when_node->line, param->when_node->column, "%s %s", problem,
                     other->name);
            p->failed = true;
        }
    }
}

static void read_conditions(struct space_parser *p)
{
    struct space *space = p->space;
    for (size_t i = 0; i < space->param_count; i++) {
        struct param *param = &space->params[i];
        if (!param->when_node) {
            continue;
        }
        space->has_conditions = true;
        space->has_drawn_conditions |= param->form == PARAM_DRAWN;
        param->when =
            expr_compile(p->arena, param->when_node, p->names, space->param_count, p->diags);
        if (!param->when) {
            p->failed = true;
        } else {
            check_mentions(p, param);
        }
    }
}

/* ---- order ---- */

enum visit { VISIT_NEW, VISIT_OPEN, VISIT_DONE };

struct walk {
    struct space_parser *p;
    enum visit visits[SPACE_PARAMS_MAX];
    size_t path[SPACE_PARAMS_MAX];
    size_t depth;
    size_t done;
};

static void report_cycle(struct walk *walk, size_t back_to)
{
    const struct param *params = walk->p->space->params;
    size_t start = 0;
    while (walk->path[start] != back_to) {
        start++;
    }
    AUTO_STR struct str text = {0};
    for (size_t i = start; i < walk->depth; i++) {
        str_addf(&text, "%s -> ", params[walk->path[i]].name);
    }
    str_add(&text, params[back_to].name);
    const struct ynode *place = params[back_to].when_node;
    diag_add(walk->p->diags, place->line, place->column, "conditions go in a circle: %s",
             str_text(&text));
    walk->p->failed = true;
}

/* Depth first; recursion is bounded by the number of parameters. */
static void visit(struct walk *walk, size_t number)
{
    struct space *space = walk->p->space;
    const struct param *param = &space->params[number];
    walk->visits[number] = VISIT_OPEN;
    walk->path[walk->depth++] = number;
    for (size_t i = 0; i < space->param_count && param->when; i++) {
        if (!expr_mentions(param->when, i)) {
            continue;
        }
        if (walk->visits[i] == VISIT_OPEN) {
            report_cycle(walk, i);
        } else if (walk->visits[i] == VISIT_NEW) {
            visit(walk, i);
        }
    }
    walk->depth--;
    walk->visits[number] = VISIT_DONE;
    space->order[walk->done++] = number;
}

static void find_order(struct space_parser *p)
{
    struct space *space = p->space;
    struct walk walk = {.p = p};
    space->order = arena_alloc(p->arena, space->param_count * sizeof *space->order);
    for (size_t i = 0; i < space->param_count; i++) {
        if (walk.visits[i] == VISIT_NEW) {
            visit(&walk, i);
        }
    }
}

/* The YAML tree may be gone after parsing. */
static void forget_nodes(struct space *space)
{
    for (size_t i = 0; i < space->param_count; i++) {
        space->params[i].key = NULL;
        space->params[i].when_node = NULL;
    }
}

struct space *space_parse(struct arena *arena, const struct ynode *parameters,
                          const struct ynode *zip, struct diag_list *diags)
{
    struct space *space = arena_alloc(arena, sizeof *space);
    space->arena = arena;
    struct space_parser p = {.arena = arena, .diags = diags, .space = space};
    read_params(&p, parameters);
    if (!p.failed) {
        make_axes(&p, zip);
    }
    read_conditions(&p);
    if (p.failed) {
        return NULL;
    }
    find_order(&p);
    if (p.failed || (space->has_conditions && !grid_prepare(space, diags))) {
        return NULL;
    }
    forget_nodes(space);
    bool has_files = false;
    for (size_t i = 0; i < space->param_count; i++) {
        has_files = has_files || space->params[i].form == PARAM_FILES;
    }
    if (!has_files) {
        grid_build(space);
    }
    return space;
}
