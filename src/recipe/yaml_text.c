#include "base/json.h"
#include "recipe/yaml_internal.h"

#include <string.h>

enum { DIRECTIVES_MAX = 1000 };

static bool is_control(unsigned char c)
{
    return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
}

static bool looks_like_utf16(const char *text, size_t size)
{
    return size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0);
}

/* What is wrong with the character at text, or NULL. */
static const char *trouble_with(const char *text, size_t length)
{
    if (length == 0) {
        return "this is not UTF-8 text";
    }
    if (text[0] == '\0') {
        return "a NUL byte is not allowed";
    }
    return is_control((unsigned char)text[0]) ? "a control character is not allowed" : NULL;
}

bool yaml_check_text(const char *text, size_t size, struct diag_list *diags)
{
    if (size > YAML_BYTES_MAX) {
        diag_add(diags, 0, 0, "larger than %d MiB", YAML_BYTES_MAX >> 20);
        return false;
    }
    if (looks_like_utf16(text, size)) {
        diag_add(diags, 1, 1, "this is UTF-16 text; save it as UTF-8");
        return false;
    }
    int line = 1;
    int column = 1;
    size_t directives = 0;
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(text + at, size - at);
        const char *trouble = trouble_with(text + at, length);
        if (!trouble && column == 1 && text[at] == '%' && ++directives > DIRECTIVES_MAX) {
            trouble = "too many lines that begin with %";
        }
        if (trouble) {
            diag_add(diags, line, column, "%s", trouble);
            return false;
        }
        column++;
        if (text[at] == '\n') {
            line++;
            column = 1;
        }
        at += length;
    }
    return true;
}

/* libyaml's words, and ours. With at_context the place is where the broken thing began. */
struct translation {
    const char *theirs;
    const char *ours;
    bool at_context;
};

static const struct translation translations[] = {
    {"could not find expected ':'", "expected 'key: value' here; is a ':' missing?", true},
    {"mapping values are not allowed in this context",
     "a ':' is not allowed here; check the indentation, or put the text in quotes", false},
    {"mapping keys are not allowed in this context", "a key is not allowed here", false},
    {"block sequence entries are not allowed in this context",
     "a '-' item is not allowed here; start the list on its own line", false},
    {"did not find expected key",
     "this does not fit the mapping around it; check the indentation and the quotes", false},
    {"did not find expected '-' indicator",
     "this does not fit the list around it; check the indentation", false},
    {"did not find expected ',' or ']'", "expected ',' or ']' in the list", false},
    {"did not find expected ',' or '}'", "expected ',' or '}' in the mapping", false},
    {"did not find expected node content", "a value is missing here", false},
    {"did not find expected <document start>",
     "this does not fit what stands above; check the indentation", false},
    {"found unexpected end of stream", "this quote is never closed", true},
    {"found unexpected document indicator", "this quote is never closed", true},
    {"found unknown escape character",
     "unknown escape after '\\' in \"...\"; write '\\\\', or use single quotes", false},
    {"found a tab character that violates indentation",
     "a tab cannot be used for indentation; use spaces", false},
    {"found a tab character where an indentation space is expected",
     "a tab cannot be used for indentation; use spaces", false},
    {"found undefined tag handle", "unknown tag", false},
};

/* The byte at character number `index`: marks count characters. */
static char byte_at(const char *text, size_t size, size_t index)
{
    size_t at = 0;
    while (at < size && index > 0) {
        size_t length = json_utf8_length(text + at, size - at);
        at += length ? length : 1;
        index--;
    }
    return at < size ? text[at] : '\0';
}

static void report_at(struct diag_list *diags, yaml_mark_t mark, const char *text)
{
    diag_add(diags, (int)mark.line + 1, (int)mark.column + 1, "%s", text);
}

void yaml_report_error(const yaml_parser_t *parser, const char *text, size_t size,
                       struct diag_list *diags)
{
    const char *problem = parser->problem ? parser->problem : "cannot be read as YAML";
    if (strcmp(problem, "found character that cannot start any token") == 0) {
        char c = byte_at(text, size, parser->problem_mark.index);
        if (c == '\t') {
            report_at(diags, parser->problem_mark,
                      "a tab cannot be used for indentation; use spaces");
        } else {
            diag_add(diags, (int)parser->problem_mark.line + 1,
                     (int)parser->problem_mark.column + 1,
                     "'%c' cannot begin a value; put the text in quotes", c);
        }
        return;
    }
    if (strcmp(problem, "did not find expected ',' or '}'") == 0 &&
        byte_at(text, size, parser->problem_mark.index) == '{') {
        report_at(
            diags, parser->problem_mark,
            "expected ',' or '}' in the mapping; a text with {{...}} in it needs quotes here");
        return;
    }
    for (size_t i = 0; i < sizeof translations / sizeof translations[0]; i++) {
        const struct translation *known = &translations[i];
        if (strcmp(problem, known->theirs) == 0) {
            report_at(diags, known->at_context ? parser->context_mark : parser->problem_mark,
                      known->ours);
            return;
        }
    }
    report_at(diags, parser->problem_mark, problem);
}
