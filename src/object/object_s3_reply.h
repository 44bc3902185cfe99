/* object_s3_reply.h - what S3 servers say in XML: errors, pages of keys, upload ids.
 *
 * Pure. Every reader answers false for text that is not the document it expects, whole; a reply
 * that was cut off is never taken for a shorter one.
 */
#ifndef OBJECT_OBJECT_S3_REPLY_H
#define OBJECT_OBJECT_S3_REPLY_H

#include "object/object.h"

struct s3_fault { /* an <Error>; "" where the server says nothing */
    char code[64];
    char message[256];
};

MUST_USE bool s3_reply_fault(const struct str *reply, struct s3_fault *out);

/* Adds the page to the call, each key without the store's prefix. False also for a key without that
 * prefix or out of order; the call may have got some items then. */
MUST_USE bool s3_reply_page(const struct str *reply, const char *prefix, struct object_call *call);

/* An answer to DeleteObjects. False: not one. Otherwise *fault is the first key's that failed (its
 * code is "" if none did); keys that were not there have not failed. */
MUST_USE bool s3_reply_deleted(const struct str *reply, struct s3_fault *fault);

MUST_USE bool s3_reply_upload_id(const struct str *reply, struct str *id);

/* The etag of a completed upload, without its quotes; "" if the server leaves it out. */
MUST_USE bool s3_reply_completed(const struct str *reply, char etag[OBJECT_ETAG_MAX]);

/* Copies an etag without quotes and spaces around it. False: too long, empty or not printable. */
MUST_USE bool s3_etag_copy(char out[OBJECT_ETAG_MAX], const char *text, size_t size);

#endif
