#include "recipe/shell_lex_internal.h"

static bool in_test(const struct shell_lex *lex)
{
    for (size_t i = 0; i <= lex->depth; i++) {
        if (lex->frames[i].test) {
            return true;
        }
    }
    return false;
}

static void step_unquoted_backslash(struct shell_lex *lex)
{
    struct shell_frame *frame = shell_top(lex);
    if (shell_peek(lex, 1) != '\n') {
        shell_word_mark(frame);
        shell_word_add_text(&frame->word, shell_peek(lex, 1));
        shell_skip_escape(lex);
        return;
    }
    /* The shell reads on as if both bytes were not there. */
    char next = shell_peek(lex, 2);
    if (shell_is_one_of(shell_before(lex, lex->pos), "<>&|;()?*+@!=") &&
        (next == '\0' || shell_is_one_of(next, "<>&|;()#\\"))) {
        shell_lex_doubt(lex, "an operator continued on the next line");
    }
    frame->word.plain = frame->word.plain && !frame->word.begun;
    lex->pos += 2;
}

static void step_hash(struct shell_lex *lex)
{
    struct shell_frame *frame = shell_top(lex);
    if (frame->word.solid) {
        shell_word_add(frame, '#');
        lex->pos++;
    } else if (frame->word.begun) {
        shell_lex_doubt(lex, "a # right after a placeholder begins a comment when that is absent");
    } else if (shell_before(lex, lex->pos) == ')') {
        shell_lex_doubt(lex, "a # right after )");
    } else if (in_test(lex)) {
        shell_lex_doubt(lex, "a # inside [[ ... ]]");
    } else {
        shell_push(lex, FRAME_COMMENT, 1);
    }
}

static void step_redirect(struct shell_lex *lex, char c)
{
    if (shell_peek(lex, 1) == '(') {
        shell_word_mark(shell_top(lex));
        shell_push_substitution(lex);
        return;
    }
    shell_word_end(lex);
    if (c == '<' && shell_peek(lex, 1) == '<' && shell_peek(lex, 2) != '<') {
        if (in_test(lex) || shell_lex_frame_why(lex)) {
            shell_lex_doubt(lex, "<< where it may not be a here-document");
            return;
        }
        shell_heredoc_announce(lex);
        return;
    }
    size_t size = 1;
    bool duplicates = false;
    while (shell_is_one_of(shell_peek(lex, size), "<>&|") && size < 3) {
        duplicates = duplicates || shell_peek(lex, size) == '&';
        size++;
    }
    shell_top(lex)->redirect = true;
    shell_top(lex)->duplicate = duplicates;
    lex->pos += size;
}

static void step_open(struct shell_lex *lex)
{
    char last = shell_before(lex, lex->pos);
    if (lex->pos > 0 && lex->text[lex->pos - 1] == '\0') {
        shell_lex_doubt(lex, "a ( right after a placeholder");
    } else if (shell_top(lex)->word.begun && shell_is_one_of(last, "?*+@!")) {
        shell_lex_doubt(lex, "an extended glob such as @(...)");
    } else if (shell_peek(lex, 1) == '(') {
        shell_command_end(lex, false);
        shell_push(lex, FRAME_DPAREN, 2);
    } else {
        bool array = shell_top(lex)->word.begun && last == '=';
        shell_command_end(lex, false);
        shell_push(lex, FRAME_PAREN, 1);
        shell_top(lex)->array = array;
    }
}

static void step_close(struct shell_lex *lex)
{
    shell_command_end(lex, false);
    struct shell_frame *frame = shell_top(lex);
    if (frame->kind == FRAME_TOP) {
        if (frame->cases == 0) {
            shell_lex_doubt(lex, "a ) that closes nothing");
        }
        lex->pos++;
    } else if (frame->cases > 0) {
        shell_lex_doubt(lex, "a ) after `case`, which may end a pattern or close a (; write the "
                             "patterns as (pattern) and begin `esac` after ; or a new line");
    } else if (frame->kind == FRAME_SUBST && lex->heredoc_count > 0) {
        shell_lex_doubt(lex, "a here-document that begins inside $( ) and not ends there");
    } else {
        bool substitution = frame->kind == FRAME_SUBST;
        shell_pop(lex, 1);
        if (substitution && shell_is_commands(shell_top(lex))) {
            shell_word_mark(shell_top(lex));
        }
    }
}

static void step_bracket(struct shell_lex *lex, char c)
{
    struct shell_frame *frame = shell_top(lex);
    struct shell_word *word = &frame->word;
    if (c == '[') {
        bool subscript = (word->name && word->size > 0) || (frame->array && !word->solid);
        if ((subscript || word->subscript > 0) && word->subscript < UINT8_MAX) {
            word->subscript++;
        }
    } else if (word->subscript > 0 && word->subscript < UINT8_MAX) {
        word->subscript--;
    }
    shell_word_add(frame, c);
    lex->pos++;
}

static void step_newline(struct shell_lex *lex)
{
    shell_command_end(lex, true);
    lex->pos++;
    if (lex->heredoc_count > 0) {
        lex->in_body = true;
        lex->line_start = true;
        lex->heredoc_index = 0;
    }
}

static void step_separator(struct shell_lex *lex, char c)
{
    if (c == '&' && shell_peek(lex, 1) == '>') {
        shell_word_end(lex); /* a redirection to bash */
    } else {
        shell_command_end(lex, c != '|');
    }
    lex->pos++;
}

void shell_command_step(struct shell_lex *lex)
{
    char c = shell_peek(lex, 0);
    bool substitution = (c == '<' || c == '>') && shell_peek(lex, 1) == '(';
    if (shell_top(lex)->array && shell_is_one_of(c, ";&|<>(") && !substitution) {
        /* After this error bash goes on with the next line, be that in the middle of a value. */
        shell_lex_doubt(lex, "an operator inside name=(...)");
        return;
    }
    switch (c) {
    case '\\':
        step_unquoted_backslash(lex);
        break;
    case '\'':
    case '"':
    case '`':
        shell_step_quote(lex);
        break;
    case '$':
        shell_word_mark(shell_top(lex));
        shell_step_dollar(lex);
        break;
    case '#':
        step_hash(lex);
        break;
    case ' ':
    case '\t':
        shell_word_end(lex);
        lex->pos++;
        break;
    case '\n':
        step_newline(lex);
        break;
    case ';':
    case '&':
    case '|':
        step_separator(lex, c);
        break;
    case '<':
    case '>':
        step_redirect(lex, c);
        break;
    case '(':
        step_open(lex);
        break;
    case ')':
        step_close(lex);
        break;
    case '[':
    case ']':
        step_bracket(lex, c);
        break;
    default:
        shell_word_add(shell_top(lex), c);
        lex->pos++;
        break;
    }
}
