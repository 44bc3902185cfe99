/* A mapping's pairs: duplicate keys are found by sorting, and what `<<` brings is added behind. */
#include "base/mem.h"
#include "recipe/yaml_internal.h"

#include <stdlib.h>
#include <string.h>

struct filler {
    struct diag_list *diags;
    bool failed;
};

struct pair {
    struct ynode *key;
    struct ynode *value;
    size_t order;  /* as written; own pairs before merged ones */
    bool merged;   /* came through << */
    bool shadowed; /* an earlier pair has the same key */
};

struct pairs {
    struct pair *items;
    size_t count;
    size_t cap;
};

static int compare_pairs(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    int order = strcmp(x->key->text, y->key->text);
    if (order != 0) {
        return order;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

static int compare_order(const void *a, const void *b)
{
    const struct pair *x = a;
    const struct pair *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void add_pair(struct pairs *pairs, struct ynode *key, struct ynode *value, bool merged)
{
    size_t order = pairs->count;
    VEC_PUSH(pairs->items, pairs->count, pairs->cap) =
        (struct pair){.key = key, .value = value, .order = order, .merged = merged};
}

static void merge(struct filler *filler, struct pairs *pairs, const struct ynode *source)
{
    if (source->kind != YNODE_MAPPING) {
        diag_add(filler->diags, source->line, source->column,
                 "<<: takes a mapping or a list of mappings");
        filler->failed = true;
        return;
    }
    for (size_t i = 0; i < source->count; i++) {
        add_pair(pairs, source->keys[i], source->items[i], true);
    }
}

static bool is_merge_key(const struct ynode *key)
{
    return strcmp(key->text, "<<") == 0;
}

static void gather_pairs(struct filler *filler, struct ynode **children, size_t pair_count,
                         struct pairs *pairs)
{
    const struct ynode *source = NULL;
    for (size_t i = 0; i < pair_count; i++) {
        struct ynode *key = children[2 * i];
        if (!is_merge_key(key)) {
            add_pair(pairs, key, children[2 * i + 1], false);
        } else if (source) {
            diag_add(filler->diags, key->line, key->column, "duplicate key '<<'");
            filler->failed = true;
        } else {
            source = children[2 * i + 1];
        }
    }
    if (source && source->kind == YNODE_SEQUENCE) {
        for (size_t i = 0; i < source->count; i++) {
            merge(filler, pairs, source->items[i]);
        }
    } else if (source) {
        merge(filler, pairs, source);
    }
}

/* Marks every pair whose key an earlier one has: for own pairs that is an error. */
static size_t mark_shadowed(struct filler *filler, struct pairs *pairs)
{
    size_t kept = pairs->count;
    if (pairs->count < 2) {
        return kept;
    }
    qsort(pairs->items, pairs->count, sizeof *pairs->items, compare_pairs);
    size_t first = 0;
    for (size_t i = 1; i < pairs->count; i++) {
        struct pair *pair = &pairs->items[i];
        if (strcmp(pairs->items[first].key->text, pair->key->text) != 0) {
            first = i;
            continue;
        }
        pair->shadowed = true;
        kept--;
        if (!pair->merged) {
            diag_add(filler->diags, pair->key->line, pair->key->column,
                     "duplicate key '%.60s' (first at line %d)", pair->key->text,
                     pairs->items[first].key->line);
            filler->failed = true;
        }
    }
    qsort(pairs->items, pairs->count, sizeof *pairs->items, compare_order);
    return kept;
}

bool yaml_fill_mapping(struct arena *arena, struct ynode *node, struct ynode **children,
                       size_t pair_count, struct diag_list *diags)
{
    struct filler filler = {.diags = diags};
    struct pairs pairs = {0};
    gather_pairs(&filler, children, pair_count, &pairs);
    size_t kept = mark_shadowed(&filler, &pairs);
    node->keys = arena_alloc(arena, kept * sizeof(struct ynode *));
    node->items = arena_alloc(arena, kept * sizeof(struct ynode *));
    for (size_t i = 0; i < pairs.count; i++) {
        if (!pairs.items[i].shadowed) {
            node->keys[node->count] = pairs.items[i].key;
            node->items[node->count] = pairs.items[i].value;
            node->count++;
        }
    }
    CHECK(node->count == kept);
    free(pairs.items);
    return !filler.failed;
}
