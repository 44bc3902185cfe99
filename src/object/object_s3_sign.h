/* object_s3_sign.h - signatures of S3 requests (AWS Signature Version 4), and their encodings.
 *
 * Pure: time is an argument, nothing is kept. The secret is used, never copied into what is
 * written.
 */
#ifndef OBJECT_OBJECT_S3_SIGN_H
#define OBJECT_OBJECT_S3_SIGN_H

#include "base/sha256.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { S3_STAMP_CHARS = 16 }; /* 20150830T123600Z */

struct s3_header {
    const char *name; /* lower case */
    const char *value;
};

/* What is signed. Headers are in byte order of their names, and "host" is one of them. */
struct s3_signable {
    const char *method;
    const char *path;  /* encoded by s3_add_encoded, begins with a slash */
    const char *query; /* encoded and in order of names, without "?"; "" if there is none */
    const struct s3_header *headers;
    size_t header_count;
    const char *payload_hash; /* SHA-256 of the body in hex */
};

struct s3_signer {
    const char *access_key;
    const char *secret_key;
    const char *region;
    const char *service;
};

/* Appends the value of the Authorization header. `stamp` is of the time that x-amz-date tells. */
void s3_sign(struct str *out, const struct s3_signable *request, const struct s3_signer *signer,
             const char stamp[S3_STAMP_CHARS + 1]);

void s3_stamp(char out[S3_STAMP_CHARS + 1], int64_t unix_ms);

/* Appends text with every byte but A-Z a-z 0-9 - . _ ~ (and slashes, if kept) as %XX. */
void s3_add_encoded(struct str *out, const char *text, bool keep_slashes);

/* Appends "name=value" encoded, with "&" before it if the query has something already. */
void s3_add_query(struct str *query, const char *name, const char *value);

void s3_add_base64(struct str *out, const uint8_t *bytes, size_t size);

#endif
