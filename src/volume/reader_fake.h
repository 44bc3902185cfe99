/* reader_fake.h - for tests: a store whose packs are made up when they are read.
 *
 * Pack n (from 0 to pack_count - 1) has pack_bytes bytes; byte i of it depends on n and i alone,
 * and run n is the same. So a test can read gigabytes that nobody holds. Calls end in the order of
 * their start, one at each run, unless told otherwise.
 */
#ifndef VOLUME_READER_FAKE_H
#define VOLUME_READER_FAKE_H

#include "object/object.h"
#include "volume/container.h"

struct fake {
    struct object_store store;
    uint64_t pack_count, pack_bytes;
    struct object_call *first, *last; /* in line */
    size_t in_flight, in_flight_max;
    uint64_t gets, bytes;
    enum err_code fail;  /* every call ends with this */
    uint64_t damaged_at; /* of pack 0: this byte is wrong in the next `damaged_times` answers */
    int damaged_times;
    bool damaged_everywhere; /* every byte of every answer is wrong */
    uint8_t *pattern;
};

void fake_init(struct fake *fake, uint64_t pack_count, uint64_t pack_bytes);
void fake_release(struct fake *fake); /* calls in flight are cancelled */
/* The right bytes. */
void fake_bytes(const struct fake *fake, uint64_t pack, uint64_t offset, void *out, size_t size);
/* A plain extent of those bytes. */
struct extent fake_extent(const struct fake *fake, uint64_t pack, uint64_t offset, uint32_t size);

#endif
