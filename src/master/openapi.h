/* openapi.h - the shapes of what the API takes and answers, for its document. Private to the API.
 *
 * A type is "string", "integer", "number", "boolean", "time" (RFC 3339), "object" (anything in it),
 * words "a|b|c", or the name of another shape; then "[]" for a list of them; then "?" where null is
 * possible. A "~" before it says that the field may be missing. */
#ifndef MASTER_OPENAPI_H
#define MASTER_OPENAPI_H

#include <stddef.h>

struct openapi_field {
    const char *name; /* NULL ends the list */
    const char *type;
    const char *about; /* or NULL */
};

struct openapi_shape {
    const char *name;
    const char *about;
    const struct openapi_field *fields; /* NULL: any object */
};

extern const struct openapi_shape openapi_shapes[];
extern const size_t openapi_shape_count;

/* What requests carry. */
struct openapi_body {
    const char *name;
    const char *types[2]; /* media types; the second may be NULL */
    const char *shape;    /* a type as above; NULL: bytes or text of no shape */
};

extern const struct openapi_body openapi_bodies[];
extern const size_t openapi_body_count;

#endif
