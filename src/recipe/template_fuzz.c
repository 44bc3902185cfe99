/* Any text may be compiled. If it compiles, then two renderings of it, one with harmless values and
 * one with hostile ones, must look the same to a tokenizer that knows nothing of templates and only
 * the plain core of shell quoting. Texts with anything beyond that core are only compiled. */
#include "recipe/template.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SLOTS = 4, DEPTH_MAX = 32 };

static int resolve(void *context, const char *name, const char **suggestion)
{
    (void)context;
    *suggestion = "a";
    return name[0] >= 'a' && name[0] < 'a' + SLOTS && name[1] == '\0' ? name[0] - 'a' : -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* What is left of a text when quoting is understood: w for a word or a part of one, operators as
 * they are, and " where a double-quoted text with substitutions changes level. */
struct skeleton {
    struct str out;
    bool quoted[DEPTH_MAX]; /* of each level of $( ): in double quotes there? */
    size_t depth;
    bool beyond; /* not the plain core */
};

static void skeleton_word(struct skeleton *skeleton)
{
    struct str *out = &skeleton->out;
    if (out->size == 0 || out->text[out->size - 1] != 'w') {
        str_add_char(out, 'w');
    }
}

/* Reads one unit at text and returns what follows. */
static const char *skeleton_step(struct skeleton *skeleton, const char *text)
{
    bool *quoted = &skeleton->quoted[skeleton->depth];
    if (*text == '\\') {
        skeleton->beyond = skeleton->beyond || text[1] == '\n';
        skeleton_word(skeleton);
        return text + (text[1] ? 2 : 1);
    }
    if (*text == '"') {
        skeleton_word(skeleton);
        *quoted = !*quoted;
        return text + 1;
    }
    if (*text == '\'' && !*quoted) {
        const char *end = strchr(text + 1, '\'');
        skeleton_word(skeleton);
        skeleton->beyond = skeleton->beyond || !end;
        return end ? end + 1 : text + strlen(text);
    }
    if (text[0] == '$' && text[1] == '(' && skeleton->depth + 1 < DEPTH_MAX) {
        skeleton_word(skeleton);
        str_add(&skeleton->out, "$(");
        skeleton->quoted[++skeleton->depth] = false;
        return text + 2;
    }
    if (*text == ')' && !*quoted && skeleton->depth > 0) {
        str_add(&skeleton->out, ")w");
        skeleton->depth--;
        return text + 1;
    }
    if (!*quoted && strchr(" \t\n;&|<>", *text)) {
        bool repeats = is_blank(*text) && is_blank(text[1]);
        str_add_bytes(&skeleton->out, is_blank(*text) ? " " : text, repeats ? 0 : 1);
    } else if (*text == '$') {
        str_add_char(&skeleton->out, '$');
    } else {
        skeleton_word(skeleton);
    }
    return text + 1;
}

static void skeleton_of(struct skeleton *skeleton, const char *text)
{
    while (*text != '\0') {
        text = skeleton_step(skeleton, text);
    }
    skeleton->beyond = skeleton->beyond || skeleton->quoted[skeleton->depth];
}

/* A template this tokenizer can judge: of parentheses it has only those of $( ). */
static bool is_core(const char *text)
{
    static const char *const beyond[] = {"#",  "<<",   "`",    "${",   "$'",    "$\"", "$$", "$[",
                                         "((", "\\\n", "case", "|raw", "|flag", "| ",  "|\t"};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        if (strstr(text, beyond[i])) {
            return false;
        }
    }
    const char *open = strchr(text, '(');
    while (open && open > text && open[-1] == '$') {
        open = strchr(open + 1, '(');
    }
    return !open;
}

static void judge(const struct template *tmpl, const struct value *tame, const struct value *wild)
{
    struct str a = {0};
    struct str b = {0};
    struct skeleton left = {0};
    struct skeleton right = {0};
    template_render(tmpl, tame, &a);
    template_render(tmpl, wild, &b);
    skeleton_of(&left, str_text(&a));
    skeleton_of(&right, str_text(&b));
    if (!left.beyond) {
        CHECK(!right.beyond);
        CHECK(left.depth == right.depth);
        CHECK(strcmp(str_text(&left.out), str_text(&right.out)) == 0);
    }
    str_release(&left.out);
    str_release(&right.out);
    str_release(&a);
    str_release(&b);
}

/* The input up to the first NUL is the template, the rest is the values, NUL between them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct value tame[SLOTS];
    struct value wild[SLOTS];
    AUTO_FREE char *all = mem_alloc(size + SLOTS + 2);
    if (size > 0) {
        memcpy(all, data, size);
    }
    const char *next = all + strlen(all) + 1;
    static const char *const stock[SLOTS] = {"'", "\"$(x)`", "a\\", "\n;)"};
    for (int i = 0; i < SLOTS; i++) {
        const char *text = next < all + size ? next : stock[i];
        next = next < all + size ? next + strlen(next) + 1 : next;
        tame[i] = (struct value){.kind = VALUE_TEXT, .text = "x", .size = 1};
        wild[i] = (struct value){.kind = VALUE_TEXT, .text = text, .size = strlen(text)};
    }
    struct arena arena = {0};
    struct diag_list diags = {.file = "f"};
    struct template *plain =
        template_compile(&arena, TEMPLATE_PLAIN, all, 1, 1, resolve, NULL, &diags);
    struct template *tmpl =
        template_compile(&arena, TEMPLATE_SHELL, all, 1, 1, resolve, NULL, &diags);
    CHECK(!tmpl || plain || strstr(all, "flag"));
    if (tmpl && is_core(all)) {
        judge(tmpl, tame, wild);
    }
    diag_release(&diags);
    arena_release(&arena);
    return 0;
}
