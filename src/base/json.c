#include "base/json.h"

#include <math.h>
#include <string.h>

static void before_value(struct json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth > 0) {
        if (json->has_items[json->depth - 1]) {
            str_add_char(json->out, ',');
        }
        json->has_items[json->depth - 1] = true;
    }
}

static void open_with(struct json *json, char opener, char closer)
{
    before_value(json);
    CHECK(json->depth < JSON_DEPTH_MAX);
    str_add_char(json->out, opener);
    json->closer[json->depth] = closer;
    json->has_items[json->depth] = false;
    json->depth++;
}

void json_object(struct json *json)
{
    open_with(json, '{', '}');
}

void json_array(struct json *json)
{
    open_with(json, '[', ']');
}

void json_end(struct json *json)
{
    CHECK(json->depth > 0);
    json->depth--;
    str_add_char(json->out, json->closer[json->depth]);
}

void json_key(struct json *json, const char *key)
{
    json_text(json, key);
    str_add_char(json->out, ':');
    json->after_key = true;
}

size_t json_utf8_length(const char *text, size_t size)
{
    const unsigned char *b = (const unsigned char *)text;
    if (size == 0) {
        return 0;
    }
    if (b[0] < 0x80) {
        return 1;
    }
    size_t length = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || size < length) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool surrogate = b[0] == 0xed && b[1] >= 0xa0;
    bool beyond = b[0] == 0xf4 && b[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : length;
}

static void add_escaped(struct str *out, unsigned char c)
{
    switch (c) {
    case '"':
        str_add(out, "\\\"");
        break;
    case '\\':
        str_add(out, "\\\\");
        break;
    case '\n':
        str_add(out, "\\n");
        break;
    case '\t':
        str_add(out, "\\t");
        break;
    case '\r':
        str_add(out, "\\r");
        break;
    default:
        str_addf(out, "\\u%04x", c);
    }
}

void json_bytes(struct json *json, const char *text, size_t size)
{
    before_value(json);
    struct str *out = json->out;
    str_add_char(out, '"');
    size_t plain = 0; /* start of the run of bytes that need no change */
    size_t at = 0;
    while (at < size) {
        unsigned char c = (unsigned char)text[at];
        size_t length = json_utf8_length(text + at, size - at);
        if (length > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            at += length;
            continue;
        }
        str_add_bytes(out, text + plain, at - plain);
        if (length == 0) {
            str_add(out, "\xef\xbf\xbd");
        } else {
            add_escaped(out, c);
        }
        plain = ++at;
    }
    str_add_bytes(out, text + plain, at - plain);
    str_add_char(out, '"');
}

void json_text(struct json *json, const char *text)
{
    json_bytes(json, text, strlen(text));
}

void json_u64(struct json *json, uint64_t number)
{
    before_value(json);
    str_add_u64(json->out, number);
}

void json_i64(struct json *json, int64_t number)
{
    before_value(json);
    str_add_i64(json->out, number);
}

void json_double(struct json *json, double number)
{
    before_value(json);
    if (isfinite(number)) {
        str_add_double(json->out, number);
    } else {
        str_add(json->out, "null");
    }
}

void json_bool(struct json *json, bool value)
{
    before_value(json);
    str_add(json->out, value ? "true" : "false");
}

void json_null(struct json *json)
{
    before_value(json);
    str_add(json->out, "null");
}

void json_raw(struct json *json, const char *text, size_t size)
{
    before_value(json);
    str_add_bytes(json->out, text, size);
}
