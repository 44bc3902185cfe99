/* Packs between the first byte that is put into them and the commit that names them.
 *
 * A pack is sealed when it is full, and at every commit, since a commit may only name packs that
 * are stored. Small packs that this leaves behind when little is written at a time are put together
 * by compaction (volume_compact.c); data that is small and must be durable at once does not come
 * here at all: it lies in the log object (volume_place with inlined). */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void volume_packs_init(struct volume_packs *packs)
{
    packs->last = &packs->first;
    packs->next_number = 1;
}

static void pack_destroy(struct young_pack *pack)
{
    str_release(&pack->bytes);
    free(pack);
}

void volume_packs_release(struct volume_packs *packs)
{
    packer_destroy(packs->packer);
    packs->packer = NULL;
    while (packs->first != NULL) {
        struct young_pack *pack = packs->first;
        packs->first = pack->next;
        pack_destroy(pack);
    }
    packs->last = &packs->first;
}

static void pack_stored(struct volume_call *call)
{
    struct young_pack *pack = call->context;
    struct volume *volume = call->volume;
    volume->packs.bytes -= pack->bytes.size;
    volume->stats.packs++;
    volume->stats.pack_bytes += pack->bytes.size;
    str_release(&pack->bytes);
    pack->stored = true;
    volume->progress++;
}

struct packer *volume_packer_create(struct volume *volume, struct container *container)
{
    *container = (struct container){.kind = CONTAINER_PACK,
                                    .term = volume->head.now.term,
                                    .number = volume->packs.next_number++};
    return packer_create(container, volume->format.pack_bytes, volume->format.zstd_level);
}

struct young_pack *volume_pack_seal(struct volume *volume, struct packer *packer,
                                    const struct container *container, bool background)
{
    struct young_pack *pack = mem_alloc(sizeof *pack);
    pack->container = *container;
    pack->data_size = packer_size(packer);
    pack->background = background;
    packer_seal(packer, &pack->bytes);
    packer_destroy(packer);
    volume->packs.bytes += pack->bytes.size;
    *volume->packs.last = pack;
    volume->packs.last = &pack->next;

    char name[CONTAINER_NAME_MAX];
    container_name(container, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_PUT, name, pack_stored);
    call->context = pack;
    call->call.data = pack->bytes.text;
    call->call.data_size = pack->bytes.size;
    volume_call_start(call);
    return pack;
}

void volume_packs_seal(struct volume *volume)
{
    struct volume_packs *packs = &volume->packs;
    if (packs->packer != NULL) {
        (void)volume_pack_seal(volume, packs->packer, &packs->container, false);
        packs->packer = NULL;
    }
}

void volume_pack_join(struct volume *volume, struct young_pack *pack)
{
    struct engine_container record = {
        .container = pack->container,
        .size = pack->data_size,
        .born = volume->commit.next,
    };
    engine_container_add(volume->engine, &record);
    pack->joined = true;
}

void volume_packs_join(struct volume *volume)
{
    for (struct young_pack *pack = volume->packs.first; pack != NULL; pack = pack->next) {
        if (!pack->joined && !pack->background) {
            volume_pack_join(volume, pack);
        }
    }
}

bool volume_packs_are_stored(const struct volume *volume, uint64_t mark)
{
    for (const struct young_pack *pack = volume->packs.first; pack != NULL; pack = pack->next) {
        if (!pack->stored && pack->joined && pack->container.number <= mark) {
            return false;
        }
    }
    return true;
}

void volume_packs_forget(struct volume *volume)
{
    struct volume_packs *packs = &volume->packs;
    struct young_pack **at = &packs->first;
    while (*at != NULL) {
        struct young_pack *pack = *at;
        if (pack->stored && pack->joined) {
            *at = pack->next;
            pack_destroy(pack);
        } else {
            at = &pack->next;
        }
    }
    packs->last = at;
}

/* Placing. ------------------------------------------------------------------------------------- */

static void place_inline(struct volume *volume, const void *data, size_t size, struct extent *out)
{
    struct str *bytes = &volume->commit.inline_data;
    *out = (struct extent){
        .size = (uint32_t)size,
        .container = {.kind = CONTAINER_LOG, .number = volume->commit.next},
        .offset = LOGOBJ_HEADER_BYTES + bytes->size,
        .stored_size = (uint32_t)size,
        .codec = EXTENT_PLAIN,
        .checksum = XXH3_64bits(data, size),
        .whole = (uint32_t)size,
    };
    str_add_bytes(bytes, data, size);
    volume->stats.inline_bytes += size;
}

// NOLINTNEXTLINE(readability-function-size): seven, but each call reads as a sentence
void volume_place(struct volume *volume, uint64_t inode, uint64_t file_offset, const void *data,
                  size_t size, bool inlined, struct extent *out)
{
    CHECK(volume->role == VOLUME_OWNER);
    CHECK(size >= 1);
    CHECK(size <= EXTENT_BYTES_MAX);
    struct volume_packs *packs = &volume->packs;
    if (inlined && size <= EXTENT_INLINE_MAX &&
        volume->commit.inline_data.size + size <= VOLUME_INLINE_BYTES) {
        place_inline(volume, data, size, out);
        out->file_offset = file_offset;
        volume_note_placed(&volume->placed, &out->container);
        return;
    }
    if (packs->packer != NULL && !packer_has_room(packs->packer, size)) {
        volume_packs_seal(volume);
    }
    if (packs->packer == NULL) {
        packs->packer = volume_packer_create(volume, &packs->container);
    }
    packer_add(packs->packer, inode, file_offset, data, size, out);
    volume_note_placed(&volume->placed, &out->container);
}

static const void *within(const struct str *bytes, const struct extent *extent)
{
    if (extent->offset > bytes->size || extent->stored_size > bytes->size - extent->offset) {
        return NULL;
    }
    return bytes->text + extent->offset;
}

static const void *young_inline(const struct volume *volume, const struct extent *extent)
{
    const struct volume_commit *commit = &volume->commit;
    if (commit->active && extent->container.number == commit->next - 1) {
        return within(&commit->object, extent);
    }
    if (extent->container.number != commit->next || extent->offset < LOGOBJ_HEADER_BYTES) {
        return NULL;
    }
    struct extent moved = *extent;
    moved.offset -= LOGOBJ_HEADER_BYTES;
    return within(&commit->inline_data, &moved);
}

const void *volume_young(const struct volume *volume, const struct extent *extent)
{
    const struct volume_packs *packs = &volume->packs;
    if (extent->container.kind == CONTAINER_LOG) {
        return young_inline(volume, extent);
    }
    if (packs->packer != NULL && container_equal(&packs->container, &extent->container)) {
        return packer_bytes(packs->packer, extent->offset, extent->stored_size);
    }
    for (const struct young_pack *pack = packs->first; pack != NULL; pack = pack->next) {
        if (container_equal(&pack->container, &extent->container)) {
            return pack->stored ? NULL : within(&pack->bytes, extent);
        }
    }
    return NULL;
}

bool volume_is_congested(const struct volume *volume)
{
    const struct volume_packs *packs = &volume->packs;
    uint64_t bytes = packs->bytes + (packs->packer == NULL ? 0 : packer_size(packs->packer));
    return bytes >= volume->in_flight_bytes ||
           engine_pending_bytes(volume->engine) >= VOLUME_PENDING_BYTES;
}
