#include "volume/volume_world.h"

#include "base/check.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int64_t world_now(void *context)
{
    return ((struct world *)context)->now_ms;
}

void world_create(struct world *world, uint64_t seed)
{
    *world = (struct world){.seed = seed, .rng = {rng_mix(seed, 1, 2)}, .now_ms = 1000000000};
    world->is_told = getenv("TRACE") != NULL;
    world->shelf = object_shelf_create();
    world->side = object_memory_open(world->shelf);
    struct state *first =
        &VEC_PUSH(world->history.states, world->history.count, world->history.cap);
    for (size_t i = 0; i < WORLD_SLOTS; i++) {
        first->files[i] = -1;
    }
}

void world_tell(const struct world *world, const char *format, ...)
{
    if (world->is_told) {
        va_list args;
        va_start(args, format);
        fprintf(stderr, "%*s", 2 * world->depth, "");
        // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): inlined, va_start goes unseen
        (void)vfprintf(stderr, format, args);
        va_end(args);
    }
}

void world_destroy(struct world *world)
{
    for (size_t i = 0; i < world->blob_count; i++) {
        free(world->blobs[i].bytes);
    }
    free(world->blobs);
    free(world->history.states);
    object_close(world->side);
    object_shelf_destroy(world->shelf);
}

int world_blob(struct world *world, const void *bytes, size_t size)
{
    VEC_PUSH(world->blobs, world->blob_count, world->blob_cap) =
        (struct blob){mem_dup(bytes, size), size};
    return (int)world->blob_count - 1;
}

struct state *world_now_state(struct world *world)
{
    return &world->history.states[world->history.count - 1];
}

struct state *world_step(struct world *world)
{
    struct history *history = &world->history;
    struct state copy = *world_now_state(world);
    VEC_PUSH(history->states, history->count, history->cap) = copy;
    return &history->states[history->count - 1];
}

struct state state_shown(const struct state *state)
{
    struct state shown = *state;
    for (size_t i = 0; i < WORLD_SLOTS; i++) {
        if ((shown.held & 1u << i) != 0) {
            shown.files[i] = -1;
        }
    }
    shown.held = 0;
    return shown;
}

/* Reading a volume. ---------------------------------------------------------------------------- */

struct reading {
    struct world *world;
    struct volume *volume;
    uint64_t folder, inode;
    const char *name;
    struct engine_attr attr;
    int posix;
    struct str bytes;
    struct str names;
    bool is_bad;
};

static enum err_code op_lookup(void *context, struct err *err)
{
    struct reading *reading = context;
    return engine_lookup(volume_engine(reading->volume), reading->folder, reading->name,
                         &reading->attr, &reading->posix, err);
}

static bool add_name(void *context, const struct engine_entry *entry)
{
    struct reading *reading = context;
    str_add(&reading->names, entry->name);
    str_add_char(&reading->names, ' ');
    return true;
}

static enum err_code op_list(void *context, struct err *err)
{
    struct reading *reading = context;
    struct engine_listing listing = {.folder = reading->folder};
    str_clear(&reading->names);
    return engine_list(volume_engine(reading->volume), &listing, add_name, reading, &reading->posix,
                       err);
}

/* Stored bytes: the volume's own if it still has them, else the shelf's. */
static bool read_stored(struct reading *reading, const struct extent *extent, uint8_t *whole)
{
    char name[CONTAINER_NAME_MAX];
    const void *young = volume_young(reading->volume, extent);
    if (young != NULL) {
        return extent_decode(extent, young, whole, NULL) == ERR_OK;
    }
    container_name(&extent->container, name);
    struct object_call call = {
        .verb = OBJECT_GET, .key = name, .offset = extent->offset, .size = extent->stored_size};
    bool good = object_do(reading->world->side, &call, NULL) == ERR_OK &&
                call.body.size == extent->stored_size &&
                extent_decode(extent, call.body.text, whole, NULL) == ERR_OK;
    object_call_release(&call);
    return good;
}

static bool add_extent(void *context, const struct extent *extent)
{
    struct reading *reading = context;
    uint8_t *whole = mem_alloc(extent->whole);
    if (extent->file_offset + extent->size > reading->bytes.size ||
        !read_stored(reading, extent, whole)) {
        reading->is_bad = true;
    } else {
        memcpy(reading->bytes.text + extent->file_offset, whole + extent->skip, extent->size);
    }
    free(whole);
    return true;
}

static enum err_code op_read(void *context, struct err *err)
{
    struct reading *reading = context;
    struct engine_span span = {reading->inode, 0, UINT64_MAX};
    static const char zeros[4096];
    str_clear(&reading->bytes);
    while (reading->bytes.size < reading->attr.size) {
        size_t left = (size_t)reading->attr.size - reading->bytes.size;
        str_add_bytes(&reading->bytes, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
    reading->is_bad = false;
    return engine_extents(volume_engine(reading->volume), &span, add_extent, reading,
                          &reading->posix, err);
}

static bool differs(struct err *why, const char *name, const char *what)
{
    (void)err_set(why, ERR_CORRUPT, "%s: %s", name, what);
    return false;
}

static bool file_matches(struct reading *reading, const struct blob *blob, struct err *why)
{
    struct err err = {0};
    enum err_code code = volume_do(reading->volume, op_lookup, reading, &err);
    if (code == ERR_INVALID && reading->posix == ENOENT) {
        return blob == NULL || differs(why, reading->name, "missing");
    }
    if (code != ERR_OK) {
        return differs(why, reading->name, err.text);
    }
    if (blob == NULL) {
        return differs(why, reading->name, "is there");
    }
    if (reading->attr.size != blob->size) {
        return differs(why, reading->name, "has another size");
    }
    reading->inode = reading->attr.inode;
    code = volume_do(reading->volume, op_read, reading, &err);
    if (code != ERR_OK || reading->is_bad) {
        return differs(why, reading->name, reading->is_bad ? "cannot be read" : err.text);
    }
    bool same = blob->size == 0 || memcmp(reading->bytes.text, blob->bytes, blob->size) == 0;
    return same || differs(why, reading->name, "has other bytes");
}

static bool folder_matches(struct reading *reading, const struct state *state, size_t folder,
                           struct err *why)
{
    static const char *const names[WORLD_NAMES] = {"n0", "n1", "n2", "n3"};
    AUTO_STR struct str expected = {0};
    if (folder == 0) {
        str_add(&expected, "a b ");
    }
    for (size_t i = 0; i < WORLD_NAMES; i++) {
        int file = state->files[folder * WORLD_NAMES + i];
        reading->name = names[i];
        if (file >= 0) {
            str_addf(&expected, "%s ", names[i]);
        }
        const struct blob *blob = file >= 0 ? &reading->world->blobs[file] : NULL;
        if (!file_matches(reading, blob, why)) {
            return false;
        }
    }
    struct err err = {0};
    if (volume_do(reading->volume, op_list, reading, &err) != ERR_OK) {
        return differs(why, "listing", err.text);
    }
    return strcmp(str_text(&expected), str_text(&reading->names)) == 0 ||
           differs(why, "other names", str_text(&reading->names));
}

bool world_matches(struct world *world, struct volume *volume, const struct state *state,
                   struct err *why)
{
    static const char *const folders[WORLD_FOLDERS] = {NULL, "a", "b"};
    struct reading reading = {.world = world, .volume = volume};
    bool same = true;
    for (size_t i = 0; i < WORLD_FOLDERS && same; i++) {
        reading.folder = ENGINE_ROOT;
        if (folders[i] != NULL) {
            struct err err = {0};
            reading.name = folders[i];
            same = volume_do(volume, op_lookup, &reading, &err) == ERR_OK ||
                   differs(why, folders[i], err.text);
            reading.folder = reading.attr.inode;
        }
        same = same && folder_matches(&reading, state, i, why);
    }
    str_release(&reading.bytes);
    str_release(&reading.names);
    return same;
}

static _Noreturn void world_fail(const struct world *world, const char *what, const char *why)
{
    fprintf(stderr, "seed %llu: %s: %s\n", (unsigned long long)world->seed, what, why);
    abort();
}

void world_check(struct world *world, struct volume *volume, const struct state *state,
                 const char *what)
{
    struct err why = {0};
    if (!world_matches(world, volume, state, &why)) {
        world_fail(world, what, why.text);
    }
}

size_t world_settle(struct world *world, struct volume *volume)
{
    struct history *history = &world->history;
    struct err why = {0};
    for (size_t i = history->count; i > history->synced; i--) {
        struct state shown = state_shown(&history->states[i - 1]);
        if (world_matches(world, volume, &shown, &why)) {
            history->states[i - 1] = shown;
            world_tell(world, "settled at %zu of %zu to %zu\n", i - 1, history->synced,
                       history->count - 1);
            history->count = i;
            history->synced = i - 1;
            return i - 1;
        }
    }
    world_fail(world, "what was synced is not there, or half of something is", why.text);
}

/* Mortal stores. ------------------------------------------------------------------------------- */

struct mortal_store {
    struct object_store store;
    struct object_store *inner;
    struct mortal *mortal;
    struct object_call *ended; /* answered by run */
};

static void end_later(struct mortal_store *mine, struct object_call *call)
{
    call->next = mine->ended;
    mine->ended = call;
}

static void cancel_later(struct mortal_store *mine, struct object_call *call)
{
    call->code = ERR_CANCELLED;
    (void)err_set(&call->err, ERR_CANCELLED, "dead");
    end_later(mine, call);
}

/* Carries the call out at once, beside the inner store. */
static void carry_out(struct mortal_store *mine, struct object_call *call)
{
    void (*done)(struct object_call *) = call->done;
    void *context = call->context;
    (void)!object_do(mine->mortal->world->side, call, NULL);
    call->done = done;
    call->context = context;
}

static void meet_fate(struct mortal_store *mine, struct object_call *call)
{
    struct mortal *mortal = mine->mortal;
    world_tell(mortal->world, "fate %d at verb %d %s\n", (int)mortal->fate, (int)call->verb,
               call->key);
    switch (mortal->fate) {
    case FATE_LIVE:
        object_start(mine->inner, call);
        break;
    case FATE_DIE_AFTER:
        carry_out(mine, call);
        object_call_release(call);
        mortal->is_dead = true;
        cancel_later(mine, call);
        break;
    case FATE_DIE:
        mortal->is_dead = true;
        cancel_later(mine, call);
        break;
    case FATE_NAP:
        mortal->has_napped = true;
        mortal->nap(mortal->world);
        object_start(mine->inner, call);
        break;
    case FATE_NAP_AFTER:
        carry_out(mine, call);
        mortal->has_napped = true;
        mortal->nap(mortal->world);
        end_later(mine, call);
        break;
    }
}

static void mortal_start(struct object_store *store, struct object_call *call)
{
    struct mortal_store *mine = (struct mortal_store *)store;
    if (mine->mortal->is_dead) {
        cancel_later(mine, call);
    } else if (!mine->mortal->is_spared && --mine->mortal->calls_left == 0) {
        meet_fate(mine, call);
    } else {
        object_start(mine->inner, call);
    }
}

static size_t mortal_run(struct object_store *store, int wait_ms)
{
    struct mortal_store *mine = (struct mortal_store *)store;
    struct object_call *call = mine->ended;
    size_t count = 0;
    mine->ended = NULL;
    while (call != NULL) {
        struct object_call *next = call->next;
        call->done(call);
        count++;
        call = next;
    }
    return count + object_run(mine->inner, count > 0 || mine->ended != NULL ? 0 : wait_ms);
}

static int mortal_fd(struct object_store *store)
{
    return object_fd(((struct mortal_store *)store)->inner);
}

static void mortal_stats(const struct object_store *store, struct object_stats *out)
{
    object_stats(((const struct mortal_store *)store)->inner, out);
}

static void mortal_close(struct object_store *store)
{
    struct mortal_store *mine = (struct mortal_store *)store;
    mine->mortal->is_dead = true;
    object_close(mine->inner);
    while (mine->ended != NULL) {
        struct object_call *call = mine->ended;
        mine->ended = call->next;
        call->done(call);
    }
    free(mine);
}

struct object_store *mortal_open(struct object_store *inner, struct mortal *mortal)
{
    static const struct object_ops ops = {mortal_start, mortal_run, mortal_fd, mortal_stats,
                                          mortal_close};
    struct mortal_store *mine = mem_alloc(sizeof *mine);
    mine->store.ops = &ops;
    mine->inner = inner;
    mine->mortal = mortal;
    return &mine->store;
}

struct object_store *world_open_store(struct world *world, struct mortal *mortal)
{
    struct object_store *store = object_memory_open(world->shelf);
    if (world->seed % 4 == 0) {
        struct object_faults faults = {.seed = rng_next(&world->rng),
                                       .fail = 0.03,
                                       .lost_reply = 0.05,
                                       .repeated = 0.05,
                                       .truncated = 0.03};
        struct object_patience patience = {.seed = 1, .tries = 12, .first_ms = 1, .longest_ms = 1};
        store = object_retry_create(object_faulty_create(store, &faults), &patience);
    }
    return mortal_open(store, mortal);
}
