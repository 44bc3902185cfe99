#include "base/rng.h"
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_digest(const void *bytes, size_t size, const char *hex)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_HEX_CHARS + 1];
    sha256_of(bytes, size, digest);
    sha256_hex(digest, text);
    assert_string_equal(text, hex);
}

static void the_standards_examples_hash_as_written(void **state)
{
    (void)state;
    expect_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_digest(two, strlen(two),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    size_t million = 1000000;
    char *letters = malloc(million);
    assert_non_null(letters);
    memset(letters, 'a', million);
    expect_digest(letters, million,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(letters);
}

static void the_pieces_do_not_matter(void **state)
{
    (void)state;
    enum { SIZE = 1000 };
    uint8_t bytes[SIZE];
    uint64_t seed = 20;
    struct rng rng = {.state = seed};
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)rng_next(&rng);
    }
    for (size_t size = 0; size <= SIZE; size++) {
        uint8_t whole[SHA256_BYTES];
        uint8_t pieces[SHA256_BYTES];
        sha256_of(bytes, size, whole);
        struct sha256 hash;
        sha256_init(&hash);
        for (size_t at = 0; at < size;) {
            size_t part = 1 + rng_next(&rng) % 150;
            part = part < size - at ? part : size - at;
            sha256_update(&hash, bytes + at, part);
            at += part;
        }
        sha256_final(&hash, pieces);
        assert_memory_equal(whole, pieces, SHA256_BYTES);
    }
}

/* On a machine without SHA instructions the two are the same code. */
static void the_instructions_agree_with_plain_code(void **state)
{
    (void)state;
    enum { BLOCKS = 300 };
    static uint8_t bytes[BLOCKS * SHA256_BLOCK_BYTES + 1];
    struct rng rng = {.state = 7};
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)rng_next(&rng);
    }
    for (size_t count = 0; count <= BLOCKS; count++) {
        struct sha256 hash;
        struct sha256 plain;
        sha256_init(&hash);
        plain = hash;
        sha256_update(&hash, bytes + count % 2, count * SHA256_BLOCK_BYTES);
        sha256_blocks_plain(plain.state, bytes + count % 2, count);
        assert_memory_equal(hash.state, plain.state, sizeof plain.state);
    }
}

static void expect_hmac(const void *key, size_t key_size, const char *text, const char *hex)
{
    uint8_t digest[SHA256_BYTES];
    char made[SHA256_HEX_CHARS + 1];
    hmac_sha256(key, key_size, text, strlen(text), digest);
    sha256_hex(digest, made);
    assert_string_equal(made, hex);
}

static void the_hmac_examples_come_out_as_written(void **state)
{
    (void)state;
    uint8_t key[131];
    memset(key, 0x0b, 20);
    expect_hmac(key, 20, "Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_hmac("Jefe", 4, "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    expect_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    expect_hmac(NULL, 0, "", "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_standards_examples_hash_as_written),
        cmocka_unit_test(the_pieces_do_not_matter),
        cmocka_unit_test(the_instructions_agree_with_plain_code),
        cmocka_unit_test(the_hmac_examples_come_out_as_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
