/* object_s3_credentials.h - the keys that requests are signed with, and where they come from.
 *
 * In this order: the profile that was asked for by name; AWS_ACCESS_KEY_ID and its like in the
 * environment; the profile of AWS_PROFILE, or "default", in ~/.aws/credentials and ~/.aws/config
 * (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE); a container's metadata; an instance's metadata
 * (IMDSv2; not with AWS_EC2_METADATA_DISABLED=true). Only the last two expire in a way that we
 * learn of. Keys are in memory alone, wiped when released, and in no text of an error.
 */
#ifndef OBJECT_OBJECT_S3_CREDENTIALS_H
#define OBJECT_OBJECT_S3_CREDENTIALS_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum s3_source { S3_SOURCE_NONE, S3_SOURCE_ENVIRONMENT, S3_SOURCE_PROFILE, S3_SOURCE_METADATA };

struct s3_credentials {
    enum s3_source source;
    struct str access_key;
    struct str secret_key;
    struct str token;   /* of a session; "" if there is none */
    int64_t expires_ms; /* unix; 0: not known to */
};

/* The files' text about one profile. */
struct s3_profile {
    char *name;
    struct str credentials;
    struct str config;
};

/* name NULL: AWS_PROFILE, else "default". Missing files are as empty ones. ERR_IO and ERR_DENIED:
 * a file is there and cannot be read. */
MUST_USE enum err_code s3_profile_load(struct s3_profile *profile, const char *name,
                                       struct err *err);
bool s3_profile_find(const struct s3_profile *profile, const char *key, struct str *out);
void s3_profile_release(struct s3_profile *profile);

/* From the environment (unless `name` asks for a profile) or the profile; source NONE: neither has
 * any. ERR_DENIED: they are there and not usable; the text says why. */
MUST_USE enum err_code s3_credentials_load(struct s3_credentials *out,
                                           const struct s3_profile *profile, bool is_named,
                                           struct err *err);

/* From the JSON of a metadata server. ERR_DENIED: it has none; the text says why. */
MUST_USE enum err_code s3_credentials_parse(struct s3_credentials *out, const struct str *json,
                                            struct err *err);

void s3_credentials_release(struct s3_credentials *credentials);

#endif
