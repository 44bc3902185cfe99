/* diag.h - what is wrong with a recipe, and where.
 *
 * Checking goes on after an error, so that a user sees several in one go; the list keeps the first
 * DIAG_MAX and counts the rest. Text lives in the list. One thread.
 */
#ifndef RECIPE_DIAG_H
#define RECIPE_DIAG_H

#include "base/check.h"
#include "base/str.h"

#include <stddef.h>

enum { DIAG_MAX = 50 };

struct diag {
    int line; /* from 1; 0: the file as a whole */
    int column;
    char *text;
};

struct diag_list {
    const char *file; /* borrowed; as the user typed it */
    struct diag items[DIAG_MAX];
    size_t count;   /* items kept */
    size_t dropped; /* further ones */
};

void diag_add(struct diag_list *list, int line, int column, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Every diagnosis as "FILE:LINE:COL: text\n", in order of place, then "... and N more". */
void diag_print(const struct diag_list *list, struct str *out);

void diag_release(struct diag_list *list); /* frees and empties; keeps file */

#endif
