/* Opening a volume: who may own it, its checkpoint, the commits since, and the fence. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INDEXES_AT_ONCE = 8, LOGS_AT_ONCE_MAX = 32, TAKES_MAX = 16 };

/* Ownership. ----------------------------------------------------------------------------------- */

static enum err_code read_head(struct volume *volume, struct volume_head *out, char *etag,
                               struct err *err)
{
    AUTO_STR struct str bytes = {0};
    enum err_code code = object_get(volume->store, "head", &bytes, etag, err);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, ERR_CORRUPT, "head: missing: the volume was not made to its end");
    }
    return code != ERR_OK ? code : volume_head_decode(str_text(&bytes), bytes.size, out, err);
}

static enum err_code may_own(const struct volume_head *head, const struct volume_options *options,
                             struct err *err)
{
    if (!head->owned || options->take_over || volume_owner_is_gone(&head->owner, options->locks)) {
        return ERR_OK;
    }
    AUTO_STR struct str since = {0};
    clock_add_rfc3339(&since, head->owner.since_unix_ms);
    return err_set(err, ERR_DENIED, "the volume has an owner: %s on %s (pid %" PRId64 ") since %s",
                   head->owner.who, head->owner.host, head->owner.pid, str_text(&since));
}

/* Writes head with the next term and ourselves as its owner. ERR_AGAIN: the owner that we take it
 * from has written it meanwhile. */
static enum err_code take_head(struct volume *volume, const struct volume_options *options,
                               struct err *err)
{
    struct volume_headkeeper *head = &volume->head;
    uint32_t old_term = head->now.term++;
    head->now.change++;
    head->now.owned = true;
    volume_owner_self(&head->now.owner, options->owner, volume_now_unix_ms(volume));
    volume_lock_take(&volume->lock, options->locks, &head->now.owner);
    str_clear(&head->bytes);
    volume_head_encode(&head->now, &head->bytes);
    enum err_code code = object_put_if_match(volume->store, "head", head->bytes.text,
                                             head->bytes.size, head->etag, err);
    if (code != ERR_STALE) {
        return code;
    }
    AUTO_STR struct str there = {0}; /* perhaps our own, after a lost reply */
    code = object_get(volume->store, "head", &there, head->etag, err);
    if (code != ERR_OK ||
        (there.size == head->bytes.size && memcmp(there.text, head->bytes.text, there.size) == 0)) {
        return code;
    }
    struct volume_head other = {0};
    code = volume_head_decode(str_text(&there), there.size, &other, err);
    if (code == ERR_OK) {
        code = other.term == old_term ? ERR_AGAIN : ERR_STALE;
        (void)err_set(err, code, "head: another took the volume at the same time");
    }
    volume_head_release(&other);
    return code;
}

static enum err_code own(struct volume *volume, const struct volume_options *options,
                         struct err *err)
{
    struct volume_headkeeper *head = &volume->head;
    struct volume_owner last = {0};
    enum err_code code = ERR_AGAIN;
    for (int tries = 0; code == ERR_AGAIN && tries < TAKES_MAX; tries++) {
        volume_head_release(&head->now);
        code = read_head(volume, &head->now, head->etag, err);
        if (code == ERR_OK) {
            code = may_own(&head->now, options, err);
        }
        if (code == ERR_OK) {
            last = head->now.owner;
            code = take_head(volume, options, err);
        }
    }
    if (code == ERR_OK) {
        head->stored_change = head->now.change;
        volume_view_copy(&head->now.view, &head->stored);
        if (options->locks != NULL) {
            volume_lock_remove(options->locks, &last);
        }
    }
    return code;
}

/* The runs of a view. -------------------------------------------------------------------------- */

/* Starts all calls, then waits until each has ended. */
struct batch {
    struct object_call *calls;
    size_t count, ended;
};

static void batch_ended(struct object_call *call)
{
    ((struct batch *)call->context)->ended++;
}

static void batch_run(struct object_store *store, struct batch *batch)
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

static enum err_code add_runs(struct volume *volume, const struct map_run *runs, size_t count,
                              struct err *err)
{
    char names[INDEXES_AT_ONCE][CONTAINER_NAME_MAX];
    struct object_call calls[INDEXES_AT_ONCE] = {0};
    struct batch batch = {.calls = calls, .count = count};
    for (size_t i = 0; i < count; i++) {
        container_name(&runs[i].container, names[i]);
        calls[i] = (struct object_call){
            .verb = OBJECT_GET, .key = names[i], .offset = runs[i].index_offset};
    }
    batch_run(volume->store, &batch);
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        if (code == ERR_OK && calls[i].code != ERR_OK) {
            bool is_gone = calls[i].code == ERR_NOT_FOUND || calls[i].code == ERR_RANGE;
            code = err_set(err, is_gone ? ERR_CORRUPT : calls[i].code, "%s", calls[i].err.text);
        } else if (code == ERR_OK) {
            code = map_add_run(volume->map, &runs[i], calls[i].body.text, calls[i].body.size, err);
        }
        object_call_release(&calls[i]);
    }
    return code;
}

static enum err_code load_view(struct volume *volume, const struct volume_view *view,
                               struct err *err)
{
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < view->run_count && code == ERR_OK; i += INDEXES_AT_ONCE) {
        size_t left = view->run_count - i;
        size_t count = left < INDEXES_AT_ONCE ? left : INDEXES_AT_ONCE;
        code = add_runs(volume, view->runs + i, count, err);
    }
    return code;
}

/* The commits since. --------------------------------------------------------------------------- */

static void apply_change(void *context, const struct logobj_change *change)
{
    struct map *map = context;
    if (change->value == NULL) {
        map_delete(map, change->key, change->key_size);
    } else {
        map_put(map, change->key, change->key_size, change->value, change->value_size);
    }
}

static enum err_code apply_log(struct volume *volume, const struct str *bytes, struct err *err)
{
    struct logobj_header expect = {.seq = volume->commit.next};
    struct logobj_header header;
    memcpy(expect.uuid, volume->format.uuid, sizeof expect.uuid);
    enum err_code code =
        logobj_read(str_text(bytes), bytes->size, &expect, &header, apply_change, volume->map, err);
    if (code != ERR_OK) {
        return code;
    }
    if (volume->role == VOLUME_OWNER && header.term >= volume->head.now.term) {
        return err_set(err, ERR_STALE, "log/%016" PRIx64 ": the volume was taken over meanwhile",
                       volume->commit.next);
    }
    volume->commit.next++;
    return ERR_OK;
}

/* Up to `count` log objects from the next one on; *missing: the first that is not there was met. */
static enum err_code replay_some(struct volume *volume, size_t count, bool *missing,
                                 struct err *err)
{
    char names[LOGS_AT_ONCE_MAX][CONTAINER_NAME_MAX];
    struct object_call calls[LOGS_AT_ONCE_MAX];
    struct batch batch = {.calls = calls, .count = count};
    for (size_t i = 0; i < count; i++) {
        struct container container = {.kind = CONTAINER_LOG, .number = volume->commit.next + i};
        container_name(&container, names[i]);
        calls[i] = (struct object_call){.verb = OBJECT_GET, .key = names[i]};
    }
    batch_run(volume->store, &batch);
    enum err_code code = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        *missing = *missing || calls[i].code == ERR_NOT_FOUND;
        if (code == ERR_OK && !*missing) {
            code = calls[i].code == ERR_OK ? apply_log(volume, &calls[i].body, err)
                                           : err_set(err, calls[i].code, "%s", calls[i].err.text);
        }
        object_call_release(&calls[i]);
    }
    return code;
}

/* Had another taken the volume over before our fence was stored, it might also have checkpointed
 * and deleted log objects, and what we took for the end of the log would have been a gap. Then head
 * is no longer ours; and if it still is, whoever comes next finds our fence. */
static enum err_code confirm(struct volume *volume, struct err *err)
{
    const struct str *ours = &volume->head.bytes;
    AUTO_STR struct str there = {0};
    enum err_code code = object_get(volume->store, "head", &there, NULL, err);
    if (code == ERR_OK &&
        (there.size != ours->size || memcmp(there.text, ours->text, ours->size) != 0)) {
        code = err_set(err, ERR_STALE, "head: another took the volume at the same time");
    }
    return code;
}

/* A commit is stored after all before it. So one that is missing is the end of the log; if later
 * ones are there, the store has lost it, and going on would lose those too. */
static enum err_code check_end(struct volume *volume, struct err *err)
{
    struct container end = {.kind = CONTAINER_LOG, .number = volume->commit.next};
    struct container later;
    char name[CONTAINER_NAME_MAX];
    container_name(&end, name);
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
    code = volume->role == VOLUME_OWNER ? confirm(volume, err) : ERR_OK;
    return code != ERR_OK ? code
                          : err_set(err, ERR_CORRUPT,
                                    "%s: missing, though later commits are there: the store has "
                                    "lost it",
                                    name);
}

static enum err_code replay(struct volume *volume, struct err *err)
{
    enum err_code code = ERR_OK;
    bool missing = false;
    size_t count = 2;
    while (code == ERR_OK && !missing) {
        code = replay_some(volume, count, &missing, err);
        count = count < LOGS_AT_ONCE_MAX ? count * 2 : LOGS_AT_ONCE_MAX;
    }
    return code == ERR_OK ? check_end(volume, err) : code;
}

/* The fence is noted in the map too, under 'F' and its seq, so that gc knows it without reading
 * every log object. */
void volume_fence_key(uint64_t seq, uint8_t out[VOLUME_FENCE_KEY_BYTES])
{
    out[0] = 'F';
    for (size_t i = 0; i < 8; i++) {
        out[1 + i] = (uint8_t)(seq >> (56 - 8 * i));
    }
}

static void write_fence(struct volume *volume, struct str *out)
{
    static const uint8_t value[1] = {1};
    uint8_t key[VOLUME_FENCE_KEY_BYTES];
    volume_fence_key(volume->commit.next, key);
    struct logobj_change change = {key, sizeof key, value, sizeof value};
    struct logobj_header header = {
        .seq = volume->commit.next, .term = volume->head.now.term, .flags = LOGOBJ_FENCE};
    memcpy(header.uuid, volume->format.uuid, sizeof header.uuid);
    struct str none = {0};
    str_clear(out);
    logobj_write(&header, &none, &change, 1, out);
}

/* One attempt at the next seq. *fenced: it is ours; else a commit of the old owner was there and
 * has been replayed. */
static enum err_code fence_once(struct volume *volume, bool *fenced, struct err *err)
{
    struct container container = {.kind = CONTAINER_LOG, .number = volume->commit.next};
    char name[CONTAINER_NAME_MAX];
    AUTO_STR struct str ours = {0};
    AUTO_STR struct str there = {0};
    container_name(&container, name);
    write_fence(volume, &ours);
    enum err_code code = object_put_if_absent(volume->store, name, ours.text, ours.size, err);
    *fenced = code == ERR_OK;
    if (code != ERR_EXISTS) {
        return code;
    }
    code = object_get(volume->store, name, &there, NULL, err);
    if (code != ERR_OK) {
        return code;
    }
    *fenced = there.size == ours.size && memcmp(there.text, ours.text, ours.size) == 0;
    return *fenced ? ERR_OK : apply_log(volume, &there, err);
}

static enum err_code fence(struct volume *volume, struct err *err)
{
    bool fenced = false;
    enum err_code code = ERR_OK;
    while (code == ERR_OK && !fenced) {
        code = fence_once(volume, &fenced, err);
    }
    if (code == ERR_OK) {
        uint8_t key[VOLUME_FENCE_KEY_BYTES];
        volume_fence_key(volume->commit.next, key);
        map_put(volume->map, key, sizeof key, "\1", 1);
        volume->commit.next++;
    }
    return code;
}

/* Opening. ------------------------------------------------------------------------------------- */

static enum err_code open_owner(struct volume *volume, const struct volume_options *options,
                                struct err *err)
{
    struct volume_headkeeper *head = &volume->head;
    enum err_code code = own(volume, options, err);
    if (code == ERR_OK) {
        code = load_view(volume, &head->now.view, err);
    }
    volume->commit.next = head->now.view.seq + 1;
    if (code == ERR_OK) {
        code = replay(volume, err);
    }
    if (code == ERR_OK) {
        code = fence(volume, err);
    }
    return code == ERR_OK ? confirm(volume, err) : code;
}

static enum err_code find_view(struct volume *volume, const char *snapshot, struct volume_view *out,
                               struct err *err)
{
    struct volume_head head = {0};
    char etag[OBJECT_ETAG_MAX];
    enum err_code code = read_head(volume, &head, etag, err);
    if (code != ERR_OK) {
        return code;
    }
    if (snapshot == NULL) {
        *out = head.view;
        head.view = (struct volume_view){0};
        volume_head_release(&head);
        return ERR_OK;
    }
    code = err_set(err, ERR_NOT_FOUND,
                   "snapshot %.200s: there is none (drover data snapshot --list VOLUME)", snapshot);
    for (size_t i = 0; i < head.snap_count; i++) {
        char key[VOLUME_SNAP_KEY_MAX];
        AUTO_STR struct str bytes = {0};
        if (strcmp(head.snaps[i].info.name, snapshot) == 0) {
            volume_snap_key(&head.snaps[i], key);
            code = object_get(volume->store, key, &bytes, NULL, err);
            code =
                code != ERR_OK ? code : volume_view_decode(str_text(&bytes), bytes.size, out, err);
        }
    }
    volume_head_release(&head);
    return code;
}

static enum err_code open_reader(struct volume *volume, const struct volume_options *options,
                                 struct err *err)
{
    struct volume_view view = {0};
    enum err_code code = volume_pin_begin(volume, options->owner, err);
    if (code == ERR_OK) {
        code = find_view(volume, options->snapshot, &view, err);
    }
    if (code == ERR_OK) {
        code = load_view(volume, &view, err);
    }
    volume->commit.next = view.seq + 1;
    if (code == ERR_OK && options->snapshot == NULL) {
        code = replay(volume, err);
    }
    view.seq = volume->commit.next - 1;
    if (code == ERR_OK) {
        code = volume_pin_settle(volume, &view, err);
    }
    volume_view_release(&view);
    return code;
}

static enum err_code begin_engine(void *context, struct err *err)
{
    return engine_begin(((struct volume *)context)->engine, err);
}

static struct volume *create(struct object_store *store, const struct volume_options *options)
{
    struct volume *volume = mem_alloc(sizeof *volume);
    volume->store = store;
    volume->role = options->role;
    volume->table_bytes = options->table_bytes ? options->table_bytes : 32u << 20;
    volume->in_flight_bytes = options->in_flight_bytes ? options->in_flight_bytes : 192u << 20;
    volume->now_unix_ms = options->now_unix_ms;
    volume->now_context = options->context;
    volume->rng.state = rng_seed_from_system();
    volume->map = map_create(options->block_cache_bytes ? options->block_cache_bytes : 64u << 20);
    volume->next_run = 1;
    volume_packs_init(&volume->packs);
    return volume;
}

/* The store stays the caller's, with nothing of ours in flight. */
static void give_back(struct volume *volume)
{
    volume_pin_remove(volume);
    volume->gone = true;
    volume_calls_resume(volume, true);
    while (volume->calls > 0) {
        (void)object_run(volume->store, 100);
    }
    volume->store = NULL;
    volume_destroy(volume);
}

enum err_code volume_open(struct object_store *store, const struct volume_options *options,
                          struct volume **out, struct err *err)
{
    struct volume *volume = create(store, options);
    enum err_code code = volume_format_read(store, &volume->format, err);
    if (code == ERR_OK) {
        code = options->role == VOLUME_OWNER ? open_owner(volume, options, err)
                                             : open_reader(volume, options, err);
    }
    if (code == ERR_OK) {
        volume->commit.durable = volume->commit.next - 1;
        volume->engine = engine_create(volume->map);
        engine_set_seq(volume->engine, volume->commit.next);
        code = volume_do(volume, begin_engine, volume, err);
    }
    if (code != ERR_OK) {
        give_back(volume);
        return code;
    }
    *out = volume;
    return ERR_OK;
}
