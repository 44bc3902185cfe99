/* space_internal.h - what a space is made of; only for space*.c, grid.c and dims.c.
 *
 * Discrete parameters lie on axes: one axis each, or one for a whole zip group. The grid is the
 * product of the axes, thinned by conditions (grid.h).
 */
#ifndef RECIPE_SPACE_INTERNAL_H
#define RECIPE_SPACE_INTERNAL_H

#include "base/err.h"
#include "recipe/dist.h"
#include "recipe/expr.h"
#include "recipe/space.h"

enum param_form {
    PARAM_LIST,    /* values: [...] */
    PARAM_LATTICE, /* values: 0..99 */
    PARAM_FILES,
    PARAM_DRAWN, /* range: continuous, drawn for each task */
};

/* Whether neighbours in a list of values are alike; only a search asks. */
enum param_order {
    PARAM_ORDER_UNSAID, /* so if they are numbers that go up, or down */
    PARAM_ORDERED,
    PARAM_UNORDERED,
};

struct param {
    const char *name;
    const struct ynode *key; /* where it stands; only valid while parsing */
    const struct ynode *when_node;
    uint64_t name_hash; /* makes its draws independent of which other parameters there are */
    enum param_form form;
    uint64_t count;     /* of a discrete one's values; of files: 0 until bound */
    struct value *list; /* PARAM_LIST */
    enum param_order ordered;
    struct lattice lattice; /* PARAM_LATTICE */
    struct dist dist;       /* PARAM_DRAWN */
    const char **patterns;  /* PARAM_FILES, with the four below */
    size_t pattern_count;
    uint64_t batch;
    const char *folder;
    bool bound;

    struct expr *when;        /* or NULL: always there */
    bool is_mentioned;        /* by some condition */
    bool is_controller;       /* by the condition of a discrete parameter */
    struct expr_value *known; /* is_controller: its values for conditions, `count` of them */
    size_t axis;              /* discrete ones: which one it lies on */
};

struct axis {
    size_t *members; /* parameter numbers, ascending */
    size_t member_count;
    uint64_t count;
    bool is_controller;
    bool can_vanish; /* all members have conditions */
};

/* The distinct combinations, grouped by what the controllers are: see grid.h. */
struct grid {
    uint64_t assignment_count; /* of the controllers, repetitions included */
    uint32_t *assignments;     /* the distinct ones, ascending */
    uint64_t *ends;            /* combinations up to and including each of them */
    size_t count;              /* of both arrays */
    uint64_t size;             /* P */
    enum err_code code;        /* why there is no P, or ERR_OK */
    const char *problem;
};

struct space {
    struct arena *arena;
    struct param *params; /* in the order written */
    size_t param_count;
    struct axis *axes; /* in the order of their first members */
    size_t axis_count;
    size_t *order; /* parameters such that each comes after those its condition mentions */
    bool has_conditions;
    bool has_drawn_conditions; /* some drawn parameter has one */
    struct grid grid;
};

/* Value k of one that has values, or steps (space.c). */
struct value space_param_value(const struct param *param, uint64_t k, struct arena *scratch);

/* Reading one parameter's form (space_form.c). Adds diagnoses and returns false if wrong. */
bool space_read_form(struct arena *arena, const struct ynode *node, struct param *param,
                     struct diag_list *diags);
/* Reads `range:` and what goes with it (space_range.c). */
bool space_read_range(const struct ynode *mapping, struct param *param, struct diag_list *diags);

#endif
