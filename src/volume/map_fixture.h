/* map_fixture.h - a map with the objects it has written, for its tests. Failures end the test. */
#ifndef VOLUME_MAP_FIXTURE_H
#define VOLUME_MAP_FIXTURE_H

#include "volume/map_internal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OBJECTS_MAX = 512, WANTS = 64 };

struct fixture {
    struct map *map;
    struct container names[OBJECTS_MAX];
    struct str objects[OBJECTS_MAX];
    size_t object_count;
    uint64_t next_number;    /* of the next run */
    size_t requests, rounds; /* of fixture_supply */
    uint64_t bytes;
};

struct fixture *fixture_create(size_t cache_bytes);
void fixture_destroy(struct fixture *fixture);

/* Objects. */
void fixture_store(struct fixture *fixture, const struct container *name, const struct str *object);
const uint8_t *fixture_stored(const struct fixture *fixture, const struct container *name,
                              uint64_t offset, size_t size);
void fixture_supply(struct fixture *fixture); /* all that the map wants */
/* Everything that was stored, in a map with an empty cache. */
void fixture_reload(struct fixture *fixture, size_t cache_bytes);

/* Keys and values. */
void fixture_put(struct fixture *fixture, const char *key, const char *value);
/* Keys KIND00000000 and on, with values that hardly compress. */
void fixture_put_many(struct fixture *fixture, char kind, size_t first, size_t count);
void fixture_expect(struct fixture *fixture, const char *key, const char *value); /* "-": none */
size_t fixture_list(struct fixture *fixture, const char *prefix); /* how many keys */

/* Runs. */
struct map_run fixture_checkpoint(struct fixture *fixture);
/* Returns how many steps it took; 0: there was nothing to merge. */
size_t fixture_merge(struct fixture *fixture, bool all);

#endif
