/* The lives of containers: how many of their bytes are referred to, since when, and until when. */
#include "base/mem.h"
#include "volume/engine_internal.h"
#include "volume/logobj.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int container_compare(const struct container *a, const struct container *b)
{
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    if (a->writer != b->writer) {
        return a->writer < b->writer ? -1 : 1;
    }
    if (a->term != b->term) {
        return a->term < b->term ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static struct engine_container *young_find(struct engine *engine, const struct container *container)
{
    for (size_t i = 0; i < engine->young_count; i++) {
        if (container_equal(&engine->young[i].container, container)) {
            return &engine->young[i];
        }
    }
    return NULL;
}

static enum err_code read_record(struct engine *engine, const struct container *container,
                                 struct engine_container *out, struct err *err)
{
    struct codec_key key;
    codec_key_container(&key, container);
    struct map_slice value;
    enum err_code code = map_get(engine->map, key.bytes, key.size, &value, err);
    if (code == ERR_OK && !codec_container_read(slice_of_key(&key), value, out)) {
        return err_set(err, ERR_CORRUPT, "the record of a container is damaged");
    }
    return code;
}

static enum err_code account_one(struct engine *engine, const struct container_delta *delta,
                                 struct err *err)
{
    struct change_container change = {.delta = delta->bytes};
    const struct engine_container *young = young_find(engine, &delta->container);
    if (young) {
        change.record = *young;
        change.is_young = true;
    } else {
        enum err_code code = read_record(engine, &delta->container, &change.record, err);
        if (code == ERR_NOT_FOUND) {
            change.record = (struct engine_container){.container = delta->container};
            change.is_young = true;
        } else if (code != ERR_OK) {
            return code;
        }
    }
    struct engine_container *record = &change.record;
    if (delta->bytes < 0 && record->live < (uint64_t)-delta->bytes) {
        char name[CONTAINER_NAME_MAX];
        container_name(&delta->container, name);
        return err_set(err, ERR_CORRUPT, "%s: fewer live bytes than extents refer to", name);
    }
    record->live += (uint64_t)delta->bytes;
    record->dead = record->live == 0 ? engine->seq : 0;
    struct engine_change *all = &engine->change;
    VEC_PUSH(all->containers, all->container_count, all->container_cap) = change;
    return ERR_OK;
}

static int compare_deltas(const void *a, const void *b)
{
    const struct container_delta *left = a;
    const struct container_delta *right = b;
    return container_compare(&left->container, &right->container);
}

enum err_code containers_account(struct engine *engine, struct container_delta *deltas,
                                 size_t count, struct err *err)
{
    qsort(deltas, count, sizeof *deltas, compare_deltas);
    for (size_t i = 0; i < count;) {
        struct container_delta sum = deltas[i++];
        while (i < count && container_equal(&sum.container, &deltas[i].container)) {
            sum.bytes += deltas[i++].bytes;
        }
        enum err_code code = sum.bytes == 0 ? ERR_OK : account_one(engine, &sum, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}

void engine_container_add(struct engine *engine, const struct engine_container *container)
{
    struct engine_container record = {.container = container->container};
    struct engine_container *young = young_find(engine, &container->container);
    if (young) {
        record = *young;
        *young = engine->young[--engine->young_count];
    } else if (read_record(engine, &container->container, &record, NULL) != ERR_OK) {
        /* New, so that the map cannot have it, even where it would have to look. */
        record = (struct engine_container){.container = container->container};
    }
    record.size = container->size;
    record.born = container->born;
    if (record.live == 0 && record.dead == 0) {
        record.dead = engine->seq;
    }
    change_begin(engine);
    struct codec_key key;
    codec_key_container(&key, &record.container);
    uint8_t value[CODEC_CONTAINER_MAX];
    change_put(engine, &key, value, codec_container_write(value, &record));
    change_apply(engine);
}

enum err_code engine_container_is_known(struct engine *engine, const struct container *container,
                                        bool *known, struct err *err)
{
    struct engine_container record;
    enum err_code code = read_record(engine, container, &record, err);
    *known = code == ERR_OK;
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

void engine_container_remove(struct engine *engine, const struct container *container)
{
    struct codec_key key;
    codec_key_container(&key, container);
    change_begin(engine);
    change_delete(engine, slice_of_key(&key));
    change_apply(engine);
}

struct record_list {
    struct engine_container *items;
    size_t count, cap;
    bool is_bad;
};

static bool take_record(void *context, struct map_slice key, struct map_slice value)
{
    struct record_list *list = context;
    struct engine_container record;
    if (!codec_container_read(key, value, &record)) {
        list->is_bad = true;
        return false;
    }
    VEC_PUSH(list->items, list->count, list->cap) = record;
    return true;
}

enum err_code engine_containers(struct engine *engine,
                                bool (*each)(void *context,
                                             const struct engine_container *container),
                                void *context, struct err *err)
{
    struct record_list list = {0};
    struct map_range range = {.prefix = {(const uint8_t *)"P", 1}};
    enum err_code code = map_scan(engine->map, &range, take_record, &list, err);
    if (list.is_bad) {
        code = err_set(err, ERR_CORRUPT, "the record of a container is damaged");
    }
    for (size_t i = 0; code == ERR_OK && i < list.count && each(context, &list.items[i]); i++) {
    }
    free(list.items);
    return code;
}

void engine_set_seq(struct engine *engine, uint64_t seq)
{
    engine->seq = seq;
}

void engine_change_extents(const struct logobj_change *change,
                           void (*each)(void *context, uint64_t inode, const struct extent *extent),
                           void *context)
{
    struct map_slice key = {change->key, change->key_size};
    struct map_slice value = {change->value, change->value_size};
    uint64_t inode = 0;
    if (value.bytes == NULL || key.size < 9 || !codec_key_inode_read(key, &inode)) {
        return;
    }
    struct engine_node node;
    struct extent extent;
    if (key.bytes[0] == 'I' && key.size == 9 && codec_node_read(value, inode, &node)) {
        if (!node.spread && node.extents > 0) {
            each(context, inode, &node.extent);
        }
    } else if (key.bytes[0] == 'E' && codec_extent_read(key, value, &extent)) {
        each(context, inode, &extent);
    }
}
