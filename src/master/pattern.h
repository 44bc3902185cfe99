/* pattern.h - what a search looks for: a text, or a regular expression that cannot do harm.
 *
 * A POSIX extended expression comes from whoever may read, so it is bounded: PATTERN_BYTES_MAX
 * long, no back-references (their time is exponential), repetition counts whose product is at most
 * PATTERN_REPEATS_MAX (each copies what it repeats). The matcher's memory grows with what it has
 * seen; it is made anew every PATTERN_RENEW_BYTES. Callers hand it pieces of PATTERN_PIECE_BYTES,
 * so that one call takes milliseconds whatever the expression. Pure, but for memory.
 */
#ifndef MASTER_PATTERN_H
#define MASTER_PATTERN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    PATTERN_BYTES_MAX = 1000, /* of a text; of an expression: */
    PATTERN_REGEX_BYTES_MAX = 200,
    PATTERN_REPEATS_MAX = 1000,
    PATTERN_RENEW_BYTES = 16 << 10,
    PATTERN_PIECE_BYTES = 2 << 10,
};

struct pattern;

/* ERR_INVALID: it is none, or beyond the bounds. */
MUST_USE enum err_code pattern_create(const char *text, bool is_regex, struct pattern **out,
                                      struct err *err);
void pattern_destroy(struct pattern *pattern); /* NULL does nothing */
bool pattern_is_regex(const struct pattern *pattern);

struct pattern_line {
    const char *begin;
    const char *end;   /* its newline, or the end of what was given */
    const char *found; /* where in it; of an expression, its beginning */
};

/* The first line of text[0..size) that matches; false: none does. */
bool pattern_next(struct pattern *pattern, const char *text, size_t size, struct pattern_line *out);

#endif
