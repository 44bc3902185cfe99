#include "volume/cache_memory.h"

#include "base/mem.h"
#include "base/rng.h"
#include "volume/container_map.h"

#include <stdlib.h>
#include <string.h>

enum {
    MARKS = 4,
    BUCKETS = 1024,
    AWAITED_MAX = 256, /* once so many came later, nobody waits for it any more */
    PASSED_MIN = 2,    /* so many came since it was read: whoever read it does not ask once more */
};

struct mark {
    uint64_t offset, checksum;
    uint32_t size; /* 0: none */
};

struct segment {
    struct container container;
    uint64_t offset;
    struct cache_body *body;
    bool awaited, passing;
    bool passed;              /* passing, and its last byte was used last: reading goes on */
    uint64_t number;          /* as which it came */
    uint64_t used;            /* how many had come when it was last used */
    struct mark marks[MARKS]; /* plain extents within it that have been checked */
    unsigned next_mark;
    struct segment *newer, *older;
};

struct segments { /* of one container, by offset, disjoint */
    struct segment **items;
    size_t count, cap;
};

struct decoded {
    struct extent extent;
    void *bytes;
    struct decoded *next; /* in its bucket */
    struct decoded *newer, *older;
};

struct cache_memory {
    size_t limit;
    size_t segment_bytes, decoded_bytes;
    uint64_t segments_added;
    struct container_map containers; /* → struct segments */
    struct segment *segment_newest, *segment_oldest;
    struct decoded *decoded_newest, *decoded_oldest;
    struct decoded *buckets[BUCKETS];
};

/* The same four lines for both lists; their members have the same names. */
#define LIST_REMOVE(newest, oldest, item)                                                          \
    do {                                                                                           \
        *((item)->newer ? &(item)->newer->older : &(newest)) = (item)->older;                      \
        *((item)->older ? &(item)->older->newer : &(oldest)) = (item)->newer;                      \
        (item)->newer = (item)->older = NULL;                                                      \
    } while (0)
#define LIST_ADD(newest, oldest, item)                                                             \
    do {                                                                                           \
        (item)->older = (newest);                                                                  \
        *((newest) ? &(newest)->newer : &(oldest)) = (item);                                       \
        (newest) = (item);                                                                         \
    } while (0)

struct cache_memory *cache_memory_create(size_t limit)
{
    struct cache_memory *memory = mem_alloc(sizeof *memory);
    memory->limit = limit;
    return memory;
}

/* -- segments --------------------------------------------------------------------------------- */

static uint64_t end_of(const struct segment *segment)
{
    return segment->offset + segment->body->bytes.size;
}

/* The first segment that ends behind `at`. */
static size_t first_behind(const struct segments *list, uint64_t at)
{
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end_of(list->items[middle]) > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static struct segment *find_segment(const struct cache_memory *memory,
                                    const struct container *container, uint64_t at)
{
    const struct segments *list = container_map_get(&memory->containers, container);
    size_t index = list ? first_behind(list, at) : 0;
    bool inside = list && index < list->count && list->items[index]->offset <= at;
    return inside ? list->items[index] : NULL;
}

static void drop_segment(struct cache_memory *memory, struct segment *segment)
{
    struct segments *list = container_map_get(&memory->containers, &segment->container);
    size_t index = first_behind(list, segment->offset);
    CHECK(list->items[index] == segment);
    memmove(list->items + index, list->items + index + 1,
            (list->count - index - 1) * sizeof list->items[0]);
    if (--list->count == 0) {
        container_map_remove(&memory->containers, &segment->container);
        free(list->items);
        free(list);
    }
    LIST_REMOVE(memory->segment_newest, memory->segment_oldest, segment);
    memory->segment_bytes -= segment->body->bytes.size;
    cache_body_drop(segment->body);
    free(segment);
}

static void drop_segments(struct cache_memory *memory, const struct container *container,
                          uint64_t begin, uint64_t end)
{
    uint64_t at = begin;
    while (at < end && cache_memory_next(memory, container, at) < end) {
        at = cache_memory_next(memory, container, at);
        drop_segment(memory, find_segment(memory, container, at));
    }
}

void cache_memory_add(struct cache_memory *memory, const struct container *container,
                      uint64_t offset, struct cache_body *body, unsigned how)
{
    if (body->bytes.size == 0) {
        return;
    }
    cache_body_hold(body);
    drop_segments(memory, container, offset, offset + body->bytes.size);
    struct segment *segment = mem_alloc(sizeof *segment);
    segment->container = *container;
    segment->offset = offset;
    segment->body = body;
    segment->awaited = how & CACHE_AWAITED;
    segment->passing = how & CACHE_PASSING;
    segment->number = memory->segments_added++;
    struct segments *list = container_map_get(&memory->containers, container);
    if (!list) {
        list = mem_alloc(sizeof *list);
        container_map_put(&memory->containers, container, list);
    }
    size_t index = first_behind(list, offset);
    VEC_PUSH(list->items, list->count, list->cap) = NULL;
    memmove(list->items + index + 1, list->items + index,
            (list->count - 1 - index) * sizeof list->items[0]);
    list->items[index] = segment;
    LIST_ADD(memory->segment_newest, memory->segment_oldest, segment);
    memory->segment_bytes += body->bytes.size;
}

/* Its bytes are used up to `end`. */
static void use_segment(struct cache_memory *memory, struct segment *segment, uint64_t end)
{
    segment->awaited = false;
    segment->passed = segment->passing && end >= end_of(segment);
    segment->used = memory->segments_added;
    if (memory->segment_newest != segment) {
        LIST_REMOVE(memory->segment_newest, memory->segment_oldest, segment);
        LIST_ADD(memory->segment_newest, memory->segment_oldest, segment);
    }
}

const uint8_t *cache_memory_at(struct cache_memory *memory, const struct container *container,
                               uint64_t at, size_t *size)
{
    struct segment *segment = find_segment(memory, container, at);
    if (!segment) {
        return NULL;
    }
    use_segment(memory, segment, at + *size);
    *size = (size_t)(end_of(segment) - at);
    return (const uint8_t *)segment->body->bytes.text + (at - segment->offset);
}

uint64_t cache_memory_covered_to(const struct cache_memory *memory,
                                 const struct container *container, uint64_t at)
{
    const struct segment *segment = find_segment(memory, container, at);
    return segment ? end_of(segment) : at;
}

uint64_t cache_memory_next(const struct cache_memory *memory, const struct container *container,
                           uint64_t at)
{
    const struct segments *list = container_map_get(&memory->containers, container);
    size_t index = list ? first_behind(list, at) : 0;
    if (!list || index == list->count) {
        return UINT64_MAX;
    }
    return list->items[index]->offset > at ? list->items[index]->offset : at;
}

/* -- decoded extents -------------------------------------------------------------------------- */

static struct decoded **bucket_of(struct cache_memory *memory, const struct container *container,
                                  uint64_t offset)
{
    return &memory
                ->buckets[rng_mix(2, container->number ^ (uint64_t)container->term << 32, offset) %
                          BUCKETS];
}

static bool same_bytes(const struct extent *a, const struct extent *b)
{
    return a->offset == b->offset && a->checksum == b->checksum &&
           a->stored_size == b->stored_size && a->whole == b->whole && a->codec == b->codec &&
           container_equal(&a->container, &b->container);
}

static struct decoded *find_decoded(struct cache_memory *memory, const struct extent *extent)
{
    struct decoded *item = *bucket_of(memory, &extent->container, extent->offset);
    while (item && !same_bytes(&item->extent, extent)) {
        item = item->next;
    }
    return item;
}

static void drop_decoded(struct cache_memory *memory, struct decoded *item)
{
    struct decoded **link = bucket_of(memory, &item->extent.container, item->extent.offset);
    while (*link != item) {
        link = &(*link)->next;
    }
    *link = item->next;
    LIST_REMOVE(memory->decoded_newest, memory->decoded_oldest, item);
    memory->decoded_bytes -= item->extent.whole;
    free(item->bytes);
    free(item);
}

void cache_memory_keep(struct cache_memory *memory, const struct extent *extent, void *decoded)
{
    struct decoded *old = find_decoded(memory, extent);
    if (old) {
        drop_decoded(memory, old);
    }
    struct decoded *item = mem_alloc(sizeof *item);
    item->extent = *extent;
    item->bytes = decoded;
    struct decoded **bucket = bucket_of(memory, &extent->container, extent->offset);
    item->next = *bucket;
    *bucket = item;
    LIST_ADD(memory->decoded_newest, memory->decoded_oldest, item);
    memory->decoded_bytes += extent->whole;
}

static const void *find_marked(struct cache_memory *memory, const struct extent *extent)
{
    struct segment *segment = extent->codec == EXTENT_PLAIN
                                  ? find_segment(memory, &extent->container, extent->offset)
                                  : NULL;
    for (unsigned i = 0; segment && i < MARKS; i++) {
        const struct mark *mark = &segment->marks[i];
        if (mark->size == extent->stored_size && mark->offset == extent->offset &&
            mark->checksum == extent->checksum) {
            use_segment(memory, segment, extent->offset + extent->stored_size);
            return segment->body->bytes.text + (extent->offset - segment->offset);
        }
    }
    return NULL;
}

const void *cache_memory_extent(struct cache_memory *memory, const struct extent *extent)
{
    struct decoded *item = find_decoded(memory, extent);
    if (!item) {
        return find_marked(memory, extent);
    }
    if (memory->decoded_newest != item) {
        LIST_REMOVE(memory->decoded_newest, memory->decoded_oldest, item);
        LIST_ADD(memory->decoded_newest, memory->decoded_oldest, item);
    }
    return item->bytes;
}

void cache_memory_mark(struct cache_memory *memory, const struct extent *extent)
{
    struct segment *segment = find_segment(memory, &extent->container, extent->offset);
    CHECK(segment);
    CHECK(extent->offset + extent->stored_size <= end_of(segment));
    segment->marks[segment->next_mark++ % MARKS] =
        (struct mark){extent->offset, extent->checksum, extent->stored_size};
}

/* -- both ------------------------------------------------------------------------------------- */

void cache_memory_drop(struct cache_memory *memory, const struct container *container,
                       uint64_t offset, size_t size)
{
    drop_segments(memory, container, offset, offset + size);
    struct decoded *item = memory->decoded_oldest;
    while (item) {
        struct decoded *newer = item->newer;
        const struct extent *extent = &item->extent;
        if (container_equal(&extent->container, container) && extent->offset < offset + size &&
            offset < extent->offset + extent->stored_size) {
            drop_decoded(memory, item);
        }
        item = newer;
    }
}

static bool is_needed(const struct cache_memory *memory, const struct segment *segment)
{
    bool awaited = segment->awaited && memory->segments_added - segment->number <= AWAITED_MAX;
    return awaited || segment->body->holders > 1;
}

/* Drops segments, the least lately used first, until all fits; passed: only such. */
static void trim_segments(struct cache_memory *memory, size_t fixed, bool passed)
{
    struct segment *segment = memory->segment_oldest;
    while (segment && segment != memory->segment_newest &&
           memory->segment_bytes + fixed > memory->limit) {
        struct segment *newer = segment->newer;
        bool is_past = segment->passed && memory->segments_added - segment->used > PASSED_MIN;
        if ((is_past || !passed) &&
            (!is_needed(memory, segment) || memory->segment_bytes + fixed > 2 * memory->limit)) {
            drop_segment(memory, segment);
        }
        segment = newer;
    }
}

void cache_memory_trim(struct cache_memory *memory, size_t other_bytes)
{
    while (memory->decoded_bytes > memory->limit / 4 &&
           memory->decoded_oldest != memory->decoded_newest) {
        drop_decoded(memory, memory->decoded_oldest);
    }
    size_t fixed = memory->decoded_bytes + other_bytes;
    trim_segments(memory, fixed, true);
    trim_segments(memory, fixed, false);
}

size_t cache_memory_bytes(const struct cache_memory *memory)
{
    return memory->segment_bytes + memory->decoded_bytes;
}

void cache_memory_destroy(struct cache_memory *memory)
{
    if (!memory) {
        return;
    }
    while (memory->segment_oldest) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        drop_segment(memory, memory->segment_oldest);
    }
    while (memory->decoded_oldest) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it does not see an item leave the list
        drop_decoded(memory, memory->decoded_oldest);
    }
    container_map_release(&memory->containers);
    free(memory);
}
