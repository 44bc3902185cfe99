/* Writing head: one write at a time, each if-match on the one before, so that it fails for good
 * once another owner has written it. */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

void volume_view_of_map(const struct map *map, uint64_t seq, struct volume_view *out)
{
    size_t count = map_runs(map, NULL, 0);
    *out = (struct volume_view){.seq = seq, .run_count = count};
    out->runs = mem_array(count, sizeof out->runs[0]);
    (void)map_runs(map, out->runs, count);
}

uint64_t volume_head_touch(struct volume *volume)
{
    struct volume_headkeeper *head = &volume->head;
    uint64_t seq = head->now.view.seq;
    volume_view_release(&head->now.view);
    volume_view_of_map(volume->map, seq, &head->now.view);
    head->dirty = true;
    uint64_t change = head->now.change + 1;
    volume_head_advance(volume);
    return change;
}

void volume_headkeeper_release(struct volume_headkeeper *head)
{
    volume_head_release(&head->now);
    volume_view_release(&head->stored);
    volume_view_release(&head->writing_view);
    str_release(&head->bytes);
}

static void stored(struct volume *volume, const char *etag)
{
    struct volume_headkeeper *head = &volume->head;
    head->writing = false;
    head->stored_change = head->writing_change;
    volume_view_release(&head->stored);
    head->stored = head->writing_view;
    head->writing_view = (struct volume_view){0};
    memcpy(head->etag, etag, sizeof head->etag);
    volume->progress++;
    volume_head_advance(volume);
}

/* Head is not what it was before this write: ours after a lost reply, or another owner's. */
static void read_back(struct volume_call *call)
{
    struct volume *volume = call->volume;
    const struct str *ours = &volume->head.bytes;
    const struct str *there = &call->call.body;
    bool same = call->call.code == ERR_OK && there->size == ours->size &&
                memcmp(there->text, ours->text, ours->size) == 0;
    if (same) {
        stored(volume, call->call.etag);
    } else {
        volume_fenced(volume, call->key);
    }
}

static void head_written(struct volume_call *call)
{
    if (call->call.code == ERR_OK) {
        stored(call->volume, call->call.etag);
        return;
    }
    volume_call_start(volume_call_create(call->volume, OBJECT_GET, call->key, read_back));
}

void volume_head_advance(struct volume *volume)
{
    struct volume_headkeeper *head = &volume->head;
    if (!head->dirty || head->writing || !volume_is_well(volume)) {
        return;
    }
    head->dirty = false;
    head->writing = true;
    head->now.change++;
    head->writing_change = head->now.change;
    volume_view_release(&head->writing_view);
    volume_view_copy(&head->now.view, &head->writing_view);
    str_clear(&head->bytes);
    volume_head_encode(&head->now, &head->bytes);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, "head", head_written);
    call->call.data = head->bytes.text;
    call->call.data_size = head->bytes.size;
    call->call.condition = OBJECT_IF_MATCH;
    memcpy(call->call.match, head->etag, sizeof call->call.match);
    volume_call_start(call);
}
