#include "volume/container_map.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

void container_map_release(struct container_map *map)
{
    if (map) {
        free(map->slots);
        *map = (struct container_map){0};
    }
}

static size_t home_of(const struct container_map *map, const struct container *container)
{
    uint64_t rest =
        (uint64_t)container->kind << 56 ^ (uint64_t)container->writer << 32 ^ container->term;
    return (size_t)rng_mix(1, container->number, rest) & (map->cap - 1);
}

/* Where the container is, or the free slot where it would go. */
static size_t find(const struct container_map *map, const struct container *container)
{
    size_t at = home_of(map, container);
    while (map->slots[at].value && !container_equal(&map->slots[at].container, container)) {
        at = (at + 1) & (map->cap - 1);
    }
    return at;
}

void *container_map_get(const struct container_map *map, const struct container *container)
{
    return map->cap == 0 ? NULL : map->slots[find(map, container)].value;
}

static void grow(struct container_map *map)
{
    struct container_map old = *map;
    map->cap = old.cap ? old.cap * 2 : 16;
    map->slots = mem_array(map->cap, sizeof map->slots[0]);
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].value) {
            map->slots[find(map, &old.slots[i].container)] = old.slots[i];
        }
    }
    free(old.slots);
}

void container_map_put(struct container_map *map, const struct container *container, void *value)
{
    CHECK(value);
    if (map->count * 2 >= map->cap) {
        grow(map);
    }
    struct container_slot *slot = &map->slots[find(map, container)];
    map->count += slot->value == NULL;
    *slot = (struct container_slot){*container, value};
}

void container_map_remove(struct container_map *map, const struct container *container)
{
    if (map->cap == 0) {
        return;
    }
    size_t hole = find(map, container);
    if (!map->slots[hole].value) {
        return;
    }
    map->count--;
    map->slots[hole].value = NULL;
    /* What lies behind may have been pushed here by what is gone: it moves up. */
    size_t mask = map->cap - 1;
    for (size_t at = (hole + 1) & mask; map->slots[at].value; at = (at + 1) & mask) {
        size_t home = home_of(map, &map->slots[at].container);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            map->slots[at].value = NULL;
            hole = at;
        }
    }
}
