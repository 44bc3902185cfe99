/* Going through a map in the order of keys: the tables and runs are read side by side. */
#include "base/mem.h"
#include "volume/map_internal.h"

#include <string.h>

enum { AHEAD_BLOCKS = 4 }; /* when a scan begins to read a run */

enum step { STEP_KEY, STEP_END, STEP_MISSING };

/* One sequence of rising keys: a table, a run of level 0, or a level. Of equal keys the one of the
 * source with the lowest rank counts. */
struct map_source {
    struct map_slice key, value; /* where it is */
    size_t rank;
    struct run **runs; /* NULL: a table */
    size_t run_count;
    size_t run_at;
    uint32_t block_at;
    struct block_cursor cursor;
    struct table_cursor table;
};

struct scan {
    struct map *map;
    struct map_slice from;
    struct map_ahead ahead; /* its prefix is the scan's */
    size_t count;           /* of sources in map->order */
    bool missing;
    bool has_given;    /* a key */
    size_t empty_size; /* up to this key there was none to give; 0: not known */
    uint8_t empty[MAP_KEY_MAX];
};

static enum step source_show(struct map_source *source)
{
    source->key = (struct map_slice){source->cursor.key, source->cursor.key_size};
    source->value = source->cursor.value;
    return STEP_KEY;
}

/* To the first key of a block, or of the next run if there is no such block. */
static enum step source_enter(struct scan *scan, struct map_source *source)
{
    if (source->block_at == source->runs[source->run_at]->block_count) {
        source->run_at++;
        source->block_at = 0;
    }
    if (source->run_at == source->run_count) {
        return STEP_END;
    }
    struct run *run = source->runs[source->run_at];
    struct map_slice least =
        source->block_at == 0 ? run->first : run_block_key(run, source->block_at);
    if (map_is_beyond(least, scan->ahead.prefix)) {
        return STEP_END; /* seen without the block */
    }
    const struct block *block = map_block(scan->map, run, source->block_at, &scan->ahead);
    if (!block) {
        return STEP_MISSING;
    }
    block_cursor_first(&source->cursor, block);
    return source_show(source);
}

static enum step source_next(struct scan *scan, struct map_source *source)
{
    if (!source->runs) {
        table_cursor_next(&source->table);
        return table_cursor_get(&source->table, &source->key, &source->value) ? STEP_KEY : STEP_END;
    }
    if (block_cursor_next(&source->cursor)) {
        return source_show(source);
    }
    source->block_at++;
    return source_enter(scan, source);
}

/* To the first key that is not below scan->from, which is not behind the run's last. */
static enum step source_seek(struct scan *scan, struct map_source *source)
{
    struct run *run = source->runs[source->run_at];
    source->block_at = 0;
    if (key_compare(scan->from, run->first) <= 0) {
        return source_enter(scan, source);
    }
    source->block_at = run_block_of(run, scan->from);
    const struct block *block = map_block(scan->map, run, source->block_at, &scan->ahead);
    if (!block) {
        return STEP_MISSING;
    }
    if (block_cursor_seek(&source->cursor, block, scan->from)) {
        return source_show(source);
    }
    source->block_at++;
    return source_enter(scan, source);
}

/* The order of sources. ------------------------------------------------------------------------ */

static bool is_before(const struct map_source *a, const struct map_source *b)
{
    int order = key_compare(a->key, b->key);
    return order < 0 || (order == 0 && a->rank < b->rank);
}

/* The source at index has moved on: to its place among those behind. */
static void sift(struct scan *scan, size_t index)
{
    struct map_source **order = scan->map->order;
    struct map_source *moved = order[index];
    for (; index + 1 < scan->count && is_before(order[index + 1], moved); index++) {
        order[index] = order[index + 1];
    }
    order[index] = moved;
}

static void take_in(struct scan *scan, struct map_source *source, enum step step)
{
    if (step == STEP_MISSING) {
        scan->missing = true;
    }
    if (step == STEP_KEY) {
        struct map_source **order = scan->map->order;
        memmove(order + 1, order, scan->count * sizeof *order);
        order[0] = source;
        scan->count++;
        sift(scan, 0);
    }
}

/* The source at index goes on. False: a block is missing. */
static bool advance(struct scan *scan, size_t index)
{
    struct map_source **order = scan->map->order;
    enum step step = source_next(scan, order[index]);
    if (step == STEP_KEY) {
        sift(scan, index);
    } else if (step == STEP_END) {
        scan->count--;
        memmove(order + index, order + index + 1, (scan->count - index) * sizeof *order);
    }
    return step != STEP_MISSING;
}

/* Beginning. ----------------------------------------------------------------------------------- */

static void reserve(struct map *map)
{
    size_t need = 2 + map->levels[0].count + MAP_LEVELS;
    if (need > map->source_cap) {
        map->source_cap = 2 * need;
        map->sources = mem_resize(map->sources, map->source_cap, sizeof *map->sources);
        map->order = mem_resize(map->order, map->source_cap, sizeof *map->order);
    }
}

static void begin_table(struct scan *scan, const struct table *table, size_t rank)
{
    struct map_source *source = &scan->map->sources[rank];
    source->rank = rank;
    source->runs = NULL;
    table_seek(table, scan->from, &source->table);
    bool any = table_cursor_get(&source->table, &source->key, &source->value);
    take_in(scan, source, any ? STEP_KEY : STEP_END);
}

static void begin_runs(struct scan *scan, struct run **runs, size_t count, size_t rank)
{
    if (runs[0]->block_count == 0 || key_compare(runs[0]->last, scan->from) < 0) {
        return;
    }
    struct map_source *source = &scan->map->sources[rank];
    source->rank = rank;
    source->runs = runs;
    source->run_count = count;
    source->run_at = 0;
    take_in(scan, source, source_seek(scan, source));
}

/* Brings every source to its first key, or asks for what that needs. */
static void begin(struct scan *scan)
{
    struct map *map = scan->map;
    reserve(map);
    size_t rank = 0;
    begin_table(scan, map->table, rank++);
    if (map->frozen) {
        begin_table(scan, map->frozen, rank++);
    }
    for (size_t i = 0; i < map->levels[0].count; i++) {
        begin_runs(scan, &map->levels[0].runs[i], 1, rank++);
    }
    for (size_t level = 1; level < MAP_LEVELS; level++) {
        struct map_level *runs = &map->levels[level];
        size_t first = map_level_find(runs, scan->from);
        if (first < runs->count) {
            begin_runs(scan, &runs->runs[first], runs->count - first, rank);
        }
        rank++;
    }
}

static bool begins_with(struct map_slice key, struct map_slice prefix)
{
    return key.size >= prefix.size &&
           (prefix.size == 0 || memcmp(key.bytes, prefix.bytes, prefix.size) == 0);
}

/* Gives the least key out and goes on behind it. False: that was all, or a block is missing. */
static bool give(struct scan *scan, map_each_fn each, void *context)
{
    struct map_source **order = scan->map->order;
    struct map_source *top = order[0];
    if (!begins_with(top->key, scan->ahead.prefix)) {
        return false;
    }
    if (top->value.bytes) {
        scan->has_given = true;
        if (!each(context, top->key, top->value)) {
            return false;
        }
    } else if (!scan->has_given) {
        memcpy(scan->empty, top->key.bytes, top->key.size);
        scan->empty_size = top->key.size;
    }
    bool going = true;
    while (going && scan->count > 1 && key_compare(order[1]->key, top->key) == 0) {
        going = advance(scan, 1);
    }
    going = going && advance(scan, 0);
    scan->missing = !going;
    return going;
}

/* A scan that begins within a barren stretch begins behind it. */
static void pass_barren(struct scan *scan)
{
    struct map_barren *barren = &scan->map->barren;
    struct map_slice from = {barren->from, barren->from_size};
    struct map_slice to = {barren->to, barren->to_size};
    if (barren->is_known && key_compare(scan->from, from) >= 0 &&
        key_compare(scan->from, to) <= 0) {
        barren->to[barren->to_size] = 0; /* the least key above it */
        scan->from = (struct map_slice){barren->to, barren->to_size + 1};
    }
}

/* A scan that has to stop before it has given anything notes how far there was nothing. */
static void note_barren(struct scan *scan, struct map_slice asked)
{
    struct map_barren *barren = &scan->map->barren;
    if (!scan->missing || scan->has_given || scan->empty_size == 0) {
        return;
    }
    bool goes_on = scan->from.bytes == barren->to;
    if (!goes_on) {
        memcpy(barren->from, asked.bytes, asked.size);
        barren->from_size = asked.size;
    }
    memcpy(barren->to, scan->empty, scan->empty_size);
    barren->to_size = scan->empty_size;
    barren->is_known = true;
}

enum err_code map_scan(struct map *map, const struct map_range *range, map_each_fn each,
                       void *context, struct err *err)
{
    struct scan scan = {
        .map = map,
        .from = range->prefix,
        .ahead = {.count = AHEAD_BLOCKS, .prefix = range->prefix},
    };
    if (range->from.bytes && key_compare(range->from, range->prefix) > 0) {
        scan.from = range->from;
    }
    struct map_slice asked = scan.from;
    pass_barren(&scan);
    begin(&scan);
    if (!scan.missing) {
        while (scan.count > 0 && give(&scan, each, context)) {
        }
    }
    note_barren(&scan, asked);
    return scan.missing ? err_set(err, ERR_AGAIN, "a block of metadata is not here yet") : ERR_OK;
}
