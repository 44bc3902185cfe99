/* Blocks of metadata that an operation waits for.
 *
 * A block that comes damaged is remembered for a moment: operations that need it fail at once,
 * those that need others go on, and after that moment it is fetched again. */
#include "base/clock.h"
#include "volume/volume_internal.h"

#include <inttypes.h>
#include <string.h>

enum {
    TRIES_MAX = 3, /* of a block that comes damaged */
    DAMAGED_MS = 1000,
};

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

static void note_damage(struct volume *volume, const struct map_want *want, const char *key,
                        const char *why)
{
    struct volume_fetch *fetch = &volume->fetch;
    struct volume_damage *damage = &fetch->damages[fetch->next_damage++ % VOLUME_DAMAGES_MAX];
    *damage = (struct volume_damage){want->run, want->offset, clock_mono_ms(), {0}};
    (void)err_set(&damage->err, ERR_CORRUPT, "%s: metadata cannot be read: %s", key, why);
}

/* What is known of a block that is wanted; NULL: nothing bad. */
static const struct volume_damage *known_damage(const struct volume *volume,
                                                const struct map_want *want)
{
    int64_t now_ms = clock_mono_ms();
    for (size_t i = 0; i < VOLUME_DAMAGES_MAX; i++) {
        const struct volume_damage *damage = &volume->fetch.damages[i];
        if (damage->err.code != ERR_OK && damage->offset == want->offset &&
            container_equal(&damage->run, &want->run) && now_ms - damage->when_ms < DAMAGED_MS) {
            return damage;
        }
    }
    return NULL;
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
    if (code != ERR_OK) {
        note_damage(volume, want, call->key, err.text);
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
    volume->damaged.code = ERR_OK;
    for (size_t i = 0; i < count && volume_is_well(volume); i++) {
        if (wants[i].size == 0 || is_fetching(fetch, &wants[i])) {
            continue;
        }
        const struct volume_damage *damage = known_damage(volume, &wants[i]);
        if (damage != NULL) {
            if (i == 0) { /* the first is needed; others may only be read ahead */
                volume->damaged = damage->err;
            }
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
