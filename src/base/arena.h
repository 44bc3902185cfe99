/* arena.h - memory for things that live and die together.
 *
 * `struct arena a = {0};` is valid. Everything from one arena is freed at once by arena_release;
 * nothing is freed alone. Memory is zeroed and aligned for any type.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *newest;
    size_t used_bytes; /* handed out so far, for limits */
};

void *arena_alloc(struct arena *arena, size_t size);
char *arena_strndup(struct arena *arena, const char *text, size_t size);
char *arena_strdup(struct arena *arena, const char *text);
/* Takes everything back but keeps the newest block, so that a loop which resets its arena each time
 * round soon allocates no more. */
void arena_reset(struct arena *arena);
void arena_release(struct arena *arena); /* NULL or zeroed: does nothing */

#endif
