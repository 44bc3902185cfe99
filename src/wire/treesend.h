/* treesend.h - cutting a folder into pieces for the way, from any place in it.
 *
 * A piece is as many entries and bytes as fit BULK_PIECE_BYTES, in the order of treeread.h. Its
 * parts live until the next piece is cut. One thread owns a sender.
 */
#ifndef WIRE_TREESEND_H
#define WIRE_TREESEND_H

#include "base/str.h"
#include "bulk.pb-c.h"
#include "wire/treeread.h"

struct treesend;

/* True if the receiver has this entry already, as it is: sent as `keep`. */
typedef bool (*treesend_keep_fn)(void *context, const struct treeread_entry *entry);

/* Takes folder_fd over. */
struct treesend *treesend_create(int folder_fd, treeread_top_fn open_top, void *context);
void treesend_destroy(struct treesend *sender); /* NULL does nothing */
void treesend_set_keep(struct treesend *sender, treesend_keep_fn keep, void *context);

/* The next piece begins at this offset of the entry at path; "": the start of all. */
void treesend_seek(struct treesend *sender, const char *path, uint64_t offset);

/* The place where the next piece begins, for treesend_seek. What comes last before it may come once
 * more, which does no harm. */
void treesend_place(const struct treesend *sender, struct str *path, uint64_t *offset);

/* Fills n_part and part, and `last` if it is known that no more follows; *size counts bytes of
 * content. Errors as treeread_next; ERR_NOT_FOUND:
 * there is no more. ERR_AGAIN also if a file became shorter than it was. */
MUST_USE enum err_code treesend_next(struct treesend *sender, Drover__BulkPiece *piece,
                                     size_t *size, struct err *err);

#endif
