#include "recipe/space.h"

#include "base/check.h"
#include "base/rng.h"
#include "recipe/grid.h"
#include "recipe/perm.h"
#include "recipe/space_internal.h"

#include <string.h>

static const uint64_t PERM_PURPOSE = 0x6772696420706572u; /* apart from any parameter's draws */

size_t space_param_count(const struct space *space)
{
    return space->param_count;
}

const char *space_param_name(const struct space *space, size_t param)
{
    CHECK(param < space->param_count);
    return space->params[param].name;
}

bool space_has_continuous(const struct space *space, const char **name)
{
    for (size_t i = 0; i < space->param_count; i++) {
        if (space->params[i].form == PARAM_DRAWN) {
            *name = space->params[i].name;
            return true;
        }
    }
    return false;
}

static bool all_bound(const struct space *space)
{
    for (size_t i = 0; i < space->param_count; i++) {
        if (space->params[i].form == PARAM_FILES && !space->params[i].bound) {
            return false;
        }
    }
    return true;
}

enum err_code space_grid_size(const struct space *space, uint64_t *out, struct err *err)
{
    CHECK(all_bound(space));
    if (space->grid.code != ERR_OK) {
        return err_set(err, space->grid.code, "%s", space->grid.problem);
    }
    *out = space->grid.size;
    return ERR_OK;
}

bool space_files(const struct space *space, size_t param, const char *const **patterns,
                 size_t *pattern_count, uint64_t *batch)
{
    CHECK(param < space->param_count);
    const struct param *files = &space->params[param];
    if (files->form != PARAM_FILES) {
        return false;
    }
    *patterns = files->patterns;
    *pattern_count = files->pattern_count;
    *batch = files->batch;
    return true;
}

void space_bind_files(struct space *space, size_t param, uint64_t batch_count, const char *folder)
{
    CHECK(param < space->param_count);
    struct param *files = &space->params[param];
    CHECK(files->form == PARAM_FILES);
    files->count = batch_count;
    files->folder = arena_strdup(space->arena, folder);
    files->bound = true;
    if (all_bound(space)) {
        grid_build(space);
    }
}

static struct value lattice_value(const struct lattice *lattice, uint64_t k, struct arena *scratch)
{
    char text[RANGE_TEXT_MAX];
    size_t size = lattice_text(lattice, k, text);
    return (struct value){.kind = lattice->scale == 0 ? VALUE_INTEGER : VALUE_NUMBER,
                          .text = arena_strndup(scratch, text, size),
                          .size = size};
}

static struct value files_value(const struct param *param, uint64_t k, struct arena *scratch)
{
    AUTO_STR struct str text = {0};
    str_add(&text, param->folder);
    str_add_char(&text, '/');
    str_add_u64(&text, k);
    return (struct value){.kind = VALUE_FILES,
                          .text = arena_strndup(scratch, text.text, text.size),
                          .size = text.size};
}

struct value space_param_value(const struct param *param, uint64_t k, struct arena *scratch)
{
    switch (param->form) {
    case PARAM_LIST:
        return param->list[k];
    case PARAM_LATTICE:
        return lattice_value(&param->lattice, k, scratch);
    case PARAM_FILES:
        return files_value(param, k, scratch);
    case PARAM_DRAWN:
        break;
    }
    CHECK(param->dist.stepped);
    return lattice_value(&param->dist.lattice, k, scratch);
}

static void fill_discrete(const struct space *space, const uint64_t *at, const bool *present,
                          struct value *out, struct arena *scratch)
{
    for (size_t i = 0; i < space->param_count; i++) {
        const struct param *param = &space->params[i];
        if (param->form == PARAM_DRAWN) {
            continue;
        }
        bool is_here = !param->when || present[i];
        out[i] = is_here ? space_param_value(param, at[param->axis], scratch)
                         : (struct value){.kind = VALUE_ABSENT, .text = ""};
    }
}

/* Conditions of drawn parameters may mention any discrete one, not only controllers. */
static void see_discrete(const struct space *space, const struct value *values,
                         struct expr_value *vars)
{
    for (size_t i = 0; i < space->param_count; i++) {
        const struct param *param = &space->params[i];
        if (param->is_mentioned && param->form != PARAM_DRAWN) {
            vars[i] = expr_value_of(&values[i]);
        }
    }
}

static void fill_drawn(const struct space *space, uint64_t key, uint64_t index,
                       struct expr_value *vars, struct value *out, struct arena *scratch)
{
    for (size_t i = 0; i < space->param_count; i++) {
        size_t number = space->order[i];
        const struct param *param = &space->params[number];
        if (param->form != PARAM_DRAWN) {
            continue;
        }
        double drawn = 0;
        if (param->when && !expr_holds(param->when, vars)) {
            out[number] = (struct value){.kind = VALUE_ABSENT, .text = ""};
        } else {
            uint64_t bits = rng_mix(key, index, param->name_hash);
            out[number] = dist_draw(&param->dist, bits, scratch, &drawn);
        }
        if (param->is_mentioned) {
            bool is_absent = out[number].kind == VALUE_ABSENT;
            vars[number] = (struct expr_value){.kind = is_absent ? VALUE_ABSENT : VALUE_NUMBER,
                                               .number = drawn,
                                               .text = out[number].text,
                                               .size = out[number].size};
        }
    }
}

void space_draw(const struct space *space, uint64_t key, bool sampled, uint64_t index,
                struct value *out, struct arena *scratch)
{
    CHECK(space->grid.code == ERR_OK);
    uint64_t size = space->grid.size;
    CHECK(size > 0); /* also: files are bound */
    uint64_t rank = index;
    if (sampled) {
        rank = perm_at(size, rng_mix(key, index / size, PERM_PURPOSE), index % size);
    }
    uint64_t at[SPACE_PARAMS_MAX];
    bool present[SPACE_PARAMS_MAX];
    struct expr_value vars[SPACE_PARAMS_MAX];
    grid_unrank(space, rank, at, present, vars);
    fill_discrete(space, at, present, out, scratch);
    if (space->has_drawn_conditions) {
        see_discrete(space, out, vars);
    }
    fill_drawn(space, key, index, vars, out, scratch);
}
