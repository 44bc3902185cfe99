/* perm.h - a random permutation of [0, count) in O(1) memory.
 *
 * For each key a bijection that looks random, computed one element at a time: nothing of size
 * `count` is ever built. Up to 256 elements it is a keyed Fisher-Yates shuffle (every order equally
 * likely), above that a Feistel network over the next power of four with cycle walking. Pure, and
 * the same on every machine; any thread. Not for secrets.
 */
#ifndef RECIPE_PERM_H
#define RECIPE_PERM_H

#include <stdint.h>

#define PERM_COUNT_MAX (UINT64_C(1) << 63)

/* Where element `index` goes. 1 <= count <= PERM_COUNT_MAX, index < count. About 0.1 us above 256
 * elements (at most a few times that when the walk is long), up to 0.6 us below. */
uint64_t perm_at(uint64_t count, uint64_t key, uint64_t index);

/* The index that goes to `image`: perm_inverse(n, k, perm_at(n, k, i)) == i. */
uint64_t perm_inverse(uint64_t count, uint64_t key, uint64_t image);

#endif
