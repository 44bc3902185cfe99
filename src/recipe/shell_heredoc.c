#include "recipe/shell_lex_internal.h"

static bool is_delimiter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_.+%:@,/-", c));
}

static char at(const struct shell_lex *lex, size_t pos)
{
    return pos < lex->size ? lex->text[pos] : '\0';
}

/* At "<<": notes the delimiter, whose body begins after the next new line. Only plain words, bare
 * or wholly quoted, are taken: with others the shells differ in what ends the body. */
void shell_heredoc_announce(struct shell_lex *lex)
{
    struct shell_heredoc doc = {.strip_tabs = at(lex, lex->pos + 2) == '-'};
    size_t pos = lex->pos + (doc.strip_tabs ? 3 : 2);
    while (at(lex, pos) == ' ' || at(lex, pos) == '\t') {
        pos++;
    }
    char quote = at(lex, pos);
    doc.quoted = quote == '\'' || quote == '"' || quote == '\\';
    pos += doc.quoted ? 1 : 0;
    doc.start = pos;
    while (is_delimiter(at(lex, pos))) {
        pos++;
    }
    doc.size = pos - doc.start;
    bool closed = quote != '\'' && quote != '"';
    if (!closed && at(lex, pos) == quote) {
        closed = true;
        pos++;
    }
    bool ends = pos == lex->size || (at(lex, pos) != '\0' && strchr(" \t\n;&|<>)", at(lex, pos)));
    if (doc.size == 0 || !closed || !ends) {
        shell_lex_doubt(lex, "a here-document whose delimiter is not a plain word");
        return;
    }
    if (lex->heredoc_count == SHELL_HEREDOC_MAX) {
        shell_lex_doubt(lex, "too many here-documents on one line");
        return;
    }
    lex->heredocs[lex->heredoc_count++] = doc;
    lex->pos = pos;
}

/* A line of an unquoted here-document may hold expansions. sh reads those as it reads the body, so
 * one that goes on over the line's end could hide the delimiter; bash does not. */
static bool expansions_end_in_line(const char *line, size_t size)
{
    int parens = 0;
    int braces = 0;
    int quotes[3] = {0};
    bool odd = false;
    bool expands = false;
    for (size_t i = 0; i < size; i++) {
        char c = line[i];
        parens += (c == '(') - (c == ')');
        braces += (c == '{') - (c == '}');
        quotes[0] += c == '\'';
        quotes[1] += c == '"';
        quotes[2] += c == '`';
        odd = odd || c == '\\' || c == '#' || (c == '<' && i + 1 < size && line[i + 1] == '<');
        expands = expands || c == '`' ||
                  (c == '$' && i + 1 < size && (line[i + 1] == '(' || line[i + 1] == '{'));
    }
    return !expands || (parens == 0 && braces == 0 && quotes[0] % 2 == 0 && quotes[1] % 2 == 0 &&
                        quotes[2] % 2 == 0 && !odd);
}

/* Is the line the delimiter once its holes are left out? */
static bool is_delimiter_line(const char *line, size_t size, const char *delimiter,
                              size_t delimiter_size)
{
    size_t matched = 0;
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '\0') {
            continue;
        }
        if (matched == delimiter_size || line[i] != delimiter[matched]) {
            return false;
        }
        matched++;
    }
    return matched == delimiter_size;
}

static void check_body_line(struct shell_lex *lex, const struct shell_heredoc *doc,
                            const char *line, size_t size)
{
    const char *delimiter = lex->text + doc->start;
    if (is_delimiter_line(line, size, delimiter, doc->size)) {
        shell_lex_doubt(lex, "a placeholder in the line that ends a here-document");
    } else if (lex->depth > 0 && size > doc->size && memcmp(line, delimiter, doc->size) == 0) {
        shell_lex_doubt(lex, "a here-document line that begins like its delimiter");
    } else if (!doc->quoted && size > 0 && line[size - 1] == '\\') {
        shell_lex_doubt(lex, "a here-document line that ends in a backslash");
    } else if (!doc->quoted && !expansions_end_in_line(line, size)) {
        shell_lex_doubt(lex, "an expansion in a here-document that may go on in the next line");
    }
}

void shell_heredoc_step(struct shell_lex *lex)
{
    const struct shell_heredoc *doc = &lex->heredocs[lex->heredoc_index];
    const char *rest = lex->text + lex->pos;
    size_t left = lex->size - lex->pos;
    if (lex->line_start) {
        const char *end = memchr(rest, '\n', left);
        size_t size = end ? (size_t)(end - rest) : left;
        size_t skip = 0;
        while (doc->strip_tabs && skip < size && rest[skip] == '\t') {
            skip++;
        }
        bool whole = rest[-1] == '\n'; /* else the line began with a hole */
        if (whole && size - skip == doc->size &&
            memcmp(rest + skip, lex->text + doc->start, doc->size) == 0) {
            lex->pos += size + (end ? 1 : 0);
            lex->heredoc_index++;
            lex->in_body = lex->heredoc_index < lex->heredoc_count;
            lex->heredoc_count = lex->in_body ? lex->heredoc_count : 0;
            return;
        }
        check_body_line(lex, doc, rest + skip, size - skip);
    }
    lex->line_start = *rest == '\n';
    lex->pos++;
}
