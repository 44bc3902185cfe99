/* New files that are left out of commits until they are complete. Their keys are in the map like
 * any others, and stay in the pending set; only takes and checkpoints leave them out. */
#include "base/mem.h"
#include "volume/engine_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Index of the first hold whose inode is not below this one. */
static size_t position(const struct holds *holds, uint64_t inode)
{
    size_t low = 0;
    size_t high = holds->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (holds->items[middle].inode < inode) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct hold *holds_find(const struct holds *holds, uint64_t inode)
{
    size_t at = position(holds, inode);
    return at < holds->count && holds->items[at].inode == inode ? &holds->items[at] : NULL;
}

void hold_account(struct hold *hold, const struct container *container, int64_t bytes)
{
    size_t i = 0;
    while (i < hold->count && !container_equal(&hold->shares[i].container, container)) {
        i++;
    }
    if (i == hold->count) {
        VEC_PUSH(hold->shares, hold->count, hold->cap) = (struct hold_share){*container, 0};
    }
    CHECK(bytes >= 0 || hold->shares[i].bytes >= (uint64_t)-bytes);
    hold->shares[i].bytes += (uint64_t)bytes;
}

uint64_t holds_share(const struct holds *holds, const struct container *container)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < holds->count; i++) {
        const struct hold *hold = &holds->items[i];
        for (size_t j = 0; j < hold->count; j++) {
            if (container_equal(&hold->shares[j].container, container)) {
                bytes += hold->shares[j].bytes;
            }
        }
    }
    return bytes;
}

bool holds_have(const struct holds *holds, const struct pending_entry *entry)
{
    uint64_t inode = 0;
    uint32_t type = 0;
    if (holds->count == 0) {
        return false;
    }
    if (entry->key[0] == 'D') {
        struct map_slice value = {entry->value, entry->value_size};
        if (value.bytes == NULL || !codec_name_read(value, &inode, &type)) {
            return false;
        }
    } else if (!codec_key_inode_read((struct map_slice){entry->key, entry->key_size}, &inode)) {
        return false;
    }
    return holds_find(holds, inode) != NULL;
}

void holds_release(struct holds *holds)
{
    for (size_t i = 0; i < holds->count; i++) {
        free(holds->items[i].shares);
    }
    free(holds->items);
    *holds = (struct holds){0};
}

void engine_hold(struct engine *engine, uint64_t folder, uint64_t inode, bool is_again)
{
    struct codec_key key;
    codec_key_inode(&key, 'I', inode);
    const struct pending_entry *entry = pending_find(&engine->pending, slice_of_key(&key));
    struct engine_node node;
    if ((inode < engine->young_inode && !is_again) || entry == NULL || entry->value == NULL ||
        !codec_node_read((struct map_slice){entry->value, entry->value_size}, inode, &node) ||
        !S_ISREG(node.attr.mode) || node.attr.nlink != 1 || node.extents > 0) {
        return;
    }
    struct holds *holds = &engine->holds;
    size_t at = position(holds, inode);
    if (at < holds->count && holds->items[at].inode == inode) {
        return;
    }
    VEC_PUSH(holds->items, holds->count, holds->cap) = (struct hold){0};
    memmove(&holds->items[at + 1], &holds->items[at],
            (holds->count - 1 - at) * sizeof holds->items[0]);
    holds->items[at] = (struct hold){.inode = inode, .folder = folder};
}

bool engine_is_held(const struct engine *engine, uint64_t inode)
{
    return holds_find(&engine->holds, inode) != NULL;
}

void engine_release(struct engine *engine, uint64_t inode)
{
    struct holds *holds = &engine->holds;
    struct hold *hold = holds_find(holds, inode);
    if (!hold) {
        return;
    }
    size_t at = (size_t)(hold - holds->items);
    for (size_t i = 0; i < hold->count; i++) {
        struct codec_key key;
        codec_key_container(&key, &hold->shares[i].container);
        pending_freshen(&engine->pending, slice_of_key(&key)); /* others may hold more of it */
    }
    free(hold->shares);
    holds->count--;
    memmove(hold, hold + 1, (holds->count - at) * sizeof *hold);
    holds->releases++;
    engine->pending.dirty = true;
}

uint64_t engine_releases(const struct engine *engine)
{
    return engine->holds.releases;
}

void engine_release_folder(struct engine *engine, uint64_t folder)
{
    for (size_t i = engine->holds.count; i > 0; i--) {
        const struct hold *hold = &engine->holds.items[i - 1];
        if (folder == 0 || hold->folder == folder) {
            engine_release(engine, hold->inode);
        }
    }
}

/* What is still pending after a take is held, or a container's record with bytes of held files. */
static void withdraw(struct engine *engine, const struct pending_entry *entry)
{
    uint8_t value[CODEC_CONTAINER_MAX];
    size_t size = pending_without_held(engine, entry, value);
    if (size > 0) {
        map_put(engine->map, entry->key, entry->key_size, value, size);
    } else if (holds_have(&engine->holds, entry)) {
        map_delete(engine->map, entry->key, entry->key_size);
    }
}

static void restore(struct engine *engine, const struct pending_entry *entry)
{
    if (entry->value) {
        map_put(engine->map, entry->key, entry->key_size, entry->value, entry->value_size);
    } else {
        map_delete(engine->map, entry->key, entry->key_size);
    }
}

enum err_code engine_freeze(struct engine *engine, struct err *err)
{
    const struct pending *pending = &engine->pending;
    for (size_t i = 0; i < pending->count; i++) {
        withdraw(engine, &pending->entries[i]);
    }
    enum err_code code = map_freeze(engine->map, err);
    for (size_t i = 0; i < pending->count; i++) {
        restore(engine, &pending->entries[i]);
    }
    return code;
}
