#include "volume/engine_world.h"
#include "base/mem.h"
#include "base/str.h"
#include "volume/engine_internal.h"
#include "volume/logobj.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

uint64_t world_below(struct world *world, uint64_t limit)
{
    return rng_below(&world->rng, limit);
}

struct view { /* what is looked at */
    struct world *world;
    struct engine *engine;
    struct testmap *testmap;
    bool is_committed; /* held files and orphans are not there */
};

static bool is_seen(const struct view *view, const struct model_file *file)
{
    return file->attr.inode && !(view->is_committed && (file->is_held || file->attr.nlink == 0));
}

const struct stored *world_stored(const struct world *world, const struct extent *extent)
{
    for (size_t i = 0; i < world->stored_count; i++) {
        const struct stored *stored = &world->stored[i];
        if (stored->offset == extent->offset &&
            container_equal(&stored->container, &extent->container)) {
            assert_int_equal(stored->stored_size, extent->stored_size);
            assert_int_equal(stored->whole, extent->whole);
            return stored;
        }
    }
    fail_msg("an extent that was never stored");
    return NULL;
}

struct content {
    const struct view *view;
    uint8_t bytes[MODEL_BYTES_MAX];
    bool is_data[MODEL_BYTES_MAX];
    uint64_t end;
    size_t count;
    uint64_t *live; /* by pack, counted once for each stored extent */
    bool *seen;     /* by stored */
};

static bool see_extent(void *context, const struct extent *extent)
{
    struct content *content = context;
    const struct world *world = content->view->world;
    const struct stored *stored = world_stored(world, extent);
    assert_true(extent->file_offset >= content->end);
    assert_true(extent->size > 0);
    assert_true(extent->skip + extent->size <= stored->whole);
    content->end = extent->file_offset + extent->size;
    content->count++;
    assert_true(content->end <= MODEL_BYTES_MAX);
    memcpy(content->bytes + extent->file_offset, stored->bytes + extent->skip, extent->size);
    memset(content->is_data + extent->file_offset, 1, extent->size);
    if (content->live && !content->seen[stored - world->stored]) {
        content->seen[stored - world->stored] = true;
        content->live[extent->container.number] += extent->stored_size;
    }
    return true;
}

/* What the inode says of its extents and extended attributes is so. */
static void compare_node(const struct view *view, const struct model_file *file, size_t extents)
{
    struct engine_node node;
    struct err err = {0};
    enum err_code code = ERR_OK;
    UNTIL_DONE(view->testmap, code, engine_read_node(view->engine, file->attr.inode, &node, &err));
    assert_int_equal(code, ERR_OK);
    assert_int_equal(node.xattrs, file->xattr_count);
    assert_int_equal(node.extents, extents);
    assert_true(node.spread || node.extents <= 1);
}

static void compare_content(const struct view *view, const struct model_file *file, uint64_t *live,
                            bool *seen)
{
    static struct content content;
    content = (struct content){.view = view, .live = live, .seen = seen};
    struct engine_span span = {file->attr.inode, 0, UINT64_MAX};
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE(view->testmap, code,
               engine_extents(view->engine, &span, see_extent, &content, &posix, &err));
    assert_int_equal(code, ERR_OK);
    assert_memory_equal(content.bytes, file->bytes, MODEL_BYTES_MAX);
    assert_memory_equal(content.is_data, file->is_data, sizeof content.is_data);
    compare_node(view, file, content.count);
    /* A part of it gives the extents that touch it and no others. */
    struct world *world = view->world;
    span.offset = world_below(world, MODEL_BYTES_MAX);
    span.size = 1 + world_below(world, 100);
    content = (struct content){.view = view};
    UNTIL_DONE(view->testmap, code,
               engine_extents(view->engine, &span, see_extent, &content, &posix, &err));
    assert_int_equal(code, ERR_OK);
    for (uint64_t i = span.offset; i < span.offset + span.size && i < MODEL_BYTES_MAX; i++) {
        assert_int_equal(content.is_data[i], file->is_data[i]);
        assert_int_equal(content.bytes[i], file->bytes[i]);
    }
}

static void compare_xattrs(const struct view *view, const struct model_file *file)
{
    AUTO_STR struct str names = {0};
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE(view->testmap, code,
               engine_xattr_list(view->engine, file->attr.inode, &names, &posix, &err));
    assert_int_equal(code, ERR_OK);
    size_t size = 0;
    for (size_t i = 0; i < file->xattr_count; i++) {
        AUTO_STR struct str value = {0};
        UNTIL_DONE(view->testmap, code,
                   engine_xattr_get(view->engine, file->attr.inode, file->xattrs[i].name, &value,
                                    &posix, &err));
        assert_int_equal(code, ERR_OK);
        assert_int_equal(value.size, file->xattrs[i].size);
        assert_memory_equal(str_text(&value), file->xattrs[i].value, value.size);
        size += strlen(file->xattrs[i].name) + 1;
    }
    assert_int_equal(names.size, size);
}

void world_compare_attr(const struct engine_attr *attr, const struct model_file *file)
{
    struct engine_attr wanted = file->attr;
    wanted.stored = 0;
    for (size_t i = 0; i < MODEL_BYTES_MAX; i++) {
        wanted.stored += file->is_data[i] ? 1 : 0;
    }
    assert_int_equal(attr->mode, wanted.mode);
    assert_int_equal(attr->nlink, wanted.nlink);
    assert_int_equal(attr->size, wanted.size);
    assert_int_equal(attr->stored, wanted.stored);
    assert_int_equal(attr->mtime_ns, wanted.mtime_ns);
    assert_int_equal(attr->ctime_ns, wanted.ctime_ns);
    assert_memory_equal(attr, &wanted, sizeof wanted);
}

struct seen_list {
    const struct view *view;
    uint64_t folder;
    char last[256];
    size_t count;
    size_t stop; /* after so many */
    bool plus;
};

static bool see_entry(void *context, const struct engine_entry *entry)
{
    struct seen_list *list = context;
    struct model *model = &list->view->world->model;
    assert_true(list->last[0] == '\0' || strcmp(list->last, entry->name) < 0);
    (void)snprintf(list->last, sizeof list->last, "%s", entry->name);
    struct model_name *name = model_name(model, list->folder, entry->name);
    assert_non_null(name);
    assert_int_equal(name->inode, entry->inode);
    struct model_file *file = model_file(model, entry->inode);
    assert_int_equal(entry->type, file->attr.mode & S_IFMT);
    assert_true(is_seen(list->view, file));
    assert_int_equal(list->plus, entry->attr != NULL);
    if (entry->attr) {
        world_compare_attr(entry->attr, file);
    }
    list->count++;
    return --list->stop > 0;
}

static void compare_folder(const struct view *view, const struct model_file *file)
{
    struct world *world = view->world;
    struct seen_list list = {
        .view = view, .folder = file->attr.inode, .plus = world_below(world, 2) == 0};
    struct err err = {0};
    int posix = 0;
    for (bool more = true; more;) {
        char after[256];
        (void)snprintf(after, sizeof after, "%s", list.last);
        struct engine_listing listing = {file->attr.inode, *after ? after : NULL, list.plus};
        list.stop = 1 + world_below(world, 5);
        enum err_code code = engine_list(view->engine, &listing, see_entry, &list, &posix, &err);
        assert_true(code == ERR_OK || code == ERR_AGAIN);
        if (code == ERR_AGAIN) {
            testmap_supply(view->testmap);
        }
        more = code == ERR_AGAIN || list.stop == 0;
    }
    size_t wanted = 0;
    for (size_t i = 0; i < MODEL_NAMES_MAX; i++) {
        const struct model_name *name = &world->model.names[i];
        wanted += name->folder == file->attr.inode &&
                  is_seen(view, model_file(&world->model, name->inode));
    }
    assert_int_equal(list.count, wanted);
}

static void compare_file(const struct view *view, const struct model_file *file)
{
    struct engine_attr attr;
    struct err err = {0};
    int posix = 0;
    enum err_code code = ERR_OK;
    UNTIL_DONE(view->testmap, code,
               engine_getattr(view->engine, file->attr.inode, &attr, &posix, &err));
    assert_int_equal(code, ERR_OK);
    world_compare_attr(&attr, file);
    compare_xattrs(view, file);
    if (S_ISDIR(file->attr.mode)) {
        compare_folder(view, file);
    }
    if (S_ISLNK(file->attr.mode)) {
        AUTO_STR struct str target = {0};
        UNTIL_DONE(view->testmap, code,
                   engine_readlink(view->engine, file->attr.inode, &target, &posix, &err));
        assert_int_equal(code, ERR_OK);
        assert_string_equal(str_text(&target), file->target);
    }
}

struct lives {
    const struct view *view;
    uint64_t live[4096];
    size_t count;
};

static bool see_container(void *context, const struct engine_container *container)
{
    struct lives *lives = context;
    struct world *world = lives->view->world;
    uint64_t number = container->container.number;
    assert_int_equal(container->live, lives->live[number]);
    assert_int_equal(container->live == 0, container->dead != 0);
    assert_int_equal(container->size, number + 1000);
    if (!lives->view->is_committed) {
        /* Dead since the commit in which it lost its last live byte, perhaps for a second time. */
        bool is_news = world->live_was[number] || world->dead_was[number] == 0;
        assert_true(container->live || container->dead == world->seq ||
                    (!is_news && container->dead == world->dead_was[number]));
        world->live_was[number] = container->live;
        world->dead_was[number] = container->dead;
    }
    lives->count++;
    return true;
}

static void compare_all(const struct view *view)
{
    struct world *world = view->world;
    static struct lives lives;
    lives = (struct lives){.view = view};
    bool *seen = mem_array(world->stored_count, sizeof *seen);
    struct engine_usage wanted = {0};
    for (size_t i = 0; i < MODEL_FILES_MAX; i++) {
        const struct model_file *file = &world->model.files[i];
        if (is_seen(view, file)) {
            compare_file(view, file);
            compare_content(view, file, lives.live, seen);
            wanted.files++;
            wanted.bytes += S_ISREG(file->attr.mode) ? file->attr.size : 0;
        }
    }
    free(seen);
    struct engine_usage usage;
    engine_usage(view->engine, &usage);
    assert_int_equal(usage.files, wanted.files);
    assert_int_equal(usage.bytes, wanted.bytes);
    struct err err = {0};
    enum err_code code = ERR_OK;
    UNTIL_DONE(view->testmap, code, engine_containers(view->engine, see_container, &lives, &err));
    assert_int_equal(code, ERR_OK);
    assert_int_equal(lives.count, world->pack_added);
}

/* Commits. ------------------------------------------------------------------------------------- */

struct commit {
    struct world *world;
    struct map *map;
    struct str last;
    size_t count;
};

static void see_change(void *context, const struct logobj_change *change)
{
    struct commit *commit = context;
    struct str *last = &commit->last;
    size_t shorter = last->size < change->key_size ? last->size : change->key_size;
    int order = memcmp(str_text(last), change->key, shorter);
    assert_true(order < 0 || (order == 0 && last->size < change->key_size));
    str_clear(last);
    str_add_bytes(last, change->key, change->key_size);
    commit->count++;
    if (change->value) {
        map_put(commit->map, change->key, change->key_size, change->value, change->value_size);
    } else {
        map_delete(commit->map, change->key, change->key_size);
    }
}

struct pairs {
    struct str bytes; /* key size, key, value size, value, ... */
};

static bool see_pair(void *context, struct map_slice key, struct map_slice value)
{
    struct pairs *pairs = context;
    str_addf(&pairs->bytes, "%zu:", key.size);
    str_add_bytes(&pairs->bytes, key.bytes, key.size);
    str_addf(&pairs->bytes, ":%zu:", value.size);
    str_add_bytes(&pairs->bytes, value.bytes, value.size);
    return true;
}

/* The whole of a map: every kind of key. */
static void scan_all(struct testmap *testmap, struct pairs *out)
{
    struct err err = {0};
    enum err_code code = ERR_AGAIN;
    struct map_range range = {.prefix = {(const uint8_t *)"", 0}};
    while (code == ERR_AGAIN) {
        str_clear(&out->bytes);
        code = map_scan(testmap_map(testmap), &range, see_pair, out, &err);
        testmap_supply(testmap);
    }
    assert_int_equal(code, ERR_OK);
}

/* A checkpoint holds exactly what the commits held. */
static void compare_checkpoint(struct world *world)
{
    struct pairs frozen = {0};
    struct pairs replayed = {0};
    testmap_checkpoint(world->testmap, world->engine, see_pair, &frozen);
    scan_all(world->replay, &replayed);
    assert_int_equal(frozen.bytes.size, replayed.bytes.size);
    assert_memory_equal(str_text(&frozen.bytes), str_text(&replayed.bytes), frozen.bytes.size);
    str_release(&frozen.bytes);
    str_release(&replayed.bytes);
}

static bool copy_pair(void *context, struct map_slice key, struct map_slice value)
{
    map_put(context, key.bytes, key.size, value.bytes, value.size);
    return true;
}

/* What a new owner would find now. */
static void compare_takeover(struct world *world)
{
    struct testmap *testmap = testmap_create(rng_next(&world->rng), 3);
    struct err err = {0};
    enum err_code code = ERR_AGAIN;
    struct map_range range = {.prefix = {(const uint8_t *)"", 0}};
    while (code == ERR_AGAIN) {
        code = map_scan(testmap_map(world->replay), &range, copy_pair, testmap_map(testmap), &err);
        testmap_supply(world->replay);
    }
    struct engine *engine = engine_create(testmap_map(testmap));
    engine_set_seq(engine, world->seq + 1);
    while ((code = engine_begin(engine, &err)) == ERR_AGAIN) {
        testmap_supply(testmap); /* it frees orphans one by one */
    }
    assert_int_equal(code, ERR_OK);
    compare_all(&(struct view){world, engine, testmap, true});
    engine_destroy(engine);
    testmap_destroy(testmap);
}

void world_commit(struct world *world)
{
    for (; world->pack_added <= world->pack_number; world->pack_added++) {
        uint64_t number = world->pack_added;
        engine_container_add(world->engine,
                             &(struct engine_container){.container = {CONTAINER_PACK, 0, 7, number},
                                                        .size = number + 1000,
                                                        .born = world->seq});
    }
    world->pack_number++;
    compare_all(&(struct view){world, world->engine, world->testmap, false});
    struct commit commit = {world, testmap_map(world->replay), {0}, 0};
    size_t pending = engine_pending(world->engine);
    engine_take(world->engine, see_change, &commit);
    assert_true(pending > 0 || commit.count == 0);
    assert_int_equal(engine_pending(world->engine), 0);
    str_release(&commit.last);
    for (size_t i = 0; i < MODEL_FILES_MAX; i++) {
        world->model.files[i].is_committed |= !world->model.files[i].is_held;
    }
    if (world_below(world, 3) == 0) {
        compare_checkpoint(world);
    }
    if (world_below(world, 3) == 0) {
        compare_takeover(world);
    }
    engine_set_seq(world->engine, ++world->seq);
}

/* Beginning and end. ----------------------------------------------------------------------------
 */

struct world *world_create(uint64_t seed)
{
    struct world *world = mem_alloc(sizeof *world);
    world->rng.state = seed;
    world->testmap = testmap_create(seed + 1, 3);
    world->replay = testmap_create(seed + 2, 0);
    world->engine = engine_create(testmap_map(world->testmap));
    world->caller.now_ns = 1700000000000000000;
    world->seq = 1;
    world->engine->rest_min = seed % 2 ? 1 : world->engine->rest_min;
    engine_set_seq(world->engine, 1);
    engine_format(world->engine, &world->caller, 0755);
    model_format(&world->model, &world->caller, 0755);
    return world;
}

void world_destroy(struct world *world)
{
    engine_destroy(world->engine);
    testmap_destroy(world->testmap);
    testmap_destroy(world->replay);
    for (size_t i = 0; i < world->stored_count; i++) {
        free(world->stored[i].bytes);
    }
    free(world->stored);
    free(world);
}
