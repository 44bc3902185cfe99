/* suggest.h - "did you mean": the known word nearest to a mistyped one. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* The nearest of words[0..count) by edits (insert, delete, replace, swap), or NULL when none is
 * near enough to be what was meant (at most a third of its letters, at least one). */
const char *suggest_nearest(const char *word, const char *const *words, size_t count);

#endif
