/* A volume as a whole: driving its machines, waiting, background work, its end. */
#include "volume/volume.h"

#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CLOSE_TABLE_BYTES = 1 << 20, CLOSE_LOGS = 16 }; /* a checkpoint is worth it from here on */

int64_t volume_now_unix_ms(const struct volume *volume)
{
    return volume->now_unix_ms ? volume->now_unix_ms(volume->now_context) : clock_unix_ms();
}

struct engine *volume_engine(struct volume *volume)
{
    return volume->engine;
}

const struct volume_format *volume_format(const struct volume *volume)
{
    return &volume->format;
}

struct object_store *volume_store(struct volume *volume)
{
    return volume->store;
}

int volume_fd(struct volume *volume)
{
    return object_fd(volume->store);
}

uint64_t volume_progress(const struct volume *volume)
{
    return volume->progress;
}

enum err_code volume_trouble(const struct volume *volume, struct err *err)
{
    const struct err *troubles[] = {&volume->failed, &volume->damaged, &volume->away};
    for (size_t i = 0; i < 3; i++) {
        if (troubles[i]->code != ERR_OK) {
            return err_set(err, troubles[i]->code, "%s", troubles[i]->text);
        }
    }
    return ERR_OK;
}

void volume_stats(const struct volume *volume, struct volume_stats *out)
{
    *out = volume->stats;
    object_stats(volume->store, &out->store);
}

uint32_t volume_term(const struct volume *volume)
{
    return volume->head.now.term;
}

void volume_set_writers(struct volume *volume, const struct volume_writer *writers, size_t count)
{
    free(volume->writers);
    volume->writers = count > 0 ? mem_dup(writers, count * sizeof *writers) : NULL;
    volume->writer_count = count;
}

/* Driving. ------------------------------------------------------------------------------------- */

void volume_advance(struct volume *volume)
{
    if (volume->role != VOLUME_OWNER) {
        return;
    }
    volume_commit_advance(volume);
    volume_checkpoint_advance(volume);
    volume_head_advance(volume);
    volume_merge_advance(volume);
    if (volume->compact != NULL) {
        volume_compact_advance(volume);
    }
    if (volume->gc != NULL) {
        volume_gc_advance(volume);
    }
}

/* Waits for the store, no longer than until a call is to be tried again, and goes on. */
static void poll_store(struct volume *volume, int wait_ms)
{
    int64_t due_ms = volume_calls_due(volume);
    if (volume->merger.has_more || volume->checkpoint.state == CHECKPOINT_WRITING) {
        wait_ms = 0;
    } else if (due_ms != INT64_MAX && wait_ms > 0) {
        int64_t left_ms = due_ms - clock_mono_ms();
        left_ms = left_ms > 0 ? left_ms : 0;
        wait_ms = left_ms < wait_ms ? (int)left_ms : wait_ms;
    }
    (void)object_run(volume->store, wait_ms);
    volume_calls_resume(volume, false);
    volume_advance(volume);
}

void volume_run(struct volume *volume, int wait_ms)
{
    volume_calls_resume(volume, false);
    volume_advance(volume);
    poll_store(volume, wait_ms);
}

void volume_wait_once(struct volume *volume)
{
    poll_store(volume, volume->calls > 0 ? 100 : 0);
}

enum err_code volume_wait(struct volume *volume, bool (*done)(struct volume *volume),
                          struct err *err)
{
    volume_advance(volume);
    while (volume_is_well(volume) && !done(volume)) {
        volume_wait_once(volume);
    }
    return volume_is_well(volume) ? ERR_OK : volume_trouble(volume, err);
}

/* Writers that do not ask whether the volume is congested wait here. */
static void make_room(struct volume *volume)
{
    while (volume->role == VOLUME_OWNER && volume->engine != NULL && volume_is_well(volume) &&
           volume_is_congested(volume)) {
        (void)volume_commit(volume);
        volume_wait_once(volume);
    }
}

enum err_code volume_do(struct volume *volume, volume_op_fn op, void *context, struct err *err)
{
    make_room(volume);
    for (;;) {
        uint64_t progress = volume->progress;
        volume->damaged.code = ERR_OK;
        enum err_code code = op(context, err);
        if (code != ERR_AGAIN) {
            return code;
        }
        volume_want(volume);
        while (volume->progress == progress && volume_is_fetching(volume) &&
               volume_is_well(volume)) {
            volume_wait_once(volume);
        }
        if (!volume_is_well(volume) || volume->damaged.code != ERR_OK) {
            return volume_trouble(volume, err);
        }
    }
}

/* Background. ---------------------------------------------------------------------------------- */

static void tick_commits(struct volume *volume, int64_t now_ms)
{
    struct volume_tick_state *tick = &volume->tick;
    if (engine_pending(volume->engine) == 0) {
        tick->pending_since_ms = 0;
        return;
    }
    if (tick->pending_since_ms == 0) {
        tick->pending_since_ms = now_ms;
    }
    bool is_old = now_ms - tick->pending_since_ms >= VOLUME_COMMIT_AGE_MS;
    bool is_much = engine_pending_bytes(volume->engine) >= VOLUME_COMMIT_BYTES;
    if ((is_old || is_much) && !volume->commit.active) {
        volume_commit_begin(volume, false);
        tick->pending_since_ms = 0;
    }
}

static void tick_checkpoints(struct volume *volume)
{
    bool is_large = map_table_bytes(volume->map) >= volume->table_bytes;
    bool is_long = volume->commit.durable - volume->head.now.view.seq >= VOLUME_LOGS_MAX;
    if (is_large || is_long) {
        volume_checkpoint_want(volume);
    }
    if (volume->merger.merge == NULL && map_merge_is_due(volume->map) &&
        clock_mono_ms() >= volume->merger.not_before_mono_ms) {
        (void)volume_merge_begin(volume, false);
    }
}

/* Once nothing has changed for a while: compaction, until it finds nothing more to do; then gc.
 * Where something always changes, both now and then all the same. */
static void tick_tidying(struct volume *volume, int64_t now_ms)
{
    struct volume_tick_state *tick = &volume->tick;
    if (volume->compact != NULL || volume->gc != NULL) {
        tick->seen_seq = volume->commit.next; /* its own changes are nobody's work */
        return;
    }
    if (tick->seen_seq != volume->commit.next || tick->changed_ms == 0) {
        tick->seen_seq = volume->commit.next;
        tick->changed_ms = now_ms;
    }
    tick->tidied_ms = tick->tidied_ms == 0 ? now_ms : tick->tidied_ms;
    bool is_idle = now_ms - tick->changed_ms >= VOLUME_IDLE_MS;
    bool is_late = now_ms - tick->tidied_ms >= VOLUME_BUSY_MS;
    if ((is_idle || is_late) && tick->compact_seq != volume->commit.next) {
        tick->compact_seq = volume->commit.next;
        tick->tidied_ms = now_ms;
        tick->is_gc_owed = true;
        (void)volume_compact_begin(volume, is_idle ? 0 : VOLUME_BUSY_BYTES);
        return;
    }
    bool is_due = tick->gc_seq != volume->commit.durable &&
                  (tick->gc_ms == 0 || now_ms - tick->gc_ms >= VOLUME_GC_MS);
    if ((is_idle || tick->is_gc_owed) && is_due && volume_gc_begin(volume, false)) {
        tick->is_gc_owed = false;
        tick->gc_ms = now_ms;
        tick->gc_seq = volume->commit.durable;
    }
}

void volume_tick(struct volume *volume, int64_t now_mono_ms)
{
    volume->tick.now_mono_ms = now_mono_ms;
    if (volume_is_well(volume) && volume->role == VOLUME_READER) {
        volume_pin_tick(volume);
    } else if (volume_is_well(volume)) {
        tick_commits(volume, now_mono_ms);
        tick_checkpoints(volume);
        tick_tidying(volume, now_mono_ms);
    }
    volume_calls_resume(volume, false);
    volume_advance(volume);
}

/* The end. ------------------------------------------------------------------------------------- */

static void discard_waiting(struct volume *volume)
{
    while (volume->waiting != NULL) {
        struct volume_call *call = volume->waiting;
        volume->waiting = call->next;
        volume_call_discard(call);
    }
}

void volume_destroy(struct volume *volume)
{
    volume->gone = true;
    discard_waiting(volume);
    object_close(volume->store); /* ends the calls in flight */
    CHECK(volume->calls == 0);
    volume_gc_destroy(volume->gc);
    volume_compact_destroy(volume->compact);
    volume_merger_release(&volume->merger);
    volume_packs_release(&volume->packs);
    volume_headkeeper_release(&volume->head);
    volume_view_release(&volume->pinner.pin.view);
    str_release(&volume->pinner.bytes);
    str_release(&volume->snapshotter.bytes);
    str_release(&volume->checkpoint.object);
    str_release(&volume->commit.inline_data);
    str_release(&volume->commit.object);
    volume_lock_release(&volume->lock, false);
    free(volume->writers);
    free(volume->placed.items);
    engine_destroy(volume->engine);
    map_destroy(volume->map);
    free(volume);
}

void volume_abandon(struct volume *volume)
{
    if (volume != NULL) {
        volume_destroy(volume);
    }
}

static bool head_is_stored(struct volume *volume)
{
    return !volume->head.dirty && !volume->head.writing;
}

enum err_code volume_leave(struct volume *volume, struct err *err)
{
    enum err_code code = volume_sync(volume, err);
    bool worth_it = map_table_bytes(volume->map) >= CLOSE_TABLE_BYTES ||
                    volume->commit.durable - volume->head.now.view.seq >= CLOSE_LOGS;
    if (code == ERR_OK && worth_it) {
        code = volume_checkpoint(volume, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    volume->head.now.owned = false;
    (void)volume_head_touch(volume);
    return volume_wait(volume, head_is_stored, err);
}

enum err_code volume_close(struct volume *volume, struct err *err)
{
    if (volume == NULL) {
        return ERR_OK;
    }
    enum err_code code = ERR_OK;
    if (volume->role == VOLUME_OWNER) {
        code = volume_leave(volume, err);
        volume_lock_release(&volume->lock, code == ERR_OK);
    } else {
        volume_pin_remove(volume);
    }
    volume_destroy(volume);
    return code;
}
