/* pack.h - gathering extents into packs, and reading what a pack says of itself.
 *
 * A pack is extents one behind the other, then a footer: for each extent its offset, stored size,
 * file size, codec, checksum, inode and file offset (so that a pack can be understood, verified and
 * rewritten without the metadata), then a fixed tail with the footer's size, count, checksum,
 * version and magic. A pack is built in memory and never changed once written.
 *
 * Pure code. The packer owns its bytes until pack_seal hands them over.
 */
#ifndef VOLUME_PACK_H
#define VOLUME_PACK_H

#include "base/err.h"
#include "base/str.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PACK_BYTES_DEFAULT = 64 << 20,
    PACK_BYTES_MIN = 1 << 20,
    PACK_BYTES_MAX = 100 << 20,
    PACK_ITEMS_MAX = 1 << 18, /* extents of one pack: a bound on its footer */
};

struct packer; /* a pack that is being filled */

/* level: zstd's, 0 stores plain. An extent that does not shrink by an eighth is stored plain. */
struct packer *packer_create(const struct container *container, size_t bytes_max, int level);
void packer_destroy(struct packer *packer);
size_t packer_size(const struct packer *packer); /* bytes so far, without the footer */
bool packer_has_room(const struct packer *packer, size_t size);

/* Adds data (1 to EXTENT_BYTES_MAX bytes; the caller has seen that there is room) as an extent of
 * (inode, file_offset) and says where it lies: all of *out is set. */
void packer_add(struct packer *packer, uint64_t inode, uint64_t file_offset, const void *data,
                size_t size, struct extent *out);
/* Adds bytes that are stored already, as they are (rewriting packs): in->checksum is trusted to
 * have been checked. *out is *in at its new place. */
void packer_add_stored(struct packer *packer, uint64_t inode, const struct extent *in,
                       const void *stored, struct extent *out);
/* Bytes added but not yet sealed, for readers in the same process, until the next change of the
 * packer; NULL: not within this pack. */
const void *packer_bytes(const struct packer *packer, uint64_t offset, size_t size);
/* The finished object in out (a str the caller releases); the packer is empty and useless. */
void packer_seal(struct packer *packer, struct str *out);

struct pack_item {
    uint64_t inode;
    struct extent extent; /* container is the pack's; skip 0, size == whole */
};

enum { PACK_TAIL_BYTES = 32 };

/* From the last PACK_TAIL_BYTES of an object of object_size bytes: where its footer lies.
 * ERR_CORRUPT: not a pack. */
MUST_USE enum err_code pack_tail_read(const void *tail, uint64_t object_size,
                                      uint64_t *footer_offset, uint64_t *footer_size,
                                      struct err *err);
/* The items of a footer (footer_size bytes, tail included), the caller frees *items. Every item is
 * checked to lie within the pack and not to overlap. ERR_CORRUPT. */
MUST_USE enum err_code pack_footer_read(const struct container *container, const void *footer,
                                        size_t size, uint64_t object_size, struct pack_item **items,
                                        size_t *count, struct err *err);

#endif
