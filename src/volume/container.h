/* container.h - the names of a volume's objects, and where an extent's bytes lie.
 *
 * A volume is one prefix of an object store:
 *   format             what kind of volume: version, uuid, options; written once
 *   head               term, owner and the checkpoint; changed by if-match only
 *   log/SEQ            one commit: metadata changes, small data inline; written if-absent
 *   packs/W-T-N        extents of many files, up to 64 MiB, and a footer that describes them
 *   runs/T-N           sorted metadata (map.h), a part of a checkpoint
 *   snap/NAME@T-N      the checkpoint of a snapshot that head lists by its name
 *   lost/T/log/SEQ     what a repair has cut off; never read again
 *   pin/UUID           a reader without a server holds what it reads
 * Numbers in names are hexadecimal with leading zeros, so that names sort as numbers do.
 *
 * A container is an object that extents may lie in: a pack or a log object. Pure code.
 */
#ifndef VOLUME_CONTAINER_H
#define VOLUME_CONTAINER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum container_kind {
    CONTAINER_PACK = 1, /* (writer, term, number) */
    CONTAINER_LOG = 2,  /* number is the SEQ; writer and term are 0 */
    CONTAINER_RUN = 3,  /* (term, number); writer is 0. Holds metadata, never extents */
};

struct container {
    uint8_t kind;
    uint32_t writer; /* 0: the volume's owner; others are mounts that upload for themselves */
    uint32_t term;   /* under which it was written */
    uint64_t number;
};

enum { CONTAINER_NAME_MAX = 64 };

void container_name(const struct container *container, char out[CONTAINER_NAME_MAX]);
/* The inverse; false: not such a name, and out is unchanged. */
bool container_parse(const char *name, struct container *out);
bool container_equal(const struct container *a, const struct container *b);

enum extent_codec { EXTENT_PLAIN = 0, EXTENT_ZSTD = 1 };

enum {
    EXTENT_BYTES_MAX = 1 << 20,   /* of a file in one extent */
    EXTENT_INLINE_MAX = 16 << 10, /* data up to this size may lie in the log object */
};

struct extent {
    uint64_t file_offset;
    uint32_t size; /* bytes of the file: 1 to EXTENT_BYTES_MAX */
    struct container container;
    uint64_t offset;      /* of the stored bytes in the container */
    uint32_t stored_size; /* equal to size when plain, smaller when compressed */
    uint8_t codec;
    uint64_t checksum; /* XXH3-64 of the stored bytes */
    uint32_t skip;     /* bytes of the decoded extent before file_offset (after an overwrite of its
                        * beginning); the decoded extent has skip + size bytes at least */
    uint32_t whole;    /* size of the decoded extent */
};

/* Whether `stored` (stored_size bytes) are the extent's: its sizes can be and its checksum holds.
 * ERR_CORRUPT. */
MUST_USE enum err_code extent_check(const struct extent *extent, const void *stored,
                                    struct err *err);
/* The bytes that `stored` (stored_size of them) decode to, `whole` of them into out. ERR_CORRUPT:
 * the checksum does not hold or they do not decode to that size; out may have been written to. */
MUST_USE enum err_code extent_decode(const struct extent *extent, const void *stored, void *out,
                                     struct err *err);

#endif
