/* Writing the objects of volume_head.h. */
#include "base/json.h"
#include "volume/volume_head.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

static void begin(struct json *json, const char *kind)
{
    json_object(json);
    json_key(json, "drover"), json_text(json, kind);
    json_key(json, "version"), json_u64(json, VOLUME_VERSION);
}

static void finish(struct json *json, size_t start)
{
    struct str *out = json->out;
    uint64_t sum = XXH3_64bits(out->text + start, out->size - start);
    json_key(json, "sum");
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, sum);
    json_text(json, text);
    json_end(json);
}

static void add_hex(struct json *json, const uint8_t *bytes, size_t size)
{
    char text[64] = "";
    CHECK(size * 2 < sizeof text);
    for (size_t i = 0; i < size; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
    json_text(json, text);
}

static void add_run(struct json *json, const struct map_run *run)
{
    char sum[24];
    snprintf(sum, sizeof sum, "%016" PRIx64, run->index_checksum);
    json_array(json);
    json_u64(json, run->level);
    json_u64(json, run->container.term);
    json_u64(json, run->container.number);
    json_u64(json, run->size);
    json_u64(json, run->index_offset);
    json_text(json, sum);
    json_u64(json, run->keys);
    json_end(json);
}

static void add_view(struct json *json, const struct volume_view *view)
{
    json_key(json, "seq"), json_u64(json, view->seq);
    json_key(json, "runs");
    json_array(json);
    for (size_t i = 0; i < view->run_count; i++) {
        add_run(json, &view->runs[i]);
    }
    json_end(json);
}

void volume_format_encode(const struct volume_format *format, struct str *out)
{
    struct json json = {.out = out};
    size_t start = out->size;
    begin(&json, "volume");
    json_key(&json, "uuid"), add_hex(&json, format->uuid, sizeof format->uuid);
    json_key(&json, "pack_bytes"), json_u64(&json, format->pack_bytes);
    json_key(&json, "zstd_level"), json_i64(&json, format->zstd_level);
    json_key(&json, "created"), json_i64(&json, format->created_unix_ms);
    finish(&json, start);
}

static void add_owner(struct json *json, const struct volume_head *head)
{
    json_key(json, "owner");
    if (!head->owned) {
        json_null(json);
        return;
    }
    const struct volume_owner *owner = &head->owner;
    json_object(json);
    json_key(json, "who"), json_text(json, owner->who);
    json_key(json, "host"), json_text(json, owner->host);
    json_key(json, "boot"), json_text(json, owner->boot);
    json_key(json, "space"), json_text(json, owner->space);
    json_key(json, "pid"), json_i64(json, owner->pid);
    json_key(json, "start"), json_u64(json, owner->start);
    json_key(json, "since"), json_i64(json, owner->since_unix_ms);
    json_key(json, "nonce"), add_hex(json, owner->nonce, sizeof owner->nonce);
    json_end(json);
}

static void add_snap(struct json *json, const struct volume_snap *snap)
{
    json_object(json);
    json_key(json, "name"), json_text(json, snap->info.name);
    json_key(json, "seq"), json_u64(json, snap->info.seq);
    json_key(json, "created"), json_i64(json, snap->info.created_unix_ms);
    json_key(json, "files"), json_u64(json, snap->info.files);
    json_key(json, "bytes"), json_u64(json, snap->info.bytes);
    json_key(json, "term"), json_u64(json, snap->term);
    json_key(json, "number"), json_u64(json, snap->number);
    json_end(json);
}

void volume_head_encode(const struct volume_head *head, struct str *out)
{
    struct json json = {.out = out};
    size_t start = out->size;
    begin(&json, "head");
    json_key(&json, "term"), json_u64(&json, head->term);
    json_key(&json, "change"), json_u64(&json, head->change);
    add_owner(&json, head);
    add_view(&json, &head->view);
    json_key(&json, "snapshots");
    json_array(&json);
    for (size_t i = 0; i < head->snap_count; i++) {
        add_snap(&json, &head->snaps[i]);
    }
    json_end(&json);
    finish(&json, start);
}

void volume_view_encode(const struct volume_view *view, struct str *out)
{
    struct json json = {.out = out};
    size_t start = out->size;
    begin(&json, "snapshot");
    add_view(&json, view);
    finish(&json, start);
}

void volume_pin_encode(const struct volume_pin *pin, struct str *out)
{
    struct json json = {.out = out};
    size_t start = out->size;
    begin(&json, "pin");
    json_key(&json, "precise"), json_bool(&json, pin->precise);
    json_key(&json, "expires"), json_i64(&json, pin->expires_unix_ms);
    json_key(&json, "who"), json_text(&json, pin->who);
    add_view(&json, &pin->view);
    finish(&json, start);
}
