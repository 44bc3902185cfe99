/* jread.h - reading JSON.
 *
 * The document keeps every scalar as it was written, so that numbers of 64 bits and of 17 digits
 * come through unchanged and an object can be printed again word for word. Bounded whatever the
 * input: JREAD_BYTES_MAX of text, JREAD_DEPTH_MAX levels. Pure. (Not jansson: its integers end at
 * 2^63 - 1, and its json_object() and json_null() are names that base/json.h has.)
 *
 * Every getter accepts NULL and values of the wrong kind, and then gives its fallback: what a
 * server left out reads like what it never had.
 */
#ifndef BASE_JREAD_H
#define BASE_JREAD_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JREAD_BYTES_MAX = 256 << 20, JREAD_DEPTH_MAX = 64 };

enum jread_kind { JREAD_NULL, JREAD_BOOL, JREAD_NUMBER, JREAD_TEXT, JREAD_ARRAY, JREAD_OBJECT };

struct jnode {
    enum jread_kind kind;
    const char *key;  /* in an object, decoded; else NULL */
    const char *text; /* JREAD_TEXT: decoded; others: "" */
    const char *raw;  /* scalars: as written, with the quotes of a text */
    size_t raw_size;
    size_t count;              /* of items */
    const struct jnode *first; /* of its items */
    const struct jnode *next;  /* beside it */
};

/* {0} is valid and empty. */
struct jread {
    struct arena arena;
    const struct jnode *root; /* NULL until something was parsed */
};

/* ERR_INVALID: not JSON, or beyond the bounds; doc stays empty. The text may go away afterwards. */
MUST_USE enum err_code jread_parse(struct jread *doc, const char *text, size_t size,
                                   struct err *err);
void jread_release(struct jread *doc);

const struct jnode *jread_get(const struct jnode *object, const char *key);
const struct jnode *jread_first(const struct jnode *list);

const char *jread_text(const struct jnode *object, const char *key, const char *fallback);
uint64_t jread_u64(const struct jnode *object, const char *key, uint64_t fallback);
double jread_number(const struct jnode *object, const char *key, double fallback);
bool jread_bool(const struct jnode *object, const char *key, bool fallback);

/* The value again, on one line and without spaces. */
void jread_add(struct str *out, const struct jnode *value);

/* Text for a terminal: what could steer it becomes '?'. */
void jread_add_clean(struct str *out, const char *text);

#endif
