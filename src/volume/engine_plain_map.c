/* The plainest map, for tests of the engine: takes the place of map.c when linked. */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/engine_testmap.h"

#include <stdlib.h>
#include <string.h>

struct pair {
    uint8_t *key;
    uint8_t *value;
    size_t key_size, size;
};

struct map {
    struct pair *pairs; /* by key */
    size_t count, cap;
    struct rng rng;
    unsigned again;
    uint64_t changes;
    map_each_fn frozen_each; /* what map_freeze tells the state to */
    void *frozen_context;
};

struct testmap {
    struct map map;
};

struct testmap *testmap_create(uint64_t seed, unsigned again)
{
    struct testmap *testmap = mem_alloc(sizeof *testmap);
    testmap->map.rng.state = seed;
    testmap->map.again = again;
    return testmap;
}

static void free_pair(struct pair *pair)
{
    free(pair->key);
    free(pair->value);
}

void testmap_destroy(struct testmap *testmap)
{
    for (size_t i = 0; i < testmap->map.count; i++) {
        free_pair(&testmap->map.pairs[i]);
    }
    free(testmap->map.pairs);
    free(testmap);
}

struct map *testmap_map(struct testmap *testmap)
{
    return &testmap->map;
}

uint64_t testmap_changes(const struct testmap *testmap)
{
    return testmap->map.changes;
}

void testmap_supply(struct testmap *testmap)
{
    (void)testmap;
}

static int compare(const struct pair *pair, const void *key, size_t size)
{
    size_t shorter = pair->key_size < size ? pair->key_size : size;
    int order = memcmp(pair->key, key, shorter);
    return order ? order : pair->key_size < size ? -1 : pair->key_size > size;
}

/* Index of the first pair that is not below the key. */
static size_t find(const struct map *map, const void *key, size_t size)
{
    size_t low = 0;
    size_t high = map->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&map->pairs[middle], key, size) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_missing(struct map *map)
{
    return map->again && rng_below(&map->rng, 100) < map->again;
}

enum err_code map_get(struct map *map, const void *key, size_t key_size, struct map_slice *value,
                      struct err *err)
{
    if (is_missing(map)) {
        return err_set(err, ERR_AGAIN, "a block is missing");
    }
    size_t at = find(map, key, key_size);
    if (at == map->count || compare(&map->pairs[at], key, key_size) != 0) {
        return ERR_NOT_FOUND;
    }
    *value = (struct map_slice){map->pairs[at].value, map->pairs[at].size};
    return ERR_OK;
}

enum err_code map_scan(struct map *map, const struct map_range *range, map_each_fn each,
                       void *context, struct err *err)
{
    struct map_slice from = range->from.bytes ? range->from : range->prefix;
    for (size_t at = find(map, from.bytes, from.size); at < map->count; at++) {
        const struct pair *pair = &map->pairs[at];
        if (pair->key_size < range->prefix.size ||
            memcmp(pair->key, range->prefix.bytes, range->prefix.size) != 0) {
            break;
        }
        if (is_missing(map)) {
            return err_set(err, ERR_AGAIN, "a block is missing");
        }
        if (!each(context, (struct map_slice){pair->key, pair->key_size},
                  (struct map_slice){pair->value, pair->size})) {
            return ERR_OK;
        }
    }
    return is_missing(map) ? err_set(err, ERR_AGAIN, "a block is missing") : ERR_OK;
}

void map_put(struct map *map, const void *key, size_t key_size, const void *value, size_t size)
{
    map->changes++;
    CHECK(key_size > 0 && key_size <= MAP_KEY_MAX);
    CHECK(value && size <= MAP_VALUE_MAX);
    size_t at = find(map, key, key_size);
    if (at == map->count || compare(&map->pairs[at], key, key_size) != 0) {
        VEC_PUSH(map->pairs, map->count, map->cap) = (struct pair){0};
        memmove(&map->pairs[at + 1], &map->pairs[at], (map->count - 1 - at) * sizeof map->pairs[0]);
        map->pairs[at] = (struct pair){mem_dup(key, key_size), NULL, key_size, 0};
    }
    free(map->pairs[at].value); /* so that whoever still looks at it is found out */
    map->pairs[at].value = mem_dup(value, size);
    map->pairs[at].size = size;
}

void map_delete(struct map *map, const void *key, size_t key_size)
{
    map->changes++;
    size_t at = find(map, key, key_size);
    if (at == map->count || compare(&map->pairs[at], key, key_size) != 0) {
        return;
    }
    free_pair(&map->pairs[at]);
    map->count--;
    memmove(&map->pairs[at], &map->pairs[at + 1], (map->count - at) * sizeof map->pairs[0]);
}

enum err_code map_freeze(struct map *map, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < map->count; i++) {
        const struct pair *pair = &map->pairs[i];
        (void)map->frozen_each(map->frozen_context, (struct map_slice){pair->key, pair->key_size},
                               (struct map_slice){pair->value, pair->size});
    }
    return ERR_OK;
}

void testmap_checkpoint(struct testmap *testmap, struct engine *engine, map_each_fn each,
                        void *context)
{
    testmap->map.frozen_each = each;
    testmap->map.frozen_context = context;
    CHECK(engine_freeze(engine, NULL) == ERR_OK);
}
