/* engine_world.h - for tests: an engine and the model that it is compared with. */
#ifndef VOLUME_ENGINE_WORLD_H
#define VOLUME_ENGINE_WORLD_H

#include "base/rng.h"
#include "volume/engine.h"
#include "volume/engine_model.h"
#include "volume/engine_testmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stored { /* an extent as the store has it, decoded */
    struct container container;
    uint64_t offset;
    uint32_t stored_size, whole;
    uint8_t *bytes;
};

struct world {
    struct rng rng;
    struct testmap *testmap;
    struct engine *engine;
    struct model model;
    struct engine_caller caller;
    struct stored *stored;
    size_t stored_count, stored_cap;
    uint64_t pack_number; /* the pack being filled */
    uint64_t pack_added;  /* packs below this one have been added */
    uint64_t seq;
    uint64_t live_was[4096]; /* of packs, at the last commit */
    uint64_t dead_was[4096];
    struct testmap *replay;
};

struct world *world_create(uint64_t seed);
void world_destroy(struct world *world);
uint64_t world_below(struct world *world, uint64_t limit); /* random */
const struct stored *world_stored(const struct world *world, const struct extent *extent);
void world_compare_attr(const struct engine_attr *attr, const struct model_file *file);
/* Compares everything, takes what is pending, and at times compares what a checkpoint holds and
 * what a new owner would find with the commits so far. */
void world_commit(struct world *world);

/* Repeats an operation until it does not say that something is missing; until then it must have
 * changed nothing. */
#define UNTIL_DONE(testmap_, code, call)                                                           \
    do {                                                                                           \
        uint64_t before_ = testmap_changes(testmap_);                                              \
        while (((code) = (call)) == ERR_AGAIN) {                                                   \
            assert_int_equal(testmap_changes(testmap_), before_);                                  \
            testmap_supply(testmap_);                                                              \
        }                                                                                          \
    } while (0)

/* The same for an operation of the random test, which sometimes gives it up and does another. */
#define UNTIL_DONE_OR_TIRED(world, code, call)                                                     \
    do {                                                                                           \
        uint64_t before_ = testmap_changes((world)->testmap);                                      \
        while (((code) = (call)) == ERR_AGAIN) {                                                   \
            assert_int_equal(testmap_changes((world)->testmap), before_);                          \
            testmap_supply((world)->testmap);                                                      \
            if (world_below(world, 4) == 0) {                                                      \
                return;                                                                            \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#endif
