#include "base/rng.h"

#include "base/check.h"

#include <string.h>
#include <sys/random.h>

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection with good avalanche. */
static uint64_t scramble(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 31;
    return x;
}

uint64_t rng_mix(uint64_t key, uint64_t a, uint64_t b)
{
    uint64_t x = scramble(a + 0x9e3779b97f4a7c15u + scramble(key));
    return scramble(x ^ (scramble(b + 0xd1b54a32d192ed03u) - scramble(0xd1b54a32d192ed03u)));
}

uint64_t rng_hash_bytes(uint64_t key, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint64_t hash = scramble(key ^ 0x2545f4914f6cdd1du) + size;
    while (size > 0) {
        uint64_t word = 0;
        size_t step = size < 8 ? size : 8;
        for (size_t i = 0; i < step; i++) {
            word |= (uint64_t)at[i] << (8 * i);
        }
        hash = scramble(hash ^ word) * 0x9e3779b97f4a7c15u + step;
        at += step;
        size -= step;
    }
    return scramble(hash);
}

uint64_t rng_next(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return scramble(rng->state);
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    CHECK(limit > 0);
    uint64_t reject_below = (0 - limit) % limit;
    uint64_t bits = rng_next(rng);
    while (bits < reject_below) {
        bits = rng_next(rng);
    }
    return bits % limit;
}

double rng_unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double rng_open_unit_of(uint64_t bits)
{
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

double rng_unit(struct rng *rng)
{
    return rng_unit_of(rng_next(rng));
}

uint64_t rng_seed_from_system(void)
{
    uint64_t seed = 0;
    CHECK(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    return seed;
}
