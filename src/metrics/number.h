/* number.h - a number at the beginning of some text. Pure, linear, bounded. */
#ifndef METRICS_NUMBER_H
#define METRICS_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

enum { NUMBER_CHARS_MAX = 48 };

/* Reads [+-]12, 0.5, .5, 1e-5, nan, inf, infinity (the words in any case). A point belongs to the
 * number only if a digit follows. Returns how many bytes it takes, 0 where there is none or where
 * it is longer than NUMBER_CHARS_MAX. What follows is for the caller to judge. Beyond the range of
 * a double: infinity or 0. */
size_t number_read(const char *text, size_t size, double *out);

/* The whole of text is a number; "12.5%" is 0.125. */
bool number_parse(const char *text, size_t size, double *out);

#endif
