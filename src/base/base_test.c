#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/suggest.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_an_error_holds_code_and_text(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_STALE, "node %d", 7), ERR_STALE);
    assert_string_equal(err.text, "node 7");
    assert_int_equal(err_set(&err, ERR_INVALID, "in r.yaml: %s", err.text), ERR_INVALID);
    assert_string_equal(err.text, "in r.yaml: node 7");
    assert_int_equal(err_errno(&err, ENOSPC, "/x"), ERR_QUOTA);
    assert_string_equal(err.text, "/x: No space left on device");
    assert_int_equal(err_set(NULL, ERR_IO, "nobody listens"), ERR_IO);
}

static void test_numbers_read_back_the_same(void **state)
{
    (void)state;
    struct rng rng = {.state = 1};
    for (int i = 0; i < 20000; i++) {
        union {
            uint64_t bits;
            double number;
        } any = {.bits = rng_next(&rng)};
        if (!isfinite(any.number)) {
            continue;
        }
        struct str text = {0};
        str_add_double(&text, any.number);
        assert_true(strtod(str_text(&text), NULL) == any.number);
        str_clear(&text);
        str_add_i64(&text, (int64_t)any.bits);
        assert_true(strtoll(str_text(&text), NULL, 10) == (long long)any.bits);
        str_release(&text);
    }
}

static void test_json_is_valid_whatever_the_bytes(void **state)
{
    (void)state;
    struct str out = {0};
    struct json json = {.out = &out};
    json_object(&json);
    json_key(&json, "a\"b");
    json_bytes(&json, "x\xff\0y\n\xc3\xa9", 7);
    json_key(&json, "n");
    json_array(&json);
    json_double(&json, 0.1);
    json_double(&json, NAN);
    json_i64(&json, -3);
    json_end(&json);
    json_key(&json, "t");
    json_bool(&json, true);
    json_end(&json);
    assert_string_equal(
        str_text(&out),
        "{\"a\\\"b\":\"x\xef\xbf\xbd\\u0000y\\n\xc3\xa9\",\"n\":[0.1,null,-3],\"t\":true}");
    str_release(&out);
}

static void test_utf8_rejects_overlong_surrogate_and_beyond(void **state)
{
    (void)state;
    assert_int_equal(json_utf8_length("\xc0\x80", 2), 0);
    assert_int_equal(json_utf8_length("\xed\xa0\x80", 3), 0);
    assert_int_equal(json_utf8_length("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(json_utf8_length("\xe2\x82", 2), 0);
    assert_int_equal(json_utf8_length("\xe2\x82\xac", 3), 3);
}

static void test_every_character_is_written_as_valid_utf8(void **state)
{
    (void)state;
    AUTO_STR struct str text = {0};
    for (uint32_t character = 1; character <= 0x10ffff; character++) {
        if (character == 0xd800) {
            character = 0xe000; /* surrogates are no characters */
        }
        str_clear(&text);
        str_add_utf8(&text, character);
        assert_int_equal(json_utf8_length(str_text(&text), text.size), text.size);
    }
    str_clear(&text);
    str_add_utf8(&text, 0xe9);
    str_add_utf8(&text, 0x20ac);
    str_add_utf8(&text, 0x1f411);
    assert_string_equal(str_text(&text), "é€🐑");
}

static void test_hex_digits_have_values(void **state)
{
    (void)state;
    static const char digits[] = "0123456789abcdefABCDEF";
    for (int c = 0; c < 256; c++) {
        const char *found = c ? strchr(digits, c) : NULL;
        int at = found ? (int)(found - digits) : -1;
        assert_int_equal(str_hex_digit((char)c), at < 16 ? at : at - 6);
    }
}

static void test_mix_is_a_permutation_and_spreads(void **state)
{
    (void)state;
    uint64_t seen_or = 0;
    uint64_t seen_and = UINT64_MAX;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t bits = rng_mix(42, i, 0);
        seen_or |= bits;
        seen_and &= bits;
        for (uint64_t j = 0; j < i; j++) {
            assert_true(rng_mix(42, j, 0) != bits);
        }
    }
    assert_true(seen_or == UINT64_MAX);
    assert_true(seen_and == 0);
    /* pinned: the same bits on every machine and in every version */
    assert_true(rng_mix(1, 2, 3) == UINT64_C(0x0eb6c5bf3432d366));
    assert_true(rng_hash_bytes(1, "lr", 2) == UINT64_C(0x8c016f0f099d986b));
}

static void test_below_is_within_and_even(void **state)
{
    (void)state;
    struct rng rng = {.state = 9};
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        counts[rng_below(&rng, 7)]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(counts[i], 9500, 10500);
    }
    assert_true(rng_unit_of(UINT64_MAX) < 1.0);
    assert_true(rng_open_unit_of(0) > 0.0);
    assert_true(rng_open_unit_of(UINT64_MAX) < 1.0);
}

static void test_times_are_written_for_people(void **state)
{
    (void)state;
    struct str out = {0};
    clock_add_rfc3339(&out, 1763199356123);
    assert_string_equal(str_text(&out), "2025-11-15T09:35:56.123Z");
    const struct {
        int64_t ms;
        const char *text;
    } cases[] = {{850, "850ms"},      {12345, "12.3s"},     {245000, "4m05s"},
                 {11220000, "3h07m"}, {187200000, "2d04h"}, {-1, "0ms"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        str_clear(&out);
        clock_add_duration(&out, cases[i].ms);
        assert_string_equal(str_text(&out), cases[i].text);
    }
    str_release(&out);
}

static void test_the_nearest_word_is_suggested(void **state)
{
    (void)state;
    static const char *const keys[] = {"command", "samples", "workers", "env"};
    assert_string_equal(suggest_nearest("sampels", keys, 4), "samples");
    assert_string_equal(suggest_nearest("Command", keys, 4), "command");
    assert_string_equal(suggest_nearest("comand", keys, 4), "command");
    assert_null(suggest_nearest("zebra", keys, 4));
    assert_null(suggest_nearest("x", keys, 4));
}

static void test_files_are_replaced_whole_and_trees_removed(void **state)
{
    (void)state;
    char folder[] = "/tmp/base_test.XXXXXX";
    assert_non_null(mkdtemp(folder));
    char path[128];
    snprintf(path, sizeof path, "%s/a/b/c", folder);
    struct err err = {0};
    assert_int_equal(io_make_dirs(path, &err), ERR_OK);
    assert_int_equal(io_make_dirs(path, &err), ERR_OK);
    snprintf(path, sizeof path, "%s/a/b/file", folder);
    assert_int_equal(io_replace_file(path, "hello", 5, 0600, &err), ERR_OK);
    assert_int_equal(io_make_dirs(path, &err), ERR_EXISTS);
    struct str text = {0};
    assert_int_equal(io_read_file(path, 4, &text, &err), ERR_QUOTA);
    assert_int_equal(text.size, 0);
    assert_int_equal(io_read_file(path, 5, &text, &err), ERR_OK);
    assert_string_equal(str_text(&text), "hello");
    str_release(&text);
    assert_int_equal(io_remove_tree(folder, &err), ERR_OK);
    assert_int_equal(io_remove_tree(folder, &err), ERR_OK);
    assert_int_equal(access(folder, F_OK), -1);
}

static void test_an_arena_gives_aligned_zeroed_memory(void **state)
{
    (void)state;
    struct arena arena = {0};
    for (size_t size = 0; size < 40000; size += 777) {
        unsigned char *memory = arena_alloc(&arena, size);
        assert_true((uintptr_t)memory % 16 == 0);
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(memory[i], 0);
        }
        memset(memory, 0xff, size);
    }
    assert_string_equal(arena_strdup(&arena, "kept"), "kept");
    arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    for (int round = 0; round < 3; round++) {
        unsigned char *again = arena_alloc(&arena, 1000);
        for (size_t i = 0; i < 1000; i++) {
            assert_int_equal(again[i], 0);
        }
        memset(again, 0xff, 1000);
        arena_reset(&arena);
    }
    arena_release(&arena);
    arena_reset(&arena);
    arena_release(&arena);
}

static void test_a_growing_array_keeps_its_items(void **state)
{
    (void)state;
    int *items = NULL;
    size_t count = 0;
    size_t cap = 0;
    for (int i = 0; i < 1000; i++) {
        VEC_PUSH(items, count, cap) = i;
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_holds_code_and_text),
        cmocka_unit_test(test_numbers_read_back_the_same),
        cmocka_unit_test(test_json_is_valid_whatever_the_bytes),
        cmocka_unit_test(test_utf8_rejects_overlong_surrogate_and_beyond),
        cmocka_unit_test(test_every_character_is_written_as_valid_utf8),
        cmocka_unit_test(test_hex_digits_have_values),
        cmocka_unit_test(test_mix_is_a_permutation_and_spreads),
        cmocka_unit_test(test_below_is_within_and_even),
        cmocka_unit_test(test_times_are_written_for_people),
        cmocka_unit_test(test_the_nearest_word_is_suggested),
        cmocka_unit_test(test_files_are_replaced_whole_and_trees_removed),
        cmocka_unit_test(test_an_arena_gives_aligned_zeroed_memory),
        cmocka_unit_test(test_a_growing_array_keeps_its_items),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
