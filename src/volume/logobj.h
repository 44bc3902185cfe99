/* logobj.h - one commit as an object: log/SEQ.
 *
 * A commit is an atomic set of changes to the metadata map (map.h): puts and deletes of keys, and
 * small data inline, which extents refer to as lying in this log object. Layout: magic, version,
 * volume uuid, seq, term, flags, counts; the changes; the inline bytes; a checksum over all.
 * Inline bytes come last, at an offset that is known while they are added, because extents in the
 * changes name it: they lie from LOGOBJ_HEADER_BYTES on, before the changes. Pure code.
 */
#ifndef VOLUME_LOGOBJ_H
#define VOLUME_LOGOBJ_H

#include "base/err.h"
#include "base/str.h"
#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOGOBJ_HEADER_BYTES = 96,
    LOGOBJ_BYTES_MAX = 64 << 20,
    LOGOBJ_FENCE = 1, /* flag: the first of its term; never deleted */
};

struct logobj_header {
    uint8_t uuid[16];
    uint64_t seq;
    uint32_t term;
    uint32_t flags;
};

struct logobj_change {
    const uint8_t *key;
    size_t key_size;
    const uint8_t *value; /* NULL: the key is deleted */
    size_t value_size;
};

/* Encodes. `data` is the inline bytes: the byte i of it lies at LOGOBJ_HEADER_BYTES + i. */
void logobj_write(const struct logobj_header *header, const struct str *data,
                  const struct logobj_change *changes, size_t count, struct str *out);

/* Checks the whole object, then calls `each` for the changes in order. ERR_CORRUPT: damaged, or of
 * another volume or seq (when `expect` is not NULL: its uuid and seq are compared). */
MUST_USE enum err_code logobj_read(const void *bytes, size_t size,
                                   const struct logobj_header *expect, struct logobj_header *header,
                                   void (*each)(void *context, const struct logobj_change *change),
                                   void *context, struct err *err);

/* What the beginning of an object says of itself, unchecked: LOGOBJ_HEADER_BYTES of it suffice. */
bool logobj_claims_fence(const void *bytes, size_t size);

#endif
