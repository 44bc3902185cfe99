#include "recipe/expr_lex.h"

#include <stdbool.h>
#include <string.h>

static bool is_word_byte(char c, bool first)
{
    unsigned char b = (unsigned char)c;
    bool letter = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || b == '_' || b >= 0x80;
    return letter || (!first && ((b >= '0' && b <= '9') || b == '.'));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t word_size(const char *text)
{
    size_t size = 1;
    while (is_word_byte(text[size], false) ||
           (text[size] == '-' && (is_word_byte(text[size + 1], false)))) {
        size++;
    }
    return size;
}

/* Everything that could belong to a number, so that 12px is one wrong number, not 12 and px. */
static size_t number_size(const char *text)
{
    size_t size = 1;
    for (;; size++) {
        bool sign = text[size] == '-' || text[size] == '+';
        bool exponent = (text[size - 1] | 0x20) == 'e';
        if (!is_word_byte(text[size], false) && !(sign && exponent && is_digit(text[size + 1]))) {
            return size;
        }
    }
}

static void lex_quoted(struct expr_token *token)
{
    const char *end = strchr(token->text + 1, token->text[0]);
    if (end) {
        token->kind = TOKEN_QUOTED;
        token->text++;
        token->size = (size_t)(end - token->text);
    } else {
        token->kind = TOKEN_BAD;
        token->text = "the quote that starts here is not closed";
    }
}

static void lex_symbol(struct expr_token *token)
{
    static const char *const symbols[] = {"==", "!=", "<=", ">=", "<", ">", "(", ")",
                                          "[",  "]",  ",",  "+",  "-", "*", "/"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        size_t size = strlen(symbols[i]);
        if (strncmp(token->text, symbols[i], size) == 0) {
            token->kind = TOKEN_SYMBOL;
            token->size = size;
            return;
        }
    }
    char first = token->text[0];
    token->kind = TOKEN_BAD;
    token->text = first == '='   ? "'=' is not known here; write =="
                  : first == '&' ? "'&' is not known here; write and"
                  : first == '|' ? "'|' is not known here; write or"
                  : first == '!' ? "'!' is not known here; write not"
                                 : "cannot read the condition from here";
}

size_t expr_lex(const char *text, size_t at, struct expr_token *token)
{
    while (text[at] == ' ' || text[at] == '\t' || text[at] == '\n') {
        at++;
    }
    char first = text[at];
    *token = (struct expr_token){.kind = TOKEN_END, .text = text + at, .at = at};
    if (first == '\0') {
        return at;
    }
    if (first == '"' || first == '\'') {
        lex_quoted(token);
        return token->kind == TOKEN_BAD ? at : at + token->size + 2;
    }
    if (is_digit(first) || (first == '.' && is_digit(text[at + 1]))) {
        token->kind = TOKEN_NUMBER;
        token->size = number_size(token->text);
    } else if (is_word_byte(first, true)) {
        token->kind = TOKEN_WORD;
        token->size = word_size(token->text);
    } else {
        lex_symbol(token);
    }
    return at + token->size; /* a bad token is not passed */
}
