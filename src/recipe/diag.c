#include "recipe/diag.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 600 };

/* The text may quote the user's bytes: nothing in it may steer a terminal or run on for pages. */
static char *clean_copy(const char *text)
{
    struct str out = {0};
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        size_t length = json_utf8_length(text + at, size - at);
        bool plain = length > 1 || (length == 1 && text[at] >= 0x20 && text[at] != 0x7f);
        if (out.size + length > TEXT_MAX) {
            str_add(&out, "...");
            break;
        }
        str_add_bytes(&out, plain ? text + at : "?", plain ? length : 1);
        at += length ? length : 1;
    }
    return str_take(&out);
}

static bool is_known(const struct diag_list *list, int line, int column, const char *text)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct diag *diag = &list->items[i];
        if (diag->line == line && diag->column == column && strcmp(diag->text, text) == 0) {
            return true;
        }
    }
    return false;
}

void diag_add(struct diag_list *list, int line, int column, const char *format, ...)
{
    if (list->count == DIAG_MAX) {
        list->dropped++;
        return;
    }
    va_list args;
    va_start(args, format);
    char *raw = NULL;
    int size = vasprintf(&raw, format, args);
    va_end(args);
    CHECK(size >= 0);
    char *text = clean_copy(raw);
    free(raw);
    if (is_known(list, line, column, text)) {
        free(text);
        return;
    }
    list->items[list->count++] = (struct diag){.line = line, .column = column, .text = text};
}

static bool stands_before(const struct diag *a, const struct diag *b)
{
    return a->line != b->line ? a->line < b->line : a->column < b->column;
}

static void print_one(const struct diag_list *list, const struct diag *diag, struct str *out)
{
    str_add(out, list->file ? list->file : "recipe");
    if (diag->line > 0) {
        str_addf(out, ":%d:%d", diag->line, diag->column);
    } else if (diag->line == DIAG_LINE_SET) {
        str_add(out, ": --set");
    }
    str_addf(out, ": %s\n", diag->text);
}

void diag_print(const struct diag_list *list, struct str *out)
{
    const struct diag *order[DIAG_MAX];
    for (size_t i = 0; i < list->count; i++) { /* insertion sort: stable, and the list is short */
        size_t at = i;
        while (at > 0 && stands_before(&list->items[i], order[at - 1])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = &list->items[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        print_one(list, order[i], out);
    }
    if (list->dropped) {
        str_addf(out, "... and %zu more\n", list->dropped);
    }
}

void diag_release(struct diag_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->items[i].text);
    }
    *list = (struct diag_list){.file = list->file};
}
