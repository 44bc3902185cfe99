#include "metrics/object.h"

#include "metrics/number.h"

#include <string.h>
#include <strings.h>

struct name {
    char text[METRIC_NAME_MAX + 1];
    size_t size;
    bool fits; /* false: longer than a metric's name may be */
};

struct reader {
    const char *text;
    size_t size;
    size_t at;
    bool loose;
    struct record *record;
    struct object_about *about;
    struct name named; /* the text of the key "name" at the top */
    double value;      /* of the key "value" there */
    bool has_value;
};

static bool read_value(struct reader *reader, const struct name *path, int depth);

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->size && strchr(" \t\r\n", reader->text[reader->at]) &&
           reader->text[reader->at] != '\0') {
        reader->at++;
    }
}

static bool take_char(struct reader *reader, char c)
{
    if (reader->at < reader->size && reader->text[reader->at] == c) {
        reader->at++;
        return true;
    }
    return false;
}

static bool take_word(struct reader *reader, const char *word)
{
    size_t length = strlen(word);
    if (reader->size - reader->at < length ||
        memcmp(reader->text + reader->at, word, length) != 0) {
        return false;
    }
    reader->at += length;
    return true;
}

static void name_add(struct name *name, const char *bytes, size_t size)
{
    if (size > sizeof name->text - 1 - name->size) {
        name->fits = false;
        return;
    }
    memcpy(name->text + name->size, bytes, size);
    name->size += size;
}

/* --- texts ----------------------------------------------------------------------------------- */

static bool take_hex(struct reader *reader, unsigned digits, uint32_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < digits; i++) {
        static const char hex[] = "0123456789abcdef0123456789ABCDEF";
        char c = reader->at < reader->size ? reader->text[reader->at] : '\0';
        const char *found = c ? strchr(hex, c) : NULL;
        if (!found) {
            return false;
        }
        *out = *out << 4 | ((uint32_t)(found - hex) & 15);
        reader->at++;
    }
    return true;
}

static void name_add_character(struct name *name, uint32_t c)
{
    char bytes[4];
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = size; i > 1; i--) {
        bytes[i - 1] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    bytes[0] = (char)(lead[size] | c);
    name_add(name, bytes, size);
}

/* After a backslash. A half of a surrogate pair alone leaves bytes that no valid name has. */
static bool read_escape(struct reader *reader, struct name *out)
{
    static const char letters[] = "bfnrt\"'\\/";
    static const char meant[] = "\b\f\n\r\t\"'\\/";
    if (reader->at == reader->size) {
        return false;
    }
    char c = reader->text[reader->at++];
    uint32_t high = 0;
    uint32_t low = 0;
    if (c == 'u') {
        if (!take_hex(reader, 4, &high)) {
            return false;
        }
        if (high >= 0xD800 && high < 0xDC00 && take_word(reader, "\\u")) {
            if (!take_hex(reader, 4, &low)) {
                return false;
            }
            high = low >= 0xDC00 && low < 0xE000
                       ? 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
                       : 0xD800;
        }
        name_add_character(out, high);
        return true;
    }
    if (c == 'x' && reader->loose) {
        if (!take_hex(reader, 2, &high)) {
            return false;
        }
        name_add_character(out, high);
        return true;
    }
    const char *found = c ? strchr(letters, c) : NULL;
    if (!found) {
        return false;
    }
    name_add(out, &meant[found - letters], 1);
    return true;
}

/* At a quote. Texts of any length are read; `out` has the first that fits a name. */
static bool read_text(struct reader *reader, struct name *out)
{
    char quote = reader->text[reader->at++];
    out->size = 0;
    out->fits = true;
    while (reader->at < reader->size) {
        char c = reader->text[reader->at++];
        if (c == quote) {
            return true;
        }
        if (c == '\\') {
            if (!read_escape(reader, out)) {
                return false;
            }
        } else if ((unsigned char)c < 0x20) {
            return false;
        } else {
            name_add(out, &c, 1);
        }
    }
    return false;
}

static bool at_quote(const struct reader *reader)
{
    return reader->at < reader->size &&
           (reader->text[reader->at] == '"' || (reader->loose && reader->text[reader->at] == '\''));
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool is_key(const struct name *path, const char *key)
{
    return path->fits && path->size == strlen(key) && memcmp(path->text, key, path->size) == 0;
}

/* `path` NULL: within a list, where numbers have no names. */
static void add_number(struct reader *reader, const struct name *path, double value)
{
    if (!path || !path->fits) {
        return;
    }
    if (is_key(path, "value")) {
        reader->value = value;
        reader->has_value = true;
        return; /* decided at the end, when it is known whether there is a name */
    }
    record_add(reader->record, path->text, path->size, value);
}

static bool read_number(struct reader *reader, const struct name *path)
{
    double value = 0;
    size_t length = number_read(reader->text + reader->at, reader->size - reader->at, &value);
    if (length == 0) {
        return false;
    }
    char next = reader->at + length < reader->size ? reader->text[reader->at + length] : ' ';
    if (next == '.' && reader->loose) { /* "1." as numpy prints it */
        length++;
    } else if (!strchr(" \t\r\n,]})", next) || next == '\0') {
        return false;
    }
    reader->at += length;
    add_number(reader, path, value);
    return true;
}

/* tensor(0.5, device='cuda:0') and np.float64(0.5): at the name of the function. */
static bool read_wrapped(struct reader *reader, const struct name *path)
{
    static const char *const words[] = {"tensor(",     "np.float64(", "np.float32(",
                                        "np.float16(", "np.int64(",   "np.int32("};
    bool wrapped = false;
    for (size_t i = 0; reader->loose && !wrapped && i < sizeof words / sizeof words[0]; i++) {
        wrapped = take_word(reader, words[i]);
    }
    if (!wrapped || !read_number(reader, path)) {
        return false;
    }
    const char *close = memchr(reader->text + reader->at, ')', reader->size - reader->at);
    if (close) {
        reader->at = (size_t)(close - reader->text) + 1;
    }
    return close != NULL;
}

/* --- values ---------------------------------------------------------------------------------- */

static bool read_text_value(struct reader *reader, const struct name *path)
{
    struct name text;
    double value = 0;
    if (!read_text(reader, &text)) {
        return false;
    }
    if (path && (is_key(path, "msg") || is_key(path, "message") || is_key(path, "event"))) {
        reader->about->has_message = true;
    } else if (path && is_key(path, "name")) {
        reader->named = text;
    } else if (path && reader->loose && text.fits && number_parse(text.text, text.size, &value)) {
        add_number(reader, path, value);
    }
    return true;
}

static bool read_list(struct reader *reader, int depth)
{
    reader->at++;
    skip_blanks(reader);
    if (take_char(reader, ']')) {
        return true;
    }
    do {
        if (!read_value(reader, NULL, depth + 1)) {
            return false;
        }
        skip_blanks(reader);
    } while (take_char(reader, ','));
    return take_char(reader, ']');
}

static bool read_member(struct reader *reader, const struct name *path, int depth)
{
    struct name key;
    struct name whole;
    skip_blanks(reader);
    if (!at_quote(reader) || !read_text(reader, &key)) {
        return false;
    }
    skip_blanks(reader);
    if (!take_char(reader, ':')) {
        return false;
    }
    if (!path) {
        return read_value(reader, NULL, depth + 1);
    }
    whole = *path;
    if (whole.size > 0) {
        name_add(&whole, "/", 1);
    }
    name_add(&whole, key.text, key.size);
    whole.fits = whole.fits && key.fits;
    return read_value(reader, &whole, depth + 1);
}

static bool read_object(struct reader *reader, const struct name *path, int depth)
{
    reader->at++;
    skip_blanks(reader);
    if (take_char(reader, '}')) {
        return true;
    }
    do {
        if (!read_member(reader, path, depth)) {
            return false;
        }
        skip_blanks(reader);
    } while (take_char(reader, ','));
    return take_char(reader, '}');
}

static bool read_value(struct reader *reader, const struct name *path, int depth)
{
    skip_blanks(reader);
    if (reader->at == reader->size || depth > OBJECT_DEPTH_MAX) {
        return false;
    }
    char c = reader->text[reader->at];
    if (c == '{') {
        return read_object(reader, path, depth);
    }
    if (c == '[') {
        return read_list(reader, depth);
    }
    if (at_quote(reader)) {
        return read_text_value(reader, path);
    }
    if (take_word(reader, "true") || take_word(reader, "false") || take_word(reader, "null") ||
        (reader->loose &&
         (take_word(reader, "True") || take_word(reader, "False") || take_word(reader, "None")))) {
        return true;
    }
    return read_number(reader, path) || read_wrapped(reader, path);
}

bool object_read(const char *text, size_t size, bool loose, struct record *record,
                 struct object_about *about)
{
    struct reader reader = {
        .text = text, .size = size, .loose = loose, .record = record, .about = about};
    const struct name top = {.fits = true};
    *about = (struct object_about){0};
    skip_blanks(&reader);
    if (reader.at == size || text[reader.at] != '{' || !read_object(&reader, &top, 0)) {
        return false;
    }
    skip_blanks(&reader);
    if (reader.at < size) {
        return false;
    }
    if (reader.has_value && reader.named.size > 0 && reader.named.fits) {
        record_add(record, reader.named.text, reader.named.size, reader.value);
    } else if (reader.has_value) {
        record_add(record, "value", 5, reader.value);
    }
    return true;
}
