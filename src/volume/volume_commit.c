/* Commits: the pending changes as log/SEQ, one at a time, each the same bytes until it is stored.
 */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What engine_take gives is borrowed: kept in one buffer, as offsets until it stops growing. */
struct gathered {
    struct str bytes;
    struct logobj_change *changes; /* pointers are set at the end */
    size_t count, cap;
};

static void gather(void *context, const struct logobj_change *change)
{
    struct gathered *gathered = context;
    str_add_bytes(&gathered->bytes, change->key, change->key_size);
    if (change->value != NULL) {
        str_add_bytes(&gathered->bytes, change->value, change->value_size);
    }
    VEC_PUSH(gathered->changes, gathered->count, gathered->cap) = *change;
}

static void settle_pointers(struct gathered *gathered)
{
    const uint8_t *at = (const uint8_t *)str_text(&gathered->bytes);
    for (size_t i = 0; i < gathered->count; i++) {
        struct logobj_change *change = &gathered->changes[i];
        change->key = at;
        at += change->key_size;
        if (change->value != NULL) {
            change->value = at;
            at += change->value_size;
        }
    }
}

static void write_object(struct volume *volume)
{
    struct volume_commit *commit = &volume->commit;
    struct gathered gathered = {0};
    engine_take(volume->engine, gather, &gathered);
    settle_pointers(&gathered);
    struct logobj_header header = {.seq = commit->next, .term = volume->head.now.term};
    memcpy(header.uuid, volume->format.uuid, sizeof header.uuid);
    str_clear(&commit->object);
    logobj_write(&header, &commit->inline_data, gathered.changes, gathered.count, &commit->object);
    CHECK(commit->object.size <= LOGOBJ_BYTES_MAX);
    str_release(&gathered.bytes);
    free(gathered.changes);
}

void volume_commit_begin(struct volume *volume, bool even_empty)
{
    struct volume_commit *commit = &volume->commit;
    if (volume->role != VOLUME_OWNER || !volume_is_well(volume) || commit->active) {
        return;
    }
    commit->wanted = false;
    if (engine_pending(volume->engine) == 0 && !even_empty) {
        volume_checkpoint_edge(volume);
        return;
    }
    volume_packs_seal(volume);
    volume_packs_join(volume);
    if (commit->inline_data.size > 0) {
        struct engine_container record = {
            .container = {.kind = CONTAINER_LOG, .number = commit->next},
            .size = LOGOBJ_HEADER_BYTES + commit->inline_data.size,
            .born = commit->next,
        };
        engine_container_add(volume->engine, &record);
    }
    write_object(volume);
    str_clear(&commit->inline_data);
    commit->active = true;
    commit->sent = false;
    commit->pack_mark = volume->packs.next_number - 1;
    commit->next++;
    engine_set_seq(volume->engine, commit->next);
    volume_checkpoint_edge(volume);
    volume_commit_advance(volume);
}

void volume_fenced(struct volume *volume, const char *what)
{
    (void)volume_fail(volume, ERR_STALE,
                      "fenced: %s shows that another owner has taken the volume over", what);
}

static void committed(struct volume *volume)
{
    struct volume_commit *commit = &volume->commit;
    commit->active = false;
    commit->durable = commit->next - 1;
    if (commit->object.cap > 1 << 20) {
        str_release(&commit->object);
    }
    volume->stats.commits++;
    volume->progress++;
    if (commit->wanted) {
        volume_commit_begin(volume, true);
    }
}

/* log/SEQ is there: our own after a lost reply, or another owner's. */
static void read_back(struct volume_call *call)
{
    struct volume *volume = call->volume;
    const struct str *ours = &volume->commit.object;
    const struct str *there = &call->call.body;
    bool same = call->call.code == ERR_OK && there->size == ours->size &&
                memcmp(there->text, ours->text, ours->size) == 0;
    if (same) {
        committed(volume);
    } else {
        volume_fenced(volume, call->key);
    }
}

static void log_stored(struct volume_call *call)
{
    struct volume *volume = call->volume;
    if (call->call.code == ERR_OK) {
        committed(volume);
        return;
    }
    volume_call_start(volume_call_create(volume, OBJECT_GET, call->key, read_back));
}

void volume_commit_advance(struct volume *volume)
{
    struct volume_commit *commit = &volume->commit;
    if (!commit->active || commit->sent || !volume_is_well(volume) ||
        !volume_packs_are_stored(volume, commit->pack_mark)) {
        return;
    }
    volume_packs_forget(volume);
    struct container container = {.kind = CONTAINER_LOG, .number = commit->next - 1};
    char name[CONTAINER_NAME_MAX];
    container_name(&container, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, name, log_stored);
    call->call.data = commit->object.text;
    call->call.data_size = commit->object.size;
    call->call.condition = OBJECT_IF_ABSENT;
    commit->sent = true;
    volume_call_start(call);
}

uint64_t volume_seq_next(const struct volume *volume)
{
    return volume->commit.next;
}

uint64_t volume_seq_durable(const struct volume *volume)
{
    return volume->commit.durable;
}

uint64_t volume_commit(struct volume *volume)
{
    struct volume_commit *commit = &volume->commit;
    CHECK(volume->role == VOLUME_OWNER);
    if (engine_pending(volume->engine) == 0) {
        return commit->next - 1;
    }
    uint64_t seq = commit->next;
    if (commit->active) {
        commit->wanted = true;
    } else {
        volume_commit_begin(volume, false);
    }
    return seq;
}

enum err_code volume_sync(struct volume *volume, struct err *err)
{
    uint64_t seq = volume_commit(volume);
    while (volume_is_well(volume) && volume->commit.durable < seq) {
        volume_wait_once(volume);
    }
    return volume_is_well(volume) ? ERR_OK : volume_trouble(volume, err);
}
