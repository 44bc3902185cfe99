#include "metrics/linepat.h"

#include "base/mem.h"
#include "metrics/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 64, BLANKS_MAX = 64 };

enum op_kind {
    OP_LITERAL,
    OP_BLANKS,
    OP_ANY,
    OP_VALUE,  /* the number of the metric that the pattern is for, or that {name} names */
    OP_NAME,   /* a word */
    OP_KEY,    /* step or epoch */
    OP_METRIC, /* another metric */
};

struct op {
    enum op_kind kind;
    const char *text; /* a literal, or the name; in pattern->bytes */
    size_t size;
};

struct linepat {
    struct op ops[OPS_MAX];
    size_t count;
    bool has_value;
    bool has_name;
    bool has_number; /* of a metric */
    char name[METRIC_NAME_MAX + 1];
    char bytes[LINEPAT_TEXT_MAX]; /* the pattern's text without its backslashes */
    size_t used;
};

/* What was read on the way; told to the record only when all has matched. */
struct found {
    double numbers[OPS_MAX];
    const char *name;
    size_t name_size;
};

/* --- making ---------------------------------------------------------------------------------- */

struct maker {
    struct linepat *pattern;
    const char *text;
    size_t size;
    size_t at;
};

static enum err_code wrong(const struct maker *maker, struct err *err, const char *why)
{
    return err_set(err, ERR_INVALID, "character %zu: %s", maker->at + 1, why);
}

static enum err_code add_op(struct maker *maker, enum op_kind kind, const char *text, size_t size,
                            struct err *err)
{
    struct linepat *pattern = maker->pattern;
    if (pattern->count == OPS_MAX) {
        return wrong(maker, err, "the pattern has too many parts");
    }
    char *own = pattern->bytes + pattern->used; /* never more bytes than the pattern's text has */
    if (size > 0) {
        memcpy(own, text, size);
        pattern->used += size;
    }
    pattern->ops[pattern->count++] = (struct op){.kind = kind, .text = own, .size = size};
    return ERR_OK;
}

static enum err_code add_literal(struct maker *maker, char c, struct err *err)
{
    struct linepat *pattern = maker->pattern;
    if (pattern->count > 0 && pattern->ops[pattern->count - 1].kind == OP_LITERAL) {
        pattern->bytes[pattern->used++] = c;
        pattern->ops[pattern->count - 1].size++;
        return ERR_OK;
    }
    return add_op(maker, OP_LITERAL, &c, 1, err);
}

static bool is_word(const char *text, size_t size, const char *word)
{
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

static bool is_used(const struct linepat *pattern, enum op_kind kind, const char *text, size_t size)
{
    for (size_t i = 0; i < pattern->count; i++) {
        const struct op *op = &pattern->ops[i];
        if (op->kind == kind && op->size == size && memcmp(op->text, text, size) == 0) {
            return true;
        }
    }
    return false;
}

/* At "{". */
static enum err_code add_braces(struct maker *maker, struct err *err)
{
    struct linepat *pattern = maker->pattern;
    const char *name = maker->text + maker->at + 1;
    const char *close = memchr(name, '}', maker->size - maker->at - 1);
    if (!close) {
        return wrong(maker, err, "{ is never closed (for the character itself write \\{)");
    }
    size_t size = (size_t)(close - name);
    enum op_kind kind = is_word(name, size, "value")                                  ? OP_VALUE
                        : is_word(name, size, "name")                                 ? OP_NAME
                        : is_word(name, size, "step") || is_word(name, size, "epoch") ? OP_KEY
                                                                                      : OP_METRIC;
    if (!metric_name_valid(name, size) || memchr(name, '{', size) || memchr(name, '\\', size)) {
        return wrong(maker, err, "a name belongs between { and }");
    }
    if (is_used(pattern, kind, name, size)) {
        return wrong(maker, err, "this stands in the pattern twice");
    }
    if (pattern->count > 0 && pattern->ops[pattern->count - 1].kind >= OP_VALUE) {
        return wrong(maker, err, "something must stand between two things to read");
    }
    pattern->has_value = pattern->has_value || kind == OP_VALUE;
    pattern->has_name = pattern->has_name || kind == OP_NAME;
    pattern->has_number = pattern->has_number || kind == OP_VALUE || kind == OP_METRIC;
    enum err_code code = add_op(maker, kind, name, size, err);
    maker->at += size + 2;
    return code;
}

static enum err_code add_next(struct maker *maker, struct err *err)
{
    struct linepat *pattern = maker->pattern;
    char c = maker->text[maker->at];
    if (c == '{') {
        return add_braces(maker, err);
    }
    if (c == '}') {
        return wrong(maker, err, "} without { (for the character itself write \\})");
    }
    if (c == ' ' || c == '\t' || c == '*') {
        enum op_kind kind = c == '*' ? OP_ANY : OP_BLANKS;
        maker->at++;
        if (pattern->count > 0 && pattern->ops[pattern->count - 1].kind == kind) {
            return ERR_OK;
        }
        return add_op(maker, kind, NULL, 0, err);
    }
    if (c == '\\') {
        if (maker->at + 1 == maker->size) {
            return wrong(maker, err, "\\ at the end");
        }
        maker->at++;
        c = maker->text[maker->at];
    }
    maker->at++;
    return add_literal(maker, c, err);
}

static enum err_code judge(const struct maker *maker, const char *name, struct err *err)
{
    const struct linepat *pattern = maker->pattern;
    if (!pattern->has_number) {
        return err_set(err, ERR_INVALID, "the pattern reads no metric: it has no {value}");
    }
    if (pattern->has_name && !pattern->has_value) {
        return err_set(err, ERR_INVALID, "{name} needs {value}");
    }
    if (pattern->has_value && !pattern->has_name && !name) {
        return err_set(err, ERR_INVALID, "{value} of which metric? write its name in the braces");
    }
    return ERR_OK;
}

enum err_code linepat_create(const char *name, const char *text, struct linepat **out,
                             struct err *err)
{
    size_t size = strlen(text);
    if (size > LINEPAT_TEXT_MAX) {
        return err_set(err, ERR_INVALID, "the pattern is longer than %d characters",
                       LINEPAT_TEXT_MAX);
    }
    if (name && !metric_name_valid(name, strlen(name))) {
        return err_set(err, ERR_INVALID, "the name of a metric has 1 to %d characters",
                       METRIC_NAME_MAX);
    }
    struct linepat *pattern = mem_alloc(sizeof *pattern);
    struct maker maker = {.pattern = pattern, .text = text, .size = size};
    enum err_code code = ERR_OK;
    while (code == ERR_OK && maker.at < size) {
        code = add_next(&maker, err);
    }
    if (code == ERR_OK) {
        code = judge(&maker, name, err);
    }
    if (code != ERR_OK) {
        linepat_destroy(pattern);
        return code;
    }
    if (name) {
        memcpy(pattern->name, name, strlen(name));
    }
    *out = pattern;
    return ERR_OK;
}

void linepat_destroy(struct linepat *pattern)
{
    free(pattern);
}

/* --- matching -------------------------------------------------------------------------------- */

static bool is_word_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t match_blanks(const char *text, size_t size)
{
    size_t count = 0;
    while (count < size && count < BLANKS_MAX && (text[count] == ' ' || text[count] == '\t')) {
        count++;
    }
    return count;
}

static size_t match_name(const char *text, size_t size, struct found *found)
{
    size_t count = 0;
    while (count < size && count <= METRIC_NAME_MAX &&
           (is_word_char(text[count]) || (unsigned char)text[count] >= 0x80 ||
            (text[count] && strchr("/.-@", text[count])))) {
        count++;
    }
    found->name = text;
    found->name_size = count;
    return metric_name_valid(text, count) ? count : 0;
}

/* `next` is the character that the pattern has behind the number, '\0': anything may follow. */
static size_t match_number(const char *text, size_t size, char next, double *out)
{
    size_t length = number_read(text, size, out);
    if (length == 0 || length == size || text[length] == next) {
        return length;
    }
    if (text[length] == '%') {
        *out /= 100;
        return length + 1;
    }
    bool goes_on = is_word_char(text[length]) ||
                   (text[length] == '.' && length + 1 < size && is_word_char(text[length + 1]));
    return goes_on ? 0 : length;
}

static size_t match_op(const struct linepat *pattern, size_t index, const char *text, size_t size,
                       struct found *found)
{
    const struct op *op = &pattern->ops[index];
    switch (op->kind) {
    case OP_LITERAL:
        return size >= op->size && memcmp(text, op->text, op->size) == 0 ? op->size : 0;
    case OP_BLANKS:
        return match_blanks(text, size);
    case OP_NAME:
        return match_name(text, size, found);
    case OP_VALUE:
    case OP_KEY:
    case OP_METRIC: {
        bool literal = index + 1 < pattern->count && pattern->ops[index + 1].kind == OP_LITERAL;
        char next = literal ? pattern->ops[index + 1].text[0] : '\0';
        return match_number(text, size, next, &found->numbers[index]);
    }
    case OP_ANY:
        break;
    }
    return 0;
}

/* The ops from `first` to the next * right here: what they take, 0 if they do not match. */
static size_t match_here(const struct linepat *pattern, size_t first, const char *text, size_t size,
                         struct found *found)
{
    size_t length = 0;
    for (size_t i = first; i < pattern->count && pattern->ops[i].kind != OP_ANY; i++) {
        size_t taken = match_op(pattern, i, text + length, size - length, found);
        if (taken == 0) {
            return 0;
        }
        length += taken;
    }
    return length;
}

static bool may_begin(const struct linepat *pattern, size_t op, const char *line, size_t at)
{
    const struct op *first = &pattern->ops[op];
    bool is_word =
        first->kind == OP_LITERAL ? is_word_char(first->text[0]) : first->kind >= OP_VALUE;
    return op > 0 || !is_word || at == 0 || !is_word_char(line[at - 1]);
}

static void tell(const struct linepat *pattern, const struct found *found, struct record *record)
{
    for (size_t i = 0; i < pattern->count; i++) {
        const struct op *op = &pattern->ops[i];
        if (op->kind == OP_KEY) {
            record_add(record, op->text, op->size, found->numbers[i]);
        } else if (op->kind == OP_METRIC) {
            record_add_metric(record, op->text, op->size, found->numbers[i]);
        } else if (op->kind == OP_VALUE && pattern->has_name) {
            record_add_metric(record, found->name, found->name_size, found->numbers[i]);
        } else if (op->kind == OP_VALUE) {
            record_add_metric(record, pattern->name, strlen(pattern->name), found->numbers[i]);
        }
    }
}

bool linepat_match(const struct linepat *pattern, const char *line, size_t size,
                   struct record *record)
{
    struct found found = {0};
    size_t at = 0;
    bool is_inside = false; /* of ops between two * that have matched already */
    for (size_t i = 0; i < pattern->count; i++) {
        if (pattern->ops[i].kind == OP_ANY) {
            is_inside = false;
            continue;
        }
        while (!is_inside) {
            size_t length = may_begin(pattern, i, line, at)
                                ? match_here(pattern, i, line + at, size - at, &found)
                                : 0;
            if (length == 0 && at == size) {
                return false;
            }
            is_inside = length > 0;
            at += length > 0 ? length : 1;
        }
    }
    tell(pattern, &found, record);
    return true;
}
