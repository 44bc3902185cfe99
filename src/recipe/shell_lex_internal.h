/* shell_lex_internal.h - what the parts of the follower share: shell_lex.c (holes, frames),
 * shell_command.c (commands), shell_word.c (their words), shell_expand.c (quotes and expansions)
 * and shell_heredoc.c. */
#ifndef RECIPE_SHELL_LEX_INTERNAL_H
#define RECIPE_SHELL_LEX_INTERNAL_H

#include "recipe/shell_lex.h"

#include <string.h>

static inline bool shell_is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static inline bool shell_is_name(char c)
{
    return shell_is_letter_or_digit(c) || c == '_';
}

/* c is one of set; NUL (a hole, or the end) never is. */
static inline bool shell_is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

/* Bytes that mean nothing to either shell, wherever they are in a word that has only such bytes. */
static inline bool shell_is_plain(char c)
{
    return shell_is_letter_or_digit(c) || shell_is_one_of(c, "_./:@%+,-=");
}

/* NUL for a hole and for the end. */
static inline char shell_peek(const struct shell_lex *lex, size_t ahead)
{
    return ahead < lex->size - lex->pos ? lex->text[lex->pos + ahead] : '\0';
}

/* What stands before pos, holes left out: they may be empty. */
static inline char shell_before(const struct shell_lex *lex, size_t pos)
{
    if (pos == lex->holes_end) {
        pos = lex->holes_start;
    }
    return pos > 0 ? lex->text[pos - 1] : '\0';
}

static inline struct shell_frame *shell_top(struct shell_lex *lex)
{
    return &lex->frames[lex->depth];
}

static inline bool shell_is_commands(const struct shell_frame *frame)
{
    return frame->kind == FRAME_TOP || frame->kind == FRAME_PAREN || frame->kind == FRAME_SUBST;
}

/* Stops following: see the header. The first doubt stays. */
void shell_lex_doubt(struct shell_lex *lex, const char *doubt);

/* A reason against any hole in one of the open frames, or NULL. */
const char *shell_lex_frame_why(const struct shell_lex *lex);

/* Opens a frame at pos and goes on size bytes; closes the innermost. */
void shell_push(struct shell_lex *lex, enum shell_frame_kind kind, size_t size);
void shell_pop(struct shell_lex *lex, size_t size);

/* One step each, from pos, which is not a hole, never beyond the next hole. */
void shell_command_step(struct shell_lex *lex); /* in a frame of commands */
void shell_expand_step(struct shell_lex *lex);  /* in any other frame */
void shell_heredoc_step(struct shell_lex *lex); /* in the body of a here-document */

void shell_step_dollar(struct shell_lex *lex);       /* at $ */
void shell_step_quote(struct shell_lex *lex);        /* at a quote or backtick */
void shell_skip_escape(struct shell_lex *lex);       /* at a backslash and the byte it takes */
void shell_push_substitution(struct shell_lex *lex); /* at $( <( or >( */
void shell_heredoc_announce(struct shell_lex *lex);  /* at << */

/* The word being read in a frame of commands. */
void shell_word_reset(struct shell_word *word);
void shell_word_mark(struct shell_frame *frame); /* a quote, an expansion or an escape in it */
void shell_word_add(struct shell_frame *frame, char c);
void shell_word_add_text(struct shell_word *word, char c); /* a quoted byte of it */
void shell_word_end(struct shell_lex *lex);
void shell_command_end(struct shell_lex *lex, bool separated);

#endif
