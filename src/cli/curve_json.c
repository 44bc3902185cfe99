/* Just enough JSON: a sequence or an array of objects, whose plain members are kept as text. What
 * is nested inside them is checked and passed over. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/curve_record.h"

#include <string.h>

enum { DEPTH_MAX = 64, MEMBERS_MAX = 1000 };

static enum err_code fail(const struct json_reader *reader, struct err *err, const char *why)
{
    return err_set(err, ERR_INVALID, "%s:%d: %s", reader->file, reader->line, why);
}

/* The next character that is not blank, or 0 at the end; a NUL in the text reads as an error
 * everywhere, since nothing allows it. */
static char peek(struct json_reader *reader)
{
    while (reader->at < reader->size && strchr(" \t\r\n", reader->text[reader->at]) &&
           reader->text[reader->at]) {
        reader->line += reader->text[reader->at] == '\n';
        reader->at++;
    }
    return reader->at < reader->size ? reader->text[reader->at] : 0;
}

static bool read_hex4(struct json_reader *reader, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int digit = reader->at < reader->size ? str_hex_digit(reader->text[reader->at]) : -1;
        if (digit < 0) {
            return false;
        }
        *out = *out * 16 + (unsigned)digit;
        reader->at++;
    }
    return true;
}

/* After \u: a character of the basic plane or a pair of surrogates. */
static bool read_unicode(struct json_reader *reader, struct str *out)
{
    unsigned code = 0;
    if (!read_hex4(reader, &code) || code == 0) {
        return false;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        unsigned low = 0;
        if (reader->size - reader->at < 6 || memcmp(reader->text + reader->at, "\\u", 2) != 0) {
            return false;
        }
        reader->at += 2;
        if (!read_hex4(reader, &low) || low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
        return false;
    }
    str_add_utf8(out, code);
    return true;
}

static bool read_escape(struct json_reader *reader, struct str *out)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    if (reader->at == reader->size) {
        return false;
    }
    char c = reader->text[reader->at++];
    if (c == 'u') {
        return read_unicode(reader, out);
    }
    const char *found = c ? strchr(names, c) : NULL;
    if (!found) {
        return false;
    }
    str_add_char(out, values[found - names]);
    return true;
}

/* At the opening quote. */
static enum err_code read_string(struct json_reader *reader, struct str *out, struct err *err)
{
    reader->at++;
    for (;;) {
        if (reader->at == reader->size) {
            return fail(reader, err, "a string is never closed");
        }
        unsigned char c = (unsigned char)reader->text[reader->at];
        if (c == '"') {
            reader->at++;
            return ERR_OK;
        }
        if (c == '\\') {
            reader->at++;
            if (!read_escape(reader, out)) {
                return fail(reader, err, "a wrong escape in a string");
            }
            continue;
        }
        size_t length = json_utf8_length(reader->text + reader->at, reader->size - reader->at);
        if (c < 0x20 || length == 0) {
            return fail(reader, err, "a string holds a control character or is not UTF-8");
        }
        str_add_bytes(out, reader->text + reader->at, length);
        reader->at += length;
    }
}

/* A number or one of the words; what it means is decided where it is used. NaN and Infinity, which
 * Python writes, are let through as words so that the message can name them. */
static enum err_code read_word(struct json_reader *reader, struct str *out, struct err *err)
{
    size_t start = reader->at;
    while (reader->at < reader->size) {
        char c = reader->text[reader->at];
        bool word = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                    c == '+' || c == '-' || c == '.';
        if (!word) {
            break;
        }
        reader->at++;
    }
    size_t length = reader->at - start;
    if (length == 0 || length > 64) {
        return fail(reader, err, "expected a value");
    }
    if (length != 4 || memcmp(reader->text + start, "null", 4) != 0) {
        str_add_bytes(out, reader->text + start, length);
    }
    return ERR_OK;
}

/* An array or object inside a member: balanced brackets, strings respected. */
static enum err_code skip_nested(struct json_reader *reader, struct err *err)
{
    char closers[DEPTH_MAX] = {0};
    int depth = 0;
    struct str ignored = {0};
    enum err_code code = ERR_OK;
    do {
        char c = peek(reader);
        if (c == '"') {
            str_clear(&ignored);
            code = read_string(reader, &ignored, err);
            continue;
        }
        if (c == '[' || c == '{') {
            if (depth == DEPTH_MAX) {
                code = fail(reader, err, "nested too deep");
                break;
            }
            closers[depth++] = c == '[' ? ']' : '}';
        } else if (c == ']' || c == '}') {
            CHECK(depth > 0); /* it began with an opening one */
            if (closers[--depth] != c) {
                code = fail(reader, err, "brackets do not match");
            }
        } else if (c == 0) {
            code = fail(reader, err, "the file ends inside a value");
        }
        reader->at++;
    } while (depth > 0 && code == ERR_OK);
    str_release(&ignored);
    return code;
}

static enum err_code read_member(struct json_reader *reader, struct arena *arena,
                                 struct json_members *members, struct err *err)
{
    AUTO_STR struct str key = {0};
    AUTO_STR struct str value = {0};
    if (peek(reader) != '"') {
        return fail(reader, err, "expected a member's name in quotes");
    }
    enum err_code code = read_string(reader, &key, err);
    if (code != ERR_OK) {
        return code;
    }
    if (peek(reader) != ':') {
        return fail(reader, err, "expected ':' after a member's name");
    }
    reader->at++;
    char c = peek(reader);
    if (c == '[' || c == '{') {
        return skip_nested(reader, err);
    }
    code = c == '"' ? read_string(reader, &value, err) : read_word(reader, &value, err);
    if (code == ERR_OK && members->count < MEMBERS_MAX) {
        VEC_PUSH(members->items, members->count, members->cap) =
            (struct json_member){.key = arena_strdup(arena, str_text(&key)),
                                 .value = arena_strdup(arena, str_text(&value))};
    }
    return code;
}

/* At the opening brace. */
static enum err_code read_object(struct json_reader *reader, struct arena *arena,
                                 struct json_members *members, struct err *err)
{
    members->line = reader->line;
    reader->at++;
    if (peek(reader) == '}') {
        reader->at++;
        return ERR_OK;
    }
    for (;;) {
        enum err_code code = read_member(reader, arena, members, err);
        if (code != ERR_OK) {
            return code;
        }
        char c = peek(reader);
        if (c != ',' && c != '}') {
            return fail(reader, err, "expected ',' or '}'");
        }
        reader->at++;
        if (c == '}') {
            return ERR_OK;
        }
    }
}

enum err_code json_reader_next(struct json_reader *reader, struct arena *arena,
                               struct json_members *members, bool *more, struct err *err)
{
    members->count = 0;
    *more = false;
    bool after_comma = false;
    char c = peek(reader);
    if (!reader->started && c == '[') {
        reader->in_array = true;
        reader->at++;
        c = peek(reader);
    } else if (reader->in_array && reader->started && c == ',') {
        after_comma = true;
        reader->at++;
        c = peek(reader);
    } else if (reader->in_array && reader->started && c != ']') {
        return fail(reader, err, "expected ',' or ']'");
    }
    if (reader->in_array && c == ']' && !after_comma) {
        reader->at++;
        return peek(reader) == 0 && reader->at == reader->size
                   ? ERR_OK
                   : fail(reader, err, "something follows the array");
    }
    reader->started = true;
    if (!reader->in_array && reader->at == reader->size) {
        return ERR_OK;
    }
    if (c != '{') {
        return fail(reader, err, "expected an object");
    }
    *more = true;
    return read_object(reader, arena, members, err);
}
