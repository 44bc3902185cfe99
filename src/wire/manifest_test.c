#include "base/mem.h"
#include "base/rng.h"
#include "wire/manifest.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static enum err_code parse(const char *lines)
{
    AUTO_STR struct str text = {0};
    struct manifest *manifest = NULL;
    struct err err = {0};
    str_addf(&text, "drover-code 1\n%s", lines);
    enum err_code code = manifest_parse(text.text, text.size, &manifest, &err);
    if (code == ERR_OK) {
        AUTO_STR struct str again = {0};
        manifest_begin(&again);
        for (size_t i = 0; i < manifest->count; i++) {
            manifest_add(&again, &manifest->entries[i]);
        }
        assert_string_equal(str_text(&again), str_text(&text));
    }
    manifest_destroy(manifest);
    return code;
}

static void there_is_one_text_for_one_tree(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool is_valid;
    } cases[] = {
        {"", true},
        {"644 3 " HASH " a\n", true},
        {"644 3 " HASH " a", false},
        {"644 0 - a\n755 0 - b\n", true},
        {"644 0 - b\n644 0 - a\n", false},
        {"644 0 - a\n644 0 - a\n", false},
        {"644 03 " HASH " a\n", false},
        {"644 3 - a\n", false},
        {"644 0 " HASH " a\n", false},
        {"644 4194305 " HASH " a\n", false},
        {"644 4194305 " HASH "," HASH " a\n", true},
        {"600 0 - a\n", false},
        {"link - ../x%20y a\n", true},
        {"link - x a\n644 0 - a-b\n644 0 - a/b\n", false},
        {"dir - - a\n644 0 - a/b\n", true},
        {"644 0 - a\n644 0 - a.c\n644 0 - a/b\n", false},
        {"644 0 - ../a\n", false},
        {"644 0 - /a\n", false},
        {"644 0 - a%2Fb\n", false},
        {"644 0 - a%0Ab\n", true},
        {"644 0 - a%0ab\n", false},
        {"644 0 - a%41\n", false},
        {"644 0 - a%00\n", false},
        {"644 0 - a%\n", false},
        {"644 0 - a%2\n", false},
        {"644  0 - a\n", false},
        {"644 0 -\n", false},
        {"644 99999999999999 - a\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool is_valid = parse(cases[i].lines) == ERR_OK;
        if (is_valid != cases[i].is_valid) {
            print_message("%s", cases[i].lines);
        }
        assert_int_equal(is_valid, cases[i].is_valid);
    }
    assert_int_equal(manifest_parse("drover-code 2\n", 14, NULL, NULL), ERR_INVALID);
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct manifest_entry *)a)->path,
                  ((const struct manifest_entry *)b)->path);
}

static void random_manifests_read_back_the_same(void **state)
{
    (void)state;
    uint64_t seed = rng_seed_from_system() % 1000000;
    print_message("seed %" PRIu64 "\n", seed);
    struct rng rng = {seed};
    struct arena arena = {0};
    struct manifest_entry entries[100] = {0};
    for (size_t i = 0; i < 100; i++) {
        char path[40] = {0};
        for (size_t k = 0; k < 1 + rng_below(&rng, 10); k++) {
            char c = (char)(1 + rng_below(&rng, 255));
            path[k] = c == '/' ? '_' : c;
        }
        snprintf(path + strlen(path), 20, "%zu", i);
        entries[i].path = arena_strdup(&arena, path);
        entries[i].type = (enum manifest_type)rng_below(&rng, 3);
        if (entries[i].type == MANIFEST_LINK) {
            entries[i].target = arena_strdup(&arena, path);
        } else if (entries[i].type == MANIFEST_FILE) {
            entries[i].size = rng_below(&rng, 3) == 0 ? 0 : rng_below(&rng, 20 << 20);
            entries[i].chunk_count =
                (size_t)((entries[i].size + CODE_CHUNK_BYTES - 1) / CODE_CHUNK_BYTES);
            uint8_t *hashes = arena_alloc(&arena, entries[i].chunk_count * SHA256_BYTES + 1);
            for (size_t k = 0; k < entries[i].chunk_count * SHA256_BYTES; k++) {
                hashes[k] = (uint8_t)rng_next(&rng);
            }
            entries[i].chunks = (const uint8_t(*)[SHA256_BYTES])hashes;
        }
    }
    qsort(entries, 100, sizeof entries[0], compare_entries);
    AUTO_STR struct str text = {0};
    for (size_t i = 0; i < 100; i++) {
        manifest_add(&text, &entries[i]);
    }
    assert_int_equal(parse(str_text(&text)), ERR_OK);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_one_text_for_one_tree),
        cmocka_unit_test(random_manifests_read_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
