/* Reading one parameter: which form it has, and what is in it. */
#include "base/mem.h"
#include "base/suggest.h"
#include "recipe/space_internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct value *a, const struct value *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* By text, then by place in the list. */
static int compare_values(const void *left, const void *right)
{
    const struct value *a = *(const struct value *const *)left;
    const struct value *b = *(const struct value *const *)right;
    size_t common = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->text, b->text, common);
    if (order == 0 && a->size != b->size) {
        order = a->size < b->size ? -1 : 1;
    }
    return order ? order : (a > b) - (a < b);
}

/* A value listed twice would come up twice as often: no longer a sample with minimal repetition. */
static bool refuse_repeats(const struct ynode *node, const struct param *param,
                           struct diag_list *diags)
{
    AUTO_FREE const struct value **sorted = mem_array(param->count, sizeof *sorted);
    for (uint64_t i = 0; i < param->count; i++) {
        sorted[i] = &param->list[i];
    }
    qsort(sorted, param->count, sizeof *sorted, compare_values);
    bool found = false;
    for (uint64_t i = 1; i < param->count; i++) {
        if (is_same(sorted[i - 1], sorted[i])) {
            const struct ynode *again = node->items[sorted[i] - param->list];
            diag_add(diags, again->line, again->column, "value %.60s is listed twice",
                     sorted[i]->text);
            found = true;
        }
    }
    return found;
}

static bool refuse_value(const struct ynode *item, struct diag_list *diags)
{
    if (item->kind != YNODE_SCALAR) {
        diag_add(diags, item->line, item->column, "a value must be a number, a text or a boolean");
        return true;
    }
    if (item->type == YTYPE_NULL) {
        diag_add(diags, item->line, item->column,
                 "a value is missing here; quote it if the text is meant");
        return true;
    }
    return false;
}

static bool read_list(struct arena *arena, const struct ynode *node, struct param *param,
                      struct diag_list *diags)
{
    if (node->count == 0) {
        diag_add(diags, node->line, node->column, "parameter %s has no values", param->name);
        return false;
    }
    param->form = PARAM_LIST;
    param->count = node->count;
    param->list = arena_alloc(arena, node->count * sizeof *param->list);
    bool ok = true;
    for (size_t i = 0; i < node->count; i++) {
        if (refuse_value(node->items[i], diags)) {
            ok = false;
        } else {
            param->list[i] = value_of_scalar(arena, node->items[i]);
        }
    }
    return ok && !refuse_repeats(node, param, diags);
}

/* LOW..HIGH [step S] */
static bool read_lattice(const struct ynode *node, struct param *param, struct diag_list *diags)
{
    static const struct decimal one = {.near = 1, .digits = 1, .exact = true};
    struct range range;
    size_t at = 0;
    if (!range_parse(node->text, false, &range, &at)) {
        diag_add(diags, node->line, node->column + (int)(at < 200 ? at : 0),
                 "cannot read this range of values; it should be like 0..99 or 0..1 step 0.1 (put "
                 "a text in [ ])");
        return false;
    }
    if (!range.has_step && (range.low.scale > 0 || range.high.scale > 0)) {
        diag_add(diags, node->line, node->column,
                 "values between fractions need a step, as in 0..1 step 0.1 (or use range)");
        return false;
    }
    const char *problem =
        lattice_init(&param->lattice, &range.low, &range.high, range.has_step ? &range.step : &one);
    if (problem) {
        diag_add(diags, node->line, node->column, "%.60s %s", node->text, problem);
        return false;
    }
    param->form = PARAM_LATTICE;
    param->count = param->lattice.count;
    return true;
}

static bool read_values(struct arena *arena, const struct ynode *node, struct param *param,
                        struct diag_list *diags)
{
    if (node->kind == YNODE_SEQUENCE) {
        return read_list(arena, node, param, diags);
    }
    if (refuse_value(node, diags)) {
        return false;
    }
    if (range_looks_like(node->text)) {
        return read_lattice(node, param, diags);
    }
    param->form = PARAM_LIST;
    param->count = 1;
    param->list = arena_alloc(arena, sizeof *param->list);
    param->list[0] = value_of_scalar(arena, node);
    return true;
}

static bool read_pattern(struct arena *arena, const struct ynode *node, struct param *param,
                         struct diag_list *diags)
{
    if (node->kind != YNODE_SCALAR || node->type == YTYPE_NULL || node->size == 0) {
        diag_add(diags, node->line, node->column, "files must be a pattern like \"data/*.txt\"");
        return false;
    }
    param->patterns[param->pattern_count++] = arena_strndup(arena, node->text, node->size);
    return true;
}

static bool read_files(struct arena *arena, const struct ynode *mapping, struct param *param,
                       struct diag_list *diags)
{
    const struct ynode *node = yaml_get(mapping, "files");
    const struct ynode *batch_node = yaml_get(mapping, "batch");
    int64_t batch = 1;
    bool ok = true;
    if (batch_node && (!yaml_as_i64(batch_node, &batch) || batch < 1)) {
        diag_add(diags, batch_node->line, batch_node->column,
                 "batch must be a whole number of files, at least 1");
        ok = false;
    }
    param->form = PARAM_FILES;
    param->batch = (uint64_t)batch;
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t count = is_list ? node->count : 1;
    if (count == 0) {
        diag_add(diags, node->line, node->column, "files lists no pattern");
        return false;
    }
    param->patterns = arena_alloc(arena, count * sizeof *param->patterns);
    for (size_t i = 0; i < count; i++) {
        ok = read_pattern(arena, is_list ? node->items[i] : node, param, diags) && ok;
    }
    return ok;
}

/* Which form a key belongs to; NULL for any. */
struct known_key {
    const char *name;
    const char *form;
};

static const struct known_key KEYS[] = {
    {"values", "values"}, {"range", "range"},   {"files", "files"},    {"sampling", "range"},
    {"step", "range"},    {"integer", "range"}, {"mean", "range"},     {"sd", "range"},
    {"batch", "files"},   {"when", NULL},       {"ordered", "values"},
};
enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] };

static const struct known_key *find_key(const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(KEYS[i].name, name) == 0) {
            return &KEYS[i];
        }
    }
    return NULL;
}

/* The one of values, range and files that is there, or NULL with a diagnosis. A normal
 * distribution without bounds counts as a range. */
static const char *find_form(const struct ynode *mapping, struct diag_list *diags)
{
    const char *found = NULL;
    for (size_t i = 0; i < 3; i++) {
        const struct ynode *node = yaml_get(mapping, KEYS[i].name);
        if (node && found) {
            diag_add(diags, node->line, node->column, "a parameter has either %s or %s", found,
                     KEYS[i].name);
            return NULL;
        }
        found = node ? KEYS[i].name : found;
    }
    if (!found && yaml_get(mapping, "sampling")) {
        return "range";
    }
    return found;
}

static bool check_keys(const struct ynode *mapping, const char *form, struct diag_list *diags)
{
    bool ok = true;
    for (size_t i = 0; i < mapping->count; i++) {
        const struct ynode *key = mapping->keys[i];
        const struct known_key *known = find_key(key->text);
        if (!known) {
            const char *names[KEY_COUNT];
            for (size_t j = 0; j < KEY_COUNT; j++) {
                names[j] = KEYS[j].name;
            }
            const char *near = suggest_nearest(key->text, names, KEY_COUNT);
            diag_add(diags, key->line, key->column,
                     near ? "unknown key '%.60s' (did you mean '%s'?)" : "unknown key '%.60s'",
                     key->text, near);
            ok = false;
        } else if (known->form && form && strcmp(known->form, form) != 0) {
            diag_add(diags, key->line, key->column, "%s goes with %s, not with %s", known->name,
                     known->form, form);
            ok = false;
        }
    }
    return ok;
}

static bool read_mapping(struct arena *arena, const struct ynode *node, struct param *param,
                         struct diag_list *diags)
{
    size_t before = diags->count + diags->dropped;
    const char *form = find_form(node, diags);
    bool keys_ok = check_keys(node, form, diags);
    param->when_node = yaml_get(node, "when");
    if (!form) {
        if (keys_ok && diags->count + diags->dropped == before) {
            diag_add(diags, node->line, node->column,
                     "parameter %s needs one of values, range and files", param->name);
        }
        return false;
    }
    const struct ynode *ordered = yaml_get(node, "ordered");
    bool is_ordered = false;
    if (ordered && strcmp(form, "values") == 0 && !yaml_as_bool(ordered, &is_ordered)) {
        diag_add(diags, ordered->line, ordered->column, "ordered must be true or false");
        keys_ok = false;
    }
    param->ordered = !ordered ? PARAM_ORDER_UNSAID : is_ordered ? PARAM_ORDERED : PARAM_UNORDERED;
    bool ok = strcmp(form, "values") == 0
                  ? read_values(arena, yaml_get(node, "values"), param, diags)
              : strcmp(form, "files") == 0 ? read_files(arena, node, param, diags)
                                           : space_read_range(node, param, diags);
    return ok && keys_ok;
}

bool space_read_form(struct arena *arena, const struct ynode *node, struct param *param,
                     struct diag_list *diags)
{
    return node->kind == YNODE_MAPPING ? read_mapping(arena, node, param, diags)
                                       : read_values(arena, node, param, diags);
}
