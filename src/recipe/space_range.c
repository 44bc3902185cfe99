/* Reading `range:` and the keys that go with it. */
#include "base/suggest.h"
#include "recipe/space_internal.h"

#include <math.h>
#include <string.h>

/* A parameter while its range is read. */
struct range_reading {
    const struct ynode *mapping;
    const struct ynode *node; /* range:, or the mapping when there is none */
    struct diag_list *diags;
    struct range range;
    bool integer;
    struct dist *dist;
};

static bool read_decimal(const struct ynode *node, const char *what, struct decimal *out,
                         struct diag_list *diags)
{
    if (node->kind == YNODE_SCALAR && node->size > 0 &&
        decimal_parse(node->text, out) == node->size) {
        return true;
    }
    diag_add(diags, node->line, node->column, "%s must be a finite decimal number", what);
    return false;
}

static bool read_bounds(struct range_reading *r)
{
    const struct ynode *node = r->node;
    struct diag_list *diags = r->diags;
    if (node->kind == YNODE_SEQUENCE && node->count == 2) {
        bool low = read_decimal(node->items[0], "the lower bound", &r->range.low, diags);
        bool high = read_decimal(node->items[1], "the upper bound", &r->range.high, diags);
        if (!low || !high) {
            return false;
        }
    } else if (node->kind != YNODE_SCALAR) {
        diag_add(diags, node->line, node->column,
                 "range must be LOW-HIGH, LOW..HIGH or [LOW, HIGH]");
        return false;
    } else {
        size_t at = 0;
        if (!range_parse(node->text, true, &r->range, &at)) {
            diag_add(diags, node->line, node->column + (int)(at < 200 ? at : 0),
                     "range must be LOW-HIGH, LOW..HIGH or [LOW, HIGH] with finite numbers, as in "
                     "0.1-0.3 or 1e-5..1e-1");
            return false;
        }
    }
    if (r->range.low.near == r->range.high.near) {
        diag_add(diags, node->line, node->column,
                 "the range is a single number; use values for a fixed one");
        return false;
    }
    if (r->range.low.near > r->range.high.near) {
        diag_add(diags, node->line, node->column, "the lower bound is above the upper one");
        return false;
    }
    return true;
}

static bool read_sampling(struct range_reading *r)
{
    static const char *const names[] = {"uniform", "log", "normal", "integer"};
    const struct ynode *node = yaml_get(r->mapping, "sampling");
    if (!node) {
        return true;
    }
    const char *text = node->kind == YNODE_SCALAR ? node->text : "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            r->integer = i == 3;
            r->dist->shape = i == 3 ? DIST_UNIFORM : (enum dist_shape)i;
            return true;
        }
    }
    const char *near = suggest_nearest(text, names, sizeof names / sizeof names[0]);
    diag_add(r->diags, node->line, node->column,
             near ? "sampling must be uniform, log, normal or integer (did you mean '%s'?)"
                  : "sampling must be uniform, log, normal or integer",
             near);
    return false;
}

static bool read_integer(struct range_reading *r)
{
    const struct ynode *node = yaml_get(r->mapping, "integer");
    bool integer = false;
    if (!node) {
        return true;
    }
    if (!yaml_as_bool(node, &integer)) {
        diag_add(r->diags, node->line, node->column, "integer must be true or false");
        return false;
    }
    r->integer = r->integer || integer;
    return true;
}

static bool read_step(struct range_reading *r)
{
    const struct ynode *node = yaml_get(r->mapping, "step");
    if (!node) {
        return true;
    }
    if (r->range.has_step) {
        diag_add(r->diags, node->line, node->column, "the step is given twice");
        return false;
    }
    r->range.has_step = true;
    return read_decimal(node, "step", &r->range.step, r->diags);
}

/* Turns step and integer into the lattice of possible draws. */
static bool settle_step(struct range_reading *r)
{
    static const struct decimal one = {.near = 1, .digits = 1, .exact = true};
    const struct range *range = &r->range;
    const struct ynode *place = r->node;
    if (!range->has_step && !r->integer) {
        return true;
    }
    const struct decimal *step = range->has_step ? &range->step : &one;
    if (step->near <= 0) {
        diag_add(r->diags, place->line, place->column, "the step of a range must be above 0");
        return false;
    }
    if (r->integer && (range->low.scale > 0 || range->high.scale > 0 || step->scale > 0)) {
        diag_add(r->diags, place->line, place->column,
                 "whole numbers need whole bounds and a whole step");
        return false;
    }
    const char *problem = lattice_init(&r->dist->lattice, &range->low, &range->high, step);
    if (!problem && r->dist->lattice.count == 1) {
        problem = "is narrower than its step";
    }
    if (problem) {
        diag_add(r->diags, place->line, place->column, "the range %s", problem);
    }
    r->dist->stepped = true;
    return !problem;
}

/* mean: or sd: where given. */
static bool read_moment(struct range_reading *r, const char *name, double *out)
{
    const struct ynode *node = yaml_get(r->mapping, name);
    if (!node) {
        return true;
    }
    if (r->dist->shape != DIST_NORMAL) {
        diag_add(r->diags, node->line, node->column, "%s goes with sampling: normal", name);
        return false;
    }
    if (!yaml_as_double(node, out) || !isfinite(*out)) {
        diag_add(r->diags, node->line, node->column, "%s must be a finite number", name);
        return false;
    }
    if (strcmp(name, "sd") == 0 && *out <= 0) {
        diag_add(r->diags, node->line, node->column, "sd must be above 0");
        return false;
    }
    return true;
}

static bool refuse_unbounded(const struct range_reading *r)
{
    const struct ynode *place = r->mapping;
    if (r->dist->shape != DIST_NORMAL || !yaml_get(place, "mean") || !yaml_get(place, "sd")) {
        diag_add(r->diags, place->line, place->column,
                 "range is missing; only sampling: normal with mean and sd can do without");
        return true;
    }
    if (r->integer || yaml_get(place, "step")) {
        diag_add(r->diags, place->line, place->column, "step and integer need a range");
        return true;
    }
    return false;
}

bool space_read_range(const struct ynode *mapping, struct param *param, struct diag_list *diags)
{
    const struct ynode *node = yaml_get(mapping, "range");
    struct range_reading r = {
        .mapping = mapping, .node = node ? node : mapping, .diags = diags, .dist = &param->dist};
    struct dist *dist = r.dist;
    param->form = PARAM_DRAWN;
    bool ok = read_sampling(&r);
    ok = read_integer(&r) && ok;
    if (node) {
        ok = read_bounds(&r) && ok;
        ok = read_step(&r) && ok;
        ok = ok && settle_step(&r);
        dist->low = r.range.low.near;
        dist->high = r.range.high.near;
        dist->mean = dist->low / 2 + dist->high / 2;
        dist->sd = dist->high / 6 - dist->low / 6;
    } else {
        ok = ok && !refuse_unbounded(&r);
        dist->low = -INFINITY;
        dist->high = INFINITY;
    }
    ok = ok && read_moment(&r, "mean", &dist->mean);
    ok = ok && read_moment(&r, "sd", &dist->sd);
    const char *problem = ok ? dist_prepare(dist) : NULL;
    if (problem) {
        diag_add(diags, r.node->line, r.node->column, "the range %s", problem);
    }
    return ok && !problem;
}
