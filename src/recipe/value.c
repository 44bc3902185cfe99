#include "recipe/value.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

struct value value_of_scalar(struct arena *arena, const struct ynode *scalar)
{
    CHECK(scalar->kind == YNODE_SCALAR);
    static const enum value_kind kinds[] = {
        [YTYPE_TEXT] = VALUE_TEXT,       [YTYPE_NULL] = VALUE_TEXT,     [YTYPE_BOOL] = VALUE_BOOL,
        [YTYPE_INTEGER] = VALUE_INTEGER, [YTYPE_NUMBER] = VALUE_NUMBER,
    };
    return (struct value){
        .kind = kinds[scalar->type],
        .text = arena_strndup(arena, scalar->text, scalar->size),
        .size = scalar->size,
    };
}

/* Adds the digits at *text, without separators and (in a whole part) leading zeros, and moves past
 * them. Returns how many there were. */
static size_t add_digits(struct str *out, const char **text, bool whole)
{
    size_t count = 0;
    size_t added = 0;
    for (; (**text >= '0' && **text <= '9') || (**text == '_' && count > 0); (*text)++) {
        if (**text == '_') {
            continue;
        }
        count++;
        if (!whole || added > 0 || **text != '0') {
            str_add_char(out, **text);
            added++;
        }
    }
    if (whole && added == 0) {
        str_add_char(out, '0');
    }
    return count;
}

/* 0x1F and 0o17; false when it is something else or does not fit 64 bits. */
static bool add_based(struct str *out, const char *text)
{
    unsigned base = text[1] == 'x' ? 16 : 8;
    uint64_t number = 0;
    size_t count = 0;
    for (text += 2; *text; text++) {
        char c = *text;
        unsigned lower = (unsigned char)c | 0x20u;
        unsigned digit = c >= '0' && c <= '9'           ? (unsigned)(c - '0')
                         : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                        : 99;
        if (c == '_' && count > 0) {
            continue;
        }
        if (digit >= base || __builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit, &number)) {
            return false;
        }
        count++;
    }
    str_add_u64(out, number);
    return count > 0;
}

/* A YAML number in JSON's syntax; false (with out in any state) when there is no such thing. */
static bool normalise(const char *text, struct str *out)
{
    if (*text == '-') {
        str_add_char(out, '-');
    }
    if (*text == '-' || *text == '+') {
        text++;
    }
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'o')) {
        return add_based(out, text);
    }
    size_t digits = add_digits(out, &text, true);
    if (*text == '.') {
        text++;
        str_add_char(out, '.');
        size_t fraction = add_digits(out, &text, false);
        if (fraction == 0) {
            str_add_char(out, '0');
        }
        digits += fraction;
    }
    if (digits > 0 && (*text == 'e' || *text == 'E')) {
        str_add_char(out, 'e');
        text++;
        if (*text == '-' || *text == '+') {
            str_add_char(out, *text++);
        }
        digits = add_digits(out, &text, true);
    }
    return digits > 0 && *text == '\0';
}

void value_add_json(struct json *json, const struct value *value)
{
    AUTO_STR struct str number = {0};
    switch (value->kind) {
    case VALUE_ABSENT:
        json_null(json);
        return;
    case VALUE_BOOL:
        json_bool(json, value_is_true(value));
        return;
    case VALUE_INTEGER:
    case VALUE_NUMBER:
        if (normalise(value->text, &number)) {
            json_raw(json, number.text, number.size);
            return;
        }
        break;
    case VALUE_TEXT:
    case VALUE_FILES:
        break;
    }
    json_bytes(json, value->text, value->size);
}

bool value_number(const struct value *value, double *out)
{
    AUTO_STR struct str text = {0};
    if ((value->kind != VALUE_INTEGER && value->kind != VALUE_NUMBER) ||
        !normalise(value->text, &text)) {
        return false;
    }
    *out = strtod(text.text, NULL);
    return isfinite(*out);
}

bool value_is_true(const struct value *value)
{
    return value->kind == VALUE_BOOL && (value->text[0] == 't' || value->text[0] == 'T');
}
