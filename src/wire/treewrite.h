/* treewrite.h - building a folder from parts that a peer sent, without ever leaving it.
 *
 * The parts were validated by bulk_parse_*; still, a peer may send a link and then something
 * "below" it. Each step of each path is opened for itself and no link is followed, so nothing is
 * written outside. Parts may come again: writing one twice is the same as once. Modes are cut to
 * rwx, with write for the owner alone and always for the owner; files get their time when their
 * last byte came.
 */
#ifndef WIRE_TREEWRITE_H
#define WIRE_TREEWRITE_H

#include "base/err.h"
#include "bulk.pb-c.h"

#include <stdbool.h>

struct treewrite;

/* The folder must exist. ERR_NOT_FOUND, ERR_IO. */
MUST_USE enum err_code treewrite_open(const char *folder, struct treewrite **out, struct err *err);
void treewrite_close(struct treewrite *writer); /* NULL does nothing */

/* Where `keep` parts are linked from. NULL: nowhere; they are refused (ERR_STALE). */
void treewrite_set_base(struct treewrite *writer, const char *folder);

/* ERR_QUOTA: the disk is full; the same part may be written again later. ERR_STALE: a part to keep
 * is not in the base. ERR_INVALID: it does not fit with earlier parts (a file where a folder was).
 * ERR_IO: else. */
MUST_USE enum err_code treewrite_part(struct treewrite *writer, const Drover__BulkPart *part,
                                      struct err *err);

/* Puts the folder `from` at `to`, whose parents are made; what was there is then at `from` and is
 * the caller's to remove. At each instant, and after a crash, `to` is the old or the new one; on
 * file systems that cannot exchange two names, for an instant it is at `to` with ".old" added, from
 * where treewrite_mend brings it back. */
MUST_USE enum err_code treewrite_replace(const char *from, const char *to, struct err *err);
void treewrite_mend(const char *to);

/* Removes up to *budget entries of the tree at path, and lessens the budget. True: it is gone. */
bool treewrite_remove_some(const char *path, size_t *budget);

#endif
