/* A draft on its way to an owner elsewhere: few bytes in the message, many in packs that this mount
 * stores itself. */
#include "base/mem.h"
#include "mount/back_remote.h"

#include <stdlib.h>
#include <string.h>

void back_place(struct mount *mount, struct file *file, size_t index, bool inlined)
{
    const struct draft_segment *segment = &file->draft.segments[index];
    struct extent extent;

    mount->dirty_bytes -= segment->size;
    if (mount->dealer) {
        upload_place(mount->upload, file->inode, segment->offset, segment->bytes, segment->size,
                     &extent);
    } else {
        volume_place(mount->volume, file->inode, segment->offset, segment->bytes, segment->size,
                     inlined, &extent);
    }
    draft_placed(&file->draft, index, &extent);
    if (!mount->dealer) {
        VEC_PUSH(file->placed, file->placed_count, file->placed_cap) = extent;
    }
}

bool back_is_congested(const struct mount *mount)
{
    return mount->dealer ? upload_is_congested(mount->upload) : volume_is_congested(mount->volume);
}

struct parcel { /* a write that is being put together */
    struct extent *extents;
    size_t count;
    Drover__MetaExtent *items;
    Drover__MetaExtent **item_list;
    Drover__MetaPack *packs;
    Drover__MetaPack **pack_list;
    size_t pack_count, pack_cap;
};

static void parcel_release(struct parcel *parcel)
{
    free(parcel->extents);
    free(parcel->items);
    free(parcel->item_list);
    free(parcel->packs);
    free(parcel->pack_list);
}

static void name_pack(struct parcel *parcel, uint64_t number, uint64_t size)
{
    for (size_t i = 0; i < parcel->pack_count; i++) {
        if (parcel->packs[i].number == number) {
            return;
        }
    }
    Drover__MetaPack *pack = &VEC_PUSH(parcel->packs, parcel->pack_count, parcel->pack_cap);
    drover__meta_pack__init(pack);
    pack->number = number;
    pack->size = size;
}

/* Every pack that the draft refers to is stored; all that are not are begun. ERR_AGAIN, ERR_STALE:
 * some belong to a session that has lapsed. */
static enum err_code store_packs(struct mount *mount, const struct draft *draft,
                                 struct parcel *parcel, struct err *err)
{
    enum err_code code = ERR_OK;
    uint64_t last = 0;
    for (size_t i = 0; i < draft->count; i++) {
        const struct draft_segment *segment = &draft->segments[i];
        const struct container *container = &segment->extent.container;
        uint64_t size = 0;
        bool is_lost = false;
        if (segment->kind != DRAFT_PLACED || container->number == last) {
            continue;
        }
        if (!upload_is_stored(mount->upload, container, &size, &is_lost)) {
            code = is_lost || code == ERR_STALE ? ERR_STALE : ERR_AGAIN;
        } else {
            name_pack(parcel, container->number, size);
            last = container->number;
        }
    }
    return code == ERR_OK
               ? ERR_OK
               : err_set(err, code,
                         code == ERR_STALE ? "what was written was lost with a session that lapsed"
                                           : "its packs are being stored");
}

static void fill_extents(const struct draft *draft, struct parcel *parcel)
{
    parcel->count = draft_extents(draft, &parcel->extents);
    parcel->items = mem_array(parcel->count, sizeof *parcel->items);
    parcel->item_list = mem_array(parcel->count, sizeof *parcel->item_list);
    for (size_t i = 0; i < parcel->count; i++) {
        struct extent extent = parcel->extents[i];
        const struct draft_segment *segment = NULL;
        if (extent.container.kind == DRAFT_UNPLACED) {
            segment = &draft->segments[extent.container.number];
            extent.container = (struct container){0};
        }
        meta_extent_to(&extent, &parcel->items[i]);
        if (segment) {
            parcel->items[i].data = meta_bytes(segment->bytes, segment->size);
        }
        parcel->item_list[i] = &parcel->items[i];
    }
    parcel->pack_list = mem_array(parcel->pack_count, sizeof *parcel->pack_list);
    for (size_t i = 0; i < parcel->pack_count; i++) {
        parcel->pack_list[i] = &parcel->packs[i];
    }
}

static void send_parcel(struct mount *mount, struct file *file, bool inlined,
                        const struct parcel *parcel)
{
    Drover__MetaOp op = DROVER__META_OP__INIT;
    op.verb = DROVER__META_VERB__META_VERB_WRITE;
    op.inode = file->inode;
    op.now_ns = mount_now_ns();
    op.size = file->draft.size;
    op.mtime_ns = file->mtime_ns;
    op.flags = (file->kill_priv ? 1U : 0U) | (inlined ? 2U : 0U);
    op.n_extent = parcel->count;
    op.extent = parcel->item_list;
    op.n_pack = parcel->pack_count;
    op.pack = parcel->pack_list;
    file->flush = meta_link_ask(mount->link, &op);
}

/* Puts the draft on its way. ERR_AGAIN: not now, or it is on its way. */
static enum err_code begin_flush(struct mount *mount, struct file *file, bool inlined,
                                 struct err *err)
{
    struct draft *draft = &file->draft;
    struct parcel parcel = {0};
    if (meta_link_is_congested(mount->link)) {
        return err_set(err, ERR_AGAIN, "too much is not stored yet");
    }
    bool is_much = draft->memory_bytes > META_WRITE_BYTES_MAX;
    for (size_t i = 0; is_much && i < draft->count; i++) {
        if (draft->segments[i].kind == DRAFT_MEMORY) {
            if (back_is_congested(mount)) {
                return err_set(err, ERR_AGAIN, "too much is on its way to the store");
            }
            back_place(mount, file, i, false);
        }
    }
    enum err_code code = store_packs(mount, draft, &parcel, err);
    if (code == ERR_OK) {
        fill_extents(draft, &parcel);
    }
    if (code == ERR_OK && parcel.count > META_EXTENTS_MAX) {
        code = err_set(err, ERR_RANGE, "a file of %zu pieces is too many for one message",
                       parcel.count);
    }
    if (code == ERR_OK) {
        send_parcel(mount, file, inlined, &parcel);
        code = err_set(err, ERR_AGAIN, "on its way");
    }
    parcel_release(&parcel);
    return code;
}

enum err_code back_flush_remote(struct mount *mount, struct file *file, bool inlined, int *posix,
                                struct err *err)
{
    enum err_code code = ERR_OK;
    if (file->flush == NULL && draft_is_clean(&file->draft) && file->changed_ns == 0) {
        file_end_draft(mount, file);
        return ERR_OK;
    }
    if (file->flush == NULL) {
        code = begin_flush(mount, file, inlined, err);
        if (code != ERR_AGAIN) {
            file_end_draft(mount, file); /* it can never arrive */
        }
        return code;
    }
    const Drover__MetaAnswer *answer = meta_call_answer(file->flush);
    if (answer == NULL) {
        return err_set(err, ERR_AGAIN, "on its way");
    }
    code = (enum err_code)answer->code;
    *posix = (int)answer->posix;
    if (code == ERR_OK && answer->attr) {
        struct engine_attr attr;
        meta_attr_from(answer->attr, &attr);
        remote_changed(mount, &attr);
    }
    if (code != ERR_OK) {
        (void)err_set(err, code == ERR_AGAIN ? ERR_IO : code, "%.400s", answer->text);
        code = err->code;
    }
    meta_link_drop(mount->link, file->flush);
    file->flush = NULL;
    file_end_draft(mount, file);
    return code;
}
