/* Random operations on the engine and on a plain model of a POSIX file system. After each commit
 * everything is compared: attributes, listings, bytes, live bytes of containers recomputed from
 * nothing; and the commits so far, replayed into an empty map, must give a checkpoint byte for byte
 * and a file system without the files that are held. Operations begin anew on ERR_AGAIN.
 *
 * engine_random_test [SEED [STEPS]] */
#include "base/mem.h"
#include "base/rng.h"
#include "volume/engine_world.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { PARTS_MAX = 4, PART_BYTES_MAX = 2000, BOGUS_INODE = 123456 };

static void expect(enum err_code code, int posix, int wanted, const struct err *err)
{
    if (code != (wanted ? ERR_INVALID : ERR_OK) || posix != wanted) {
        print_message("got %s, errno %d, wanted errno %d: %s\n", err_name(code), posix, wanted,
                      err->text);
        fail();
    }
}

/* Random operations. --------------------------------------------------------------------------- */

static const char *some_name(struct world *world)
{
    static char buffer[400];
    uint64_t kind = world_below(world, 60);
    if (kind == 0) {
        static const char *const odd[] = {"", ".", "..", "a/b"};
        return odd[world_below(world, 4)];
    }
    size_t size = 1;
    if (kind < 4) {
        size = 254 + world_below(world, 3); /* 256 is one too many */
    }
    memset(buffer, (int)('a' + world_below(world, 7)), size);
    buffer[size] = '\0';
    return buffer;
}

static uint64_t some_inode(struct world *world, bool folder)
{
    if (world_below(world, 60) == 0) {
        return BOGUS_INODE;
    }
    bool any = world_below(world, 20) == 0;
    for (int i = 0; i < 1000; i++) {
        const struct model_file *file = &world->model.files[world_below(world, MODEL_FILES_MAX)];
        if (file->attr.inode && (any || folder == (S_ISDIR(file->attr.mode) != 0))) {
            return file->attr.inode;
        }
    }
    return ENGINE_ROOT;
}

static bool is_open(void *context, uint64_t inode)
{
    struct world *world = context;
    return model_file(&world->model, inode)->is_open;
}

static void do_make(struct world *world)
{
    static const uint32_t types[] = {S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFDIR,
                                     S_IFDIR, S_IFLNK, S_IFCHR, S_IFIFO, S_IFSOCK};
    if (model_is_full(&world->model)) {
        return;
    }
    struct engine_make make = {.folder = some_inode(world, true),
                               .name = some_name(world),
                               .mode = types[world_below(world, 10)] |
                                       (uint32_t)world_below(world, 07777 + 1),
                               .rdev = (uint32_t)world_below(world, 1000),
                               .target = "some/where"};
    if (world_below(world, 30) == 0) {
        make.target = "";
    }
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_make(world->engine, &world->caller, &make, &attr, &posix, &err));
    expect(code, posix, model_make(&world->model, &world->caller, &make), &err);
    if (code == ERR_OK) {
        struct model_file *file = model_file(&world->model, world->model.next_inode - 1);
        world_compare_attr(&attr, file);
        if (world_below(world, 2) == 0) {
            engine_hold(world->engine, make.folder, attr.inode, false);
            file->is_held = S_ISREG(attr.mode);
        }
    }
}

static void do_link(struct world *world)
{
    if (model_is_full(&world->model)) {
        return;
    }
    struct engine_make link = {.folder = some_inode(world, true),
                               .name = some_name(world),
                               .inode = some_inode(world, false)};
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_link(world->engine, &world->caller, &link, &attr, &posix, &err));
    expect(code, posix, model_link(&world->model, &world->caller, &link), &err);
}

static void do_remove(struct world *world)
{
    struct engine_remove remove = {.folder = some_inode(world, true),
                                   .name = some_name(world),
                                   .is_folder = world_below(world, 3) == 0,
                                   .is_open = is_open,
                                   .context = world};
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_remove(world->engine, &world->caller, &remove, &posix, &err));
    expect(code, posix, model_remove(&world->model, &world->caller, &remove), &err);
}

static void do_rename(struct world *world)
{
    char old_name[400];
    (void)snprintf(old_name, sizeof old_name, "%s", some_name(world));
    struct engine_rename rename = {
        .from = some_inode(world, true),
        .to = some_inode(world, true),
        .old_name = old_name,
        .new_name = some_name(world),
        .flags = (uint32_t)(world_below(world, 2) ? 0 : world_below(world, 4)),
        .is_open = is_open,
        .context = world};
    if (world_below(world, 3) == 0) {
        rename.to = rename.from;
    }
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_rename(world->engine, &world->caller, &rename, &posix, &err));
    expect(code, posix, model_rename(&world->model, &world->caller, &rename), &err);
}

static void do_open_or_close(struct world *world)
{
    struct model_file *file =
        model_file(&world->model, some_inode(world, world_below(world, 4) == 0));
    if (!file) {
        return;
    }
    if (!file->is_open) {
        file->is_open = true;
        return;
    }
    uint64_t inode = file->attr.inode;
    struct err err = {0};
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code, engine_forget(world->engine, inode, &err));
    assert_int_equal(code, ERR_OK);
    model_close(&world->model, inode);
}

static void do_release(struct world *world)
{
    if (world_below(world, 10) == 0) {
        uint64_t folder = world_below(world, 2) ? 0 : some_inode(world, true);
        engine_release_folder(world->engine, folder);
        for (size_t i = 0; i < MODEL_NAMES_MAX; i++) {
            struct model_name *name = &world->model.names[i];
            if (name->folder && (folder == 0 || name->folder == folder)) {
                model_file(&world->model, name->inode)->is_held = false;
            }
        }
        return;
    }
    uint64_t inode = some_inode(world, false);
    engine_release(world->engine, inode);
    if (model_file(&world->model, inode)) {
        model_file(&world->model, inode)->is_held = false;
    }
}

static void do_setattr(struct world *world)
{
    struct engine_set set = {.attr = {.inode = some_inode(world, world_below(world, 4) == 0),
                                      .mode = (uint32_t)world_below(world, 07777 + 1),
                                      .uid = (uint32_t)world_below(world, 3),
                                      .gid = (uint32_t)world_below(world, 3),
                                      .size = world_below(world, MODEL_BYTES_MAX),
                                      .atime_ns = (int64_t)rng_next(&world->rng),
                                      .mtime_ns = (int64_t)rng_next(&world->rng),
                                      .ctime_ns = (int64_t)world_below(world, 1000)},
                             .set = (uint32_t)world_below(world, 256)};
    if (world_below(world, 4) == 0) {
        set.attr.size = 0;
    }
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_setattr(world->engine, &world->caller, &set, &attr, &posix, &err));
    expect(code, posix, model_setattr(&world->model, &world->caller, &set), &err);
    if (code == ERR_OK) {
        world_compare_attr(&attr, model_file(&world->model, set.attr.inode));
    }
}

/* New stored bytes, a little of which the extent may leave out at either end. */
static void place(struct world *world, struct extent *extent, struct model_write *part)
{
    uint32_t before =
        world_below(world, 4) || part->offset < 50 ? 0 : (uint32_t)world_below(world, 50);
    uint32_t behind = world_below(world, 4) ? 0 : (uint32_t)world_below(world, 50);
    struct stored stored = {.container = {CONTAINER_PACK, 0, 7, world->pack_number},
                            .offset = world->stored_count * 4096,
                            .whole = before + (uint32_t)part->size + behind};
    if (world_below(world, 8) == 0 && world->pack_number > 0) {
        stored.container.number =
            world_below(world, world->pack_number); /* an old one, as moves do */
    }
    stored.bytes = mem_alloc(stored.whole);
    for (size_t i = 0; i < stored.whole; i++) {
        stored.bytes[i] = (uint8_t)rng_next(&world->rng);
    }
    bool packed = world_below(world, 2) && stored.whole > 1;
    stored.stored_size = packed ? 1 + (uint32_t)world_below(world, stored.whole - 1) : stored.whole;
    *extent = (struct extent){.file_offset = part->offset,
                              .size = (uint32_t)part->size,
                              .container = stored.container,
                              .offset = stored.offset,
                              .stored_size = stored.stored_size,
                              .codec = packed ? EXTENT_ZSTD : EXTENT_PLAIN,
                              .checksum = rng_next(&world->rng),
                              .skip = before,
                              .whole = stored.whole};
    part->bytes = stored.bytes + before;
    VEC_PUSH(world->stored, world->stored_count, world->stored_cap) = stored;
}

static void do_write(struct world *world)
{
    struct extent extents[PARTS_MAX];
    struct model_write parts[PARTS_MAX];
    struct engine_write write = {.inode = some_inode(world, false),
                                 .extents = extents,
                                 .mtime_ns = (int64_t)rng_next(&world->rng) / 2,
                                 .kill_priv = world_below(world, 2) == 0};
    uint64_t at = world_below(world, 3) ? world_below(world, 6000) : 0;
    for (uint64_t left = world_below(world, PARTS_MAX + 1); left > 0; left--) {
        size_t size = 1 + world_below(world, PART_BYTES_MAX);
        size_t i = write.count++;
        parts[i] = (struct model_write){at, size, NULL};
        extents[i] = (struct extent){.file_offset = at, .size = (uint32_t)size};
        if (world_below(world, 5)) {
            place(world, &extents[i], &parts[i]);
        }
        at += size + (world_below(world, 2) ? 0 : world_below(world, 300));
    }
    const struct model_file *file = model_file(&world->model, write.inode);
    write.size = file && file->attr.size > at ? file->attr.size : at;
    if (world_below(world, 5) == 0) {
        write.size = world_below(world, MODEL_BYTES_MAX);
    }
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_write(world->engine, &world->caller, &write, &attr, &posix, &err));
    expect(code, posix, model_write(&world->model, &world->caller, &write, parts), &err);
    if (code == ERR_OK) {
        world_compare_attr(&attr, model_file(&world->model, write.inode));
    }
}

struct picked {
    struct world *world;
    struct extent extent;
    bool found;
};

static bool pick_extent(void *context, const struct extent *extent)
{
    struct picked *picked = context;
    picked->extent = *extent;
    picked->found = true;
    return world_below(picked->world, 3) != 0;
}

/* An extent is copied into the pack that is being filled, as rewriting packs does. */
static void do_move(struct world *world)
{
    struct engine_span span = {some_inode(world, false), 0, UINT64_MAX};
    struct picked picked = {.world = world};
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_extents(world->engine, &span, pick_extent, &picked, &posix, &err));
    if (!picked.found) {
        return;
    }
    const struct stored *old = world_stored(world, &picked.extent);
    struct stored copy = *old;
    copy.container.number = world->pack_number;
    copy.offset = world->stored_count * 4096;
    copy.bytes = mem_dup(old->bytes, old->whole);
    copy.stored_size = old->whole;
    struct extent fresh = picked.extent;
    fresh.container = copy.container;
    fresh.offset = copy.offset;
    fresh.stored_size = copy.whole;
    fresh.codec = EXTENT_PLAIN;
    if (world_below(world, 2)) { /* as a pack's footer has it: whole */
        picked.extent.file_offset -= picked.extent.skip;
        picked.extent.skip = 0;
        picked.extent.size = picked.extent.whole;
    }
    bool stale = world_below(world, 4) == 0;
    picked.extent.offset += stale ? 1 : 0;
    VEC_PUSH(world->stored, world->stored_count, world->stored_cap) = copy;
    bool moved = false;
    UNTIL_DONE_OR_TIRED(
        world, code, engine_move(world->engine, span.inode, &picked.extent, &fresh, &moved, &err));
    assert_int_equal(code, ERR_OK);
    assert_int_equal(moved, !stale);
}

static void do_xattr(struct world *world)
{
    static const char *const names[] = {"user.a", "user.b", "user.abc"};
    uint8_t value[64];
    memset(value, (int)world_below(world, 256), sizeof value);
    struct engine_xattr xattr = {.inode = some_inode(world, world_below(world, 4) == 0),
                                 .name = names[world_below(world, 3)],
                                 .value = world_below(world, 3) ? value : NULL,
                                 .size = world_below(world, sizeof value + 1),
                                 .flags = (int)world_below(world, 3)};
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_xattr_set(world->engine, &world->caller, &xattr, &posix, &err));
    expect(code, posix, model_xattr_set(&world->model, &world->caller, &xattr), &err);
}

static void do_lookup(struct world *world)
{
    uint64_t folder = some_inode(world, true);
    const char *name = some_name(world);
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE_OR_TIRED(world, code,
                        engine_lookup(world->engine, folder, name, &attr, &posix, &err));
    const struct model_file *file = model_file(&world->model, folder);
    const struct model_name *found = model_name(&world->model, folder, name);
    int wanted = *name == '\0'               ? ENOENT
                 : strlen(name) > 255        ? ENAMETOOLONG
                 : strpbrk(name, "./")       ? EINVAL
                 : !file                     ? ENOENT
                 : !S_ISDIR(file->attr.mode) ? ENOTDIR
                 : found                     ? 0
                                             : ENOENT;
    expect(code, posix, wanted, &err);
    if (found) {
        world_compare_attr(&attr, model_file(&world->model, found->inode));
    }
}

static void step(struct world *world)
{
    static void (*const steps[])(struct world *) = {
        do_make,    do_make,    do_make,   do_make,   do_link,          do_remove,
        do_remove,  do_remove,  do_rename, do_rename, do_open_or_close, do_release,
        do_setattr, do_setattr, do_write,  do_write,  do_write,         do_write,
        do_write,   do_move,    do_xattr,  do_lookup};
    world->caller =
        (struct engine_caller){.uid = (uint32_t)world_below(world, 3),
                               .gid = (uint32_t)world_below(world, 3),
                               .now_ns = world->caller.now_ns + (int64_t)world_below(world, 1000)};
    steps[world_below(world, sizeof steps / sizeof steps[0])](world);
    if (world_below(world, 25) == 0 && world->pack_number < 4000) {
        world_commit(world);
    }
}

static uint64_t seed_of_run;
static int steps_of_run = 2500;

static void play(uint64_t seed, int steps)
{
    struct world *world = world_create(seed);
    for (int i = 0; i < steps; i++) {
        step(world);
    }
    world_commit(world);
    world_destroy(world);
}

static void test_random_operations_do_what_the_model_does(void **state)
{
    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed_of_run);
    for (uint64_t i = 0; i < 4; i++) {
        play(seed_of_run + i, steps_of_run);
    }
}

int main(int argc, char **argv)
{
    seed_of_run = argc > 1 ? strtoull(argv[1], NULL, 10) : rng_seed_from_system();
    steps_of_run = argc > 2 ? (int)strtol(argv[2], NULL, 10) : steps_of_run;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_do_what_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
