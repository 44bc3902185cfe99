#include "base/csv.h"

#include "base/mem.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Fields are unquoted in place in our copy of the text, so a field is one offset into it. */
struct csv {
    char *file;
    char *text;
    uint32_t *fields; /* the header's, then each record's */
    size_t field_count;
    size_t field_cap;
    int *lines; /* of the header, then of each record */
    size_t line_count;
    size_t line_cap;
    size_t column_count;
};

struct reader {
    struct csv *csv;
    char *at;
    char *end; /* holds a NUL */
    int line;
};

enum { SHOWN_MAX = 60 }; /* bytes of a bad field shown in a message */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_blanks(char *at)
{
    while (is_blank(*at)) {
        at++;
    }
    return at;
}

/* Ends the field [start, stop) with a NUL, without the blanks around it. The caller has looked at
 * *stop already: it may be the separator. */
static void add_field(struct csv *csv, char *start, char *stop)
{
    start = skip_blanks(start < stop ? start : stop);
    if (start > stop) {
        start = stop;
    }
    while (stop > start && is_blank(stop[-1])) {
        stop--;
    }
    *stop = '\0';
    VEC_PUSH(csv->fields, csv->field_count, csv->field_cap) = (uint32_t)(start - csv->text);
}

/* At the opening quote. Moves to what follows the closing one. */
static enum err_code read_quoted(struct reader *reader, struct err *err)
{
    int begun = reader->line;
    char *start = reader->at;
    char *from = start + 1;
    char *to = start;
    while (from < reader->end && (from[0] != '"' || from[1] == '"')) {
        reader->line += from[0] == '\n';
        from += from[0] == '"'; /* of a pair, one is dropped */
        *to++ = *from++;
    }
    if (from >= reader->end) {
        return err_set(err, ERR_INVALID, "%s:%d: a quote is never closed", reader->csv->file,
                       begun);
    }
    char *next = skip_blanks(from + 1);
    if (*next != ',' && *next != '\n' && next != reader->end) {
        return err_set(err, ERR_INVALID, "%s:%d: text after a closing quote", reader->csv->file,
                       reader->line);
    }
    add_field(reader->csv, start, to);
    reader->at = next;
    return ERR_OK;
}

static enum err_code read_plain(struct reader *reader, char *separator, struct err *err)
{
    char *start = reader->at;
    char *at = start;
    while (at < reader->end && *at != ',' && *at != '\n') {
        if (*at == '"') {
            return err_set(err, ERR_INVALID,
                           "%s:%d: a quote inside a field (write \"a \"\"quoted\"\" word\")",
                           reader->csv->file, reader->line);
        }
        at++;
    }
    *separator = *at;
    add_field(reader->csv, start, at);
    reader->at = at;
    return ERR_OK;
}

static enum err_code read_record(struct reader *reader, struct err *err)
{
    struct csv *csv = reader->csv;
    int line = reader->line;
    size_t before = csv->field_count;
    char separator = ',';
    while (separator == ',') {
        char *quote = skip_blanks(reader->at);
        enum err_code code = ERR_OK;
        if (*quote == '"') {
            reader->at = quote;
            code = read_quoted(reader, err);
            separator = *reader->at;
        } else {
            code = read_plain(reader, &separator, err);
        }
        if (code != ERR_OK) {
            return code;
        }
        reader->at += reader->at < reader->end;
        if (csv->field_count - before > CSV_COLUMNS_MAX) {
            return err_set(err, ERR_INVALID, "%s:%d: more than %d columns", csv->file, line,
                           CSV_COLUMNS_MAX);
        }
    }
    reader->line += separator == '\n';
    size_t fields = csv->field_count - before;
    if (csv->line_count > 0 && fields != csv->column_count) {
        return err_set(err, ERR_INVALID, "%s:%d: %zu fields where there are %zu columns", csv->file,
                       line, fields, csv->column_count);
    }
    csv->column_count = fields;
    VEC_PUSH(csv->lines, csv->line_count, csv->line_cap) = line;
    return ERR_OK;
}

/* Over blank lines and comments. */
static void skip_lines(struct reader *reader)
{
    while (reader->at < reader->end) {
        char *first = skip_blanks(reader->at);
        if (*first != '\n' && *first != '#' && first != reader->end) {
            return;
        }
        char *stop = memchr(first, '\n', (size_t)(reader->end - first));
        reader->at = stop ? stop + 1 : reader->end;
        reader->line++;
    }
}

static enum err_code check_header(const struct csv *csv, struct err *err)
{
    if (csv->line_count == 0) {
        return err_set(err, ERR_INVALID, "%s:1: no line that names the columns", csv->file);
    }
    for (size_t a = 0; a < csv->column_count; a++) {
        const char *name = csv_column_name(csv, a);
        if (name[0] && csv_find_column(csv, name) != (int)a) {
            return err_set(err, ERR_INVALID, "%s:%d: column '%.*s' is named twice", csv->file,
                           csv->lines[0], SHOWN_MAX, name);
        }
    }
    return ERR_OK;
}

static enum err_code read_all(struct csv *csv, size_t size, struct err *err)
{
    struct reader reader = {.csv = csv, .at = csv->text, .end = csv->text + size, .line = 1};
    enum err_code code = ERR_OK;
    if (size >= 3 && memcmp(csv->text, "\xef\xbb\xbf", 3) == 0) {
        reader.at += 3;
    }
    skip_lines(&reader);
    while (code == ERR_OK && reader.at < reader.end) {
        bool header = csv->line_count == 0;
        code = read_record(&reader, err);
        if (code == ERR_OK && header) {
            code = check_header(csv, err);
        }
        skip_lines(&reader);
    }
    return code == ERR_OK ? check_header(csv, err) : code;
}

enum err_code csv_parse(const char *file, const char *text, size_t size, struct csv **out,
                        struct err *err)
{
    if (size > CSV_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "%s:1: larger than %d MiB", file, CSV_BYTES_MAX >> 20);
    }
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    if (nul) {
        int line = 1;
        for (const char *at = text; at < nul; at++) {
            line += *at == '\n';
        }
        return err_set(err, ERR_INVALID, "%s:%d: a zero byte: this is not CSV text", file, line);
    }
    struct csv *csv = mem_alloc(sizeof *csv);
    csv->file = mem_strdup(file);
    csv->text = mem_alloc(size + 1);
    if (size > 0) {
        memcpy(csv->text, text, size);
    }
    enum err_code code = read_all(csv, size, err);
    if (code != ERR_OK) {
        csv_destroy(csv);
        return code;
    }
    *out = csv;
    return ERR_OK;
}

void csv_destroy(struct csv *csv)
{
    if (!csv) {
        return;
    }
    free(csv->file);
    free(csv->text);
    free(csv->fields);
    free(csv->lines);
    free(csv);
}

size_t csv_row_count(const struct csv *csv)
{
    return csv->line_count - 1;
}

size_t csv_column_count(const struct csv *csv)
{
    return csv->column_count;
}

const char *csv_column_name(const struct csv *csv, size_t column)
{
    CHECK(column < csv->column_count);
    return csv->text + csv->fields[column];
}

int csv_find_column(const struct csv *csv, const char *name)
{
    for (size_t column = 0; column < csv->column_count; column++) {
        if (strcasecmp(csv_column_name(csv, column), name) == 0) {
            return (int)column;
        }
    }
    return -1;
}

int csv_row_line(const struct csv *csv, size_t row)
{
    CHECK(row + 1 < csv->line_count);
    return csv->lines[row + 1];
}

const char *csv_text(const struct csv *csv, size_t row, size_t column)
{
    CHECK(row + 1 < csv->line_count);
    CHECK(column < csv->column_count);
    return csv->text + csv->fields[(row + 1) * csv->column_count + column];
}

/* strtod takes more than numbers: "nan", "inf", "0x10". */
static bool is_number(const char *text, double *out)
{
    if (strspn(text, "0123456789+-.eE") != strlen(text)) {
        return false;
    }
    char *end = NULL;
    *out = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(*out);
}

enum err_code csv_number(const struct csv *csv, size_t row, size_t column, double *out,
                         struct err *err)
{
    const char *text = csv_text(csv, row, column);
    double number = 0;
    if (!text[0]) {
        return err_set(err, ERR_NOT_FOUND, "%s:%d: %.*s is empty", csv->file,
                       csv_row_line(csv, row), SHOWN_MAX, csv_column_name(csv, column));
    }
    if (!is_number(text, &number)) {
        return err_set(err, ERR_INVALID, "%s:%d: %.*s: '%.*s' is not a number", csv->file,
                       csv_row_line(csv, row), SHOWN_MAX, csv_column_name(csv, column), SHOWN_MAX,
                       text);
    }
    *out = number;
    return ERR_OK;
}
