/* bulk_pool.h - versions of the user's code on one machine: a pool of files by their content, and
 * trees made of hard links to them.
 *
 *     FOLDER/objects/AB/ID[x]      a file, read-only, with a fixed time; x: executable
 *     FOLDER/VERSION/...           the tree, complete as soon as it is there
 *     FOLDER/VERSION.manifest      its time says when it was last asked for
 *     FOLDER/tmp/                  emptied at the start
 *
 * Tasks are not trusted with the files: whoever writes into one changes its time or size, and such
 * a file is thrown away and wanted again. Trees are mended in place, since tasks may run in them.
 * Used by the bulk actor of a node, and by the master for nodes on its disk. Blocking; one owner.
 */
#ifndef NODE_BULK_POOL_H
#define NODE_BULK_POOL_H

#include "base/err.h"
#include "wire/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bulk_pool;

MUST_USE enum err_code bulk_pool_open(const char *folder, struct bulk_pool **out, struct err *err);
void bulk_pool_close(struct bulk_pool *pool); /* NULL does nothing */

/* The tree's path. */
void bulk_pool_add_path(const struct bulk_pool *pool, struct str *out, const char *version);

/* True if the version's tree is there and each of its files as it should be. Notes that it was
 * asked for. */
bool bulk_pool_check(struct bulk_pool *pool, const char *version);

/* The manifest of a version that was unpacked here once, parsed. ERR_NOT_FOUND, ERR_CORRUPT. */
MUST_USE enum err_code bulk_pool_manifest(struct bulk_pool *pool, const char *version,
                                          struct str *text, struct manifest **out, struct err *err);

/* True if the pool holds the file's content, intact. Empty files need none. */
bool bulk_pool_has(struct bulk_pool *pool, const struct manifest_entry *file);

/* Adds a chunk, whose hash the caller has checked. When the last one came (the caller counts), it
 * is finished. ERR_QUOTA: the disk is full. */
MUST_USE enum err_code bulk_pool_put(struct bulk_pool *pool, const struct manifest_entry *file,
                                     size_t chunk, const void *bytes, struct err *err);
MUST_USE enum err_code bulk_pool_finish(struct bulk_pool *pool, const struct manifest_entry *file,
                                        struct err *err);

/* Reads a chunk of a file in the pool; *size 0: it is not there, or not intact any more. */
void bulk_pool_read(struct bulk_pool *pool, const struct manifest_entry *file, size_t chunk,
                    void *bytes, size_t *size);

/* Makes or mends the tree; the pool has every file. ERR_AGAIN: one has gone meanwhile. */
MUST_USE enum err_code bulk_pool_unpack(struct bulk_pool *pool, const char *version,
                                        const struct str *text, const struct manifest *manifest,
                                        struct err *err);

/* The versions here, newest first; at most max. */
size_t bulk_pool_list(struct bulk_pool *pool, char (*out)[SHA256_HEX_CHARS + 1], size_t max);

/* Removes versions that are not kept, beyond the newest `spare` of them and not asked for in the
 * last age_ms, and then files that no tree holds. */
void bulk_pool_expire(struct bulk_pool *pool, char (*kept)[SHA256_HEX_CHARS + 1], size_t kept_count,
                      size_t spare, int64_t age_ms);

#endif
