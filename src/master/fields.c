#include "master/fields.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void fields_add(struct str *document, const char *name, const void *bytes, size_t size)
{
    str_addf(document, "%s %zu\n", name, size);
    str_add_bytes(document, bytes, size);
    str_add_char(document, '\n');
}

void fields_add_u64(struct str *document, const char *name, uint64_t number)
{
    struct str text = {0};
    str_add_u64(&text, number);
    fields_add(document, name, text.text, text.size);
    str_release(&text);
}

/* Reads the size after the name; the end of the line is at *line_end. */
static bool read_size(const char *digits, const char *line_end, size_t *size)
{
    size_t number = 0;
    if (digits == line_end) {
        return false;
    }
    for (; digits < line_end; digits++) {
        if (*digits < '0' || *digits > '9' || number > SIZE_MAX / 16) {
            return false;
        }
        number = number * 10 + (size_t)(*digits - '0');
    }
    *size = number;
    return true;
}

bool fields_get(const struct str *document, const char *name, const char **bytes, size_t *size)
{
    const char *at = str_text(document);
    const char *end = at + document->size;
    size_t name_size = strlen(name);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        const char *space = line_end ? memchr(at, ' ', (size_t)(line_end - at)) : NULL;
        size_t field_size = 0;
        if (!space || !read_size(space + 1, line_end, &field_size) ||
            field_size >= (size_t)(end - line_end - 1)) {
            return false;
        }
        if ((size_t)(space - at) == name_size && memcmp(at, name, name_size) == 0) {
            *bytes = line_end + 1;
            *size = field_size;
            return true;
        }
        at = line_end + 1 + field_size + 1;
    }
    return false;
}

char *fields_get_text(const struct str *document, const char *name)
{
    const char *bytes = NULL;
    size_t size = 0;
    return fields_get(document, name, &bytes, &size) ? mem_strndup(bytes, size) : NULL;
}

bool fields_get_u64(const struct str *document, const char *name, uint64_t *number)
{
    AUTO_FREE char *text = fields_get_text(document, name);
    if (!text || text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end = NULL;
    *number = strtoull(text, &end, 10);
    return *end == '\0';
}
