#include "object/object_url.h"

#include "object/object.h"

#include <string.h>

#define FILE_SCHEME "file://"
#define S3_SCHEME "s3://"
#define MEMORY_SCHEME "memory://"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { BUCKET_MIN = 3, BUCKET_MAX = 63 };

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static enum err_code decode(const char *from, struct str *out, struct err *err)
{
    for (; *from; from++) {
        if (*from != '%') {
            str_add_char(out, *from);
            continue;
        }
        int high = str_hex_digit(from[1]);
        int low = high < 0 ? -1 : str_hex_digit(from[2]);
        if (low < 0 || high * 16 + low == 0) {
            return err_set(err, ERR_INVALID,
                           "store URL: %% and something else than two hex digits (write %%25 for "
                           "the sign itself)");
        }
        str_add_char(out, (char)(high * 16 + low));
        from += 2;
    }
    return ERR_OK;
}

static enum err_code parse_file(const char *path, struct object_url *out, struct err *err)
{
    out->kind = OBJECT_URL_FILE;
    if (path[0] != '/') {
        return err_set(err, ERR_INVALID,
                       "store URL: after file:// comes an absolute path, as in file:///folder");
    }
    enum err_code code = decode(path, &out->place, err);
    if (code != ERR_OK) {
        return code;
    }
    while (out->place.size > 0 && out->place.text[out->place.size - 1] == '/') {
        out->place.text[--out->place.size] = '\0';
    }
    if (out->place.size == 0) {
        return err_set(err, ERR_INVALID, "store URL: no folder after file://");
    }
    return ERR_OK;
}

static bool bucket_is_sound(const char *bucket, size_t size)
{
    if (size < BUCKET_MIN || size > BUCKET_MAX || strspn(bucket, LETTERS DIGITS "._-") < size) {
        return false;
    }
    for (size_t i = 0; i + 1 < size; i++) {
        if (bucket[i] == '.' && bucket[i + 1] == '.') {
            return false;
        }
    }
    return !strchr("._-", bucket[0]) && !strchr("._-", bucket[size - 1]);
}

static enum err_code parse_s3(const char *rest, struct object_url *out, struct err *err)
{
    out->kind = OBJECT_URL_S3;
    size_t size = strcspn(rest, "/");
    if (!bucket_is_sound(rest, size)) {
        return err_set(err, ERR_INVALID,
                       "store URL: '%.64s' is no bucket's name (%d to %d letters, digits, '.', "
                       "'_' and '-')",
                       rest, BUCKET_MIN, BUCKET_MAX);
    }
    str_add_bytes(&out->place, rest, size);
    const char *prefix = rest + size + (rest[size] == '/');
    size_t prefix_size = strlen(prefix);
    prefix_size -= prefix_size > 0 && prefix[prefix_size - 1] == '/';
    if (prefix_size == 0 && prefix[0] == '\0') {
        return ERR_OK;
    }
    str_add_bytes(&out->prefix, prefix, prefix_size);
    if (prefix_size > OBJECT_URL_PREFIX_MAX || !object_key_is_sound(str_text(&out->prefix))) {
        return err_set(err, ERR_INVALID,
                       "store URL: '%.128s' is no prefix (up to %d letters, digits and ._/@=+-)",
                       prefix, OBJECT_URL_PREFIX_MAX);
    }
    return ERR_OK;
}

static enum err_code parse_memory(const char *name, struct object_url *out, struct err *err)
{
    out->kind = OBJECT_URL_MEMORY;
    if (name[strspn(name, LETTERS DIGITS "._-")] != '\0') {
        return err_set(err, ERR_INVALID, "store URL: '%.64s' is no name for a memory store", name);
    }
    str_add(&out->place, name);
    return ERR_OK;
}

static enum err_code parse(const char *text, struct object_url *out, struct err *err)
{
    if (strnlen(text, OBJECT_URL_SIZE_MAX + 1) > OBJECT_URL_SIZE_MAX) {
        return err_set(err, ERR_INVALID, "store URL: longer than %d bytes", OBJECT_URL_SIZE_MAX);
    }
    if (begins_with(text, FILE_SCHEME)) {
        return parse_file(text + strlen(FILE_SCHEME), out, err);
    }
    if (begins_with(text, S3_SCHEME)) {
        return parse_s3(text + strlen(S3_SCHEME), out, err);
    }
    if (begins_with(text, MEMORY_SCHEME)) {
        return parse_memory(text + strlen(MEMORY_SCHEME), out, err);
    }
    return err_set(err, ERR_INVALID,
                   "store URL: '%.64s' is neither file:///folder nor s3://bucket/prefix", text);
}

enum err_code object_url_parse(const char *text, struct object_url *out, struct err *err)
{
    *out = (struct object_url){0};
    enum err_code code = parse(text, out, err);
    if (code != ERR_OK) {
        object_url_release(out);
    }
    return code;
}

void object_url_release(struct object_url *url)
{
    str_release(&url->place);
    str_release(&url->prefix);
}

static void encode(struct str *out, const struct str *path)
{
    for (size_t i = 0; i < path->size; i++) {
        unsigned char c = (unsigned char)path->text[i];
        if (c > ' ' && c < 127 && !strchr("%?#", c)) {
            str_add_char(out, (char)c);
        } else {
            str_addf(out, "%%%02X", c);
        }
    }
}

void object_url_add(struct str *out, const struct object_url *url)
{
    switch (url->kind) {
    case OBJECT_URL_FILE:
        str_add(out, FILE_SCHEME);
        encode(out, &url->place);
        break;
    case OBJECT_URL_S3:
        str_addf(out, S3_SCHEME "%s", str_text(&url->place));
        if (url->prefix.size > 0) {
            str_addf(out, "/%s", str_text(&url->prefix));
        }
        break;
    case OBJECT_URL_MEMORY:
        str_addf(out, MEMORY_SCHEME "%s", str_text(&url->place));
        break;
    }
}
