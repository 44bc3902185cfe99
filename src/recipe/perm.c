#include "recipe/perm.h"

#include "base/check.h"
#include "base/rng.h"

enum {
    SMALL_MAX = 256, /* below this a Feistel network has too few states to look random */
    ROUNDS = 8,
};

struct feistel {
    uint64_t round_keys[ROUNDS];
    uint64_t half_mask;
    int half_bits;
};

static uint64_t key_of(uint64_t key, uint64_t purpose)
{
    return rng_mix(key, purpose, 0x7065726d); /* apart from other uses of the same key */
}

/* Multiply-and-shift: the bias is below 2^-56 for the small limits used here. */
static uint64_t below(uint64_t bits, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)bits * limit) >> 64);
}

/* The shuffled order of [0, count) from position 0 up to `last`, all that a caller needs. */
static void shuffle(uint8_t *order, uint64_t count, uint64_t key, uint64_t last)
{
    struct rng rng = {.state = key_of(key, count)};
    for (uint64_t i = 0; i < count; i++) {
        order[i] = (uint8_t)i;
    }
    for (uint64_t i = 0; i <= last; i++) {
        uint64_t other = i + below(rng_next(&rng), count - i);
        uint8_t taken = order[other];
        order[other] = order[i];
        order[i] = taken;
    }
}

static struct feistel feistel_of(uint64_t count, uint64_t key)
{
    struct feistel net = {.half_bits = 1};
    while (net.half_bits < 32 && (count - 1) >> (2 * net.half_bits) != 0) {
        net.half_bits++;
    }
    net.half_mask = (UINT64_C(1) << net.half_bits) - 1;
    struct rng rng = {.state = key_of(key, count)};
    for (int i = 0; i < ROUNDS; i++) {
        net.round_keys[i] = rng_next(&rng);
    }
    return net;
}

/* Multiplying spreads a half's bits upwards, so the top bits are the mixed ones. */
static uint64_t round_of(const struct feistel *net, int round, uint64_t half)
{
    uint64_t x = (half ^ net->round_keys[round]) * 0x9e3779b97f4a7c15u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return (x >> 32) & net->half_mask;
}

static uint64_t feistel_forward(const struct feistel *net, uint64_t x)
{
    uint64_t left = x >> net->half_bits;
    uint64_t right = x & net->half_mask;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t next = left ^ round_of(net, i, right);
        left = right;
        right = next;
    }
    return left << net->half_bits | right;
}

static uint64_t feistel_backward(const struct feistel *net, uint64_t x)
{
    uint64_t left = x >> net->half_bits;
    uint64_t right = x & net->half_mask;
    for (int i = ROUNDS - 1; i >= 0; i--) {
        uint64_t last = right ^ round_of(net, i, left);
        right = left;
        left = last;
    }
    return left << net->half_bits | right;
}

uint64_t perm_at(uint64_t count, uint64_t key, uint64_t index)
{
    CHECK(count <= PERM_COUNT_MAX);
    CHECK(index < count);
    if (count <= SMALL_MAX) {
        uint8_t order[SMALL_MAX];
        shuffle(order, count, key, index);
        return order[index];
    }
    /* Cycle walking: stepping until back inside [0, count) permutes it, and since the domain is at
     * most four times as large, four steps are expected at worst. */
    struct feistel net = feistel_of(count, key);
    uint64_t x = feistel_forward(&net, index);
    while (x >= count) {
        x = feistel_forward(&net, x);
    }
    return x;
}

uint64_t perm_inverse(uint64_t count, uint64_t key, uint64_t image)
{
    CHECK(count <= PERM_COUNT_MAX);
    CHECK(image < count);
    if (count <= SMALL_MAX) {
        uint8_t order[SMALL_MAX];
        shuffle(order, count, key, count - 1);
        uint64_t index = 0;
        while (order[index] != image) {
            index++;
        }
        return index;
    }
    struct feistel net = feistel_of(count, key);
    uint64_t x = feistel_backward(&net, image);
    while (x >= count) {
        x = feistel_backward(&net, x);
    }
    return x;
}
