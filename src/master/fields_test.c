#include "base/rng.h"
#include "master/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_fields_read_back_whatever_their_bytes(void **state)
{
    (void)state;
    struct str document = {0};
    fields_add(&document, "recipe", "a\n 5\nb\0c", 8);
    fields_add(&document, "empty", "", 0);
    fields_add_u64(&document, "seed", UINT64_MAX);
    const char *bytes = NULL;
    size_t size = 0;
    assert_true(fields_get(&document, "recipe", &bytes, &size));
    assert_int_equal(size, 8);
    assert_memory_equal(bytes, "a\n 5\nb\0c", 8);
    assert_true(fields_get(&document, "empty", &bytes, &size));
    assert_int_equal(size, 0);
    uint64_t seed = 0;
    assert_true(fields_get_u64(&document, "seed", &seed));
    assert_true(seed == UINT64_MAX);
    assert_false(fields_get(&document, "see", &bytes, &size));
    assert_false(fields_get_u64(&document, "empty", &seed));
    assert_null(fields_get_text(&document, "missing"));
    str_release(&document);
}

static void test_damaged_documents_are_refused_not_followed(void **state)
{
    (void)state;
    struct rng rng = {.state = 3};
    for (int i = 0; i < 20000; i++) {
        struct str document = {0};
        fields_add(&document, "one", "first", 5);
        fields_add(&document, "two", "second", 6);
        size_t cut = rng_below(&rng, document.size + 1);
        document.text[rng_below(&rng, document.size)] = (char)rng_next(&rng);
        document.size = cut;
        const char *bytes = NULL;
        size_t size = 0;
        if (fields_get(&document, "two", &bytes, &size)) {
            assert_true(bytes >= document.text && bytes + size <= document.text + document.size);
        }
        str_release(&document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_read_back_whatever_their_bytes),
        cmocka_unit_test(test_damaged_documents_are_refused_not_followed),
    };
    return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
