/* Random use of the map beside the plainest model: an array of all keys that there may be. Every
 * block is fetched by ERR_AGAIN and map_supply through a cache that holds few of them, and now and
 * then comes damaged at first; checkpoints, merges and reloads happen all along. */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/map.h"
#include "volume/merge_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 3000, STEPS = 20000, OBJECTS_MAX = 4096, WANTS = 8, TRIES_MAX = 2000 };

struct row {
    uint8_t key[MAP_KEY_MAX];
    size_t key_size;
    uint8_t *value; /* NULL: not there */
    size_t size;
};

struct object {
    struct container name;
    struct str bytes;
};

struct world {
    struct rng rng;
    struct map *map;
    struct row rows[KEYS]; /* by key */
    struct object objects[OBJECTS_MAX];
    size_t object_count;
    uint64_t next_number;
    struct map_merge *merge;
    bool writing;
    struct map_run frozen; /* being written */
    struct str frozen_object;
    size_t fetches, merges, moved;
};

static uint64_t below(struct world *world, uint64_t limit)
{
    return rng_below(&world->rng, limit);
}

static bool chance(struct world *world, uint64_t in)
{
    return below(world, in) == 0;
}

/* The store. ----------------------------------------------------------------------------------- */

static void store(struct world *world, const struct container *name, const struct str *bytes)
{
    assert_true(world->object_count < OBJECTS_MAX);
    struct object *object = &world->objects[world->object_count++];
    *object = (struct object){.name = *name};
    str_add_bytes(&object->bytes, bytes->text, bytes->size);
}

static const struct str *find_object(struct world *world, const struct container *name)
{
    for (size_t i = 0; i < world->object_count; i++) {
        if (container_equal(&world->objects[i].name, name)) {
            return &world->objects[i].bytes;
        }
    }
    fail();
    return NULL;
}

/* Forgets objects that neither the map nor a merge reads. */
static void collect(struct world *world)
{
    static struct map_run runs[MAP_RUNS_MAX];
    size_t run_count = map_runs(world->map, runs, MAP_RUNS_MAX);
    size_t kept = 0;
    for (size_t i = 0; i < world->object_count; i++) {
        bool named = false;
        for (size_t k = 0; k < run_count; k++) {
            named = named || container_equal(&runs[k].container, &world->objects[i].name);
        }
        if (named) {
            world->objects[kept++] = world->objects[i];
        } else {
            str_release(&world->objects[i].bytes);
        }
    }
    world->object_count = kept;
}

/* A copy of a range, sometimes with one bit turned over. */
static uint8_t *fetch(struct world *world, const struct map_want *want, bool damage)
{
    const struct str *bytes = find_object(world, &want->run);
    assert_true(want->offset + want->size <= bytes->size);
    uint8_t *copy = mem_dup(bytes->text + want->offset, want->size);
    if (damage) {
        copy[below(world, want->size)] ^= (uint8_t)(1u << below(world, 8));
    }
    world->fetches++;
    return copy;
}

static void supply_all(struct world *world)
{
    struct map_want wants[WANTS];
    size_t count = map_wanted(world->map, wants, 1 + below(world, WANTS));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        bool damage = chance(world, 50);
        uint8_t *bytes = fetch(world, &wants[i], damage);
        enum err_code code = map_supply(world->map, &wants[i], bytes, NULL);
        if (damage) {
            assert_true(code == ERR_CORRUPT || code == ERR_OK); /* OK: it had that block */
        } else {
            assert_int_equal(code, ERR_OK);
        }
        free(bytes);
    }
}

/* Keys and values. ----------------------------------------------------------------------------- */

static int row_compare(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    return key_compare((struct map_slice){x->key, x->key_size},
                       (struct map_slice){y->key, y->key_size});
}

/* Like the volume's: a kind, a number, a name; some with nothing behind the kind, some long. */
static void make_key(struct world *world, struct row *row)
{
    row->key[0] = (uint8_t) "CDIX"[below(world, 4)];
    row->key_size = 1;
    if (chance(world, 200)) {
        row->key_size = below(world, 2);
        return;
    }
    uint64_t number = below(world, 40);
    for (int i = 7; i >= 0; i--) {
        row->key[row->key_size++] = (uint8_t)(number >> (8 * i));
    }
    size_t name = chance(world, 50) ? below(world, MAP_KEY_MAX - 9) : below(world, 12);
    for (size_t i = 0; i < name; i++) {
        uint64_t letter = below(world, 6);
        row->key[row->key_size++] = (uint8_t)(letter ? 'a' + letter : 255 * below(world, 2));
    }
}

static void make_keys(struct world *world)
{
    size_t count = 0;
    while (count < KEYS) {
        make_key(world, &world->rows[count++]);
        if (count == KEYS) {
            qsort(world->rows, count, sizeof *world->rows, row_compare);
            size_t kept = 1;
            for (size_t i = 1; i < count; i++) {
                if (row_compare(&world->rows[i], &world->rows[kept - 1]) != 0) {
                    world->rows[kept++] = world->rows[i];
                }
            }
            count = kept;
        }
    }
}

static void change(struct world *world)
{
    struct row *row = &world->rows[below(world, KEYS)];
    free(row->value);
    row->value = NULL;
    row->size = 0;
    if (chance(world, 3)) {
        map_delete(world->map, row->key, row->key_size);
        return;
    }
    row->size = chance(world, 500) ? below(world, 100000) : below(world, 80);
    row->value = mem_alloc(row->size);
    for (size_t i = 0; i < row->size; i++) {
        row->value[i] = (uint8_t)(below(world, 2) ? 'x' : below(world, 256));
    }
    map_put(world->map, row->key, row->key_size, row->value, row->size);
}

/* Reading. ------------------------------------------------------------------------------------- */

static void look_up(struct world *world)
{
    const struct row *row = &world->rows[below(world, KEYS)];
    struct map_slice value = {0};
    enum err_code code = ERR_AGAIN;
    for (int i = 0; i < TRIES_MAX && code == ERR_AGAIN; i++) {
        code = map_get(world->map, row->key, row->key_size, &value, NULL);
        if (code == ERR_AGAIN) {
            supply_all(world);
        }
    }
    assert_int_equal(code, row->value ? ERR_OK : ERR_NOT_FOUND);
    if (row->value) {
        assert_int_equal(value.size, row->size);
        assert_memory_equal(value.bytes, row->value, row->size);
    }
}

struct walk {
    struct world *world;
    size_t at; /* the row that comes next, or one that is not there */
    size_t left;
    size_t given;
    uint8_t last[MAP_KEY_MAX + 1];
    size_t last_size;
};

static void skip_absent(struct walk *walk)
{
    while (walk->at < KEYS && !walk->world->rows[walk->at].value) {
        walk->at++;
    }
}

static bool walk_each(void *context, struct map_slice key, struct map_slice value)
{
    struct walk *walk = context;
    skip_absent(walk);
    assert_true(walk->at < KEYS);
    const struct row *row = &walk->world->rows[walk->at++];
    assert_int_equal(key.size, row->key_size);
    assert_memory_equal(key.bytes, row->key, key.size);
    assert_int_equal(value.size, row->size);
    assert_memory_equal(value.bytes, row->value, row->size);
    memcpy(walk->last, key.bytes, key.size);
    walk->last[key.size] = 0; /* the least key behind it */
    walk->last_size = key.size + 1;
    walk->given++;
    return --walk->left > 0;
}

static bool begins_with(const struct row *row, struct map_slice prefix)
{
    return row->key_size >= prefix.size && memcmp(row->key, prefix.bytes, prefix.size) == 0;
}

static void walk_range(struct world *world, struct map_range range, size_t left)
{
    struct walk walk = {.world = world, .left = left};
    struct map_slice from =
        range.from.bytes && key_compare(range.from, range.prefix) > 0 ? range.from : range.prefix;
    while (walk.at < KEYS &&
           key_compare((struct map_slice){world->rows[walk.at].key, world->rows[walk.at].key_size},
                       from) < 0) {
        walk.at++;
    }
    enum err_code code = ERR_AGAIN;
    for (int i = 0; i < TRIES_MAX && code == ERR_AGAIN; i++) {
        size_t before = walk.given;
        code = map_scan(world->map, &range, walk_each, &walk, NULL);
        if (code == ERR_AGAIN) {
            supply_all(world);
        }
        if (walk.given > before) {
            range.from = (struct map_slice){walk.last, walk.last_size};
            i = 0;
        }
    }
    assert_int_equal(code, ERR_OK);
    if (walk.left > 0) {
        skip_absent(&walk);
        assert_true(walk.at == KEYS || !begins_with(&world->rows[walk.at], range.prefix));
    }
}

static void scan_some(struct world *world)
{
    const struct row *row = &world->rows[below(world, KEYS)];
    struct map_range range = {.prefix = {row->key, below(world, row->key_size + 1)}};
    if (chance(world, 2)) {
        const struct row *begin = &world->rows[below(world, KEYS)];
        begin = chance(world, 2) ? begin : row;
        range.from = (struct map_slice){begin->key, below(world, begin->key_size + 1)};
    }
    walk_range(world, range, chance(world, 2) ? 1 + below(world, 30) : SIZE_MAX);
}

static void scan_everything(struct world *world)
{
    walk_range(world, (struct map_range){0}, SIZE_MAX);
}

/* Checkpoints and merges. ---------------------------------------------------------------------- */

static void finish_writing(struct world *world)
{
    world->writing = false;
    if (chance(world, 4)) {
        map_unfreeze(world->map);
    } else {
        store(world, &world->frozen.container, &world->frozen_object);
        map_thaw(world->map, &world->frozen, &world->frozen_object);
    }
}

static void checkpoint(struct world *world)
{
    if (!world->writing) {
        assert_int_equal(map_freeze(world->map, NULL), ERR_OK);
        assert_int_equal(map_freeze(world->map, NULL), ERR_EXISTS);
        world->frozen = (struct map_run){
            .container = {.kind = CONTAINER_RUN, .term = 7, .number = world->next_number++}};
        world->writing = true;
        return;
    }
    if (chance(world, 2)) {
        map_write_frozen(world->map, &world->frozen, &world->frozen_object);
        finish_writing(world);
    } else if (map_write_frozen_part(world->map, &world->frozen, &world->frozen_object)) {
        finish_writing(world);
    } else if (chance(world, 3)) {
        map_unfreeze(world->map); /* in the middle */
        world->writing = false;
    }
}

static void supply_merge(struct world *world)
{
    struct map_want wants[WANTS];
    size_t count = map_merge_wanted(world->merge, wants, 1 + below(world, WANTS));
    for (size_t i = 0; i < count; i++) {
        bool damage = chance(world, 50);
        uint8_t *bytes = fetch(world, &wants[i], damage);
        enum err_code code = map_merge_supply(world->merge, &wants[i], bytes, NULL);
        assert_int_equal(code, damage ? ERR_CORRUPT : ERR_OK);
        free(bytes);
    }
}

static void step_merge(struct world *world)
{
    enum map_merge_state state = MAP_MERGE_NEEDS;
    struct map_run run = {0};
    struct str out = {0};
    assert_int_equal(map_merge_step(world->merge, &state, &run, &out, NULL), ERR_OK);
    switch (state) {
    case MAP_MERGE_NEEDS:
        supply_merge(world);
        break;
    case MAP_MERGE_OUTPUT:
        store(world, &run.container, &out);
        break;
    case MAP_MERGE_DONE:
        for (size_t i = 0; i < world->merge->result_count; i++) {
            world->moved += !world->merge->results[i].made;
        }
        world->merges++;
        map_merge_apply(world->map, world->merge);
        map_merge_destroy(world->merge);
        world->merge = NULL;
        collect(world);
        break;
    }
    str_release(&out);
}

static void merge(struct world *world)
{
    if (!world->merge) {
        bool all = chance(world, 20);
        bool due = map_merge_is_due(world->map);
        world->merge = map_merge_create(world->map, all, 7, &world->next_number);
        assert_true(all || (world->merge != NULL) == due);
        if (world->merge && chance(world, 2)) {
            world->merge->fetch_bytes = 500 + below(world, 10000);
        }
    }
    for (uint64_t i = below(world, 60); world->merge && i > 0; i--) {
        step_merge(world);
    }
    if (world->merge && chance(world, 200)) {
        map_merge_destroy(world->merge); /* given up */
        world->merge = NULL;
        collect(world);
    }
}

static void create_map(struct world *world)
{
    world->map = map_create(chance(world, 2) ? 0 : below(world, 1 << 20));
    world->map->block_bytes = 200 + below(world, 2000);
    world->map->run_bytes = 4000 + below(world, 20000);
    world->map->level_one_bytes = 4 * world->map->run_bytes;
}

/* What is in the store is the map: everything is written and read back by another one. */
static void reload(struct world *world)
{
    static struct map_run runs[MAP_RUNS_MAX];
    map_merge_destroy(world->merge);
    world->merge = NULL;
    if (world->writing) {
        map_unfreeze(world->map);
    }
    assert_int_equal(map_freeze(world->map, NULL), ERR_OK);
    struct map_run run = {
        .container = {.kind = CONTAINER_RUN, .term = 7, .number = world->next_number++}};
    struct str object = {0};
    map_write_frozen(world->map, &run, &object);
    store(world, &run.container, &object);
    map_thaw(world->map, &run, &object);
    str_release(&object);
    world->writing = false;
    collect(world);

    size_t count = map_runs(world->map, runs, MAP_RUNS_MAX);
    map_destroy(world->map);
    create_map(world);
    for (size_t i = 0; i < count; i++) {
        const struct str *bytes = find_object(world, &runs[i].container);
        assert_int_equal(bytes->size, runs[i].size);
        assert_int_equal(map_add_run(world->map, &runs[i], bytes->text + runs[i].index_offset,
                                     bytes->size - runs[i].index_offset, NULL),
                         ERR_OK);
    }
}

static void step(struct world *world)
{
    uint64_t dice = below(world, 1000);
    if (dice < 600) {
        change(world);
    } else if (dice < 800) {
        look_up(world);
    } else if (dice < 850) {
        scan_some(world);
    } else if (dice < 852) {
        scan_everything(world);
    } else if (dice < 870) {
        checkpoint(world);
    } else if (dice < 970) {
        merge(world);
    } else if (dice < 971) {
        reload(world);
    }
}

static void destroy(struct world *world)
{
    map_merge_destroy(world->merge);
    map_destroy(world->map);
    for (size_t i = 0; i < world->object_count; i++) {
        str_release(&world->objects[i].bytes);
    }
    for (size_t i = 0; i < KEYS; i++) {
        free(world->rows[i].value);
    }
    str_release(&world->frozen_object);
    free(world);
}

static void run_seed(uint64_t seed)
{
    struct world *world = mem_alloc(sizeof *world);
    world->rng.state = seed;
    world->next_number = 1;
    make_keys(world);
    create_map(world);
    for (int i = 0; i < STEPS; i++) {
        step(world);
    }
    scan_everything(world);
    size_t runs = map_runs(world->map, NULL, 0);
    printf("%zu fetches, %zu merges, %zu runs moved, %zu at the end, %zu in level 2\n",
           world->fetches, world->merges, world->moved, runs, world->map->levels[2].count);
    destroy(world);
}

static void random_use_matches_the_model(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    const char *many = getenv("SEEDS");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;
    uint64_t count = many ? strtoull(many, NULL, 10) : given ? 1 : 6;
    for (uint64_t i = 0; i < count; i++) {
        printf("seed %llu\n", (unsigned long long)(first + i));
        fflush(stdout);
        run_seed(first + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_use_matches_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
