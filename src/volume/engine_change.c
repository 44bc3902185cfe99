#include "base/mem.h"
#include "volume/engine_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OPS_MAX = 4096 }; /* whose memory is kept between operations */

void change_begin(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    change->node_count = 0;
    if (change->op_cap > OPS_MAX) {
        str_release(&change->bytes);
        free(change->ops);
        change->ops = NULL;
        change->op_cap = 0;
    }
    str_clear(&change->bytes);
    change->op_count = 0;
    change->container_count = 0;
    change->content = 0;
    change->next_inode = engine->counters.next_inode;
    change->files = 0;
    change->size_bytes = 0;
    change->released_count = 0;
}

enum err_code engine_read_node(struct engine *engine, uint64_t inode, struct engine_node *out,
                               struct err *err)
{
    struct codec_key key;
    codec_key_inode(&key, 'I', inode);
    struct map_slice value;
    enum err_code code = map_get(engine->map, key.bytes, key.size, &value, err);
    if (code != ERR_OK) {
        return code;
    }
    if (!codec_node_read(value, inode, out)) {
        return err_set(err, ERR_CORRUPT, "inode %" PRIu64 ": its attributes are damaged", inode);
    }
    return ERR_OK;
}

enum err_code change_node(struct engine *engine, uint64_t inode, struct engine_node **out,
                          struct err *err)
{
    struct engine_change *change = &engine->change;
    for (size_t i = 0; i < change->node_count; i++) {
        if (change->nodes[i].node.attr.inode == inode) {
            *out = &change->nodes[i].node;
            return ERR_OK;
        }
    }
    CHECK(change->node_count < CHANGE_NODES_MAX);
    struct change_node *slot = &change->nodes[change->node_count];
    enum err_code code = engine_read_node(engine, inode, &slot->node, err);
    if (code != ERR_OK) {
        return code;
    }
    slot->is_dirty = false;
    slot->is_gone = false;
    change->node_count++;
    *out = &slot->node;
    return ERR_OK;
}

struct engine_node *change_new_node(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    CHECK(change->node_count < CHANGE_NODES_MAX);
    struct change_node *slot = &change->nodes[change->node_count++];
    *slot = (struct change_node){.is_dirty = true, .node.attr.inode = change->next_inode++};
    change->files++;
    return &slot->node;
}

static struct change_node *slot_of(struct engine_node *node)
{
    return (struct change_node *)(void *)((char *)node - offsetof(struct change_node, node));
}

void change_touch(struct engine *engine, struct engine_node *node)
{
    (void)engine;
    slot_of(node)->is_dirty = true;
}

void change_drop_node(struct engine *engine, struct engine_node *node)
{
    slot_of(node)->is_gone = true;
    engine->change.files--;
    change_release(engine, node->attr.inode);
}

static size_t add_bytes(struct engine_change *change, const void *bytes, size_t size)
{
    size_t at = change->bytes.size;
    str_add_bytes(&change->bytes, bytes, size);
    return at;
}

void change_put(struct engine *engine, const struct codec_key *key, const void *value, size_t size)
{
    struct engine_change *change = &engine->change;
    struct change_op op = {.key_size = key->size, .value_size = size, .is_put = true};
    op.key = add_bytes(change, key->bytes, key->size);
    op.value = add_bytes(change, value, size);
    VEC_PUSH(change->ops, change->op_count, change->op_cap) = op;
}

void change_delete(struct engine *engine, struct map_slice key)
{
    struct engine_change *change = &engine->change;
    struct change_op op = {.key_size = key.size};
    op.key = add_bytes(change, key.bytes, key.size);
    VEC_PUSH(change->ops, change->op_count, change->op_cap) = op;
}

void change_release(struct engine *engine, uint64_t inode)
{
    struct engine_change *change = &engine->change;
    if (engine->holds.count > 0) {
        CHECK(change->released_count < sizeof change->released / sizeof change->released[0]);
        change->released[change->released_count++] = inode;
    }
}

static void note_nodes(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    for (size_t i = 0; i < change->node_count; i++) {
        struct change_node *slot = &change->nodes[i];
        struct codec_key key;
        codec_key_inode(&key, 'I', slot->node.attr.inode);
        if (slot->is_gone) {
            change_delete(engine, slice_of_key(&key));
        } else if (slot->is_dirty) {
            uint8_t value[CODEC_NODE_MAX];
            change_put(engine, &key, value, codec_node_write(value, &slot->node));
        }
    }
}

static void note_containers(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    for (size_t i = 0; i < change->container_count; i++) {
        if (!change->containers[i].is_young) {
            const struct engine_container *record = &change->containers[i].record;
            struct codec_key key;
            codec_key_container(&key, &record->container);
            uint8_t value[CODEC_CONTAINER_MAX];
            change_put(engine, &key, value, codec_container_write(value, record));
        }
    }
}

static void apply_young(struct engine *engine, const struct engine_container *record)
{
    for (size_t i = 0; i < engine->young_count; i++) {
        if (container_equal(&engine->young[i].container, &record->container)) {
            engine->young[i] = *record;
            return;
        }
    }
    VEC_PUSH(engine->young, engine->young_count, engine->young_cap) = *record;
}

static void apply_containers(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    struct hold *hold = change->content ? holds_find(&engine->holds, change->content) : NULL;
    for (size_t i = 0; i < change->container_count; i++) {
        const struct change_container *container = &change->containers[i];
        if (container->is_young) {
            apply_young(engine, &container->record);
        }
        if (hold) {
            hold_account(hold, &container->record.container, container->delta);
        }
    }
}

void change_apply(struct engine *engine)
{
    struct engine_change *change = &engine->change;
    note_nodes(engine); /* reads what the map lent: before the first change to it */
    note_containers(engine);
    const uint8_t *bytes = (const uint8_t *)str_text(&change->bytes);
    for (size_t i = 0; i < change->op_count; i++) {
        const struct change_op *op = &change->ops[i];
        struct map_slice key = {bytes + op->key, op->key_size};
        struct map_slice value = {NULL, 0};
        if (op->is_put) {
            value = (struct map_slice){bytes + op->value, op->value_size};
            map_put(engine->map, key.bytes, key.size, value.bytes, value.size);
        } else {
            map_delete(engine->map, key.bytes, key.size);
        }
        (void)pending_set(&engine->pending, key, value);
    }
    apply_containers(engine);
    if (change->content == engine->rest.inode) {
        engine->rest.inode = 0;
    }
    for (size_t i = 0; i < change->released_count; i++) {
        engine_release(engine, change->released[i]);
    }
    engine->counters.next_inode = change->next_inode;
    engine->counters.files += change->files;
    engine->counters.bytes += change->size_bytes;
}

enum err_code engine_named_node(struct engine *engine, uint64_t inode, struct engine_node **out,
                                int *posix, struct err *err)
{
    enum err_code code = change_node(engine, inode, out, err);
    return code == ERR_NOT_FOUND ? engine_refuse(posix, ENOENT, err) : code;
}

enum err_code engine_named_folder(struct engine *engine, uint64_t inode, struct engine_node **out,
                                  int *posix, struct err *err)
{
    enum err_code code = engine_named_node(engine, inode, out, posix, err);
    if (code == ERR_OK && !S_ISDIR((*out)->attr.mode)) {
        return engine_refuse(posix, ENOTDIR, err);
    }
    return code;
}

enum err_code engine_linked_node(struct engine *engine, uint64_t inode, struct engine_node **out,
                                 struct err *err)
{
    enum err_code code = change_node(engine, inode, out, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_CORRUPT, "inode %" PRIu64 " has a name but is missing", inode);
    }
    return code;
}
