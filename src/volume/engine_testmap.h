/* engine_testmap.h - for tests: the map under an engine, in one of two makes.
 *
 * engine_plain_map.c is a sorted array with map.h's functions that says ERR_AGAIN at random;
 * engine_real_map.c is the map itself over runs kept in memory. A test is linked with one of them.
 */
#ifndef VOLUME_ENGINE_TESTMAP_H
#define VOLUME_ENGINE_TESTMAP_H

#include "volume/engine.h"
#include "volume/map.h"

#include <stdbool.h>
#include <stdint.h>

struct testmap;

/* again: of a hundred calls, how many find that something is missing (plain); 0 or how small the
 * cache is (real). */
struct testmap *testmap_create(uint64_t seed, unsigned again);
void testmap_destroy(struct testmap *testmap);
struct map *testmap_map(struct testmap *testmap);
/* After ERR_AGAIN: supplies what is wanted. */
void testmap_supply(struct testmap *testmap);
/* How often the map has been changed (plain; 0 in the real one). */
uint64_t testmap_changes(const struct testmap *testmap);
/* Takes a checkpoint by engine_freeze, and calls each for all that is in it and below it. */
void testmap_checkpoint(struct testmap *testmap, struct engine *engine, map_each_fn each,
                        void *context);

#endif
