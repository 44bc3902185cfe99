/* sha256.h - SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104).
 *
 * Uses the processor's SHA instructions where it has them, plain C elsewhere; both give the same
 * bytes. The contexts are the caller's, hold no pointers and need no release; one that hashed a
 * secret is to be wiped by its owner (hmac_sha256 wipes its own). Any thread.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum {
    SHA256_BYTES = 32,
    SHA256_HEX_CHARS = 64,
    SHA256_BLOCK_BYTES = 64,
};

struct sha256 {
    uint32_t state[8];
    uint64_t size_bytes; /* hashed so far */
    uint8_t block[SHA256_BLOCK_BYTES];
};

void sha256_init(struct sha256 *hash);
/* bytes may be NULL where size is 0. */
void sha256_update(struct sha256 *hash, const void *bytes, size_t size);
/* The context is spent; sha256_init makes it usable again. */
void sha256_final(struct sha256 *hash, uint8_t out[SHA256_BYTES]);

/* All in one call. */
void sha256_of(const void *bytes, size_t size, uint8_t out[SHA256_BYTES]);

/* Lower-case hex with a final NUL. */
void sha256_hex(const uint8_t digest[SHA256_BYTES], char out[SHA256_HEX_CHARS + 1]);

void hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                 uint8_t out[SHA256_BYTES]);

/* For the tests: hash count blocks without the SHA instructions. */
void sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t count);

#endif
