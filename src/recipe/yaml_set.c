#include "base/mem.h"
#include "recipe/yaml_internal.h"

#include <string.h>

static void mark_as_set(struct ynode *node)
{
    node->line = DIAG_LINE_SET;
    node->column = 0;
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->line != DIAG_LINE_SET) { /* shared nodes need one visit only */
            mark_as_set(node->items[i]);
        }
        if (node->kind == YNODE_MAPPING) {
            mark_as_set(node->keys[i]);
        }
    }
}

static struct ynode *new_scalar(struct arena *arena, const char *text, size_t size,
                                enum ynode_type type)
{
    struct ynode *node = arena_alloc(arena, sizeof *node);
    node->kind = YNODE_SCALAR;
    node->type = type;
    node->text = arena_strndup(arena, text, size);
    node->size = size;
    node->line = DIAG_LINE_SET;
    yaml_weigh(node);
    return node;
}

struct ynode *yaml_parse_value(struct arena *arena, const char *path, const char *value,
                               struct diag_list *diags)
{
    if (value[strspn(value, " \t\r\n")] == '\0') {
        return new_scalar(arena, "", 0, YTYPE_NULL);
    }
    struct diag_list inner = {0};
    struct ynode *node = yaml_parse(arena, value, strlen(value), &inner);
    for (size_t i = 0; i < inner.count; i++) {
        diag_add(diags, DIAG_LINE_SET, 0, "%.100s: %s", path, inner.items[i].text);
    }
    diag_release(&inner);
    if (node) {
        mark_as_set(node);
    }
    return node;
}

static const struct ynode empty_mapping = {.kind = YNODE_MAPPING, .line = DIAG_LINE_SET};

/* A copy, as the old mapping may be shared by aliases. */
struct ynode *yaml_with(struct arena *arena, const struct ynode *mapping, const char *key,
                        const struct ynode *value)
{
    const struct ynode *old = mapping ? mapping : &empty_mapping;
    struct ynode *copy = arena_alloc(arena, sizeof *copy);
    *copy = *old;
    copy->keys = arena_alloc(arena, (old->count + 1) * sizeof(struct ynode *));
    copy->items = arena_alloc(arena, (old->count + 1) * sizeof(struct ynode *));
    size_t at = old->count;
    for (size_t i = 0; i < old->count; i++) {
        copy->keys[i] = old->keys[i];
        copy->items[i] = old->items[i];
        if (strcmp(old->keys[i]->text, key) == 0) {
            at = i;
        }
    }
    if (at == old->count) {
        copy->keys[at] = new_scalar(arena, key, strlen(key), YTYPE_TEXT);
        copy->count++;
    }
    copy->items[at] = (struct ynode *)value; /* nodes are read-only once they are in a tree */
    yaml_weigh(copy);
    return copy;
}

struct ynode *yaml_list_of(struct arena *arena, const struct ynode *item)
{
    struct ynode *list = arena_alloc(arena, sizeof *list);
    list->kind = YNODE_SEQUENCE;
    list->line = item->line;
    list->column = item->column;
    list->count = 1;
    list->items = arena_alloc(arena, sizeof(struct ynode *));
    list->items[0] = (struct ynode *)item;
    yaml_weigh(list);
    return list;
}

struct setting {
    struct arena *arena;
    const char *path;
    const struct ynode *value;
    struct diag_list *diags;
};

static const struct ynode *mapping_for(const struct setting *setting, const struct ynode *old,
                                       const char *at)
{
    if (!old || (old->kind == YNODE_SCALAR && old->type == YTYPE_NULL)) {
        return &empty_mapping;
    }
    if (old->kind != YNODE_MAPPING) {
        int size = at > setting->path ? (int)(at - setting->path) - 1 : 0;
        diag_add(setting->diags, DIAG_LINE_SET, 0, "%.100s: '%.*s' is a %s, not a mapping",
                 setting->path, size, setting->path,
                 old->kind == YNODE_SCALAR ? "single value" : "list");
        return NULL;
    }
    return old;
}

/* The tree that takes the place of old, or NULL after a diagnosis. Depth is bounded by the caller.
 */
static struct ynode *set_below(const struct setting *setting, const struct ynode *old,
                               const char *at)
{
    const struct ynode *mapping = mapping_for(setting, old, at);
    if (!mapping) {
        return NULL;
    }
    size_t size = strcspn(at, ".");
    const char *key = arena_strndup(setting->arena, at, size);
    const struct ynode *value = setting->value;
    if (at[size] == '.') {
        value = set_below(setting, yaml_get(mapping, key), at + size + 1);
    }
    return value ? yaml_with(setting->arena, mapping, key, value) : NULL;
}

/* What is wrong with the path itself, or NULL. */
static const char *path_trouble(const char *path)
{
    size_t depth = 1;
    size_t size = 0;
    for (const char *at = path;; at++) {
        if (*at && *at != '.') {
            if (++size > YAML_KEY_MAX) {
                return "a part of the path is too long";
            }
            continue;
        }
        if (size == 0) {
            return "the path has an empty part";
        }
        if (*at == '\0') {
            return NULL;
        }
        size = 0;
        if (++depth >= YAML_DEPTH_MAX) {
            return "the path has too many parts";
        }
    }
}

bool yaml_set_node(struct arena *arena, struct ynode *root, const char *path,
                   const struct ynode *value, struct diag_list *diags)
{
    const char *trouble = path_trouble(path);
    if (trouble) {
        diag_add(diags, DIAG_LINE_SET, 0, "%.100s: %s", path, trouble);
        return false;
    }
    struct setting setting = {.arena = arena, .path = path, .value = value, .diags = diags};
    struct ynode *changed = set_below(&setting, root, path);
    if (!changed) {
        return false;
    }
    trouble = yaml_overweight(&changed->weight);
    if (trouble) {
        diag_add(diags, DIAG_LINE_SET, 0, "%.100s: the recipe is now %s", path, trouble);
        return false;
    }
    *root = *changed;
    return true;
}

bool yaml_set(struct arena *arena, struct ynode *root, const char *path, const char *value,
              struct diag_list *diags)
{
    const struct ynode *node = yaml_parse_value(arena, path, value, diags);
    return node && yaml_set_node(arena, root, path, node, diags);
}
