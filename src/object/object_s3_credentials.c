#include "object/object_s3_credentials.h"

#include "base/io.h"
#include "base/mem.h"
#include "object/object_s3_text.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 20, VALUE_BYTES_MAX = 16 << 10 };

static void wipe(struct str *str)
{
    if (str->text) {
        explicit_bzero(str->text, str->cap);
    }
    str_release(str);
}

void s3_credentials_release(struct s3_credentials *credentials)
{
    wipe(&credentials->access_key);
    wipe(&credentials->secret_key);
    wipe(&credentials->token);
    *credentials = (struct s3_credentials){0};
}

/* -- profiles ---------------------------------------------------------------------------------- */

static enum err_code read_file(const char *variable, const char *at_home, struct str *out,
                               struct err *err)
{
    AUTO_STR struct str path = {0};
    const char *named = getenv(variable);
    const char *home = getenv("HOME");
    if (named && named[0]) {
        str_add(&path, named);
    } else if (home && home[0]) {
        str_addf(&path, "%s/.aws/%s", home, at_home);
    } else {
        return ERR_OK;
    }
    struct err trouble = {0};
    enum err_code code = io_read_file(path.text, FILE_BYTES_MAX, out, &trouble);
    if (code == ERR_OK || code == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    return err_set(err, code, "%s", trouble.text);
}

enum err_code s3_profile_load(struct s3_profile *profile, const char *name, struct err *err)
{
    *profile = (struct s3_profile){0};
    const char *chosen = name ? name : getenv("AWS_PROFILE");
    profile->name = mem_strdup(chosen && chosen[0] ? chosen : "default");
    enum err_code code =
        read_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", &profile->credentials, err);
    if (code == ERR_OK) {
        code = read_file("AWS_CONFIG_FILE", "config", &profile->config, err);
    }
    if (code != ERR_OK) {
        s3_profile_release(profile);
    }
    return code;
}

void s3_profile_release(struct s3_profile *profile)
{
    free(profile->name);
    wipe(&profile->credentials);
    wipe(&profile->config);
    *profile = (struct s3_profile){0};
}

/* The credentials file has [name], the other [profile name], but [default]. */
static void section_of(const struct s3_profile *profile, struct str *out)
{
    str_addf(out, strcmp(profile->name, "default") == 0 ? "%s" : "profile %s", profile->name);
}

bool s3_profile_find(const struct s3_profile *profile, const char *key, struct str *out)
{
    AUTO_STR struct str section = {0};
    section_of(profile, &section);
    return s3_ini_find(&profile->credentials, profile->name, key, out) ||
           s3_ini_find(&profile->config, section.text, key, out);
}

static bool profile_is_there(const struct s3_profile *profile)
{
    AUTO_STR struct str section = {0};
    section_of(profile, &section);
    return s3_ini_has(&profile->credentials, profile->name) ||
           s3_ini_has(&profile->config, section.text);
}

/* -- reading them ------------------------------------------------------------------------------ */

/* What goes into a header must not end it. */
static bool is_clean(const struct str *value)
{
    for (size_t i = 0; i < value->size; i++) {
        if (value->text[i] <= ' ' || value->text[i] > '~') {
            return false;
        }
    }
    return value->size <= VALUE_BYTES_MAX;
}

static enum err_code judge(struct s3_credentials *out, enum s3_source source, const char *where,
                           struct err *err)
{
    const char *trouble = NULL;
    if (out->access_key.size == 0) {
        trouble = "no access key";
    } else if (out->secret_key.size == 0) {
        trouble = "an access key without a secret key";
    } else if (!is_clean(&out->access_key) || !is_clean(&out->secret_key) ||
               !is_clean(&out->token)) {
        trouble = "a key that is not plain text";
    }
    if (trouble) {
        s3_credentials_release(out);
        return err_set(err, ERR_DENIED, "S3 credentials: %s has %s", where, trouble);
    }
    out->source = source;
    return ERR_OK;
}

static void add_variable(struct str *out, const char *name)
{
    const char *value = getenv(name);
    if (value) {
        str_add(out, value);
    }
}

static enum err_code load_profile(struct s3_credentials *out, const struct s3_profile *profile,
                                  struct err *err)
{
    s3_profile_find(profile, "aws_access_key_id", &out->access_key);
    s3_profile_find(profile, "aws_secret_access_key", &out->secret_key);
    s3_profile_find(profile, "aws_session_token", &out->token);
    AUTO_STR struct str where = {0};
    str_addf(&where, "profile '%.64s'", profile->name);
    return judge(out, S3_SOURCE_PROFILE, where.text, err);
}

/* Ways to get keys that need other programs or services of AWS. */
static enum err_code refuse_other_ways(const struct s3_profile *profile, struct err *err)
{
    static const char *const ways[] = {"role_arn", "credential_process", "sso_session",
                                       "sso_start_url"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        AUTO_STR struct str value = {0};
        if (s3_profile_find(profile, ways[i], &value)) {
            return err_set(err, ERR_DENIED,
                           "S3 credentials: profile '%.64s' uses %s, which is not understood here; "
                           "put keys into the environment",
                           profile->name, ways[i]);
        }
    }
    return ERR_OK;
}

enum err_code s3_credentials_load(struct s3_credentials *out, const struct s3_profile *profile,
                                  bool is_named, struct err *err)
{
    *out = (struct s3_credentials){0};
    const char *from_environment = getenv("AWS_ACCESS_KEY_ID");
    if (!is_named && from_environment && from_environment[0]) {
        add_variable(&out->access_key, "AWS_ACCESS_KEY_ID");
        add_variable(&out->secret_key, "AWS_SECRET_ACCESS_KEY");
        add_variable(&out->token, "AWS_SESSION_TOKEN");
        return judge(out, S3_SOURCE_ENVIRONMENT, "the environment", err);
    }
    AUTO_STR struct str key = {0};
    if (s3_profile_find(profile, "aws_access_key_id", &key)) {
        return load_profile(out, profile, err);
    }
    if (is_named && !profile_is_there(profile)) {
        return err_set(err, ERR_DENIED, "S3 credentials: there is no profile '%.64s' in ~/.aws",
                       profile->name);
    }
    return refuse_other_ways(profile, err);
}

enum err_code s3_credentials_parse(struct s3_credentials *out, const struct str *json,
                                   struct err *err)
{
    *out = (struct s3_credentials){0};
    AUTO_STR struct str expiration = {0};
    s3_json_find(json, "AccessKeyId", &out->access_key);
    s3_json_find(json, "SecretAccessKey", &out->secret_key);
    s3_json_find(json, "Token", &out->token);
    if (s3_json_find(json, "Expiration", &expiration) &&
        !s3_time_parse(expiration.text, &out->expires_ms)) {
        s3_credentials_release(out);
        return err_set(err, ERR_DENIED, "S3 credentials: the metadata has no date in Expiration");
    }
    return judge(out, S3_SOURCE_METADATA, "the metadata", err);
}
