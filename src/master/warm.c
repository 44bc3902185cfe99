#include "master/warm.h"

#include "base/jread.h"
#include "base/mem.h"
#include "recipe/dims.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_MAX = 65536, EXAMPLES = 256 };

/* A value of a dimension that is known by its index: the keys of its members, one after another. */
struct listed {
    const char *key;
    uint64_t index;
};

struct warm_dim {
    const struct dims_dim *about;
    const char *members[SPACE_PARAMS_MAX]; /* names */
    size_t member_count;
    bool is_range;
    struct listed *listed; /* sorted by key; NULL where it never fits */
    size_t listed_count;
};

struct warm {
    struct arena arena;
    const struct experiment *experiment;
    const struct dims *dims;
    struct warm_dim *made; /* one for each dimension */
    size_t count;
    char name[80]; /* of the last misfit */
};

/* --- keys: values as text that is the same iff they are ------------------------------------------
 */

static void add_key(struct str *out, const char *json_text, bool is_number)
{
    if (is_number) {
        str_add_double(out, strtod(json_text, NULL) + 0.0); /* -0 is 0 */
    } else {
        str_add(out, json_text);
    }
    str_add_char(out, '\n'); /* in no JSON text on one line */
}

static void add_value_key(struct str *out, const struct value *value)
{
    AUTO_STR struct str text = {0};
    struct json json = {.out = &text};
    double number = 0;
    value_add_json(&json, value);
    add_key(out, str_text(&text), value_number(value, &number));
}

/* A text may be written in several ways: it is written anew. */
static void add_node_key(struct str *out, const struct jnode *node)
{
    AUTO_STR struct str text = {0};
    if (node->kind == JREAD_TEXT) {
        struct json json = {.out = &text};
        json_text(&json, node->text);
    } else {
        jread_add(&text, node);
    }
    add_key(out, str_text(&text), node->kind == JREAD_NUMBER);
}

static int by_key(const void *left, const void *right)
{
    return strcmp(((const struct listed *)left)->key, ((const struct listed *)right)->key);
}

/* --- the dimensions ------------------------------------------------------------------------------
 */

static void find_members(struct warm *warm, struct warm_dim *dim)
{
    const char *at = dim->about->name;
    while (*at) {
        size_t size = strcspn(at, "+"); /* no parameter's name has one */
        dim->members[dim->member_count++] = arena_strndup(&warm->arena, at, size);
        at += size + (at[size] == '+');
    }
}

static size_t find_param(const struct space *space, const char *name)
{
    size_t param = 0;
    while (strcmp(space_param_name(space, param), name) != 0) {
        param++;
        CHECK(param < space_param_count(space));
    }
    return param;
}

/* False: a member is not there, and may depend on what we do not know. */
static bool add_member_keys(const struct warm *warm, const struct warm_dim *dim,
                            const struct value *values, struct str *out)
{
    for (size_t i = 0; i < dim->member_count; i++) {
        const struct value *value = &values[find_param(warm->experiment->space, dim->members[i])];
        if (value->kind == VALUE_ABSENT || value->kind == VALUE_FILES) {
            return false;
        }
        add_value_key(out, value);
    }
    return true;
}

static bool find_example(const struct warm *warm, size_t dim, struct dims_point *points)
{
    for (uint64_t key = 0; key < EXAMPLES; key++) {
        dims_example(warm->dims, key, points);
        if (points[dim].present) {
            return true;
        }
    }
    return false;
}

static void list_values(struct warm *warm, size_t number)
{
    struct warm_dim *dim = &warm->made[number];
    struct dims_point points[SPACE_PARAMS_MAX];
    struct value values[SPACE_PARAMS_MAX];
    if (dim->about->count == 0 || dim->about->count > LISTED_MAX ||
        !find_example(warm, number, points)) {
        return;
    }
    struct arena scratch = {0};
    size_t count = (size_t)dim->about->count;
    struct listed *listed = arena_alloc(&warm->arena, count * sizeof *listed);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        AUTO_STR struct str key = {0};
        points[number].index = i;
        dims_arguments(warm->dims, points, values, &scratch);
        good = add_member_keys(warm, dim, values, &key);
        listed[i] = (struct listed){arena_strdup(&warm->arena, str_text(&key)), i};
        arena_reset(&scratch);
    }
    if (good) {
        qsort(listed, count, sizeof *listed, by_key);
        dim->listed = listed;
        dim->listed_count = count;
    }
    arena_release(&scratch);
}

struct warm *warm_create(const struct experiment *experiment)
{
    CHECK(experiment->search);
    struct warm *warm = mem_alloc(sizeof *warm);
    warm->experiment = experiment;
    warm->dims = dims_create(&warm->arena, experiment->space);
    warm->count = dims_count(warm->dims);
    warm->made = mem_array(warm->count, sizeof *warm->made);
    for (size_t i = 0; i < warm->count; i++) {
        struct warm_dim *dim = &warm->made[i];
        dim->about = dims_at(warm->dims, i);
        dim->is_range = dim->about->kind == DIMS_UNIFORM || dim->about->kind == DIMS_LOG ||
                        dim->about->kind == DIMS_NORMAL;
        find_members(warm, dim);
        if (!dim->is_range) {
            list_values(warm, i);
        }
    }
    return warm;
}

void warm_destroy(struct warm *warm)
{
    if (warm) {
        free(warm->made);
        arena_release(&warm->arena);
        free(warm);
    }
}

/* --- fitting -------------------------------------------------------------------------------------
 */

static bool fit_range(const struct dims_dim *about, const struct jnode *node,
                      struct dims_point *point)
{
    if (node->kind != JREAD_NUMBER) {
        return false;
    }
    double number = strtod(node->raw, NULL);
    if (about->count == 0) {
        point->number = number;
        return number >= about->low && number <= about->high;
    }
    double place = round((number - about->low) / about->step);
    if (!(place >= 0 && place < (double)about->count)) {
        return false;
    }
    point->index = (uint64_t)place;
    point->number = about->low + place * about->step;
    return fabs(point->number - number) <= 1e-6 * about->step;
}

static bool fit_listed(const struct warm_dim *dim, const struct jnode *params,
                       struct dims_point *point)
{
    AUTO_STR struct str key = {0};
    for (size_t i = 0; i < dim->member_count; i++) {
        const struct jnode *node = jread_get(params, dim->members[i]);
        if (!node) {
            return false;
        }
        add_node_key(&key, node);
    }
    struct listed wanted = {.key = str_text(&key)};
    const struct listed *found =
        dim->listed ? bsearch(&wanted, dim->listed, dim->listed_count, sizeof wanted, by_key)
                    : NULL;
    point->index = found ? found->index : 0;
    point->number = (double)point->index;
    return found != NULL;
}

/* Goes on with the next dimension; those before it are settled. */
static bool fit_dim(const struct warm *warm, size_t number, const struct jnode *params,
                    struct dims_point *points)
{
    const struct warm_dim *dim = &warm->made[number];
    points[number] = (struct dims_point){.present = dims_present(warm->dims, number, points)};
    if (!points[number].present) {
        return !jread_get(params, dim->members[0]);
    }
    if (!dim->is_range) {
        return fit_listed(dim, params, &points[number]);
    }
    const struct jnode *node = jread_get(params, dim->members[0]);
    return node && fit_range(dim->about, node, &points[number]);
}

static bool has_param(const struct space *space, const char *name)
{
    for (size_t i = 0; i < space_param_count(space); i++) {
        if (strcmp(space_param_name(space, i), name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *misfit(struct warm *warm, const char *name)
{
    snprintf(warm->name, sizeof warm->name, "%s", name);
    return warm->name;
}

static const char *fit_object(struct warm *warm, const struct jnode *params,
                              struct search_value *values)
{
    struct dims_point points[SPACE_PARAMS_MAX];
    if (params->kind != JREAD_OBJECT) {
        return misfit(warm, "params");
    }
    for (const struct jnode *node = params->first; node; node = node->next) {
        if (!has_param(warm->experiment->space, node->key)) {
            return misfit(warm, node->key);
        }
    }
    for (size_t i = 0; i < warm->count; i++) {
        if (!fit_dim(warm, i, params, points)) {
            return misfit(warm, warm->made[i].about->name);
        }
        values[i] = (struct search_value){
            .present = points[i].present, .index = points[i].index, .number = points[i].number};
    }
    const char *wrong = dims_misfit(warm->dims, points);
    return wrong ? misfit(warm, wrong) : NULL;
}

const char *warm_fit(struct warm *warm, const char *params, struct search_value *values)
{
    struct jread doc = {0};
    if (jread_parse(&doc, params, strlen(params), NULL) != ERR_OK) {
        return misfit(warm, "params");
    }
    const char *wrong = fit_object(warm, doc.root, values);
    jread_release(&doc);
    return wrong;
}
