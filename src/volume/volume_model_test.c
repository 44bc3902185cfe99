/* A volume against the plainest model, through every way of dying.
 *
 * Owners write, overwrite, rename, delete, snapshot, checkpoint, merge, compact, collect garbage;
 * readers pin what they see. An owner's store dies at any call, before or after it was carried out,
 * or the owner falls asleep at that call, another takes the volume over and works, and then the
 * first wakes up and goes on. Always: what was synced is there byte for byte, nothing is half
 * visible, each snapshot and each pinned reader reads exactly its state, a stale owner's sync never
 * says that more was stored than was, and in the end gc leaves nothing that nothing refers to.
 *
 * SEEDS=N runs that many seeds, SEED=N that one alone. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"
#include "volume/volume_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS_DEFAULT = 300, DEPTH_MAX = 2, READER_JUMP_MS = 30 * 1000, SETTLING_RUNS = 16 };

/* Opening. ------------------------------------------------------------------------------------- */

static void choose_fate(struct life *life)
{
    static const enum fate fates[] = {FATE_LIVE, FATE_DIE, FATE_DIE,       FATE_DIE_AFTER,
                                      FATE_NAP,  FATE_NAP, FATE_NAP_AFTER, FATE_NAP_AFTER};
    struct world *world = life->world;
    life->mortal.fate = fates[below(world, sizeof fates / sizeof fates[0])];
    life->mortal.calls_left = 1 + (int64_t)below(world, below(world, 4) == 0 ? 20 : 250);
    if (world->depth >= DEPTH_MAX && life->mortal.fate >= FATE_NAP) {
        life->mortal.fate = FATE_DIE;
    }
}

/* What an owner that died in the middle of a snapshot left. */
static bool see_snapshot(void *context, const struct volume_snapshot_info *info)
{
    struct world *world = context;
    for (size_t i = 0; i < WORLD_SNAPS; i++) {
        if (strcmp(world->snaps[i].name, info->name) == 0) {
            EXPECT(world, world->snaps[i].exists || world->snaps[i].unsure);
            world->snaps[i].seen = true;
            return true;
        }
    }
    EXPECT(world, info == NULL); /* nobody made it */
    return false;
}

static void settle_snapshots(struct world *world)
{
    struct err err;
    for (size_t i = 0; i < WORLD_SNAPS; i++) {
        world->snaps[i].seen = false;
    }
    EXPECT(world, volume_snapshots(world->side, see_snapshot, world, &err) == ERR_OK);
    for (size_t i = 0; i < WORLD_SNAPS; i++) {
        struct world_snap *snap = &world->snaps[i];
        EXPECT(world, snap->unsure || snap->seen == snap->exists);
        snap->exists = snap->seen;
        snap->unsure = false;
    }
}

/* Has another set its fence between our opening and now? */
static bool is_fenced(struct life *life)
{
    struct container container = {.kind = CONTAINER_LOG, .number = volume_seq_next(life->volume)};
    char name[CONTAINER_NAME_MAX];
    AUTO_STR struct str bytes = {0};
    container_name(&container, name);
    return object_get(life->world->side, name, &bytes, NULL, NULL) == ERR_OK;
}

static bool life_open(struct life *life, enum fate fate)
{
    struct world *world = life->world;
    struct volume_options options = {.role = VOLUME_OWNER,
                                     .owner = "model",
                                     .take_over = true,
                                     .block_cache_bytes = 1,
                                     .table_bytes = world->seed % 2 == 0 ? 1 : 0,
                                     .now_unix_ms = world_now,
                                     .context = world};
    struct err err = {0};
    if (fate == FATE_LIVE) {
        life->mortal.fate = FATE_LIVE;
    }
    struct object_store *store = world_open_store(world, &life->mortal);
    if (volume_open(store, &options, &life->volume, &err) != ERR_OK) {
        world_tell(world, "not opened: %s\n", err.text);
        EXPECT(world, life->mortal.is_dead || life->mortal.has_napped);
        object_close(store);
        return false;
    }
    if (is_fenced(life)) {
        life->generation = UINT64_MAX;
        return life_find_folders(life);
    }
    if (world->generation > 0) { /* the first makes the folders that every state has */
        life->mortal.is_spared = true;
        world->settled[world->generation % WORLD_GENERATIONS] = world_settle(world, life->volume);
        life->mortal.is_spared = false;
    }
    world->generation++;
    life->generation = world->generation;
    settle_snapshots(world);
    return life_find_folders(life);
}

/* Readers and snapshots. ----------------------------------------------------------------------- */

static enum err_code open_reader(struct world *world, const char *snapshot, struct mortal *mortal,
                                 struct volume **out)
{
    struct volume_options options = {.role = VOLUME_READER,
                                     .snapshot = snapshot,
                                     .block_cache_bytes = 1,
                                     .now_unix_ms = world_now,
                                     .context = world};
    struct err err = {0};
    struct object_store *store = mortal_open(object_memory_open(world->shelf), mortal);
    enum err_code code = volume_open(store, &options, out, &err);
    mortal->is_spared = true;
    if (code != ERR_OK) {
        world_tell(world, "reader: %s\n", err.text);
        object_close(store);
    }
    return code;
}

static void check_snapshots(struct world *world)
{
    for (size_t i = 0; i < WORLD_SNAPS; i++) {
        if (world->snaps[i].exists && !world->snaps[i].unsure) {
            struct mortal mortal = {.world = world, .is_spared = true};
            struct volume *reader = NULL;
            struct err err;
            EXPECT(world, open_reader(world, world->snaps[i].name, &mortal, &reader) == ERR_OK);
            world_check(world, reader, &world->snaps[i].state, world->snaps[i].name);
            EXPECT(world, volume_close(reader, &err) == ERR_OK);
        }
    }
}

static void check_readers(struct world *world)
{
    for (size_t i = 0; i < WORLD_READERS; i++) {
        if (world->readers[i] != NULL) {
            world_check(world, world->readers[i]->volume, &world->readers[i]->state, "reader");
        }
    }
}

static void end_reader(struct world *world, size_t index)
{
    struct world_reader *reader = world->readers[index];
    struct err err;
    world->readers[index] = NULL;
    world_check(world, reader->volume, &reader->state, "reader at its end");
    if (below(world, 2) == 0) {
        EXPECT(world, volume_close(reader->volume, &err) == ERR_OK);
    } else { /* as a crash would do it; then its pin runs out */
        volume_abandon(reader->volume);
    }
    free(reader);
}

static void nap(struct world *world);

/* Of a snapshot that may be deleted meanwhile: then there is none, or all of it. */
static bool read_snapshot(struct world *world, struct world_reader *reader, size_t index)
{
    struct world_snap *snap = &world->snaps[index];
    struct world_snap wanted = *snap;
    int64_t from_ms = world->now_ms;
    enum err_code code = open_reader(world, wanted.name, &reader->mortal, &reader->volume);
    reader->state = wanted.state;
    if (world->now_ms - from_ms >= VOLUME_PIN_MS) {
        return false; /* it slept so long that its pin ran out */
    }
    if (code == ERR_NOT_FOUND && reader->mortal.has_napped) {
        bool is_there = snap->exists && !snap->unsure && strcmp(snap->name, wanted.name) == 0;
        EXPECT(world, !is_there);
        return false;
    }
    EXPECT(world, code == ERR_OK);
    world_check(world, reader->volume, &reader->state, "reader of a snapshot");
    return true;
}

/* Of the present: a state that was there at some time while it opened. */
static bool read_present(struct world *world, struct world_reader *reader)
{
    struct history *history = &world->history;
    size_t first = history->synced;
    size_t before_count = history->count - first;
    struct state *before =
        mem_dup(history->states + first, before_count * sizeof history->states[0]);
    struct err why = {0};
    int64_t from_ms = world->now_ms;
    enum err_code code = open_reader(world, NULL, &reader->mortal, &reader->volume);
    if (world->now_ms - from_ms >= VOLUME_PIN_MS) {
        free(before);
        return false;
    }
    EXPECT(world, code == ERR_OK);
    bool found = false;
    world_tell(world, "reader of seq %llu: states %zu to %zu\n",
               (unsigned long long)volume_seq_durable(reader->volume), first, history->count - 1);
    for (size_t i = history->count; i > first && !found; i--) {
        reader->state = state_shown(&history->states[i - 1]);
        found = world_matches(world, reader->volume, &reader->state, &why);
    }
    for (size_t i = before_count; i > 0 && !found; i--) {
        reader->state = state_shown(&before[i - 1]);
        found = world_matches(world, reader->volume, &reader->state, &why);
    }
    free(before);
    world_tell(world, "reader: %s\n", why.text);
    EXPECT(world, found);
    return true;
}

/* Opens a reader, in the middle of which others may act, even another owner; or ends one. */
static void act_reader(struct world *world)
{
    size_t index = (size_t)below(world, WORLD_READERS);
    size_t snap = (size_t)below(world, WORLD_SNAPS);
    if (world->readers[index] != NULL) {
        end_reader(world, index);
        return;
    }
    struct world_reader *reader = mem_alloc(sizeof *reader);
    reader->mortal = (struct mortal){.world = world, .nap = nap};
    reader->mortal.calls_left = 1 + (int64_t)below(world, 12);
    bool naps = world->depth < DEPTH_MAX && below(world, 2) == 0;
    reader->mortal.fate = naps ? FATE_NAP : FATE_LIVE;
    bool is_snap = world->snaps[snap].exists && !world->snaps[snap].unsure;
    bool opened = is_snap ? read_snapshot(world, reader, snap) : read_present(world, reader);
    if (opened && world->readers[index] == NULL) {
        world->readers[index] = reader;
        return;
    }
    volume_abandon(reader->volume); /* somebody else has its place by now */
    free(reader);
}

/* Time goes on: readers renew their pins; those of the dead run out. */
static void act_time(struct world *world)
{
    int64_t jump_ms = below(world, 4) == 0 ? 40 * 60 * 1000 : 60 * 1000;
    for (; jump_ms > 0; jump_ms -= READER_JUMP_MS) {
        world->now_ms += READER_JUMP_MS;
        for (size_t i = 0; i < WORLD_READERS; i++) {
            if (world->readers[i] != NULL) {
                volume_tick(world->readers[i]->volume, world->now_ms);
                volume_run(world->readers[i]->volume, 0);
                struct err err = {0};
                (void)volume_trouble(world->readers[i]->volume, &err);
                world_tell(world, "reader: %s\n", err.text);
                EXPECT(world, err.code == ERR_OK);
            }
        }
    }
}

static bool act_snapshot(struct life *life)
{
    struct world *world = life->world;
    size_t index = (size_t)below(world, WORLD_SNAPS);
    struct world_snap *snap = &world->snaps[index];
    struct err err = {0};
    if (life_is_stale(life)) { /* under a name of its own, which must never appear */
        return volume_snapshot(life->volume, "stale", &err) == ERR_OK;
    }
    if (snap->exists) {
        snap->unsure = true;
        if (volume_snapshot_delete(life->volume, snap->name, &err) != ERR_OK) {
            return false;
        }
        if (!life_is_stale(life)) {
            snap->exists = false;
            snap->unsure = false;
        }
        return true;
    }
    snprintf(snap->name, sizeof snap->name, "s%zu.%u", index, ++world->snap_number);
    struct world_snap made = *snap;
    made.exists = true;
    snap->unsure = true;
    snap->state = state_shown(world_now_state(world));
    made.state = snap->state;
    size_t at = world->history.count - 1;
    if (volume_snapshot(life->volume, made.name, &err) != ERR_OK) {
        return false;
    }
    if (life_is_stale(life)) { /* it was made before the nap: then the next owner has seen it */
        EXPECT(world, at <= world->settled[life->generation % WORLD_GENERATIONS]);
        return true;
    }
    snap->exists = true;
    snap->unsure = false;
    world->history.synced = at;
    return true;
}

/* Committing and tidying. ---------------------------------------------------------------------- */

static bool act_sync(struct life *life)
{
    struct world *world = life->world;
    struct err err = {0};
    bool was_stale = life_is_stale(life);
    bool has_work = engine_pending(volume_engine(life->volume)) > 0;
    size_t at = world->history.count - 1;
    enum err_code code = volume_sync(life->volume, &err);
    if (code != ERR_OK) {
        return false;
    }
    EXPECT(world, !was_stale || !has_work);
    if (life_is_stale(life)) { /* it was stored before the nap: then the next owner has it */
        EXPECT(world, was_stale || !has_work ||
                          at <= world->settled[life->generation % WORLD_GENERATIONS]);
    } else {
        world->history.synced = at;
    }
    return true;
}

/* As the mount does it: time goes on, and whatever is due in the background is begun. */
static bool act_ticks(struct life *life)
{
    uint64_t count = below(life->world, 12);
    for (uint64_t i = 0; i < count; i++) {
        life->mono_ms += (int64_t)below(life->world, 3) * 15000;
        volume_tick(life->volume, life->mono_ms);
        for (int k = 0; k < 4; k++) {
            volume_run(life->volume, 0);
        }
    }
    return volume_trouble(life->volume, NULL) == ERR_OK;
}

static bool act_commit(struct life *life)
{
    (void)volume_commit(life->volume);
    if (below(life->world, 2) == 0) {
        volume_run(life->volume, 0);
    }
    return true;
}

static bool act_gc(struct life *life)
{
    struct volume_gc_report report;
    struct err err = {0};
    return volume_gc(life->volume, below(life->world, 5) == 0, &report, &err) == ERR_OK;
}

static void drop_order(struct life *life)
{
    volume_order_drop(life->order);
    life->order = NULL;
}

/* Begins an order, or goes on with it for a while: all else happens in between. */
static bool act_order(struct life *life)
{
    static const char *const words[] = {"gc", "gc", "gc-dry-run", "compact", "checkpoint", "sync"};
    struct world *world = life->world;
    AUTO_STR struct str said = {0};
    struct err err = {0};
    if (life->order == NULL) {
        const char *what = words[below(world, sizeof words / sizeof words[0])];
        return volume_order_begin(life->volume, what, &life->order, &err) == ERR_OK;
    }
    for (uint64_t i = 1 + below(world, 6); i > 0; i--) {
        enum err_code code = volume_order_go_on(life->order, &said, &err);
        if (code != ERR_AGAIN) {
            drop_order(life);
            return code == ERR_OK;
        }
        volume_run(life->volume, 0);
    }
    if (below(world, 8) == 0) {
        drop_order(life);
    }
    return true;
}

static bool act(struct life *life)
{
    struct world *world = life->world;
    struct err err = {0};
    uint64_t what = below(world, 31);
    world_tell(world, "%u.%u act %u at state %zu\n", (unsigned)life->generation,
               (unsigned)life_is_stale(life), (unsigned)what, world->history.count - 1);
    switch (what) {
    case 0:
        return life_truncate(life);
    case 1:
    case 2:
        return life_remove(life);
    case 3:
    case 4:
        return life_rename(life);
    case 5:
    case 6:
    case 7:
        return act_sync(life);
    case 8:
        return act_commit(life);
    case 9:
    case 10:
        return act_snapshot(life);
    case 11:
    case 12:
        return volume_checkpoint(life->volume, &err) == ERR_OK;
    case 13:
        return volume_merge(life->volume, &err) == ERR_OK;
    case 14:
    case 15:
        return volume_compact(life->volume, below(world, 2) * 50000, &err) == ERR_OK;
    case 16:
    case 17:
        return act_gc(life);
    case 18:
        act_reader(world);
        return true;
    case 19:
        act_time(world);
        return true;
    case 20:
        return act_ticks(life);
    case 21:
        return life_release(life);
    case 22:
    case 23:
    case 24:
        return act_order(life);
    default:
        return life_write(life);
    }
}

/* Lives. --------------------------------------------------------------------------------------- */

static void check_life(struct life *life)
{
    if (life_is_stale(life) || life->mortal.is_dead) {
        return;
    }
    life->mortal.is_spared = true;
    for (int i = 0; i < SETTLING_RUNS;
         i++) { /* one who took it and died at once may have fenced it */
        volume_run(life->volume, 0);
    }
    if (volume_trouble(life->volume, NULL) == ERR_OK) {
        world_check(life->world, life->volume, world_now_state(life->world), "owner");
    }
    life->mortal.is_spared = false;
}

static void life_end(struct life *life)
{
    struct world *world = life->world;
    struct err err = {0};
    drop_order(life);
    if (below(world, 3) == 0) {
        size_t at = world->history.count - 1;
        bool was_stale = life_is_stale(life);
        enum err_code code = volume_close(life->volume, &err);
        EXPECT(world, code != ERR_OK || !was_stale);
        if (code == ERR_OK && !life_is_stale(life)) {
            world->history.synced = at;
        }
    } else {
        volume_abandon(life->volume);
    }
}

static void live(struct world *world)
{
    struct life life = {.world = world, .mortal = {.world = world, .nap = nap}};
    choose_fate(&life);
    if (!life_open(&life, life.mortal.fate)) {
        volume_abandon(life.volume);
        return;
    }
    uint64_t acts = 5 + below(world, world->depth > 0 ? 25 : 50);
    int stale_acts = 6;
    for (uint64_t i = 0; i < acts; i++) {
        bool well = act(&life);
        if (!well) {
            struct err err = {0};
            (void)volume_trouble(life.volume, &err);
            world_tell(world, "%u: %s\n", (unsigned)life.generation, err.text);
        }
        if (!well && volume_trouble(life.volume, NULL) != ERR_OK) {
            break;
        }
        EXPECT(world, well || life_is_stale(&life) || life.mortal.is_dead);
        if (life_is_stale(&life) && --stale_acts == 0) {
            break;
        }
        if (below(world, 3) == 0) { /* checkpoints and merges in the background */
            volume_tick(life.volume, life.mono_ms++);
            volume_run(life.volume, 0);
        }
        if (below(world, 12) == 0) {
            check_life(&life);
        }
    }
    check_life(&life);
    life_end(&life);
    check_readers(world);
    check_snapshots(world);
}

/* Somebody else's life, in the middle of a call of this one's. */
static void nap(struct world *world)
{
    world->depth++;
    for (uint64_t i = 1 + below(world, 2); i > 0; i--) {
        live(world);
    }
    world->depth--;
}

/* The end of the world. ------------------------------------------------------------------------ */

static void end_world(struct world *world)
{
    struct life life = {.world = world, .mortal = {.world = world, .nap = nap}};
    struct err err = {0};
    check_readers(world);
    for (size_t i = 0; i < WORLD_READERS; i++) {
        if (world->readers[i] != NULL) {
            volume_abandon(world->readers[i]->volume);
            free(world->readers[i]);
            world->readers[i] = NULL;
        }
    }
    world->now_ms += 3600000;
    EXPECT(world, life_open(&life, FATE_LIVE));
    EXPECT(world, volume_sync(life.volume, &err) == ERR_OK);
    (void)life_check_leftovers(&life);
    check_snapshots(world);
    world_check(world, life.volume, world_now_state(world), "last owner");
    for (size_t i = 0; i < WORLD_SNAPS; i++) {
        if (world->snaps[i].exists) {
            EXPECT(world,
                   volume_snapshot_delete(life.volume, world->snaps[i].name, &err) == ERR_OK);
            world->snaps[i].exists = false;
        }
    }
    EXPECT(world, life_remove_all(&life));
    EXPECT(world, volume_merge(life.volume, &err) == ERR_OK);
    EXPECT(world, life_check_leftovers(&life) == 0);
    EXPECT(world, volume_close(life.volume, &err) == ERR_OK);
}

static void run_seed(uint64_t seed)
{
    struct world world;
    world_create(&world, seed);
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN,
                                   .zstd_level = seed % 3 == 0 ? 3 : 0};
    struct engine_caller caller = {.now_ns = 1};
    struct err err = {0};
    EXPECT(&world, volume_format_write(world.side, &format, &caller, &err) == ERR_OK);
    struct life first = {.world = &world, .mortal = {.world = &world}};
    EXPECT(&world, life_open(&first, FATE_LIVE));
    EXPECT(&world, volume_close(first.volume, &err) == ERR_OK);
    uint64_t lives = 1 + below(&world, 4);
    for (uint64_t i = 0; i < lives; i++) {
        live(&world);
    }
    end_world(&world);
    world_destroy(&world);
}

static void test_a_volume_keeps_its_promises_through_every_way_of_dying(void **state)
{
    (void)state;
    const char *one = getenv("SEED");
    const char *many = getenv("SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one ? 1 : many ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
    int64_t from_ms = clock_mono_ms();
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(seed);
    }
    print_message("seeds %llu to %llu: %lld ms\n", (unsigned long long)first,
                  (unsigned long long)(first + count - 1), (long long)(clock_mono_ms() - from_ms));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_volume_keeps_its_promises_through_every_way_of_dying),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
