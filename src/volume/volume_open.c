/* Opening a volume: who may own it, its checkpoint, the commits since, and the fence. */
#include "base/clock.h"
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { INDEXES_AT_ONCE = 8, TAKES_MAX = 16 };

/* Ownership. ----------------------------------------------------------------------------------- */

enum err_code volume_read_head(struct volume *volume, struct volume_head *out, char *etag,
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

enum err_code volume_own(struct volume *volume, const struct volume_options *options,
                         struct err *err)
{
    struct volume_headkeeper *head = &volume->head;
    struct volume_owner last = {0};
    enum err_code code = ERR_AGAIN;
    for (int tries = 0; code == ERR_AGAIN && tries < TAKES_MAX; tries++) {
        volume_head_release(&head->now);
        code = volume_read_head(volume, &head->now, head->etag, err);
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

static enum err_code add_runs(struct volume *volume, const struct map_run *runs, size_t count,
                              struct err *err)
{
    char names[INDEXES_AT_ONCE][CONTAINER_NAME_MAX];
    struct object_call calls[INDEXES_AT_ONCE] = {0};
    struct volume_batch batch = {.calls = calls, .count = count};
    for (size_t i = 0; i < count; i++) {
        container_name(&runs[i].container, names[i]);
        calls[i] = (struct object_call){
            .verb = OBJECT_GET, .key = names[i], .offset = runs[i].index_offset};
    }
    volume_batch_run(volume->store, &batch);
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

enum err_code volume_load_view(struct volume *volume, const struct volume_view *view,
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

/* The fence. -------------------------------------------------------------------------------------
 */

/* Had another taken the volume over before our fence was stored, it might also have checkpointed
 * and deleted log objects, and what we took for the end of the log would have been a gap. Then head
 * is no longer ours; and if it still is, whoever comes next finds our fence. */
enum err_code volume_confirm(struct volume *volume, struct err *err)
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

/* The fence is noted in the map too, under 'F' and its seq, so that gc knows it without reading
 * every log object. */
void volume_fence_key(uint64_t seq, uint8_t out[VOLUME_FENCE_KEY_BYTES])
{
    out[0] = 'F';
    for (size_t i = 0; i < 8; i++) {
        out[1 + i] = (uint8_t)(seq >> (56 - 8 * i));
    }
}

void volume_fence_write(const struct volume *volume, uint64_t seq, struct str *out)
{
    static const uint8_t value[1] = {1};
    uint8_t key[VOLUME_FENCE_KEY_BYTES];
    volume_fence_key(seq, key);
    struct logobj_change change = {key, sizeof key, value, sizeof value};
    struct logobj_header header = {
        .seq = seq, .term = volume->head.now.term, .flags = LOGOBJ_FENCE};
    memcpy(header.uuid, volume->format.uuid, sizeof header.uuid);
    struct str none = {0};
    str_clear(out);
    logobj_write(&header, &none, &change, 1, out);
}

/* One attempt at the next seq. *fenced: it is ours; else a commit of the old owner was there and
 * has been replayed. */
static enum err_code fence_once(struct volume *volume, bool *fenced, struct err *err)
{
    char name[CONTAINER_NAME_MAX];
    AUTO_STR struct str ours = {0};
    AUTO_STR struct str there = {0};
    volume_log_name(volume->commit.next, name);
    volume_fence_write(volume, volume->commit.next, &ours);
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
    return *fenced ? ERR_OK : volume_apply_log(volume, &there, err);
}

void volume_fence_note(struct volume *volume, uint64_t seq)
{
    uint8_t key[VOLUME_FENCE_KEY_BYTES];
    volume_fence_key(seq, key);
    map_put(volume->map, key, sizeof key, "\1", 1);
}

enum err_code volume_fence(struct volume *volume, struct err *err)
{
    bool fenced = false;
    enum err_code code = ERR_OK;
    while (code == ERR_OK && !fenced) {
        code = fence_once(volume, &fenced, err);
    }
    if (code == ERR_OK) {
        volume_fence_note(volume, volume->commit.next);
        volume->commit.next++;
    }
    return code;
}

/* Opening. ------------------------------------------------------------------------------------- */

/* All commits since the view, or why not. */
static enum err_code replay_whole(struct volume *volume, struct err *err)
{
    struct volume_gap gap;
    enum err_code code = volume_replay(volume, &gap, err);
    if (code == ERR_OK && gap.log != VOLUME_LOG_WHOLE) {
        code = err_set(err, ERR_CORRUPT, "%s", gap.why.text);
    }
    return code;
}

static enum err_code open_owner(struct volume *volume, const struct volume_options *options,
                                struct err *err)
{
    struct volume_headkeeper *head = &volume->head;
    enum err_code code = volume_own(volume, options, err);
    if (code == ERR_OK) {
        code = volume_load_view(volume, &head->now.view, err);
    }
    volume->commit.next = head->now.view.seq + 1;
    if (code == ERR_OK) {
        code = replay_whole(volume, err);
    }
    if (code == ERR_OK) {
        code = volume_fence(volume, err);
    }
    return code == ERR_OK ? volume_confirm(volume, err) : code;
}

static enum err_code find_view(struct volume *volume, const char *snapshot, struct volume_view *out,
                               struct err *err)
{
    struct volume_head head = {0};
    char etag[OBJECT_ETAG_MAX];
    enum err_code code = volume_read_head(volume, &head, etag, err);
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
        code = volume_load_view(volume, &view, err);
    }
    volume->commit.next = view.seq + 1;
    if (code == ERR_OK && options->snapshot == NULL) {
        code = replay_whole(volume, err);
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

enum err_code volume_begin(struct volume *volume, struct err *err)
{
    volume->commit.durable = volume->commit.next - 1;
    volume->engine = engine_create(volume->map);
    engine_set_seq(volume->engine, volume->commit.next);
    return volume_do(volume, begin_engine, volume, err);
}

struct volume *volume_create(struct object_store *store, const struct volume_options *options)
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

void volume_give_back(struct volume *volume)
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
    struct volume *volume = volume_create(store, options);
    enum err_code code = volume_format_read(store, &volume->format, err);
    if (code == ERR_OK) {
        code = options->role == VOLUME_OWNER ? open_owner(volume, options, err)
                                             : open_reader(volume, options, err);
    }
    if (code == ERR_OK) {
        code = volume_begin(volume, err);
    }
    if (code != ERR_OK) {
        volume_give_back(volume);
        return code;
    }
    *out = volume;
    return ERR_OK;
}
