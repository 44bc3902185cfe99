#include "volume/map_fixture.h"

#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture *fixture_create(size_t cache_bytes)
{
    struct fixture *fixture = mem_alloc(sizeof *fixture);
    fixture->map = map_create(cache_bytes);
    fixture->next_number = 1;
    return fixture;
}

void fixture_destroy(struct fixture *fixture)
{
    map_destroy(fixture->map);
    for (size_t i = 0; i < fixture->object_count; i++) {
        str_release(&fixture->objects[i]);
    }
    free(fixture);
}

void fixture_store(struct fixture *fixture, const struct container *name, const struct str *object)
{
    assert_true(fixture->object_count < OBJECTS_MAX);
    fixture->names[fixture->object_count] = *name;
    str_add_bytes(&fixture->objects[fixture->object_count++], object->text, object->size);
}

const uint8_t *fixture_stored(const struct fixture *fixture, const struct container *name,
                              uint64_t offset, size_t size)
{
    for (size_t i = 0; i < fixture->object_count; i++) {
        if (container_equal(&fixture->names[i], name)) {
            assert_true(offset + size <= fixture->objects[i].size);
            return (const uint8_t *)fixture->objects[i].text + offset;
        }
    }
    fail_msg("no such object");
    return NULL;
}

void fixture_supply(struct fixture *fixture)
{
    struct map_want wants[WANTS];
    size_t count = map_wanted(fixture->map, wants, WANTS);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes =
            fixture_stored(fixture, &wants[i].run, wants[i].offset, wants[i].size);
        assert_int_equal(map_supply(fixture->map, &wants[i], bytes, NULL), ERR_OK);
        fixture->bytes += wants[i].size;
    }
    fixture->requests += count;
    fixture->rounds++;
}

void fixture_put(struct fixture *fixture, const char *key, const char *value)
{
    map_put(fixture->map, key, strlen(key), value, strlen(value));
}

/* Nothing but the value that is there, or "-". */
void fixture_expect(struct fixture *fixture, const char *key, const char *value)
{
    struct map_slice found = {0};
    enum err_code code = map_get(fixture->map, key, strlen(key), &found, NULL);
    while (code == ERR_AGAIN) {
        fixture_supply(fixture);
        code = map_get(fixture->map, key, strlen(key), &found, NULL);
    }
    if (strcmp(value, "-") == 0) {
        assert_int_equal(code, ERR_NOT_FOUND);
    } else {
        assert_int_equal(code, ERR_OK);
        assert_int_equal(found.size, strlen(value));
        assert_memory_equal(found.bytes, value, found.size);
    }
}

struct map_run fixture_checkpoint(struct fixture *fixture)
{
    struct map_run run = {
        .container = {.kind = CONTAINER_RUN, .term = 1, .number = fixture->next_number++}};
    struct str object = {0};
    assert_int_equal(map_freeze(fixture->map, NULL), ERR_OK);
    map_write_frozen(fixture->map, &run, &object);
    fixture_store(fixture, &run.container, &object);
    map_thaw(fixture->map, &run, &object);
    str_release(&object);
    return run;
}

/* Returns how many steps it took; 0: there was nothing to merge. */
size_t fixture_merge(struct fixture *fixture, bool all)
{
    struct map_merge *merge = map_merge_create(fixture->map, all, 1, &fixture->next_number);
    enum map_merge_state state = MAP_MERGE_NEEDS;
    struct str out = {0};
    size_t steps = 0;
    while (merge && state != MAP_MERGE_DONE) {
        struct map_run run;
        assert_int_equal(map_merge_step(merge, &state, &run, &out, NULL), ERR_OK);
        steps++;
        struct map_want wants[WANTS];
        size_t count = map_merge_wanted(merge, wants, WANTS);
        for (size_t i = 0; state == MAP_MERGE_NEEDS && i < count; i++) {
            const uint8_t *bytes =
                fixture_stored(fixture, &wants[i].run, wants[i].offset, wants[i].size);
            assert_int_equal(map_merge_supply(merge, &wants[i], bytes, NULL), ERR_OK);
        }
        if (state == MAP_MERGE_OUTPUT) {
            fixture_store(fixture, &run.container, &out);
        }
    }
    if (merge) {
        map_merge_apply(fixture->map, merge);
    }
    map_merge_destroy(merge);
    str_release(&out);
    return steps;
}

/* Everything that was stored, in a map with an empty cache. */
void fixture_reload(struct fixture *fixture, size_t cache_bytes)
{
    static struct map_run runs[MAP_RUNS_MAX];
    size_t count = map_runs(fixture->map, runs, MAP_RUNS_MAX);
    map_destroy(fixture->map);
    fixture->map = map_create(cache_bytes);
    for (size_t i = 0; i < count; i++) {
        size_t size = (size_t)(runs[i].size - runs[i].index_offset);
        const uint8_t *index =
            fixture_stored(fixture, &runs[i].container, runs[i].index_offset, size);
        assert_int_equal(map_add_run(fixture->map, &runs[i], index, size, NULL), ERR_OK);
    }
    fixture->requests = fixture->rounds = 0;
    fixture->bytes = 0;
}

/* Keys KIND00000000 and on, with values that hardly compress. */
void fixture_put_many(struct fixture *fixture, char kind, size_t first, size_t count)
{
    struct rng rng = {.state = first};
    for (size_t i = first; i < first + count; i++) {
        char key[16];
        uint8_t value[64];
        for (size_t k = 0; k < sizeof value; k++) {
            value[k] = (uint8_t)rng_next(&rng);
        }
        snprintf(key, sizeof key, "%c%08zu", kind, i);
        map_put(fixture->map, key, strlen(key), value, sizeof value);
    }
}

struct listing {
    size_t count;
    char last[MAP_KEY_MAX + 1];
    size_t last_size;
};

static bool list_each(void *context, struct map_slice key, struct map_slice value)
{
    struct listing *listing = context;
    (void)value;
    memcpy(listing->last, key.bytes, key.size);
    listing->last[key.size] = 0;
    listing->last_size = key.size + 1;
    listing->count++;
    return true;
}

size_t fixture_list(struct fixture *fixture, const char *prefix)
{
    struct listing listing = {0};
    struct map_range range = {.prefix = {(const uint8_t *)prefix, strlen(prefix)}};
    while (map_scan(fixture->map, &range, list_each, &listing, NULL) == ERR_AGAIN) {
        fixture_supply(fixture);
        if (listing.count) {
            range.from = (struct map_slice){(const uint8_t *)listing.last, listing.last_size};
        }
    }
    return listing.count;
}
