/* Merging runs, a slice at a time: what the merge asks for is fetched, what it makes is stored, and
 * head names the results. */
#include "base/clock.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>

enum { DAMAGE_PAUSE_MS = 10 * 60 * 1000, WANTS_AT_ONCE = 8 };

bool volume_merge_begin(struct volume *volume, bool all)
{
    struct volume_merger *merger = &volume->merger;
    if (merger->merge != NULL || merger->storing || merger->fetching > 0 || volume->gc != NULL ||
        !volume_is_well(volume)) {
        return false;
    }
    merger->merge = map_merge_create(volume->map, all, volume->head.now.term, &volume->next_run);
    merger->has_more = merger->merge != NULL;
    merger->err.code = ERR_OK;
    return merger->merge != NULL;
}

void volume_merger_release(struct volume_merger *merger)
{
    map_merge_destroy(merger->merge);
    merger->merge = NULL;
    str_release(&merger->object);
}

static void give_up(struct volume *volume, const struct err *err)
{
    struct volume_merger *merger = &volume->merger;
    merger->err = *err;
    map_merge_destroy(merger->merge);
    merger->merge = NULL;
    merger->has_more = false;
    merger->not_before_mono_ms = clock_mono_ms() + DAMAGE_PAUSE_MS;
    volume->progress++;
}

static void fetched(struct volume_call *call)
{
    struct volume *volume = call->volume;
    struct volume_merger *merger = &volume->merger;
    merger->fetching--;
    if (merger->merge == NULL) { /* given up since */
        return;
    }
    struct err err = call->call.err;
    enum err_code code = call->call.code;
    if (code == ERR_OK && call->call.body.size != call->want.size) {
        code = err_set(&err, ERR_CORRUPT, "%s: bytes are missing", call->key);
    } else if (code == ERR_OK) {
        code = map_merge_supply(merger->merge, &call->want, call->call.body.text, &err);
    }
    if (code == ERR_OK) {
        merger->has_more = true;
    } else {
        give_up(volume, &err);
    }
}

static void fetch(struct volume *volume, const struct map_want *want)
{
    char name[CONTAINER_NAME_MAX];
    container_name(&want->run, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_GET, name, fetched);
    call->want = *want;
    call->call.offset = want->offset;
    call->call.size = want->size;
    volume->merger.fetching++;
    volume_call_start(call);
}

static void output_stored(struct volume_call *call)
{
    struct volume_merger *merger = &call->volume->merger;
    merger->storing = false;
    merger->has_more = merger->merge != NULL;
}

static void store_output(struct volume *volume)
{
    struct volume_merger *merger = &volume->merger;
    char name[CONTAINER_NAME_MAX];
    container_name(&merger->run.container, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, name, output_stored);
    call->call.data = merger->object.text;
    call->call.data_size = merger->object.size;
    merger->storing = true;
    merger->has_more = false;
    volume_call_start(call);
}

static void apply(struct volume *volume)
{
    struct volume_merger *merger = &volume->merger;
    map_merge_apply(volume->map, merger->merge);
    map_merge_destroy(merger->merge);
    merger->merge = NULL;
    merger->has_more = false;
    str_release(&merger->object);
    merger->change = volume_head_touch(volume);
    volume->stats.merges++;
    volume->progress++;
}

static void step(struct volume *volume)
{
    struct volume_merger *merger = &volume->merger;
    enum map_merge_state state = MAP_MERGE_NEEDS;
    struct err err = {0};
    if (map_merge_step(merger->merge, &state, &merger->run, &merger->object, &err) != ERR_OK) {
        give_up(volume, &err);
        return;
    }
    switch (state) {
    case MAP_MERGE_NEEDS: {
        struct map_want wants[WANTS_AT_ONCE];
        size_t count = map_merge_wanted(merger->merge, wants, WANTS_AT_ONCE);
        for (size_t i = 0; i < count; i++) {
            fetch(volume, &wants[i]);
        }
        merger->has_more = merger->fetching == 0; /* nothing wanted: it only gave way */
        return;
    }
    case MAP_MERGE_OUTPUT:
        store_output(volume);
        return;
    case MAP_MERGE_DONE:
        apply(volume);
        return;
    }
}

void volume_merge_advance(struct volume *volume)
{
    struct volume_merger *merger = &volume->merger;
    int64_t until_us = clock_mono_us() + (int64_t)VOLUME_MERGE_SLICE_MS * 1000;
    while (merger->has_more && volume_is_well(volume)) {
        step(volume);
        if (clock_mono_us() >= until_us) {
            return;
        }
    }
}

static bool is_merged(struct volume *volume)
{
    const struct volume_merger *merger = &volume->merger;
    return merger->merge == NULL && merger->fetching == 0 &&
           volume->head.stored_change >= merger->change;
}

static bool may_merge(struct volume *volume)
{
    return is_merged(volume) && volume->gc == NULL;
}

enum err_code volume_merge(struct volume *volume, struct err *err)
{
    CHECK(volume->role == VOLUME_OWNER);
    enum err_code code = volume_wait(volume, may_merge, err);
    if (code != ERR_OK || !volume_merge_begin(volume, true)) {
        return code;
    }
    code = volume_wait(volume, is_merged, err);
    if (code == ERR_OK && volume->merger.err.code != ERR_OK) {
        code = err_set(err, volume->merger.err.code, "%s", volume->merger.err.text);
    }
    return code;
}
