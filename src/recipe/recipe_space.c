#include "recipe/recipe_build.h"

#include <inttypes.h>
#include <string.h>

static bool is_builtin(const struct experiment *experiment, const char *name)
{
    for (size_t i = 0; i < RECIPE_BUILTIN_COUNT; i++) {
        if (strcmp(build_builtin_names[i], name) == 0 &&
            build_has_builtin(experiment, (enum recipe_builtin)i)) {
            return true;
        }
    }
    return false;
}

/* True if this can be a parameter at all; what it says of itself is checked by space_parse. */
static bool check_param(struct build *build, const struct experiment *experiment,
                        const struct ynode *key, const struct ynode *value)
{
    if (build_is_experiment_key(key->text) && value->kind == YNODE_SCALAR) {
        diag_add(build->diags, key->line, key->column,
                 "'%s' is not a parameter; move it out of parameters:, one level up", key->text);
        return false;
    }
    if (is_builtin(experiment, key->text)) {
        diag_add(build->diags, key->line, key->column,
                 "'%s' cannot be a parameter: {{%s}} is built in", key->text, key->text);
        return false;
    }
    return true;
}

/* A copy of the mapping with the possible parameters only. */
static const struct ynode *possible_params(struct build *build, const struct experiment *experiment,
                                           const struct ynode *node)
{
    struct ynode *copy = arena_alloc(build->arena, sizeof *copy);
    *copy = *node;
    copy->count = 0;
    copy->keys = arena_alloc(build->arena, node->count * sizeof(struct ynode *));
    copy->items = arena_alloc(build->arena, node->count * sizeof(struct ynode *));
    for (size_t i = 0; i < node->count; i++) {
        if (check_param(build, experiment, node->keys[i], node->items[i])) {
            copy->keys[copy->count] = node->keys[i];
            copy->items[copy->count++] = node->items[i];
        }
    }
    return copy;
}

/* What space_parse is to read; *ok is false after a diagnosis. */
static const struct ynode *read_params(struct build *build, const struct experiment *experiment,
                                       const struct ynode *experiment_node, bool *ok)
{
    const struct ynode *node = yaml_get(experiment_node, "parameters");
    if (!node || node->kind != YNODE_MAPPING) {
        return node;
    }
    const struct ynode *possible = possible_params(build, experiment, node);
    *ok = possible->count == node->count;
    return possible;
}

static bool has_files(const struct space *space)
{
    for (size_t i = 0; i < space_param_count(space); i++) {
        const char *const *patterns = NULL;
        size_t pattern_count = 0;
        uint64_t batch = 0;
        if (space_files(space, i, &patterns, &pattern_count, &batch)) {
            return true;
        }
    }
    return false;
}

/* Every gang is whole, and may run as a whole. A count that is wrong by itself was reported. */
static bool gangs_fit(const struct experiment *experiment, struct diag_list *diags)
{
    uint64_t count = experiment->task_count;
    uint32_t gang = experiment->gang;
    if (count % gang != 0) {
        diag_add(diags, experiment->gang_line, experiment->gang_column,
                 "gang: %" PRIu32 " does not divide the %" PRIu64
                 " tasks of '%s'; make their number a multiple of it, such as %" PRIu64,
                 gang, count, experiment->name, (count / gang + 1) * gang);
        return false;
    }
    if (experiment->workers > 0 && experiment->workers < gang) {
        diag_add(diags, experiment->gang_line, experiment->gang_column,
                 "gang: %" PRIu32 " tasks start together, but workers: allows only %" PRIu32, gang,
                 experiment->workers);
        return false;
    }
    return true;
}

bool build_count_tasks(struct experiment *experiment, int line, int column, struct diag_list *diags)
{
    uint64_t grid_size = 0;
    struct err err = {0};
    if (experiment->search) {
        return build_count_trials(experiment, diags) && gangs_fit(experiment, diags);
    }
    if (space_grid_size(experiment->space, &grid_size, &err) != ERR_OK) {
        diag_add(diags, line, column, "%s", err.text);
        return false;
    }
    if (!experiment->sampled && grid_size > RECIPE_TASKS_MAX) {
        diag_add(diags, line, column,
                 "the grid has %" PRIu64 " combinations; set samples: to draw some of them",
                 grid_size);
        return false;
    }
    experiment->task_count = experiment->sampled ? experiment->samples : grid_size;
    return gangs_fit(experiment, diags);
}

static const struct ynode *key_of(const struct ynode *mapping, const char *name)
{
    for (size_t i = 0; i < mapping->count; i++) {
        if (strcmp(mapping->keys[i]->text, name) == 0) {
            return mapping->keys[i];
        }
    }
    return mapping;
}

void build_space(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    bool ok = true;
    const struct ynode *samples = yaml_get(node, "samples");
    if (samples && !experiment->search) {
        experiment->sampled = true; /* even when it is wrong: one diagnosis is enough */
        build_count(build, samples, "samples", 1, RECIPE_TASKS_MAX, &experiment->samples);
    }
    const struct ynode *params = read_params(build, experiment, node, &ok);
    const struct ynode *zip = ok ? yaml_get(node, "zip") : NULL;
    struct space *space = space_parse(build->arena, params, zip, build->diags);
    if (!space) {
        CHECK(build->diags->count > 0);
        return;
    }
    experiment->space = space;
    const char *continuous = NULL;
    if (!experiment->sampled && !experiment->search && space_has_continuous(space, &continuous)) {
        const struct ynode *at = key_of(params, continuous);
        diag_add(build->diags, at->line, at->column,
                 "'%s' is continuous, so say how many tasks to draw: add samples: to '%s'",
                 continuous, experiment->name);
    } else if (ok && !has_files(space)) {
        const struct ynode *at = params ? key_of(node, "parameters") : node;
        build_count_tasks(experiment, at->line, at->column, build->diags);
    }
}
