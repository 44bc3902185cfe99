#include "base/jread.h"

#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct arena *arena;
    const char *text;
    size_t size;
    size_t at;
    struct str scratch;
};

static enum err_code fail(const struct reader *reader, struct err *err, const char *what)
{
    return err_set(err, ERR_INVALID, "not JSON at byte %zu: %s", reader->at, what);
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->size && strchr(" \t\r\n", reader->text[reader->at]) &&
           reader->text[reader->at] != '\0') {
        reader->at++;
    }
}

static int peek(const struct reader *reader)
{
    return reader->at < reader->size ? (unsigned char)reader->text[reader->at] : -1;
}

/* Four digits; -1: they are not. */
static long read_hex4(struct reader *reader)
{
    long number = 0;
    for (int i = 0; i < 4; i++) {
        int digit = str_hex_digit((char)peek(reader));
        if (digit < 0) {
            return -1;
        }
        number = number * 16 + digit;
        reader->at++;
    }
    return number;
}

/* After "\u". A NUL would cut the text short for whoever reads it as C does: it becomes U+FFFD. */
static bool read_unicode(struct reader *reader)
{
    long c = read_hex4(reader);
    if (c >= 0xd800 && c < 0xdc00) {
        if (peek(reader) != '\\' || reader->at + 1 >= reader->size ||
            reader->text[reader->at + 1] != 'u') {
            return false;
        }
        reader->at += 2;
        long low = read_hex4(reader);
        if (low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c < 0 || (c >= 0xdc00 && c < 0xe000)) {
        return false;
    }
    str_add_utf8(&reader->scratch, c > 0 ? (uint32_t)c : 0xfffd);
    return true;
}

static bool read_escape(struct reader *reader)
{
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    int c = peek(reader);
    reader->at++;
    if (c == 'u') {
        return read_unicode(reader);
    }
    const char *found = c > 0 ? strchr(names, c) : NULL;
    if (found) {
        str_add_char(&reader->scratch, values[found - names]);
    }
    return found != NULL;
}

/* At the opening quote; the decoded text is in the arena. */
static enum err_code read_string(struct reader *reader, const char **out, struct err *err)
{
    str_clear(&reader->scratch);
    reader->at++;
    for (;;) {
        int c = peek(reader);
        if (c == '"') {
            reader->at++;
            *out = arena_strndup(reader->arena, str_text(&reader->scratch), reader->scratch.size);
            return ERR_OK;
        }
        if (c == '\\') {
            reader->at++;
            if (!read_escape(reader)) {
                return fail(reader, err, "a wrong escape");
            }
            continue;
        }
        size_t length =
            c < 0 ? 0 : json_utf8_length(reader->text + reader->at, reader->size - reader->at);
        if (c < 0x20 || length == 0) {
            return fail(reader, err, c < 0 ? "a text without its end" : "a wrong byte in a text");
        }
        str_add_bytes(&reader->scratch, reader->text + reader->at, length);
        reader->at += length;
    }
}

static size_t read_digits(struct reader *reader)
{
    size_t start = reader->at;
    while (peek(reader) >= '0' && peek(reader) <= '9') {
        reader->at++;
    }
    return reader->at - start;
}

static bool read_number(struct reader *reader)
{
    if (peek(reader) == '-') {
        reader->at++;
    }
    size_t start = reader->at;
    size_t digits = read_digits(reader);
    if (digits == 0 || (digits > 1 && reader->text[start] == '0')) {
        return false;
    }
    if (peek(reader) == '.') {
        reader->at++;
        if (read_digits(reader) == 0) {
            return false;
        }
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-') {
            reader->at++;
        }
        return read_digits(reader) > 0;
    }
    return true;
}

static bool read_word(struct reader *reader, const char *word)
{
    size_t size = strlen(word);
    if (reader->size - reader->at < size || memcmp(reader->text + reader->at, word, size) != 0) {
        return false;
    }
    reader->at += size;
    return true;
}

static enum err_code read_scalar(struct reader *reader, struct jnode *node, struct err *err)
{
    size_t start = reader->at;
    enum err_code code = ERR_OK;
    int c = peek(reader);
    if (c == '"') {
        node->kind = JREAD_TEXT;
        code = read_string(reader, &node->text, err);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        node->kind = JREAD_NUMBER;
        code = read_number(reader) ? ERR_OK : fail(reader, err, "a wrong number");
    } else if (read_word(reader, "true") || read_word(reader, "false")) {
        node->kind = JREAD_BOOL;
    } else if (!read_word(reader, "null")) {
        code = fail(reader, err, c < 0 ? "it ends too soon" : "no value begins like this");
    }
    if (code == ERR_OK) {
        node->raw_size = reader->at - start;
        node->raw = arena_strndup(reader->arena, reader->text + start, node->raw_size);
    }
    return code;
}

static enum err_code read_key(struct reader *reader, const char **key, struct err *err)
{
    if (peek(reader) != '"') {
        return fail(reader, err, "a key is missing");
    }
    enum err_code code = read_string(reader, key, err);
    skip_space(reader);
    if (code == ERR_OK && peek(reader) != ':') {
        return fail(reader, err, "a colon is missing");
    }
    reader->at++;
    skip_space(reader);
    return code;
}

static enum err_code read_value(struct reader *reader, int depth, struct jnode *node,
                                struct err *err);

/* At the opening bracket. */
static enum err_code read_items(struct reader *reader, int depth, struct jnode *list,
                                struct err *err)
{
    char closer = list->kind == JREAD_OBJECT ? '}' : ']';
    const struct jnode **place = &list->first;
    reader->at++;
    skip_space(reader);
    if (peek(reader) == closer) {
        reader->at++;
        return ERR_OK;
    }
    for (;;) {
        struct jnode *item = arena_alloc(reader->arena, sizeof *item);
        enum err_code code =
            list->kind == JREAD_OBJECT ? read_key(reader, &item->key, err) : ERR_OK;
        if (code == ERR_OK) {
            code = read_value(reader, depth + 1, item, err);
        }
        if (code != ERR_OK) {
            return code;
        }
        *place = item;
        place = &item->next;
        list->count++;
        skip_space(reader);
        int c = peek(reader);
        if (c != closer && c != ',') {
            return fail(reader, err, "a comma or a closing bracket is missing");
        }
        reader->at++;
        if (c == closer) {
            return ERR_OK;
        }
        skip_space(reader);
    }
}

/* Recursion is bounded by JREAD_DEPTH_MAX. */
static enum err_code read_value(struct reader *reader, int depth, struct jnode *node,
                                struct err *err)
{
    node->text = "";
    node->raw = "";
    int c = peek(reader);
    if (c != '{' && c != '[') {
        return read_scalar(reader, node, err);
    }
    if (depth == JREAD_DEPTH_MAX) {
        return fail(reader, err, "nested too deep");
    }
    node->kind = c == '{' ? JREAD_OBJECT : JREAD_ARRAY;
    return read_items(reader, depth, node, err);
}

enum err_code jread_parse(struct jread *doc, const char *text, size_t size, struct err *err)
{
    if (size > JREAD_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "not read: JSON of %zu bytes", size);
    }
    struct reader reader = {.arena = &doc->arena, .text = text, .size = size};
    struct jnode *root = arena_alloc(&doc->arena, sizeof *root);
    skip_space(&reader);
    enum err_code code = read_value(&reader, 0, root, err);
    skip_space(&reader);
    if (code == ERR_OK && reader.at != size) {
        code = fail(&reader, err, "something follows the value");
    }
    str_release(&reader.scratch);
    if (code == ERR_OK) {
        doc->root = root;
    } else {
        jread_release(doc);
    }
    return code;
}

void jread_release(struct jread *doc)
{
    arena_release(&doc->arena);
    *doc = (struct jread){0};
}

const struct jnode *jread_get(const struct jnode *object, const char *key)
{
    if (!object || object->kind != JREAD_OBJECT) {
        return NULL;
    }
    const struct jnode *item = object->first;
    while (item && strcmp(item->key, key) != 0) {
        item = item->next;
    }
    return item;
}

const struct jnode *jread_first(const struct jnode *list)
{
    return list ? list->first : NULL;
}

const char *jread_text(const struct jnode *object, const char *key, const char *fallback)
{
    const struct jnode *value = jread_get(object, key);
    return value && value->kind == JREAD_TEXT ? value->text : fallback;
}

uint64_t jread_u64(const struct jnode *object, const char *key, uint64_t fallback)
{
    const struct jnode *value = jread_get(object, key);
    if (!value || value->kind != JREAD_NUMBER || strpbrk(value->raw, "-.eE")) {
        return fallback;
    }
    errno = 0;
    unsigned long long number = strtoull(value->raw, NULL, 10);
    return errno == 0 ? number : fallback;
}

double jread_number(const struct jnode *object, const char *key, double fallback)
{
    const struct jnode *value = jread_get(object, key);
    return value && value->kind == JREAD_NUMBER ? strtod(value->raw, NULL) : fallback;
}

bool jread_bool(const struct jnode *object, const char *key, bool fallback)
{
    const struct jnode *value = jread_get(object, key);
    return value && value->kind == JREAD_BOOL ? value->raw[0] == 't' : fallback;
}

void jread_add(struct str *out, const struct jnode *value)
{
    if (!value) {
        str_add(out, "null");
        return;
    }
    if (value->kind != JREAD_OBJECT && value->kind != JREAD_ARRAY) {
        str_add_bytes(out, value->raw, value->raw_size);
        return;
    }
    str_add_char(out, value->kind == JREAD_OBJECT ? '{' : '[');
    for (const struct jnode *item = value->first; item; item = item->next) {
        if (item != value->first) {
            str_add_char(out, ',');
        }
        if (item->key) {
            struct json json = {.out = out};
            json_text(&json, item->key);
            str_add_char(out, ':');
        }
        jread_add(out, item);
    }
    str_add_char(out, value->kind == JREAD_OBJECT ? '}' : ']');
}

void jread_add_clean(struct str *out, const char *text)
{
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(text + at, size - at);
        bool control = length == 0 || (unsigned char)text[at] < 0x20 || text[at] == 0x7f ||
                       (length == 2 && (unsigned char)text[at] == 0xc2 &&
                        (unsigned char)text[at + 1] < 0xa0); /* C1 */
        str_add_bytes(out, control ? "?" : text + at, control ? 1 : length);
        at += length ? length : 1;
    }
}
