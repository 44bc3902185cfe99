#include "cli/code_ignore.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A pattern is a row of steps; matching walks over the text with the set of steps reached so far,
 * so that no pattern makes it go back and try again. */
enum step_kind {
    STEP_CHAR,
    STEP_ANY,  /* one character, not a slash */
    STEP_SET,  /* one of a set, not a slash */
    STEP_STAR, /* any number, no slash */
    STEP_ALL,  /* any number of any */
    STEP_DIRS, /* any number of whole folders, each with its slash */
};

struct step {
    enum step_kind kind;
    unsigned char c;
    uint32_t set; /* which one */
};

struct set {
    uint64_t bits[4];
};

struct pattern {
    char *base; /* shared by the patterns of one file; the first owns it */
    bool owns_base;
    bool is_negated;
    bool only_folders;
    bool on_name; /* has no slash: matches the last part alone */
    bool is_void; /* can match nothing */
    struct step *steps;
    size_t count;
    size_t cap;
    struct set *sets;
    size_t set_count;
    size_t set_cap;
};

struct code_ignore {
    struct pattern *patterns;
    size_t count;
    size_t cap;
};

struct code_ignore *code_ignore_create(void)
{
    return mem_alloc(sizeof(struct code_ignore));
}

static void release_pattern(struct pattern *pattern)
{
    free(pattern->steps);
    free(pattern->sets);
    if (pattern->owns_base) {
        free(pattern->base);
    }
}

void code_ignore_reset(struct code_ignore *ignore, size_t mark)
{
    while (ignore->count > mark) {
        release_pattern(&ignore->patterns[--ignore->count]);
    }
}

void code_ignore_destroy(struct code_ignore *ignore)
{
    if (ignore) {
        code_ignore_reset(ignore, 0);
        free(ignore->patterns);
        free(ignore);
    }
}

size_t code_ignore_mark(const struct code_ignore *ignore)
{
    return ignore->count;
}

/* --- sets: [a-z], [!x], [[:alpha:]] ---------------------------------------------------------- */

static void set_add(struct set *set, unsigned char c)
{
    set->bits[c / 64] |= UINT64_C(1) << (c % 64);
}

static bool set_has(const struct set *set, unsigned char c)
{
    return set->bits[c / 64] >> (c % 64) & 1;
}

static bool is_in_class(const char *name, size_t size, int c)
{
    static const struct {
        const char *name;
        int (*fn)(int);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank},
                   {"cntrl", iscntrl}, {"digit", isdigit}, {"graph", isgraph},
                   {"lower", islower}, {"print", isprint}, {"punct", ispunct},
                   {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        if (strlen(classes[i].name) == size && memcmp(classes[i].name, name, size) == 0) {
            return c < 128 && classes[i].fn(c) != 0;
        }
    }
    return false;
}

static bool class_is_known(const char *name, size_t size)
{
    bool is_known = false;
    for (int c = 0; c < 128 && !is_known; c++) {
        is_known = is_in_class(name, size, c);
    }
    return is_known;
}

/* The text of a set, read one step at a time. */
struct set_text {
    const char *at;
    const char *end;
    unsigned char last; /* what a range would begin with; 0: nothing can */
    bool is_bad;
};

static unsigned char peek(const struct set_text *text, size_t ahead)
{
    return (size_t)(text->end - text->at) > ahead ? (unsigned char)text->at[ahead] : '\0';
}

/* "[:name:]"; false: it is not one, and the bracket stands for itself. */
static bool read_class(struct set_text *text, struct set *set)
{
    const char *name = text->at + 2;
    const char *close = memchr(name, ']', (size_t)(text->end - name));
    if (!close) {
        text->is_bad = true;
        return true;
    }
    if (close - name < 1 || close[-1] != ':') {
        return false;
    }
    size_t size = (size_t)(close - 1 - name);
    text->is_bad = !class_is_known(name, size);
    for (int c = 0; c < 128; c++) {
        if (is_in_class(name, size, c)) {
            set_add(set, (unsigned char)c);
        }
    }
    text->at = close + 1;
    text->last = 0;
    return true;
}

static void read_range(struct set_text *text, struct set *set)
{
    text->at++; /* the hyphen */
    if (peek(text, 0) == '\\') {
        text->at++;
    }
    unsigned char to = peek(text, 0);
    if (to == '\0') {
        text->is_bad = true;
        return;
    }
    for (int c = text->last; c <= to; c++) {
        set_add(set, (unsigned char)c);
    }
    text->at++;
    text->last = 0;
}

static void read_member(struct set_text *text, struct set *set)
{
    unsigned char c = peek(text, 0);
    if (c == '\0') {
        text->is_bad = true;
        return;
    }
    if (c == '-' && text->last != 0 && peek(text, 1) != '\0' && peek(text, 1) != ']') {
        read_range(text, set);
        return;
    }
    if (c == '[' && peek(text, 1) == ':' && read_class(text, set)) {
        return;
    }
    if (c == '\\') {
        text->at++;
        c = peek(text, 0);
        if (c == '\0') {
            text->is_bad = true;
            return;
        }
    }
    set_add(set, c);
    text->last = c;
    text->at++;
}

/* Reads a set that begins at `at`, after its bracket; returns what follows it, or NULL. */
static const char *read_set(const char *at, const char *end, struct set *set)
{
    struct set_text text = {.at = at, .end = end};
    bool is_negated = peek(&text, 0) == '!' || peek(&text, 0) == '^';
    text.at += is_negated;
    do { /* a closing bracket that comes first is a member */
        read_member(&text, set);
    } while (!text.is_bad && peek(&text, 0) != ']');
    if (text.is_bad) {
        return NULL;
    }
    for (size_t i = 0; i < 4 && is_negated; i++) {
        set->bits[i] = ~set->bits[i];
    }
    set->bits['/' / 64] &= ~(UINT64_C(1) << ('/' % 64));
    return text.at + 1;
}

/* --- compiling ------------------------------------------------------------------------------- */

static void add_step(struct pattern *pattern, enum step_kind kind, unsigned char c)
{
    VEC_PUSH(pattern->steps, pattern->count, pattern->cap) = (struct step){.kind = kind, .c = c};
}

static size_t plain_size(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size && !strchr("*?[\\", text[i])) {
        i++;
    }
    return i;
}

/* One or more stars at *at. Two that fill a whole part of the path are more than one; for git that
 * is so as well right after the part of the pattern that has nothing special. */
static void compile_stars(struct pattern *pattern, const char *text, const char **at,
                          const char *end)
{
    const char *begin = *at;
    bool is_first = begin == text + plain_size(text, (size_t)(end - text));
    bool is_at_start = begin == text || begin[-1] == '/' || is_first;
    while (*at < end && **at == '*') {
        (*at)++;
    }
    bool is_double = *at - begin >= 2;
    const char *rest = *at;
    if (rest < end && *rest == '\\' && rest + 1 < end && rest[1] == '/') {
        rest++;
    }
    if (is_double && is_at_start && *at == end) {
        add_step(pattern, STEP_ALL, 0);
    } else if (is_double && is_at_start && rest < end && *rest == '/') {
        add_step(pattern, STEP_DIRS, 0);
        *at = rest + 1;
    } else {
        add_step(pattern, STEP_STAR, 0);
    }
}

static void compile(struct pattern *pattern, const char *text, size_t size)
{
    const char *end = text + size;
    const char *at = text;
    while (!pattern->is_void && at < end) {
        struct set set = {{0}};
        switch (*at) {
        case '*':
            compile_stars(pattern, text, &at, end);
            break;
        case '?':
            add_step(pattern, STEP_ANY, 0);
            at++;
            break;
        case '[':
            at = read_set(at + 1, end, &set);
            if (!at) {
                pattern->is_void = true;
                return;
            }
            add_step(pattern, STEP_SET, 0);
            pattern->steps[pattern->count - 1].set = (uint32_t)pattern->set_count;
            VEC_PUSH(pattern->sets, pattern->set_count, pattern->set_cap) = set;
            break;
        case '\\':
            at++;
            pattern->is_void = at == end;
            add_step(pattern, STEP_CHAR, at < end ? (unsigned char)*at : 0);
            at++;
            break;
        default:
            add_step(pattern, STEP_CHAR, (unsigned char)*at);
            at++;
            break;
        }
    }
}

/* Spaces at the end do not count, unless a backslash stands before them. */
static size_t trim(const char *line, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        if (line[i] == '\\' && i + 1 < size) {
            i++;
            kept = i + 1;
        } else if (line[i] != ' ') {
            kept = i + 1;
        }
    }
    return kept;
}

/* False: the line is none. */
static bool read_line(struct pattern *pattern, const char *line, size_t size)
{
    size -= size > 0 && line[size - 1] == '\r';
    if (size == 0 || line[0] == '#' || memchr(line, '\0', size)) {
        return false;
    }
    size = trim(line, size);
    if (size > 0 && line[0] == '!') {
        pattern->is_negated = true;
        line++;
        size--;
    }
    if (size > 0 && line[size - 1] == '/') {
        pattern->only_folders = true;
        size--;
    }
    if (size == 0) {
        return false;
    }
    pattern->on_name = !memchr(line, '/', size);
    if (line[0] == '/') {
        line++;
        size--;
    }
    compile(pattern, line, size);
    return true;
}

void code_ignore_add(struct code_ignore *ignore, const char *base, const char *text, size_t size)
{
    const char *end = text + size;
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
    }
    char *shared = NULL;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        struct pattern pattern = {0};
        if (read_line(&pattern, text, (size_t)(stop - text))) {
            pattern.owns_base = !shared;
            shared = shared ? shared : mem_strdup(base);
            pattern.base = shared;
            VEC_PUSH(ignore->patterns, ignore->count, ignore->cap) = pattern;
        } else {
            release_pattern(&pattern);
        }
        text = stop + 1;
    }
}

/* --- matching -------------------------------------------------------------------------------- */

/* Two flags a step: it is to be tried next; a STEP_DIRS is inside a folder's name. */
enum { READY = 1, INSIDE = 2 };

/* Steps that may match nothing let the next one be tried as well. */
static void spread(const struct pattern *pattern, unsigned char *now)
{
    for (size_t i = 0; i < pattern->count; i++) {
        enum step_kind kind = pattern->steps[i].kind;
        if (now[i] & READY && (kind == STEP_STAR || kind == STEP_ALL || kind == STEP_DIRS)) {
            now[i + 1] |= READY;
        }
    }
}

static bool takes(const struct pattern *pattern, const struct step *step, unsigned char c)
{
    switch (step->kind) {
    case STEP_CHAR:
        return c == step->c;
    case STEP_ANY:
        return c != '/';
    case STEP_SET:
        return set_has(&pattern->sets[step->set], c);
    case STEP_STAR:
    case STEP_ALL:
    case STEP_DIRS:
        break;
    }
    return false;
}

static void take_step(const struct pattern *pattern, size_t i, unsigned char c,
                      const unsigned char *now, unsigned char *next)
{
    const struct step *step = &pattern->steps[i];
    if (step->kind == STEP_DIRS) {
        next[i] |= INSIDE;
        if (c == '/') {
            next[i + 1] |= READY;
        }
    } else if (step->kind == STEP_ALL || (step->kind == STEP_STAR && c != '/')) {
        next[i] |= READY;
    } else if (now[i] & READY && takes(pattern, step, c)) {
        next[i + 1] |= READY;
    }
}

/* Steps from `first` on are characters that the text must end with. */
static bool ends_plainly(const struct pattern *pattern, size_t first)
{
    for (size_t i = first; i < pattern->count; i++) {
        if (pattern->steps[i].kind != STEP_CHAR) {
            return false;
        }
    }
    return true;
}

static bool matches_plainly(const struct pattern *pattern, size_t first, const char *text)
{
    for (size_t i = first; i < pattern->count; i++) {
        if ((unsigned char)text[i - first] != pattern->steps[i].c) {
            return false;
        }
    }
    return true;
}

/* Most patterns are a name, or a star and an ending: these need no sets of steps. *done: the answer
 * is known; otherwise the text is past what is plain, and *first is the step to go on with. */
static bool matches_quickly(const struct pattern *pattern, const char **text, size_t *first,
                            bool *done)
{
    *done = true;
    size_t i = 0;
    for (; i < pattern->count && pattern->steps[i].kind == STEP_CHAR; i++) {
        if ((unsigned char)**text != pattern->steps[i].c) {
            return false;
        }
        (*text)++;
    }
    *first = i;
    if (i == pattern->count) {
        return **text == '\0';
    }
    if (pattern->steps[i].kind == STEP_STAR && ends_plainly(pattern, i + 1)) {
        size_t tail = pattern->count - i - 1;
        size_t size = strlen(*text);
        return size >= tail && !memchr(*text, '/', size - tail) &&
               matches_plainly(pattern, i + 1, *text + size - tail);
    }
    *done = false;
    return false;
}

static bool matches_text(const struct pattern *pattern, const char *text)
{
    size_t first = 0;
    bool done = false;
    bool answer = matches_quickly(pattern, &text, &first, &done);
    if (done) {
        return answer;
    }
    size_t size = pattern->count + 1;
    unsigned char small[256];
    AUTO_FREE unsigned char *large = size > 128 ? mem_alloc(2 * size) : NULL;
    unsigned char *now = large ? large : small;
    unsigned char *next = now + size;
    memset(now, 0, 2 * size);
    now[first] = READY;
    spread(pattern, now);
    for (const char *c = text; *c != '\0'; c++) {
        memset(next, 0, size);
        for (size_t i = 0; i < pattern->count; i++) {
            if (now[i]) {
                take_step(pattern, i, (unsigned char)*c, now, next);
            }
        }
        spread(pattern, next);
        unsigned char *swap = now;
        now = next;
        next = swap;
    }
    return now[pattern->count] & READY;
}

static bool matches(const struct pattern *pattern, const char *path, bool is_folder)
{
    if (pattern->is_void || (pattern->only_folders && !is_folder)) {
        return false;
    }
    size_t base_size = strlen(pattern->base);
    if (base_size > 0) {
        if (strncmp(path, pattern->base, base_size) != 0 || path[base_size] != '/') {
            return false;
        }
        path += base_size + 1;
    }
    if (pattern->on_name) {
        const char *slash = strrchr(path, '/');
        path = slash ? slash + 1 : path;
    }
    return matches_text(pattern, path);
}

bool code_ignore_matches(const struct code_ignore *ignore, const char *path, bool is_folder)
{
    for (size_t i = ignore->count; i > 0; i--) {
        const struct pattern *pattern = &ignore->patterns[i - 1];
        if (matches(pattern, path, is_folder)) {
            return !pattern->is_negated;
        }
    }
    return false;
}
