#include "object/object_s3_sign.h"

#include "base/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char algorithm[] = "AWS4-HMAC-SHA256";

enum { DATE_CHARS = 8 }; /* the day, at the front of a stamp */

static void add_signed_names(struct str *out, const struct s3_signable *request)
{
    for (size_t i = 0; i < request->header_count; i++) {
        CHECK(i == 0 || strcmp(request->headers[i - 1].name, request->headers[i].name) < 0);
        if (i > 0) {
            str_add_char(out, ';');
        }
        str_add(out, request->headers[i].name);
    }
}

/* Runs of spaces count as one, at the ends as none. */
static void add_trimmed(struct str *out, const char *value)
{
    bool space = false;
    bool any = false;
    for (; *value; value++) {
        if (*value == ' ' || *value == '\t') {
            space = true;
            continue;
        }
        if (space && any) {
            str_add_char(out, ' ');
        }
        str_add_char(out, *value);
        any = true;
        space = false;
    }
}

static void hash_canonical(const struct s3_signable *request, char hex[SHA256_HEX_CHARS + 1])
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "%s\n%s\n%s\n", request->method, request->path, request->query);
    for (size_t i = 0; i < request->header_count; i++) {
        str_add(&text, request->headers[i].name);
        str_add_char(&text, ':');
        add_trimmed(&text, request->headers[i].value);
        str_add_char(&text, '\n');
    }
    str_add_char(&text, '\n');
    add_signed_names(&text, request);
    str_add_char(&text, '\n');
    str_add(&text, request->payload_hash);

    uint8_t digest[SHA256_BYTES];
    sha256_of(text.text, text.size, digest);
    sha256_hex(digest, hex);
}

static void derive_key(const struct s3_signer *signer, const char *stamp, uint8_t key[SHA256_BYTES])
{
    AUTO_STR struct str first = {0};
    str_add(&first, "AWS4");
    str_add(&first, signer->secret_key);
    hmac_sha256(first.text, first.size, stamp, DATE_CHARS, key);
    explicit_bzero(first.text, first.cap);
    hmac_sha256(key, SHA256_BYTES, signer->region, strlen(signer->region), key);
    hmac_sha256(key, SHA256_BYTES, signer->service, strlen(signer->service), key);
    hmac_sha256(key, SHA256_BYTES, "aws4_request", strlen("aws4_request"), key);
}

void s3_sign(struct str *out, const struct s3_signable *request, const struct s3_signer *signer,
             const char stamp[S3_STAMP_CHARS + 1])
{
    AUTO_STR struct str scope = {0};
    str_add_bytes(&scope, stamp, DATE_CHARS);
    str_addf(&scope, "/%s/%s/aws4_request", signer->region, signer->service);

    char hash[SHA256_HEX_CHARS + 1];
    hash_canonical(request, hash);
    AUTO_STR struct str to_sign = {0};
    str_addf(&to_sign, "%s\n%s\n%s\n%s", algorithm, stamp, scope.text, hash);

    uint8_t key[SHA256_BYTES];
    derive_key(signer, stamp, key);
    uint8_t digest[SHA256_BYTES];
    hmac_sha256(key, sizeof key, to_sign.text, to_sign.size, digest);
    explicit_bzero(key, sizeof key);
    sha256_hex(digest, hash);

    str_addf(out, "%s Credential=%s/%s,SignedHeaders=", algorithm, signer->access_key, scope.text);
    add_signed_names(out, request);
    str_addf(out, ",Signature=%s", hash);
}

void s3_stamp(char out[S3_STAMP_CHARS + 1], int64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm tm = {0};
    CHECK(gmtime_r(&seconds, &tm));
    CHECK(strftime(out, S3_STAMP_CHARS + 1, "%Y%m%dT%H%M%SZ", &tm) == S3_STAMP_CHARS);
}

static bool is_unreserved(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void s3_add_encoded(struct str *out, const char *text, bool keep_slashes)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text; text++) {
        if (is_unreserved(*text) || (keep_slashes && *text == '/')) {
            str_add_char(out, *text);
        } else {
            unsigned byte = (unsigned char)*text;
            char triple[3] = {'%', digits[byte >> 4], digits[byte & 15]};
            str_add_bytes(out, triple, sizeof triple);
        }
    }
}

void s3_add_query(struct str *query, const char *name, const char *value)
{
    if (query->size > 0) {
        str_add_char(query, '&');
    }
    s3_add_encoded(query, name, false);
    str_add_char(query, '=');
    s3_add_encoded(query, value, false);
}

void s3_add_base64(struct str *out, const uint8_t *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t bits = (uint32_t)bytes[i] << 16;
        bits |= left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= left > 2 ? (uint32_t)bytes[i + 2] : 0;
        str_add_char(out, digits[bits >> 18]);
        str_add_char(out, digits[bits >> 12 & 63]);
        str_add_char(out, left > 1 ? digits[bits >> 6 & 63] : '=');
        str_add_char(out, left > 2 ? digits[bits & 63] : '=');
    }
}
