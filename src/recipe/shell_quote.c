#include "recipe/shell_quote.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bytes that mean nothing to a shell anywhere in a word made of such bytes only. */
static bool is_bare_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_./:@%+-", c));
}

/* Words that can be syntax by themselves; -p and -- are so after bash's `time`. */
static bool is_reserved(const char *value, size_t size)
{
    static const char *const words[] = {
        "if",    "then", "else", "elif",   "fi",       "do",   "done",   "case", "esac", "while",
        "until", "for",  "in",   "select", "function", "time", "coproc", "-p",   "--",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], value, size) == 0) {
            return true;
        }
    }
    return false;
}

static bool can_be_bare(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_bare_byte((unsigned char)value[i])) {
            return false;
        }
    }
    return size > 0 && !is_reserved(value, size);
}

/* Bytes above 127 are left out too: in some locales one of them and a following backslash or
 * backtick make one character, and a quote could be lost. */
static bool is_tame_in_double(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c >= 128 || c == '"' || c == '$' || c == '`' || c == '\\' || c == '!') {
            return false;
        }
    }
    return true;
}

/* For inside '...': each ' leaves the quotes, is escaped, and enters them again. */
static void add_in_single(struct str *out, const char *value, size_t size)
{
    const char *end = value + size;
    while (value < end) {
        const char *quote = memchr(value, '\'', (size_t)(end - value));
        str_add_bytes(out, value, (size_t)((quote ? quote : end) - value));
        if (!quote) {
            break;
        }
        str_add_bytes(out, "'\\''", 4);
        value = quote + 1;
    }
}

static void add_single(struct str *out, const char *value, size_t size)
{
    str_add_char(out, '\'');
    add_in_single(out, value, size);
    str_add_char(out, '\'');
}

void shell_quote(struct str *out, enum shell_quoting quoting, const char *value, size_t size)
{
    switch (quoting) {
    case SHELL_QUOTE_PLAIN_WORD:
        if (can_be_bare(value, size)) {
            str_add_bytes(out, value, size);
            break;
        }
        add_single(out, value, size);
        break;
    case SHELL_QUOTE_ALWAYS:
        add_single(out, value, size);
        break;
    case SHELL_QUOTE_IN_SINGLE:
        add_in_single(out, value, size);
        break;
    case SHELL_QUOTE_IN_DOUBLE:
    case SHELL_QUOTE_IN_DOUBLE_APART:
        if (size > 0 &&
            (quoting == SHELL_QUOTE_IN_DOUBLE_APART || !is_tame_in_double(value, size))) {
            /* Out of the double quotes and in again: ' has no exceptions, " has many. */
            str_add_char(out, '"');
            add_single(out, value, size);
            str_add_char(out, '"');
            break;
        }
        str_add_bytes(out, value, size);
        break;
    case SHELL_QUOTE_RAW:
        str_add_bytes(out, value, size);
        break;
    }
}
