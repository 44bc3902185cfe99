/* A reader's pin: it says what the reader holds, so that gc leaves it there, until it expires. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void encode(struct volume *volume)
{
    struct volume_pinner *pinner = &volume->pinner;
    pinner->pin.expires_unix_ms = volume_now_unix_ms(volume) + VOLUME_PIN_MS;
    str_clear(&pinner->bytes);
    volume_pin_encode(&pinner->pin, &pinner->bytes);
}

/* The pin is there with another etag than we know: ours after a lost reply, or not ours. */
static enum err_code settle_lost_reply(struct volume *volume, struct err *err)
{
    struct volume_pinner *pinner = &volume->pinner;
    AUTO_STR struct str there = {0};
    char etag[OBJECT_ETAG_MAX];
    enum err_code code = object_get(volume->store, pinner->key, &there, etag, err);
    if (code != ERR_OK) {
        return code;
    }
    if (there.size != pinner->bytes.size ||
        memcmp(there.text, pinner->bytes.text, there.size) != 0) {
        return err_set(err, ERR_STALE, "%s: changed by another", pinner->key);
    }
    memcpy(pinner->etag, etag, sizeof pinner->etag);
    return ERR_OK;
}

static enum err_code write_blocking(struct volume *volume, enum object_condition condition,
                                    struct err *err)
{
    struct volume_pinner *pinner = &volume->pinner;
    encode(volume);
    struct object_call call = {
        .verb = OBJECT_PUT,
        .key = pinner->key,
        .data = pinner->bytes.text,
        .data_size = pinner->bytes.size,
        .condition = condition,
    };
    memcpy(call.match, pinner->etag, sizeof call.match);
    enum err_code code = object_do(volume->store, &call, err);
    if (code == ERR_OK) {
        memcpy(pinner->etag, call.etag, sizeof pinner->etag);
    } else if (code == ERR_EXISTS || code == ERR_STALE) {
        code = settle_lost_reply(volume, err);
    }
    if (code == ERR_OK) {
        pinner->stored_expires_unix_ms = pinner->pin.expires_unix_ms;
    }
    object_call_release(&call);
    return code;
}

enum err_code volume_pin_begin(struct volume *volume, const char *who, struct err *err)
{
    struct volume_pinner *pinner = &volume->pinner;
    struct volume_owner self;
    volume_owner_self(&self, who, 0);
    snprintf(pinner->key, sizeof pinner->key, "pin/%016" PRIx64 "%016" PRIx64,
             rng_seed_from_system(), rng_seed_from_system());
    snprintf(pinner->pin.who, sizeof pinner->pin.who, "%.80s", self.who[0] ? self.who : self.host);
    enum err_code code = write_blocking(volume, OBJECT_IF_ABSENT, err);
    if (code != ERR_OK) {
        pinner->key[0] = '\0';
    }
    return code;
}

enum err_code volume_pin_settle(struct volume *volume, const struct volume_view *view,
                                struct err *err)
{
    struct volume_pinner *pinner = &volume->pinner;
    volume_view_release(&pinner->pin.view);
    volume_view_copy(view, &pinner->pin.view);
    pinner->pin.precise = true;
    return write_blocking(volume, OBJECT_IF_MATCH, err);
}

struct removal {
    struct object_call call;
    const char *key;
    bool is_done, is_left;
    char text[]; /* the key */
};

static void removed(struct object_call *call)
{
    struct removal *removal = call->context;
    removal->is_done = true;
    if (removal->is_left) {
        object_call_release(call);
        free(removal);
    }
}

/* A store that does not answer is not waited for: then the pin expires. The call ends with the
 * store, at the latest. */
void volume_pin_remove(struct volume *volume)
{
    enum { PATIENCE_MS = 2000, LOOK_MS = 50 };
    size_t size = strlen(volume->pinner.key);
    if (size == 0) {
        return;
    }
    struct removal *removal = mem_alloc(sizeof *removal + size + 1);
    memcpy(removal->text, volume->pinner.key, size);
    removal->key = removal->text;
    removal->call = (struct object_call){.verb = OBJECT_DELETE,
                                         .keys = &removal->key,
                                         .key_count = 1,
                                         .done = removed,
                                         .context = removal};
    volume->pinner.key[0] = '\0';
    object_start(volume->store, &removal->call);
    int64_t until_ms = clock_mono_ms() + PATIENCE_MS;
    while (!removal->is_done && clock_mono_ms() < until_ms) {
        (void)object_run(volume->store, LOOK_MS);
    }
    removal->is_left = true;
    if (removal->is_done) {
        removed(&removal->call);
    }
}

static void lost(struct volume *volume)
{
    (void)volume_fail(volume, ERR_STALE,
                      "%s: the pin was not renewed in time; what this view holds may be gone",
                      volume->pinner.key);
}

static void renewed(struct volume *volume, const char *etag)
{
    struct volume_pinner *pinner = &volume->pinner;
    memcpy(pinner->etag, etag, sizeof pinner->etag);
    pinner->stored_expires_unix_ms = pinner->pin.expires_unix_ms;
    pinner->writing = false;
}

static void read_back(struct volume_call *call)
{
    struct volume_pinner *pinner = &call->volume->pinner;
    const struct str *there = &call->call.body;
    if (call->call.code == ERR_OK && there->size == pinner->bytes.size &&
        memcmp(there->text, pinner->bytes.text, there->size) == 0) {
        renewed(call->volume, call->call.etag);
    } else {
        lost(call->volume);
    }
}

static void written(struct volume_call *call)
{
    if (call->call.code == ERR_OK) {
        renewed(call->volume, call->call.etag);
    } else {
        volume_call_start(volume_call_create(call->volume, OBJECT_GET, call->key, read_back));
    }
}

void volume_pin_tick(struct volume *volume)
{
    struct volume_pinner *pinner = &volume->pinner;
    int64_t now_ms = volume_now_unix_ms(volume);
    if (now_ms >= pinner->stored_expires_unix_ms) {
        lost(volume);
        return;
    }
    int64_t left_ms = pinner->stored_expires_unix_ms - now_ms;
    if (pinner->writing || left_ms > VOLUME_PIN_MS - VOLUME_PIN_RENEW_MS) {
        return;
    }
    pinner->writing = true;
    encode(volume);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, pinner->key, written);
    call->call.data = pinner->bytes.text;
    call->call.data_size = pinner->bytes.size;
    call->call.condition = OBJECT_IF_MATCH;
    memcpy(call->call.match, pinner->etag, sizeof call->call.match);
    volume_call_start(call);
}
