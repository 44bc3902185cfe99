/* Any bytes: a tree that can be flattened and changed, or a diagnosis. */
#include "base/mem.h"
#include "recipe/yaml.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void flatten_again(const struct ynode *root, const char *expected)
{
    AUTO_STR struct str again = {0};
    AUTO_STR struct str difference = {0};
    yaml_flatten(root, &again);
    CHECK(strcmp(str_text(&again), expected) == 0);
    yaml_difference(str_text(&again), expected, &difference);
    CHECK(difference.size == 0);
}

/* The bytes up to the first '=' as a path, the rest as a value. */
static void set_something(struct arena *arena, struct ynode *root, const char *text)
{
    AUTO_FREE char *path = mem_strdup(text);
    char *equals = strchr(path, '=');
    AUTO_STR struct str before = {0};
    AUTO_STR struct str after = {0};
    struct diag_list diags = {0};
    yaml_flatten(root, &before);
    if (equals) {
        *equals = '\0';
    }
    if (!yaml_set(arena, root, path, equals ? equals + 1 : "[a, {b: 1}]", &diags)) {
        CHECK(diags.count > 0);
        flatten_again(root, str_text(&before));
    } else {
        CHECK(diags.count == 0);
        yaml_flatten(root, &after);
    }
    diag_release(&diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct arena arena = {0};
    struct diag_list diags = {.file = "fuzz"};
    AUTO_STR struct str flat = {0};
    struct ynode *root = yaml_parse(&arena, (const char *)bytes, size, &diags);
    CHECK((root == NULL) == (diags.count > 0));
    if (root) {
        CHECK(root->weight.nodes <= YAML_NODES_MAX && root->weight.depth <= YAML_DEPTH_MAX);
        yaml_flatten(root, &flat);
        CHECK(flat.size <= 6 * (size_t)YAML_FLAT_MAX);
        flatten_again(root, str_text(&flat));
        AUTO_FREE char *text = mem_strndup((const char *)bytes, size);
        set_something(&arena, root, text);
    } else {
        diag_print(&diags, &flat);
    }
    diag_release(&diags);
    arena_release(&arena);
    return 0;
}
