#include "recipe/yaml_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_one_of(const char *text, size_t size, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == size && memcmp(*words, text, size) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t span_digits(const char *text)
{
    size_t count = 0;
    while (is_digit(text[count])) {
        count++;
    }
    return count;
}

/* Scalars end in a NUL and hold none, so these may look one byte past the last. */
static bool is_grouped(const char *text)
{
    size_t lead = span_digits(text);
    if (lead < 1 || lead > 3 || text[0] == '0' || text[lead] != '_') {
        return false;
    }
    text += lead;
    while (*text == '_') {
        if (span_digits(text + 1) != 3) {
            return false;
        }
        text += 4;
    }
    return *text == '\0';
}

static bool is_integer(const char *text)
{
    if (text[0] == '0' && text[1] == 'x') {
        return text[2] && text[2 + strspn(text + 2, "0123456789abcdefABCDEF")] == '\0';
    }
    if (text[0] == '0' && text[1] == 'o') {
        return text[2] && text[2 + strspn(text + 2, "01234567")] == '\0';
    }
    text += *text == '-' || *text == '+';
    size_t digits = span_digits(text);
    return (digits > 0 && text[digits] == '\0') || is_grouped(text);
}

static bool is_number(const char *text)
{
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL};
    static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
    if (is_one_of(text, strlen(text), nans)) {
        return true;
    }
    text += *text == '-' || *text == '+';
    if (is_one_of(text, strlen(text), infinities)) {
        return true;
    }
    size_t whole = span_digits(text);
    text += whole;
    size_t fraction = 0;
    if (*text == '.') {
        fraction = span_digits(text + 1);
        text += 1 + fraction;
    }
    if (whole + fraction == 0) {
        return false;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        size_t exponent = span_digits(text);
        if (exponent == 0) {
            return false;
        }
        text += exponent;
    }
    return *text == '\0';
}

enum ynode_type yaml_type_of(const char *text, size_t size)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE", NULL};
    if (is_one_of(text, size, nulls)) {
        return YTYPE_NULL;
    }
    if (is_one_of(text, size, bools)) {
        return YTYPE_BOOL;
    }
    if (is_integer(text)) {
        return YTYPE_INTEGER;
    }
    return is_number(text) ? YTYPE_NUMBER : YTYPE_TEXT;
}

/* A digit of any base up to 16, or 16 for what is none. */
static uint64_t digit_of(char c)
{
    if (is_digit(c)) {
        return (uint64_t)(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return (uint64_t)(c - 'a' + 10);
    }
    return c >= 'A' && c <= 'F' ? (uint64_t)(c - 'A' + 10) : 16;
}

bool yaml_as_i64(const struct ynode *node, int64_t *out)
{
    if (!node || node->kind != YNODE_SCALAR || node->type != YTYPE_INTEGER) {
        return false;
    }
    const char *at = node->text;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    uint64_t base = 10;
    if (at[0] == '0' && (at[1] == 'x' || at[1] == 'o')) {
        base = at[1] == 'x' ? 16 : 8;
        at += 2;
    }
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t total = 0;
    for (; *at; at++) {
        if (*at == '_') {
            continue;
        }
        if (__builtin_mul_overflow(total, base, &total) ||
            __builtin_add_overflow(total, digit_of(*at), &total) || total > limit) {
            return false;
        }
    }
    *out = negative ? (int64_t)(0 - total) : (int64_t)total;
    return true;
}

bool yaml_as_double(const struct ynode *node, double *out)
{
    if (!node || node->kind != YNODE_SCALAR) {
        return false;
    }
    int64_t integer = 0;
    if (yaml_as_i64(node, &integer)) {
        *out = (double)integer;
        return true;
    }
    bool prefixed = node->text[0] == '0' && (node->text[1] == 'x' || node->text[1] == 'o');
    if ((node->type != YTYPE_NUMBER && node->type != YTYPE_INTEGER) || prefixed ||
        strchr(node->text, '_')) {
        return false;
    }
    const char *at = node->text + (node->text[0] == '-' || node->text[0] == '+');
    if (at[0] == '.' && (at[1] == 'n' || at[1] == 'N')) {
        *out = NAN;
    } else if (at[0] == '.' && (at[1] == 'i' || at[1] == 'I')) {
        *out = node->text[0] == '-' ? -INFINITY : INFINITY;
    } else {
        *out = strtod(node->text, NULL);
    }
    return true;
}

bool yaml_as_bool(const struct ynode *node, bool *out)
{
    if (!node || node->kind != YNODE_SCALAR || node->type != YTYPE_BOOL) {
        return false;
    }
    *out = node->text[0] == 't' || node->text[0] == 'T';
    return true;
}
