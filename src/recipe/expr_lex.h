/* expr_lex.h - the words of a condition; only for expr_parse.c. */
#ifndef RECIPE_EXPR_LEX_H
#define RECIPE_EXPR_LEX_H

#include <stddef.h>

enum expr_token_kind {
    TOKEN_END,
    TOKEN_NUMBER,
    TOKEN_QUOTED,
    TOKEN_WORD,
    TOKEN_SYMBOL, /* operators and brackets: one or two characters */
    TOKEN_BAD,
};

struct expr_token {
    enum expr_token_kind kind;
    const char *text; /* inside the source; QUOTED: without the quotes; BAD: what is wrong */
    size_t size;
    size_t at; /* offset in the source */
};

/* Reads the token at or after offset `at` of the NUL-terminated text; returns where it ends. */
size_t expr_lex(const char *text, size_t at, struct expr_token *token);

#endif
