/* What compaction reads: footers and log objects, then the extents that are in use. */
#include "base/mem.h"
#include "volume/volume_compact.h"

#include <stdlib.h>
#include <string.h>

enum { READS_AT_ONCE = 8 };

void compact_round_release(struct volume_compact *compact)
{
    for (size_t i = 0; i < compact->victim_count; i++) {
        str_release(&compact->victims[i].body);
    }
    compact->victim_count = 0;
    compact->item_count = 0;
    compact->kept_items = 0;
    compact->next = 0;
}

static void add_item(struct volume_compact *compact, size_t victim, uint64_t inode,
                     const struct extent *extent)
{
    VEC_PUSH(compact->items, compact->item_count, compact->item_cap) =
        (struct compact_item){.victim = victim, .inode = inode, .old = *extent};
}

static void index_pack(struct volume_compact *compact, size_t index, const struct object_call *call)
{
    struct compact_victim *victim = &compact->victims[index];
    struct pack_item *items = NULL;
    size_t count = 0;
    if (pack_footer_read(&victim->record.container, call->body.text, call->body.size,
                         call->object_size, &items, &count, NULL) != ERR_OK) {
        return; /* it stays as it is */
    }
    for (size_t i = 0; i < count; i++) {
        add_item(compact, index, items[i].inode, &items[i].extent);
    }
    free(items);
}

struct log_index {
    struct volume_compact *compact;
    size_t victim;
};

static void index_extent(void *context, uint64_t inode, const struct extent *extent)
{
    struct log_index *index = context;
    const struct compact_victim *victim = &index->compact->victims[index->victim];
    if (container_equal(&extent->container, &victim->record.container)) {
        add_item(index->compact, index->victim, inode, extent);
    }
}

static void index_change(void *context, const struct logobj_change *change)
{
    engine_change_extents(change, index_extent, context);
}

static void index_log(struct volume *volume, size_t index, struct object_call *call)
{
    struct volume_compact *compact = volume->compact;
    struct compact_victim *victim = &compact->victims[index];
    struct log_index into = {compact, index};
    struct logobj_header expect = {.seq = victim->record.container.number};
    struct logobj_header header;
    memcpy(expect.uuid, volume->format.uuid, sizeof expect.uuid);
    if (logobj_read(str_text(&call->body), call->body.size, &expect, &header, index_change, &into,
                    NULL) == ERR_OK) {
        victim->body = call->body;
        call->body = (struct str){0};
    }
}

static void indexed(struct volume_call *call)
{
    struct volume_compact *compact = call->volume->compact;
    size_t index = (size_t)call->number;
    compact->reading--;
    compact->spent += call->call.body.size;
    if (call->call.code != ERR_OK) {
        return;
    }
    if (compact->victims[index].record.container.kind == CONTAINER_LOG) {
        index_log(call->volume, index, &call->call);
    } else {
        index_pack(compact, index, &call->call);
    }
}

static void read_victim(struct volume *volume, size_t index, uint64_t offset, uint64_t size,
                        void (*then)(struct volume_call *call))
{
    struct volume_compact *compact = volume->compact;
    char name[CONTAINER_NAME_MAX];
    container_name(&compact->victims[index].record.container, name);
    struct volume_call *call = volume_call_create(volume, OBJECT_GET, name, then);
    call->number = index;
    call->call.offset = offset;
    call->call.size = size;
    compact->reading++;
    volume_call_start(call);
}

enum compact_step compact_index(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    while (compact->reading < READS_AT_ONCE && compact->next < compact->victim_count) {
        const struct engine_container *record = &compact->victims[compact->next].record;
        bool is_pack = record->container.kind == CONTAINER_PACK;
        /* A pack's footer lies behind its data. */
        read_victim(volume, compact->next++, is_pack ? record->size : 0, 0, indexed);
    }
    if (compact->reading > 0) {
        return COMPACT_WAIT;
    }
    compact->next = 0;
    compact->kept_items = 0;
    compact->state = COMPACT_CHECK;
    return COMPACT_GO_ON;
}

static void came(struct volume_call *call)
{
    struct volume_compact *compact = call->volume->compact;
    compact->reading--;
    compact->spent += call->call.body.size;
    if (call->call.code == ERR_OK) {
        struct compact_victim *victim = &compact->victims[call->number];
        victim->base = call->call.offset;
        victim->body = call->call.body;
        call->call.body = (struct str){0};
    }
}

/* The range of a pack that holds all its extents in use; false: there are none. */
static bool range_in_use(const struct volume_compact *compact, size_t victim, uint64_t *from,
                         uint64_t *to)
{
    *from = UINT64_MAX;
    *to = 0;
    for (size_t i = 0; i < compact->item_count; i++) {
        const struct compact_item *item = &compact->items[i];
        if (item->victim == victim) {
            uint64_t end = item->old.offset + item->old.stored_size;
            *from = item->old.offset < *from ? item->old.offset : *from;
            *to = end > *to ? end : *to;
        }
    }
    return *to > *from;
}

enum compact_step compact_read(struct volume *volume)
{
    struct volume_compact *compact = volume->compact;
    while (compact->reading < READS_AT_ONCE && compact->next < compact->victim_count) {
        size_t index = compact->next++;
        uint64_t from = 0;
        uint64_t to = 0;
        if (compact->victims[index].record.container.kind == CONTAINER_PACK &&
            range_in_use(compact, index, &from, &to)) {
            read_victim(volume, index, from, to - from, came);
        }
    }
    if (compact->reading > 0) {
        return COMPACT_WAIT;
    }
    compact->state = COMPACT_FILL;
    return COMPACT_GO_ON;
}

/* It is durable when the commits that move things are. */
enum err_code volume_compact_step(struct volume_order *order, struct err *err)
{
    struct volume *volume = order->volume;
    if (order->step == COMPACT_NEW) {
        if (!volume_compact_begin(volume, order->budget_bytes)) {
            return ERR_AGAIN;
        }
        volume->compact->budget = order->budget_bytes ? order->budget_bytes : UINT64_MAX;
        volume->compact->order = order;
        order->step = COMPACT_RUNS;
        volume_advance(volume);
    }
    if (order->step == COMPACT_RUNS) {
        return ERR_AGAIN;
    }
    if (order->err.code != ERR_OK) {
        return err_set(err, order->err.code, "compaction: %s", order->err.text);
    }
    if (order->step == COMPACT_ENDED) {
        order->until = volume_commit(volume);
        order->step = COMPACT_SYNC;
    }
    return volume->commit.durable >= order->until ? ERR_OK : ERR_AGAIN;
}

void volume_compact_let_go(struct volume_order *order)
{
    if (order->step == COMPACT_RUNS) {
        order->volume->compact->order = NULL;
    }
}

enum err_code volume_compact(struct volume *volume, uint64_t budget_bytes, struct err *err)
{
    struct volume_order order = {
        .volume = volume, .kind = ORDER_COMPACT, .budget_bytes = budget_bytes};
    return volume_order_finish(&order, err);
}
