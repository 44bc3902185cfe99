#include "master/pattern.h"

#include "base/mem.h"

#include <regex.h>
#include <string.h>

struct pattern {
    char *text;
    size_t text_size;
    bool is_regex;
    regex_t regex;
    size_t used_bytes;                  /* matched since the matcher was made */
    char line[PATTERN_PIECE_BYTES + 1]; /* being matched */
};

/* The product of the largest count in each {…}, and whether there is a back-reference; "[" and "]"
 * hide nothing from this, which only refuses more than it must. */
static enum err_code check_regex(const char *text, struct err *err)
{
    unsigned long repeats = 1;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && at[1]) {
            at++;
            if (*at >= '1' && *at <= '9') {
                return err_set(err, ERR_INVALID, "back-references are not possible here");
            }
        } else if (*at == '{') {
            char *end = NULL;
            unsigned long count = strtoul(at + 1, &end, 10);
            unsigned long most = *end == ',' ? strtoul(end + 1, &end, 10) : count;
            count = most > count ? most : count;
            repeats = count > PATTERN_REPEATS_MAX ? count : repeats * (count ? count : 1);
            if (repeats > PATTERN_REPEATS_MAX) {
                return err_set(err, ERR_INVALID, "{…} repeats too often");
            }
        }
    }
    return ERR_OK;
}

static enum err_code compile(struct pattern *pattern, struct err *err)
{
    char why[128];
    int bad = regcomp(&pattern->regex, pattern->text, REG_EXTENDED | REG_NOSUB);
    pattern->used_bytes = 0;
    if (bad) {
        regerror(bad, &pattern->regex, why, sizeof why);
        return err_set(err, ERR_INVALID, "%s", why);
    }
    return ERR_OK;
}

enum err_code pattern_create(const char *text, bool is_regex, struct pattern **out, struct err *err)
{
    size_t max = is_regex ? PATTERN_REGEX_BYTES_MAX : PATTERN_BYTES_MAX;
    size_t size = strlen(text);
    if (size == 0 || size > max) {
        return err_set(err, ERR_INVALID, "1 to %zu bytes to look for are needed", max);
    }
    enum err_code code = is_regex ? check_regex(text, err) : ERR_OK;
    if (code != ERR_OK) {
        return code;
    }
    struct pattern *pattern = mem_alloc(sizeof *pattern);
    pattern->text = mem_strdup(text);
    pattern->text_size = size;
    code = is_regex ? compile(pattern, err) : ERR_OK;
    pattern->is_regex = is_regex && code == ERR_OK;
    if (code != ERR_OK) {
        pattern_destroy(pattern);
        return code;
    }
    *out = pattern;
    return ERR_OK;
}

void pattern_destroy(struct pattern *pattern)
{
    if (pattern) {
        if (pattern->is_regex) {
            regfree(&pattern->regex);
        }
        free(pattern->text);
        free(pattern);
    }
}

bool pattern_is_regex(const struct pattern *pattern)
{
    return pattern->is_regex;
}

static bool next_by_text(const struct pattern *pattern, const char *text, size_t size,
                         struct pattern_line *out)
{
    const char *found = memmem(text, size, pattern->text, pattern->text_size);
    if (!found) {
        return false;
    }
    const char *before = memrchr(text, '\n', (size_t)(found - text));
    const char *newline = memchr(found, '\n', size - (size_t)(found - text));
    out->begin = before ? before + 1 : text;
    out->end = newline ? newline : text + size;
    out->found = found;
    return true;
}

static void renew(struct pattern *pattern)
{
    regfree(&pattern->regex);
    CHECK(compile(pattern, NULL) == ERR_OK); /* it was once */
}

/* Matches a copy that ends in a NUL; NULs within read as blanks. */
static bool line_matches(struct pattern *pattern, const char *line, size_t size)
{
    size = size > PATTERN_PIECE_BYTES ? PATTERN_PIECE_BYTES : size;
    for (size_t i = 0; i < size; i++) {
        pattern->line[i] = line[i] ? line[i] : ' ';
    }
    pattern->line[size] = '\0';
    pattern->used_bytes += size + 1;
    return regexec(&pattern->regex, pattern->line, 0, NULL, 0) == 0;
}

static bool next_by_regex(struct pattern *pattern, const char *text, size_t size,
                          struct pattern_line *out)
{
    const char *end = text + size;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        if (pattern->used_bytes > PATTERN_RENEW_BYTES) {
            renew(pattern);
        }
        if (line_matches(pattern, text, (size_t)(stop - text))) {
            *out = (struct pattern_line){.begin = text, .end = stop, .found = text};
            return true;
        }
        text = stop + 1;
    }
    return false;
}

bool pattern_next(struct pattern *pattern, const char *text, size_t size, struct pattern_line *out)
{
    return pattern->is_regex ? next_by_regex(pattern, text, size, out)
                             : next_by_text(pattern, text, size, out);
}
