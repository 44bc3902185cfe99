/* The commits since the checkpoint: applied to the map one after the other, up to the end of the
 * log or to where it is no longer whole. */
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <string.h>

enum { LOGS_AT_ONCE_MAX = 32 };

static void batch_ended(struct object_call *call)
{
    ((struct volume_batch *)call->context)->ended++;
}

void volume_batch_run(struct object_store *store, struct volume_batch *batch)
{
    batch->ended = 0;
    for (size_t i = 0; i < batch->count; i++) {
        batch->calls[i].done = batch_ended;
        batch->calls[i].context = batch;
        object_start(store, &batch->calls[i]);
    }
    while (batch->ended < batch->count) {
        (void)object_run(store, 1000);
    }
}

void volume_log_name(uint64_t seq, char out[CONTAINER_NAME_MAX])
{
    struct container container = {.kind = CONTAINER_LOG, .number = seq};
    container_name(&container, out);
}

static void apply_change(void *context, const struct logobj_change *change)
{
    struct map *map = context;
    if (change->value == NULL) {
        map_delete(map, change->key, change->key_size);
    } else {
        map_put(map, change->key, change->key_size, change->value, change->value_size);
    }
}

enum err_code volume_log_read(const struct volume *volume, uint64_t seq, const struct str *bytes,
                              struct logobj_header *header, struct err *err)
{
    struct logobj_header expect = {.seq = seq};
    struct err why = {0};
    memcpy(expect.uuid, volume->format.uuid, sizeof expect.uuid);
    enum err_code code =
        logobj_read(str_text(bytes), bytes->size, &expect, header, NULL, NULL, &why);
    return code == ERR_OK ? ERR_OK
                          : err_set(err, code, "log/%016" PRIx64 ": damaged: %s", seq, why.text);
}

/* Terms never go down in a log, since an owner stores nothing behind its successor's fence, and
 * each begins with a fence. Where that is not so, something was lost or has come later. */
static enum err_code check_term(const struct volume *volume, const struct logobj_header *header,
                                struct err *err)
{
    uint32_t last = volume->commit.last_term;
    if (last != 0 &&
        (header->term < last || (header->term > last && (header->flags & LOGOBJ_FENCE) == 0))) {
        return err_set(err, ERR_CORRUPT,
                       "log/%016" PRIx64 ": damaged: it does not follow the one before it",
                       header->seq);
    }
    return ERR_OK;
}

/* Nothing is applied before all of it is known to be sound. */
enum err_code volume_apply_log(struct volume *volume, const struct str *bytes, struct err *err)
{
    struct logobj_header header = {0};
    uint64_t seq = volume->commit.next;
    enum err_code code = volume_log_read(volume, seq, bytes, &header, err);
    if (code != ERR_OK) {
        return code;
    }
    if (volume->role == VOLUME_OWNER && header.term >= volume->head.now.term) {
        return err_set(err, ERR_STALE, "log/%016" PRIx64 ": the volume was taken over meanwhile",
                       seq);
    }
    code = check_term(volume, &header, err);
    if (code != ERR_OK) {
        return code;
    }
    code = logobj_read(str_text(bytes), bytes->size, NULL, NULL, apply_change, volume->map, err);
    CHECK(code == ERR_OK);
    volume->commit.last_term = header.term;
    volume->commit.next++;
    return ERR_OK;
}

/* The next one was damaged as it came: is it so in the store? */
static enum err_code read_again(struct volume *volume, struct volume_gap *gap, struct err *err)
{
    AUTO_STR struct str bytes = {0};
    char name[CONTAINER_NAME_MAX];
    volume_log_name(volume->commit.next, name);
    enum err_code code = object_get(volume->store, name, &bytes, NULL, err);
    if (code != ERR_OK) { /* one that has gone meanwhile says nothing about the volume */
        return code == ERR_NOT_FOUND ? err_set(err, ERR_AGAIN, "%s: gone just now", name) : code;
    }
    code = volume_apply_log(volume, &bytes, &gap->why);
    if (code == ERR_CORRUPT) {
        gap->log = VOLUME_LOG_DAMAGED;
        gap->seq = volume->commit.next;
        return ERR_OK;
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s", gap->why.text);
}

static enum err_code replay_one(struct volume *volume, const struct str *bytes,
                                struct volume_gap *gap, struct err *err)
{
    struct err why = {0};
    enum err_code code = volume_apply_log(volume, bytes, &why);
    if (code == ERR_CORRUPT) {
        return read_again(volume, gap, err);
    }
    return code == ERR_OK ? ERR_OK : err_set(err, code, "%s", why.text);
}

/* Up to `count` log objects from the next one on; *missing: the first that is not there was met. */
static enum err_code replay_some(struct volume *volume, size_t count, bool *missing,
                                 struct volume_gap *gap, struct err *err)
{
    char names[LOGS_AT_ONCE_MAX][CONTAINER_NAME_MAX];
    struct object_call calls[LOGS_AT_ONCE_MAX];
    struct volume_batch batch = {.calls = calls, .count = count};
    for (size_t i = 0; i < count; i++) {
        volume_log_name(volume->commit.next + i, names[i]);
        calls[i] = (struct object_call){.verb = OBJECT_GET, .key = names[i]};
    }
    volume_batch_run(volume->store, &batch);
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        *missing = *missing || calls[i].code == ERR_NOT_FOUND;
        if (code == ERR_OK && !*missing && gap->log == VOLUME_LOG_WHOLE) {
            code = calls[i].code == ERR_OK ? replay_one(volume, &calls[i].body, gap, err)
                                           : err_set(err, calls[i].code, "%s", calls[i].err.text);
        }
        object_call_release(&calls[i]);
    }
    return code;
}

/* A commit is stored after all before it. So one that is missing is the end of the log; if later
 * ones are there, the store has lost it, and going on would lose those too. */
static enum err_code check_end(struct volume *volume, struct volume_gap *gap, struct err *err)
{
    struct container later;
    char name[CONTAINER_NAME_MAX];
    volume_log_name(volume->commit.next, name);
    struct object_call list = {.verb = OBJECT_LIST, .key = "log/", .after = name, .max = 1};
    enum err_code code = object_do(volume->store, &list, err);
    bool has_later =
        code == ERR_OK && list.page_count > 0 && container_parse(list.page[0].key, &later);
    object_call_release(&list);
    if (!has_later) {
        return code;
    }
    AUTO_STR struct str bytes = {0}; /* an owner that we take it from may have gone on since */
    code = object_get(volume->store, name, &bytes, NULL, err);
    if (code != ERR_NOT_FOUND) {
        return code;
    }
    code = volume->role == VOLUME_OWNER ? volume_confirm(volume, err) : ERR_OK;
    if (code == ERR_OK) {
        gap->log = VOLUME_LOG_MISSING;
        gap->seq = volume->commit.next;
        (void)err_set(&gap->why, ERR_CORRUPT,
                      "%s: missing, though later commits are there: the store has lost it", name);
    }
    return code;
}

enum err_code volume_replay(struct volume *volume, struct volume_gap *gap, struct err *err)
{
    enum err_code code = ERR_OK;
    bool missing = false;
    size_t count = 2;
    *gap = (struct volume_gap){.log = VOLUME_LOG_WHOLE};
    while (code == ERR_OK && !missing && gap->log == VOLUME_LOG_WHOLE) {
        code = replay_some(volume, count, &missing, gap, err);
        count = count < LOGS_AT_ONCE_MAX ? count * 2 : LOGS_AT_ONCE_MAX;
    }
    bool is_end = code == ERR_OK && gap->log == VOLUME_LOG_WHOLE;
    return is_end ? check_end(volume, gap, err) : code;
}
