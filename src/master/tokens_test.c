#include "master/tokens.h"

#include "base/rng.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_a_token_is_known_by_its_text_alone(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct err err = {0};
    char first[TOKEN_CHARS + 1];
    char second[TOKEN_CHARS + 1];
    assert_int_equal(tokens_add(&tokens, "ann", TOKEN_READER, 5, first, &err), ERR_OK);
    assert_int_equal(tokens_add(&tokens, "bob", TOKEN_ADMIN, 6, second, &err), ERR_OK);
    assert_int_equal(strlen(first), TOKEN_CHARS);
    assert_memory_equal(first, "drv_", 4);
    assert_string_equal(tokens_check(&tokens, first)->name, "ann");
    assert_string_equal(tokens_check(&tokens, second)->name, "bob");
    assert_null(tokens_check(&tokens, ""));
    assert_null(tokens_check(&tokens, "ann"));
    first[10] = first[10] == 'x' ? 'y' : 'x';
    assert_null(tokens_check(&tokens, first));
    second[TOKEN_CHARS - 1] = '\0';
    assert_null(tokens_check(&tokens, second));
    tokens_release(&tokens);
}

static void test_names_are_held_to_their_rules(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct err err = {0};
    char text[TOKEN_CHARS + 1];
    char longest[TOKEN_NAME_MAX + 2];
    memset(longest, 'a', sizeof longest);
    longest[TOKEN_NAME_MAX + 1] = '\0';
    assert_int_equal(tokens_add(&tokens, longest, TOKEN_USER, 0, text, &err), ERR_INVALID);
    longest[TOKEN_NAME_MAX] = '\0';
    assert_int_equal(tokens_add(&tokens, longest, TOKEN_USER, 0, text, &err), ERR_OK);
    assert_int_equal(tokens_add(&tokens, longest, TOKEN_USER, 0, text, &err), ERR_EXISTS);
    static const char *const bad[] = {"", ".", "..", ".a", "a b", "a\nb", "a/b", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(tokens_add(&tokens, bad[i], TOKEN_USER, 0, text, &err), ERR_INVALID);
    }
    tokens_release(&tokens);
}

static void test_a_document_gives_the_same_tokens_back(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct tokens copy = {0};
    struct err err = {0};
    char texts[20][TOKEN_CHARS + 1];
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(tokens_add(&tokens, name, (enum token_role)(1 + i % 3), i, texts[i], &err),
                         ERR_OK);
    }
    assert_true(tokens_remove(&tokens, "t7"));
    assert_false(tokens_remove(&tokens, "t7"));
    AUTO_STR struct str document = {0};
    tokens_write(&tokens, &document);
    assert_null(strstr(str_text(&document), "drv_"));
    assert_int_equal(tokens_read(&copy, str_text(&document), document.size, &err), ERR_OK);
    assert_int_equal(copy.count, 19);
    for (int i = 0; i < 20; i++) {
        const struct token *token = tokens_check(&copy, texts[i]);
        assert_int_equal(token == NULL, i == 7);
        assert_true(!token || token->role == (enum token_role)(1 + i % 3));
        assert_true(!token || token->created_ms == i);
    }
    assert_int_equal(tokens_count_role(&copy, TOKEN_READER), 7);
    tokens_release(&tokens);
    tokens_release(&copy);
}

static void test_damaged_documents_are_refused_whole(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct err err = {0};
    char text[TOKEN_CHARS + 1];
    struct rng rng = {.state = 20261115};
    print_message("seed %" PRIu64 "\n", rng.state);
    assert_int_equal(tokens_add(&tokens, "ann", TOKEN_READER, 5, text, &err), ERR_OK);
    AUTO_STR struct str document = {0};
    tokens_write(&tokens, &document);
    for (int i = 0; i < 2000; i++) {
        struct tokens copy = {0};
        AUTO_STR struct str bad = {0};
        str_add_bytes(&bad, str_text(&document), document.size);
        bad.text[rng_below(&rng, bad.size)] ^= (char)(1 + rng_below(&rng, 255));
        enum err_code code = tokens_read(&copy, str_text(&bad), bad.size, &err);
        assert_true(code == ERR_OK || (code == ERR_CORRUPT && copy.count == 0));
        tokens_release(&copy);
    }
    struct tokens copy = {0};
    assert_int_equal(tokens_read(&copy, "", 0, &err), ERR_CORRUPT);
    assert_int_equal(tokens_read(&copy, "drover-tokens 2\n", 16, &err), ERR_CORRUPT);
    tokens_release(&tokens);
}

static void test_there_is_a_limit(void **state)
{
    (void)state;
    struct tokens tokens = {0};
    struct err err = {0};
    char text[TOKEN_CHARS + 1];
    for (int i = 0; i <= TOKENS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        enum err_code code = tokens_add(&tokens, name, TOKEN_USER, 0, text, &err);
        assert_int_equal(code, i < TOKENS_MAX ? ERR_OK : ERR_QUOTA);
    }
    tokens_release(&tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_token_is_known_by_its_text_alone),
        cmocka_unit_test(test_names_are_held_to_their_rules),
        cmocka_unit_test(test_a_document_gives_the_same_tokens_back),
        cmocka_unit_test(test_damaged_documents_are_refused_whole),
        cmocka_unit_test(test_there_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
