/* range.h - numbers written in a recipe, ranges of them, and exact decimal steps.
 *
 * 0.1 + 0.2 is not 0.3 in binary, so steps are counted in whole units of the last decimal place
 * written: 0..1 step 0.1 is 0, 0.1, ... 1, and 0.30000000000000004 cannot occur. Pure; any thread.
 */
#ifndef RECIPE_RANGE_H
#define RECIPE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGE_COUNT_MAX (UINT64_C(1) << 63)

enum {
    RANGE_SCALE_MAX = 30, /* decimal places that can be stepped through */
    RANGE_TEXT_MAX = 56,  /* bytes that hold any lattice_text */
};

/* Equal to digits / 10^scale where exact; `near` is the nearest double in any case. */
struct decimal {
    double near;
    int64_t digits;
    int scale;  /* 0 to RANGE_SCALE_MAX; no trailing zeros, so 0 means a whole number */
    bool exact; /* false: more digits than an int64_t holds, or too small a unit */
};

/* Reads the longest number at the start of text: [+-]digits[.digits][e[+-]digits], _ allowed
 * between digits. Returns its length; 0 if there is none or it is not finite. */
size_t decimal_parse(const char *text, struct decimal *out);

/* The numbers start, start + step, ... in units of 10^-scale. */
struct lattice {
    int64_t start;
    int64_t step; /* not 0; may be negative */
    int scale;
    uint64_t count; /* 1 to RANGE_COUNT_MAX */
};

/* The numbers low, low + step, ... that do not pass high. Returns NULL, or what is wrong: "runs
 * backwards", "has too many digits to step through exactly", ... */
const char *lattice_init(struct lattice *out, const struct decimal *low, const struct decimal *high,
                         const struct decimal *step);

/* Writes number k < count in plain decimal notation, without needless zeros; returns its length. */
size_t lattice_text(const struct lattice *lattice, uint64_t k, char text[RANGE_TEXT_MAX]);

/* The double nearest to it. */
double lattice_number(const struct lattice *lattice, uint64_t k);

/* "LOW..HIGH" or, if hyphen is set, also "LOW-HIGH", each optionally followed by " step S". */
struct range {
    struct decimal low;
    struct decimal high;
    struct decimal step;
    bool has_step;
};

/* False when text is not of that form; then *at is the offset of what could not be read. */
bool range_parse(const char *text, bool hyphen, struct range *out, size_t *at);

/* True for text that is meant as a range: a number followed by "..". */
bool range_looks_like(const char *text);

#endif
