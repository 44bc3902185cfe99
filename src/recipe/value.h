/* value.h - one argument of one task: its exact text, and what kind of thing that text is. */
#ifndef RECIPE_VALUE_H
#define RECIPE_VALUE_H

#include "base/arena.h"
#include "base/json.h"
#include "recipe/yaml.h"

#include <stdbool.h>
#include <stddef.h>

enum value_kind {
    VALUE_ABSENT, /* a parameter whose `when:` does not hold: rendered as nothing, not in params */
    VALUE_TEXT,
    VALUE_INTEGER,
    VALUE_NUMBER,
    VALUE_BOOL,
    VALUE_FILES, /* text is the path of a manifest: one file name per line */
};

struct value {
    enum value_kind kind;
    const char *text; /* as a command sees it: "0.1", "adam", "true"; NUL-terminated */
    size_t size;
};

/* A YAML scalar as a value: its source text kept exactly, copied into the arena. */
struct value value_of_scalar(struct arena *arena, const struct ynode *scalar);

/* As JSON: numbers and booleans bare (normalised to JSON's syntax: 0x1F is 31, +.5 is 0.5), all
 * else a string, .inf and .nan too. An absent value is null. */
void value_add_json(struct json *json, const struct value *value);

/* What an INTEGER or NUMBER amounts to; false for other kinds and for what is not finite. */
bool value_number(const struct value *value, double *out);

/* True for a BOOL that says true. */
bool value_is_true(const struct value *value);

#endif
