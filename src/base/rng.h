/* rng.h - randomness that is the same on every machine.
 *
 * Two forms. rng_mix is a pure function of its arguments (a counter-based generator): task 7's draw
 * of parameter "lr" needs no state and no order. struct rng is a stream for jitter, simulation and
 * tests. Neither is for secrets.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

/* 64 well-mixed bits of (key, a, b). A permutation of a for fixed key and b = 0. */
uint64_t rng_mix(uint64_t key, uint64_t a, uint64_t b);

/* 64 bits of a name, to use as a or b above; seeded by key. */
uint64_t rng_hash_bytes(uint64_t key, const void *bytes, size_t size);

uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit); /* uniform in [0, limit), limit > 0 */
double rng_unit(struct rng *rng);                    /* uniform in [0, 1), 53 bits */

/* Bits to a double in [0, 1) and in (0, 1): 53 bits, never rounded up to 1. */
double rng_unit_of(uint64_t bits);
double rng_open_unit_of(uint64_t bits);

/* A seed from the operating system; the only call here that is not deterministic. */
uint64_t rng_seed_from_system(void);

#endif
