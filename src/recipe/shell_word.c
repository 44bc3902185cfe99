#include "recipe/shell_lex_internal.h"

void shell_word_reset(struct shell_word *word)
{
    *word = (struct shell_word){.pure = true, .plain = true, .name = true};
}

/* A quote, an expansion or an escape: the word goes on, and is no longer a name or a plain word. */
void shell_word_mark(struct shell_frame *frame)
{
    struct shell_word *word = &frame->word;
    word->begun = true;
    word->solid = true;
    word->pure = false;
    word->plain = false;
    word->name = false;
}

void shell_word_add_text(struct shell_word *word, char c)
{
    if (c == '/') {
        word->size = 0;
        word->pure = false;
        return;
    }
    if (word->size < SHELL_WORD_MAX) {
        word->text[word->size] = c;
    }
    word->size = (uint8_t)(word->size < SHELL_WORD_MAX ? word->size + 1 : SHELL_WORD_MAX + 1);
}

void shell_word_add(struct shell_frame *frame, char c)
{
    struct shell_word *word = &frame->word;
    word->begun = true;
    word->solid = true;
    word->plain = word->plain && shell_is_plain(c);
    word->name = word->name && shell_is_name(c);
    word->assigns = word->assigns || c == '=';
    shell_word_add_text(word, c);
}

static bool word_is(const struct shell_word *word, const char *text)
{
    size_t size = strlen(text);
    return word->size == size && memcmp(word->text, text, size) == 0;
}

/* Commands that read a word as code, or as an array element whose subscript is code, after its
 * quotes are gone. */
struct evaluator {
    const char *name;
    const char *letters; /* the options that make it so; NULL: it always does */
    enum shell_code effect;
    bool anywhere;  /* also behind other words: srun bash -c */
    bool scattered; /* its options may stand behind arguments */
};

static const struct evaluator EVALUATORS[] = {
    {"eval", NULL, CODE_ALL, false, false},    {"let", NULL, CODE_ALL, false, false},
    {"read", NULL, CODE_ALL, false, false},    {"unset", NULL, CODE_ALL, false, false},
    {"mapfile", NULL, CODE_ALL, false, false}, {"readarray", NULL, CODE_ALL, false, false},
    {"getopts", NULL, CODE_ALL, false, false}, {"trap", NULL, CODE_NEXT, false, false},
    {"declare", "in", CODE_ALL, false, false}, {"typeset", "in", CODE_ALL, false, false},
    {"local", "in", CODE_ALL, false, false},   {"printf", "v", CODE_NEXT, false, false},
    {"wait", "p", CODE_NEXT, false, false},    {"test", "v", CODE_NEXT, false, true},
    {"[", "v", CODE_NEXT, false, true},        {"sh", "c", CODE_NEXT, true, false},
    {"bash", "c", CODE_NEXT, true, false},     {"dash", "c", CODE_NEXT, true, false},
    {"ksh", "c", CODE_NEXT, true, false},      {"zsh", "c", CODE_NEXT, true, false},
};

static const struct evaluator *find_evaluator(const struct shell_word *word)
{
    for (size_t i = 0; i < sizeof EVALUATORS / sizeof EVALUATORS[0]; i++) {
        if (word_is(word, EVALUATORS[i].name)) {
            return &EVALUATORS[i];
        }
    }
    return NULL;
}

static bool is_option(const struct shell_word *word)
{
    return word->size > 1 && (word->text[0] == '-' || word->text[0] == '+');
}

static bool has_letter(const struct shell_word *word, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        if (memchr(word->text, *letters, word->size)) {
            return true;
        }
    }
    return false;
}

/* What the word just read makes of the words behind it. */
static enum shell_code code_after_word(struct shell_frame *frame)
{
    const struct shell_word *word = &frame->word;
    const struct evaluator *found = find_evaluator(word);
    if (frame->code == CODE_ALL) {
        return CODE_ALL;
    }
    if (found && (found->anywhere || frame->at_command)) {
        frame->evaluator = found;
        return found->letters ? CODE_OPTIONS : found->effect;
    }
    if (frame->code == CODE_NONE || frame->code == CODE_OPTION_VALUE) {
        return frame->code == CODE_NONE ? CODE_NONE : CODE_OPTIONS;
    }
    const struct evaluator *evaluator = frame->evaluator;
    if (!is_option(word)) {
        return evaluator->scattered && frame->code == CODE_OPTIONS ? CODE_OPTIONS : CODE_NONE;
    }
    if (word->size > SHELL_WORD_MAX || word->text[1] == '-' || frame->code == CODE_NEXT) {
        return frame->code;
    }
    if (has_letter(word, evaluator->letters)) {
        return evaluator->effect;
    }
    char last = word->text[word->size - 1];
    return evaluator->anywhere && (last == 'o' || last == 'O') ? CODE_OPTION_VALUE : CODE_OPTIONS;
}

/* Whether the word just read leaves the next one to be the command's name. */
static bool is_before_command(const struct shell_frame *frame)
{
    static const char *const words[] = {"if",    "then", "else", "elif",    "do",      "while",
                                        "until", "!",    "time", "command", "builtin", "coproc"};
    const struct shell_word *word = &frame->word;
    if (word_is(word, "{")) {
        return true;
    }
    if (!frame->at_command) {
        return false;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (word_is(word, words[i])) {
            return true;
        }
    }
    return !word->solid || word->assigns || is_option(word);
}

/* The word is over. `case` is counted wherever it stands (one too many only leads to a doubt);
 * `esac` only where both shells must take it for the reserved word. */
void shell_word_end(struct shell_lex *lex)
{
    struct shell_frame *frame = shell_top(lex);
    struct shell_word *word = &frame->word;
    if (!word->begun) {
        return;
    }
    if (word_is(word, "case")) {
        frame->cases++;
    } else if (word_is(word, "esac") && word->pure && frame->separated && !frame->test) {
        frame->cases -= frame->cases > 0;
    } else if (word_is(word, "[[")) {
        frame->test = true;
    } else if (word_is(word, "]]") && word->pure) {
        frame->test = false;
    } else if (word_is(word, "alias")) {
        shell_lex_doubt(lex, "an alias can change how the text is read");
    }
    if (word->subscript > 0) {
        shell_lex_doubt(lex, "a [ without its ] in a word, which bash may take for a subscript");
    }
    if (!frame->redirect) {
        frame->code = code_after_word(frame);
        frame->at_command = is_before_command(frame);
    }
    frame->redirect = false;
    frame->duplicate = false;
    frame->separated = false;
    shell_word_reset(word);
}

void shell_command_end(struct shell_lex *lex, bool separated)
{
    shell_word_end(lex);
    struct shell_frame *frame = shell_top(lex);
    frame->code = CODE_NONE;
    frame->redirect = false;
    frame->duplicate = false;
    frame->separated = separated;
    frame->at_command = true;
}
