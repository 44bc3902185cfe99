/* fields.h - a few named byte strings in one document: "NAME SIZE\nBYTES\n" repeated. */
#ifndef MASTER_FIELDS_H
#define MASTER_FIELDS_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

void fields_add(struct str *document, const char *name, const void *bytes, size_t size);
void fields_add_u64(struct str *document, const char *name, uint64_t number);

/* The first field of that name; false when there is none or the document is damaged before it. The
 * bytes are borrowed from the document and not NUL-terminated. */
bool fields_get(const struct str *document, const char *name, const char **bytes, size_t *size);

/* The same as a fresh NUL-terminated copy (free), or NULL; and as a number. */
char *fields_get_text(const struct str *document, const char *name);
bool fields_get_u64(const struct str *document, const char *name, uint64_t *number);

#endif
