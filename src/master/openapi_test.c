/* The document is written from the table, so what is left to go wrong is: it is not JSON, it names
 * a shape that is not there, or the table itself has a mistake. */
#include "master/openapi.h"

#include "master/api.h"
#include "master/api_fake.h"
#include "recipe/yaml.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* JSON is YAML, so that the recipe's reader can be used. */
static const struct ynode *read_document(struct arena *arena)
{
    AUTO_STR struct str text = {0};
    struct diag_list diags = {.file = "openapi.json"};
    openapi_write(&text);
    const struct ynode *root = yaml_parse(arena, str_text(&text), text.size, &diags);
    AUTO_STR struct str why = {0};
    diag_print(&diags, &why);
    assert_string_equal(str_text(&why), "");
    diag_release(&diags);
    assert_non_null(root);
    return root;
}

static const struct ynode *get(const struct ynode *node, const char *key)
{
    const struct ynode *value = yaml_get(node, key);
    if (!value) {
        fail_msg("no %s", key);
    }
    return value;
}

static void test_every_route_is_in_the_document(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct ynode *paths = get(read_document(&arena), "paths");
    size_t operations = 0;
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *route = &api_routes[i];
        char method[8] = "";
        for (size_t c = 0; route->method[c]; c++) {
            method[c] = (char)tolower((unsigned char)route->method[c]);
        }
        const struct ynode *operation = get(get(paths, route->pattern), method);
        assert_string_equal(get(operation, "operationId")->text, route->id);
        assert_string_equal(get(operation, "x-drover-role")->text, token_role_name(route->role));
        size_t params = get(operation, "parameters")->count;
        for (size_t p = 0; route->params && route->params[p]; p++) {
            params--;
        }
        for (const char *at = route->pattern; (at = strchr(at, '{')) != NULL; at++) {
            params--;
        }
        assert_int_equal(params, route->takes_key + (route->stream != NULL));
    }
    for (size_t i = 0; i < paths->count; i++) {
        operations += paths->items[i]->count;
    }
    assert_int_equal(operations, api_route_count);
    arena_release(&arena);
}

static void check_refs(const struct ynode *node, const struct ynode *root)
{
    for (size_t i = 0; i < node->count; i++) {
        if (node->kind == YNODE_MAPPING && strcmp(node->keys[i]->text, "$ref") == 0) {
            const char *ref = node->items[i]->text;
            const char *name = strrchr(ref, '/') + 1;
            bool is_schema = strncmp(ref, "#/components/schemas/", 21) == 0;
            get(get(get(root, "components"), is_schema ? "schemas" : "responses"), name);
        } else {
            check_refs(node->items[i], root);
        }
    }
}

static void test_every_reference_leads_somewhere(void **state)
{
    (void)state;
    struct arena arena = {0};
    const struct ynode *root = read_document(&arena);
    check_refs(root, root);
    assert_string_equal(get(root, "openapi")->text, "3.1.0");
    arena_release(&arena);
}

static void test_the_table_has_no_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < api_route_count; i++) {
        const struct api_route *route = &api_routes[i];
        assert_true(route->answer && route->id && route->summary);
        assert_true(route->status >= 200 && route->status < 300);
        assert_true(route->schema || route->type || route->status == 204);
        assert_true(!route->is_list || route->schema);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(route->id, api_routes[j].id);
            assert_false(strcmp(route->pattern, api_routes[j].pattern) == 0 &&
                         strcmp(route->method, api_routes[j].method) == 0);
        }
    }
}

/* What the server really answers has the fields that the document says. */
static void check_answer(const struct fake_reply *reply, const char *shape_name)
{
    struct arena arena = {0};
    struct diag_list diags = {.file = "answer"};
    const struct ynode *root = yaml_parse(&arena, reply->body, reply->body_size, &diags);
    diag_release(&diags);
    assert_non_null(root);
    const struct ynode *items = yaml_get(root, "items");
    root = items && items->count > 0 && yaml_get(root, "next") ? items->items[0] : root;
    for (size_t i = 0; i < openapi_shape_count; i++) {
        const struct openapi_shape *shape = &openapi_shapes[i];
        if (strcmp(shape->name, shape_name) != 0) {
            continue;
        }
        size_t required = 0;
        for (size_t f = 0; shape->fields[f].name; f++) {
            required += shape->fields[f].type[0] != '~';
            if (shape->fields[f].type[0] != '~') {
                get(root, shape->fields[f].name);
            }
        }
        assert_int_equal(root->count, required);
        arena_release(&arena);
        return;
    }
    fail_msg("no shape %s", shape_name);
}

static void test_answers_have_the_fields_of_their_shapes(void **state)
{
    (void)state;
    struct fake *fake = fake_create();
    fake_node(fake, 1)->usage.at_ms = 1;
    check_answer(
        fake_ask(fake, &(struct fake_request){.method = "POST",
                                              .path = API_BASE "/workflows",
                                              .body = "experiments: {a: {command: 'true',"
                                                      " parameters: {x: {values: 0..9}}}}"}),
        "Submitted");
    static const struct {
        const char *path;
        const char *shape;
    } asks[] = {
        {"/healthz", "Health"},
        {API_BASE "/server", "Server"},
        {API_BASE "/workflows", "Workflow"},
        {API_BASE "/workflows/1", "Workflow"},
        {API_BASE "/workflows/newest/tasks", "Task"},
        {API_BASE "/workflows/newest/tasks/a/3", "Task"},
        {API_BASE "/nodes", "Node"},
        {API_BASE "/nodes/ant", "Node"},
        {API_BASE "/tokens", "Token"},
        {API_BASE "/nothing", "Problem"},
    };
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        check_answer(fake_get(fake, asks[i].path, ""), asks[i].shape);
    }
    check_answer(fake_get(fake, API_BASE "/usage", "node=ant"), "UsagePage");
    check_answer(fake_get(fake, API_BASE "/workflows/1/logs/search", "text=x"), "SearchPage");
    fake_destroy(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_is_in_the_document),
        cmocka_unit_test(test_every_reference_leads_somewhere),
        cmocka_unit_test(test_the_table_has_no_mistakes),
        cmocka_unit_test(test_answers_have_the_fields_of_their_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
