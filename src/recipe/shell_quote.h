/* shell_quote.h - one value written into a shell line so that the shell reads it as exactly these
 * bytes. Right for POSIX sh and bash in any locale. Pure. */
#ifndef RECIPE_SHELL_QUOTE_H
#define RECIPE_SHELL_QUOTE_H

#include "base/str.h"

#include <stddef.h>

enum shell_quoting {
    SHELL_QUOTE_RAW,        /* as it is: the author answers for it */
    SHELL_QUOTE_ALWAYS,     /* outside quotes: '...' */
    SHELL_QUOTE_PLAIN_WORD, /* outside quotes, in a word of plain bytes: bare where it can be */
    SHELL_QUOTE_IN_SINGLE,  /* the text is inside '...' */
    SHELL_QUOTE_IN_DOUBLE,  /* the text is inside "..." */
    SHELL_QUOTE_IN_DOUBLE_APART, /* the same, after a $name that the value must not lengthen */
};

/* The value holds no NUL. */
void shell_quote(struct str *out, enum shell_quoting quoting, const char *value, size_t size);

#endif
