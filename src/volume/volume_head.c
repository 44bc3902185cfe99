#include "volume/volume_head.h"

#include "base/mem.h"
#include "volume/pack.h"
#include "volume/volume_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ,"sum":"0123456789abcdef"} */
enum { SUM_BYTES = 26 };

/* Reading. ------------------------------------------------------------------------------------- */

/* An object being read: each key must come once, and all of them must come. */
struct shape {
    struct volume_json in;
    const char *kind;
    const char *const *keys;
    uint32_t seen;
    bool is_newer;
};

static bool next_key(struct shape *shape, size_t i, size_t *key)
{
    char name[32];
    if (!volume_json_item(&shape->in, '{', i)) {
        return false;
    }
    volume_json_key(&shape->in, name, sizeof name);
    for (size_t k = 0; shape->keys[k] != NULL && !shape->in.bad; k++) {
        if (strcmp(name, shape->keys[k]) == 0 && (shape->seen & 1u << k) == 0) {
            shape->seen |= 1u << k;
            *key = k;
            return true;
        }
    }
    shape->in.bad = true;
    return false;
}

static bool is_whole(const struct shape *shape)
{
    size_t count = 0;
    while (shape->keys[count] != NULL) {
        count++;
    }
    return shape->seen == (1u << count) - 1;
}

/* The first three keys of every object. */
enum { KEY_DROVER, KEY_VERSION, KEY_SUM, KEY_OWN };
#define COMMON_KEYS "drover", "version", "sum"

static void read_common(struct shape *shape, size_t key)
{
    char kind[32];
    if (key == KEY_DROVER) {
        volume_json_text(&shape->in, kind, sizeof kind);
        shape->in.bad = shape->in.bad || strcmp(kind, shape->kind) != 0;
    } else if (key == KEY_VERSION) {
        uint64_t version = volume_json_u64(&shape->in);
        shape->is_newer = version > VOLUME_VERSION;
        shape->in.bad = shape->in.bad || version != VOLUME_VERSION;
    } else {
        (void)volume_json_hex64(&shape->in);
    }
}

static enum err_code open_shape(struct shape *shape, const char *text, size_t size, struct err *err)
{
    if (size <= SUM_BYTES || size > VOLUME_HEAD_BYTES_MAX) {
        return err_set(err, ERR_CORRUPT, "%s: %zu bytes are no such object", shape->kind, size);
    }
    const char *tail = text + size - SUM_BYTES;
    char expected[SUM_BYTES + 1];
    snprintf(expected, sizeof expected, ",\"sum\":\"%016" PRIx64 "\"}",
             XXH3_64bits(text, size - SUM_BYTES));
    if (memcmp(tail, expected, SUM_BYTES) != 0) {
        return err_set(err, ERR_CORRUPT, "%s: its checksum does not hold", shape->kind);
    }
    shape->in = (struct volume_json){.at = text, .end = text + size};
    return ERR_OK;
}

static enum err_code close_shape(const struct shape *shape, struct err *err)
{
    if (shape->is_newer) {
        return err_set(err, ERR_UNSUPPORTED, "%s: written by a newer version of drover",
                       shape->kind);
    }
    if (!volume_json_is_done(&shape->in) || !is_whole(shape)) {
        return err_set(err, ERR_CORRUPT, "%s: not in the form that was written", shape->kind);
    }
    return ERR_OK;
}

static void read_run(struct volume_json *in, struct map_run *run)
{
    *run = (struct map_run){.container = {.kind = CONTAINER_RUN}};
    for (size_t i = 0; volume_json_item(in, '[', i); i++) {
        switch (i) {
        case 0:
            run->level = volume_json_u32(in);
            break;
        case 1:
            run->container.term = volume_json_u32(in);
            break;
        case 2:
            run->container.number = volume_json_u64(in);
            break;
        case 3:
            run->size = volume_json_u64(in);
            break;
        case 4:
            run->index_offset = volume_json_u64(in);
            break;
        case 5:
            run->index_checksum = volume_json_hex64(in);
            break;
        case 6:
            run->keys = volume_json_u64(in);
            break;
        default:
            in->bad = true;
        }
        in->bad = in->bad || (i == 6 && (in->at == in->end || *in->at != ']'));
    }
    in->bad = in->bad || run->index_offset > run->size || run->level >= MAP_LEVELS;
}

static void read_runs(struct volume_json *in, struct volume_view *view)
{
    size_t cap = 0;
    for (size_t i = 0; volume_json_item(in, '[', i); i++) {
        if (i == MAP_RUNS_MAX) {
            in->bad = true;
            return;
        }
        struct map_run run;
        read_run(in, &run);
        VEC_PUSH(view->runs, view->run_count, cap) = run;
    }
}

enum err_code volume_format_decode(const char *text, size_t size, struct volume_format *out,
                                   struct err *err)
{
    static const char *const keys[] = {COMMON_KEYS,  "uuid",    "pack_bytes",
                                       "zstd_level", "created", NULL};
    struct shape shape = {.kind = "volume", .keys = keys};
    struct volume_format format = {.version = VOLUME_VERSION};
    enum err_code code = open_shape(&shape, text, size, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t key = 0;
    int64_t level = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key < KEY_OWN) {
            read_common(&shape, key);
        } else if (key == KEY_OWN) {
            volume_json_hex(&shape.in, format.uuid, sizeof format.uuid);
        } else if (key == KEY_OWN + 1) {
            format.pack_bytes = volume_json_u32(&shape.in);
        } else if (key == KEY_OWN + 2) {
            level = volume_json_i64(&shape.in);
        } else {
            format.created_unix_ms = volume_json_i64(&shape.in);
        }
    }
    format.zstd_level = (int)level;
    code = close_shape(&shape, err);
    if (code == ERR_OK && (format.pack_bytes < PACK_BYTES_MIN ||
                           format.pack_bytes > PACK_BYTES_MAX || level < 0 || level > 22)) {
        code = err_set(err, ERR_CORRUPT, "volume: a size or level is out of range");
    }
    if (code == ERR_OK) {
        *out = format;
    }
    return code;
}

static void read_owner(struct volume_json *in, struct volume_owner *owner)
{
    static const char *const keys[] = {"who",   "host",  "boot",  "space", "pid",
                                       "start", "since", "nonce", NULL};
    struct shape shape = {.in = *in, .keys = keys};
    char *const texts[] = {owner->who, owner->host, owner->boot, owner->space};
    size_t key = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key < 4) {
            volume_json_text(&shape.in, texts[key], VOLUME_WORD_MAX);
        } else if (key == 4) {
            owner->pid = volume_json_i64(&shape.in);
        } else if (key == 5) {
            owner->start = volume_json_u64(&shape.in);
        } else if (key == 6) {
            owner->since_unix_ms = volume_json_i64(&shape.in);
        } else {
            volume_json_hex(&shape.in, owner->nonce, sizeof owner->nonce);
        }
    }
    *in = shape.in;
    in->bad = in->bad || !is_whole(&shape);
}

static void read_snap(struct volume_json *in, struct volume_snap *snap)
{
    static const char *const keys[] = {"name",  "seq",  "created", "files",
                                       "bytes", "term", "number",  NULL};
    struct shape shape = {.in = *in, .keys = keys};
    uint64_t *const numbers[] = {&snap->info.seq,   NULL, &snap->info.files,
                                 &snap->info.bytes, NULL, &snap->number};
    size_t key = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key == 0) {
            volume_json_text(&shape.in, snap->info.name, sizeof snap->info.name);
        } else if (key == 2) {
            snap->info.created_unix_ms = volume_json_i64(&shape.in);
        } else if (key == 5) {
            snap->term = volume_json_u32(&shape.in);
        } else {
            *numbers[key - 1] = volume_json_u64(&shape.in);
        }
    }
    *in = shape.in;
    in->bad = in->bad || !is_whole(&shape) || !volume_snapshot_name_is_sound(snap->info.name);
}

static void read_snaps(struct volume_json *in, struct volume_head *head)
{
    size_t cap = 0;
    for (size_t i = 0; volume_json_item(in, '[', i); i++) {
        if (i == VOLUME_SNAPSHOTS_MAX) {
            in->bad = true;
            return;
        }
        struct volume_snap snap = {0};
        read_snap(in, &snap);
        VEC_PUSH(head->snaps, head->snap_count, cap) = snap;
    }
}

static void read_head_key(struct shape *shape, size_t key, struct volume_head *head)
{
    switch (key - KEY_OWN) {
    case 0:
        head->term = volume_json_u32(&shape->in);
        break;
    case 1:
        head->change = volume_json_u64(&shape->in);
        break;
    case 2:
        head->owned = !volume_json_null(&shape->in);
        if (head->owned) {
            read_owner(&shape->in, &head->owner);
        }
        break;
    case 3:
        head->view.seq = volume_json_u64(&shape->in);
        break;
    case 4:
        read_runs(&shape->in, &head->view);
        break;
    default:
        read_snaps(&shape->in, head);
    }
}

enum err_code volume_head_decode(const char *text, size_t size, struct volume_head *out,
                                 struct err *err)
{
    static const char *const keys[] = {COMMON_KEYS, "term", "change",    "owner",
                                       "seq",       "runs", "snapshots", NULL};
    struct shape shape = {.kind = "head", .keys = keys};
    struct volume_head head = {0};
    enum err_code code = open_shape(&shape, text, size, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t key = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key < KEY_OWN) {
            read_common(&shape, key);
        } else {
            read_head_key(&shape, key, &head);
        }
    }
    code = close_shape(&shape, err);
    if (code == ERR_OK) {
        *out = head;
    } else {
        volume_head_release(&head);
    }
    return code;
}

enum err_code volume_view_decode(const char *text, size_t size, struct volume_view *out,
                                 struct err *err)
{
    static const char *const keys[] = {COMMON_KEYS, "seq", "runs", NULL};
    struct shape shape = {.kind = "snapshot", .keys = keys};
    struct volume_view view = {0};
    enum err_code code = open_shape(&shape, text, size, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t key = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key < KEY_OWN) {
            read_common(&shape, key);
        } else if (key == KEY_OWN) {
            view.seq = volume_json_u64(&shape.in);
        } else {
            read_runs(&shape.in, &view);
        }
    }
    code = close_shape(&shape, err);
    if (code == ERR_OK) {
        *out = view;
    } else {
        volume_view_release(&view);
    }
    return code;
}

enum err_code volume_pin_decode(const char *text, size_t size, struct volume_pin *out,
                                struct err *err)
{
    static const char *const keys[] = {COMMON_KEYS, "precise", "expires", "who",
                                       "seq",       "runs",    NULL};
    struct shape shape = {.kind = "pin", .keys = keys};
    struct volume_pin pin = {0};
    enum err_code code = open_shape(&shape, text, size, err);
    if (code != ERR_OK) {
        return code;
    }
    size_t key = 0;
    for (size_t i = 0; next_key(&shape, i, &key); i++) {
        if (key < KEY_OWN) {
            read_common(&shape, key);
        } else if (key == KEY_OWN) {
            pin.precise = volume_json_bool(&shape.in);
        } else if (key == KEY_OWN + 1) {
            pin.expires_unix_ms = volume_json_i64(&shape.in);
        } else if (key == KEY_OWN + 2) {
            volume_json_text(&shape.in, pin.who, sizeof pin.who);
        } else if (key == KEY_OWN + 3) {
            pin.view.seq = volume_json_u64(&shape.in);
        } else {
            read_runs(&shape.in, &pin.view);
        }
    }
    code = close_shape(&shape, err);
    if (code == ERR_OK) {
        *out = pin;
    } else {
        volume_view_release(&pin.view);
    }
    return code;
}

/* Handling. ------------------------------------------------------------------------------------ */

void volume_view_copy(const struct volume_view *view, struct volume_view *out)
{
    *out = *view;
    out->runs = mem_dup(view->runs, view->run_count * sizeof view->runs[0]);
}

void volume_view_release(struct volume_view *view)
{
    free(view->runs);
    *view = (struct volume_view){0};
}

bool volume_view_names(const struct volume_view *view, const struct container *run)
{
    for (size_t i = 0; i < view->run_count; i++) {
        if (container_equal(&view->runs[i].container, run)) {
            return true;
        }
    }
    return false;
}

void volume_head_release(struct volume_head *head)
{
    volume_view_release(&head->view);
    free(head->snaps);
    *head = (struct volume_head){0};
}

bool volume_snapshot_name_is_sound(const char *name)
{
    size_t size = strlen(name);
    if (size < 1 || size > 200 || name[0] == '.' || name[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool other = (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!letter && !other) {
            return false;
        }
    }
    return true;
}

void volume_snap_key(const struct volume_snap *snap, char out[VOLUME_SNAP_KEY_MAX])
{
    CHECK(volume_snapshot_name_is_sound(snap->info.name));
    snprintf(out, VOLUME_SNAP_KEY_MAX, "snap/%s@%08" PRIx32 "-%016" PRIx64, snap->info.name,
             snap->term, snap->number);
}

bool volume_snap_key_parse(const char *key, struct volume_snap *out)
{
    const char *at = strrchr(key, '@');
    size_t name_size = at == NULL ? 0 : (size_t)(at - key);
    if (strncmp(key, "snap/", 5) != 0 || name_size < 6 || name_size > 205) {
        return false;
    }
    /* The numbers are those of a run's name. */
    char run[CONTAINER_NAME_MAX];
    struct container container;
    int size = snprintf(run, sizeof run, "runs/%s", at + 1);
    if (size < 0 || (size_t)size >= sizeof run || !container_parse(run, &container)) {
        return false;
    }
    struct volume_snap snap = {.term = container.term, .number = container.number};
    memcpy(snap.info.name, key + 5, name_size - 5);
    if (!volume_snapshot_name_is_sound(snap.info.name)) {
        return false;
    }
    *out = snap;
    return true;
}
