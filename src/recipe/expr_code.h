/* expr_code.h - the program that a condition is compiled to; only for expr.c and expr_parse.c.
 *
 * A stack machine: operands push, operators replace what they take by their result. Without
 * recursion, the stack's bound is known when compiling.
 */
#ifndef RECIPE_EXPR_CODE_H
#define RECIPE_EXPR_CODE_H

#include "recipe/expr.h"

/* Each pair of parentheses (two levels of depth) keeps at most a left side for or, and, comparison,
 * + and *, and for `in` the answer so far. */
enum { EXPR_STACK_MAX = 6 * (EXPR_DEPTH_MAX / 2 + 2) };

enum expr_op_code {
    OP_CONSTANT,
    OP_PARAM,
    OP_NEGATE,
    OP_ADD,
    OP_SUBTRACT,
    OP_MULTIPLY,
    OP_DIVIDE,
    OP_EQUAL,
    OP_NOT_EQUAL,
    OP_LESS,
    OP_LESS_EQUAL,
    OP_GREATER,
    OP_GREATER_EQUAL,
    OP_MEMBER, /* x, found, y: found becomes found or x == y; takes y only */
    OP_IN,     /* x, found */
    OP_NOT_IN,
    OP_AND,
    OP_OR,
    OP_NOT,
};

struct expr_op {
    enum expr_op_code code;
    size_t param;            /* OP_PARAM */
    struct expr_value value; /* OP_CONSTANT */
};

struct expr {
    struct expr_op *ops;
    size_t count;
};

#endif
