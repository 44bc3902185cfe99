#include "cli/selector.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum err_code selector_parse(const char *text, struct selector *out, struct err *err)
{
    struct selector made = {.text = mem_strdup(text)};
    size_t cap = 0;
    char *rest = made.text;
    for (char *term = NULL; (term = strsep(&rest, ","));) {
        term += strspn(term, " ");
        size_t size = strlen(term);
        while (size > 0 && term[size - 1] == ' ') {
            term[--size] = '\0';
        }
        if (size == 0 || made.count == SELECTOR_TERMS_MAX) {
            selector_release(&made);
            return err_set(err, ERR_INVALID,
                           "'%.100s' is not a selector: node names and labels such as "
                           "gpu-1,zone=a",
                           text);
        }
        VEC_PUSH(made.terms, made.count, cap) = term;
    }
    *out = made;
    return ERR_OK;
}

void selector_release(struct selector *selector)
{
    free(selector->text);
    free(selector->terms);
    *selector = (struct selector){0};
}

/* `*` stands for any text; the last star seen is where to go back to. */
static bool is_like(const char *pattern, const char *text)
{
    const char *star = NULL;
    const char *mark = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

bool selector_term_matches(const char *term, const char *name, const char *const *labels,
                           size_t label_count)
{
    if (is_like(term, name)) {
        return true;
    }
    for (size_t i = 0; i < label_count; i++) {
        if (is_like(term, labels[i])) {
            return true;
        }
    }
    return strncmp(term, "node=", 5) == 0 && is_like(term + 5, name);
}

bool selector_matches(const struct selector *selector, const char *name, const char *const *labels,
                      size_t label_count)
{
    for (size_t i = 0; i < selector->count; i++) {
        if (selector_term_matches(selector->terms[i], name, labels, label_count)) {
            return true;
        }
    }
    return selector->count == 0;
}
