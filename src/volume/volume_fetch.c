/* Blocks of metadata that an operation waits for. */
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <string.h>

enum { TRIES_MAX = 3 }; /* of a block that comes damaged */

static bool is_fetching(const struct volume_fetch *fetch, const struct map_want *want)
{
    for (size_t i = 0; i < VOLUME_WANTS_MAX; i++) {
        const struct map_want *other = &fetch->wants[i];
        if (other->size != 0 && other->offset == want->offset &&
            container_equal(&other->run, &want->run)) {
            return true;
        }
    }
    return false;
}

static void note_damage(struct volume *volume, const char *key, const char *why)
{
    (void)err_set(&volume->damaged, ERR_CORRUPT, "%s: metadata cannot be read: %s", key, why);
}

static void fetched(struct volume_call *call);

static void fetch_start(struct volume *volume, size_t slot)
{
    const struct map_want *want = &volume->fetch.wants[slot];
    char name[CONTAINER_NAME_MAX];
    container_name(&want->run, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_GET, name, fetched);
    call->number = slot;
    call->call.offset = want->offset;
    call->call.size = want->size;
    volume_call_start(call);
}

static void fetched(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_fetch *fetch = &volume->fetch;
    size_t slot = (size_t)call->number;
    const struct map_want *want = &fetch->wants[slot];
    struct err err = {0};
    enum err_code code = call->call.code;
    if (code != ERR_OK) {
        err = call->call.err;
    } else if (call->call.body.size != want->size) {
        code = err_set(&err, ERR_CORRUPT, "%zu bytes came of %" PRIu32, call->call.body.size,
                       want->size);
    } else {
        code = map_supply(volume->map, want, call->call.body.text, &err);
    }
    if (code == ERR_CORRUPT && ++fetch->tries[slot] < TRIES_MAX) {
        fetch_start(volume, slot);
        return;
    }
    if (code == ERR_OK) {
        volume->damaged.code = ERR_OK;
    } else {
        note_damage(volume, call->key, err.text);
    }
    fetch->wants[slot].size = 0;
    volume->progress++;
}

void volume_want(struct volume *volume)
{
    struct volume_fetch *fetch = &volume->fetch;
    struct map_want wants[VOLUME_WANTS_MAX];
    size_t count = map_wanted(volume->map, wants, VOLUME_WANTS_MAX);
    size_t slot = 0;
    for (size_t i = 0; i < count && volume_is_well(volume); i++) {
        if (wants[i].size == 0 || is_fetching(fetch, &wants[i])) {
            continue;
        }
        while (slot < VOLUME_WANTS_MAX && fetch->wants[slot].size != 0) {
            slot++;
        }
        if (slot == VOLUME_WANTS_MAX) { /* asked for again by whoever still needs it */
            return;
        }
        fetch->wants[slot] = wants[i];
        fetch->tries[slot] = 0;
        fetch_start(volume, slot);
    }
}

bool volume_is_fetching(const struct volume *volume)
{
    for (size_t i = 0; i < VOLUME_WANTS_MAX; i++) {
        if (volume->fetch.wants[i].size != 0) {
            return true;
        }
    }
    return false;
}
