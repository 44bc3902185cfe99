#include "base/sha256.h"

#include <stdbool.h>
#include <string.h>

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static inline uint32_t load_big(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void hash_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t words[64];
    for (size_t i = 0; i < 16; i++) {
        words[i] = load_big(block + 4 * i);
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15];
        uint32_t b = words[i - 2];
        words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    uint32_t v[8];
    memcpy(v, state, sizeof v);
#pragma GCC unroll 8
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4];
        uint32_t a = v[0];
        uint32_t first = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                         ((e & v[5]) ^ (~e & v[6])) + ROUND[i] + words[i];
        uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                          ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        v[7] = v[6];
        v[6] = v[5];
        v[5] = e;
        v[4] = v[3] + first;
        v[3] = v[2];
        v[2] = v[1];
        v[1] = a;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void sha256_blocks_plain(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        hash_block(state, blocks + i * SHA256_BLOCK_BYTES);
    }
}

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

static bool cpu_has_sha(void)
{
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_SSSE3) || !(c & bit_SSE4_1)) {
        return false;
    }
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & (1U << 29));
}

/* Four rounds, and the schedule's next four words made from the last sixteen: w[0] becomes word
 * i + 16. The instructions keep the state as two vectors, ABEF and CDGH. */
__attribute__((target("sha,sse4.1,ssse3"))) static inline void
four_rounds(__m128i *abef, __m128i *cdgh, __m128i words, int round)
{
    __m128i sum = _mm_add_epi32(words, _mm_loadu_si128((const __m128i *)&ROUND[round]));
    *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
    *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
}

__attribute__((target("sha,sse4.1,ssse3"))) static inline __m128i next_words(const __m128i w[4])
{
    __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
    return _mm_sha256msg2_epu32(sum, w[3]);
}

__attribute__((target("sha,sse4.1,ssse3"))) static void
blocks_sha(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i abcd = _mm_loadu_si128((const __m128i *)&state[0]);
    __m128i efgh = _mm_loadu_si128((const __m128i *)&state[4]);
    __m128i cdab = _mm_shuffle_epi32(abcd, 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(efgh, 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, cdab, 0xf0);

    for (size_t n = 0; n < count; n++, blocks += SHA256_BLOCK_BYTES) {
        __m128i abef_before = abef;
        __m128i cdgh_before = cdgh;
        __m128i w[4];
        for (size_t i = 0; i < 4; i++) {
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(blocks + 16 * i)), swap);
        }
#pragma GCC unroll 16
        for (int round = 0; round < 64; round += 4) {
            four_rounds(&abef, &cdgh, w[0], round);
            __m128i next = round < 48 ? next_words(w) : w[0];
            w[0] = w[1];
            w[1] = w[2];
            w[2] = w[3];
            w[3] = next;
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }

    __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)&state[0], _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)&state[4], _mm_alignr_epi8(dchg, feba, 8));
}

/* Asking the processor traps in a virtual machine, so the answer is kept; threads that ask at the
 * same time find the same one. */
static void hash_blocks(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    static _Atomic int kept; /* 0: not asked yet, 1: no, 2: yes */
    if (kept == 0) {
        kept = cpu_has_sha() ? 2 : 1;
    }
    if (kept == 2) {
        blocks_sha(state, blocks, count);
    } else {
        sha256_blocks_plain(state, blocks, count);
    }
}

#else

static void hash_blocks(uint32_t state[8], const uint8_t *blocks, size_t count)
{
    sha256_blocks_plain(state, blocks, count);
}

#endif

void sha256_init(struct sha256 *hash)
{
    static const uint32_t START[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    *hash = (struct sha256){0};
    memcpy(hash->state, START, sizeof START);
}

void sha256_update(struct sha256 *hash, const void *bytes, size_t size)
{
    if (size == 0) {
        return;
    }
    const uint8_t *from = bytes;
    size_t held = hash->size_bytes % SHA256_BLOCK_BYTES;
    hash->size_bytes += size;
    if (held > 0) {
        size_t part = SHA256_BLOCK_BYTES - held < size ? SHA256_BLOCK_BYTES - held : size;
        memcpy(hash->block + held, from, part);
        if (held + part < SHA256_BLOCK_BYTES) {
            return;
        }
        hash_blocks(hash->state, hash->block, 1);
        from += part;
        size -= part;
    }
    hash_blocks(hash->state, from, size / SHA256_BLOCK_BYTES);
    memcpy(hash->block, from + size / SHA256_BLOCK_BYTES * SHA256_BLOCK_BYTES,
           size % SHA256_BLOCK_BYTES);
}

void sha256_final(struct sha256 *hash, uint8_t out[SHA256_BYTES])
{
    uint8_t tail[2 * SHA256_BLOCK_BYTES] = {0x80};
    size_t held = hash->size_bytes % SHA256_BLOCK_BYTES;
    size_t pad = (held < 56 ? 56 : 120) - held;
    uint64_t bits = hash->size_bytes * 8;
    for (int i = 0; i < 8; i++) {
        tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    }
    sha256_update(hash, tail, pad + 8);
    for (int i = 0; i < SHA256_BYTES; i++) {
        out[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    }
}

void sha256_of(const void *bytes, size_t size, uint8_t out[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, bytes, size);
    sha256_final(&hash, out);
}

void sha256_hex(const uint8_t digest[SHA256_BYTES], char out[SHA256_HEX_CHARS + 1])
{
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    out[SHA256_HEX_CHARS] = '\0';
}

void hmac_sha256(const void *key, size_t key_size, const void *bytes, size_t size,
                 uint8_t out[SHA256_BYTES])
{
    uint8_t pad[SHA256_BLOCK_BYTES] = {0};
    if (key_size > sizeof pad) {
        sha256_of(key, key_size, pad);
    } else if (key_size > 0) {
        memcpy(pad, key, key_size);
    }
    struct sha256 hash;
    for (size_t i = 0; i < sizeof pad; i++) {
        pad[i] ^= 0x36;
    }
    sha256_init(&hash);
    sha256_update(&hash, pad, sizeof pad);
    sha256_update(&hash, bytes, size);
    sha256_final(&hash, out);

    for (size_t i = 0; i < sizeof pad; i++) {
        pad[i] ^= 0x36 ^ 0x5c;
    }
    sha256_init(&hash);
    sha256_update(&hash, pad, sizeof pad);
    sha256_update(&hash, out, SHA256_BYTES);
    sha256_final(&hash, out);
    explicit_bzero(pad, sizeof pad);
    explicit_bzero(&hash, sizeof hash);
}
