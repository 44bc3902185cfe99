/* draft.h - what has been written to an open file and is not part of the volume yet.
 *
 * A draft lies over the file's content as the volume has it (the base). It is a list of segments in
 * order: bytes in memory, bytes that have been placed in a pack already (to keep memory small), and
 * holes; where no segment lies, the base shows through, up to `base_end`: a file cut short and
 * grown again reads as zeros behind the cut. Segments of bytes never cross a multiple of
 * EXTENT_BYTES_MAX, so that a file's extents are aligned however it was written.
 *
 * Close and fsync turn the whole draft into one engine_write. Pure code; one owner.
 */
#ifndef MOUNT_DRAFT_H
#define MOUNT_DRAFT_H

#include "volume/container.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum draft_kind { DRAFT_MEMORY, DRAFT_PLACED, DRAFT_HOLE };

struct draft_segment {
    uint64_t offset;
    uint64_t size; /* at most EXTENT_BYTES_MAX unless a hole */
    enum draft_kind kind;
    uint8_t *bytes; /* MEMORY; the draft's */
    size_t cap;
    struct extent extent; /* PLACED */
};

struct draft {
    struct draft_segment *segments;
    size_t count, cap;
    uint64_t size;         /* of the file, as its users see it */
    uint64_t base_end;     /* the base shows below this only */
    uint64_t base_size;    /* of the base when the draft was begun */
    uint64_t memory_bytes; /* in MEMORY segments */
};

void draft_init(struct draft *draft, uint64_t base_size);
void draft_release(struct draft *draft);
bool draft_is_clean(const struct draft *draft); /* nothing differs from the base */

void draft_write(struct draft *draft, uint64_t offset, const void *data, size_t size);
void draft_truncate(struct draft *draft, uint64_t size);
void draft_punch(struct draft *draft, uint64_t offset, uint64_t size); /* the size stays */

/* The first segment that ends behind offset; count: there is none. */
size_t draft_find(const struct draft *draft, uint64_t offset);

/* Segment `index` (MEMORY) lies at extent now: its bytes are freed. */
void draft_placed(struct draft *draft, size_t index, const struct extent *extent);

/* The draft as extents for engine_write, in order: placed segments, and holes as extents with
 * container.kind 0, also for what base_end hides of the base; and bytes in memory as extents with
 * container.kind DRAFT_UNPLACED and their segment's index in container.number, which engine_write
 * does not take. The caller frees *out. */
enum { DRAFT_UNPLACED = 255 };
size_t draft_extents(const struct draft *draft, struct extent **out);

#endif
