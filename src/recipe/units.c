#include "recipe/units.h"

#include <string.h>
#include <strings.h>

enum { FRACTION_DIGITS_MAX = 9 };

/* A decimal number: digits / 10^places. */
struct decimal {
    uint64_t digits;
    uint64_t scale;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool add_digit(struct decimal *number, char c)
{
    return !__builtin_mul_overflow(number->digits, UINT64_C(10), &number->digits) &&
           !__builtin_add_overflow(number->digits, (uint64_t)(c - '0'), &number->digits);
}

/* Where the number ends, or NULL when there is none or it is too long. */
static const char *read_decimal(const char *text, struct decimal *out)
{
    *out = (struct decimal){.scale = 1};
    const char *at = text;
    for (; is_digit(*at); at++) {
        if (!add_digit(out, *at)) {
            return NULL;
        }
    }
    if (at == text || *at != '.') {
        return at == text ? NULL : at;
    }
    const char *point = at++;
    for (; is_digit(*at); at++) {
        if (at - point > FRACTION_DIGITS_MAX || !add_digit(out, *at)) {
            return NULL;
        }
        out->scale *= 10;
    }
    return at == point + 1 ? NULL : at;
}

/* number * unit, if that is whole and at most max. */
static bool multiply(const struct decimal *number, uint64_t unit, uint64_t max, uint64_t *out)
{
    unsigned __int128 product = (unsigned __int128)number->digits * unit;
    if (product % number->scale != 0 || product / number->scale > max) {
        return false;
    }
    *out = (uint64_t)(product / number->scale);
    return true;
}

bool units_duration(const char *text, int64_t *out_ms)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    struct decimal number;
    const char *unit = read_decimal(text, &number);
    if (!unit) {
        return false;
    }
    unit += *unit == ' ' && unit[1] != '\0';
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint64_t ms = 0;
        if (strcmp(unit, units[i].name) == 0 &&
            multiply(&number, units[i].ms, UNITS_DURATION_MAX_MS, &ms)) {
            *out_ms = (int64_t)ms;
            return true;
        }
    }
    return false;
}

bool units_size(const char *text, uint64_t *out_bytes)
{
    static const char prefixes[] = "KMGTP";
    struct decimal number;
    const char *unit = read_decimal(text, &number);
    if (!unit) {
        return false;
    }
    unit += *unit == ' ' && unit[1] != '\0';
    uint64_t factor = 1;
    const char *prefix = *unit ? strchr(prefixes, *unit & ~0x20) : NULL;
    if (prefix) {
        bool binary = unit[1] == 'i' || unit[1] == 'I';
        for (const char *at = prefixes; at <= prefix; at++) {
            factor *= binary ? 1024 : 1000;
        }
        unit += binary ? 2 : 1;
    }
    if (*unit && strcasecmp(unit, "b") != 0) {
        return false;
    }
    return multiply(&number, factor, INT64_MAX, out_bytes);
}
