#include "object/object_s3_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* -- AWS files -------------------------------------------------------------------------------- */

struct piece {
    const char *text;
    size_t size;
};

static struct piece trim(const char *text, size_t size)
{
    while (size > 0 && strchr(" \t\r", text[0]) && text[0]) {
        text++;
        size--;
    }
    while (size > 0 && strchr(" \t\r", text[size - 1]) && text[size - 1]) {
        size--;
    }
    return (struct piece){text, size};
}

static bool piece_is(struct piece piece, const char *text)
{
    size_t size = strlen(text);
    return piece.size == size && (size == 0 || strncasecmp(piece.text, text, size) == 0);
}

/* [name], also with spaces inside the brackets and quotes around a profile's name. */
static bool is_section(struct piece line, const char *section)
{
    if (line.size < 2 || line.text[line.size - 1] != ']') {
        return false;
    }
    struct piece name = trim(line.text + 1, line.size - 2);
    size_t matched = 0;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.text[i] == '\t' ? ' ' : name.text[i];
        bool is_repeated_space = c == ' ' && i > 0 && name.text[i - 1] == ' ';
        if (c == '"' || is_repeated_space) {
            continue;
        }
        if (c == '\0' || section[matched] != c) {
            return false;
        }
        matched++;
    }
    return section[matched] == '\0';
}

struct ini {
    const char *at;
    const char *end;
    const char *section;
    bool is_inside;      /* of [section] */
    struct piece parent; /* "s3" below the line "s3 =" */
};

struct line {
    struct piece parent; /* empty: not set off */
    struct piece key;
    struct piece value;
};

/* The next "key = value" of the section. */
static bool next_line(struct ini *ini, struct line *out)
{
    while (ini->at < ini->end) {
        const char *start = ini->at;
        const char *stop = memchr(start, '\n', (size_t)(ini->end - start));
        stop = stop ? stop : ini->end;
        ini->at = stop < ini->end ? stop + 1 : stop;
        struct piece line = trim(start, (size_t)(stop - start));
        if (line.size == 0 || line.text[0] == '#' || line.text[0] == ';') {
            continue;
        }
        if (line.text[0] == '[') {
            ini->is_inside = is_section(line, ini->section);
            ini->parent = (struct piece){0};
            continue;
        }
        const char *equals = memchr(line.text, '=', line.size);
        if (!ini->is_inside || !equals) {
            continue;
        }
        out->key = trim(line.text, (size_t)(equals - line.text));
        out->value = trim(equals + 1, (size_t)(line.text + line.size - equals) - 1);
        bool is_set_off = *start == ' ' || *start == '\t';
        if (!is_set_off) {
            ini->parent = out->key;
        }
        out->parent = is_set_off ? ini->parent : (struct piece){0};
        return true;
    }
    return false;
}

bool s3_ini_find(const struct str *file, const char *section, const char *key, struct str *out)
{
    const char *dot = strchr(key, '.');
    char parent[32] = "";
    if (dot) {
        snprintf(parent, sizeof parent, "%.*s", (int)(dot - key), key);
        key = dot + 1;
    }
    const char *text = str_text(file);
    struct ini ini = {.at = text, .end = text + file->size, .section = section};
    struct line line = {0};
    struct piece found = {0};
    while (next_line(&ini, &line)) {
        if (piece_is(line.key, key) && piece_is(line.parent, parent)) {
            found = line.value;
        }
    }
    if (found.size == 0 || memchr(found.text, '\0', found.size)) {
        return false;
    }
    str_add_bytes(out, found.text, found.size);
    return true;
}

bool s3_ini_has(const struct str *file, const char *section)
{
    const char *text = str_text(file);
    struct ini ini = {.at = text, .end = text + file->size, .section = section};
    struct line line = {0};
    return next_line(&ini, &line);
}

/* -- JSON ------------------------------------------------------------------------------------- */

enum { DEPTH_MAX = 16 };

struct json_reader {
    const char *at;
    const char *end;
};

static void skip_space(struct json_reader *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\t' || *json->at == '\r' || *json->at == '\n')) {
        json->at++;
    }
}

static bool take(struct json_reader *json, char c)
{
    skip_space(json);
    if (json->at == json->end || *json->at != c) {
        return false;
    }
    json->at++;
    return true;
}

/* Behind "\u". Surrogates come out one by one, as nothing that we read has any. */
static bool read_unicode(struct json_reader *json, struct str *out)
{
    uint32_t value = 0;
    if (json->end - json->at < 4) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        int digit = str_hex_digit(*json->at++);
        if (digit < 0) {
            return false;
        }
        value = value * 16 + (uint32_t)digit;
    }
    if (value == 0 || (value >= 0xd800 && value <= 0xdfff)) {
        return false;
    }
    str_add_utf8(out, value);
    return true;
}

static bool read_text(struct json_reader *json, struct str *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    if (!take(json, '"')) {
        return false;
    }
    while (json->at < json->end && *json->at != '"') {
        char c = *json->at++;
        if ((unsigned char)c < ' ') {
            return false;
        }
        if (c != '\\') {
            str_add_char(out, c);
            continue;
        }
        if (json->at == json->end) {
            return false;
        }
        c = *json->at++;
        const char *known = c ? strchr(from, c) : NULL;
        if (known) {
            str_add_char(out, to[known - from]);
        } else if (c != 'u' || !read_unicode(json, out)) {
            return false;
        }
    }
    return take(json, '"');
}

/* A number or a word: whether it is one that JSON knows does not matter here. */
static bool skip_word(struct json_reader *json)
{
    const char *first = json->at;
    while (json->at < json->end && *json->at &&
           strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *json->at)) {
        json->at++;
    }
    return json->at > first;
}

static bool skip_value(struct json_reader *json, int depth);

static bool skip_members(struct json_reader *json, char closer, int depth)
{
    AUTO_STR struct str text = {0};
    if (take(json, closer)) {
        return true;
    }
    do {
        if (closer == '}' && !(read_text(json, &text) && take(json, ':'))) {
            return false;
        }
        if (!skip_value(json, depth + 1)) {
            return false;
        }
    } while (take(json, ','));
    return take(json, closer);
}

// NOLINTNEXTLINE(misc-no-recursion): bounded by DEPTH_MAX
static bool skip_value(struct json_reader *json, int depth)
{
    skip_space(json);
    if (depth > DEPTH_MAX || json->at == json->end) {
        return false;
    }
    AUTO_STR struct str text = {0};
    switch (*json->at) {
    case '"':
        return read_text(json, &text);
    case '{':
        json->at++;
        return skip_members(json, '}', depth);
    case '[':
        json->at++;
        return skip_members(json, ']', depth);
    default:
        return skip_word(json);
    }
}

/* One "name": value, with the value in `found` if it is the text asked for. */
static bool read_member(struct json_reader *json, const char *key, struct str *found)
{
    AUTO_STR struct str name = {0};
    if (!read_text(json, &name) || !take(json, ':')) {
        return false;
    }
    skip_space(json);
    bool is_it = strcmp(str_text(&name), key) == 0 && json->at < json->end && *json->at == '"';
    if (!is_it) {
        return skip_value(json, 1);
    }
    str_clear(found);
    return read_text(json, found);
}

bool s3_json_find(const struct str *text, const char *key, struct str *out)
{
    struct json_reader json = {str_text(text), str_text(text) + text->size};
    AUTO_STR struct str found = {0};
    if (!take(&json, '{')) {
        return false;
    }
    if (!take(&json, '}')) {
        do {
            if (!read_member(&json, key, &found)) {
                return false;
            }
        } while (take(&json, ','));
        if (!take(&json, '}')) {
            return false;
        }
    }
    skip_space(&json);
    bool good = json.at == json.end && found.size > 0;
    if (good) {
        str_add_bytes(out, found.text, found.size);
    }
    if (found.text) {
        explicit_bzero(found.text, found.cap);
    }
    return good;
}

bool s3_time_parse(const char *text, int64_t *unix_ms)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || (*rest != 'Z' && *rest != '.')) {
        return false;
    }
    time_t seconds = timegm(&tm);
    if (seconds <= 0) {
        return false;
    }
    *unix_ms = (int64_t)seconds * 1000;
    return true;
}
