#include "base/suggest.h"
#include "recipe/recipe_build.h"
#include "recipe/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What stands there instead, for messages. */
static const char *kind_of(const struct ynode *node)
{
    if (node->kind == YNODE_MAPPING) {
        return "a mapping";
    }
    if (node->kind == YNODE_SEQUENCE) {
        return "a list";
    }
    if (node->type == YTYPE_NULL) {
        return "nothing";
    }
    return NULL;
}

static void expected(struct build *build, const struct ynode *node, const char *what,
                     const char *wanted)
{
    const char *kind = kind_of(node);
    if (kind) {
        diag_add(build->diags, node->line, node->column, "%s must be %s, not %s", what, wanted,
                 kind);
    } else {
        diag_add(build->diags, node->line, node->column, "%s must be %s, not '%.60s'", what, wanted,
                 node->text);
    }
}

void build_bool(struct build *build, const struct ynode *node, const char *what, bool *out)
{
    if (!yaml_as_bool(node, out)) {
        expected(build, node, what, "true or false");
    }
}

bool build_count(struct build *build, const struct ynode *node, const char *what, uint64_t min,
                 uint64_t max, uint64_t *out)
{
    int64_t value = 0;
    if (yaml_as_i64(node, &value) && value >= 0 && (uint64_t)value >= min &&
        (uint64_t)value <= max) {
        *out = (uint64_t)value;
        return true;
    }
    char wanted[80];
    snprintf(wanted, sizeof wanted, "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    expected(build, node, what, wanted);
    return false;
}

void build_duration(struct build *build, const struct ynode *node, const char *what, int64_t *out)
{
    if (kind_of(node) || !units_duration(node->text, out)) {
        expected(build, node, what, "a time such as 30s, 5m, 2h or 1d");
    }
}

void build_size(struct build *build, const struct ynode *node, const char *what, uint64_t *out)
{
    if (kind_of(node) || !units_size(node->text, out)) {
        expected(build, node, what, "a size such as 512MB, 8GB or 16GiB");
    }
}

const char *build_text(struct build *build, const struct ynode *node, const char *what)
{
    if (node->kind == YNODE_SCALAR && node->type != YTYPE_NULL && node->size > 0) {
        return node->text;
    }
    if (node->kind == YNODE_SCALAR && node->type == YTYPE_TEXT) {
        diag_add(build->diags, node->line, node->column, "%s must not be empty", what);
    } else {
        expected(build, node, what, "text");
    }
    return NULL;
}

const char *build_hint(const struct build *build, const char *word, const char *const *words,
                       size_t count)
{
    return build->diags->count < DIAG_MAX ? suggest_nearest(word, words, count) : NULL;
}
