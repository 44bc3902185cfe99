#include "search/sobol.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdbool.h>

struct sobol {
    size_t dims;
    uint32_t directions[][SOBOL_BITS];
};

/* A polynomial over the two-element field, bit i the coefficient of x^i. It is primitive if the
 * powers of x run through all 2^degree - 1 others before they come back to 1. */
static bool is_primitive(uint32_t polynomial, unsigned degree)
{
    uint32_t power = 1;
    uint32_t period = 0;
    do {
        power <<= 1;
        if (power >> degree) {
            power ^= polynomial;
        }
        period++;
    } while (power != 1 && period < UINT32_C(1) << degree);
    return period == (UINT32_C(1) << degree) - 1;
}

/* The next primitive polynomial after this one, by degree, then as a number. */
static uint32_t next_primitive(uint32_t polynomial, unsigned *degree)
{
    for (;;) {
        polynomial += 2;
        if (polynomial >> (*degree + 1)) {
            (*degree)++;
            polynomial = (UINT32_C(1) << *degree) | 1;
        }
        if (is_primitive(polynomial, *degree)) {
            return polynomial;
        }
    }
}

/* First direction numbers: of low coordinates as Joe and Kuo chose them (2008), further ones by a
 * hash. Number i (from 0) must be odd and below 2^(i+1). */
static uint32_t first_number(size_t dim, unsigned i)
{
    static const uint8_t chosen[][5] = {
        {1},           {1, 3},           {1, 3, 1},       {1, 1, 1},        {1, 1, 3, 3},
        {1, 3, 5, 13}, {1, 1, 5, 5, 17}, {1, 1, 5, 5, 5}, {1, 1, 7, 11, 19}};
    if (dim - 1 < sizeof chosen / sizeof chosen[0]) {
        return chosen[dim - 1][i];
    }
    return (uint32_t)(rng_mix(0x50b01, dim, i) >> 32) % (UINT32_C(1) << i) * 2 + 1;
}

static void fill(uint32_t directions[SOBOL_BITS], size_t dim, uint32_t polynomial, unsigned degree)
{
    uint32_t numbers[SOBOL_BITS] = {0};
    for (unsigned i = 0; i < SOBOL_BITS; i++) {
        if (i < degree) {
            numbers[i] = first_number(dim, i);
        } else {
            numbers[i] = numbers[i - degree] ^ (numbers[i - degree] << degree);
            for (unsigned k = 1; k < degree; k++) {
                if (polynomial >> (degree - k) & 1) {
                    numbers[i] ^= numbers[i - k] << k;
                }
            }
        }
        directions[i] = numbers[i] << (SOBOL_BITS - 1 - i);
    }
}

struct sobol *sobol_create(size_t dims)
{
    CHECK(dims <= SOBOL_DIMS_MAX);
    struct sobol *sobol = mem_alloc(sizeof *sobol + dims * sizeof sobol->directions[0]);
    sobol->dims = dims;
    uint32_t polynomial = 1;
    unsigned degree = 1;
    for (size_t dim = 0; dim < dims; dim++) {
        if (dim == 0) {
            for (unsigned i = 0; i < SOBOL_BITS; i++) {
                sobol->directions[0][i] = UINT32_C(1) << (SOBOL_BITS - 1 - i);
            }
        } else {
            polynomial = next_primitive(polynomial, &degree);
            fill(sobol->directions[dim], dim, polynomial, degree);
        }
    }
    return sobol;
}

void sobol_destroy(struct sobol *sobol)
{
    free(sobol);
}

static uint32_t reverse_bits(uint32_t x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
    return x >> 16 | x << 16;
}

/* Each bit is flipped or not depending on all bits above it: a hash in which bits only affect
 * higher ones (Laine and Karras, 2011), on the reversed word. */
static uint32_t scramble(uint32_t x, uint32_t seed)
{
    x = reverse_bits(x);
    x += seed;
    x ^= x * 0x6c50b47cu;
    x ^= x * 0xb82f1e52u;
    x ^= x * 0xc7afe638u;
    x ^= x * 0x8d22f6e6u;
    return reverse_bits(x);
}

double sobol_at(const struct sobol *sobol, uint64_t seed, uint64_t index, size_t dim)
{
    CHECK(dim < sobol->dims);
    uint32_t bits = 0;
    uint32_t gray = (uint32_t)(index ^ index >> 1);
    for (unsigned i = 0; i < SOBOL_BITS; i++) {
        if (gray >> i & 1) {
            bits ^= sobol->directions[dim][i];
        }
    }
    uint64_t mixed = rng_mix(seed, dim, 0x50b01);
    bits = scramble(bits, (uint32_t)(mixed >> 32));
    return ((double)bits + rng_unit_of(mixed << 21)) * 0x1p-32;
}
