/* Snapshots: a checkpoint's view in an object of its own, and a line in head. */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct volume_snap *find_snap(struct volume_head *head, const char *name)
{
    for (size_t i = 0; i < head->snap_count; i++) {
        if (strcmp(head->snaps[i].info.name, name) == 0) {
            return &head->snaps[i];
        }
    }
    return NULL;
}

static void note_stored(struct volume_call *call)
{
    call->volume->snapshotter.storing = false;
    call->volume->progress++;
}

static void store_view(struct volume *volume, const struct volume_snap *snap)
{
    struct volume_snapshotter *snapshotter = &volume->snapshotter;
    char key[VOLUME_SNAP_KEY_MAX];
    str_clear(&snapshotter->bytes);
    volume_view_encode(&volume->head.stored, &snapshotter->bytes);
    volume_snap_key(snap, key);
    snapshotter->storing = true;
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, key, note_stored);
    call->call.data = snapshotter->bytes.text;
    call->call.data_size = snapshotter->bytes.size;
    volume_call_start(call);
}

static uint64_t add_snap(struct volume *volume, const struct volume_snap *snap)
{
    struct volume_head *head = &volume->head.now;
    head->snaps = mem_resize(head->snaps, head->snap_count + 1, sizeof head->snaps[0]);
    head->snaps[head->snap_count++] = *snap;
    return volume_head_touch(volume);
}

static enum err_code check_new(struct volume *volume, const char *name, struct err *err)
{
    if (!volume_snapshot_name_is_sound(name)) {
        return err_set(err, ERR_INVALID,
                       "%.200s: a snapshot's name is 1 to 200 of A-Z a-z 0-9 . _ -, not beginning "
                       "with . or -",
                       name);
    }
    if (find_snap(&volume->head.now, name) != NULL) {
        return err_set(err, ERR_EXISTS,
                       "snapshot %s: there is one already (take another name, or --delete it)",
                       name);
    }
    if (volume->head.now.snap_count >= VOLUME_SNAPSHOTS_MAX) {
        return err_set(err, ERR_QUOTA, "snapshot %s: there are %d already", name,
                       VOLUME_SNAPSHOTS_MAX);
    }
    return ERR_OK;
}

static bool is_quiet(const struct volume *volume)
{
    return volume->checkpoint.state == CHECKPOINT_IDLE && !volume->head.dirty &&
           !volume->head.writing;
}

static void fill_snap(struct volume_order *order)
{
    struct volume *volume = order->volume;
    order->snap = (struct volume_snap){
        .info = {.seq = volume->head.stored.seq,
                 .created_unix_ms = volume_now_unix_ms(volume),
                 .files = volume->checkpoint.usage.files,
                 .bytes = volume->checkpoint.usage.bytes},
        .term = volume->head.now.term,
        .number = volume->next_run++,
    };
    memcpy(order->snap.info.name, order->name, strlen(order->name) + 1);
}

enum snapshot_step {
    SNAPSHOT_NEW,
    SNAPSHOT_BEGUN,
    SNAPSHOT_CHECKPOINT,
    SNAPSHOT_VIEW,
    SNAPSHOT_HEAD,
};

/* No gc begins until the snapshot is in head, so the runs of the stored view stay. */
enum err_code volume_snapshot_step(struct volume_order *order, struct err *err)
{
    struct volume *volume = order->volume;
    if (order->step == SNAPSHOT_NEW) {
        enum err_code code = check_new(volume, order->name, err);
        if (code != ERR_OK) {
            return code;
        }
        if (volume->snapshotter.active || volume->snapshotter.storing) {
            return ERR_AGAIN;
        }
        volume->snapshotter.active = true;
        order->step = SNAPSHOT_BEGUN;
    }
    if (order->step == SNAPSHOT_BEGUN && volume->checkpoint.state == CHECKPOINT_IDLE) {
        volume_checkpoint_want(volume); /* one that was under way is too old */
        order->step = SNAPSHOT_CHECKPOINT;
    }
    if (order->step == SNAPSHOT_CHECKPOINT && is_quiet(volume)) {
        fill_snap(order);
        store_view(volume, &order->snap);
        order->step = SNAPSHOT_VIEW;
    }
    if (order->step == SNAPSHOT_VIEW && !volume->snapshotter.storing) {
        order->until = add_snap(volume, &order->snap);
        order->step = SNAPSHOT_HEAD;
    }
    bool is_done = order->step == SNAPSHOT_HEAD && volume->head.stored_change >= order->until;
    return is_done ? ERR_OK : ERR_AGAIN;
}

void volume_snapshot_let_go(struct volume_order *order)
{
    if (order->step != SNAPSHOT_NEW) {
        order->volume->snapshotter.active = false;
        order->volume->progress++; /* others may have waited for that */
    }
}

enum err_code volume_snapshot(struct volume *volume, const char *name, struct err *err)
{
    struct volume_order order = {.volume = volume, .kind = ORDER_SNAPSHOT};
    snprintf(order.name, sizeof order.name, "%s", name);
    return volume_order_finish(&order, err);
}

/* Its object, and what only it held, go with the next gc. */
enum err_code volume_snapshot_delete_step(struct volume_order *order, struct err *err)
{
    struct volume *volume = order->volume;
    if (order->step == 0) {
        struct volume_head *head = &volume->head.now;
        struct volume_snap *snap = find_snap(head, order->name);
        if (snap == NULL) {
            return err_set(err, ERR_NOT_FOUND,
                           "snapshot %.200s: there is none (drover data snapshot --list VOLUME)",
                           order->name);
        }
        size_t behind = (size_t)(head->snaps + head->snap_count - (snap + 1));
        memmove(snap, snap + 1, behind * sizeof *snap);
        head->snap_count--;
        order->until = volume_head_touch(volume);
        order->step = 1;
    }
    return volume->head.stored_change >= order->until ? ERR_OK : ERR_AGAIN;
}

enum err_code volume_snapshot_delete(struct volume *volume, const char *name, struct err *err)
{
    struct volume_order order = {.volume = volume, .kind = ORDER_SNAPSHOT_DELETE};
    snprintf(order.name, sizeof order.name, "%s", name);
    return volume_order_finish(&order, err);
}

enum err_code volume_snapshots(struct object_store *store,
                               bool (*each)(void *context, const struct volume_snapshot_info *info),
                               void *context, struct err *err)
{
    AUTO_STR struct str bytes = {0};
    struct volume_head head = {0};
    enum err_code code = object_get(store, "head", &bytes, NULL, err);
    if (code == ERR_OK) {
        code = volume_head_decode(str_text(&bytes), bytes.size, &head, err);
    }
    for (size_t i = 0; code == ERR_OK && i < head.snap_count; i++) {
        if (!each(context, &head.snaps[i].info)) {
            break;
        }
    }
    volume_head_release(&head);
    return code;
}
