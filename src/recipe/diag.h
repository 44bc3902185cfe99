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

enum {
    DIAG_MAX = 50,
    DIAG_LINE_SET = -1, /* the line of what came from --set and stands in no file */
};

struct diag {
    int line; /* from 1; 0: the file as a whole; DIAG_LINE_SET */
    int column;
    char *text;
};

struct diag_list {
    const char *file; /* borrowed; as the user typed it */
    struct diag items[DIAG_MAX];
    size_t count;   /* items kept */
    size_t dropped; /* further ones */
};

/* Bytes of the text that are not printable UTF-8 become '?', very long text is cut, and what is
 * already in the list word for word is not added again. */
void diag_add(struct diag_list *list, int line, int column, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Every diagnosis as "FILE:LINE:COL: text\n" ("FILE: text" and "FILE: --set: text" where there is
 * no line), in order of place, then "... and N more". */
void diag_print(const struct diag_list *list, struct str *out);

void diag_release(struct diag_list *list); /* frees and empties; keeps file */

#endif
