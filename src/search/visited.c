#include "base/mem.h"
#include "search/search_state.h"

#include <math.h>
#include <string.h>

enum { SCAN_MAX = 1 << 16, FEISTEL_ROUNDS = 6 };

/* Settled points are equal if their bits are; NaN (absent) equals itself. */
static uint64_t hash_point(const struct search *search, const double *point)
{
    uint64_t hash = search->seed;
    for (size_t i = 0; i < search->space.count; i++) {
        double x = isnan(point[i]) ? -1 : point[i];
        uint64_t bits = 0;
        memcpy(&bits, &x, sizeof bits);
        hash = rng_mix(hash, bits, i + 1);
    }
    return hash;
}

static bool same_point(const struct search *search, const double *a, const double *b)
{
    for (size_t i = 0; i < search->space.count; i++) {
        bool same = isnan(a[i]) ? isnan(b[i]) : a[i] == b[i];
        if (!same) {
            return false;
        }
    }
    return true;
}

static void insert(struct search *search, size_t trial)
{
    size_t mask = search->visited_size - 1;
    size_t at = hash_point(search, search_point(search, trial)) & mask;
    while (search->visited[at]) {
        at = (at + 1) & mask;
    }
    search->visited[at] = (uint32_t)trial + 1;
    search->visited_count++;
}

static void grow(struct search *search)
{
    uint32_t *old = search->visited;
    size_t old_size = search->visited_size;
    search->visited_size = old_size ? old_size * 2 : 64;
    search->visited = mem_array(search->visited_size, sizeof search->visited[0]);
    search->visited_count = 0;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i] && search->states[old[i] - 1] != TRIAL_GONE) {
            insert(search, old[i] - 1);
        }
    }
    free(old);
}

void visited_add(struct search *search, size_t trial)
{
    if ((search->visited_count + 1) * 2 > search->visited_size) {
        grow(search);
    }
    insert(search, trial);
}

bool visited_has(const struct search *search, const double *point)
{
    if (search->visited_size == 0) {
        return false;
    }
    size_t mask = search->visited_size - 1;
    for (size_t at = hash_point(search, point) & mask; search->visited[at]; at = (at + 1) & mask) {
        size_t trial = search->visited[at] - 1;
        if (search->states[trial] != TRIAL_GONE &&
            same_point(search, point, search_point(search, trial))) {
            return true;
        }
    }
    return false;
}

/* A permutation of [0, count) from the seed, by a Feistel network on a slightly larger power of
 * four; numbers that fall outside are sent through again until they do not. */
static uint64_t permute(uint64_t seed, uint64_t count, uint64_t index)
{
    unsigned half = 1;
    while (half < 32 && UINT64_C(1) << (2 * half) < count) {
        half++;
    }
    uint64_t mask = (UINT64_C(1) << half) - 1;
    do {
        uint64_t left = index >> half;
        uint64_t right = index & mask;
        for (uint64_t round = 0; round < FEISTEL_ROUNDS; round++) {
            uint64_t next = left ^ (rng_mix(seed, right, round + 1) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

enum err_code visited_scan(struct search *search, double *point)
{
    if (search->rank_count == UINT64_MAX) {
        return ERR_AGAIN;
    }
    uint64_t key = rng_mix(search->seed, 0x5ca9, 0);
    struct rng rng = search_stream(search, 0x5ca9);
    for (size_t step = 0; step < SCAN_MAX; step++, search->cursor++) {
        if (search->cursor >= search->rank_count) {
            return ERR_NOT_FOUND;
        }
        uint64_t rank = permute(key, search->rank_count, search->cursor);
        if (domain_unrank(&search->space, search->levels, rank, point)) {
            search_settle(search, point, &rng);
            if (search_is_open(search, point)) {
                return ERR_OK;
            }
        }
    }
    return ERR_AGAIN;
}
