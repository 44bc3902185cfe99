#include "master/search_space.h"

#include "base/mem.h"
#include "base/rng.h"
#include "recipe/dims.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search_space {
    struct arena arena;
    const struct experiment *experiment;
    const struct dims *dims;
    struct search_param *params;
    enum search_goal goals[RECIPE_GOALS_MAX];
    struct search_options options;
};

_Static_assert((int)SPACE_PARAMS_MAX <= (int)SEARCH_PARAMS_MAX, "every recipe can be searched");
_Static_assert((int)RECIPE_GOALS_MAX <= (int)SEARCH_GOALS_MAX, "every goal can be");
_Static_assert((int)RECIPE_TRIALS_MAX <= (int)SEARCH_TRIALS_MAX, "and every trial");
_Static_assert((int)DIMS_WHEN_MAX <= (int)SEARCH_WHEN_MAX, "and every condition");

/* --- values and points -------------------------------------------------------------------------
 */

static void to_points(const struct search_space *space, const struct search_value *values,
                      size_t count, struct dims_point *points)
{
    for (size_t i = 0; i < count; i++) {
        const struct dims_dim *dim = dims_at(space->dims, i);
        points[i] = (struct dims_point){.present = values[i].present,
                                        .index = dim->count > 0 ? values[i].index : 0,
                                        .number = values[i].number};
    }
}

static bool is_present(void *arg, size_t param, const struct search_value *values)
{
    const struct search_space *space = arg;
    const struct dims_dim *dim = dims_at(space->dims, param);
    if (!dim->conditional || dim->has_parent) {
        return true; /* the search knows the rest by itself */
    }
    struct dims_point points[SPACE_PARAMS_MAX];
    to_points(space, values, param, points);
    return dims_present(space->dims, param, points);
}

static bool is_allowed(void *arg, const struct search_value *values)
{
    const struct search_space *space = arg;
    const struct search_spec *search = space->experiment->search;
    struct dims_point points[SPACE_PARAMS_MAX];
    to_points(space, values, dims_count(space->dims), points);
    for (size_t i = 0; i < search->require_count; i++) {
        if (!dims_holds(space->dims, search->requires[i], points)) {
            return false;
        }
    }
    return true;
}

/* --- options -----------------------------------------------------------------------------------
 */

static enum search_kind kind_of(enum dims_kind kind)
{
    switch (kind) {
    case DIMS_UNIFORM:
        return SEARCH_UNIFORM;
    case DIMS_LOG:
        return SEARCH_LOG;
    case DIMS_NORMAL:
        return SEARCH_NORMAL;
    case DIMS_CATEGORICAL:
        return SEARCH_CATEGORICAL;
    case DIMS_ORDERED:
        return SEARCH_ORDERED;
    case DIMS_FIXED:
        break;
    }
    return SEARCH_FIXED;
}

static enum search_algorithm algorithm_of(enum recipe_algorithm algorithm)
{
    enum search_algorithm found = SEARCH_AUTO;
    switch (algorithm) {
    case RECIPE_GRID:
        return SEARCH_GRID;
    case RECIPE_RANDOM:
        return SEARCH_RANDOM;
    case RECIPE_SOBOL:
        return SEARCH_SOBOL;
    case RECIPE_TPE:
        return SEARCH_TPE;
    case RECIPE_GP:
        return SEARCH_GP;
    case RECIPE_CMA_ES:
        return SEARCH_CMA_ES;
    case RECIPE_AUTO:
    case RECIPE_ALGORITHM_COUNT:
        break;
    }
    return found;
}

static struct search_param param_of(const struct dims_dim *dim)
{
    return (struct search_param){.name = dim->name,
                                 .kind = kind_of(dim->kind),
                                 .low = dim->low,
                                 .high = dim->high,
                                 .mean = dim->mean,
                                 .sd = dim->sd,
                                 .count = dim->count,
                                 .step = dim->step,
                                 .conditional = dim->has_parent,
                                 .parent = dim->parent,
                                 .when = dim->when,
                                 .when_count = dim->when_count};
}

struct search_space *search_space_create(const struct experiment *experiment,
                                         uint64_t workflow_seed)
{
    const struct search_spec *search = experiment->search;
    CHECK(search);
    struct search_space *space = mem_alloc(sizeof *space);
    space->experiment = experiment;
    space->dims = dims_create(&space->arena, experiment->space);
    size_t count = dims_count(space->dims);
    space->params = arena_alloc(&space->arena, count * sizeof *space->params);
    bool asks = false;
    for (size_t i = 0; i < count; i++) {
        const struct dims_dim *dim = dims_at(space->dims, i);
        space->params[i] = param_of(dim);
        asks = asks || (dim->conditional && !dim->has_parent);
    }
    for (size_t i = 0; i < search->goal_count; i++) {
        space->goals[i] = search->goals[i].maximize ? SEARCH_MAXIMIZE : SEARCH_MINIMIZE;
    }
    space->options = (struct search_options){
        .params = space->params,
        .param_count = count,
        .present = asks ? is_present : NULL,
        .allowed = search->require_count > 0 ? is_allowed : NULL,
        .arg = space,
        .goals = space->goals,
        .goal_count = search->goal_count,
        .algorithm = algorithm_of(search->algorithm),
        .seed = search->has_seed
                    ? search->seed
                    : rng_hash_bytes(workflow_seed, experiment->name, strlen(experiment->name)),
        .trials = search->trials,
        .parallel = search->parallel,
        .repeats = search->repeats};
    return space;
}

void search_space_destroy(struct search_space *space)
{
    if (space) {
        arena_release(&space->arena);
        free(space);
    }
}

const struct search_options *search_space_options(const struct search_space *space)
{
    return &space->options;
}

size_t search_space_count(const struct search_space *space)
{
    return space->options.param_count;
}

/* --- arguments and text ------------------------------------------------------------------------
 */

void search_space_arguments(const struct search_space *space, const struct search_value *values,
                            struct value *out, struct arena *scratch)
{
    struct dims_point points[SPACE_PARAMS_MAX];
    to_points(space, values, dims_count(space->dims), points);
    dims_arguments(space->dims, points, out, scratch);
}

void search_space_add_text(const struct search_space *space, const struct search_value *values,
                           struct str *out)
{
    for (size_t i = 0; i < space->options.param_count; i++) {
        str_add(out, i > 0 ? " " : "");
        if (!values[i].present) {
            str_add_char(out, '-');
        } else if (space->params[i].count > 0) {
            str_add_u64(out, values[i].index);
        } else {
            str_add_double(out, values[i].number);
        }
    }
}

/* The number that search.h has for a value that is known by its index. */
static double number_at(const struct search_param *param, uint64_t index)
{
    bool is_range =
        param->kind == SEARCH_UNIFORM || param->kind == SEARCH_LOG || param->kind == SEARCH_NORMAL;
    return is_range ? param->low + (double)index * param->step : (double)index;
}

static bool read_value(const struct search_param *param, const char *word, size_t size,
                       struct search_value *out)
{
    char text[64];
    char *end = NULL;
    *out = (struct search_value){0};
    if (size == 0 || size >= sizeof text) {
        return false;
    }
    memcpy(text, word, size);
    text[size] = '\0';
    if (strcmp(text, "-") == 0) {
        return true;
    }
    errno = 0;
    out->present = true;
    if (param->count > 0) {
        bool digits = strspn(text, "0123456789") == size;
        out->index = digits ? strtoull(text, &end, 10) : 0;
        out->number = number_at(param, out->index);
        return digits && errno == 0 && out->index < param->count;
    }
    out->number = strtod(text, &end);
    return *end == '\0' && strspn(text, "0123456789+-.e") == size && isfinite(out->number);
}

enum err_code search_space_read_text(const struct search_space *space, const char *text,
                                     struct search_value *values, struct err *err)
{
    size_t count = space->options.param_count;
    for (size_t i = 0; i < count; i++) {
        size_t size = strcspn(text, " ");
        if (!read_value(&space->params[i], text, size, &values[i])) {
            return err_set(err, ERR_CORRUPT, "trial: '%.40s' is no value of %.64s", text,
                           space->params[i].name);
        }
        text += size;
        text += *text == ' ' && i + 1 < count;
    }
    struct dims_point points[SPACE_PARAMS_MAX];
    to_points(space, values, count, points);
    const char *misfit = *text == '\0' ? dims_misfit(space->dims, points) : NULL;
    if (*text != '\0' || misfit) {
        return err_set(err, ERR_CORRUPT, "trial: %.64s",
                       misfit ? misfit : "more values than parameters");
    }
    return ERR_OK;
}

/* --- judges ------------------------------------------------------------------------------------
 */

void search_space_asha(const struct experiment *experiment, struct asha_options *out)
{
    const struct search_spec *search = experiment->search;
    CHECK(search->early.algorithm == RECIPE_EARLY_ASHA);
    *out = (struct asha_options){.maximize = search->goals[0].maximize,
                                 .min = search->early.min,
                                 .max = search->early.max,
                                 .eta = search->early.eta,
                                 .brackets = search->early.brackets,
                                 .trials_max = (uint32_t)search->trials};
}

void search_space_stop(const struct experiment *experiment, struct stop_options *out)
{
    const struct search_spec *search = experiment->search;
    *out = (struct stop_options){.maximize = search->goals[0].maximize,
                                 .has_target = search->stop.has_target,
                                 .target = search->stop.target,
                                 .patience = search->stop.patience,
                                 .cost_micro = search->stop.cost_micro,
                                 .currency = search->stop.currency,
                                 .time_ms = search->stop.time_ms,
                                 .trials = search->trials};
}

void search_space_early(const struct experiment *experiment, struct early_options *out)
{
    const struct search_spec *search = experiment->search;
    enum recipe_early early = search->early.algorithm;
    *out = (struct early_options){.rule = early == RECIPE_EARLY_MEDIAN       ? EARLY_MEDIAN
                                          : early == RECIPE_EARLY_STABILISED ? EARLY_STABILISED
                                                                             : EARLY_NONE,
                                  .median = {.maximize = search->goals[0].maximize,
                                             .grace = search->early.min,
                                             .trials_max = (uint32_t)search->trials}};
}
