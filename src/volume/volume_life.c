#include "volume/volume_life.h"

#include "base/mem.h"
#include "volume/volume_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { FILE_BYTES_MAX = 48 << 10 };

static const char *const NAMES[WORLD_NAMES] = {"n0", "n1", "n2", "n3"};

bool life_is_stale(const struct life *life)
{
    return life->world->generation != life->generation;
}

struct op {
    struct life *life;
    enum { OP_MAKE, OP_LOOKUP, OP_WRITE, OP_TRUNCATE, OP_REMOVE, OP_RENAME } kind;
    uint64_t folder, to;
    const char *name, *new_name;
    uint32_t mode;
    uint64_t inode, size;
    uint32_t flags;
    struct extent *extents;
    size_t extent_count;
    struct engine_attr attr;
    int posix;
};

static enum err_code run_op(void *context, struct err *err)
{
    struct op *op = context;
    struct engine *engine = volume_engine(op->life->volume);
    struct engine_caller caller = {.now_ns = 5};
    switch (op->kind) {
    case OP_MAKE: {
        struct engine_make make = {.folder = op->folder, .name = op->name, .mode = op->mode};
        return engine_make(engine, &caller, &make, &op->attr, &op->posix, err);
    }
    case OP_LOOKUP:
        return engine_lookup(engine, op->folder, op->name, &op->attr, &op->posix, err);
    case OP_WRITE: {
        struct engine_write write = {.inode = op->inode,
                                     .size = op->size,
                                     .extents = op->extents,
                                     .count = op->extent_count};
        return engine_write(engine, &caller, &write, &op->attr, &op->posix, err);
    }
    case OP_TRUNCATE: {
        struct engine_set set = {.attr = {.inode = op->inode, .size = op->size},
                                 .set = ENGINE_SET_SIZE};
        return engine_setattr(engine, &caller, &set, &op->attr, &op->posix, err);
    }
    case OP_REMOVE: {
        struct engine_remove remove = {.folder = op->folder, .name = op->name};
        return engine_remove(engine, &caller, &remove, &op->posix, err);
    }
    case OP_RENAME: {
        struct engine_rename rename = {.from = op->folder,
                                       .to = op->to,
                                       .old_name = op->name,
                                       .new_name = op->new_name,
                                       .flags = op->flags};
        return engine_rename(engine, &caller, &rename, &op->posix, err);
    }
    }
    return ERR_OK;
}

static bool do_op(struct life *life, struct op *op)
{
    struct err err = {0};
    op->life = life;
    return volume_do(life->volume, run_op, op, &err) == ERR_OK;
}

/* The model's state is made before the change, which may be committed before its call returns. */
static struct state *next_state(struct life *life, struct state *spare)
{
    if (life_is_stale(life)) {
        *spare = *world_now_state(life->world);
        return spare;
    }
    return world_step(life->world);
}

static bool find(struct life *life, size_t slot, uint64_t *inode)
{
    struct op op = {.kind = OP_LOOKUP,
                    .folder = life->folders[slot / WORLD_NAMES],
                    .name = NAMES[slot % WORLD_NAMES]};
    bool found = do_op(life, &op);
    *inode = op.attr.inode;
    return found;
}

static size_t random_bytes(struct world *world, uint8_t *out, size_t size_max)
{
    size_t size = 1 + (size_t)below(world, below(world, 3) == 0 ? size_max : size_max / 16);
    bool plain = below(world, 2) == 0;
    for (size_t i = 0; i < size; i++) {
        out[i] = plain ? (uint8_t)('a' + (i / 7 + size) % 13) : (uint8_t)rng_next(&world->rng);
    }
    return size;
}

static size_t place(struct life *life, uint64_t inode, uint64_t offset, const uint8_t *bytes,
                    size_t size, struct extent *extents)
{
    struct world *world = life->world;
    size_t count = 0;
    bool inlined = below(world, 2) == 0;
    for (size_t done = 0; done < size;) {
        size_t part = 1 + (size_t)below(world, 20000);
        part = part < size - done ? part : size - done;
        if (count == 31) {
            part = size - done;
        }
        volume_place(life->volume, inode, offset + done, bytes + done, part, inlined,
                     &extents[count++]);
        done += part;
    }
    return count;
}

/* Between place and write anything may happen: a pack is filled up and stored before anything names
 * it, commits, compaction, gc. */
static void dawdle(struct life *life, const uint8_t *bytes)
{
    struct volume_gc_report report;
    struct extent extent;
    struct err err;
    for (int i = 0; i < PACK_BYTES_MIN / FILE_BYTES_MAX + 1; i++) {
        volume_place(life->volume, 1, 0, bytes, FILE_BYTES_MAX, false, &extent);
        volume_written(life->volume, &extent, 1); /* as if its file was deleted */
    }
    for (int i = 0; i < 3; i++) {
        volume_run(life->volume, 0);
    }
    if (below(life->world, 2) == 0) {
        (void)volume_commit(life->volume);
    }
    if (below(life->world, 2) == 0) {
        (void)!volume_compact(life->volume, 0, &err);
    }
    (void)!volume_checkpoint(life->volume, &err);
    (void)!volume_gc(life->volume, false, &report, &err);
}

bool life_write(struct life *life)
{
    struct world *world = life->world;
    size_t slot = (size_t)below(world, WORLD_SLOTS);
    uint64_t inode = 0;
    struct state spare;
    if (!find(life, slot, &inode)) {
        struct op make = {.kind = OP_MAKE,
                          .folder = life->folders[slot / WORLD_NAMES],
                          .name = NAMES[slot % WORLD_NAMES],
                          .mode = S_IFREG | 0644};
        struct state *state = next_state(life, &spare);
        bool hold = below(world, 3) == 0;
        state->files[slot] = world_blob(world, "", 0);
        state->held |= hold ? 1u << slot : 0;
        if (!do_op(life, &make)) {
            return false;
        }
        inode = make.attr.inode;
        if (hold) {
            engine_hold(volume_engine(life->volume), make.folder, inode, false);
        }
    }
    uint8_t *bytes = mem_alloc((size_t)2 * FILE_BYTES_MAX);
    uint8_t *part = mem_alloc(FILE_BYTES_MAX);
    struct extent extents[32];
    int old = life_is_stale(life) ? -1 : world_now_state(world)->files[slot];
    size_t old_size = old >= 0 ? world->blobs[old].size : 0;
    if (old_size > 0) {
        memcpy(bytes, world->blobs[old].bytes, old_size);
    }
    size_t size = random_bytes(world, part, FILE_BYTES_MAX);
    size_t offset = (size_t)below(world, 3) == 0 ? (size_t)below(world, old_size + 1) : 0;
    offset = offset < FILE_BYTES_MAX ? offset : 0;
    memcpy(bytes + offset, part, size);
    size_t end = offset + size;
    size_t new_size = below(world, 3) > 0 && old_size > end ? old_size : end;
    new_size = new_size < FILE_BYTES_MAX ? new_size : FILE_BYTES_MAX;
    size_t used = end < new_size ? size : new_size - offset;
    struct op write = {.kind = OP_WRITE, .inode = inode, .size = new_size, .extents = extents};
    if (used > 0) {
        write.extent_count = place(life, inode, offset, part, used, extents);
    }
    if (below(world, 12) == 0) {
        dawdle(life, bytes);
    }
    next_state(life, &spare)->files[slot] = world_blob(world, bytes, new_size);
    free(bytes);
    free(part);
    bool written = do_op(life, &write);
    volume_written(life->volume, extents, write.extent_count);
    return written;
}

bool life_truncate(struct life *life)
{
    struct world *world = life->world;
    size_t slot = (size_t)below(world, WORLD_SLOTS);
    uint64_t inode = 0;
    struct state spare;
    if (!find(life, slot, &inode)) {
        return true;
    }
    int old = life_is_stale(life) ? -1 : world_now_state(world)->files[slot];
    uint8_t *bytes = mem_alloc(FILE_BYTES_MAX);
    size_t size = (size_t)below(world, FILE_BYTES_MAX);
    if (old >= 0 && world->blobs[old].size > 0) {
        size_t kept = world->blobs[old].size < size ? world->blobs[old].size : size;
        memcpy(bytes, world->blobs[old].bytes, kept);
    }
    next_state(life, &spare)->files[slot] = world_blob(world, bytes, size);
    free(bytes);
    struct op op = {.kind = OP_TRUNCATE, .inode = inode, .size = size};
    return do_op(life, &op);
}

bool life_remove(struct life *life)
{
    size_t slot = (size_t)below(life->world, WORLD_SLOTS);
    uint64_t inode = 0;
    struct state spare;
    if (!find(life, slot, &inode)) {
        return true;
    }
    struct state *state = next_state(life, &spare);
    state->files[slot] = -1;
    state->held &= ~(1u << slot);
    struct op op = {.kind = OP_REMOVE,
                    .folder = life->folders[slot / WORLD_NAMES],
                    .name = NAMES[slot % WORLD_NAMES]};
    return do_op(life, &op);
}

bool life_rename(struct life *life)
{
    struct world *world = life->world;
    size_t from = (size_t)below(world, WORLD_SLOTS);
    size_t to = (size_t)below(world, WORLD_SLOTS);
    uint64_t inode = 0;
    uint64_t other = 0;
    struct state spare;
    if (from == to || !find(life, from, &inode)) {
        return true;
    }
    struct op op = {.kind = OP_RENAME,
                    .folder = life->folders[from / WORLD_NAMES],
                    .to = life->folders[to / WORLD_NAMES],
                    .name = NAMES[from % WORLD_NAMES],
                    .new_name = NAMES[to % WORLD_NAMES]};
    bool exchange = find(life, to, &other) && below(world, 3) == 0;
    op.flags = exchange ? RENAME_EXCHANGE : 0;
    struct state *state = next_state(life, &spare);
    int moved = state->files[from];
    state->files[from] = exchange ? state->files[to] : -1;
    state->files[to] = moved;
    state->held &= ~(1u << from | 1u << to);
    return do_op(life, &op);
}

bool life_release(struct life *life)
{
    struct state spare;
    if (!life_is_stale(life) && world_now_state(life->world)->held == 0) {
        return true;
    }
    next_state(life, &spare)->held = 0;
    engine_release_folder(volume_engine(life->volume), 0);
    return true;
}

bool life_remove_all(struct life *life)
{
    for (size_t slot = 0; slot < WORLD_SLOTS; slot++) {
        uint64_t inode = 0;
        if (!find(life, slot, &inode)) {
            continue;
        }
        world_step(life->world)->files[slot] = -1;
        struct op op = {.kind = OP_REMOVE,
                        .folder = life->folders[slot / WORLD_NAMES],
                        .name = NAMES[slot % WORLD_NAMES]};
        if (!do_op(life, &op)) {
            return false;
        }
    }
    return true;
}

bool life_find_folders(struct life *life)
{
    static const char *const names[WORLD_FOLDERS] = {NULL, "a", "b"};
    life->folders[0] = ENGINE_ROOT;
    for (size_t i = 1; i < WORLD_FOLDERS; i++) {
        struct op lookup = {.kind = OP_LOOKUP, .folder = ENGINE_ROOT, .name = names[i]};
        struct op make = {
            .kind = OP_MAKE, .folder = ENGINE_ROOT, .name = names[i], .mode = S_IFDIR | 0755};
        if (do_op(life, &lookup)) {
            life->folders[i] = lookup.attr.inode;
        } else if (do_op(life, &make)) {
            life->folders[i] = make.attr.inode;
        } else {
            return false;
        }
    }
    return true;
}
