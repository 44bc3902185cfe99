#include "recipe/template.h"

#include "base/check.h"
#include "base/mem.h"
#include "recipe/shell_lex.h"
#include "recipe/shell_quote.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 200 };

enum filter { FILTER_NONE, FILTER_RAW, FILTER_FLAG };

/* A piece of the text and the placeholder that follows it (the last piece has none: slot -1). */
struct segment {
    const char *text;
    size_t size;
    const char *name;
    size_t offset; /* of the placeholder in the text as written */
    int slot;
    enum filter filter;
    enum shell_quoting quoting;
};

struct template
{
    enum template_mode mode;
    size_t count;
    struct segment *segments;
};

/* What compiling works on: the text with every placeholder made one NUL byte, {{{{ made {{. */
struct builder {
    struct arena *arena;
    const char *text;
    int line;
    int column;
    struct diag_list *diags;
    template_resolve_fn resolve;
    void *context;
    char *decoded;
    size_t size;
    size_t *offsets; /* of each decoded byte in the text */
    struct segment *segments;
    size_t count;
    size_t cap;
    size_t failures;
    bool doubted; /* said once: it holds for every placeholder behind it */
};

struct place {
    int line;
    int column;
};

static struct place place_of(const struct builder *builder, size_t offset)
{
    struct place place = {.line = builder->line, .column = builder->column + (int)offset};
    for (size_t i = 0; i < offset; i++) {
        if (builder->text[i] == '\n') {
            place.line++;
            place.column = builder->column + (int)(offset - i) - 1;
        }
    }
    return place;
}

#define FAIL(builder, offset, ...)                                                                 \
    do {                                                                                           \
        struct place fail_place = place_of((builder), (offset));                                   \
        diag_add((builder)->diags, fail_place.line, fail_place.column, __VA_ARGS__);               \
        (builder)->failures++;                                                                     \
    } while (0)

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') { /* not strspn: under a sanitizer it reads to the end */
        at++;
    }
    return at;
}

static void decode_byte(struct builder *builder, char c, size_t offset)
{
    builder->offsets[builder->size] = offset;
    builder->decoded[builder->size++] = c;
}

static enum filter read_filter(struct builder *builder, const char *word, size_t size,
                               size_t offset)
{
    if (size == 3 && memcmp(word, "raw", 3) == 0) {
        return FILTER_RAW;
    }
    if (size == 4 && memcmp(word, "flag", 4) == 0) {
        return FILTER_FLAG;
    }
    FAIL(builder, offset, "unknown filter '%.*s'; there are |raw and |flag", (int)size, word);
    return FILTER_NONE;
}

static void resolve_name(struct builder *builder, struct segment *segment)
{
    const char *suggestion = NULL;
    segment->slot = builder->resolve(builder->context, segment->name, &suggestion);
    if (segment->slot >= 0) {
        return;
    }
    segment->slot = 0;
    if (suggestion) {
        FAIL(builder, segment->offset, "{{%s}}: no such name (did you mean '%s'?)", segment->name,
             suggestion);
    } else {
        FAIL(builder, segment->offset, "{{%s}}: no such name (a literal {{ is written {{{{)",
             segment->name);
    }
}

/* At "{{": reads through "}}" and returns what follows, or NULL when it is not a placeholder. */
static const char *read_placeholder(struct builder *builder, const char *at,
                                    struct segment *segment)
{
    size_t offset = (size_t)(at - builder->text);
    const char *name = skip_blanks(at + 2);
    const char *end = name;
    while (is_name_byte(*end)) {
        end++;
    }
    *segment = (struct segment){.offset = offset};
    const char *next = skip_blanks(end);
    if (*next == '|') {
        const char *word = skip_blanks(next + 1);
        size_t size = 0;
        while (word[size] && !memchr(" \t\n|}", word[size], 5)) {
            size++;
        }
        next = skip_blanks(word + size);
        if (strncmp(next, "}}", 2) == 0) {
            segment->filter = read_filter(builder, word, size, offset);
        }
    }
    if (strncmp(next, "}}", 2) != 0) {
        bool closed = strstr(at, "}}") && strstr(at, "}}") < at + strcspn(at, "\n");
        FAIL(builder, offset,
             closed ? "what is between {{ and }} is not a name (a literal {{ is "
                      "written {{{{)"
                    : "{{ without }} (a literal {{ is written {{{{)");
        return NULL;
    }
    if (end == name || *name == '.' || *name == '-' || end - name > NAME_MAX_BYTES) {
        FAIL(builder, offset,
             "what is between {{ and }} is not a name (a literal {{ is written "
             "{{{{)");
        return NULL;
    }
    segment->name = arena_strndup(builder->arena, name, (size_t)(end - name));
    resolve_name(builder, segment);
    return next + 2;
}

/* Cuts the text at its placeholders. The segments' own text is set once decoding is over. */
static void decode(struct builder *builder)
{
    const char *at = builder->text;
    while (*at != '\0' && builder->failures < DIAG_MAX) {
        size_t offset = (size_t)(at - builder->text);
        if (strncmp(at, "{{{{", 4) == 0) {
            decode_byte(builder, '{', offset);
            decode_byte(builder, '{', offset + 1);
            at += 4;
        } else if (strncmp(at, "{{", 2) == 0) {
            struct segment segment;
            const char *next = read_placeholder(builder, at, &segment);
            if (next) {
                decode_byte(builder, '\0', offset);
                VEC_PUSH(builder->segments, builder->count, builder->cap) = segment;
            }
            at = next ? next : at + 2;
        } else {
            decode_byte(builder, *at++, offset);
        }
    }
    VEC_PUSH(builder->segments, builder->count, builder->cap) = (struct segment){.slot = -1};
}

static void fail_hole(struct builder *builder, const struct segment *segment,
                      const struct shell_hole *hole)
{
    if (!hole->doubt) {
        FAIL(builder, segment->offset,
             "{{%s}} %s, where no quoting is safe; move it, or write {{%s|raw}} to insert it as it "
             "is",
             segment->name, hole->why, segment->name);
        return;
    }
    if (builder->doubted) {
        return;
    }
    builder->doubted = true;
    size_t offset = hole->doubt_offset < builder->size ? builder->offsets[hole->doubt_offset] : 0;
    struct place place = place_of(builder, offset);
    FAIL(builder, segment->offset,
         "{{%s}} cannot be quoted safely, since how the shell reads it depends on line %d column "
         "%d: %s; change that, or write {{%s|raw}} to insert it as it is",
         segment->name, place.line, place.column, hole->doubt, segment->name);
}

static void quote_hole(struct builder *builder, struct segment *segment,
                       const struct shell_hole *hole)
{
    if (segment->filter == FILTER_RAW) {
        segment->quoting = SHELL_QUOTE_RAW;
        return;
    }
    if (hole->why) {
        fail_hole(builder, segment, hole);
        return;
    }
    if (segment->filter == FILTER_FLAG) {
        if (hole->place != SHELL_UNQUOTED || !hole->own_word) {
            FAIL(builder, segment->offset, "{{%s|flag}} must be a word of its own, outside quotes",
                 segment->name);
        }
        segment->quoting = SHELL_QUOTE_PLAIN_WORD;
        return;
    }
    if (hole->place == SHELL_SINGLE) {
        segment->quoting = SHELL_QUOTE_IN_SINGLE;
    } else if (hole->place == SHELL_DOUBLE) {
        segment->quoting = hole->glued ? SHELL_QUOTE_IN_DOUBLE_APART : SHELL_QUOTE_IN_DOUBLE;
    } else {
        segment->quoting = hole->plain_word ? SHELL_QUOTE_PLAIN_WORD : SHELL_QUOTE_ALWAYS;
    }
}

static void check_shell(struct builder *builder)
{
    struct shell_lex lex;
    struct shell_hole hole;
    shell_lex_init(&lex, builder->decoded, builder->size);
    size_t index = 0;
    while (builder->failures < DIAG_MAX && shell_lex_next(&lex, &hole)) {
        CHECK(index + 1 < builder->count);
        quote_hole(builder, &builder->segments[index++], &hole);
    }
    if (builder->failures > 0) {
        return; /* what is unfinished is better told of a text that is right so far */
    }
    CHECK(index + 1 == builder->count);
    size_t offset = 0;
    const char *unfinished = shell_lex_unfinished(&lex, &offset);
    if (unfinished) {
        FAIL(builder, offset < builder->size ? builder->offsets[offset] : 0, "%s", unfinished);
    }
}

static void check_plain(struct builder *builder)
{
    for (size_t i = 0; i + 1 < builder->count; i++) {
        struct segment *segment = &builder->segments[i];
        segment->quoting = SHELL_QUOTE_RAW;
        if (segment->filter == FILTER_FLAG && builder->size != 1) {
            FAIL(builder, segment->offset, "{{%s|flag}} must be the whole text here",
                 segment->name);
        }
    }
}

static struct template *finish(struct builder *builder, enum template_mode mode)
{
    struct template *tmpl = arena_alloc(builder->arena, sizeof *tmpl);
    tmpl->mode = mode;
    tmpl->count = builder->count;
    tmpl->segments = arena_alloc(builder->arena, builder->count * sizeof *tmpl->segments);
    const char *text = arena_strndup(builder->arena, "", 0);
    if (builder->size > 0) {
        char *copy = arena_alloc(builder->arena, builder->size);
        memcpy(copy, builder->decoded, builder->size);
        text = copy;
    }
    size_t start = 0;
    for (size_t i = 0; i < builder->count; i++) {
        const char *end = memchr(text + start, '\0', builder->size - start);
        tmpl->segments[i] = builder->segments[i];
        tmpl->segments[i].text = text + start;
        tmpl->segments[i].size = end ? (size_t)(end - text) - start : builder->size - start;
        start += tmpl->segments[i].size + 1;
    }
    return tmpl;
}

// NOLINTNEXTLINE(readability-function-size): a text with its place, a callback with its context
struct template *template_compile(struct arena *arena, enum template_mode mode, const char *text,
                                  int line, int column, template_resolve_fn resolve, void *context,
                                  struct diag_list *diags)
{
    size_t size = strlen(text);
    struct builder builder = {.arena = arena,
                              .text = text,
                              .line = line,
                              .column = column,
                              .diags = diags,
                              .resolve = resolve,
                              .context = context,
                              .decoded = mem_array(size + 1, 1),
                              .offsets = mem_array(size + 1, sizeof(size_t))};
    decode(&builder);
    if (builder.failures == 0) {
        if (mode == TEMPLATE_SHELL) {
            check_shell(&builder);
        } else {
            check_plain(&builder);
        }
    }
    struct template *tmpl = builder.failures > 0 ? NULL : finish(&builder, mode);
    free(builder.decoded);
    free(builder.offsets);
    free(builder.segments);
    return tmpl;
}

static void render_flag(const struct segment *segment, const struct value *value, struct str *out)
{
    if (value->kind == VALUE_BOOL && strcmp(value->text, "true") != 0) {
        return;
    }
    str_add_bytes(out, "--", 2);
    str_add(out, segment->name);
    if (value->kind != VALUE_BOOL) {
        str_add_char(out, ' ');
        shell_quote(out, segment->quoting, value->text, value->size);
    }
}

void template_render(const struct template *tmpl, const struct value *values, struct str *out)
{
    for (size_t i = 0; i < tmpl->count; i++) {
        const struct segment *segment = &tmpl->segments[i];
        str_add_bytes(out, segment->text, segment->size);
        if (segment->slot < 0) {
            continue;
        }
        const struct value *value = &values[segment->slot];
        if (value->kind == VALUE_ABSENT) {
            continue;
        }
        if (segment->filter == FILTER_FLAG) {
            render_flag(segment, value, out);
        } else {
            shell_quote(out, segment->quoting, value->text, value->size);
        }
    }
}

bool template_uses(const struct template *tmpl, int slot)
{
    CHECK(slot >= 0);
    for (size_t i = 0; i < tmpl->count; i++) {
        if (tmpl->segments[i].slot == slot) {
            return true;
        }
    }
    return false;
}

bool template_is_flag(const struct template *tmpl, int *slot, const char **name)
{
    const struct segment *first = &tmpl->segments[0];
    if (tmpl->count != 2 || first->filter != FILTER_FLAG || first->size > 0 ||
        tmpl->segments[1].size > 0) {
        return false;
    }
    *slot = first->slot;
    *name = first->name;
    return true;
}
