/* Collecting garbage: asks who holds what, judges (volume_gc.h), deletes. */
#include "volume/volume_gc.h"

#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

enum gc_state {
    GC_PIN_LIST,
    GC_PINS,
    GC_SNAPS,
    GC_RECORDS,
    GC_FENCES,
    GC_LISTS,
    GC_DELETES,
    GC_DONE,
};

struct gc_doomed {
    char *key;
    uint64_t size;
    bool has_record;
    struct container container;
};

struct volume_gc {
    enum gc_state state;
    bool dry_run;
    struct volume_order *order; /* which waits for its end; or NULL */
    bool asking;                /* a call is in flight */
    uint64_t asked_at;          /* progress, when a block was last missing */
    bool missing_block;
    int64_t began_unix_ms;
    struct gc_facts facts;
    struct volume_writer *writers;
    struct volume_snap *snaps; /* a copy: head may change meanwhile */
    char **pins;
    size_t pin_count, pin_cap;
    size_t index; /* of the pin, snapshot, list or doomed object that is next */
    char *after;  /* of the listing */
    uint8_t fence_from[VOLUME_FENCE_KEY_BYTES + 1];
    bool fence_seen;
    struct gc_doomed *doomed;
    size_t doomed_count, doomed_cap;
    const char *keys[OBJECT_DELETE_MAX];
    struct volume_gc_report report;
    struct err err;
};

static const char *const PREFIXES[] = {"packs/", "log/", "runs/", "snap/"};
enum { PREFIX_COUNT = 4 };

void volume_gc_destroy(struct volume_gc *gc)
{
    if (gc == NULL) {
        return;
    }
    for (size_t i = 0; i < gc->pin_count; i++) {
        free(gc->pins[i]);
    }
    for (size_t i = 0; i < gc->doomed_count; i++) {
        free(gc->doomed[i].key);
    }
    free(gc->pins);
    free(gc->doomed);
    free(gc->snaps);
    free(gc->after);
    gc_facts_release(&gc->facts);
    free(gc->writers);
    free(gc);
}

bool volume_gc_begin(struct volume *volume, bool dry_run)
{
    enum checkpoint_state checkpoint = volume->checkpoint.state;
    bool is_quiet = volume->merger.merge == NULL && !volume->merger.storing &&
                    checkpoint <= CHECKPOINT_FROZEN && !volume->head.dirty && !volume->head.writing;
    if (volume->gc != NULL || volume->compact != NULL || volume->snapshotter.active || !is_quiet ||
        !volume_is_well(volume)) {
        return false;
    }
    const struct volume_head *head = &volume->head.now;
    struct volume_gc *gc = mem_alloc(sizeof *gc);
    gc->dry_run = dry_run;
    gc->began_unix_ms = volume_now_unix_ms(volume);
    gc->snaps = mem_dup(head->snaps, head->snap_count * sizeof head->snaps[0]);
    gc->writers = mem_dup(volume->writers, volume->writer_count * sizeof volume->writers[0]);
    gc->facts = (struct gc_facts){
        .term = head->term,
        .durable = volume->commit.durable,
        .view_seq = volume->head.stored.seq,
        .run_floor = volume->next_run,
        .snaps = gc->snaps,
        .writers = gc->writers,
        .writer_count = volume->writer_count,
        .snap_count = head->snap_count,
    };
    gc_facts_hold(&gc->facts, &volume->head.stored, false);
    gc_facts_hold(&gc->facts, &head->view, false);
    volume->gc = gc;
    return true;
}

/* An end before anything is deleted: somebody may hold what we do not know of. */
static void stop(struct volume *volume, const struct err *err)
{
    if (err != NULL) {
        volume->gc->err = *err;
    }
    volume->gc->state = GC_DONE;
    volume->progress++;
}

static struct volume_call *ask(struct volume *volume, enum object_verb verb, const char *key,
                               void (*then)(struct volume_call *call))
{
    volume->gc->asking = true;
    return volume_call_create(volume, verb, key, then);
}

/* Pins. ---------------------------------------------------------------------------------------- */

static void keep_after(struct volume_gc *gc, const struct object_call *call)
{
    free(gc->after);
    gc->after = NULL;
    if (call->more && call->page_count > 0) {
        gc->after = mem_strdup(call->page[call->page_count - 1].key);
    }
}

static void pins_listed(struct volume_call *call)
{
    struct volume_gc *gc = call->volume->gc;
    for (size_t i = 0; i < call->call.page_count; i++) {
        VEC_PUSH(gc->pins, gc->pin_count, gc->pin_cap) = mem_strdup(call->call.page[i].key);
    }
    keep_after(gc, &call->call);
    gc->asking = false;
    if (gc->after == NULL) {
        gc->state = GC_PINS;
        gc->index = 0;
    }
}

static void doom(struct volume_gc *gc, const char *key, uint64_t size)
{
    VEC_PUSH(gc->doomed, gc->doomed_count, gc->doomed_cap) =
        (struct gc_doomed){.key = mem_strdup(key), .size = size};
}

static void pin_read(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_gc *gc = volume->gc;
    gc->asking = false;
    gc->index++;
    if (call->call.code == ERR_NOT_FOUND) { /* its reader has just left */
        return;
    }
    struct volume_pin pin = {0};
    struct err err = call->call.err;
    enum err_code code = call->call.code;
    if (code == ERR_OK) {
        code = volume_pin_decode(str_text(&call->call.body), call->call.body.size, &pin, &err);
    }
    if (code != ERR_OK) {
        stop(volume, &err);
        return;
    }
    /* By the clock before it was read: were we asleep since, it may have been renewed meanwhile. */
    if (gc->began_unix_ms >= pin.expires_unix_ms &&
        gc->began_unix_ms - pin.expires_unix_ms >= VOLUME_PIN_GRACE_MS) {
        doom(gc, call->key, call->call.body.size);
    } else if (!pin.precise) { /* it may hold anything: another time */
        stop(volume, NULL);
    } else {
        gc_facts_hold(&gc->facts, &pin.view, true);
    }
    volume_view_release(&pin.view);
}

static void go_on_pins(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    if (gc->state == GC_PIN_LIST) {
        struct volume_call *call = ask(volume, OBJECT_LIST, "pin/", pins_listed);
        call->call.after = gc->after;
        volume_call_start(call);
    } else if (gc->index < gc->pin_count) {
        volume_call_start(ask(volume, OBJECT_GET, gc->pins[gc->index], pin_read));
    } else {
        gc->state = GC_SNAPS;
        gc->index = 0;
    }
}

/* Snapshots, records and fences. --------------------------------------------------------------- */

static void snap_read(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_gc *gc = volume->gc;
    struct volume_view view = {0};
    struct err err = call->call.err;
    enum err_code code = call->call.code;
    gc->asking = false;
    gc->index++;
    if (code == ERR_OK) {
        code = volume_view_decode(str_text(&call->call.body), call->call.body.size, &view, &err);
    }
    if (code != ERR_OK) {
        stop(volume, &err);
        return;
    }
    gc_facts_hold(&gc->facts, &view, true);
    volume_view_release(&view);
}

static void go_on_snaps(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    if (gc->index == gc->facts.snap_count) {
        gc->state = GC_RECORDS;
        return;
    }
    char key[VOLUME_SNAP_KEY_MAX];
    volume_snap_key(&gc->snaps[gc->index], key);
    volume_call_start(ask(volume, OBJECT_GET, key, snap_read));
}

static bool keep_record(void *context, const struct engine_container *record)
{
    struct gc_facts *facts = context;
    VEC_PUSH(facts->records, facts->record_count, facts->record_cap) = *record;
    return true;
}

static bool keep_fence(void *context, struct map_slice key, struct map_slice value)
{
    struct volume_gc *gc = context;
    (void)value;
    if (key.size == VOLUME_FENCE_KEY_BYTES) {
        uint64_t seq = 0;
        for (size_t i = 1; i < key.size; i++) {
            seq = seq << 8 | key.bytes[i];
        }
        VEC_PUSH(gc->facts.fences, gc->facts.fence_count, gc->facts.fence_cap) = seq;
        memcpy(gc->fence_from, key.bytes, key.size); /* and a zero: behind this one */
        gc->fence_seen = true;
    }
    return true;
}

/* False: it needs a block, or failed and the gc has stopped. */
static bool scan_ended(struct volume *volume, enum err_code code, const struct err *err)
{
    struct volume_gc *gc = volume->gc;
    if (code == ERR_AGAIN) {
        volume_want(volume);
        gc->missing_block = true;
        gc->asked_at = volume->progress;
    } else if (code != ERR_OK) {
        stop(volume, err);
    }
    return code == ERR_OK;
}

static void judge_records(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    gc_facts_complete(&gc->facts);
    for (size_t i = 0; i < gc->facts.record_count; i++) {
        const struct engine_container *record = &gc->facts.records[i];
        if (gc_record_is_done(&gc->facts, record) &&
            !volume_is_awaited(&volume->placed, &record->container)) {
            char name[CONTAINER_NAME_MAX];
            container_name(&record->container, name);
            doom(gc, name, record->size);
            gc->doomed[gc->doomed_count - 1].has_record = true;
            gc->doomed[gc->doomed_count - 1].container = record->container;
        } else if (record->container.kind == CONTAINER_PACK) {
            gc->report.packs_kept++;
            gc->report.bytes_kept += record->size;
            gc->report.dead_bytes_kept += record->size - record->live;
        }
    }
}

static void go_on_scans(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    struct err err = {0};
    if (gc->state == GC_RECORDS) {
        enum err_code code = engine_containers(volume->engine, keep_record, &gc->facts, &err);
        if (scan_ended(volume, code, &err)) {
            gc->state = GC_FENCES;
        }
        return;
    }
    struct map_range range = {.prefix = {(const uint8_t *)"F", 1}};
    if (gc->fence_seen) {
        range.from = (struct map_slice){gc->fence_from, sizeof gc->fence_from};
    }
    enum err_code code = map_scan(volume->map, &range, keep_fence, gc, &err);
    if (scan_ended(volume, code, &err)) {
        judge_records(volume);
        gc->state = GC_LISTS;
        gc->index = 0;
    }
}

/* Orphans, and the end. ------------------------------------------------------------------------ */

static void listed(struct volume_call *call)
{
    struct volume_gc *gc = call->volume->gc;
    for (size_t i = 0; i < call->call.page_count; i++) {
        const struct object_item *item = &call->call.page[i];
        if (gc_key_is_orphan(&gc->facts, item->key)) {
            doom(gc, item->key, item->size);
        }
    }
    keep_after(gc, &call->call);
    gc->asking = false;
    gc->index += gc->after == NULL;
}

static void count_doomed(struct volume_gc *gc)
{
    gc->report.objects = gc->doomed_count;
    for (size_t i = 0; i < gc->doomed_count; i++) {
        gc->report.bytes += gc->doomed[i].size;
    }
}

static void go_on_lists(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    if (gc->index < PREFIX_COUNT) {
        struct volume_call *call = ask(volume, OBJECT_LIST, PREFIXES[gc->index], listed);
        call->call.after = gc->after;
        volume_call_start(call);
        return;
    }
    count_doomed(gc);
    gc->index = 0;
    gc->state = gc->dry_run ? GC_DONE : GC_DELETES;
    volume->progress++;
}

/* The objects are gone, so their records may go too: in this order, since an object without a
 * record would be known to nobody until this term is over. */
static void deleted(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_gc *gc = volume->gc;
    for (size_t i = 0; i < call->call.key_count; i++, gc->index++) {
        const struct gc_doomed *doomed = &gc->doomed[gc->index];
        if (doomed->has_record) {
            engine_container_remove(volume->engine, &doomed->container);
        }
    }
    gc->asking = false;
}

static void go_on_deletes(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    size_t left = gc->doomed_count - gc->index;
    if (left == 0) {
        gc->state = GC_DONE;
        volume->progress++;
        return;
    }
    size_t count = left < OBJECT_DELETE_MAX ? left : OBJECT_DELETE_MAX;
    for (size_t i = 0; i < count; i++) {
        gc->keys[i] = gc->doomed[gc->index + i].key;
    }
    struct volume_call *call = ask(volume, OBJECT_DELETE, "", deleted);
    call->call.keys = gc->keys;
    call->call.key_count = count;
    volume_call_start(call);
}

static void go_on(struct volume *volume)
{
    switch (volume->gc->state) {
    case GC_PIN_LIST:
    case GC_PINS:
        go_on_pins(volume);
        break;
    case GC_SNAPS:
        go_on_snaps(volume);
        break;
    case GC_RECORDS:
    case GC_FENCES:
        go_on_scans(volume);
        break;
    case GC_LISTS:
        go_on_lists(volume);
        break;
    case GC_DELETES:
        go_on_deletes(volume);
        break;
    case GC_DONE:
        break;
    }
}

enum gc_step { GC_NEW, GC_RUNS, GC_ENDED }; /* of an order */

void volume_gc_advance(struct volume *volume)
{
    struct volume_gc *gc = volume->gc;
    while (!gc->asking && gc->state != GC_DONE && volume_is_well(volume)) {
        if (gc->missing_block && volume->damaged.code != ERR_OK) {
            stop(volume, &volume->damaged);
            break;
        }
        if (gc->missing_block && volume->progress == gc->asked_at && volume_is_fetching(volume)) {
            break;
        }
        gc->missing_block = false;
        go_on(volume);
    }
    if (gc->state == GC_DONE) {
        if (gc->order != NULL) {
            gc->order->report = gc->report;
            gc->order->err = gc->err;
            gc->order->step = GC_ENDED;
        }
        volume_gc_destroy(gc);
        volume->gc = NULL;
    }
}

enum err_code volume_gc_step(struct volume_order *order, struct err *err)
{
    struct volume *volume = order->volume;
    if (order->step == GC_NEW) {
        if (!volume_gc_begin(volume, order->dry_run)) {
            return ERR_AGAIN;
        }
        volume->gc->order = order;
        order->step = GC_RUNS;
        volume_advance(volume);
    }
    if (order->step == GC_RUNS) {
        return ERR_AGAIN;
    }
    enum err_code code = order->err.code;
    return code == ERR_OK ? ERR_OK : err_set(err, code, "gc: %s", order->err.text);
}

void volume_gc_let_go(struct volume_order *order)
{
    if (order->step == GC_RUNS) {
        order->volume->gc->order = NULL;
    }
}

enum err_code volume_gc(struct volume *volume, bool dry_run, struct volume_gc_report *report,
                        struct err *err)
{
    struct volume_order order = {.volume = volume, .kind = ORDER_GC, .dry_run = dry_run};
    enum err_code code = volume_order_finish(&order, err);
    if (code == ERR_OK) {
        *report = order.report;
    }
    return code;
}
