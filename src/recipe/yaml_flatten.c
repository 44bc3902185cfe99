#include "base/json.h"
#include "base/mem.h"
#include "recipe/yaml_internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_word(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '_' || c == '-';
        if (!fine) {
            return false;
        }
    }
    return size > 0;
}

static void add_quoted(struct str *out, const char *text, size_t size)
{
    struct json json = {.out = out};
    json_bytes(&json, text, size);
}

static void add_word(struct str *out, const struct ynode *key)
{
    if (is_word(key->text, key->size)) {
        str_add_bytes(out, key->text, key->size);
    } else {
        add_quoted(out, key->text, key->size);
    }
}

/* Text stands bare only where it reads back as that text, so that 5 and "5" stay apart. */
static bool may_stand_bare(const struct ynode *node)
{
    if (yaml_type_of(node->text, node->size) != YTYPE_TEXT || strchr("\"[{ ", node->text[0]) ||
        node->text[node->size - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < node->size; i++) {
        if ((unsigned char)node->text[i] < 0x20 || node->text[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static void add_scalar(struct str *out, const struct ynode *node)
{
    if (node->type == YTYPE_NULL) {
        str_add(out, "null");
    } else if (node->type != YTYPE_TEXT || may_stand_bare(node)) {
        str_add_bytes(out, node->text, node->size);
    } else {
        add_quoted(out, node->text, node->size);
    }
}

struct flattener {
    struct str path;
    struct str *out;
    const char *outermost; /* the path's first key, to know ordered mappings by; "" for none */
    size_t depth;
};

static void flatten(struct flattener *f, const struct ynode *node);

/* The order of experiments gives them their numbers; that of parameters makes the grid's order. */
static bool is_ordered(const struct flattener *f, const char *last_key)
{
    if (strcmp(f->outermost, "experiments") != 0) {
        return false;
    }
    return f->depth == 1 || (f->depth == 3 && strcmp(last_key, "parameters") == 0);
}

static void add_order(struct flattener *f, const struct ynode *mapping)
{
    str_add_bytes(f->out, f->path.text, f->path.size);
    str_add(f->out, ": [");
    for (size_t i = 0; i < mapping->count; i++) {
        str_add(f->out, i ? ", " : "");
        add_word(f->out, mapping->keys[i]);
    }
    str_add(f->out, "]\n");
}

struct pair {
    const struct ynode *key;
    const struct ynode *value;
};

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct pair *)a)->key->text, ((const struct pair *)b)->key->text);
}

static void flatten_mapping(struct flattener *f, const struct ynode *node)
{
    AUTO_FREE struct pair *pairs = mem_array(node->count, sizeof *pairs);
    for (size_t i = 0; i < node->count; i++) {
        pairs[i] = (struct pair){.key = node->keys[i], .value = node->items[i]};
    }
    qsort(pairs, node->count, sizeof *pairs, compare_keys);
    size_t path_size = f->path.size;
    for (size_t i = 0; i < node->count; i++) {
        str_add(&f->path, path_size ? "." : "");
        add_word(&f->path, pairs[i].key);
        if (f->depth == 0) {
            f->outermost = pairs[i].key->text;
        }
        f->depth++;
        bool ordered = is_ordered(f, pairs[i].key->text);
        if (ordered && pairs[i].value->kind == YNODE_MAPPING && pairs[i].value->count) {
            add_order(f, pairs[i].value);
        }
        flatten(f, pairs[i].value);
        f->depth--;
        f->path.size = path_size;
    }
}

static void flatten_sequence(struct flattener *f, const struct ynode *node)
{
    size_t path_size = f->path.size;
    for (size_t i = 0; i < node->count; i++) {
        str_add_char(&f->path, '[');
        str_add_u64(&f->path, i);
        str_add_char(&f->path, ']');
        f->depth++;
        flatten(f, node->items[i]);
        f->depth--;
        f->path.size = path_size;
    }
}

static void flatten(struct flattener *f, const struct ynode *node)
{
    if (node->kind == YNODE_MAPPING && node->count > 0) {
        flatten_mapping(f, node);
        return;
    }
    if (node->kind == YNODE_SEQUENCE && node->count > 0) {
        flatten_sequence(f, node);
        return;
    }
    str_add_bytes(f->out, f->path.text, f->path.size);
    str_add(f->out, ": ");
    if (node->kind == YNODE_SCALAR) {
        add_scalar(f->out, node);
    } else {
        str_add(f->out, node->kind == YNODE_MAPPING ? "{}" : "[]");
    }
    str_add_char(f->out, '\n');
}

void yaml_flatten(const struct ynode *root, struct str *out)
{
    struct flattener f = {.out = out, .outermost = ""};
    flatten(&f, root);
    str_release(&f.path);
}

struct line {
    const char *text;
    size_t path_size;
    size_t size; /* of the whole line, without its newline */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t digits_at(const struct line *line, size_t at)
{
    size_t end = at;
    while (end < line->path_size && is_digit(line->text[end])) {
        end++;
    }
    return end - at;
}

/* Bytewise, except that runs of digits compare as numbers: [2] before [10]. */
static int compare_paths(const struct line *a, const struct line *b)
{
    size_t common = a->path_size < b->path_size ? a->path_size : b->path_size;
    size_t at = 0;
    while (at < common && a->text[at] == b->text[at]) {
        at++;
    }
    if (at == a->path_size && at == b->path_size) {
        return 0;
    }
    size_t a_digits = digits_at(a, at);
    size_t b_digits = digits_at(b, at);
    bool in_number = (at > 0 && is_digit(a->text[at - 1])) || (a_digits && b_digits);
    if (in_number && a_digits != b_digits) {
        return a_digits < b_digits ? -1 : 1;
    }
    if (at == common) {
        return a->path_size < b->path_size ? -1 : 1;
    }
    return (unsigned char)a->text[at] < (unsigned char)b->text[at] ? -1 : 1;
}

static int compare_lines(const void *a, const void *b)
{
    return compare_paths(a, b);
}

/* Where the path ends: at the first ':' outside a quoted key. */
static size_t path_size_of(const char *text, size_t size)
{
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            quoted = !quoted;
        } else if (text[i] == ':' && !quoted) {
            return i;
        }
    }
    return size;
}

static size_t split_lines(const char *flat, struct line **out)
{
    size_t count = 0;
    size_t cap = 0;
    struct line *lines = NULL;
    while (*flat) {
        size_t size = strcspn(flat, "\n");
        VEC_PUSH(lines, count, cap) =
            (struct line){.text = flat, .size = size, .path_size = path_size_of(flat, size)};
        flat += size + (flat[size] == '\n');
    }
    if (count) {
        qsort(lines, count, sizeof *lines, compare_lines);
    }
    *out = lines;
    return count;
}

static void add_line(struct str *out, const char *sign, const struct line *line)
{
    str_add(out, sign);
    str_add_bytes(out, line->text, line->size);
    str_add_char(out, '\n');
}

static bool is_same(const struct line *a, const struct line *b)
{
    return a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

void yaml_difference(const char *flat_old, const char *flat_new, struct str *out)
{
    AUTO_FREE struct line *olds = NULL;
    AUTO_FREE struct line *news = NULL;
    size_t old_count = split_lines(flat_old, &olds);
    size_t new_count = split_lines(flat_new, &news);
    size_t i = 0;
    size_t j = 0;
    while (i < old_count || j < new_count) {
        int order = 0;
        if (i == old_count || j == new_count) {
            order = i == old_count ? 1 : -1;
        } else {
            order = compare_paths(&olds[i], &news[j]);
        }
        bool same = order == 0 && is_same(&olds[i], &news[j]);
        if (order <= 0 && !same) {
            add_line(out, "- ", &olds[i]);
        }
        if (order >= 0 && !same) {
            add_line(out, "+ ", &news[j]);
        }
        i += order <= 0;
        j += order >= 0;
    }
}
