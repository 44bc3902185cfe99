/* expr.h - conditions on parameters: the language of `when:` (and of constraints).
 *
 *     optimizer == sgd and (layers > 2 or not dropout)
 *     model in [resnet50, "vit b"]        batch * workers <= 4096
 *
 * From loosest to tightest: or; and; not; one comparison (== != < <= > >=, `in [..]`, `not in
 * [..]`); + -; * /; unary -; and then numbers, 'quoted' or "quoted" text, true, false, parentheses
 * and words. A word that names a parameter is its value, any other word is text. Names may contain
 * hyphens, so subtraction needs spaces. Every comparison must mention a parameter: one that cannot
 * vary is a slip of the pen. (In YAML, a condition inside { } that has brackets of its own must be
 * quoted: when: "model in [a, b]".)
 *
 * Numbers compare as numbers, texts bytewise; values of different kinds are equal when they are
 * written alike ("64" and 64) and are never less or greater. A comparison with an absent parameter,
 * with arithmetic on what is not a number or with x / 0 is false, whatever the operator. A value
 * alone is a condition too: true, a number other than 0, or a text that is not empty.
 *
 * Also accepted in place of text: a mapping {optimizer: sgd, layers: [2, 3]}, which holds when
 * every named parameter equals its value or is one of its values.
 *
 * A condition is compiled once into a flat program; evaluating it allocates nothing and cannot
 * fail. It lives in the arena, is read-only, and may be used by any thread.
 */
#ifndef RECIPE_EXPR_H
#define RECIPE_EXPR_H

#include "base/arena.h"
#include "recipe/diag.h"
#include "recipe/value.h"
#include "recipe/yaml.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    EXPR_TEXT_MAX = 4096, /* bytes of a condition */
    EXPR_DEPTH_MAX = 64,  /* not and unary minus inside one another; parentheses count twice */
    EXPR_OPS_MAX = 2048,  /* steps of the compiled program */
};

/* What a name stands for during one evaluation. */
struct expr_value {
    enum value_kind kind; /* ABSENT, TEXT, NUMBER or BOOL */
    double number;        /* NUMBER: its value; BOOL: 0 or 1 */
    const char *text;     /* as written; NULL for the result of arithmetic */
    size_t size;
};

struct expr;

/* Compiles `when`. Names resolve to their positions in names[0..count). Returns NULL with at least
 * one diagnosis, placed inside the text. */
struct expr *expr_compile(struct arena *arena, const struct ynode *when, const char *const *names,
                          size_t name_count, struct diag_list *diags);

/* True when it holds; params has one entry for each name, of which only mentioned ones are read. */
bool expr_holds(const struct expr *expr, const struct expr_value *params);

bool expr_mentions(const struct expr *expr, size_t param);
size_t expr_op_count(const struct expr *expr); /* what one evaluation costs, in steps */

/* A value as expr_holds wants it; FILES count as text. Borrows the text. */
struct expr_value expr_value_of(const struct value *value);

#endif
