/* shell_lex.h - how a shell will read each byte of a text that has holes in it.
 *
 * The follower walks a shell text in which every hole (a placeholder) is one NUL byte, and says of
 * each hole whether it stands outside quotes, in '...', in "..." or where no quoting is safe. It
 * promises to be right for POSIX sh (dash) and for bash at once. It does not parse the shell's
 * grammar; where only the grammar, or only one of the two shells, could tell how to go on, it stops
 * with a doubt: every hole from there on has a reason against it. So a mistake here is a needless
 * refusal, never a wrong answer.
 *
 * A hole may turn out empty (an absent value), so the follower also doubts a text that would read
 * differently without the hole.
 *
 * Pure; allocates nothing; the text is borrowed.
 */
#ifndef RECIPE_SHELL_LEX_H
#define RECIPE_SHELL_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHELL_DEPTH_MAX = 64, SHELL_HEREDOC_MAX = 8, SHELL_WORD_MAX = 10 };

enum shell_place { SHELL_UNQUOTED, SHELL_SINGLE, SHELL_DOUBLE, SHELL_NOWHERE };

struct shell_hole {
    enum shell_place place;
    size_t offset;
    const char *why;   /* NULL: a value can be quoted here; else what is wrong: "is in backticks" */
    const char *doubt; /* with why: the construct that made the follower give up, or NULL */
    size_t doubt_offset;
    bool plain_word; /* unquoted, and the rest of its word is only holes, letters, digits and
                        _./:@%+,-= with no hole, letter or digit next to it and no = after it */
    bool own_word;   /* unquoted, and nothing else is in its word */
    bool glued;      /* double-quoted, right after $name: the value could lengthen the name */
};

/* --- from here to the functions: private --- */

enum shell_frame_kind {
    FRAME_TOP,
    FRAME_PAREN,    /* ( ... ) */
    FRAME_SUBST,    /* $( ... ) <( ... ) >( ... ) */
    FRAME_DOUBLE,   /* "..." */
    FRAME_SINGLE,   /* '...' */
    FRAME_ANSI,     /* $'...' */
    FRAME_BACKTICK, /* `...` */
    FRAME_BRACE,    /* ${...} */
    FRAME_ARITH,    /* $((...)) */
    FRAME_DPAREN,   /* ((...)): arithmetic in bash, two subshells in sh */
    FRAME_COMMENT,
};

/* Whether the next words of a command are code that a shell reads a second time. */
enum shell_code {
    CODE_NONE,
    CODE_OPTIONS,      /* an option may make it so */
    CODE_OPTION_VALUE, /* no, and then CODE_OPTIONS */
    CODE_NEXT,         /* the next one that is not an option */
    CODE_ALL,
};

struct evaluator; /* shell_word.c */

struct shell_word {
    char text[SHELL_WORD_MAX]; /* its last path component, without holes and quotes */
    uint8_t size;              /* SHELL_WORD_MAX + 1: longer */
    uint8_t subscript;         /* open brackets of name[... */
    bool begun;
    bool solid;   /* begun by more than holes */
    bool pure;    /* no holes, quotes, expansions or slashes */
    bool plain;   /* no quotes, expansions, or bytes that mean something */
    bool name;    /* so far letters, digits and _ (and holes) */
    bool assigns; /* has an = */
};

struct shell_frame {
    enum shell_frame_kind kind;
    enum shell_code code;
    const struct evaluator *evaluator; /* with CODE_OPTIONS, CODE_OPTION_VALUE, CODE_NEXT */
    size_t start;
    uint32_t cases;  /* words `case` less those `esac` that surely close one */
    uint32_t parens; /* open inside FRAME_ARITH and FRAME_DPAREN */
    bool array;      /* name=( ... ) */
    bool test;       /* within [[ ... ]] */
    bool at_command; /* the next word names a command */
    bool separated;  /* nothing of a command yet since ; & or newline */
    bool redirect;   /* the next word is a redirection's, */
    bool duplicate;  /* and the redirection is >& or <& */
    struct shell_word word;
};

struct shell_heredoc {
    size_t start;
    size_t size; /* of the delimiter, without its quotes */
    bool strip_tabs;
    bool quoted;
};

struct shell_lex {
    const char *text;
    size_t size;
    size_t pos;
    struct shell_frame frames[SHELL_DEPTH_MAX];
    size_t depth; /* frames in use less one */
    struct shell_heredoc heredocs[SHELL_HEREDOC_MAX];
    size_t heredoc_count; /* announced, bodies not yet over */
    size_t heredoc_index; /* whose body is being read */
    bool in_body;
    bool line_start;    /* in a body */
    bool at_hole;       /* pos is a hole already reported */
    size_t glue;        /* offset right after a $ or backslash that takes the next byte */
    size_t name_end;    /* offset right after a $name */
    size_t holes_start; /* the latest run of holes */
    size_t holes_end;
    size_t tail_end;   /* the word being read is known up to here, */
    bool tail_plain;   /* and this is what was found */
    const char *doubt; /* once set, following stops */
    size_t doubt_offset;
};

void shell_lex_init(struct shell_lex *lex, const char *text, size_t size);

/* Goes to the next hole and describes it; false at the end of the text. */
bool shell_lex_next(struct shell_lex *lex, struct shell_hole *hole);

/* After shell_lex_next returned false: NULL when the text ends with everything closed (or nobody
 * can tell, after a doubt), else what is open, and where it was opened. */
const char *shell_lex_unfinished(const struct shell_lex *lex, size_t *offset);

#endif
