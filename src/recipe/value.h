/* value.h - one argument of one task: its exact text, and what kind of thing that text is. */
#ifndef RECIPE_VALUE_H
#define RECIPE_VALUE_H

#include "base/json.h"
#include "recipe/yaml.h"

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

/* As JSON: numbers and booleans bare (normalised to JSON's syntax), all else a string. */
void value_add_json(struct json *json, const struct value *value);

#endif
