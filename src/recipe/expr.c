#include "recipe/expr.h"

#include "base/check.h"
#include "recipe/expr_code.h"

#include <math.h>
#include <string.h>

struct expr_value expr_value_of(const struct value *value)
{
    struct expr_value out = {.kind = value->kind, .text = value->text, .size = value->size};
    switch (value->kind) {
    case VALUE_INTEGER:
    case VALUE_NUMBER:
        out.kind = value_number(value, &out.number) ? VALUE_NUMBER : VALUE_TEXT;
        break;
    case VALUE_BOOL:
        out.number = value_is_true(value);
        break;
    case VALUE_FILES:
        out.kind = VALUE_TEXT;
        break;
    case VALUE_ABSENT:
    case VALUE_TEXT:
        break;
    }
    return out;
}

static struct expr_value of_bool(bool truth)
{
    return (struct expr_value){.kind = VALUE_BOOL, .number = truth};
}

static bool is_true(const struct expr_value *x)
{
    return x->kind == VALUE_TEXT ? x->size > 0 : x->kind != VALUE_ABSENT && x->number != 0;
}

static struct expr_value arithmetic(enum expr_op_code code, const struct expr_value *a,
                                    const struct expr_value *b)
{
    struct expr_value out = {.kind = VALUE_ABSENT};
    if (a->kind != VALUE_NUMBER || b->kind != VALUE_NUMBER) {
        return out;
    }
    double result = code == OP_ADD        ? a->number + b->number
                    : code == OP_SUBTRACT ? a->number - b->number
                    : code == OP_MULTIPLY ? a->number * b->number
                                          : a->number / b->number;
    if (isfinite(result)) {
        out.kind = VALUE_NUMBER;
        out.number = result;
    }
    return out;
}

static bool equal(const struct expr_value *a, const struct expr_value *b)
{
    if (a->kind == VALUE_ABSENT || b->kind == VALUE_ABSENT) {
        return false;
    }
    if (a->kind == b->kind && a->kind != VALUE_TEXT) {
        return a->number == b->number;
    }
    return a->text && b->text && a->size == b->size && memcmp(a->text, b->text, a->size) == 0;
}

/* Below, at or above 0 as a is less than, equal to or greater than b; false if they have no order.
 */
static bool ordered(const struct expr_value *a, const struct expr_value *b, int *out)
{
    if (a->kind == VALUE_NUMBER && b->kind == VALUE_NUMBER) {
        *out = (a->number > b->number) - (a->number < b->number);
        return true;
    }
    if (a->kind == VALUE_TEXT && b->kind == VALUE_TEXT) {
        size_t common = a->size < b->size ? a->size : b->size;
        *out = memcmp(a->text, b->text, common);
        *out = *out ? *out : (a->size > b->size) - (a->size < b->size);
        return true;
    }
    return false;
}

static bool compare(enum expr_op_code code, const struct expr_value *a, const struct expr_value *b)
{
    int order = 0;
    if (a->kind == VALUE_ABSENT || b->kind == VALUE_ABSENT) {
        return false;
    }
    if (code == OP_EQUAL || code == OP_NOT_EQUAL) {
        return equal(a, b) == (code == OP_EQUAL);
    }
    if (!ordered(a, b, &order)) {
        return false;
    }
    return code == OP_LESS         ? order < 0
           : code == OP_LESS_EQUAL ? order <= 0
           : code == OP_GREATER    ? order > 0
                                   : order >= 0;
}

/* An operator with two operands, or the last step of `in`. */
static struct expr_value binary(enum expr_op_code code, const struct expr_value *a,
                                const struct expr_value *b)
{
    switch (code) {
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
        return arithmetic(code, a, b);
    case OP_EQUAL:
    case OP_NOT_EQUAL:
    case OP_LESS:
    case OP_LESS_EQUAL:
    case OP_GREATER:
    case OP_GREATER_EQUAL:
        return of_bool(compare(code, a, b));
    case OP_IN:
    case OP_NOT_IN:
        return of_bool(a->kind != VALUE_ABSENT && is_true(b) == (code == OP_IN));
    case OP_AND:
        return of_bool(is_true(a) && is_true(b));
    case OP_OR:
        return of_bool(is_true(a) || is_true(b));
    case OP_CONSTANT:
    case OP_PARAM:
    case OP_NEGATE:
    case OP_NOT:
    case OP_MEMBER:
        break; /* not of this kind */
    }
    return (struct expr_value){.kind = VALUE_ABSENT};
}

/* Performs one operator on the stack's top and returns the new height. */
static size_t perform(enum expr_op_code code, struct expr_value *stack, size_t height)
{
    static const struct expr_value zero = {.kind = VALUE_NUMBER};
    CHECK(height >= 1);
    struct expr_value *top = &stack[height - 1];
    if (code == OP_NOT) {
        *top = of_bool(!is_true(top));
        return height;
    }
    if (code == OP_NEGATE) {
        *top = arithmetic(OP_SUBTRACT, &zero, top);
        return height;
    }
    CHECK(height >= 2);
    if (code == OP_MEMBER) {
        CHECK(height >= 3);
        top[-1] = of_bool(is_true(&top[-1]) || equal(&top[-2], top));
    } else {
        top[-1] = binary(code, &top[-1], top);
    }
    return height - 1;
}

bool expr_holds(const struct expr *expr, const struct expr_value *params)
{
    struct expr_value stack[EXPR_STACK_MAX]; /* left as it is: clearing it would cost most */
    stack[0] = (struct expr_value){.kind = VALUE_ABSENT};
    size_t height = 0;
    for (size_t i = 0; i < expr->count; i++) {
        const struct expr_op *op = &expr->ops[i];
        if (op->code == OP_CONSTANT || op->code == OP_PARAM) {
            CHECK(height < EXPR_STACK_MAX);
            stack[height++] = op->code == OP_PARAM ? params[op->param] : op->value;
        } else {
            height = perform(op->code, stack, height);
        }
    }
    CHECK(height == 1);
    return is_true(&stack[0]);
}

bool expr_mentions(const struct expr *expr, size_t param)
{
    for (size_t i = 0; i < expr->count; i++) {
        if (expr->ops[i].code == OP_PARAM && expr->ops[i].param == param) {
            return true;
        }
    }
    return false;
}

size_t expr_op_count(const struct expr *expr)
{
    return expr->count;
}
