#include "wire/treesend.h"

#include "base/arena.h"
#include "base/mem.h"
#include "wire/bulk.h"

#include <stdlib.h>
#include <string.h>

enum { PART_COST = 64 }; /* of a part's numbers and tags, at most */

struct treesend {
    struct treeread *reader;
    treesend_keep_fn keep;
    void *keep_context;
    bool has_entry; /* entry is not sent to its end */
    struct treeread_entry entry;
    uint64_t offset;
    struct str place; /* path of the entry that came last */
    uint64_t place_offset;
    bool is_resumed; /* the first entry goes on at place_offset */
    struct arena arena;
    Drover__BulkPart *parts[BULK_PIECE_PARTS_MAX];
};

struct treesend *treesend_create(int folder_fd, treeread_top_fn open_top, void *context)
{
    struct treesend *sender = mem_alloc(sizeof *sender);
    sender->reader = treeread_create(folder_fd, open_top, context);
    return sender;
}

void treesend_destroy(struct treesend *sender)
{
    if (sender) {
        treeread_destroy(sender->reader);
        str_release(&sender->place);
        arena_release(&sender->arena);
        free(sender);
    }
}

void treesend_set_keep(struct treesend *sender, treesend_keep_fn keep, void *context)
{
    sender->keep = keep;
    sender->keep_context = context;
}

void treesend_seek(struct treesend *sender, const char *path, uint64_t offset)
{
    AUTO_FREE char *copy = mem_strdup(path); /* it may be our own place */
    sender->has_entry = false;
    str_clear(&sender->place);
    str_add(&sender->place, copy);
    sender->place_offset = offset;
    sender->is_resumed = copy[0] != '\0';
    treeread_seek(sender->reader, copy);
}

void treesend_place(const struct treesend *sender, struct str *path, uint64_t *offset)
{
    str_clear(path);
    str_add(path, str_text(&sender->place));
    *offset = sender->place_offset;
}

static enum err_code take_entry(struct treesend *sender, struct err *err)
{
    enum err_code code = treeread_next(sender->reader, &sender->entry, err);
    if (code != ERR_OK) {
        return code;
    }
    bool goes_on = sender->is_resumed && sender->entry.type == TREEREAD_FILE &&
                   strcmp(sender->entry.path, str_text(&sender->place)) == 0 &&
                   sender->place_offset <= sender->entry.size;
    sender->offset = goes_on ? sender->place_offset : 0;
    sender->is_resumed = false;
    sender->has_entry = true;
    return ERR_OK;
}

static Drover__BulkPart *make_part(struct treesend *sender)
{
    const struct treeread_entry *entry = &sender->entry;
    Drover__BulkPart *part = arena_alloc(&sender->arena, sizeof *part);
    drover__bulk_part__init(part);
    part->path.data = (uint8_t *)arena_strndup(&sender->arena, entry->path, entry->path_size);
    part->path.len = entry->path_size;
    part->mode = entry->mode & 0777;
    part->mtime_ns = entry->mtime_ns;
    switch (entry->type) {
    case TREEREAD_FILE:
        part->type = DROVER__BULK_TYPE__BULK_TYPE_FILE;
        part->size = entry->size;
        part->offset = sender->offset;
        break;
    case TREEREAD_FOLDER:
        part->type = DROVER__BULK_TYPE__BULK_TYPE_FOLDER;
        break;
    case TREEREAD_LINK:
        part->type = DROVER__BULK_TYPE__BULK_TYPE_LINK;
        break;
    }
    return part;
}

static enum err_code fill_file(struct treesend *sender, Drover__BulkPart *part, size_t room,
                               struct err *err)
{
    uint64_t left = sender->entry.size - sender->offset;
    size_t size = left < room ? (size_t)left : room;
    if (sender->offset == 0 && sender->keep && sender->keep(sender->keep_context, &sender->entry)) {
        part->keep = true;
        sender->has_entry = false;
        return ERR_OK;
    }
    part->data.data = arena_alloc(&sender->arena, size + 1);
    enum err_code code =
        treeread_bytes(sender->reader, sender->offset, part->data.data, size, &part->data.len, err);
    if (code == ERR_OK && part->data.len < size) {
        return err_set(err, ERR_AGAIN, "%s: became shorter", sender->entry.path);
    }
    sender->offset += size;
    sender->has_entry = sender->offset < sender->entry.size;
    return code;
}

static enum err_code fill_link(struct treesend *sender, Drover__BulkPart *part, struct err *err)
{
    sender->has_entry = false;
    part->data.data = arena_alloc(&sender->arena, BULK_LINK_BYTES_MAX + 1);
    return treeread_bytes(sender->reader, 0, part->data.data, BULK_LINK_BYTES_MAX, &part->data.len,
                          err);
}

static enum err_code add_part(struct treesend *sender, Drover__BulkPiece *piece, size_t room,
                              struct err *err)
{
    Drover__BulkPart *part = make_part(sender);
    enum err_code code = ERR_OK;
    if (sender->entry.type == TREEREAD_FILE) {
        code = fill_file(sender, part, room, err);
    } else if (sender->entry.type == TREEREAD_LINK) {
        code = fill_link(sender, part, err);
    } else {
        sender->has_entry = false;
    }
    if (code == ERR_OK) {
        sender->parts[piece->n_part++] = part;
    }
    return code;
}

enum err_code treesend_next(struct treesend *sender, Drover__BulkPiece *piece, size_t *size,
                            struct err *err)
{
    arena_reset(&sender->arena);
    piece->n_part = 0;
    piece->part = sender->parts;
    piece->last = false;
    *size = 0;
    size_t room = BULK_PIECE_BYTES;
    while (piece->n_part < BULK_PIECE_PARTS_MAX && room > PART_COST + BULK_PATH_BYTES_MAX) {
        enum err_code code = sender->has_entry ? ERR_OK : take_entry(sender, err);
        if (code == ERR_NOT_FOUND && piece->n_part > 0) {
            piece->last = true;
            break;
        }
        if (code == ERR_OK) {
            code = add_part(sender, piece, room - PART_COST - BULK_PATH_BYTES_MAX, err);
        }
        if (code != ERR_OK) {
            return code;
        }
        const Drover__BulkPart *part = sender->parts[piece->n_part - 1];
        str_clear(&sender->place);
        str_add_bytes(&sender->place, part->path.data, part->path.len);
        sender->place_offset = part->offset + part->data.len;
        size_t cost = PART_COST + part->path.len + part->data.len;
        room = cost < room ? room - cost : 0;
        *size += part->data.len;
    }
    return ERR_OK;
}
