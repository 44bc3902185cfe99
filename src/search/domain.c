#include "search/domain.h"

#include "base/check.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static const char *const NO_NAME = "(no name)";

static bool is_range(enum search_kind kind)
{
    return kind == SEARCH_UNIFORM || kind == SEARCH_LOG || kind == SEARCH_NORMAL;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The last number of a stepped range. */
static double last_number(const struct search_param *param)
{
    return param->low + param->step * (double)(param->count - 1);
}

/* Probability up to x of the normal distribution, from the tail where it is precise. */
static double normal_up_to(const struct dim *dim, double x)
{
    double z = (x - dim->param.mean) / dim->param.sd;
    return det_normal_cdf(dim->mirrored ? -z : z);
}

/* Discrete ranges reach half a step beyond their ends, so that all cells are alike. */
static void prepare_range(struct dim *dim)
{
    const struct search_param *param = &dim->param;
    double low = param->low;
    double high = param->high;
    if (dim->discrete) {
        low = param->low - param->step / 2;
        high = last_number(param) + param->step / 2;
    }
    if (param->kind == SEARCH_UNIFORM) {
        dim->from = low;
        dim->width = high - low;
    } else if (param->kind == SEARCH_LOG) {
        dim->from = det_log(low > 0 ? low : param->low / 2);
        dim->width = det_log(high) - dim->from;
    } else {
        dim->mirrored = low > param->mean;
        dim->from = normal_up_to(dim, low);
        dim->width = normal_up_to(dim, high) - dim->from;
    }
}

static const char *range_trouble(const struct search_param *param)
{
    if (param->kind == SEARCH_NORMAL) {
        if (!isfinite(param->mean) || !isfinite(param->sd) || !(param->sd > 0)) {
            return "mean and sd must be numbers, sd above 0";
        }
    } else if (!isfinite(param->low) || (param->count == 0 && !isfinite(param->high))) {
        return "the ends of a range must be numbers";
    }
    if (param->count > 0) {
        if (!isfinite(param->low) || !isfinite(param->step) || !(param->step > 0) ||
            !isfinite(last_number(param))) {
            return "steps must be above 0 and stay finite";
        }
    } else if (!(param->low < param->high)) {
        return "the range is empty";
    }
    if (param->kind == SEARCH_LOG && !(param->low > 0)) {
        return "a logarithmic range must lie above 0";
    }
    return NULL;
}

static const char *condition_trouble(const struct search_options *options, size_t index)
{
    const struct search_param *param = &options->params[index];
    if (!param->conditional) {
        return NULL;
    }
    if (param->parent >= options->param_count || param->parent == index) {
        return "its condition names no other parameter";
    }
    const struct search_param *parent = &options->params[param->parent];
    if (is_range(parent->kind) && parent->count == 0) {
        return "its condition is about a continuous parameter";
    }
    if (parent->count > SEARCH_WHEN_MAX) {
        return "its condition is about a parameter with too many values";
    }
    if (param->when_count == 0 || !param->when) {
        return "its condition never holds";
    }
    for (size_t i = 0; i < param->when_count; i++) {
        if (param->when[i] >= parent->count && parent->kind != SEARCH_FIXED) {
            return "its condition names a value that the other parameter does not have";
        }
    }
    return NULL;
}

static enum err_code check_param(const struct search_options *options, size_t index,
                                 struct err *err)
{
    const struct search_param *param = &options->params[index];
    const char *trouble = NULL;
    if (is_range(param->kind)) {
        trouble = range_trouble(param);
    } else if (param->kind != SEARCH_FIXED && param->count == 0) {
        trouble = "there are no values";
    }
    if (!trouble) {
        trouble = condition_trouble(options, index);
    }
    if (trouble) {
        return err_set(err, ERR_INVALID, "parameter %s: %s", param->name ? param->name : NO_NAME,
                       trouble);
    }
    return ERR_OK;
}

static void add_dim(struct domain *space, size_t index, const struct search_param *param)
{
    struct dim *dim = &space->dims[index];
    dim->param = *param;
    dim->param.name = mem_strdup(param->name ? param->name : NO_NAME);
    dim->param.when = NULL;
    if (param->conditional) {
        dim->param.when = mem_dup(param->when, param->when_count * sizeof param->when[0]);
        space->conditions = true;
    }
    dim->nominal = param->kind == SEARCH_CATEGORICAL || param->kind == SEARCH_FIXED;
    if (param->kind == SEARCH_FIXED) {
        dim->param.count = 1;
    }
    dim->discrete = dim->param.count > 0;
    if (is_range(param->kind)) {
        prepare_range(dim);
    } else {
        dim->width = 1;
    }
}

static void link_children(struct domain *space)
{
    for (size_t i = 0; i < space->count; i++) {
        if (space->dims[i].param.conditional) {
            struct dim *parent = &space->dims[space->dims[i].param.parent];
            parent->children =
                mem_resize(parent->children, parent->child_count + 1, sizeof(size_t));
            parent->children[parent->child_count++] = i;
        }
    }
}

/* Parents first, otherwise as listed (or in the caller's order). Returns how many could be placed:
 * the rest depend on themselves. */
static size_t sort_dims(struct domain *space, const size_t *wanted)
{
    AUTO_FREE bool *placed = mem_array(space->count + 1, sizeof *placed);
    size_t count = 0;
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < space->count; i++) {
            size_t at = wanted ? wanted[i] : i;
            const struct search_param *param = &space->dims[at].param;
            if (!placed[at] && (!param->conditional || placed[param->parent])) {
                placed[at] = true;
                space->order[count++] = at;
                more = true;
            }
        }
    }
    return count;
}

enum err_code domain_init(struct domain *space, const struct search_options *options,
                          struct err *err)
{
    for (size_t i = 0; i < options->param_count; i++) {
        enum err_code code = check_param(options, i, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    *space = (struct domain){.count = options->param_count,
                             .discrete = true,
                             .present = options->present,
                             .allowed = options->allowed,
                             .arg = options->arg};
    space->dims = mem_array(space->count + 1, sizeof space->dims[0]);
    space->order = mem_array(space->count + 1, sizeof space->order[0]);
    for (size_t i = 0; i < space->count; i++) {
        add_dim(space, i, &options->params[i]);
        space->discrete = space->discrete && space->dims[i].discrete;
    }
    if (options->present) {
        space->conditions = true;
    }
    link_children(space);
    if (sort_dims(space, options->order) < space->count) {
        domain_release(space);
        return err_set(err, ERR_INVALID, "parameters: conditions run in a circle");
    }
    return ERR_OK;
}

void domain_release(struct domain *space)
{
    for (size_t i = 0; i < space->count; i++) {
        free((void *)space->dims[i].param.name);
        free((void *)space->dims[i].param.when);
        free(space->dims[i].children);
    }
    free(space->dims);
    free(space->order);
    *space = (struct domain){0};
}

double domain_coordinate(const struct dim *dim, const struct search_value *value)
{
    const struct search_param *param = &dim->param;
    if (dim->nominal) {
        return (double)value->index;
    }
    if (param->kind == SEARCH_ORDERED || (param->kind == SEARCH_UNIFORM && dim->discrete)) {
        return clamp(((double)value->index + 0.5) / (double)param->count, 0, 1);
    }
    double number = dim->discrete ? param->low + param->step * (double)value->index : value->number;
    double at = number;
    if (param->kind == SEARCH_LOG) {
        at = det_log(number);
    } else if (param->kind == SEARCH_NORMAL) {
        at = normal_up_to(dim, number);
    }
    return clamp((at - dim->from) / dim->width, 0, 1);
}

static double number_at(const struct dim *dim, double coordinate)
{
    const struct search_param *param = &dim->param;
    double at = dim->from + dim->width * coordinate;
    if (param->kind == SEARCH_LOG) {
        return det_exp(at);
    }
    if (param->kind == SEARCH_NORMAL) {
        /* Coordinates 0 and 1 of an unbounded one would be infinite. */
        double z = det_normal_quantile(clamp(at, 1e-12, 1 - 1e-12));
        return param->mean + param->sd * (dim->mirrored ? -z : z);
    }
    return at;
}

static uint64_t index_at(const struct dim *dim, double coordinate)
{
    const struct search_param *param = &dim->param;
    double index = 0;
    if (dim->nominal) {
        index = coordinate;
    } else if (param->kind == SEARCH_ORDERED || param->kind == SEARCH_UNIFORM) {
        index = floor(coordinate * (double)param->count);
    } else {
        index = floor((number_at(dim, coordinate) - param->low) / param->step + 0.5);
    }
    if (!(index > 0)) {
        return 0;
    }
    return index >= (double)param->count ? param->count - 1 : (uint64_t)index;
}

struct search_value domain_value(const struct dim *dim, double coordinate)
{
    const struct search_param *param = &dim->param;
    struct search_value value = {.present = true};
    if (dim->discrete) {
        value.index = index_at(dim, coordinate);
        value.number = is_range(param->kind) ? param->low + param->step * (double)value.index
                                             : (double)value.index;
        return value;
    }
    value.number = clamp(number_at(dim, coordinate), param->low, param->high);
    return value;
}

static bool holds(const struct domain *space, size_t index, const struct search_value *values)
{
    const struct search_param *param = &space->dims[index].param;
    if (param->conditional) {
        const struct search_value *parent = &values[param->parent];
        bool found = false;
        for (size_t i = 0; i < param->when_count && parent->present && !found; i++) {
            found = param->when[i] == parent->index;
        }
        if (!found) {
            return false;
        }
    }
    return !space->present || space->present(space->arg, index, values);
}

void domain_values(const struct domain *space, const double *point, struct search_value *values)
{
    for (size_t i = 0; i < space->count; i++) {
        values[i] = (struct search_value){0};
    }
    for (size_t i = 0; i < space->count; i++) {
        size_t at = space->order[i];
        if (holds(space, at, values)) {
            values[at] = domain_value(&space->dims[at], point[at]);
        }
    }
}

void domain_point(const struct domain *space, const struct search_value *values, double *point)
{
    for (size_t i = 0; i < space->count; i++) {
        point[i] = values[i].present ? domain_coordinate(&space->dims[i], &values[i]) : NAN;
    }
}

static bool fits(const struct dim *dim, const struct search_value *value)
{
    const struct search_param *param = &dim->param;
    if (dim->discrete) {
        return value->index < param->count;
    }
    return isfinite(value->number) && value->number >= param->low && value->number <= param->high;
}

const char *domain_misfit(const struct domain *space, const struct search_value *values)
{
    for (size_t i = 0; i < space->count; i++) {
        size_t at = space->order[i];
        const struct search_value *value = &values[at];
        if (holds(space, at, values) != value->present ||
            (value->present && !fits(&space->dims[at], value))) {
            return space->dims[at].param.name;
        }
    }
    return NULL;
}

double domain_at_unit(const struct dim *dim, double unit)
{
    if (dim->nominal) {
        double index = floor(unit * (double)dim->param.count);
        return index < (double)dim->param.count ? index : (double)(dim->param.count - 1);
    }
    return unit;
}

double domain_draw(const struct dim *dim, struct rng *rng)
{
    return domain_at_unit(dim, rng_unit(rng));
}
