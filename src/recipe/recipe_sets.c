/* --set PATH=VALUE: finds out which place of the tree the user means, and leaves the change to
 * yaml_set. */
#include "base/mem.h"
#include "base/suggest.h"
#include "recipe/recipe_build.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 2000 };

struct set {
    struct arena *arena;
    struct ynode *root;
    const char *path;
    const char *value;
    struct diag_list *diags;
};

static bool is_top_key(const char *name)
{
    for (const char *const *key = build_top_keys; *key; key++) {
        if (strcmp(*key, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *join(struct arena *arena, const char *const *parts, size_t count)
{
    struct str text = {0};
    for (size_t i = 0; i < count; i++) {
        str_add(&text, i ? "." : "");
        str_add(&text, parts[i]);
    }
    char *copy = arena_strndup(arena, str_text(&text), text.size);
    str_release(&text);
    return copy;
}

static const struct ynode *params_of(const struct ynode *experiment)
{
    return yaml_get(experiment, "parameters");
}

/* Fixes a parameter: to the value, or to several if it is a list; a mapping takes the parameter's
 * place. The parameter's condition stays. */
static void fix_param(const struct set *set, const char *experiment, const char *name)
{
    const struct ynode *experiments = yaml_get(set->root, "experiments");
    const struct ynode *old = yaml_get(params_of(yaml_get(experiments, experiment)), name);
    struct ynode *value = yaml_parse_value(set->arena, set->path, set->value, set->diags);
    if (!value) {
        return;
    }
    if (value->kind != YNODE_MAPPING) {
        const struct ynode *list =
            value->kind == YNODE_SCALAR ? yaml_list_of(set->arena, value) : value;
        value = yaml_with(set->arena, NULL, "values", list);
        const struct ynode *when = yaml_get(old, "when");
        if (when) {
            value = yaml_with(set->arena, value, "when", when);
        }
    }
    const char *const parts[] = {"experiments", experiment, "parameters", name};
    (void)yaml_set_node(set->arena, set->root, join(set->arena, parts, 4), value, set->diags);
}

/* A bare parameter's name: fixed wherever it is. False if no experiment has it. */
static bool fix_everywhere(const struct set *set)
{
    bool found = false;
    const struct ynode *experiments = yaml_get(set->root, "experiments");
    size_t count = experiments && experiments->kind == YNODE_MAPPING ? experiments->count : 0;
    for (size_t i = 0; i < count; i++) { /* set->root changes; this copy of the list does not */
        if (yaml_get(params_of(experiments->items[i]), set->path)) {
            fix_param(set, experiments->keys[i]->text, set->path);
            found = true;
        }
    }
    return found;
}

static void add_words(const struct ynode *mapping, const char **words, size_t *count)
{
    for (size_t i = 0; mapping && mapping->kind == YNODE_MAPPING && i < mapping->count; i++) {
        if (*count < WORDS_MAX) {
            words[(*count)++] = mapping->keys[i]->text;
        }
    }
}

static void report_unknown(const struct set *set, const char *first)
{
    const struct ynode *experiments = yaml_get(set->root, "experiments");
    AUTO_FREE const char **words = mem_array(WORDS_MAX, sizeof *words);
    size_t count = 0;
    for (const char *const *key = build_top_keys; *key; key++) {
        words[count++] = *key;
    }
    add_words(experiments, words, &count);
    for (size_t i = 0; experiments && i < experiments->count; i++) {
        add_words(params_of(experiments->items[i]), words, &count);
    }
    const char *hint = suggest_nearest(first, words, count);
    diag_add(set->diags, DIAG_LINE_SET, 0,
             "%.100s: no parameter, experiment or key is called '%.60s'%s%s%s", set->path, first,
             hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
}

/* A path below an experiment; a parameter's bare name there means the parameter. */
static void set_in_experiment(const struct set *set, const char *first, const char *rest)
{
    const struct ynode *node = yaml_get(yaml_get(set->root, "experiments"), first);
    if (rest && !build_is_experiment_key(rest) && yaml_get(params_of(node), rest)) {
        fix_param(set, first, rest);
        return;
    }
    const char *const parts[] = {"experiments", set->path};
    (void)yaml_set(set->arena, set->root, join(set->arena, parts, 2), set->value, set->diags);
}

void build_apply_set(struct arena *arena, struct ynode *root, const char *text,
                     struct diag_list *diags)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        diag_add(diags, DIAG_LINE_SET, 0, "'%.100s' is not of the form PATH=VALUE", text);
        return;
    }
    struct set set = {.arena = arena, .root = root, .value = equals + 1, .diags = diags};
    set.path = arena_strndup(arena, text, (size_t)(equals - text));
    size_t first_size = strcspn(set.path, ".");
    const char *first = arena_strndup(arena, set.path, first_size);
    const char *rest = set.path[first_size] == '.' ? set.path + first_size + 1 : NULL;
    if (is_top_key(first)) {
        (void)yaml_set(arena, root, set.path, set.value, diags);
    } else if (!rest && fix_everywhere(&set)) {
        return;
    } else if (yaml_get(yaml_get(root, "experiments"), first)) {
        set_in_experiment(&set, first, rest);
    } else {
        report_unknown(&set, first);
    }
}
