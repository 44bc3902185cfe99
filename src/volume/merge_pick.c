/* Which runs to merge next. */
#include "base/mem.h"
#include "volume/merge_internal.h"

struct span { /* of keys */
    struct map_slice first, last;
    bool any;
};

static void span_add(struct span *span, const struct run *run)
{
    if (run->block_count == 0) {
        return;
    }
    if (!span->any || key_compare(run->first, span->first) < 0) {
        span->first = run->first;
    }
    if (!span->any || key_compare(run->last, span->last) > 0) {
        span->last = run->last;
    }
    span->any = true;
}

static void add_input(struct map_merge *merge, const struct run *run)
{
    VEC_PUSH(merge->inputs, merge->input_count, merge->input_cap) = run->info.container;
}

static struct merge_source *add_source(struct map_merge *merge)
{
    VEC_PUSH(merge->sources, merge->source_count, merge->source_cap) =
        (struct merge_source){.rank = merge->source_count};
    return &merge->sources[merge->source_count - 1];
}

static void add_run(struct map_merge *merge, struct merge_source *source, const struct run *run)
{
    add_input(merge, run);
    if (run->block_count > 0) {
        VEC_PUSH(source->runs, source->run_count, source->run_cap) = run_copy(run);
    }
}

static void add_level_zero(struct map_merge *merge, const struct map *map, struct span *span)
{
    for (size_t i = 0; i < map->levels[0].count; i++) {
        span_add(span, map->levels[0].runs[i]);
        add_run(merge, add_source(merge), map->levels[0].runs[i]);
    }
}

/* The runs of a level that hold keys of the span. */
static void add_level(struct map_merge *merge, const struct map *map, uint32_t number,
                      const struct span *span)
{
    const struct map_level *level = &map->levels[number];
    struct merge_source *source = NULL;
    for (size_t i = 0; span->any && i < level->count; i++) {
        if (run_overlaps(level->runs[i], span->first, span->last)) {
            source = source ? source : add_source(merge);
            add_run(merge, source, level->runs[i]);
        }
    }
}

static uint64_t overlap_bytes(const struct map_level *level, const struct run *run)
{
    uint64_t bytes = 0;
    for (size_t i = map_level_find(level, run->first);
         i < level->count && run_overlaps(level->runs[i], run->first, run->last); i++) {
        bytes += level->runs[i]->info.size;
    }
    return bytes;
}

/* The run of a level for which least has to be rewritten below, for its size. */
static size_t cheapest(const struct map *map, uint32_t number)
{
    const struct map_level *level = &map->levels[number];
    size_t best = 0;
    double best_cost = 0;
    for (size_t i = 0; i < level->count; i++) {
        const struct run *run = level->runs[i];
        double cost = (double)overlap_bytes(&map->levels[number + 1], run) / (double)run->info.size;
        if (i == 0 || cost < best_cost) {
            best = i;
            best_cost = cost;
        }
    }
    return best;
}

static uint8_t kind(const struct run *run)
{
    return run->first.size ? run->first.bytes[0] : 0;
}

/* A run of a level, and small ones of the same kind of keys behind it, so that they become one. */
static void add_some(struct map_merge *merge, const struct map *map, uint32_t number,
                     struct span *span)
{
    const struct map_level *level = &map->levels[number];
    struct merge_source *source = add_source(merge);
    size_t first = cheapest(map, number);
    uint64_t bytes = 0;
    for (size_t i = first; i < level->count; i++) {
        const struct run *run = level->runs[i];
        bytes += run->info.size;
        if (i > first && (bytes > map->run_bytes || kind(run) != kind(level->runs[first]))) {
            break;
        }
        span_add(span, run);
        add_run(merge, source, run);
    }
}

static bool is_over(const struct map *map, uint32_t number)
{
    const struct map_level *level = &map->levels[number];
    if (number == 0) {
        return level->count >= MAP_LEVEL_ZERO_MAX;
    }
    uint64_t limit = map->level_one_bytes;
    for (uint32_t i = 1; i < number; i++) {
        limit *= MAP_LEVEL_FACTOR;
    }
    return number + 1 < MAP_LEVELS && map_level_bytes(level) > limit;
}

/* The first level that has grown too large; MAP_LEVELS: none has. */
static uint32_t level_due(const struct map *map)
{
    uint32_t number = 0;
    while (number < MAP_LEVELS && !is_over(map, number)) {
        number++;
    }
    return number;
}

bool merge_pick_is_due(const struct map *map)
{
    return level_due(map) < MAP_LEVELS;
}

static bool pick_due(struct map_merge *merge, const struct map *map)
{
    uint32_t number = level_due(map);
    if (number == MAP_LEVELS) {
        return false;
    }
    struct span span = {0};
    if (number == 0) {
        add_level_zero(merge, map, &span);
    } else {
        add_some(merge, map, number, &span);
    }
    merge->target = number + 1;
    merge->moves = true;
    add_level(merge, map, merge->target, &span);
    merge->drops = true;
    for (uint32_t below = merge->target + 1; span.any && below < MAP_LEVELS; below++) {
        const struct map_level *level = &map->levels[below];
        size_t at = map_level_find(level, span.first);
        if (at < level->count && run_overlaps(level->runs[at], span.first, span.last)) {
            merge->drops = false;
        }
    }
    return true;
}

static bool pick_all(struct map_merge *merge, const struct map *map)
{
    struct span span = {0};
    uint32_t used = 0;
    uint32_t deepest = 0;
    for (uint32_t number = 0; number < MAP_LEVELS; number++) {
        const struct map_level *level = &map->levels[number];
        for (size_t i = 0; i < level->count; i++) {
            span_add(&span, level->runs[i]);
        }
        used += level->count > 0;
        deepest = level->count > 0 ? number : deepest;
    }
    if (used == 0 || (used == 1 && deepest > 0)) {
        return false; /* it is in one level already */
    }
    merge->target = deepest > 0 ? deepest : 1;
    merge->drops = true;
    add_level_zero(merge, map, &span);
    for (uint32_t number = 1; number < MAP_LEVELS; number++) {
        add_level(merge, map, number, &span);
    }
    return true;
}

bool merge_pick(struct map_merge *merge, const struct map *map, bool all)
{
    return all ? pick_all(merge, map) : pick_due(merge, map);
}
