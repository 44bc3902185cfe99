#include "volume/volume_json.h"

#include "base/json.h"
#include "base/str.h"

#include <string.h>

static bool take(struct volume_json *in, char c)
{
    if (in->bad || in->at == in->end || *in->at != c) {
        return false;
    }
    in->at++;
    return true;
}

static void expect(struct volume_json *in, char c)
{
    if (!take(in, c)) {
        in->bad = true;
    }
}

static bool take_word(struct volume_json *in, const char *word)
{
    size_t size = strlen(word);
    if (in->bad || (size_t)(in->end - in->at) < size || memcmp(in->at, word, size) != 0) {
        return false;
    }
    in->at += size;
    return true;
}

bool volume_json_item(struct volume_json *in, char opener, size_t i)
{
    char closer = opener == '{' ? '}' : ']';
    if (i == 0) {
        expect(in, opener);
        return !take(in, closer) && !in->bad;
    }
    if (take(in, closer)) {
        return false;
    }
    expect(in, ',');
    return !in->bad;
}

static uint32_t hex4(struct volume_json *in)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = in->at < in->end ? str_hex_digit(*in->at) : -1;
        if (digit < 0) {
            in->bad = true;
            return 0;
        }
        value = value << 4 | (uint32_t)digit;
        in->at++;
    }
    return value;
}

/* The writer escapes control characters, quotes and backslashes only: one byte each. */
static char escaped(struct volume_json *in)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (in->at == in->end) {
        in->bad = true;
        return 0;
    }
    char c = *in->at++;
    if (c == 'u') {
        uint32_t value = hex4(in);
        in->bad = in->bad || value == 0 || value >= 0x80;
        return (char)value;
    }
    const char *found = c == 0 ? NULL : strchr(names, c);
    if (found == NULL) {
        in->bad = true;
        return 0;
    }
    return values[found - names];
}

/* Bytes of one character of a text, into out (room for 4): how many; 0: the text is at its end. */
static size_t text_step(struct volume_json *in, char *out)
{
    if (take(in, '"')) {
        return 0;
    }
    if (take(in, '\\')) {
        out[0] = escaped(in);
        return 1;
    }
    size_t length = json_utf8_length(in->at, (size_t)(in->end - in->at));
    if (length == 0 || (unsigned char)*in->at < 0x20) {
        in->bad = true;
        return 0;
    }
    memcpy(out, in->at, length);
    in->at += length;
    return length;
}

void volume_json_text(struct volume_json *in, char *out, size_t out_size)
{
    size_t size = 0;
    expect(in, '"');
    while (!in->bad) {
        char bytes[4];
        size_t length = text_step(in, bytes);
        if (length == 0) {
            break;
        }
        if (size + length >= out_size) {
            in->bad = true;
            break;
        }
        memcpy(out + size, bytes, length);
        size += length;
    }
    out[in->bad ? 0 : size] = '\0';
}

void volume_json_key(struct volume_json *in, char *out, size_t out_size)
{
    volume_json_text(in, out, out_size);
    expect(in, ':');
}

uint64_t volume_json_u64(struct volume_json *in)
{
    const char *start = in->at;
    uint64_t value = 0;
    while (!in->bad && in->at < in->end && *in->at >= '0' && *in->at <= '9') {
        uint64_t digit = (uint64_t)(*in->at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            in->bad = true;
            break;
        }
        value = value * 10 + digit;
        in->at++;
    }
    bool leading_zero = in->at > start + 1 && *start == '0';
    in->bad = in->bad || in->at == start || leading_zero;
    return in->bad ? 0 : value;
}

uint32_t volume_json_u32(struct volume_json *in)
{
    uint64_t value = volume_json_u64(in);
    in->bad = in->bad || value > UINT32_MAX;
    return in->bad ? 0 : (uint32_t)value;
}

int64_t volume_json_i64(struct volume_json *in)
{
    bool negative = take(in, '-');
    uint64_t value = volume_json_u64(in);
    in->bad = in->bad || value > INT64_MAX || (negative && value == 0);
    if (in->bad) {
        return 0;
    }
    return negative ? -(int64_t)value : (int64_t)value;
}

bool volume_json_bool(struct volume_json *in)
{
    if (take_word(in, "true")) {
        return true;
    }
    in->bad = in->bad || !take_word(in, "false");
    return false;
}

bool volume_json_null(struct volume_json *in)
{
    return take_word(in, "null");
}

void volume_json_hex(struct volume_json *in, uint8_t *out, size_t size)
{
    memset(out, 0, size);
    expect(in, '"');
    for (size_t i = 0; i < size && !in->bad; i++) {
        int high = in->end - in->at >= 2 ? str_hex_digit(in->at[0]) : -1;
        int low = high >= 0 ? str_hex_digit(in->at[1]) : -1;
        if (low < 0) {
            in->bad = true;
            break;
        }
        out[i] = (uint8_t)(high << 4 | low);
        in->at += 2;
    }
    expect(in, '"');
}

uint64_t volume_json_hex64(struct volume_json *in)
{
    uint8_t bytes[8];
    volume_json_hex(in, bytes, sizeof bytes);
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        value = value << 8 | bytes[i];
    }
    return in->bad ? 0 : value;
}

bool volume_json_is_done(const struct volume_json *in)
{
    return !in->bad && in->at == in->end;
}
