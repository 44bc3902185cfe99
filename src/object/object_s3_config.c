#include "object/object_s3_config.h"

#include "base/mem.h"
#include "object/object_s3_sign.h"

#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 30000, PART_BYTES = 16 << 20, PART_BYTES_MIN = 5 << 20, BUCKET_MAX = 255 };

void s3_config_release(struct s3_config *config)
{
    free(config->bucket);
    free(config->prefix);
    free(config->origin);
    free(config->host);
    free(config->path);
    free(config->region);
    free(config->ca_file);
    *config = (struct s3_config){0};
}

/* -- finding values ---------------------------------------------------------------------------- */

/* The first that is there: the option, the variables, the profile's key. NULL: none is. */
static char *find(const char *option, const char *const *variables, const char *key,
                  const struct s3_profile *profile)
{
    if (option && option[0]) {
        return mem_strdup(option);
    }
    for (; *variables; variables++) {
        const char *value = getenv(*variables);
        if (value && value[0]) {
            return mem_strdup(value);
        }
    }
    struct str value = {0};
    return s3_profile_find(profile, key, &value) ? str_take(&value) : NULL;
}

static bool is_made_of(const char *text, const char *allowed)
{
    return text[0] && strspn(text, allowed) == strlen(text);
}

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* -- the endpoint ------------------------------------------------------------------------------ */

struct endpoint {
    const char *scheme; /* "http" or "https" */
    char *host;         /* with the port, unless it is the scheme's own */
};

/* SCHEME://HOST[:PORT][/] */
static enum err_code parse_endpoint(const char *text, struct endpoint *out, struct err *err)
{
    const char *host = NULL;
    if (strncmp(text, "http://", 7) == 0) {
        *out = (struct endpoint){.scheme = "http"};
        host = text + 7;
    } else if (strncmp(text, "https://", 8) == 0) {
        *out = (struct endpoint){.scheme = "https"};
        host = text + 8;
    } else {
        return err_set(err, ERR_INVALID, "S3 endpoint '%.200s': not http:// or https://", text);
    }
    size_t size = strcspn(host, "/");
    bool has_path = host[size] && host[size + 1];
    size_t good = strspn(host, LETTERS ".-_:[]");
    if (size == 0 || has_path || good < size) {
        return err_set(err, ERR_INVALID, "S3 endpoint '%.200s': not SCHEME://HOST:PORT", text);
    }
    const char *port = strcmp(out->scheme, "http") == 0 ? ":80" : ":443";
    size_t port_size = strlen(port);
    if (size > port_size && strncmp(host + size - port_size, port, port_size) == 0 &&
        host[size - port_size - 1] != ':') {
        size -= port_size;
    }
    out->host = mem_strndup(host, size);
    return ERR_OK;
}

static enum err_code choose_virtual(const char *addressing, bool has_endpoint, const char *bucket,
                                    bool *out, struct err *err)
{
    bool is_auto = !addressing || strcmp(addressing, "auto") == 0;
    if (!is_auto && strcmp(addressing, "path") != 0 && strcmp(addressing, "virtual") != 0) {
        return err_set(err, ERR_INVALID, "S3 addressing '%.64s': not path or virtual", addressing);
    }
    /* No certificate is for a host name with the bucket's dots in it. */
    *out = is_auto ? !has_endpoint && !strchr(bucket, '.') : strcmp(addressing, "virtual") == 0;
    return ERR_OK;
}

static void set_place(struct s3_config *config, const struct endpoint *endpoint, bool is_virtual)
{
    struct str host = {0};
    struct str origin = {0};
    struct str path = {0};
    if (is_virtual) {
        str_addf(&host, "%s.", config->bucket);
    }
    str_add(&host, endpoint->host);
    str_addf(&origin, "%s://%s", endpoint->scheme, host.text);
    str_add(&path, is_virtual ? "" : "/");
    s3_add_encoded(&path, is_virtual ? "" : config->bucket, false);
    config->host = str_take(&host);
    config->origin = str_take(&origin);
    config->path = str_take(&path);
}

static enum err_code find_place(struct s3_config *config, const struct object_options *options,
                                const struct s3_profile *profile, struct err *err)
{
    static const char *const endpoint_variables[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
                                                     NULL};
    static const char *const none[] = {NULL};
    AUTO_FREE char *named = find(options->endpoint, endpoint_variables, "endpoint_url", profile);
    AUTO_FREE char *addressing = find(options->addressing, none, "s3.addressing_style", profile);
    bool is_virtual = false;
    enum err_code code = choose_virtual(addressing, named, config->bucket, &is_virtual, err);
    if (code != ERR_OK) {
        return code;
    }
    AUTO_STR struct str url = {0};
    bool is_china = strncmp(config->region, "cn-", 3) == 0;
    str_addf(&url, "https://s3.%s.amazonaws.com%s", config->region, is_china ? ".cn" : "");
    struct endpoint endpoint = {0};
    code = parse_endpoint(named ? named : url.text, &endpoint, err);
    if (code == ERR_OK) {
        set_place(config, &endpoint, is_virtual);
    }
    free(endpoint.host);
    return code;
}

/* -- the whole --------------------------------------------------------------------------------- */

/* Without slashes at its ends, with one behind it. */
static char *make_prefix(const char *prefix)
{
    while (*prefix == '/') {
        prefix++;
    }
    size_t size = strlen(prefix);
    while (size > 0 && prefix[size - 1] == '/') {
        size--;
    }
    struct str out = {0};
    str_add_bytes(&out, prefix, size);
    str_add(&out, size > 0 ? "/" : "");
    return str_take(&out);
}

enum err_code s3_config_init(struct s3_config *config, const char *bucket, const char *prefix,
                             const struct object_options *options, const struct s3_profile *profile,
                             struct err *err)
{
    static const char *const region_variables[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    static const char *const ca_variables[] = {"AWS_CA_BUNDLE", NULL};
    *config = (struct s3_config){0};
    if (!is_made_of(bucket, LETTERS "._-") || strlen(bucket) > BUCKET_MAX || bucket[0] == '.') {
        return err_set(err, ERR_INVALID, "S3 bucket '%.200s': not a name of a bucket", bucket);
    }
    config->bucket = mem_strdup(bucket);
    config->prefix = make_prefix(prefix ? prefix : "");
    config->ca_file = find(options->ca_file, ca_variables, "ca_bundle", profile);
    config->region = find(options->region, region_variables, "region", profile);
    config->region = config->region ? config->region : mem_strdup("us-east-1");
    config->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    config->part_bytes = options->part_bytes ? options->part_bytes : PART_BYTES;
    if (config->part_bytes < PART_BYTES_MIN) {
        config->part_bytes = PART_BYTES_MIN; /* servers refuse smaller ones */
    }
    /* Directory buckets have etags that look like an MD5 and are not. */
    size_t size = strlen(bucket);
    config->etag_is_md5 = size < 6 || strcmp(bucket + size - 6, "--x-s3") != 0;

    enum err_code code = ERR_OK;
    if (!is_made_of(config->region, LETTERS "_-")) {
        code =
            err_set(err, ERR_INVALID, "S3 region '%.64s': not a name of a region", config->region);
    } else if (strlen(config->prefix) > OBJECT_KEY_MAX) {
        code = err_set(err, ERR_INVALID, "S3 prefix: longer than %d bytes", OBJECT_KEY_MAX);
    } else {
        code = find_place(config, options, profile, err);
    }
    if (code != ERR_OK) {
        s3_config_release(config);
    }
    return code;
}
