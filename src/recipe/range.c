#include "recipe/range.h"

#include "base/check.h"
#include "base/str.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPONENT_MAX = 100000 }; /* beyond this only zeros and infinities are left */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A number while it is read: its digits as an integer, and the power of ten to apply. */
struct reading {
    struct str plain; /* for strtod */
    uint64_t digits;
    long exponent;
    bool overflow; /* more digits than fit */
    bool any;
};

static void read_digits(const char **text, bool fraction, struct reading *reading)
{
    bool last_was_digit = false;
    for (;; (*text)++) {
        char c = **text;
        if (c == '_' && last_was_digit && is_digit((*text)[1])) {
            continue;
        }
        if (!is_digit(c)) {
            return;
        }
        last_was_digit = true;
        reading->any = true;
        str_add_char(&reading->plain, c);
        reading->exponent -= fraction;
        reading->overflow =
            reading->overflow || __builtin_mul_overflow(reading->digits, 10u, &reading->digits) ||
            __builtin_add_overflow(reading->digits, (uint64_t)(c - '0'), &reading->digits);
    }
}

static void read_exponent(const char **text, struct reading *reading)
{
    if (**text != 'e' && **text != 'E') {
        return;
    }
    const char *at = *text + 1;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    if (!is_digit(*at)) {
        return; /* the e belongs to what follows the number */
    }
    long exponent = 0;
    for (; is_digit(*at); at++) {
        exponent = exponent < EXPONENT_MAX ? exponent * 10 + (*at - '0') : exponent;
    }
    exponent = negative ? -exponent : exponent;
    str_addf(&reading->plain, "e%ld", exponent);
    reading->exponent += exponent;
    *text = at;
}

/* Fills digits, scale and exact; on the way trailing zeros go. */
static void settle(struct reading *reading, bool negative, struct decimal *out)
{
    if (reading->digits == 0 && !reading->overflow) {
        out->exact = true;
        return;
    }
    while (!reading->overflow && reading->exponent < 0 && reading->digits % 10 == 0) {
        reading->digits /= 10;
        reading->exponent++;
    }
    while (!reading->overflow && reading->exponent > 0) {
        reading->overflow = __builtin_mul_overflow(reading->digits, 10u, &reading->digits);
        reading->exponent--;
    }
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    if (reading->overflow || reading->digits > limit || reading->exponent < -RANGE_SCALE_MAX) {
        return;
    }
    out->digits = (int64_t)(negative ? 0 - reading->digits : reading->digits);
    out->scale = (int)-reading->exponent;
    out->exact = true;
}

size_t decimal_parse(const char *text, struct decimal *out)
{
    const char *at = text;
    struct reading reading = {0};
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') {
        str_add_char(&reading.plain, *at++);
    }
    read_digits(&at, false, &reading);
    if (*at == '.' && at[1] != '.' && (reading.any || is_digit(at[1]))) {
        str_add_char(&reading.plain, *at++);
        read_digits(&at, true, &reading);
    }
    size_t size = 0;
    if (reading.any) {
        read_exponent(&at, &reading);
        *out = (struct decimal){.near = strtod(str_text(&reading.plain), NULL)};
        settle(&reading, negative, out);
        size = isfinite(out->near) ? (size_t)(at - text) : 0;
    }
    str_release(&reading.plain);
    return size;
}

/* digits * 10^(scale - from), or false when that is too large. */
static bool rescale(const struct decimal *decimal, int scale, int64_t *out)
{
    *out = decimal->digits;
    for (int i = decimal->scale; i < scale; i++) {
        if (__builtin_mul_overflow(*out, 10, out)) {
            return false;
        }
    }
    return decimal->exact;
}

const char *lattice_init(struct lattice *out, const struct decimal *low, const struct decimal *high,
                         const struct decimal *step)
{
    int scale = low->scale > high->scale ? low->scale : high->scale;
    scale = step->scale > scale ? step->scale : scale;
    int64_t start = 0;
    int64_t end = 0;
    int64_t by = 0;
    if (!rescale(low, scale, &start) || !rescale(high, scale, &end) || !rescale(step, scale, &by)) {
        return "has too many digits to step through exactly";
    }
    if (by == 0) {
        return "has a step of 0";
    }
    __int128 span = (__int128)end - start;
    if ((span < 0 && by > 0) || (span > 0 && by < 0)) {
        return by > 0 ? "runs backwards; a step below 0 counts down, as in 10..0 step -1"
                      : "has a step below 0 but runs upwards";
    }
    __int128 count = span / by + 1;
    if (count > (__int128)RANGE_COUNT_MAX) {
        return "has more than 2^63 values";
    }
    *out = (struct lattice){.start = start, .step = by, .scale = scale, .count = (uint64_t)count};
    return NULL;
}

static int64_t units_at(const struct lattice *lattice, uint64_t k)
{
    CHECK(k < lattice->count);
    return (int64_t)(lattice->start + (__int128)k * lattice->step);
}

size_t lattice_text(const struct lattice *lattice, uint64_t k, char text[RANGE_TEXT_MAX])
{
    int64_t units = units_at(lattice, k);
    uint64_t size = units < 0 ? 0 - (uint64_t)units : (uint64_t)units;
    int places = lattice->scale;
    while (places > 0 && size % 10 == 0) {
        size /= 10;
        places--;
    }
    char digits[RANGE_TEXT_MAX]; /* last one first */
    size_t count = 0;
    for (int i = 0; size > 0 || i <= places; i++) {
        if (i == places && places > 0) {
            digits[count++] = '.';
        }
        digits[count++] = (char)('0' + size % 10);
        size /= 10;
    }
    size_t at = 0;
    if (units < 0) {
        text[at++] = '-';
    }
    while (count > 0) {
        text[at++] = digits[--count];
    }
    text[at] = '\0';
    return at;
}

double lattice_number(const struct lattice *lattice, uint64_t k)
{
    int64_t units = units_at(lattice, k);
    double power = 1;
    for (int i = 0; i < lattice->scale; i++) {
        power *= 10;
    }
    /* Exact operands make the division round correctly; otherwise the long way. */
    if (lattice->scale <= 22 && units >= -(INT64_C(1) << 53) && units <= INT64_C(1) << 53) {
        return (double)units / power;
    }
    char text[RANGE_TEXT_MAX];
    lattice_text(lattice, k, text);
    return strtod(text, NULL);
}

static const char *skip_spaces(const char *at)
{
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at;
}

/* A number and the spaces after it; false leaves *at where the number should be. */
static bool read_number(const char **at, struct decimal *out)
{
    size_t size = decimal_parse(*at, out);
    if (size == 0) {
        return false;
    }
    *at = skip_spaces(*at + size);
    return true;
}

static bool read_range(const char **at, bool hyphen, struct range *out)
{
    *at = skip_spaces(*at);
    if (!read_number(at, &out->low)) {
        return false;
    }
    if (strncmp(*at, "..", 2) == 0) {
        *at = skip_spaces(*at + 2);
    } else if (hyphen && **at == '-') {
        *at = skip_spaces(*at + 1);
    } else {
        return false;
    }
    if (!read_number(at, &out->high)) {
        return false;
    }
    if (strncmp(*at, "step", 4) == 0 && (isspace((unsigned char)(*at)[4]) || !(*at)[4])) {
        *at = skip_spaces(*at + 4);
        out->has_step = true;
        if (!read_number(at, &out->step)) {
            return false;
        }
    }
    return **at == '\0';
}

bool range_parse(const char *text, bool hyphen, struct range *out, size_t *at)
{
    *out = (struct range){0};
    const char *end = text;
    bool ok = read_range(&end, hyphen, out);
    *at = (size_t)(end - text);
    return ok;
}

bool range_looks_like(const char *text)
{
    struct decimal low;
    text = skip_spaces(text);
    size_t size = decimal_parse(text, &low);
    return size > 0 && strncmp(skip_spaces(text + size), "..", 2) == 0;
}
