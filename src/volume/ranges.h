/* ranges.h - a set of byte positions, kept as sorted ranges that neither touch nor overlap.
 *
 * `struct ranges r = {0};` is the empty set. Ranges are half-open: [begin, end). Pure code; the
 * owner calls ranges_release.
 */
#ifndef VOLUME_RANGES_H
#define VOLUME_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
    uint64_t begin, end;
};

struct ranges {
    struct range *items;
    size_t count, cap;
    uint64_t bytes; /* of all of them */
};

void ranges_release(struct ranges *ranges);
void ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end);    /* begin <= end */
void ranges_remove(struct ranges *ranges, uint64_t begin, uint64_t end); /* begin <= end */
/* The end of the range that holds `at`; `at` itself if none does. */
uint64_t ranges_covered_to(const struct ranges *ranges, uint64_t at);
/* The first position in the set at or behind `at`; UINT64_MAX: none. */
uint64_t ranges_next(const struct ranges *ranges, uint64_t at);

#endif
