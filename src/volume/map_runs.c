/* The runs of a map: loading them, and the table becoming one. */
#include "base/mem.h"
#include "volume/map_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_BLOCKS = 48,       /* in the cache */
    LEAST_BLOCKS_OF_RUN = 4, /* for each that a scan may have to look at */
    KEEP_DIVISOR = 2,        /* this part of the cache may be filled with what a checkpoint wrote */
    PART_BYTES = 512 << 10,  /* of the table that map_write_frozen_part writes at once */
};

struct map_writing {
    struct run_builder *builder;
    struct table_cursor cursor;
    bool done;
};

bool run_overlaps(const struct run *run, struct map_slice first, struct map_slice last)
{
    return run->block_count > 0 && key_compare(run->first, last) <= 0 &&
           key_compare(run->last, first) >= 0;
}

size_t map_level_find(const struct map_level *level, struct map_slice key)
{
    size_t low = 0;
    size_t high = level->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (key_compare(level->runs[middle]->last, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t map_level_bytes(const struct map_level *level)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < level->count; i++) {
        bytes += level->runs[i]->info.size;
    }
    return bytes;
}

void map_runs_changed(struct map *map)
{
    size_t least = (map->levels[0].count + MAP_LEVELS) * LEAST_BLOCKS_OF_RUN;
    block_cache_set_least(map->cache, least > LEAST_BLOCKS ? least : LEAST_BLOCKS);
    map->missed_count = 0; /* they name runs; whoever misses them asks again */
    map->needed_count = 0;
}

static void insert_at(struct map_level *level, size_t index, struct run *run)
{
    VEC_PUSH(level->runs, level->count, level->cap) = NULL;
    memmove(level->runs + index + 1, level->runs + index,
            (level->count - 1 - index) * sizeof *level->runs);
    level->runs[index] = run;
}

static void insert_run(struct map *map, struct run *run, size_t index)
{
    if (!run->slots) {
        run->slots = mem_array(run->block_count, sizeof *run->slots);
    }
    insert_at(&map->levels[run->info.level], index, run);
    map_runs_changed(map);
}

void map_insert_run(struct map *map, struct run *run)
{
    uint32_t level = run->info.level;
    insert_run(map, run, level == 0 ? 0 : map_level_find(&map->levels[level], run->first));
}

static struct run *remove_at(struct map *map, struct map_level *level, size_t index, bool drop)
{
    struct run *run = level->runs[index];
    for (uint32_t i = 0; drop && i < run->block_count; i++) {
        block_cache_drop(map->cache, &run->slots[i]);
    }
    level->count--;
    memmove(level->runs + index, level->runs + index + 1,
            (level->count - index) * sizeof *level->runs);
    map_runs_changed(map);
    return run;
}

struct run *map_remove_run(struct map *map, const struct container *container, bool drop)
{
    for (size_t level = 0; level < MAP_LEVELS; level++) {
        for (size_t i = 0; i < map->levels[level].count; i++) {
            if (container_equal(&map->levels[level].runs[i]->info.container, container)) {
                return remove_at(map, &map->levels[level], i, drop);
            }
        }
    }
    return NULL;
}

void map_memory(const struct map *map, struct map_memory *out)
{
    *out = (struct map_memory){
        .tables = table_bytes(map->table) + (map->frozen ? table_bytes(map->frozen) : 0),
        .cache = block_cache_bytes(map->cache),
    };
    for (size_t level = 0; level < MAP_LEVELS; level++) {
        for (size_t i = 0; i < map->levels[level].count; i++) {
            out->indexes += run_bytes(map->levels[level].runs[i]);
            out->filters += run_filter_bytes(map->levels[level].runs[i]);
        }
    }
}

size_t map_runs(const struct map *map, struct map_run *out, size_t max)
{
    size_t count = 0;
    for (size_t level = 0; level < MAP_LEVELS; level++) {
        for (size_t i = 0; i < map->levels[level].count; i++, count++) {
            if (count < max) {
                out[count] = map->levels[level].runs[i]->info;
            }
        }
    }
    return count;
}

/* Where a run of a level below 0 belongs. */
static enum err_code find_place(const struct map_level *level, const struct run *run, size_t *index,
                                struct err *err)
{
    if (run->block_count == 0) {
        return err_set(err, ERR_CORRUPT, "a run without keys in level %" PRIu32, run->info.level);
    }
    *index = map_level_find(level, run->first);
    if (*index < level->count && run_overlaps(level->runs[*index], run->first, run->last)) {
        return err_set(err, ERR_CORRUPT, "two runs of level %" PRIu32 " overlap", run->info.level);
    }
    return ERR_OK;
}

enum err_code map_add_run(struct map *map, const struct map_run *info, const void *index,
                          size_t index_size, struct err *err)
{
    map->barren.is_known = false;
    if (info->level >= MAP_LEVELS) {
        return err_set(err, ERR_RANGE, "there is no level %" PRIu32, info->level);
    }
    if (map_runs(map, NULL, 0) >= MAP_RUNS_MAX) {
        return err_set(err, ERR_RANGE, "more than %d runs", MAP_RUNS_MAX);
    }
    struct run *run = NULL;
    enum err_code code = run_create(info, index, index_size, &run, err);
    if (code) {
        return code;
    }
    struct map_level *level = &map->levels[info->level];
    size_t place = level->count;
    code = info->level == 0 ? ERR_OK : find_place(level, run, &place, err);
    if (code) {
        run_destroy(run);
        return code;
    }
    insert_run(map, run, place);
    return ERR_OK;
}

/* Checkpoints. --------------------------------------------------------------------------------- */

enum err_code map_freeze(struct map *map, struct err *err)
{
    if (map->frozen) {
        return err_set(err, ERR_EXISTS, "a table is frozen already");
    }
    map->frozen = map->table;
    map->table = table_create();
    return ERR_OK;
}

void map_writing_destroy(struct map_writing *writing)
{
    if (writing) {
        run_builder_destroy(writing->builder);
        free(writing);
    }
}

static struct map_writing *begin_writing(struct map *map, const struct map_run *run)
{
    struct map_writing *writing = mem_alloc(sizeof *writing);
    writing->builder = run_builder_create(&run->container, 0, map->block_bytes);
    run_builder_keep(writing->builder,
                     block_cache_limit(map->cache) * map->block_bytes / KEEP_DIVISOR);
    table_seek(map->frozen, (struct map_slice){NULL, 0}, &writing->cursor);
    map->writing = writing;
    return writing;
}

bool map_write_frozen_part(struct map *map, struct map_run *run, struct str *out)
{
    CHECK(map->frozen);
    if (map->writing && map->writing->done) { /* once more */
        map_writing_destroy(map->writing);
        map->writing = NULL;
    }
    struct map_writing *writing = map->writing ? map->writing : begin_writing(map, run);
    struct map_slice key;
    struct map_slice value;
    size_t written = 0;
    while (table_cursor_get(&writing->cursor, &key, &value)) {
        if (written >= PART_BYTES) {
            return false;
        }
        run_builder_add(writing->builder, key, value);
        written += key.size + value.size;
        table_cursor_next(&writing->cursor);
    }
    run_builder_finish(writing->builder, run, out);
    writing->done = true;
    return true;
}

void map_write_frozen(struct map *map, struct map_run *run, struct str *out)
{
    while (!map_write_frozen_part(map, run, out)) {
    }
}

/* What was changed lately is asked for soon: its blocks need not be fetched. */
static void cache_kept(struct map *map, struct run *run, struct run_builder *builder)
{
    for (uint32_t i = 0; i < run->block_count; i++) {
        struct block *block = run_builder_kept(builder, i);
        if (!block) {
            break;
        }
        block_cache_add(map->cache, &run->slots[i], block);
        block->bytes = NULL;
    }
}

void map_thaw(struct map *map, const struct map_run *info, const struct str *object)
{
    CHECK(map->frozen);
    CHECK(map->writing && map->writing->done);
    CHECK(info->index_offset <= object->size);
    struct run *run = NULL;
    enum err_code code = run_create(info, object->text + info->index_offset,
                                    object->size - info->index_offset, &run, NULL);
    CHECK(!code);
    CHECK(info->level == 0);
    map_insert_run(map, run);
    cache_kept(map, run, map->writing->builder);
    map_writing_destroy(map->writing);
    map->writing = NULL;
    table_destroy(map->frozen);
    map->frozen = NULL;
}

void map_unfreeze(struct map *map)
{
    CHECK(map->frozen);
    map_writing_destroy(map->writing);
    map->writing = NULL;
    struct table_cursor cursor;
    struct map_slice key;
    struct map_slice value;
    table_seek(map->table, (struct map_slice){NULL, 0}, &cursor);
    while (table_cursor_get(&cursor, &key, &value)) {
        table_put(map->frozen, key, value);
        table_cursor_next(&cursor);
    }
    table_destroy(map->table);
    map->table = map->frozen;
    map->frozen = NULL;
}
