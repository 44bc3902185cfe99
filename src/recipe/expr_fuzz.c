/* Conditions from arbitrary text: compile, and evaluate what compiles. */
#include "recipe/expr.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b", "opt", "lr-x", "gone"};
    static const struct expr_value params[] = {
        {.kind = VALUE_NUMBER, .number = 3, .text = "3", .size = 1},
        {.kind = VALUE_BOOL, .number = 1, .text = "true", .size = 4},
        {.kind = VALUE_TEXT, .text = "sgd", .size = 3},
        {.kind = VALUE_NUMBER, .number = 0.1, .text = "0.1", .size = 3},
        {.kind = VALUE_ABSENT},
    };
    struct arena arena = {0};
    struct diag_list diags = {.file = "fuzz"};
    char *text = arena_strndup(&arena, (const char *)data, size);
    struct ynode node = {.kind = YNODE_SCALAR,
                         .type = YTYPE_TEXT,
                         .line = 1,
                         .column = 1,
                         .text = text,
                         .size = strlen(text)};
    struct expr *expr = expr_compile(&arena, &node, names, sizeof names / sizeof names[0], &diags);
    CHECK((expr == NULL) == (diags.count > 0));
    if (expr) {
        (void)expr_holds(expr, params);
    }
    diag_release(&diags);
    arena_release(&arena);
    return 0;
}
