/* json.h - writing JSON into a str.
 *
 * A writer puts commas and colons where they belong, so that callers only say what comes next:
 *     struct json json = {.out = &text};
 *     json_object(&json);
 *     json_key(&json, "task"), json_u64(&json, 7);
 *     json_end(&json);
 * Text that is not UTF-8 comes out with U+FFFD in place of each bad byte: the output is always
 * valid JSON. Numbers that JSON cannot hold (NaN, infinities) become null.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { JSON_DEPTH_MAX = 32 };

struct json {
    struct str *out;
    int depth;
    bool after_key;
    char closer[JSON_DEPTH_MAX];
    bool has_items[JSON_DEPTH_MAX];
};

void json_object(struct json *json);
void json_array(struct json *json);
void json_end(struct json *json); /* closes the innermost object or array */
void json_key(struct json *json, const char *key);
void json_text(struct json *json, const char *text);
void json_bytes(struct json *json, const char *text, size_t size);
void json_u64(struct json *json, uint64_t number);
void json_i64(struct json *json, int64_t number);
void json_double(struct json *json, double number);
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
void json_raw(struct json *json, const char *text, size_t size); /* a ready JSON value */

/* Bytes of text[0..size) that form one valid UTF-8 character, 0 if none does. */
size_t json_utf8_length(const char *text, size_t size);

#endif
