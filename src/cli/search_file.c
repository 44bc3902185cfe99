#include "base/mem.h"
#include "cli/search.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct search_pattern {
    char *text;
    size_t size;
    bool is_regex;
    regex_t regex;
};

enum err_code search_pattern_create(const char *text, bool regex, struct search_pattern **out,
                                    struct err *err)
{
    struct search_pattern *made = mem_alloc(sizeof *made);
    int wrong = regex ? regcomp(&made->regex, text, REG_EXTENDED) : 0;
    if (wrong != 0) {
        char why[160];
        regerror(wrong, &made->regex, why, sizeof why);
        free(made);
        return err_set(err, ERR_INVALID, "'%.100s' is not a regular expression: %s", text, why);
    }
    made->is_regex = regex;
    made->text = mem_strdup(text);
    made->size = strlen(text);
    *out = made;
    return ERR_OK;
}

void search_pattern_destroy(struct search_pattern *pattern)
{
    if (pattern) {
        if (pattern->is_regex) {
            regfree(&pattern->regex);
        }
        free(pattern->text);
        free(pattern);
    }
}

static bool matches(const struct search_pattern *pattern, const char *line, size_t size)
{
    if (!pattern->is_regex) {
        return memmem(line, size, pattern->text, pattern->size) != NULL;
    }
    regmatch_t within = {.rm_so = 0, .rm_eo = (regoff_t)size};
    return regexec(&pattern->regex, line, 1, &within, REG_STARTEND) == 0;
}

struct scan {
    const struct search_pattern *pattern;
    struct search_hit hit;
    uint64_t *lines;
    search_fn fn;
    void *context;
    bool go_on;
};

static void look_at(struct scan *scan, const char *line, size_t size)
{
    if (scan->go_on && matches(scan->pattern, line, size)) {
        scan->hit.line = *scan->lines + 1;
        scan->hit.text = line;
        scan->hit.size = size;
        scan->go_on = scan->fn(scan->context, &scan->hit);
    }
}

/* Looks at the whole lines in bytes[0..size); returns how many bytes they were. */
static size_t take_lines(struct scan *scan, const char *bytes, size_t size)
{
    size_t at = 0;
    const char *end = NULL;
    while (scan->go_on && (end = memchr(bytes + at, '\n', size - at))) {
        look_at(scan, bytes + at, (size_t)(end - bytes) - at);
        ++*scan->lines;
        at = (size_t)(end - bytes) + 1;
    }
    return at;
}

bool search_file(const char *path, const struct search_pattern *pattern, struct search_hit of,
                 uint64_t *lines, search_fn fn, void *context)
{
    struct scan scan = {
        .pattern = pattern, .hit = of, .lines = lines, .fn = fn, .context = context, .go_on = true};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return true;
    }
    AUTO_FREE char *bytes = mem_alloc(SEARCH_LINE_BYTES_MAX);
    size_t held = 0;
    while (scan.go_on) {
        ssize_t got = read(fd, bytes + held, SEARCH_LINE_BYTES_MAX - held);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        held += (size_t)got;
        size_t used = take_lines(&scan, bytes, held);
        if (used == 0 && held == SEARCH_LINE_BYTES_MAX) {
            look_at(&scan, bytes, held); /* a part of a very long line */
            used = held;
        }
        memmove(bytes, bytes + used, held - used);
        held -= used;
    }
    if (held > 0) {
        look_at(&scan, bytes, held);
        ++*lines;
    }
    return scan.go_on;
}
