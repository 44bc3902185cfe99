#include "base/check.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "recipe/expr.h"
#include "recipe/expr_code.h"
#include "recipe/expr_lex.h"

#include <string.h>

struct compiler {
    struct arena *arena;
    const struct ynode *node;
    const char *const *names;
    size_t name_count;
    struct diag_list *diags;
    bool failed; /* one diagnosis per condition: the rest would be guesses */
    size_t at;
    struct expr_token token; /* the next one, not yet taken */
    struct expr_op *ops;
    size_t op_count;
    size_t op_cap;
    int depth;
};

/* What has been learned about a part of the text. */
struct part {
    bool varies;            /* mentions a parameter */
    bool is_text;           /* a lone quoted text or word */
    struct expr_token word; /* where it started */
};

static struct part parse_or(struct compiler *c);

/* Adds a diagnosis at an offset of the source, the first time. */
#define FAIL(c, offset, ...)                                                                       \
    do {                                                                                           \
        if (!(c)->failed) {                                                                        \
            (c)->failed = true;                                                                    \
            diag_add((c)->diags, (c)->node->line, (c)->node->column + (int)(offset), __VA_ARGS__); \
        }                                                                                          \
    } while (0)

/* Moves to the next token. */
static void advance(struct compiler *c)
{
    c->at = expr_lex(c->node->text, c->at, &c->token);
    if (c->token.kind == TOKEN_BAD) {
        FAIL(c, c->token.at, "%s", c->token.text);
    }
}

static bool token_is(const struct expr_token *token, enum expr_token_kind kind, const char *text)
{
    return token->kind == kind && token->size == strlen(text) &&
           memcmp(token->text, text, token->size) == 0;
}

static bool take_symbol(struct compiler *c, const char *symbol)
{
    bool found = token_is(&c->token, TOKEN_SYMBOL, symbol);
    if (found) {
        advance(c);
    }
    return found;
}

static bool take_word(struct compiler *c, const char *word)
{
    bool found = token_is(&c->token, TOKEN_WORD, word);
    if (found) {
        advance(c);
    }
    return found;
}

static void emit(struct compiler *c, struct expr_op op)
{
    if (c->op_count == EXPR_OPS_MAX) {
        FAIL(c, 0, "the condition is too long");
        return;
    }
    VEC_PUSH(c->ops, c->op_count, c->op_cap) = op;
}

static void emit_code(struct compiler *c, enum expr_op_code code)
{
    emit(c, (struct expr_op){.code = code});
}

static bool find_name(const struct compiler *c, const char *text, size_t size, size_t *out)
{
    for (size_t i = 0; i < c->name_count; i++) {
        if (strlen(c->names[i]) == size && memcmp(c->names[i], text, size) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void emit_constant(struct compiler *c, const struct value *value)
{
    emit(c, (struct expr_op){.code = OP_CONSTANT, .value = expr_value_of(value)});
}

static struct value value_of_token(struct compiler *c, enum value_kind kind)
{
    return (struct value){.kind = kind,
                          .text = arena_strndup(c->arena, c->token.text, c->token.size),
                          .size = c->token.size};
}

/* `batch-1` reads as one word; when its beginning is a parameter, subtraction was meant. */
static void refuse_glued_minus(struct compiler *c)
{
    const struct expr_token *token = &c->token;
    size_t param = 0;
    for (size_t i = 0; i < token->size; i++) {
        if (token->text[i] == '-' && find_name(c, token->text, i, &param)) {
            FAIL(c, token->at + i, "write spaces around the minus sign, or quote the text");
        }
    }
}

static void parse_word(struct compiler *c, struct part *part)
{
    struct expr_op op = {.code = OP_PARAM};
    if (find_name(c, c->token.text, c->token.size, &op.param)) {
        part->varies = true;
        emit(c, op);
        return;
    }
    bool truth = token_is(&c->token, TOKEN_WORD, "true");
    if (truth || token_is(&c->token, TOKEN_WORD, "false")) {
        struct value value = value_of_token(c, VALUE_BOOL);
        emit_constant(c, &value);
        return;
    }
    refuse_glued_minus(c);
    part->is_text = true;
    struct value value = value_of_token(c, VALUE_TEXT);
    emit_constant(c, &value);
}

static void parse_number(struct compiler *c)
{
    struct value value = value_of_token(c, VALUE_NUMBER);
    double number = 0;
    if (!value_number(&value, &number)) {
        FAIL(c, c->token.at, "'%.*s' is not a number; quote it if it is text",
             (int)(value.size < 40 ? value.size : 40), value.text);
    }
    emit_constant(c, &value);
}

static bool is_keyword(const struct expr_token *token)
{
    return token_is(token, TOKEN_WORD, "and") || token_is(token, TOKEN_WORD, "or") ||
           token_is(token, TOKEN_WORD, "not") || token_is(token, TOKEN_WORD, "in");
}

static struct part parse_primary(struct compiler *c)
{
    struct part part = {.word = c->token};
    if (take_symbol(c, "(")) {
        part = parse_or(c);
        if (!take_symbol(c, ")")) {
            FAIL(c, c->token.at, "a closing ) is missing here");
        }
        return part;
    }
    switch (c->token.kind) {
    case TOKEN_NUMBER:
        parse_number(c);
        break;
    case TOKEN_QUOTED: {
        struct value value = value_of_token(c, VALUE_TEXT);
        part.is_text = true;
        emit_constant(c, &value);
        break;
    }
    case TOKEN_WORD:
        if (!is_keyword(&c->token)) {
            parse_word(c, &part);
            break;
        }
        /* fall through */
    case TOKEN_END:
    case TOKEN_SYMBOL:
    case TOKEN_BAD:
        FAIL(c, c->token.at, "a parameter, number or text is missing here");
        return part;
    }
    advance(c);
    return part;
}

static bool enter(struct compiler *c)
{
    if (c->depth == EXPR_DEPTH_MAX) {
        FAIL(c, c->token.at, "the condition is nested too deep");
    }
    c->depth++;
    return !c->failed;
}

static struct part parse_unary(struct compiler *c)
{
    struct part part = {.word = c->token};
    if (enter(c)) {
        if (take_symbol(c, "-")) {
            part.varies = parse_unary(c).varies;
            emit_code(c, OP_NEGATE);
        } else {
            part = parse_primary(c);
        }
    }
    c->depth--;
    return part;
}

static void refuse_text(struct compiler *c, const struct part *part)
{
    if (part->is_text) {
        FAIL(c, part->word.at, "'%.*s' is neither a number nor a parameter",
             (int)(part->word.size < 40 ? part->word.size : 40), part->word.text);
    }
}

/* One level of left-to-right arithmetic: + and - over * and / over unary. */
static struct part parse_arithmetic(struct compiler *c, bool sums)
{
    const char *first = sums ? "+" : "*";
    const char *second = sums ? "-" : "/";
    struct part left = sums ? parse_arithmetic(c, false) : parse_unary(c);
    while (!c->failed) {
        enum expr_op_code code = sums ? OP_ADD : OP_MULTIPLY;
        if (!take_symbol(c, first)) {
            if (!take_symbol(c, second)) {
                break;
            }
            code = sums ? OP_SUBTRACT : OP_DIVIDE;
        }
        struct part right = sums ? parse_arithmetic(c, false) : parse_unary(c);
        refuse_text(c, &left);
        refuse_text(c, &right);
        left.varies = left.varies || right.varies;
        left.is_text = false;
        emit_code(c, code);
    }
    return left;
}

/* A part that stands for a truth must be able to vary. */
static void require_varying(struct compiler *c, const struct part *part)
{
    if (part->varies || c->failed) {
        return;
    }
    if (part->is_text && part->word.kind == TOKEN_WORD) {
        char *word = arena_strndup(c->arena, part->word.text, part->word.size);
        const char *near = suggest_nearest(word, c->names, c->name_count);
        FAIL(c, part->word.at,
             near ? "'%.40s' is not a parameter (did you mean '%s'?)"
                  : "'%.40s' is not a parameter",
             word, near);
    } else {
        FAIL(c, part->word.at, "this part mentions no parameter, so it can never change");
    }
}

static void parse_members(struct compiler *c, struct part *left, bool negated)
{
    if (!take_symbol(c, "[")) {
        FAIL(c, c->token.at, "a list in [ ] must follow 'in'");
        return;
    }
    static const struct value no = {.kind = VALUE_BOOL, .text = "false", .size = 5};
    emit_constant(c, &no);
    do {
        struct part item = parse_arithmetic(c, true);
        left->varies = left->varies || item.varies;
        emit_code(c, OP_MEMBER);
    } while (!c->failed && take_symbol(c, ","));
    if (!take_symbol(c, "]")) {
        FAIL(c, c->token.at, "a closing ] is missing here");
    }
    emit_code(c, negated ? OP_NOT_IN : OP_IN);
}

static bool take_comparison(struct compiler *c, enum expr_op_code *out)
{
    static const char *const symbols[] = {"==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        if (take_symbol(c, symbols[i])) {
            *out = (enum expr_op_code)(OP_EQUAL + i);
            return true;
        }
    }
    return false;
}

static struct part parse_comparison(struct compiler *c)
{
    struct part left = parse_arithmetic(c, true);
    enum expr_op_code code = OP_EQUAL;
    size_t at = c->token.at;
    bool negated = take_word(c, "not");
    if (take_word(c, "in")) {
        parse_members(c, &left, negated);
        require_varying(c, &left);
    } else if (negated) {
        FAIL(c, at, "'and', 'or' or 'not in' is expected here");
    } else if (take_comparison(c, &code)) {
        struct part right = parse_arithmetic(c, true);
        left.varies = left.varies || right.varies;
        left.is_text = left.is_text && left.word.kind == TOKEN_WORD; /* the likelier slip */
        require_varying(c, &left);
        emit_code(c, code);
        if (take_comparison(c, &code)) {
            FAIL(c, c->token.at, "comparisons cannot be chained; join two with 'and'");
        }
    } else {
        return left;
    }
    left.is_text = false;
    return left;
}

static struct part parse_not(struct compiler *c)
{
    struct part part = {.word = c->token};
    if (enter(c)) {
        if (take_word(c, "not")) {
            part = parse_not(c);
            require_varying(c, &part);
            emit_code(c, OP_NOT);
        } else {
            part = parse_comparison(c);
        }
    }
    c->depth--;
    return part;
}

static struct part parse_and(struct compiler *c)
{
    struct part left = parse_not(c);
    while (!c->failed && take_word(c, "and")) {
        require_varying(c, &left);
        left = parse_not(c);
        require_varying(c, &left);
        emit_code(c, OP_AND);
    }
    return left;
}

static struct part parse_or(struct compiler *c)
{
    struct part left = parse_and(c);
    while (!c->failed && take_word(c, "or")) {
        require_varying(c, &left);
        left = parse_and(c);
        require_varying(c, &left);
        emit_code(c, OP_OR);
    }
    return left;
}

static void compile_text(struct compiler *c)
{
    if (c->node->size > EXPR_TEXT_MAX) {
        FAIL(c, 0, "the condition is longer than %d bytes", EXPR_TEXT_MAX);
        return;
    }
    advance(c);
    struct part whole = parse_or(c);
    if (c->token.kind != TOKEN_END) {
        FAIL(c, c->token.at, "the condition should end here, or go on with 'and' or 'or'");
    }
    require_varying(c, &whole);
}

static void compile_member(struct compiler *c, const struct ynode *item)
{
    if (item->kind != YNODE_SCALAR || item->type == YTYPE_NULL) {
        diag_add(c->diags, item->line, item->column, "a value to compare with must be a scalar");
        c->failed = true;
        return;
    }
    struct value value = value_of_scalar(c->arena, item);
    emit_constant(c, &value);
}

/* One `name: value` or `name: [values]` of the mapping form. */
static void compile_pair(struct compiler *c, const struct ynode *key, const struct ynode *wanted)
{
    struct expr_op op = {.code = OP_PARAM};
    if (!find_name(c, key->text, key->size, &op.param)) {
        const char *near = suggest_nearest(key->text, c->names, c->name_count);
        diag_add(c->diags, key->line, key->column,
                 near ? "'%.40s' is not a parameter (did you mean '%s'?)"
                      : "'%.40s' is not a parameter",
                 key->text, near);
        c->failed = true;
        return;
    }
    emit(c, op);
    if (wanted->kind != YNODE_SEQUENCE) {
        compile_member(c, wanted);
        emit_code(c, OP_EQUAL);
        return;
    }
    static const struct value no = {.kind = VALUE_BOOL, .text = "false", .size = 5};
    emit_constant(c, &no);
    for (size_t i = 0; i < wanted->count; i++) {
        compile_member(c, wanted->items[i]);
        emit_code(c, OP_MEMBER);
    }
    emit_code(c, OP_IN);
}

static void compile_mapping(struct compiler *c)
{
    for (size_t i = 0; i < c->node->count; i++) {
        compile_pair(c, c->node->keys[i], c->node->items[i]);
        if (i > 0) {
            emit_code(c, OP_AND);
        }
    }
}

struct expr *expr_compile(struct arena *arena, const struct ynode *when, const char *const *names,
                          size_t name_count, struct diag_list *diags)
{
    struct compiler c = {
        .arena = arena, .node = when, .names = names, .name_count = name_count, .diags = diags};
    if (when->kind == YNODE_MAPPING && when->count > 0) {
        compile_mapping(&c);
    } else if (when->kind == YNODE_SCALAR && when->type != YTYPE_NULL) {
        compile_text(&c);
    } else {
        FAIL(&c, 0, "a condition is text like 'optimizer == sgd' or a mapping {optimizer: sgd}");
    }
    struct expr *expr = NULL;
    if (!c.failed) {
        expr = arena_alloc(arena, sizeof *expr);
        expr->count = c.op_count;
        expr->ops = arena_alloc(arena, c.op_count * sizeof *expr->ops);
        memcpy(expr->ops, c.ops, c.op_count * sizeof *expr->ops);
    }
    AUTO_FREE void *scratch = c.ops;
    (void)scratch;
    return expr;
}
