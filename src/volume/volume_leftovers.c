/* For volume_model_test.c: is everything that is left in the store referred to? */
#include "base/mem.h"
#include "volume/volume_gc.h"
#include "volume/volume_internal.h"
#include "volume/volume_life.h"

#include <string.h>

struct leftovers {
    struct world *world;
    struct volume *volume;
    struct gc_facts facts;
    size_t packs;
};

static bool keep_record(void *context, const struct engine_container *record)
{
    struct leftovers *left = context;
    VEC_PUSH(left->facts.records, left->facts.record_count, left->facts.record_cap) = *record;
    return true;
}

static enum err_code op_records(void *context, struct err *err)
{
    struct leftovers *left = context;
    left->facts.record_count = 0;
    return engine_containers(volume_engine(left->volume), keep_record, left, err);
}

static const struct engine_container *find_record(const struct leftovers *left,
                                                  const struct container *container)
{
    for (size_t i = 0; i < left->facts.record_count; i++) {
        if (container_equal(&left->facts.records[i].container, container)) {
            return &left->facts.records[i];
        }
    }
    return NULL;
}

static bool is_held(const struct leftovers *left, const struct engine_container *record)
{
    const struct volume_head *head = &left->volume->head.now;
    bool held = record->live > 0;
    for (size_t i = 0; i < head->snap_count; i++) {
        uint64_t seq = head->snaps[i].info.seq;
        held = held || (record->born <= seq && seq < record->dead);
    }
    return held;
}

static bool snap_names(const struct leftovers *left, const struct container *run)
{
    const struct volume_head *head = &left->volume->head.now;
    bool named = volume_view_names(&head->view, run);
    for (size_t i = 0; i < head->snap_count && !named; i++) {
        AUTO_STR struct str bytes = {0};
        struct volume_view view = {0};
        char key[VOLUME_SNAP_KEY_MAX];
        struct err err;
        volume_snap_key(&head->snaps[i], key);
        EXPECT(left->world, object_get(left->world->side, key, &bytes, NULL, &err) == ERR_OK);
        EXPECT(left->world, volume_view_decode(bytes.text, bytes.size, &view, &err) == ERR_OK);
        named = volume_view_names(&view, run);
        volume_view_release(&view);
    }
    return named;
}

static bool log_is_needed(const struct leftovers *left, uint64_t seq)
{
    struct container container = {.kind = CONTAINER_LOG, .number = seq};
    const struct engine_container *record = find_record(left, &container);
    uint8_t key[VOLUME_FENCE_KEY_BYTES];
    struct map_slice value;
    volume_fence_key(seq, key);
    while (map_get(left->volume->map, key, sizeof key, &value, NULL) == ERR_AGAIN) {
        volume_want(left->volume);
        volume_run(left->volume, 10);
    }
    bool is_fence = map_get(left->volume->map, key, sizeof key, &value, NULL) == ERR_OK;
    return is_fence || seq > left->volume->head.now.view.seq ||
           (record != NULL && is_held(left, record));
}

static bool check_object(void *context, const struct object_item *item)
{
    struct leftovers *left = context;
    const struct volume_head *head = &left->volume->head.now;
    struct container container;
    struct volume_snap snap;
    bool needed = strcmp(item->key, "format") == 0 || strcmp(item->key, "head") == 0;
    if (volume_snap_key_parse(item->key, &snap)) {
        for (size_t i = 0; i < head->snap_count; i++) {
            needed = needed || strcmp(head->snaps[i].info.name, snap.info.name) == 0;
        }
    } else if (container_parse(item->key, &container)) {
        const struct engine_container *record = find_record(left, &container);
        left->packs += container.kind == CONTAINER_PACK;
        needed = container.kind == CONTAINER_PACK  ? record != NULL && is_held(left, record)
                 : container.kind == CONTAINER_RUN ? snap_names(left, &container)
                                                   : log_is_needed(left, container.number);
    }
    if (!needed) {
        fprintf(stderr, "seed %llu: %s is left\n", (unsigned long long)left->world->seed,
                item->key);
        abort();
    }
    return true;
}

size_t life_check_leftovers(struct life *life)
{
    struct world *world = life->world;
    struct volume_gc_report report;
    struct err err = {0};
    for (int i = 0; i < 3; i++) { /* gc's own commits are garbage for the next one */
        EXPECT(world, volume_checkpoint(life->volume, &err) == ERR_OK);
        EXPECT(world, volume_gc(life->volume, false, &report, &err) == ERR_OK);
    }
    struct leftovers left = {.world = world, .volume = life->volume};
    EXPECT(world, volume_do(life->volume, op_records, &left, &err) == ERR_OK);
    EXPECT(world, object_each(world->side, "", check_object, &left, &err) == ERR_OK);
    for (size_t i = 0; i < left.facts.record_count; i++) {
        const struct engine_container *record = &left.facts.records[i];
        EXPECT(world, is_held(&left, record) || record->dead > life->volume->head.now.view.seq);
    }
    gc_facts_release(&left.facts);
    return left.packs;
}
