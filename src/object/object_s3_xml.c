#include "object/object_s3_xml.h"

#include <stdint.h>
#include <string.h>

void s3_xml_init(struct s3_xml *xml, const char *bytes, size_t size)
{
    *xml = (struct s3_xml){.at = bytes, .end = bytes + size};
}

void s3_xml_release(struct s3_xml *xml)
{
    str_release(&xml->path);
    str_release(&xml->text);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name_start(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == ':';
}

static bool is_name(char c)
{
    return is_name_start(c) || (c >= '0' && c <= '9') || c == '-' || c == '.';
}

static bool bad(struct s3_xml *xml)
{
    xml->bad = true;
    return false;
}

static void skip_space(struct s3_xml *xml)
{
    while (xml->at < xml->end && is_space(*xml->at)) {
        xml->at++;
    }
}

static bool take(struct s3_xml *xml, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(xml->end - xml->at) < size || memcmp(xml->at, text, size) != 0) {
        return false;
    }
    xml->at += size;
    return true;
}

/* Goes behind the next `text`. */
static bool skip_to(struct s3_xml *xml, const char *text)
{
    const char *found = memmem(xml->at, (size_t)(xml->end - xml->at), text, strlen(text));
    if (!found) {
        return bad(xml);
    }
    xml->at = found + strlen(text);
    return true;
}

static size_t name_size(const struct s3_xml *xml)
{
    const char *at = xml->at;
    if (at == xml->end || !is_name_start(*at)) {
        return 0;
    }
    while (at < xml->end && is_name(*at)) {
        at++;
    }
    return (size_t)(at - xml->at);
}

/* Behind "&#". */
static bool read_number(struct s3_xml *xml)
{
    uint32_t base = 10;
    if (xml->at < xml->end && *xml->at == 'x') {
        base = 16;
        xml->at++;
    }
    uint32_t value = 0;
    const char *first = xml->at;
    for (; xml->at < xml->end && *xml->at != ';'; xml->at++) {
        int digit = str_hex_digit(*xml->at);
        if (digit < 0 || (uint32_t)digit >= base) {
            return bad(xml);
        }
        value = value * base + (uint32_t)digit;
        if (value > 0x10ffff) {
            return bad(xml);
        }
    }
    if (xml->at == xml->end || xml->at == first || value == 0 ||
        (value >= 0xd800 && value <= 0xdfff)) {
        return bad(xml);
    }
    xml->at++;
    str_add_utf8(&xml->text, value);
    return true;
}

/* Behind "&". */
static bool read_entity(struct s3_xml *xml)
{
    static const struct {
        const char *name;
        char character;
    } known[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
    if (take(xml, "#")) {
        return read_number(xml);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (take(xml, known[i].name)) {
            str_add_char(&xml->text, known[i].character);
            return true;
        }
    }
    return bad(xml);
}

/* Up to the next "<". Text between elements may only be space. */
static bool read_text(struct s3_xml *xml)
{
    while (xml->at < xml->end && *xml->at != '<') {
        const char *first = xml->at;
        while (xml->at < xml->end && *xml->at != '<' && *xml->at != '&' && *xml->at != '\0') {
            xml->at++;
        }
        str_add_bytes(&xml->text, first, (size_t)(xml->at - first));
        if (xml->at == xml->end || *xml->at == '<') {
            break;
        }
        if (*xml->at == '\0') {
            return bad(xml);
        }
        xml->at++;
        if (!read_entity(xml)) {
            return false;
        }
    }
    if (xml->depth == 0 || xml->has_children) {
        for (size_t i = 0; i < xml->text.size; i++) {
            if (!is_space(xml->text.text[i])) {
                return bad(xml);
            }
        }
        str_clear(&xml->text);
    }
    return true;
}

static bool skip_attributes(struct s3_xml *xml)
{
    for (;;) {
        const char *before = xml->at;
        skip_space(xml);
        size_t size = name_size(xml);
        if (size == 0) {
            return true;
        }
        if (xml->at == before) {
            return bad(xml);
        }
        xml->at += size;
        skip_space(xml);
        if (!take(xml, "=")) {
            return bad(xml);
        }
        skip_space(xml);
        if (xml->at == xml->end || (*xml->at != '"' && *xml->at != '\'')) {
            return bad(xml);
        }
        const char quote[] = {*xml->at++, '\0'};
        if (!skip_to(xml, quote)) {
            return false;
        }
    }
}

/* Behind "<". True with *ended set if the element ended at once (<a/>). */
static bool read_open(struct s3_xml *xml, bool *ended)
{
    size_t size = name_size(xml);
    bool is_inside_text = false;
    for (size_t i = 0; i < xml->text.size; i++) {
        is_inside_text |= !is_space(xml->text.text[i]);
    }
    if (size == 0 || xml->over || xml->depth == S3_XML_DEPTH_MAX || is_inside_text) {
        return bad(xml);
    }
    str_clear(&xml->text);
    xml->parents[xml->depth++] = xml->path.size;
    if (xml->path.size > 0) {
        str_add_char(&xml->path, '/');
    }
    str_add_bytes(&xml->path, xml->at, size);
    xml->at += size;
    xml->has_children = false;
    if (!skip_attributes(xml)) {
        return false;
    }
    *ended = take(xml, "/>");
    return *ended || take(xml, ">") || bad(xml);
}

/* Behind "</". */
static bool read_close(struct s3_xml *xml)
{
    size_t size = name_size(xml);
    if (xml->depth == 0 || size == 0) {
        return bad(xml);
    }
    size_t start = xml->parents[xml->depth - 1];
    start += start > 0 ? 1 : 0;
    if (xml->path.size - start != size || memcmp(xml->path.text + start, xml->at, size) != 0) {
        return bad(xml);
    }
    xml->at += size;
    skip_space(xml);
    return take(xml, ">") || bad(xml);
}

/* The element told last is left, now that the caller has seen it. */
static void leave(struct s3_xml *xml)
{
    if (!xml->told) {
        return;
    }
    xml->told = false;
    size_t parent = xml->parents[--xml->depth];
    xml->path.size = parent;
    xml->path.text[parent] = '\0';
    str_clear(&xml->text);
    xml->has_children = true;
    xml->over = xml->depth == 0;
}

static bool tell(struct s3_xml *xml)
{
    xml->told = true;
    if (xml->text.size == 0) {
        str_add(&xml->text, ""); /* never NULL */
    }
    return true;
}

bool s3_xml_next(struct s3_xml *xml)
{
    leave(xml);
    while (!xml->bad) {
        if (!read_text(xml)) {
            return false;
        }
        if (xml->at == xml->end) {
            return xml->over ? false : bad(xml);
        }
        bool ended = false;
        if (take(xml, "<!--")) {
            skip_to(xml, "-->");
        } else if (take(xml, "<?")) {
            skip_to(xml, "?>");
        } else if (take(xml, "</")) {
            return read_close(xml) && tell(xml);
        } else if (take(xml, "<") && read_open(xml, &ended) && ended) {
            return tell(xml);
        }
    }
    return false;
}

void s3_xml_add_escaped(struct str *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("&<>\"'", *text) || (unsigned char)*text < ' ') {
            str_addf(out, "&#%u;", (unsigned)(unsigned char)*text);
        } else {
            str_add_char(out, *text);
        }
    }
}
