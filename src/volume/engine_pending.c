/* The pending set: a hash table over entries in an arena. An entry's value is replaced in place
 * where it fits, so a key that changes often takes its room once. */
#include "base/mem.h"
#include "volume/engine_internal.h"
#include "volume/logobj.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

static bool entry_is(const struct pending_entry *entry, uint32_t hash, struct map_slice key)
{
    return entry->hash == hash && entry->key_size == key.size &&
           memcmp(entry->key, key.bytes, key.size) == 0;
}

/* The slot that has the key, or the free one where it belongs. */
static size_t find_slot(const struct pending *pending, uint32_t hash, struct map_slice key)
{
    size_t mask = pending->slot_count - 1;
    size_t slot = hash & mask;
    while (pending->slots[slot] &&
           !entry_is(&pending->entries[pending->slots[slot] - 1], hash, key)) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static uint32_t hash_of(struct map_slice key)
{
    return (uint32_t)XXH3_64bits(key.bytes, key.size);
}

static void grow_slots(struct pending *pending)
{
    if ((pending->count + 1) * 2 <= pending->slot_count) {
        return;
    }
    free(pending->slots);
    pending->slot_count = pending->slot_count ? pending->slot_count * 2 : 256;
    CHECK(pending->slot_count < UINT32_MAX);
    pending->slots = mem_array(pending->slot_count, sizeof *pending->slots);
    size_t mask = pending->slot_count - 1;
    for (size_t i = 0; i < pending->count; i++) {
        size_t slot = pending->entries[i].hash & mask;
        while (pending->slots[slot]) {
            slot = (slot + 1) & mask;
        }
        pending->slots[slot] = (uint32_t)i + 1;
    }
}

static void set_value(struct pending *pending, struct pending_entry *entry, struct map_slice value)
{
    if (value.bytes == NULL) {
        entry->value = NULL;
        entry->value_size = 0;
        entry->value_room = 0;
        return;
    }
    if (entry->value == NULL || value.size > entry->value_room) {
        entry->value = arena_alloc(&pending->arena, value.size);
        entry->value_room = (uint32_t)value.size;
    }
    memcpy(entry->value, value.bytes, value.size);
    entry->value_size = (uint32_t)value.size;
}

struct pending_entry *pending_set(struct pending *pending, struct map_slice key,
                                  struct map_slice value)
{
    grow_slots(pending);
    uint32_t hash = hash_of(key);
    size_t slot = find_slot(pending, hash, key);
    struct pending_entry *entry = NULL;
    if (pending->slots[slot]) {
        entry = &pending->entries[pending->slots[slot] - 1];
        entry->covers |= entry->value == NULL && value.bytes != NULL;
    } else {
        VEC_PUSH(pending->entries, pending->count, pending->cap) =
            (struct pending_entry){.key_size = (uint32_t)key.size, .hash = hash};
        pending->slots[slot] = (uint32_t)pending->count;
        entry = &pending->entries[pending->count - 1];
        entry->key = arena_alloc(&pending->arena, key.size);
        memcpy(entry->key, key.bytes, key.size);
    }
    set_value(pending, entry, value);
    entry->fresh = true;
    pending->dirty = true;
    return entry;
}

const struct pending_entry *pending_find(const struct pending *pending, struct map_slice key)
{
    if (pending->slot_count == 0) {
        return NULL;
    }
    size_t slot = find_slot(pending, hash_of(key), key);
    return pending->slots[slot] ? &pending->entries[pending->slots[slot] - 1] : NULL;
}

void pending_freshen(struct pending *pending, struct map_slice key)
{
    size_t slot = pending->slot_count ? find_slot(pending, hash_of(key), key) : 0;
    if (pending->slot_count && pending->slots[slot]) {
        pending->entries[pending->slots[slot] - 1].fresh = true;
    }
}

void pending_release(struct pending *pending)
{
    free(pending->entries);
    free(pending->slots);
    arena_release(&pending->arena);
    *pending = (struct pending){0};
}

size_t engine_pending_bytes(const struct engine *engine)
{
    return engine->pending.arena.used_bytes - engine->pending.kept_bytes;
}

/* Taking. -------------------------------------------------------------------------------------- */

struct taking {
    struct engine *engine;
    struct pending kept; /* what stays pending */
    void (*each)(void *context, const struct logobj_change *change);
    void *context;
};

static void emit(struct taking *taking, const struct pending_entry *entry, const uint8_t *value,
                 size_t size)
{
    struct logobj_change change = {
        .key = entry->key, .key_size = entry->key_size, .value = value, .value_size = size};
    taking->each(taking->context, &change);
}

static void keep(struct taking *taking, const struct pending_entry *entry)
{
    struct map_slice key = {entry->key, entry->key_size};
    struct map_slice value = {entry->value, entry->value_size};
    pending_set(&taking->kept, key, value)->fresh = false;
}

size_t pending_without_held(const struct engine *engine, const struct pending_entry *entry,
                            uint8_t value[CODEC_CONTAINER_MAX])
{
    struct engine_container record;
    struct map_slice key = {entry->key, entry->key_size};
    if (entry->value == NULL || engine->holds.count == 0 ||
        !codec_container_read(key, (struct map_slice){entry->value, entry->value_size}, &record)) {
        return 0;
    }
    uint64_t held = holds_share(&engine->holds, &record.container);
    CHECK(held <= record.live);
    record.live -= held;
    return held ? codec_container_write(value, &record) : 0;
}

/* Files and bytes as they are without those held. */
static struct engine_counters counters_without_held(const struct engine *engine)
{
    struct engine_counters counters = engine->counters;
    for (size_t i = 0; i < engine->holds.count; i++) {
        struct codec_key key;
        codec_key_inode(&key, 'I', engine->holds.items[i].inode);
        const struct pending_entry *entry = pending_find(&engine->pending, slice_of_key(&key));
        CHECK(entry); /* a held inode stays pending */
        struct engine_node node;
        CHECK(codec_node_read((struct map_slice){entry->value, entry->value_size},
                              engine->holds.items[i].inode, &node));
        counters.files--;
        counters.bytes -= node.attr.size;
    }
    return counters;
}

static void take_counters(struct taking *taking)
{
    struct engine *engine = taking->engine;
    struct engine_counters counters = counters_without_held(engine);
    if (memcmp(&counters, &engine->committed, sizeof counters) == 0) {
        return;
    }
    engine->committed = counters;
    struct codec_key key;
    codec_key_counters(&key);
    uint8_t value[CODEC_COUNTERS_MAX];
    size_t size = codec_counters_write(value, &counters);
    map_put(engine->map, key.bytes, key.size, value, size);
    struct pending_entry entry = {.key = key.bytes, .key_size = (uint32_t)key.size};
    emit(taking, &entry, value, size);
}

static void take_entry(struct taking *taking, const struct pending_entry *entry)
{
    if (holds_have(&taking->engine->holds, entry)) {
        if (entry->covers) {
            emit(taking, entry, NULL, 0); /* the name's former file is gone, whatever is held */
        }
        keep(taking, entry);
        return;
    }
    uint8_t value[CODEC_CONTAINER_MAX];
    size_t size = pending_without_held(taking->engine, entry, value);
    if (size == 0) {
        emit(taking, entry, entry->value, entry->value_size);
        return;
    }
    if (entry->fresh) {
        emit(taking, entry, value, size);
    }
    keep(taking, entry);
}

/* Would a take give anything for it? */
static bool is_takeable(const struct engine *engine, const struct pending_entry *entry)
{
    uint8_t value[CODEC_CONTAINER_MAX];
    if (holds_have(&engine->holds, entry)) {
        return entry->covers;
    }
    return entry->fresh || pending_without_held(engine, entry, value) == 0;
}

size_t engine_pending(const struct engine *engine)
{
    const struct pending *pending = &engine->pending;
    if (!pending->dirty || engine->holds.count == 0) {
        return pending->dirty ? pending->count : 0;
    }
    for (size_t i = 0; i < pending->count; i++) {
        if (is_takeable(engine, &pending->entries[i])) {
            return pending->count;
        }
    }
    return 0;
}

static int compare_entries(const void *a, const void *b)
{
    const struct pending_entry *left = *(const struct pending_entry *const *)a;
    const struct pending_entry *right = *(const struct pending_entry *const *)b;
    size_t shorter = left->key_size < right->key_size ? left->key_size : right->key_size;
    int order = memcmp(left->key, right->key, shorter);
    if (order != 0) {
        return order;
    }
    return left->key_size < right->key_size ? -1 : left->key_size > right->key_size;
}

void engine_take(struct engine *engine,
                 void (*each)(void *context, const struct logobj_change *change), void *context)
{
    struct pending *pending = &engine->pending;
    struct taking taking = {.engine = engine, .each = each, .context = context};
    const struct pending_entry **sorted = mem_array(pending->count, sizeof *sorted);
    for (size_t i = 0; i < pending->count; i++) {
        sorted[i] = &pending->entries[i];
    }
    qsort(sorted, pending->count, sizeof *sorted, compare_entries);
    take_counters(&taking); /* 'C' sorts before all others */
    for (size_t i = 0; i < pending->count; i++) {
        take_entry(&taking, sorted[i]);
    }
    free(sorted);
    pending_release(pending);
    *pending = taking.kept;
    pending->dirty = false;
    pending->kept_bytes = pending->arena.used_bytes;
    engine->young_inode = engine->counters.next_inode;
}
