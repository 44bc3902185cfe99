#include "base/check.h"
#include "recipe/shell_lex_internal.h"

/* Is there a "..." between here and the command that this is a word of? */
static bool in_double(const struct shell_lex *lex)
{
    size_t i = lex->depth;
    while (!shell_is_commands(&lex->frames[i])) {
        if (lex->frames[i].kind == FRAME_DOUBLE) {
            return true;
        }
        i--;
    }
    return false;
}

void shell_push_substitution(struct shell_lex *lex)
{
    if (lex->heredoc_count > 0) {
        shell_lex_doubt(lex, "a substitution between << and the here-document");
        return;
    }
    shell_push(lex, FRAME_SUBST, 2);
}

void shell_step_quote(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    if (shell_is_commands(shell_top(lex))) {
        shell_word_mark(shell_top(lex));
    }
    shell_push(lex, c == '"' ? FRAME_DOUBLE : c == '`' ? FRAME_BACKTICK : FRAME_SINGLE, 1);
}

/* $name, $1, $? and a $ that is only itself. */
static void dollar_parameter(struct shell_lex *lex)
{
    char next = shell_peek(lex, 1);
    if (next == '\0') {
        lex->pos++;
        lex->glue = lex->pos;
    } else if (next == '\\' && shell_peek(lex, 2) == '\n') {
        shell_lex_doubt(lex, "a line continued right after a $");
    } else if (next == '$') {
        lex->pos += 2;
        lex->glue = lex->pos;
        if (shell_is_one_of(shell_peek(lex, 0), in_double(lex) ? "({[\\" : "({['\"\\")) {
            shell_lex_doubt(lex, "$$ with more of an expansion behind it");
        }
    } else if (shell_is_name(next)) {
        do {
            lex->pos++;
        } while (shell_is_name(shell_peek(lex, 0)));
        lex->name_end = lex->pos;
    } else {
        lex->pos += shell_is_one_of(next, "?#@*!-") ? 2 : 1;
    }
}

void shell_step_dollar(struct shell_lex *lex)
{
    bool quoted = in_double(lex) || shell_top(lex)->kind == FRAME_ARITH;
    char next = shell_peek(lex, 1);
    if (next == '(') {
        if (shell_peek(lex, 2) == '(') {
            shell_push(lex, FRAME_ARITH, 3);
        } else {
            shell_push_substitution(lex);
        }
    } else if (next == '{') {
        if (shell_is_one_of(shell_peek(lex, 2), " \t\n|\\")) {
            shell_lex_doubt(lex, "${ with a blank or | is a command to some shells");
        } else {
            shell_push(lex, FRAME_BRACE, 2);
        }
    } else if (next == '[') {
        shell_lex_doubt(lex, "$[...] is arithmetic to bash and text to sh");
    } else if (next == '"' && !quoted) {
        shell_lex_doubt(lex, "$\"...\" is translated by bash");
    } else if (next == '\'' && !quoted) {
        shell_push(lex, FRAME_ANSI, 2);
    } else {
        dollar_parameter(lex);
    }
}

/* A backslash and the byte it takes; a hole is left for the caller to find. */
void shell_skip_escape(struct shell_lex *lex)
{
    if (shell_peek(lex, 1) == '\0') {
        lex->pos++;
        lex->glue = lex->pos;
        return;
    }
    lex->pos += 2;
}

/* A byte in quotes: "eval" is as much a command as eval. */
static void word_add_quoted(struct shell_lex *lex, char c)
{
    struct shell_frame *below = &lex->frames[lex->depth - 1];
    if (shell_is_commands(below)) {
        shell_word_add_text(&below->word, c);
    }
    lex->pos++;
}

static void step_double(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    if (c == '"') {
        shell_pop(lex, 1);
    } else if (c == '\\') {
        if (shell_peek(lex, 1) == '\n' && lex->name_end == lex->pos) {
            lex->name_end += 2;
        }
        shell_skip_escape(lex);
    } else if (c == '$') {
        shell_step_dollar(lex);
    } else if (c == '`') {
        shell_step_quote(lex);
    } else {
        word_add_quoted(lex, c);
    }
}

static void step_brace(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    bool escape = c == '\\' && (shell_is_plain(shell_peek(lex, 1)) ||
                                shell_is_one_of(shell_peek(lex, 1), "*? #"));
    if (c == '}') {
        shell_pop(lex, 1);
    } else if (c == '$') {
        shell_step_dollar(lex);
    } else if ((c == '\'' || c == '"') && !in_double(lex)) {
        shell_step_quote(lex);
    } else if (escape) {
        lex->pos += 2;
    } else if (shell_is_one_of(c, "'\"`\\{()<>\n")) {
        shell_lex_doubt(lex, "a quote, backslash, bracket or new line inside ${...}");
    } else {
        lex->pos++;
    }
}

/* $((...)) and ((...)) alike. */
static void step_parens(struct shell_lex *lex)
{
    struct shell_frame *frame = shell_top(lex);
    char c = shell_peek(lex, 0);
    if (c == '(') {
        frame->parens++;
        lex->pos++;
    } else if (c == ')' && frame->parens > 0) {
        frame->parens--;
        lex->pos++;
    } else if (c == ')' && shell_peek(lex, 1) == ')') {
        shell_pop(lex, 2);
    } else if (c == ')') {
        shell_lex_doubt(lex, "(( that is not closed by )); write ( ( for two subshells");
    } else if (c == '$') {
        shell_step_dollar(lex);
    } else if (shell_is_one_of(c, "'\"`\\")) {
        shell_lex_doubt(lex, "a quote or backslash inside ((...))");
    } else if (frame->kind == FRAME_DPAREN &&
               ((c == '<' && shell_peek(lex, 1) == '<') ||
                (c == '#' && !shell_is_name(shell_before(lex, lex->pos))))) {
        shell_lex_doubt(lex, "<< or # inside ((...))");
    } else {
        lex->pos++;
    }
}

static void step_ansi(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    if (c == '\'') {
        shell_pop(lex, 1);
    } else if (c == '\\' && shell_peek(lex, 1) == '\'') {
        shell_lex_doubt(lex, "\\' inside $'...', which sh does not know");
    } else if (c == '\\') {
        shell_skip_escape(lex);
    } else {
        lex->pos++;
    }
}

static void step_backtick(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    if (c == '`') {
        shell_pop(lex, 1);
    } else if (c == '\\') {
        shell_skip_escape(lex);
    } else if (c == '#') {
        shell_lex_doubt(lex, "a # in backticks");
    } else {
        lex->pos++;
    }
}

void shell_expand_step(struct shell_lex *lex)
{
    switch (shell_top(lex)->kind) {
    case FRAME_DOUBLE:
        step_double(lex);
        break;
    case FRAME_SINGLE:
        if (shell_peek(lex, 0) == '\'') {
            shell_pop(lex, 1);
        } else {
            word_add_quoted(lex, shell_peek(lex, 0));
        }
        break;
    case FRAME_ANSI:
        step_ansi(lex);
        break;
    case FRAME_BACKTICK:
        step_backtick(lex);
        break;
    case FRAME_BRACE:
        step_brace(lex);
        break;
    case FRAME_ARITH:
    case FRAME_DPAREN:
        step_parens(lex);
        break;
    case FRAME_COMMENT:
        if (shell_peek(lex, 0) == '\n') {
            shell_pop(lex, 0);
        } else {
            lex->pos++;
        }
        break;
    case FRAME_TOP:
    case FRAME_PAREN:
    case FRAME_SUBST:
        CHECK(false);
    }
}
