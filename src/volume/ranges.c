#include "volume/ranges.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void ranges_release(struct ranges *ranges)
{
    if (ranges) {
        free(ranges->items);
        *ranges = (struct ranges){0};
    }
}

/* The first range that ends at or behind `at` (touching: counting its end as inside). */
static size_t first_to(const struct ranges *ranges, uint64_t at, bool touching)
{
    size_t low = 0;
    size_t high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t end = ranges->items[middle].end;
        if (end > at || (touching && end == at)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Replaces the ranges [from, to) by `fresh_count` ones. */
static void splice(struct ranges *ranges, size_t from, size_t to, const struct range *fresh,
                   size_t fresh_count)
{
    for (size_t i = from; i < to; i++) {
        ranges->bytes -= ranges->items[i].end - ranges->items[i].begin;
    }
    while (ranges->count - (to - from) + fresh_count > ranges->cap) {
        ranges->cap = ranges->cap ? ranges->cap * 2 : 8;
        ranges->items = mem_resize(ranges->items, ranges->cap, sizeof ranges->items[0]);
    }
    if (ranges->count > to) {
        memmove(ranges->items + from + fresh_count, ranges->items + to,
                (ranges->count - to) * sizeof ranges->items[0]);
    }
    for (size_t i = 0; i < fresh_count; i++) {
        ranges->items[from + i] = fresh[i];
        ranges->bytes += fresh[i].end - fresh[i].begin;
    }
    ranges->count = ranges->count - (to - from) + fresh_count;
}

void ranges_add(struct ranges *ranges, uint64_t begin, uint64_t end)
{
    CHECK(begin <= end);
    if (begin == end) {
        return;
    }
    size_t from = first_to(ranges, begin, true);
    size_t to = from;
    struct range joined = {begin, end};
    while (to < ranges->count && ranges->items[to].begin <= end) {
        joined.begin =
            ranges->items[to].begin < joined.begin ? ranges->items[to].begin : joined.begin;
        joined.end = ranges->items[to].end > joined.end ? ranges->items[to].end : joined.end;
        to++;
    }
    splice(ranges, from, to, &joined, 1);
}

void ranges_remove(struct ranges *ranges, uint64_t begin, uint64_t end)
{
    CHECK(begin <= end);
    size_t from = first_to(ranges, begin, false);
    size_t to = from;
    struct range left[2];
    size_t left_count = 0;
    while (to < ranges->count && ranges->items[to].begin < end) {
        struct range old = ranges->items[to++];
        if (old.begin < begin) {
            left[left_count++] = (struct range){old.begin, begin};
        }
        if (old.end > end) {
            left[left_count++] = (struct range){end, old.end};
        }
    }
    if (to > from && begin < end) {
        splice(ranges, from, to, left, left_count);
    }
}

uint64_t ranges_covered_to(const struct ranges *ranges, uint64_t at)
{
    size_t index = first_to(ranges, at, false);
    bool inside = index < ranges->count && ranges->items[index].begin <= at;
    return inside ? ranges->items[index].end : at;
}

uint64_t ranges_next(const struct ranges *ranges, uint64_t at)
{
    size_t index = first_to(ranges, at, false);
    if (index == ranges->count) {
        return UINT64_MAX;
    }
    return ranges->items[index].begin > at ? ranges->items[index].begin : at;
}
