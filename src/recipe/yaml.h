/* yaml.h - YAML text to a tree that remembers where each thing stood.
 *
 * The reader is bounded whatever the input: YAML_BYTES_MAX of text, YAML_DEPTH_MAX levels,
 * YAML_NODES_MAX nodes and YAML_FLAT_MAX bytes counted after aliases are expanded (so a billion
 * laughs is one error).
 * Refused with a diagnosis: duplicate keys, keys that are not scalars, several documents, unknown
 * tags, NUL bytes, text that is not UTF-8, merge keys past the limits above. Anchors, aliases and
 * `<<` merges are expanded; the tree never shares nodes by more than a pointer and is read-only.
 * Nodes live in the arena. Nodes from --set have the line DIAG_LINE_SET.
 */
#ifndef RECIPE_YAML_H
#define RECIPE_YAML_H

#include "base/arena.h"
#include "recipe/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    YAML_BYTES_MAX = 8 << 20,
    YAML_DEPTH_MAX = 64,
    YAML_NODES_MAX = 1000000,
    YAML_KEY_MAX = 1024,      /* bytes of one key */
    YAML_FLAT_MAX = 64 << 20, /* bytes when written out in full, about as yaml_flatten does */
};

enum ynode_kind { YNODE_SCALAR, YNODE_SEQUENCE, YNODE_MAPPING };

/* How a plain (unquoted) scalar reads in YAML 1.2's core schema, so yes, no and on are TEXT; and
 * 1_000_000, in groups of three, is an integer. Quoted ones are TEXT. */
enum ynode_type { YTYPE_TEXT, YTYPE_NULL, YTYPE_BOOL, YTYPE_INTEGER, YTYPE_NUMBER };

/* What a tree amounts to with every alias expanded. Kept by the reader, for its limits. */
struct ynode_weight {
    uint32_t nodes;
    uint32_t lines; /* of yaml_flatten */
    uint32_t depth; /* a scalar: 1 */
    uint64_t bytes; /* of yaml_flatten, below this node's own path, about */
};

struct ynode {
    enum ynode_kind kind;
    enum ynode_type type; /* scalars only */
    int line;             /* from 1 */
    int column;           /* from 1 */
    int text_line;        /* where the text itself begins: past a quote, or below a | */
    int text_column;
    const char *text;     /* scalar: its text, NUL-terminated, no NUL inside */
    size_t size;          /* scalar: bytes of text */
    size_t count;         /* items, or pairs */
    struct ynode **items; /* sequence: items; mapping: values */
    struct ynode **keys;  /* mapping: scalar keys, in the order written */
    struct ynode_weight weight;
};

/* The tree, or NULL with at least one diagnosis. An empty document is a diagnosis too. */
struct ynode *yaml_parse(struct arena *arena, const char *text, size_t size,
                         struct diag_list *diags);

/* The value of a mapping's key, or NULL. */
const struct ynode *yaml_get(const struct ynode *mapping, const char *key);

/* Typed readings of a scalar; false when it is not one (nothing is reported). Integers accept
 * decimal, 0x, 0o and _ separators as YAML does; numbers accept integers too. */
bool yaml_as_i64(const struct ynode *node, int64_t *out);
bool yaml_as_double(const struct ynode *node, double *out);
bool yaml_as_bool(const struct ynode *node, bool *out);

/* The tree as lines "path.to.key[0]: value\n" in a fixed order, the same for any two recipes that
 * differ only in layout, comments, quoting style, key order or use of anchors, and different for
 * any others. Two mappings have an order that means something, and a line that says it:
 * "experiments: [a, b]" (their numbers) and "experiments.a.parameters: [lr, batch]" (the grid's
 * order). For digests and differences. */
void yaml_flatten(const struct ynode *root, struct str *out);

/* The difference of two flattened trees as "- path: old\n+ path: new\n" in order of path; empty
 * when equal. */
void yaml_difference(const char *flat_old, const char *flat_new, struct str *out);

/* `--set`: replaces or adds the value at a dotted path below root ("mnist.samples"), value being
 * YAML text (none: null). Other places that share a node with the path by an alias keep theirs.
 * On error (bad YAML, a path through a scalar or list, a limit) a diagnosis with line
 * DIAG_LINE_SET, false, and an unchanged tree. */
bool yaml_set(struct arena *arena, struct ynode *root, const char *path, const char *value,
              struct diag_list *diags);

/* Its parts, for callers that make the value themselves: the text as a tree, or NULL; a mapping
 * (NULL: an empty one) with one pair replaced or added, as a copy; a list of one item; and the
 * setting of a ready value. */
struct ynode *yaml_parse_value(struct arena *arena, const char *path, const char *value,
                               struct diag_list *diags);
struct ynode *yaml_with(struct arena *arena, const struct ynode *mapping, const char *key,
                        const struct ynode *value);
struct ynode *yaml_list_of(struct arena *arena, const struct ynode *item);
bool yaml_set_node(struct arena *arena, struct ynode *root, const char *path,
                   const struct ynode *value, struct diag_list *diags);

#endif
