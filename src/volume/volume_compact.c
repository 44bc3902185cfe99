/* Compaction: live extents out of packs that are mostly dead or very small, and data out of log
 * objects, into new packs, in the order of inodes (so of creation, which follows folders) and of
 * their offsets.
 *
 * It goes in rounds of bounded size. A round chooses its victims by their records; reads what each
 * says of itself (a pack's footer, a log object's changes); asks the engine which of those extents
 * are still in use; reads them, checks them, and puts them into new packs; and when those are
 * stored moves the extents, each only if it is still where it was. The commit after that makes the
 * victims dead, and gc deletes them when nothing holds them. A crash at any point leaves packs that
 * no commit names: orphans, deleted when this term is over. */
#include "volume/volume_compact.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_PACKS_MIN = 8 };

void volume_compact_destroy(struct volume_compact *compact)
{
    if (compact != NULL) {
        compact_round_release(compact);
        packer_destroy(compact->packer);
        free(compact->victims);
        free(compact->items);
        free(compact->packs);
        free(compact->done);
        free(compact->scratch);
        free(compact);
    }
}

bool volume_compact_begin(struct volume *volume, uint64_t budget_bytes)
{
    if (volume->compact != NULL || volume->gc != NULL || !volume_is_well(volume)) {
        return false;
    }
    volume->compact = mem_alloc(sizeof *volume->compact);
    volume->compact->budget = budget_bytes ? budget_bytes : UINT64_MAX;
    volume->compact->scratch = mem_alloc(EXTENT_BYTES_MAX);
    return true;
}

/* Choosing. ------------------------------------------------------------------------------------ */

struct choice {
    struct volume *volume;
    struct engine_container *records;
    size_t count, cap;
    size_t small_count;
};

static bool is_small(const struct volume *volume, const struct engine_container *record)
{
    return record->container.kind == CONTAINER_PACK && record->size < volume->format.pack_bytes / 8;
}

static bool keep_candidate(void *context, const struct engine_container *record)
{
    struct choice *choice = context;
    const struct volume *volume = choice->volume;
    if (record->live == 0 || record->born > volume->commit.durable) {
        return true;
    }
    bool small = is_small(volume, record);
    bool half_dead = record->container.kind == CONTAINER_PACK && record->live < record->size / 2;
    if (small || half_dead || record->container.kind == CONTAINER_LOG) {
        choice->small_count += small;
        VEC_PUSH(choice->records, choice->count, choice->cap) = *record;
    }
    return true;
}

static bool was_done(const struct volume_compact *compact, const struct container *container)
{
    for (size_t i = 0; i < compact->done_count; i++) {
        if (container_equal(&compact->done[i], container)) {
            return true;
        }
    }
    return false;
}

static void choose_victims(struct volume *volume, const struct choice *choice)
{
    struct volume_compact *compact = volume->compact;
    uint64_t bytes = 0;
    for (size_t i = 0; i < choice->count; i++) {
        const struct engine_container *record = &choice->records[i];
        bool half_dead = record->live < record->size / 2;
        bool worth_it = record->container.kind == CONTAINER_LOG || half_dead ||
                        choice->small_count >= SMALL_PACKS_MIN;
        bool fits = compact->victim_count == 0 || (bytes + record->size <= VOLUME_ROUND_BYTES &&
                                                   compact->victim_count < COMPACT_VICTIMS_MAX);
        if (!worth_it || !fits || was_done(compact, &record->container)) {
            continue;
        }
        bytes += record->size;
        VEC_PUSH(compact->victims, compact->victim_count, compact->victim_cap) =
            (struct compact_victim){.record = *record};
        VEC_PUSH(compact->done, compact->done_count, compact->done_cap) = record->container;
    }
}

static enum compact_step choose(struct volume *volume, struct err *err)
{
    struct volume_compact *compact = volume->compact;
    struct choice choice = {.volume = volume};
    compact_round_release(compact);
    if (compact->spent >= compact->budget) {
        compact->state = COMPACT_DONE;
        return COMPACT_GO_ON;
    }
    enum err_code code = engine_containers(volume->engine, keep_candidate, &choice, err);
    if (code == ERR_OK) {
        choose_victims(volume, &choice);
        compact->state = compact->victim_count > 0 ? COMPACT_INDEX : COMPACT_DONE;
    }
    free(choice.records);
    return compact_step_of(code);
}

/* Asking which extents are in use. ------------------------------------------------------------- */

struct usage {
    const struct extent *extent;
    bool in_use;
};

static bool see_extent(void *context, const struct extent *extent)
{
    struct usage *usage = context;
    usage->in_use = extent->offset == usage->extent->offset &&
                    container_equal(&extent->container, &usage->extent->container);
    return !usage->in_use;
}

/* Leaves only items that are in use; those before compact->next have been asked about. */
static enum compact_step check(struct volume *volume, struct err *err)
{
    struct volume_compact *compact = volume->compact;
    for (; compact->next < compact->item_count; compact->next++) {
        struct compact_item *item = &compact->items[compact->next];
        struct usage usage = {.extent = &item->old};
        struct engine_span span = {item->inode, item->old.file_offset - item->old.skip,
                                   item->old.whole};
        int posix = 0;
        enum err_code code = engine_extents(volume->engine, &span, see_extent, &usage, &posix, err);
        if (code != ERR_OK && code != ERR_INVALID) {
            return compact_step_of(code);
        }
        if (usage.in_use) {
            compact->items[compact->kept_items++] = *item;
        }
    }
    compact->item_count = compact->kept_items;
    compact->next = 0;
    compact->state = COMPACT_READ;
    return COMPACT_GO_ON;
}

/* Filling packs. ------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const struct compact_item *left = a;
    const struct compact_item *right = b;
    if (left->inode != right->inode) {
        return left->inode < right->inode ? -1 : 1;
    }
    uint64_t x = left->old.file_offset - left->old.skip;
    uint64_t y = right->old.file_offset - right->old.skip;
    return x < y ? -1 : x > y;
}

static void seal(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    if (compact->packer != NULL) {
        VEC_PUSH(compact->packs, compact->pack_count, compact->pack_cap) =
            volume_pack_seal(volume, compact->packer, &compact->container, true);
        compact->packer = NULL;
    }
}

static void put(struct volume *volume, struct compact_item *item, const void *stored)
{
    struct volume_compact *compact = volume->compact;
    const struct extent *old = &item->old;
    if (compact->packer != NULL && !packer_has_room(compact->packer, old->whole)) {
        seal(volume);
    }
    if (compact->packer == NULL) {
        compact->packer = volume_packer_create(volume, &compact->container);
    }
    if (old->codec == EXTENT_PLAIN) { /* which may shrink now */
        packer_add(compact->packer, item->inode, old->file_offset - old->skip, compact->scratch,
                   old->whole, &item->fresh);
    } else {
        packer_add_stored(compact->packer, item->inode, old, stored, &item->fresh);
    }
    item->is_placed = true;
}

static enum compact_step fill(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    if (compact->item_count > 1) {
        qsort(compact->items, compact->item_count, sizeof compact->items[0], by_place);
    }
    for (size_t i = 0; i < compact->item_count; i++) {
        struct compact_item *item = &compact->items[i];
        const struct compact_victim *victim = &compact->victims[item->victim];
        const struct extent *old = &item->old;
        bool twice = i > 0 && item[-1].inode == item->inode && item[-1].old.offset == old->offset &&
                     container_equal(&item[-1].old.container, &old->container);
        bool is_there = old->offset >= victim->base &&
                        old->offset - victim->base <= victim->body.size &&
                        old->stored_size <= victim->body.size - (old->offset - victim->base);
        if (twice || !is_there) {
            continue;
        }
        const char *stored = victim->body.text + (old->offset - victim->base);
        struct err err;
        if (extent_decode(old, stored, compact->scratch, &err) == ERR_OK) {
            put(volume, item, stored);
        } else {
            compact->err = err; /* the extent stays where it is */
        }
    }
    seal(volume);
    compact->state = COMPACT_UPLOAD;
    return COMPACT_GO_ON;
}

static enum compact_step await_upload(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    for (size_t i = 0; i < compact->pack_count; i++) {
        if (!compact->packs[i]->stored) {
            return COMPACT_WAIT;
        }
    }
    for (size_t i = 0; i < compact->pack_count; i++) {
        volume_pack_join(volume, compact->packs[i]);
    }
    compact->pack_count = 0; /* they may be forgotten from now on */
    compact->next = 0;
    compact->state = COMPACT_MOVE;
    return COMPACT_GO_ON;
}

static enum compact_step move(struct volume *volume, struct err *err)
{
    struct volume_compact *compact = volume->compact;
    for (; compact->next < compact->item_count; compact->next++) {
        const struct compact_item *item = &compact->items[compact->next];
        bool moved = false;
        if (!item->is_placed) {
            continue;
        }
        enum err_code code =
            engine_move(volume->engine, item->inode, &item->old, &item->fresh, &moved, err);
        if (code != ERR_OK) {
            return compact_step_of(code);
        }
    }
    for (size_t i = 0; i < compact->victim_count; i++) {
        volume->stats.packs_rewritten +=
            compact->victims[i].record.container.kind == CONTAINER_PACK;
    }
    compact->state = COMPACT_CHOOSE;
    return COMPACT_GO_ON;
}

/* Driving. ------------------------------------------------------------------------------------- */

static enum compact_step step(struct volume *volume, struct err *err)
{
    switch (volume->compact->state) {
    case COMPACT_CHOOSE:
        return choose(volume, err);
    case COMPACT_INDEX:
        return compact_index(volume);
    case COMPACT_CHECK:
        return check(volume, err);
    case COMPACT_READ:
        return compact_read(volume);
    case COMPACT_FILL:
        return fill(volume);
    case COMPACT_UPLOAD:
        return await_upload(volume);
    case COMPACT_MOVE:
        return move(volume, err);
    case COMPACT_DONE:
        break;
    }
    return COMPACT_WAIT;
}

void volume_compact_advance(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    struct err err = {0};
    while (compact->state != COMPACT_DONE && volume_is_well(volume)) {
        if (compact->missing_block && volume->progress == compact->asked_at &&
            volume_is_fetching(volume)) {
            return;
        }
        if (compact->missing_block && volume->damaged.code != ERR_OK) {
            compact->err = volume->damaged;
            compact->state = COMPACT_DONE;
            break;
        }
        compact->missing_block = false;
        switch (step(volume, &err)) {
        case COMPACT_GO_ON:
            break;
        case COMPACT_WAIT:
            return;
        case COMPACT_MISSING:
            volume_want(volume);
            compact->missing_block = true;
            compact->asked_at = volume->progress;
            break;
        case COMPACT_FAILED:
            compact->err = err;
            compact->state = COMPACT_DONE;
            break;
        }
    }
    if (compact->state == COMPACT_DONE && compact->reading == 0) {
        if (compact->order != NULL) {
            compact->order->err = compact->err;
            compact->order->step = COMPACT_ENDED;
        }
        volume_compact_destroy(compact);
        volume->compact = NULL;
        volume->progress++;
    }
}
