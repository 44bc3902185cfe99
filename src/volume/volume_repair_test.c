/* Repairing: whatever of the log is lost or damaged, and wherever the repair dies, the volume goes
 * back to exactly the commit before, or still says that it needs repair.
 *
 * Owners that were succeeded, and the last one, live on until the end, asleep: none of them may be
 * told that something was stored after the repair. A reader opens in the middle of it.
 *
 * What a mount's caches hold of log objects is keyed by their numbers. It cannot go stale: numbers
 * that were cut off are not used again, which is checked here for every seed; only a fence may come
 * to lie under one, and fences hold no extents. Were they used again, the caches would still give
 * out no wrong bytes, since an extent is found in memory by its checksum too, and what comes from
 * disk is checked, dropped and fetched again (reader.h). Raw reads are of runs, named by term.
 *
 * SEEDS=N runs that many seeds, SEED=N that one alone. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"
#include "volume/volume_life.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS_DEFAULT = 300, LIVES_MAX = 4, COMMITS_MAX = 512, DEATHS_MAX = 12 };

struct kept { /* a log object as it was before the repair */
    uint64_t seq;
    struct str bytes;
    bool is_fence;
};

struct trial {
    struct world world;
    struct life lives[LIVES_MAX];
    size_t life_count;
    size_t states[COMMITS_MAX]; /* by seq: the newest state that the commit may hold; 0: unknown */
    uint64_t durable;           /* the last commit before the damage */
    uint64_t gap;
    struct kept kept[COMMITS_MAX];
    size_t kept_count;
    bool has_snap;
    struct state snap;
    struct volume_repair_report report;
    bool is_done;
    bool was_cut_short; /* one died when the volume was repaired, before it had tidied up */
};

static struct volume_options options_of(struct world *world)
{
    return (struct volume_options){.role = VOLUME_OWNER,
                                   .owner = "model",
                                   .take_over = true,
                                   .block_cache_bytes = 1,
                                   .now_unix_ms = world_now,
                                   .context = world};
}

/* Before. -------------------------------------------------------------------------------------- */

static void note_commit(struct trial *trial, struct life *life)
{
    struct err err = {0};
    struct world *world = &trial->world;
    EXPECT(world, volume_sync(life->volume, &err) == ERR_OK);
    uint64_t seq = volume_seq_durable(life->volume);
    EXPECT(world, seq < COMMITS_MAX);
    trial->durable = seq;
    trial->states[seq] = world->history.count - 1;
}

static void act(struct trial *trial, struct life *life)
{
    struct world *world = &trial->world;
    struct err err = {0};
    uint64_t dice = below(world, 20);
    bool well = dice < 11   ? life_write(life)
                : dice < 13 ? life_truncate(life)
                : dice < 15 ? life_remove(life)
                : dice < 18 ? life_rename(life)
                            : life_release(life);
    EXPECT(world, well);
    if (below(world, 3) > 0) {
        note_commit(trial, life);
    }
    if (below(world, 30) == 0) {
        EXPECT(world, volume_checkpoint(life->volume, &err) == ERR_OK);
        note_commit(trial, life);
    }
}

static void open_life(struct trial *trial, struct life *life)
{
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct err err = {0};
    *life = (struct life){.world = world, .mortal = {.world = world}};
    struct object_store *store = mortal_open(object_memory_open(world->shelf), &life->mortal);
    EXPECT(world, volume_open(store, &options, &life->volume, &err) == ERR_OK);
    world->generation++;
    life->generation = world->generation;
}

/* What was held by the owner before is not there for this one. */
static void begin_life(struct trial *trial)
{
    struct world *world = &trial->world;
    struct life *life = &trial->lives[trial->life_count++];
    open_life(trial, life);
    struct state shown = state_shown(world_now_state(world));
    *world_step(world) = shown;
    trial->durable = volume_seq_durable(life->volume);
    trial->states[trial->durable] = world->history.count - 1;
    EXPECT(world, life_find_folders(life));
    note_commit(trial, life);
}

static void live(struct trial *trial)
{
    struct world *world = &trial->world;
    uint64_t lives = 1 + below(world, LIVES_MAX);
    for (uint64_t i = 0; i < lives; i++) {
        begin_life(trial);
        struct life *life = &trial->lives[trial->life_count - 1];
        uint64_t acts = 1 + below(world, 15);
        for (uint64_t j = 0; j < acts; j++) {
            act(trial, life);
        }
        note_commit(trial, life);
        struct err err = {0};
        if (below(world, 4) == 0 && !trial->has_snap) {
            EXPECT(world, volume_snapshot(life->volume, "snap", &err) == ERR_OK);
            trial->has_snap = true;
            trial->snap = state_shown(world_now_state(world));
            note_commit(trial, life);
        }
    }
}

static void read_head(struct trial *trial, struct volume_head *out)
{
    AUTO_STR struct str bytes = {0};
    struct err err = {0};
    EXPECT(&trial->world, object_get(trial->world.side, "head", &bytes, NULL, &err) == ERR_OK);
    EXPECT(&trial->world, volume_head_decode(bytes.text, bytes.size, out, &err) == ERR_OK);
}

static uint64_t view_seq(struct trial *trial)
{
    struct volume_head head = {0};
    read_head(trial, &head);
    uint64_t seq = head.view.seq;
    volume_head_release(&head);
    return seq;
}

static void damage(struct trial *trial, uint64_t seq)
{
    struct world *world = &trial->world;
    AUTO_STR struct str bytes = {0};
    char name[CONTAINER_NAME_MAX];
    struct err err = {0};
    volume_log_name(seq, name);
    if (object_get(world->side, name, &bytes, NULL, &err) != ERR_OK) {
        return;
    }
    switch (below(world, 3)) {
    case 0:
        bytes.text[below(world, bytes.size)] ^= (char)(1 << below(world, 8));
        break;
    case 1:
        bytes.size = (size_t)below(world, bytes.size);
        break;
    default:
        volume_log_name(seq > 1 ? seq - 1 : seq + 1, name); /* another's in its place */
        str_clear(&bytes);
        if (object_get(world->side, name, &bytes, NULL, &err) != ERR_OK) {
            str_add(&bytes, "nothing");
        }
        volume_log_name(seq, name);
    }
    EXPECT(world, object_put(world->side, name, str_text(&bytes), bytes.size, &err) == ERR_OK);
}

static void lose(struct trial *trial, uint64_t seq)
{
    struct err err = {0};
    char name[CONTAINER_NAME_MAX];
    volume_log_name(seq, name);
    EXPECT(&trial->world, object_delete(trial->world.side, name, &err) == ERR_OK);
}

/* False: all is behind the checkpoint, and nothing can be lost. */
static bool break_log(struct trial *trial)
{
    struct world *world = &trial->world;
    uint64_t view = view_seq(trial);
    if (view >= trial->durable) {
        return false;
    }
    trial->gap = view + 1 + below(world, trial->durable - view);
    bool is_last = trial->gap == trial->durable;
    if (is_last || below(world, 2) == 0) {
        damage(trial, trial->gap);
    } else {
        lose(trial, trial->gap);
        for (uint64_t seq = trial->gap + 1; seq < trial->durable; seq++) { /* a last one stays */
            if (below(world, 4) == 0) {
                lose(trial, seq);
            }
        }
    }
    if (!is_last && below(world, 3) == 0) {
        damage(trial, trial->gap + 1 + below(world, trial->durable - trial->gap));
    }
    return true;
}

static void keep_rest(struct trial *trial)
{
    for (uint64_t seq = trial->gap; seq <= trial->durable; seq++) {
        struct kept *kept = &trial->kept[trial->kept_count];
        char name[CONTAINER_NAME_MAX];
        struct err err = {0};
        volume_log_name(seq, name);
        kept->seq = seq;
        if (object_get(trial->world.side, name, &kept->bytes, NULL, &err) == ERR_OK) {
            struct logobj_header header = {0};
            kept->is_fence = logobj_read(str_text(&kept->bytes), kept->bytes.size, NULL, &header,
                                         NULL, NULL, &err) == ERR_OK &&
                             header.seq == seq && (header.flags & LOGOBJ_FENCE) != 0;
            trial->kept_count++;
        }
    }
}

/* After. --------------------------------------------------------------------------------------- */

/* The commit before the gap, or a state on the way to it: some commits happened between steps. */
static bool is_before_gap(struct trial *trial, struct volume *volume, struct err *why)
{
    struct world *world = &trial->world;
    uint64_t seq = trial->gap - 1;
    uint64_t low = seq;
    uint64_t high = seq;
    while (low > 0 && trial->states[low] == 0) {
        low--;
    }
    while (high < trial->durable && trial->states[high] == 0) {
        high++;
    }
    for (size_t i = trial->states[high] + 1; i > trial->states[low]; i--) {
        struct state shown = state_shown(&world->history.states[i - 1]);
        if (world_matches(world, volume, &shown, why)) {
            world->history.count = i; /* time goes on from there */
            world->history.states[i - 1] = shown;
            return true;
        }
    }
    return false;
}

/* Whoever reads now sees that, or is told that the log is not whole. */
static void check_reader(struct trial *trial, struct mortal *mortal)
{
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct volume *reader = NULL;
    struct err err = {0};
    struct err why = {0};
    options.role = VOLUME_READER;
    bool was_done = trial->is_done;
    struct object_store *store = mortal_open(object_memory_open(world->shelf), mortal);
    enum err_code code = volume_open(store, &options, &reader, &err);
    mortal->is_spared = true;
    if (code != ERR_OK) {
        world_tell(world, "reader: %s\n", err.text);
        EXPECT(world, code == ERR_CORRUPT || (code == ERR_AGAIN && mortal->has_napped));
        EXPECT(world, !was_done);
        EXPECT(world, strncmp(err.text, "log/", 4) == 0);
        object_close(store);
        return;
    }
    if (!is_before_gap(trial, reader, &why)) {
        fprintf(stderr, "seed %" PRIu64 ": reader: %s\n", world->seed, why.text);
        abort();
    }
    volume_abandon(reader);
}

static void repair_once(struct trial *trial, enum fate fate)
{
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct mortal mortal = {.world = world, .fate = fate};
    struct err err = {0};
    mortal.calls_left = 1 + (int64_t)below(world, 30 + 4 * (trial->durable - trial->gap));
    struct object_store *store = world_open_store(world, &mortal);
    struct volume_repair_report report = {0};
    enum err_code code = volume_repair(store, &options, &report, &err);
    world_tell(world, "repair: %s\n", code == ERR_OK ? "done" : err.text);
    EXPECT(world, code == ERR_OK || mortal.is_dead);
    object_close(store);
    if (code == ERR_OK) {
        trial->is_done = true;
        trial->report = report;
        trial->was_cut_short = report.log == VOLUME_LOG_WHOLE;
    }
}

static void repair(struct trial *trial)
{
    struct world *world = &trial->world;
    for (int i = 0; i < DEATHS_MAX && !trial->is_done; i++) {
        repair_once(trial, below(world, 2) == 0 ? FATE_DIE : FATE_DIE_AFTER);
        struct mortal spared = {.world = world, .is_spared = true};
        check_reader(trial, &spared);
    }
    if (!trial->is_done) {
        repair_once(trial, FATE_LIVE);
    }
    EXPECT(world, trial->is_done);
}

static void nap(struct world *world)
{
    repair((struct trial *)world); /* its first member */
}

/* Each object that was behind the gap lies below lost/ as it was. */
struct lost {
    struct trial *trial;
    const struct kept *kept;
    struct str keys;
    bool found;
};

static bool see_lost(void *context, const struct object_item *item)
{
    struct lost *lost = context;
    char end[CONTAINER_NAME_MAX];
    volume_log_name(lost->kept->seq, end);
    const char *at = strstr(item->key, "/log/");
    if (at != NULL && strcmp(at + 1, end) == 0) {
        AUTO_STR struct str bytes = {0};
        struct err err = {0};
        struct world *world = &lost->trial->world;
        EXPECT(world, object_get(world->side, item->key, &bytes, NULL, &err) == ERR_OK);
        lost->found = bytes.size == lost->kept->bytes.size &&
                      memcmp(str_text(&bytes), str_text(&lost->kept->bytes), bytes.size) == 0;
    }
    return !lost->found;
}

static bool gather_key(void *context, const struct object_item *item)
{
    str_add_bytes(context, item->key, strlen(item->key) + 1);
    return true;
}

static void check_lost(struct trial *trial)
{
    struct world *world = &trial->world;
    struct err err = {0};
    for (size_t i = 0; i < trial->kept_count; i++) {
        struct lost lost = {.trial = trial, .kept = &trial->kept[i]};
        AUTO_STR struct str there = {0};
        char name[CONTAINER_NAME_MAX];
        EXPECT(world, object_each(world->side, "lost/", see_lost, &lost, &err) == ERR_OK);
        EXPECT(world, lost.found);
        volume_log_name(trial->kept[i].seq, name);
        enum err_code code = object_get(world->side, name, &there, NULL, &err);
        bool same = code == ERR_OK && there.size == trial->kept[i].bytes.size &&
                    memcmp(str_text(&there), str_text(&trial->kept[i].bytes), there.size) == 0;
        EXPECT(world, !trial->kept[i].is_fence || same);
    }
    AUTO_STR struct str keys = {0}; /* as a user would, in the end */
    EXPECT(world, object_each(world->side, "lost/", gather_key, &keys, &err) == ERR_OK);
    for (const char *key = keys.text; key && key < keys.text + keys.size; key += strlen(key) + 1) {
        EXPECT(world, object_delete(world->side, key, &err) == ERR_OK);
    }
}

/* Owners that have slept all the while wake up and try to store something. Where a repair died
 * between head and its fence in the gap, one whose own fence was lost may: that changes nothing. */
static void wake_sleepers(struct trial *trial)
{
    for (size_t i = 0; i < trial->life_count; i++) {
        struct life *life = &trial->lives[i];
        struct err err = {0};
        life->generation = UINT64_MAX; /* the model is not theirs any more */
        for (int j = 0; j < 3; j++) {
            uint64_t durable = volume_seq_durable(life->volume);
            bool written = life_write(life);
            enum err_code code = volume_sync(life->volume, &err);
            world_tell(&trial->world, "sleeper %zu: %d %s\n", i, written, err.text);
            bool is_held_off = code == ERR_STALE && volume_seq_durable(life->volume) == durable;
            EXPECT(&trial->world, is_held_off || trial->was_cut_short);
        }
        volume_abandon(life->volume);
        life->volume = NULL;
    }
}

static void check_snap(struct trial *trial)
{
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct volume *reader = NULL;
    struct err err = {0};
    options.role = VOLUME_READER;
    options.snapshot = "snap";
    if (trial->has_snap) {
        struct object_store *store = object_memory_open(world->shelf);
        EXPECT(world, volume_open(store, &options, &reader, &err) == ERR_OK);
        world_check(world, reader, &trial->snap, "snapshot");
        EXPECT(world, volume_close(reader, &err) == ERR_OK);
    }
}

/* The volume lives on: it is as it was, takes changes, and gc leaves nothing of what was cut. */
static void live_on(struct trial *trial)
{
    struct world *world = &trial->world;
    struct life life;
    struct err err = {0};
    open_life(trial, &life);
    if (!is_before_gap(trial, life.volume, &err)) {
        fprintf(stderr, "seed %" PRIu64 ": after: %s\n", world->seed, err.text);
        abort();
    }
    EXPECT(world, volume_seq_durable(life.volume) > trial->durable);
    EXPECT(world, life_find_folders(&life));
    for (int i = 0; i < 5; i++) {
        EXPECT(world, life_write(&life));
    }
    EXPECT(world, volume_sync(life.volume, &err) == ERR_OK);
    struct state shown = state_shown(world_now_state(world));
    EXPECT(world, volume_close(life.volume, &err) == ERR_OK);
    *world_step(world) = shown;
    world->now_ms += 3600000;
    open_life(trial, &life);
    world_check(world, life.volume, &shown, "the next owner");
    (void)life_check_leftovers(&life);
    world_check(world, life.volume, &shown, "after gc");
    for (size_t i = 0; i < trial->kept_count; i++) {
        AUTO_STR struct str there = {0};
        char name[CONTAINER_NAME_MAX];
        volume_log_name(trial->kept[i].seq, name);
        EXPECT(world, !trial->kept[i].is_fence ||
                          object_get(world->side, name, &there, NULL, &err) == ERR_OK);
    }
    EXPECT(world, volume_close(life.volume, &err) == ERR_OK);
    check_snap(trial);
}

static void check_look(struct trial *trial)
{
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct volume_repair_report report = {0};
    struct object_stats before;
    struct object_stats after;
    struct err err = {0};
    struct object_store *store = object_memory_open(world->shelf);
    object_stats(store, &before);
    EXPECT(world, volume_repair_look(store, &options, &report, &err) == ERR_OK);
    object_stats(store, &after);
    EXPECT(world, after.puts == before.puts);
    EXPECT(world, after.deletes == before.deletes);
    object_close(store);
    if (trial->is_done || trial->gap == 0) {
        EXPECT(world, report.log == VOLUME_LOG_WHOLE);
        return;
    }
    EXPECT(world, report.log != VOLUME_LOG_WHOLE);
    EXPECT(world, report.seq == trial->gap);
    uint64_t later = 0;
    for (size_t i = 0; i < trial->kept_count; i++) {
        later += trial->kept[i].seq > trial->gap && !trial->kept[i].is_fence;
    }
    EXPECT(world, report.later <= later); /* a damaged fence still says that it is one */
    EXPECT(world, report.later + 1 >= later);
}

static void begin_trial(struct trial *trial, uint64_t seed)
{
    *trial = (struct trial){0};
    world_create(&trial->world, seed);
    struct volume_format format = {.pack_bytes = PACK_BYTES_MIN,
                                   .zstd_level = seed % 3 == 0 ? 3 : 0};
    struct engine_caller caller = {.now_ns = 1};
    struct err err = {0};
    struct world *world = &trial->world;
    EXPECT(world, volume_format_write(world->side, &format, &caller, &err) == ERR_OK);
    struct life first; /* makes the folders that every state has */
    open_life(trial, &first);
    EXPECT(world, life_find_folders(&first));
    EXPECT(world, volume_checkpoint(first.volume, &err) == ERR_OK);
    EXPECT(world, volume_close(first.volume, &err) == ERR_OK);
}

static void end_trial(struct trial *trial)
{
    for (size_t i = 0; i < trial->life_count; i++) {
        volume_abandon(trial->lives[i].volume);
    }
    for (size_t i = 0; i < trial->kept_count; i++) {
        str_release(&trial->kept[i].bytes);
    }
    world_destroy(&trial->world);
}

static void run_seed(struct trial *trial, uint64_t seed)
{
    begin_trial(trial, seed);
    struct world *world = &trial->world;
    live(trial);
    if (break_log(trial)) {
        keep_rest(trial);
        check_look(trial);
        struct mortal reader = {.world = world, .fate = FATE_NAP, .nap = nap};
        reader.calls_left = 1 + (int64_t)below(world, 12);
        check_reader(trial, &reader);
        if (!trial->is_done) { /* it was not slow enough */
            repair(trial);
        }
        check_look(trial);
        check_lost(trial);
        bool sleeps_long = below(world, 2) == 0;
        if (!sleeps_long) {
            wake_sleepers(trial);
        }
        live_on(trial);
        if (sleeps_long) {
            wake_sleepers(trial);
        }
    } else {
        check_look(trial);
    }
    end_trial(trial);
}

static void test_a_repair_that_dies_anywhere_goes_back_to_the_commit_before_the_gap(void **state)
{
    (void)state;
    const char *one = getenv("SEED");
    const char *many = getenv("SEEDS");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    uint64_t count = one ? 1 : many ? strtoull(many, NULL, 10) : SEEDS_DEFAULT;
    int64_t from_ms = clock_mono_ms();
    struct trial *trial = mem_alloc(sizeof *trial);
    for (uint64_t seed = first; seed < first + count; seed++) {
        run_seed(trial, seed);
    }
    free(trial);
    print_message("seeds %" PRIu64 " to %" PRIu64 ": %lld ms\n", first, first + count - 1,
                  (long long)(clock_mono_ms() - from_ms));
}

static void test_a_volume_that_another_owns_is_not_repaired(void **state)
{
    (void)state;
    struct trial *trial = mem_alloc(sizeof *trial);
    begin_trial(trial, 7);
    struct world *world = &trial->world;
    begin_life(trial);
    for (int i = 0; i < 3; i++) {
        EXPECT(world, life_write(&trial->lives[0]));
        note_commit(trial, &trial->lives[0]);
    }
    lose(trial, trial->durable - 1);
    trial->gap = trial->durable - 1;
    struct volume_options options = options_of(world);
    struct volume_repair_report report = {0};
    struct object_stats stats;
    struct err err = {0};
    options.take_over = false;
    struct object_store *store = object_memory_open(world->shelf);
    assert_int_equal(volume_repair_look(store, &options, &report, &err), ERR_OK);
    assert_int_equal(report.log, VOLUME_LOG_MISSING);
    assert_int_equal(report.seq, trial->gap);
    assert_int_equal(report.later, 1);
    assert_non_null(strstr(report.owner, "model on "));
    assert_int_equal(volume_repair(store, &options, &report, &err), ERR_DENIED);
    object_stats(store, &stats);
    assert_int_equal(stats.puts + stats.deletes, 0);

    /* It has everything still: a snapshot of its stores it anew. */
    struct life *life = &trial->lives[0];
    assert_int_equal(volume_snapshot(life->volume, "rescue", &err), ERR_OK);
    assert_int_equal(volume_repair_look(store, &options, &report, &err), ERR_OK);
    assert_int_equal(report.log, VOLUME_LOG_WHOLE);
    object_close(store);
    end_trial(trial);
    free(trial);
}

static void test_a_log_object_with_an_absurd_number_is_refused(void **state)
{
    (void)state;
    struct trial *trial = mem_alloc(sizeof *trial);
    begin_trial(trial, 8);
    struct world *world = &trial->world;
    struct volume_options options = options_of(world);
    struct volume_repair_report report = {0};
    struct err err = {0};
    assert_int_equal(object_put(world->side, "log/fffffffffffffff0", "x", 1, &err), ERR_OK);
    assert_int_equal(volume_repair_look(world->side, &options, &report, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.text, "no commit has that number"));
    end_trial(trial);
    free(trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_repair_that_dies_anywhere_goes_back_to_the_commit_before_the_gap),
        cmocka_unit_test(test_a_volume_that_another_owns_is_not_repaired),
        cmocka_unit_test(test_a_log_object_with_an_absurd_number_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
