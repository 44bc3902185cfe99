#include "mount/draft.h"

#include "base/check.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = EXTENT_BYTES_MAX };

void draft_init(struct draft *draft, uint64_t base_size)
{
    *draft = (struct draft){.size = base_size, .base_end = base_size, .base_size = base_size};
}

void draft_release(struct draft *draft)
{
    for (size_t i = 0; i < draft->count; i++) {
        free(draft->segments[i].bytes);
    }
    free(draft->segments);
    *draft = (struct draft){0};
}

bool draft_is_clean(const struct draft *draft)
{
    return draft->count == 0 && draft->size == draft->base_size &&
           draft->base_end == draft->base_size;
}

static uint64_t end_of(const struct draft_segment *segment)
{
    return segment->offset + segment->size;
}

size_t draft_find(const struct draft *draft, uint64_t offset)
{
    size_t low = 0;
    size_t high = draft->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (end_of(&draft->segments[middle]) <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct draft_segment *insert(struct draft *draft, size_t index)
{
    (void)VEC_PUSH(draft->segments, draft->count, draft->cap);
    memmove(&draft->segments[index + 1], &draft->segments[index],
            (draft->count - 1 - index) * sizeof draft->segments[0]);
    draft->segments[index] = (struct draft_segment){0};
    return &draft->segments[index];
}

static void drop(struct draft *draft, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct draft_segment *segment = &draft->segments[i];
        if (segment->kind == DRAFT_MEMORY) {
            draft->memory_bytes -= segment->size;
            free(segment->bytes);
        }
    }
    memmove(&draft->segments[first], &draft->segments[first + count],
            (draft->count - first - count) * sizeof draft->segments[0]);
    draft->count -= count;
}

/* Keeps only the bytes of a segment from `offset` on. */
static void cut_front(struct draft *draft, struct draft_segment *segment, uint64_t offset)
{
    uint64_t gone = offset - segment->offset;

    if (segment->kind == DRAFT_MEMORY) {
        memmove(segment->bytes, segment->bytes + gone, segment->size - gone);
        draft->memory_bytes -= gone;
    } else if (segment->kind == DRAFT_PLACED) {
        segment->extent.file_offset += gone;
        segment->extent.skip += (uint32_t)gone;
        segment->extent.size -= (uint32_t)gone;
    }
    segment->offset = offset;
    segment->size -= gone;
}

/* Keeps only the bytes before `end`. */
static void cut_back(struct draft *draft, struct draft_segment *segment, uint64_t end)
{
    uint64_t gone = end_of(segment) - end;

    if (segment->kind == DRAFT_MEMORY) {
        draft->memory_bytes -= gone;
    } else if (segment->kind == DRAFT_PLACED) {
        segment->extent.size -= (uint32_t)gone;
    }
    segment->size -= gone;
}

/* One segment that holds [offset, end) in its middle becomes two around it. */
static void split(struct draft *draft, size_t index, uint64_t offset, uint64_t end)
{
    struct draft_segment *right = insert(draft, index + 1);
    struct draft_segment *left = &draft->segments[index];

    *right = *left;
    if (left->kind == DRAFT_MEMORY) {
        right->bytes = mem_dup(left->bytes, left->size);
        right->cap = left->size;
        draft->memory_bytes += left->size;
    }
    cut_front(draft, right, end);
    cut_back(draft, left, offset);
}

/* Nothing of the draft lies in [offset, end) afterwards. Returns where a segment there belongs. */
static size_t carve(struct draft *draft, uint64_t offset, uint64_t end)
{
    size_t index = draft_find(draft, offset);
    if (index == draft->count || offset == end) {
        return index;
    }
    struct draft_segment *segment = &draft->segments[index];
    if (segment->offset < offset && end_of(segment) > end) {
        split(draft, index, offset, end);
        return index + 1;
    }
    if (segment->offset < offset) {
        cut_back(draft, segment, offset);
        index++;
    }
    size_t last = index;
    while (last < draft->count && end_of(&draft->segments[last]) <= end) {
        last++;
    }
    drop(draft, index, last - index);
    if (index < draft->count && draft->segments[index].offset < end) {
        cut_front(draft, &draft->segments[index], end);
    }
    return index;
}

static void grow(struct draft_segment *segment, size_t size)
{
    if (size <= segment->cap) {
        return;
    }
    size_t cap = segment->cap * 2 > size ? segment->cap * 2 : size;
    segment->cap = cap < WINDOW ? cap : WINDOW;
    segment->bytes = mem_resize(segment->bytes, segment->cap, 1);
}

/* A MEMORY segment of this window that [offset, ...) begins in or right behind; NULL: none. */
static struct draft_segment *touching(struct draft *draft, uint64_t offset)
{
    size_t index = draft_find(draft, offset);
    struct draft_segment *segment = NULL;

    if (index < draft->count && draft->segments[index].offset <= offset) {
        segment = &draft->segments[index];
    } else if (index > 0 && end_of(&draft->segments[index - 1]) == offset) {
        segment = &draft->segments[index - 1];
    }
    bool fits =
        segment && segment->kind == DRAFT_MEMORY && segment->offset / WINDOW == offset / WINDOW;
    return fits ? segment : NULL;
}

/* Within one window. */
static void write_piece(struct draft *draft, uint64_t offset, const uint8_t *data, size_t size)
{
    struct draft_segment *segment = touching(draft, offset);
    uint64_t end = offset + size;

    if (segment == NULL) {
        segment = insert(draft, carve(draft, offset, end));
        segment->offset = offset;
        segment->kind = DRAFT_MEMORY;
    } else if (end > end_of(segment)) {
        uint64_t from = end_of(segment);
        uint64_t start = segment->offset;
        carve(draft, from, end); /* lies behind, but may move what the pointer points to */
        segment = &draft->segments[draft_find(draft, start)];
    }
    uint64_t need = end - segment->offset;
    if (need > segment->size) {
        grow(segment, need);
        draft->memory_bytes += need - segment->size;
        segment->size = need;
    }
    memcpy(segment->bytes + (offset - segment->offset), data, size);
}

void draft_write(struct draft *draft, uint64_t offset, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    CHECK(offset + size >= offset);
    while (size > 0) {
        size_t room = WINDOW - (size_t)(offset % WINDOW);
        size_t piece = size < room ? size : room;
        write_piece(draft, offset, bytes, piece);
        offset += piece;
        bytes += piece;
        size -= piece;
    }
    if (draft->size < offset) {
        draft->size = offset;
    }
}

void draft_truncate(struct draft *draft, uint64_t size)
{
    if (size < draft->size) {
        carve(draft, size, UINT64_MAX);
    }
    if (draft->base_end > size) {
        draft->base_end = size;
    }
    draft->size = size;
}

void draft_punch(struct draft *draft, uint64_t offset, uint64_t size)
{
    if (offset >= draft->size || size == 0) {
        return;
    }
    uint64_t end = size > draft->size - offset ? draft->size : offset + size;
    struct draft_segment *segment = insert(draft, carve(draft, offset, end));
    segment->offset = offset;
    segment->size = end - offset;
    segment->kind = DRAFT_HOLE;
}

void draft_placed(struct draft *draft, size_t index, const struct extent *extent)
{
    struct draft_segment *segment = &draft->segments[index];

    CHECK(segment->kind == DRAFT_MEMORY);
    CHECK(extent->size == segment->size);
    draft->memory_bytes -= segment->size;
    free(segment->bytes);
    segment->bytes = NULL;
    segment->cap = 0;
    segment->kind = DRAFT_PLACED;
    segment->extent = *extent;
}

struct extents {
    struct extent *items;
    size_t count, cap;
};

/* Holes of any length, in pieces that an extent can say. */
static void add_hole(struct extents *extents, uint64_t offset, uint64_t end)
{
    while (offset < end) {
        uint64_t size = end - offset < (1U << 30) ? end - offset : 1U << 30;
        VEC_PUSH(extents->items, extents->count, extents->cap) =
            (struct extent){.file_offset = offset, .size = (uint32_t)size};
        offset += size;
    }
}

size_t draft_extents(const struct draft *draft, struct extent **out)
{
    struct extents extents = {0};
    uint64_t hidden = draft->base_end; /* the base is hidden from here to base_size */

    for (size_t i = 0; i < draft->count; i++) {
        const struct draft_segment *segment = &draft->segments[i];
        if (hidden < draft->base_size && segment->offset > hidden) {
            uint64_t end = segment->offset < draft->base_size ? segment->offset : draft->base_size;
            add_hole(&extents, hidden, end);
        }
        if (end_of(segment) > hidden) {
            hidden = end_of(segment);
        }
        if (segment->kind == DRAFT_HOLE) {
            add_hole(&extents, segment->offset, end_of(segment));
        } else if (segment->kind == DRAFT_MEMORY) {
            VEC_PUSH(extents.items, extents.count, extents.cap) =
                (struct extent){.file_offset = segment->offset,
                                .size = (uint32_t)segment->size,
                                .container = {.kind = DRAFT_UNPLACED, .number = i}};
        } else {
            VEC_PUSH(extents.items, extents.count, extents.cap) = segment->extent;
        }
    }
    uint64_t end = draft->size < draft->base_size ? draft->size : draft->base_size;
    if (hidden < end) {
        add_hole(&extents, hidden, end);
    }
    *out = extents.items;
    return extents.count;
}
