/* volume_life.h - for volume_model_test.c: an owner, and the changes it makes to volume and model.
 */
#ifndef VOLUME_VOLUME_LIFE_H
#define VOLUME_VOLUME_LIFE_H

#include "volume/volume_world.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(world, condition)                                                                   \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "seed %llu: %s:%d: %s\n", (unsigned long long)(world)->seed, __FILE__, \
                    __LINE__, #condition);                                                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct life {
    struct world *world;
    struct volume *volume;
    struct mortal mortal;
    uint64_t generation;
    uint64_t folders[WORLD_FOLDERS];
    int64_t mono_ms;
    struct volume_order *order; /* one that is carried out beside everything else; or NULL */
};

/* Has another owner come since? Then the model is that one's, and this one's changes go nowhere. */
bool life_is_stale(const struct life *life);
/* Finds the folders, or makes them; false: the volume has failed. */
bool life_find_folders(struct life *life);

/* Each makes one change, of the volume and of the model. False: the volume has failed. */
bool life_write(struct life *life); /* a part of a file, which is made if it is not there */
bool life_truncate(struct life *life);
bool life_remove(struct life *life);
bool life_rename(struct life *life);
bool life_release(struct life *life); /* files that were held, so that commits have them */
bool life_remove_all(struct life *life);

/* Collects garbage until there is no more; then everything in the store must be referred to. The
 * number of packs that are left. */
size_t life_check_leftovers(struct life *life);

static inline uint64_t below(struct world *world, uint64_t limit)
{
    return rng_below(&world->rng, limit);
}

#endif
