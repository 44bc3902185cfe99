#include "master/stores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_a_list_comes_back_as_it_was_written(void **state)
{
    (void)state;
    static const char text[] =
        "[{\"name\":\"a\",\"store\":\"file:///x\"},"
        "{\"name\":\"b\",\"store\":\"s3://b/p\",\"endpoint\":\"http://h:9000\","
        "\"region\":\"r\",\"addressing\":\"path\"}]";
    struct stores stores;
    struct str out = {0};
    assert_int_equal(stores_parse(text, &stores, NULL), ERR_OK);
    assert_int_equal(stores.count, 2);
    assert_string_equal(stores_find(&stores, "b")->region, "r");
    assert_string_equal(stores_find(&stores, "a")->endpoint, "");
    assert_null(stores_find(&stores, "c"));
    stores_add_json(&stores, &out);
    assert_string_equal(str_text(&out), text);
    str_release(&out);
    stores_release(&stores);
    assert_int_equal(stores_parse("", &stores, NULL), ERR_OK);
    stores_add_json(&stores, &out);
    assert_string_equal(str_text(&out), "");
    str_release(&out);
}

static void test_what_is_no_such_list_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x",
        "{}",
        "[1]",
        "[{\"name\":\"a\"}]",
        "[{\"store\":\"s3://x\"}]",
        "[{\"name\":\"a\",\"store\":\"ftp://x\"}]",
        "[{\"name\":\"a b\",\"store\":\"s3://x\"}]",
        "[{\"name\":\"a\",\"store\":\"s3://x\\n\"}]",
        "[{\"name\":\"a\",\"store\":\"s3://x\",\"endpoint\":\"--help\"}]",
        "[{\"name\":\"a\",\"store\":\"s3://x\",\"addressing\":\"odd\"}]",
        "[{\"name\":\"a\",\"store\":\"s3://x\"},{}]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stores stores;
        struct err err = {0};
        assert_int_equal(stores_parse(bad[i], &stores, &err), ERR_INVALID);
        assert_int_equal(stores.count, 0);
        assert_true(err.text[0] != '\0');
    }
}

static void test_a_volume_without_an_address_is_told_with_its_place(void **state)
{
    (void)state;
    static const char text[] = "volumes: {a: known, b: file:///x}\n"
                               "experiments: {t: {command: x, volumes: {c: other@v1}}}\n";
    struct diag_list diags = {.file = "r.yaml"};
    struct stores stores;
    struct str out = {0};
    struct recipe *recipe = recipe_parse("r.yaml", text, strlen(text), NULL, 0, &diags);
    assert_non_null(recipe);
    assert_int_equal(stores_parse("[{\"name\":\"known\",\"store\":\"file:///y\"}]", &stores, NULL),
                     ERR_OK);
    assert_int_equal(stores_check(&stores, recipe, &diags, NULL), ERR_INVALID);
    diag_print(&diags, &out);
    assert_string_equal(str_text(&out),
                        "r.yaml:2:44: volume 'c': nothing says where 'other' is; drover submit "
                        "sends that along, or write its address (file:///..., s3://...)\n");
    str_release(&out);
    diag_release(&diags);
    stores_release(&stores);
    recipe_destroy(recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_comes_back_as_it_was_written),
        cmocka_unit_test(test_what_is_no_such_list_is_refused),
        cmocka_unit_test(test_a_volume_without_an_address_is_told_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
