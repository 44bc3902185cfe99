/* The real map for tests of the engine: its runs are kept in memory, its cache is as small as can
 * be unless nothing is to be missing. */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/engine_testmap.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_BYTES = 64 << 20, WANTS_MAX = 16, RUNS_MAX = 64 };

struct object {
    struct container container;
    struct str bytes;
};

struct testmap {
    struct map *map;
    struct rng rng;
    struct object *objects;
    size_t count, cap;
    uint64_t next_number;
};

struct testmap *testmap_create(uint64_t seed, unsigned again)
{
    struct testmap *testmap = mem_alloc(sizeof *testmap);
    testmap->map = map_create(again ? 0 : CACHE_BYTES);
    testmap->rng.state = seed;
    testmap->next_number = 1;
    return testmap;
}

void testmap_destroy(struct testmap *testmap)
{
    for (size_t i = 0; i < testmap->count; i++) {
        str_release(&testmap->objects[i].bytes);
    }
    free(testmap->objects);
    map_destroy(testmap->map);
    free(testmap);
}

struct map *testmap_map(struct testmap *testmap)
{
    return testmap->map;
}

uint64_t testmap_changes(const struct testmap *testmap)
{
    (void)testmap;
    return 0;
}

static const struct str *find(const struct testmap *testmap, const struct container *container)
{
    for (size_t i = 0; i < testmap->count; i++) {
        if (container_equal(&testmap->objects[i].container, container)) {
            return &testmap->objects[i].bytes;
        }
    }
    abort(); /* an object that was never stored */
}

static void keep(struct testmap *testmap, const struct map_run *run, struct str *bytes)
{
    VEC_PUSH(testmap->objects, testmap->count, testmap->cap) =
        (struct object){run->container, *bytes};
    *bytes = (struct str){0};
}

static void supply(const struct testmap *testmap, struct map *map)
{
    struct map_want wants[WANTS_MAX];
    size_t count = map_wanted(map, wants, WANTS_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct str *object = find(testmap, &wants[i].run);
        CHECK(wants[i].offset + wants[i].size <= object->size);
        CHECK(map_supply(map, &wants[i], object->text + wants[i].offset, NULL) == ERR_OK);
    }
}

void testmap_supply(struct testmap *testmap)
{
    supply(testmap, testmap->map);
}

static void merge(struct testmap *testmap, bool all)
{
    struct map_merge *merge = map_merge_create(testmap->map, all, 1, &testmap->next_number);
    enum map_merge_state state = MAP_MERGE_NEEDS;
    while (merge && state != MAP_MERGE_DONE) {
        struct map_run run = {0};
        struct str out = {0};
        CHECK(map_merge_step(merge, &state, &run, &out, NULL) == ERR_OK);
        if (state == MAP_MERGE_OUTPUT) {
            keep(testmap, &run, &out);
        }
        str_release(&out);
        struct map_want wants[WANTS_MAX];
        size_t count = state == MAP_MERGE_NEEDS ? map_merge_wanted(merge, wants, WANTS_MAX) : 0;
        for (size_t i = 0; i < count; i++) {
            const char *bytes = find(testmap, &wants[i].run)->text + wants[i].offset;
            CHECK(map_merge_supply(merge, &wants[i], bytes, NULL) == ERR_OK);
        }
    }
    if (merge) {
        map_merge_apply(testmap->map, merge);
        map_merge_destroy(merge);
    }
}

struct telling {
    map_each_fn each;
    void *context;
    struct str next; /* behind the last key */
};

static bool tell_one(void *context, struct map_slice key, struct map_slice value)
{
    struct telling *telling = context;
    str_clear(&telling->next);
    str_add_bytes(&telling->next, key.bytes, key.size);
    str_add_char(&telling->next, '\0');
    return telling->each(telling->context, key, value);
}

/* Loads the runs into a new map and tells all that is in it. */
static void tell(const struct testmap *testmap, map_each_fn each, void *context)
{
    struct map_run runs[RUNS_MAX];
    size_t count = map_runs(testmap->map, runs, RUNS_MAX);
    CHECK(count <= RUNS_MAX);
    struct map *map = map_create((size_t)1 << 30);
    for (size_t i = 0; i < count; i++) {
        const struct str *object = find(testmap, &runs[i].container);
        CHECK(map_add_run(map, &runs[i], object->text + runs[i].index_offset,
                          object->size - runs[i].index_offset, NULL) == ERR_OK);
    }
    struct telling telling = {.each = each, .context = context};
    enum err_code code = ERR_AGAIN;
    while (code == ERR_AGAIN) {
        AUTO_STR struct str from = {0};
        str_add_bytes(&from, str_text(&telling.next), telling.next.size);
        struct map_range range = {.prefix = {(const uint8_t *)"", 0},
                                  .from = {(const uint8_t *)str_text(&from), from.size}};
        code = map_scan(map, &range, tell_one, &telling, NULL);
        supply(testmap, map);
    }
    CHECK(code == ERR_OK);
    str_release(&telling.next);
    map_destroy(map);
}

void testmap_checkpoint(struct testmap *testmap, struct engine *engine, map_each_fn each,
                        void *context)
{
    CHECK(engine_freeze(engine, NULL) == ERR_OK);
    if (rng_below(&testmap->rng, 8) == 0) {
        map_unfreeze(testmap->map); /* it could not be stored, so it is tried again */
        CHECK(engine_freeze(engine, NULL) == ERR_OK);
    }
    struct map_run run = {.container = {CONTAINER_RUN, 0, 1, testmap->next_number++}};
    struct str object = {0};
    map_write_frozen(testmap->map, &run, &object);
    map_thaw(testmap->map, &run, &object);
    keep(testmap, &run, &object);
    tell(testmap, each, context);
    if (map_merge_is_due(testmap->map) || rng_below(&testmap->rng, 10) == 0) {
        merge(testmap, rng_below(&testmap->rng, 3) == 0);
    }
}
