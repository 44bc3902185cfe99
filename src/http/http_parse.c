#include "http/http_parse.h"

#include "base/json.h"

#include <string.h>
#include <strings.h>

/* One decoded byte at *text, which moves past it; -1: a broken %XX, or a NUL in disguise. */
static int decode_byte(const char **text)
{
    const char *at = *text;
    if (*at != '%') {
        *text = at + 1;
        return (unsigned char)*at;
    }
    int high = str_hex_digit(at[1]);
    int low = high < 0 ? -1 : str_hex_digit(at[2]);
    if (low < 0 || high + low == 0) {
        return -1;
    }
    *text = at + 3;
    return high * 16 + low;
}

/* --- path ------------------------------------------------------------------------------------ */

/* The absolute form, "http://host/path", is for proxies, but servers must take it too. */
static const char *skip_authority(const char *target)
{
    size_t scheme = strncasecmp(target, "http://", 7) == 0    ? 7
                    : strncasecmp(target, "https://", 8) == 0 ? 8
                                                              : 0;
    if (scheme == 0) {
        return target;
    }
    target += scheme;
    target += strcspn(target, "/?#");
    return *target == '/' ? target : "/";
}

static const char *decode_path(const char *text, struct str *decoded)
{
    while (*text != '\0' && *text != '?' && *text != '#') {
        int byte = decode_byte(&text);
        if (byte < 0) {
            return "the path is badly encoded";
        }
        if (byte < 0x20 || byte == 0x7f) {
            return "the path has a control character";
        }
        str_add_char(decoded, (char)byte);
    }
    const char *at = str_text(decoded);
    size_t left = decoded->size;
    while (left > 0) {
        size_t length = json_utf8_length(at, left);
        if (length == 0) {
            return "the path is not UTF-8";
        }
        at += length;
        left -= length;
    }
    return NULL;
}

static bool part_is(const char *part, size_t size, const char *text)
{
    return size == strlen(text) && memcmp(part, text, size) == 0;
}

const char *http_parse_path(const char *target, struct str *out)
{
    const char *path = skip_authority(target);
    if (*path != '/') {
        return "the path does not begin with a slash";
    }
    AUTO_STR struct str decoded = {0};
    const char *why = decode_path(path, &decoded);
    if (why) {
        return why;
    }
    AUTO_STR struct str clean = {0};
    const char *part = str_text(&decoded);
    while (*part != '\0') {
        part += strspn(part, "/");
        size_t size = strcspn(part, "/");
        if (part_is(part, size, "..")) {
            return "the path leads upwards";
        }
        if (size > 0 && !part_is(part, size, ".")) {
            str_add_char(&clean, '/');
            str_add_bytes(&clean, part, size);
        }
        part += size;
    }
    str_add(out, clean.size > 0 ? str_text(&clean) : "/");
    return NULL;
}

/* --- query ----------------------------------------------------------------------------------- */

const char *http_parse_query(const char *target)
{
    const char *mark = strchr(target, '?');
    return mark ? mark + 1 : "";
}

/* The same in a query, where a plus is a space and nothing reaches beyond end. */
static int decode_query_byte(const char **text, const char *end)
{
    if (**text == '+') {
        *text += 1;
        return ' ';
    }
    bool cut_short = **text == '%' && end - *text < 3; /* "%4" before the next "&" */
    return cut_short ? -1 : decode_byte(text);
}

/* Decodes text[0..length) into out. False: bad encoding, or it does not fit. */
static bool decode_value(const char *text, size_t length, char *out, size_t size)
{
    const char *end = text + length;
    size_t used = 0;
    while (text < end) {
        int byte = decode_query_byte(&text, end);
        if (byte < 0 || used + 1 >= size) {
            return false;
        }
        out[used++] = (char)byte;
    }
    out[used] = '\0';
    return true;
}

/* Is text[0..length), decoded, the key. */
static bool key_matches(const char *text, size_t length, const char *key)
{
    const char *end = text + length;
    while (text < end && *key != '\0') {
        if (decode_query_byte(&text, end) != (unsigned char)*key++) {
            return false;
        }
    }
    return text == end && *key == '\0';
}

bool http_parse_value(const char *query, const char *key, unsigned index, char *out, size_t size)
{
    CHECK(size > 0);
    out[0] = '\0';
    for (const char *at = query; *at != '\0';) {
        size_t length = strcspn(at, "&");
        const char *equals = memchr(at, '=', length);
        size_t key_length = equals ? (size_t)(equals - at) : length;
        if (key_matches(at, key_length, key) && index-- == 0) {
            const char *value = equals ? equals + 1 : at + length;
            bool whole = decode_value(value, (size_t)(at + length - value), out, size);
            if (!whole) {
                out[0] = '\0';
            }
            return whole;
        }
        at += length;
        at += *at == '&';
    }
    return false;
}

/* --- the rest -------------------------------------------------------------------------------- */

const char *http_parse_bearer(const char *header, size_t *length)
{
    *length = 0;
    if (strncasecmp(header, "Bearer ", 7) != 0) {
        return "";
    }
    header += 7;
    header += strspn(header, " ");
    size_t size = strcspn(header, " \t");
    if (header[size + strspn(header + size, " \t")] != '\0') {
        return ""; /* two words are no token */
    }
    *length = size;
    return header;
}

bool http_parse_method(const char *method)
{
    size_t length = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return length > 0 && length <= 16 && method[length] == '\0';
}
