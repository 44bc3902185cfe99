#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *mem_alloc(size_t size)
{
    void *memory = calloc(1, size ? size : 1);
    CHECK(memory);
    return memory;
}

void *mem_array(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    CHECK(memory);
    return memory;
}

void *mem_resize(void *old, size_t count, size_t size)
{
    size_t bytes = 0;
    CHECK(!__builtin_mul_overflow(count, size, &bytes));
    void *memory = realloc(old, bytes ? bytes : 1);
    CHECK(memory);
    return memory;
}

void *mem_dup(const void *bytes, size_t size)
{
    void *memory = malloc(size ? size : 1);
    CHECK(memory);
    if (size) {
        memcpy(memory, bytes, size);
    }
    return memory;
}

char *mem_strndup(const char *text, size_t size)
{
    char *copy = mem_alloc(size + 1);
    if (size) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

void *mem_grow(void *items, size_t count, size_t *cap, size_t item_size)
{
    if (count < *cap) {
        return items;
    }
    *cap = *cap ? *cap * 2 : 8;
    return mem_resize(items, *cap, item_size);
}

void mem_auto_free(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

void mem_auto_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}
