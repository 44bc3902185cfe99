#include "volume/map.h"

#include "base/mem.h"
#include "volume/map_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct map *map_create(size_t cache_bytes)
{
    struct map *map = mem_alloc(sizeof *map);
    map->table = table_create();
    map->cache = block_cache_create(cache_bytes);
    map->zstd = ZSTD_createDCtx();
    CHECK(map->zstd);
    map->block_bytes = MAP_BLOCK_BYTES;
    map->run_bytes = MAP_RUN_BYTES;
    map->level_one_bytes = MAP_LEVEL_ONE_BYTES;
    map_runs_changed(map);
    return map;
}

void map_destroy(struct map *map)
{
    if (!map) {
        return;
    }
    map_writing_destroy(map->writing);
    table_destroy(map->table);
    table_destroy(map->frozen);
    block_cache_destroy(map->cache);
    for (size_t level = 0; level < MAP_LEVELS; level++) {
        for (size_t i = 0; i < map->levels[level].count; i++) {
            run_destroy(map->levels[level].runs[i]);
        }
        free(map->levels[level].runs);
    }
    free(map->sources);
    free(map->order);
    ZSTD_freeDCtx(map->zstd);
    free(map);
}

/* Lookups. ------------------------------------------------------------------------------------- */

enum lookup { LOOKUP_ABSENT, LOOKUP_FOUND, LOOKUP_MISSING };

struct question {
    struct map_slice key;
    uint64_t hash;
};

static enum lookup look_in_run(struct map *map, struct run *run, const struct question *question,
                               struct map_slice *value)
{
    static const struct map_ahead ahead = {.count = 1};
    if (!run_may_hold(run, question->hash) || !run_overlaps(run, question->key, question->key)) {
        return LOOKUP_ABSENT;
    }
    const struct block *block = map_block(map, run, run_block_of(run, question->key), &ahead);
    if (!block) {
        return LOOKUP_MISSING;
    }
    return block_find(block, question->key, value) ? LOOKUP_FOUND : LOOKUP_ABSENT;
}

/* One block may be missing in each of several runs: all are asked for at once, unless it is all but
 * sure that the first will do. */
static enum lookup look_in_level(struct map *map, uint32_t number, const struct question *question,
                                 struct map_slice *value)
{
    const struct map_level *level = &map->levels[number];
    size_t begin = number == 0 ? 0 : map_level_find(level, question->key);
    size_t end = number == 0 || begin == level->count ? level->count : begin + 1;
    enum lookup result = LOOKUP_ABSENT;
    for (size_t i = begin; i < end; i++) {
        enum lookup here = look_in_run(map, level->runs[i], question, value);
        if (here == LOOKUP_MISSING) {
            result = LOOKUP_MISSING;
        }
        if (here == LOOKUP_FOUND || (here == LOOKUP_MISSING && level->runs[i]->filter)) {
            return result == LOOKUP_MISSING ? result : here;
        }
    }
    return result;
}

static enum lookup look_in_runs(struct map *map, struct map_slice key, struct map_slice *value)
{
    struct question question = {key, run_hash(key)};
    enum lookup result = LOOKUP_ABSENT;
    for (uint32_t number = 0; number < MAP_LEVELS; number++) {
        enum lookup here = look_in_level(map, number, &question, value);
        if (here == LOOKUP_FOUND) {
            return result == LOOKUP_MISSING ? result : here;
        }
        if (here == LOOKUP_MISSING) {
            result = here;
            if (run_has_filter(number)) {
                return result;
            }
        }
    }
    return result;
}

enum err_code map_get(struct map *map, const void *key, size_t key_size, struct map_slice *value,
                      struct err *err)
{
    struct map_slice asked = {key, key_size};
    struct map_slice found = {NULL, 0};
    if (!table_get(map->table, asked, &found) &&
        !(map->frozen && table_get(map->frozen, asked, &found)) &&
        look_in_runs(map, asked, &found) == LOOKUP_MISSING) {
        return err_set(err, ERR_AGAIN, "a block of metadata is not here yet");
    }
    if (!found.bytes) {
        return err_set(err, ERR_NOT_FOUND, "no such key");
    }
    *value = found;
    return ERR_OK;
}

/* Changes. ------------------------------------------------------------------------------------- */

void map_put(struct map *map, const void *key, size_t key_size, const void *value, size_t size)
{
    struct map_slice bytes = {size ? value : (const uint8_t *)"", size};
    struct map_barren *barren = &map->barren;
    struct map_slice changed = {key, key_size};
    if (barren->is_known &&
        key_compare(changed, (struct map_slice){barren->from, barren->from_size}) >= 0 &&
        key_compare(changed, (struct map_slice){barren->to, barren->to_size}) <= 0) {
        barren->is_known = false;
    }
    table_put(map->table, (struct map_slice){key, key_size}, bytes);
}

void map_delete(struct map *map, const void *key, size_t key_size)
{
    table_put(map->table, (struct map_slice){key, key_size}, (struct map_slice){NULL, 0});
}

size_t map_table_bytes(const struct map *map)
{
    return table_bytes(map->table);
}

size_t map_table_count(const struct map *map)
{
    return table_count(map->table);
}
