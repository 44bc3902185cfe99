/* cache_index.h - the list of what a cache folder holds, as the bytes of its index file.
 *
 * Layout: magic, version, count; for each container its name's numbers and its ranges; a checksum
 * over all. Damage of any byte is seen. An index that is sound may still be wrong (the folder went
 * on changing after it was written): what it leads to is checked by extents' checksums. Pure code.
 */
#ifndef VOLUME_CACHE_INDEX_H
#define VOLUME_CACHE_INDEX_H

#include "base/err.h"
#include "base/str.h"
#include "volume/container.h"
#include "volume/ranges.h"

#include <stddef.h>

enum { CACHE_INDEX_BYTES_MAX = 64 << 20 };

void cache_index_begin(struct str *out);
void cache_index_add(struct str *out, const struct container *container,
                     const struct ranges *ranges);
void cache_index_end(struct str *out);

/* Checks all of it, then calls each for the containers in the order they were added; `ranges` is
 * the callee's to take (it is released afterwards; emptying it takes it). ERR_CORRUPT. */
MUST_USE enum err_code cache_index_read(const void *bytes, size_t size,
                                        void (*each)(void *context,
                                                     const struct container *container,
                                                     struct ranges *ranges),
                                        void *context, struct err *err);

#endif
