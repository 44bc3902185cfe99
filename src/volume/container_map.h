/* container_map.h - what belongs to a container: a hash table from containers to pointers.
 *
 * `struct container_map m = {0};` is empty. It owns its slots, not what the pointers lead to. Its
 * order is of no meaning. Pure code.
 */
#ifndef VOLUME_CONTAINER_MAP_H
#define VOLUME_CONTAINER_MAP_H

#include "volume/container.h"

#include <stddef.h>

struct container_slot {
    struct container container;
    void *value; /* NULL: the slot is free */
};

struct container_map {
    struct container_slot *slots;
    size_t count, cap; /* cap: 0 or a power of two */
};

void container_map_release(struct container_map *map);
void *container_map_get(const struct container_map *map, const struct container *container);
/* Replaces what is there; value is not NULL. */
void container_map_put(struct container_map *map, const struct container *container, void *value);
void container_map_remove(struct container_map *map, const struct container *container);

#endif
