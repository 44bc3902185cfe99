/* Snapshots: a checkpoint's view in an object of its own, and a line in head. */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

static bool head_is_stored(struct volume *volume)
{
    return !volume->head.dirty && !volume->head.writing;
}

static bool view_is_stored(struct volume *volume)
{
    return volume->snapshotter.stored;
}

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
    call->volume->snapshotter.stored = true;
}

static enum err_code store_view(struct volume *volume, const struct volume_snap *snap,
                                struct err *err)
{
    struct volume_snapshotter *snapshotter = &volume->snapshotter;
    char key[VOLUME_SNAP_KEY_MAX];
    str_clear(&snapshotter->bytes);
    volume_view_encode(&volume->head.stored, &snapshotter->bytes);
    volume_snap_key(snap, key);
    snapshotter->stored = false;
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, key, note_stored);
    call->call.data = snapshotter->bytes.text;
    call->call.data_size = snapshotter->bytes.size;
    volume_call_start(call);
    return volume_wait(volume, view_is_stored, err);
}

static enum err_code add_snap(struct volume *volume, const struct volume_snap *snap,
                              struct err *err)
{
    struct volume_head *head = &volume->head.now;
    head->snaps = mem_resize(head->snaps, head->snap_count + 1, sizeof head->snaps[0]);
    head->snaps[head->snap_count++] = *snap;
    (void)volume_head_touch(volume);
    return volume_wait(volume, head_is_stored, err);
}

/* No gc runs until the snapshot is in head, so the runs of the stored view stay. */
static enum err_code make_snapshot(struct volume *volume, const char *name, struct err *err)
{
    enum err_code code = volume_checkpoint(volume, err);
    if (code == ERR_OK) {
        code = volume_wait(volume, head_is_stored, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct volume_snap snap = {
        .info = {.seq = volume->head.stored.seq,
                 .created_unix_ms = volume_now_unix_ms(volume),
                 .files = volume->checkpoint.usage.files,
                 .bytes = volume->checkpoint.usage.bytes},
        .term = volume->head.now.term,
        .number = volume->next_run++,
    };
    memcpy(snap.info.name, name, strlen(name) + 1);
    code = store_view(volume, &snap, err);
    return code == ERR_OK ? add_snap(volume, &snap, err) : code;
}

enum err_code volume_snapshot(struct volume *volume, const char *name, struct err *err)
{
    CHECK(volume->role == VOLUME_OWNER);
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
    volume->snapshotter.active = true;
    enum err_code code = make_snapshot(volume, name, err);
    volume->snapshotter.active = false;
    return code;
}

/* Its object, and what only it held, go with the next gc. */
enum err_code volume_snapshot_delete(struct volume *volume, const char *name, struct err *err)
{
    CHECK(volume->role == VOLUME_OWNER);
    struct volume_head *head = &volume->head.now;
    struct volume_snap *snap = find_snap(head, name);
    if (snap == NULL) {
        return err_set(err, ERR_NOT_FOUND,
                       "snapshot %.200s: there is none (drover data snapshot --list VOLUME)", name);
    }
    size_t behind = (size_t)(head->snaps + head->snap_count - (snap + 1));
    memmove(snap, snap + 1, behind * sizeof *snap);
    head->snap_count--;
    (void)volume_head_touch(volume);
    return volume_wait(volume, head_is_stored, err);
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
