#include "recipe/shell_lex_internal.h"

#include "base/check.h"

static const size_t NOWHERE = SIZE_MAX;

void shell_lex_doubt(struct shell_lex *lex, const char *doubt)
{
    if (!lex->doubt) {
        lex->doubt = doubt;
        lex->doubt_offset = lex->pos;
    }
}

void shell_push(struct shell_lex *lex, enum shell_frame_kind kind, size_t size)
{
    if (lex->depth + 1 == SHELL_DEPTH_MAX) {
        shell_lex_doubt(lex, "it nests too deeply");
        return;
    }
    struct shell_frame *frame = &lex->frames[++lex->depth];
    *frame = (struct shell_frame){
        .kind = kind, .start = lex->pos, .separated = true, .at_command = true};
    shell_word_reset(&frame->word);
    lex->pos += size;
}

void shell_pop(struct shell_lex *lex, size_t size)
{
    CHECK(lex->depth > 0);
    lex->depth--;
    lex->pos += size;
}

static void step(struct shell_lex *lex)
{
    if (lex->in_body) {
        shell_heredoc_step(lex);
        return;
    }
    if (shell_peek(lex, 0) == '\n' && lex->heredoc_count > 0 &&
        !shell_is_commands(shell_top(lex)) && shell_top(lex)->kind != FRAME_COMMENT) {
        shell_lex_doubt(lex, "a new line in quotes between << and the here-document");
        return;
    }
    if (shell_is_commands(shell_top(lex))) {
        shell_command_step(lex);
    } else {
        shell_expand_step(lex);
    }
}

/* Past a hole already reported. Where an empty value would let its neighbours join into something
 * else, nothing after it is sure. */
static void skip_hole(struct shell_lex *lex)
{
    size_t hole = lex->pos++;
    lex->at_hole = false;
    lex->holes_start = lex->holes_end == hole ? lex->holes_start : hole;
    lex->holes_end = hole + 1;
    if (lex->glue == hole) {
        shell_lex_doubt(lex, "a placeholder right after a $ or backslash");
        return;
    }
    if (lex->name_end == hole) {
        lex->name_end++;
    }
    struct shell_frame *frame = shell_top(lex);
    if (!shell_is_commands(frame) || lex->in_body) {
        return;
    }
    frame->word.begun = true;
    frame->word.pure = false;
    if (!frame->word.solid && shell_is_one_of(shell_before(lex, hole), "<>&|;(") &&
        shell_is_one_of(shell_peek(lex, 0), "<>&|;(")) {
        shell_lex_doubt(lex, "a placeholder between two operators; put blanks around it");
    }
}

/* A reason against any hole in one of the open frames, innermost first. */
const char *shell_lex_frame_why(const struct shell_lex *lex)
{
    static const char *const reasons[] = {
        [FRAME_ANSI] = "is in $'...'",    [FRAME_BACKTICK] = "is in backticks (use $(...))",
        [FRAME_BRACE] = "is in ${...}",   [FRAME_ARITH] = "is in $((...))",
        [FRAME_DPAREN] = "is in ((...))", [FRAME_COMMENT] = "is in a comment",
    };
    for (size_t i = lex->depth + 1; i-- > 0;) {
        const struct shell_frame *frame = &lex->frames[i];
        if (frame->kind < sizeof reasons / sizeof reasons[0] && reasons[frame->kind]) {
            return reasons[frame->kind];
        }
        if (frame->test) {
            return "is in [[ ... ]], where bash computes some words (use [ ... ])";
        }
        if (frame->word.subscript > 0) {
            return "is in the subscript of an array, which bash computes";
        }
        if (frame->duplicate) {
            return "comes after >& or <&, where bash expands a word twice (use > or <)";
        }
        if (frame->code == CODE_NEXT || frame->code == CODE_ALL) {
            return "is in a word that its command evaluates (eval, let, trap, sh -c, declare -i, "
                   "read, ...)";
        }
    }
    return NULL;
}

static const char *hole_why(const struct shell_lex *lex)
{
    if (lex->doubt) {
        return "comes after something that hides how the shell reads the rest";
    }
    if (lex->in_body) {
        return "is in a here-document";
    }
    if (lex->glue == lex->pos) {
        return lex->text[lex->pos - 1] == '$' ? "stands right after a $"
                                              : "stands right after a backslash";
    }
    return shell_lex_frame_why(lex);
}

/* Whether the word goes on with plain bytes and holes to its end. The answer is the same for all
 * holes up to where the look ended, and kept for them. */
static bool is_tail_plain(struct shell_lex *lex)
{
    if (lex->pos < lex->tail_end) {
        return lex->tail_plain;
    }
    size_t i = lex->pos + 1;
    while (i < lex->size && (lex->text[i] == '\0' || shell_is_plain(lex->text[i])) &&
           lex->text[i] != '=') {
        i++;
    }
    lex->tail_plain = i == lex->size || shell_is_one_of(lex->text[i], " \t\n;&|)");
    lex->tail_end = i;
    while (i < lex->size && shell_is_one_of(lex->text[i], " \t")) {
        i++;
    }
    if (i < lex->size && lex->text[i] == '(') {
        lex->tail_plain = false; /* the name of a function */
    }
    return lex->tail_plain;
}

/* See plain_word in the header. */
static bool is_plain_word(struct shell_lex *lex)
{
    const struct shell_word *word = &shell_top(lex)->word;
    char last = lex->pos > 0 ? lex->text[lex->pos - 1] : ' ';
    char next = lex->pos + 1 < lex->size ? lex->text[lex->pos + 1] : ' ';
    bool joined = word->begun ? last == '\0' || shell_is_letter_or_digit(last)
                              : !shell_is_one_of(last, " \t\n");
    return word->plain && !joined && next != '\0' && !shell_is_letter_or_digit(next) &&
           is_tail_plain(lex);
}

static bool is_own_word(const struct shell_lex *lex)
{
    char last = lex->pos > 0 ? lex->text[lex->pos - 1] : ' ';
    bool at_end = lex->pos + 1 == lex->size;
    return !lex->frames[lex->depth].word.begun && !lex->frames[lex->depth].redirect &&
           shell_is_one_of(last, " \t\n;&|(") &&
           (at_end || shell_is_one_of(shell_peek(lex, 1), " \t\n;&|)"));
}

static void describe(struct shell_lex *lex, struct shell_hole *hole)
{
    const struct shell_frame *frame = &lex->frames[lex->depth];
    *hole = (struct shell_hole){.place = SHELL_NOWHERE, .offset = lex->pos, .why = hole_why(lex)};
    if (lex->doubt) {
        hole->doubt = lex->doubt;
        hole->doubt_offset = lex->doubt_offset;
    }
    if (hole->why) {
        return;
    }
    if (frame->kind == FRAME_SINGLE) {
        hole->place = SHELL_SINGLE;
    } else if (frame->kind == FRAME_DOUBLE) {
        hole->place = SHELL_DOUBLE;
        hole->glued = lex->name_end == lex->pos;
    } else {
        CHECK(shell_is_commands(frame));
        hole->place = SHELL_UNQUOTED;
        hole->plain_word = is_plain_word(lex);
        hole->own_word = is_own_word(lex);
    }
}

void shell_lex_init(struct shell_lex *lex, const char *text, size_t size)
{
    *lex = (struct shell_lex){.text = text, .size = size, .glue = NOWHERE, .name_end = NOWHERE};
    lex->frames[0] = (struct shell_frame){.kind = FRAME_TOP, .separated = true, .at_command = true};
    shell_word_reset(&lex->frames[0].word);
}

bool shell_lex_next(struct shell_lex *lex, struct shell_hole *hole)
{
    if (lex->at_hole) {
        skip_hole(lex);
    }
    while (!lex->doubt && lex->pos < lex->size && lex->text[lex->pos] != '\0') {
        step(lex);
    }
    if (lex->pos < lex->size) {
        const char *next = memchr(lex->text + lex->pos, '\0', lex->size - lex->pos);
        lex->pos = next ? (size_t)(next - lex->text) : lex->size;
    }
    if (lex->pos == lex->size) {
        return false;
    }
    lex->at_hole = true;
    describe(lex, hole);
    return true;
}

const char *shell_lex_unfinished(const struct shell_lex *lex, size_t *offset)
{
    static const char *const names[] = {
        [FRAME_PAREN] = "( is never closed",   [FRAME_SUBST] = "$( is never closed",
        [FRAME_DOUBLE] = "\" is never closed", [FRAME_SINGLE] = "' is never closed",
        [FRAME_ANSI] = "$' is never closed",   [FRAME_BACKTICK] = "` is never closed",
        [FRAME_BRACE] = "${ is never closed",  [FRAME_ARITH] = "$(( is never closed",
        [FRAME_DPAREN] = "(( is never closed", [FRAME_COMMENT] = NULL,
    };
    if (lex->doubt) {
        return NULL;
    }
    if (lex->heredoc_count > 0) {
        *offset = lex->heredocs[lex->in_body ? lex->heredoc_index : 0].start;
        return "a here-document has no line that ends it";
    }
    size_t depth = lex->depth;
    if (lex->frames[depth].kind == FRAME_COMMENT) {
        depth--;
    }
    *offset = lex->frames[depth].start;
    if (depth > 0) {
        return names[lex->frames[depth].kind];
    }
    if (lex->size > 0 && lex->glue == lex->size && lex->text[lex->size - 1] == '\\') {
        *offset = lex->size - 1;
        return "nothing follows the backslash at the end";
    }
    return NULL;
}
