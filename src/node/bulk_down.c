/* Downloads: a Get is answered by pieces in order, each written where it belongs and acknowledged;
 * when in doubt it is said again, with the place where we are. */
#include "node/bulk_internal.h"

#include "base/io.h"
#include "base/mem.h"

#include <string.h>
#include <sys/stat.h>

static bool is_tree(const struct transfer *transfer)
{
    return transfer->kind == ORDER_GET_CHECKPOINT || transfer->kind == ORDER_GET_OUTPUTS;
}

/* Two fetches into one folder go one after the other. */
static bool is_blocked(const struct actor *actor, const struct transfer *transfer)
{
    for (size_t i = 0; i < actor->count && actor->transfers[i] != transfer; i++) {
        const struct transfer *earlier = actor->transfers[i];
        if (!earlier->is_over && earlier->kind >= ORDER_GET_CHECKPOINT &&
            strcmp(earlier->folder, transfer->folder) == 0) {
            return true;
        }
    }
    return false;
}

void bulk_down_start(struct actor *actor, struct transfer *transfer)
{
    transfer->state = STATE_IDLE;
    if (is_blocked(actor, transfer)) {
        return; /* looked at again */
    }
    if (transfer->kind == ORDER_GET_CODE) {
        bulk_code_start(actor, transfer);
        return;
    }
    AUTO_STR struct str part = {0};
    str_addf(&part, "%s.part", transfer->folder);
    transfer->part_folder = str_take(&part);
    bulk_down_get(actor, transfer,
                  transfer->kind == ORDER_GET_CHECKPOINT ? DROVER__BULK_KIND__BULK_KIND_CHECKPOINT
                                                         : DROVER__BULK_KIND__BULK_KIND_INPUTS);
}

void bulk_down_get(struct actor *actor, struct transfer *transfer, Drover__BulkKind kind)
{
    transfer->wire = ++actor->next_wire;
    transfer->get_kind = kind;
    transfer->round = 0;
    transfer->tree = 0;
    str_clear(&transfer->place);
    transfer->place_offset = 0;
    bulk_down_ask(actor, transfer, false);
}

static bool folder_exists(const char *folder)
{
    struct stat stat;
    return lstat(folder, &stat) == 0 && S_ISDIR(stat.st_mode);
}

void bulk_down_ask(struct actor *actor, struct transfer *transfer, bool is_repeated)
{
    Drover__ToDepot message;
    Drover__BulkGet get;
    Drover__Attempt id;
    bulk_actor_begin_message(actor, transfer, &message);
    drover__bulk_get__init(&get);
    bulk_attempt_to(&id, &transfer->id);
    transfer->round++;
    transfer->expected = 0;
    get.kind = transfer->get_kind;
    get.id = &id;
    get.name = transfer->name;
    get.round = transfer->round;
    get.tree = transfer->tree;
    get.path.data = (uint8_t *)transfer->place.text;
    get.path.len = transfer->place.size;
    get.offset = transfer->place_offset;
    const struct known *known = bulk_actor_find_known(actor, transfer->folder);
    if (transfer->kind == ORDER_GET_OUTPUTS && known && !transfer->write &&
        folder_exists(transfer->folder)) {
        get.tree = known->tree;
        get.whole = true;
    }
    if (transfer->code) {
        bulk_code_fill_get(transfer, &get);
    }
    message.get = &get;
    transfer->state = STATE_ASKING;
    bulk_actor_expect(actor, transfer, is_repeated);
    bulk_actor_send(actor, &message);
}

static void say_taken(struct actor *actor, const struct transfer *transfer)
{
    Drover__ToDepot message;
    bulk_actor_begin_message(actor, transfer, &message);
    message.taken = transfer->expected;
    message.round = transfer->round;
    bulk_actor_send(actor, &message);
}

static void fail(struct actor *actor, struct transfer *transfer, struct err *err)
{
    if (err->code == ERR_INVALID || err->code == ERR_STALE) {
        err->code = ERR_CORRUPT;
    }
    Drover__ToDepot message;
    bulk_actor_begin_message(actor, transfer, &message);
    message.drop = true;
    bulk_actor_send(actor, &message);
    if (is_tree(transfer)) {
        treewrite_close(transfer->write);
        transfer->write = NULL;
        if (io_remove_tree(transfer->part_folder, NULL) != ERR_OK) {
            err->code = err->code == ERR_QUOTA ? ERR_QUOTA : ERR_IO;
        }
    }
    bulk_actor_end(actor, transfer, err, NULL);
}

/* An empty folder to fill, whatever an earlier try left. */
static enum err_code begin_tree(struct transfer *transfer, struct err *err)
{
    treewrite_close(transfer->write);
    transfer->write = NULL;
    str_clear(&transfer->place);
    transfer->place_offset = 0;
    enum err_code code = io_remove_tree(transfer->part_folder, err);
    if (code == ERR_OK) {
        code = io_make_dirs(transfer->part_folder, err);
    }
    if (code == ERR_OK) {
        code = treewrite_open(transfer->part_folder, &transfer->write, err);
    }
    return code;
}

static void finish_tree(struct actor *actor, struct transfer *transfer)
{
    struct err err = {0};
    struct scan scan = {0};
    treewrite_close(transfer->write);
    transfer->write = NULL;
    bulk_actor_forget_known(actor, transfer->folder);
    enum err_code code = treewrite_replace(transfer->part_folder, transfer->folder, &err);
    if (code == ERR_OK) {
        code = io_remove_tree(transfer->part_folder, &err); /* what was there before */
    }
    if (code == ERR_OK && transfer->kind == ORDER_GET_CHECKPOINT) {
        code = bulk_watch_scan(transfer->folder, &scan, &err);
    }
    if (code != ERR_OK) {
        bulk_scan_release(&scan);
        fail(actor, transfer, &err);
        return;
    }
    bulk_actor_set_known(actor, transfer->folder, transfer->tree, &scan);
    bulk_actor_end(actor, transfer, NULL, transfer->folder);
}

static enum err_code take_part(struct actor *actor, struct transfer *transfer,
                               const Drover__BulkPart *part, struct err *err)
{
    if (transfer->kind == ORDER_GET_CODE) {
        return bulk_code_take(actor, transfer, part, err);
    }
    if (!transfer->write || part->path.len == 0) {
        return err_set(err, ERR_INVALID, "a piece of nothing");
    }
    enum err_code code = treewrite_part(transfer->write, part, err);
    if (code == ERR_OK) {
        str_clear(&transfer->place);
        str_add_bytes(&transfer->place, part->path.data, part->path.len);
        transfer->place_offset = part->offset + part->data.len;
    }
    return code;
}

static void take_piece(struct actor *actor, struct transfer *transfer,
                       const Drover__BulkPiece *piece)
{
    if (piece->round != transfer->round || piece->number != transfer->expected) {
        return; /* of an earlier time we asked, or one before it was lost: we ask again */
    }
    struct err err = {0};
    for (size_t i = 0; i < piece->n_part; i++) {
        if (take_part(actor, transfer, piece->part[i], &err) != ERR_OK) {
            fail(actor, transfer, &err);
            return;
        }
    }
    transfer->expected++;
    transfer->state = STATE_FLOWING;
    say_taken(actor, transfer);
    if (!piece->last) {
        return;
    }
    if (is_tree(transfer)) {
        finish_tree(actor, transfer);
    } else {
        bulk_code_next(actor, transfer);
    }
}

static void take_tree(struct actor *actor, struct transfer *transfer, const Drover__BulkTree *tree)
{
    if (tree->round != transfer->round || !is_tree(transfer)) {
        return;
    }
    struct err err = {0};
    transfer->tree = tree->id;
    if ((tree->from_start || !transfer->write) && begin_tree(transfer, &err) != ERR_OK) {
        fail(actor, transfer, &err);
    }
}

void bulk_down_hear(struct actor *actor, struct transfer *transfer,
                    const Drover__FromDepot *message)
{
    bulk_actor_expect(actor, transfer, false);
    if (message->tree && !message->done) {
        take_tree(actor, transfer, message->tree);
    }
    if (message->piece && !transfer->is_over) {
        take_piece(actor, transfer, message->piece);
    }
    if (message->done && !transfer->is_over) {
        if (message->folder.len > 0) {
            AUTO_FREE char *folder =
                mem_strndup((const char *)message->folder.data, message->folder.len);
            bulk_actor_end(actor, transfer, NULL, folder);
        } else if (transfer->kind == ORDER_GET_OUTPUTS) {
            bulk_actor_end(actor, transfer, NULL, transfer->folder); /* still the same */
        }
    }
}
