/* What the map asks for: blocks that were missed, and those ahead of a reader that goes on. */
#include "base/mem.h"
#include "volume/map_internal.h"

#include <string.h>

bool map_is_beyond(struct map_slice key, struct map_slice prefix)
{
    size_t common = key.size < prefix.size ? key.size : prefix.size;
    return common > 0 && memcmp(key.bytes, prefix.bytes, common) > 0;
}

/* How many blocks one miss may bring in, so that those of several runs do not push each other out
 * of a small cache. */
static uint32_t ahead_max(const struct map *map)
{
    size_t sources = map->levels[0].count + MAP_LEVELS;
    size_t count = block_cache_limit(map->cache) / (2 * sources);
    return count > 1 ? (uint32_t)count : 1;
}

/* How many blocks from index on to ask for: as before while the same ones are asked for again,
 * twice as many each time that the reader has come to the end of them, else as many as it says. One
 * who goes on where the last one stopped will go on behind what he asks for, too: so a walk through
 * many folders does not stop at the end of each. */
static uint32_t ahead_count(const struct map *map, struct run *run, uint32_t index,
                            const struct map_ahead *ahead)
{
    uint32_t wish = ahead->count;
    bool goes_on = index == run->ahead_end && index > 0;
    bool again = index >= run->ahead_begin && index < run->ahead_end;
    if (again) {
        wish = run->ahead_end - index;
    } else if (goes_on) {
        wish = 2 * (run->ahead_end - run->ahead_begin);
    }
    wish = wish < ahead->count ? ahead->count : wish;
    uint32_t limit = ahead_max(map);
    wish = wish < limit ? wish : limit;
    uint32_t count = 1;
    while (count < wish && index + count < run->block_count && !run->slots[index + count] &&
           run->offsets[index + count + 1] - run->offsets[index] <= MAP_AHEAD_BYTES &&
           (again || goes_on || !map_is_beyond(run_block_key(run, index + count), ahead->prefix))) {
        count++;
    }
    if (index < run->ahead_begin || index >= run->ahead_end) {
        run->ahead_begin = index;
        run->ahead_end = index + count;
    }
    return count;
}

/* How many of the count blocks from first on fit into one want; one at least. */
static uint32_t piece(const struct run *run, uint32_t first, uint32_t count)
{
    uint32_t fit = 1;
    while (fit < count && run->offsets[first + fit + 1] - run->offsets[first] <= MAP_WANT_BYTES) {
        fit++;
    }
    return fit;
}

static bool is_asked_for(const struct map *map, const struct run *run, uint32_t index)
{
    for (size_t i = 0; i < map->missed_count; i++) {
        const struct map_missed *missed = &map->missed[i];
        if (missed->run == run && index >= missed->first && index - missed->first < missed->count) {
            return true;
        }
    }
    return false;
}

/* Needed ones go before those that are only read ahead; when the list is full the last is left
 * out. */
static void ask(struct map *map, const struct map_missed *missed, bool needed)
{
    if (is_asked_for(map, missed->run, missed->first)) {
        return;
    }
    size_t at = needed ? map->needed_count : map->missed_count;
    if (at == MAP_WANTS_MAX) {
        return;
    }
    if (map->missed_count == MAP_WANTS_MAX) {
        map->missed_count--;
    }
    memmove(map->missed + at + 1, map->missed + at, (map->missed_count - at) * sizeof *map->missed);
    map->missed[at] = *missed;
    map->missed_count++;
    map->needed_count += needed;
}

static void miss(struct map *map, struct run *run, uint32_t index, const struct map_ahead *ahead)
{
    uint32_t count = ahead_count(map, run, index, ahead);
    bool needed = true;
    while (count > 0) {
        struct map_missed missed = {run, index, piece(run, index, count)};
        ask(map, &missed, needed);
        index += missed.count;
        count -= missed.count;
        needed = false;
    }
}

const struct block *map_block(struct map *map, struct run *run, uint32_t index,
                              const struct map_ahead *ahead)
{
    uint32_t slot = run->slots[index];
    if (slot) {
        return block_cache_get(map->cache, slot);
    }
    miss(map, run, index, ahead);
    return NULL;
}

size_t map_wanted(struct map *map, struct map_want *out, size_t max)
{
    size_t count = map->missed_count < max ? map->missed_count : max;
    for (size_t i = 0; i < count; i++) {
        const struct map_missed *missed = &map->missed[i];
        const uint32_t *offsets = missed->run->offsets;
        out[i] = (struct map_want){
            .run = missed->run->info.container,
            .offset = offsets[missed->first],
            .size = offsets[missed->first + missed->count] - offsets[missed->first],
        };
    }
    map->missed_count = 0;
    map->needed_count = 0;
    return count;
}

static struct run *find_run(const struct map *map, const struct container *container)
{
    for (size_t level = 0; level < MAP_LEVELS; level++) {
        for (size_t i = 0; i < map->levels[level].count; i++) {
            struct run *run = map->levels[level].runs[i];
            if (container_equal(&run->info.container, container)) {
                return run;
            }
        }
    }
    return NULL;
}

enum err_code map_supply(struct map *map, const struct map_want *want, const void *bytes,
                         struct err *err)
{
    struct run *run = find_run(map, &want->run);
    if (!run) {
        return ERR_OK;
    }
    enum err_code result = ERR_OK;
    uint32_t index = run_block_at(run, want->offset);
    uint64_t end = want->offset + want->size;
    for (; index < run->block_count && run->offsets[index + 1] <= end; index++) {
        const uint8_t *stored = (const uint8_t *)bytes + (run->offsets[index] - want->offset);
        struct block block;
        if (run->slots[index]) {
            continue;
        }
        enum err_code code = run_load(run, index, stored, map->zstd, &block, err);
        if (code) {
            result = code;
        } else {
            block_cache_add(map->cache, &run->slots[index], &block);
        }
    }
    return result;
}
