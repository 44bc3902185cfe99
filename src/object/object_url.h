/* object_url.h - the URLs of object stores, as object_open takes them. Pure; for src/object alone.
 *
 *   file:///folder         an absolute path; %XX is a byte of it, as in any URL
 *   s3://bucket/prefix     the prefix may be missing; it is a sound key
 *   memory://NAME          for tests; the name says nothing
 */
#ifndef OBJECT_OBJECT_URL_H
#define OBJECT_OBJECT_URL_H

#include "base/err.h"
#include "base/str.h"

enum object_url_kind { OBJECT_URL_FILE, OBJECT_URL_S3, OBJECT_URL_MEMORY };

enum {
    OBJECT_URL_PREFIX_MAX = 120, /* with a key and a slash it still fits into S3's 1024 bytes */
    OBJECT_URL_SIZE_MAX = 4096,
};

struct object_url {
    enum object_url_kind kind;
    struct str place;  /* the folder, the bucket or the name */
    struct str prefix; /* S3: without a slash at its end; may be empty */
};

/* ERR_INVALID: the text says what is wrong. The caller releases out, which is empty on failure. */
MUST_USE enum err_code object_url_parse(const char *text, struct object_url *out, struct err *err);
void object_url_release(struct object_url *url);
void object_url_add(struct str *out, const struct object_url *url); /* parses back as the same */

#endif
