/* object_s3_config.h - where an S3 store is and how it is spoken to, from the options, the
 * environment and the profile, in this order. */
#ifndef OBJECT_OBJECT_S3_CONFIG_H
#define OBJECT_OBJECT_S3_CONFIG_H

#include "object/object.h"
#include "object/object_s3_credentials.h"

struct s3_config {
    char *bucket;
    char *prefix; /* of every key: "" or "a/b/" */
    char *origin; /* https://bucket.s3.us-east-1.amazonaws.com, http://127.0.0.1:7480 */
    char *host;   /* as in the Host header */
    char *path;   /* encoded, before the keys: "/bucket", or "" where the host names it */
    char *region;
    char *ca_file; /* NULL: the system's */
    int timeout_ms;
    size_t part_bytes;
    bool etag_is_md5; /* of what is put in one piece, unless it is encrypted there */
};

/* ERR_INVALID: a bucket, endpoint or option that means nothing. */
MUST_USE enum err_code s3_config_init(struct s3_config *config, const char *bucket,
                                      const char *prefix, const struct object_options *options,
                                      const struct s3_profile *profile, struct err *err);
void s3_config_release(struct s3_config *config);

#endif
