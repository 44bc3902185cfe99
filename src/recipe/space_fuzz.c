/* Whole spaces from arbitrary YAML: parse, and draw from what parses. The first byte chooses how:
 * as a document with `parameters` and `zip`, or as the text of one parameter's values or range. */
#include "base/json.h"
#include "recipe/space.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw_some(struct space *space)
{
    struct value values[SPACE_PARAMS_MAX];
    struct arena scratch = {0};
    uint64_t count = 0;
    for (size_t i = 0; i < space_param_count(space); i++) {
        const char *const *patterns = NULL;
        size_t pattern_count = 0;
        uint64_t batch = 0;
        if (space_files(space, i, &patterns, &pattern_count, &batch)) {
            space_bind_files(space, i, 3, "m");
        }
    }
    if (space_grid_size(space, &count, NULL) != ERR_OK || count == 0) {
        return;
    }
    const uint64_t indexes[] = {0, 1, count / 2, count - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof indexes / sizeof indexes[0]; i++) {
        AUTO_STR struct str out = {0};
        struct json json = {.out = &out};
        space_draw(space, 7, true, indexes[i], values, &scratch);
        if (indexes[i] < count) {
            space_draw(space, 7, false, indexes[i], values, &scratch);
        }
        json_array(&json);
        for (size_t j = 0; j < space_param_count(space); j++) {
            CHECK(strlen(values[j].text) == values[j].size);
            value_add_json(&json, &values[j]);
        }
        json_end(&json);
    }
    arena_release(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct arena arena = {0};
    struct diag_list diags = {.file = "fuzz"};
    AUTO_STR struct str text = {0};
    str_add(&text, data[0] == 'v'   ? "parameters: {a: "
                   : data[0] == 'r' ? "parameters: {a: {range: "
                                    : "");
    str_add_bytes(&text, data + 1, size - 1);
    str_add(&text, data[0] == 'v' ? "}" : data[0] == 'r' ? "}}" : "");
    const struct ynode *root = yaml_parse(&arena, text.text, text.size, &diags);
    if (root && root->kind == YNODE_MAPPING) {
        size_t before = diags.count;
        struct space *space =
            space_parse(&arena, yaml_get(root, "parameters"), yaml_get(root, "zip"), &diags);
        CHECK((space == NULL) == (diags.count > before));
        if (space) {
            draw_some(space);
        }
    }
    diag_release(&diags);
    arena_release(&arena);
    return 0;
}
