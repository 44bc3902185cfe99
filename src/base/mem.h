/* mem.h - allocation that cannot fail, cleanup attributes, growing arrays.
 *
 * Small allocations that fail end the process (a restart is a tested path). Memory from here is
 * freed with free().
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);                           /* zeroed; size 0 gives a valid pointer */
void *mem_array(size_t count, size_t size);             /* zeroed; overflow ends the process */
void *mem_resize(void *old, size_t count, size_t size); /* new bytes are not zeroed */
char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t size);
void *mem_dup(const void *bytes, size_t size);

/* Makes room for one more item in the growing array `items` of `count` items and capacity `cap`:
 *     VEC_PUSH(list->items, list->count, list->cap) = item;
 */
#define VEC_PUSH(items, count, cap)                                                                \
    (*((items) = mem_grow((items), (count), &(cap), sizeof *(items)), (items) + (count)++))
void *mem_grow(void *items, size_t count, size_t *cap, size_t item_size);

/* Locals that clean up after themselves (shell code; never mixed with goto fail). */
#define AUTO_FREE __attribute__((cleanup(mem_auto_free)))
#define AUTO_CLOSE __attribute__((cleanup(mem_auto_close)))
void mem_auto_free(void *pointer_to_pointer);
void mem_auto_close(int *fd); /* closes fd >= 0 */

#endif
