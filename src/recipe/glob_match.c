#include "base/json.h"
#include "recipe/glob.h"

#include <stdint.h>
#include <string.h>

/* One character of the text and its size; a byte that is not UTF-8 counts as one. */
static uint32_t char_at(const char *text, size_t *size)
{
    size_t length = json_utf8_length(text, strnlen(text, 4));
    const unsigned char *b = (const unsigned char *)text;
    *size = length ? length : 1;
    if (length < 2) {
        return b[0];
    }
    uint32_t code = b[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (b[i] & 0x3fu);
    }
    return code;
}

/* The next character of a [set], after any backslash. */
static uint32_t set_char(const char **at)
{
    if (**at == '\\' && (*at)[1]) {
        (*at)++;
    }
    size_t size = 0;
    uint32_t c = char_at(*at, &size);
    *at += size;
    return c;
}

/* [set] at pattern: where it ends, with *holds telling whether c is in it; NULL if it has no end,
 * and then '[' is only itself. */
static const char *match_set(const char *pattern, uint32_t c, bool *holds)
{
    const char *at = pattern + 1;
    bool negated = *at == '!' || *at == '^';
    at += negated;
    bool found = false;
    for (bool first = true; *at && (*at != ']' || first); first = false) {
        uint32_t low = set_char(&at);
        uint32_t high = low;
        if (*at == '-' && at[1] && at[1] != ']') {
            at++;
            high = set_char(&at);
        }
        found |= low <= c && c <= high;
    }
    *holds = found != negated;
    return *at == ']' ? at + 1 : NULL;
}

/* Matches one character of the name; returns where the pattern goes on, or NULL. */
static const char *match_one(const char *pattern, const char *name, size_t *name_size)
{
    uint32_t c = char_at(name, name_size);
    if (*pattern == '?') {
        return pattern + 1;
    }
    if (*pattern == '[') {
        bool holds = false;
        const char *end = match_set(pattern, c, &holds);
        if (end) {
            return holds ? end : NULL;
        }
    }
    pattern += *pattern == '\\' && pattern[1];
    size_t size = 0;
    return *pattern && char_at(pattern, &size) == c && size == *name_size ? pattern + size : NULL;
}

bool glob_match(const char *pattern, const char *name)
{
    bool spells_dot = pattern[0] == '.' || (pattern[0] == '\\' && pattern[1] == '.');
    if (name[0] == '.' && !spells_dot) {
        return false;
    }
    const char *after_star = NULL; /* where to go on when what follows the last * fails, */
    const char *retry = NULL;      /* and from which character of the name */
    while (*name) {
        if (*pattern == '*') {
            after_star = ++pattern;
            retry = name;
            continue;
        }
        size_t size = 0;
        const char *next = match_one(pattern, name, &size);
        if (next) {
            pattern = next;
            name += size;
        } else if (after_star) {
            (void)char_at(retry, &size);
            retry += size;
            name = retry;
            pattern = after_star;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}
