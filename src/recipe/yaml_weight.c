#include "recipe/yaml_internal.h"

enum {
    VALUE_BYTES = 4, /* ": ", "\n" and a little quoting */
    INDEX_BYTES = 8, /* "[12345]" */
};

void yaml_weigh(struct ynode *node)
{
    struct ynode_weight weight = {.nodes = 1, .depth = 1};
    weight.lines = 1; /* of a container: "{}", "[]" or the order of its keys */
    weight.bytes = node->size + VALUE_BYTES;
    for (size_t i = 0; i < node->count; i++) {
        const struct ynode_weight *child = &node->items[i]->weight;
        uint64_t step = node->kind == YNODE_MAPPING ? node->keys[i]->size + 2 : INDEX_BYTES;
        weight.nodes += child->nodes + (node->kind == YNODE_MAPPING ? 1 : 0);
        weight.lines += child->lines;
        weight.bytes += child->bytes + (child->lines + 1) * step;
        if (weight.depth <= child->depth) {
            weight.depth = child->depth + 1;
        }
    }
    node->weight = weight;
}

const char *yaml_overweight(const struct ynode_weight *weight)
{
    if (weight->depth > YAML_DEPTH_MAX) {
        return "nested more than 64 levels deep";
    }
    if (weight->nodes > YAML_NODES_MAX) {
        return "more than 1000000 values once aliases are expanded";
    }
    if (weight->bytes > YAML_FLAT_MAX) {
        return "more than 64 MiB once aliases are expanded and every value has its path";
    }
    return NULL;
}

_Static_assert(YAML_DEPTH_MAX == 64 && YAML_NODES_MAX == 1000000 && YAML_FLAT_MAX == 64 << 20,
               "the texts above say so");
