/* Which containers hold extents that somebody has been given and has not yet made use of. A record
 * may say that such a container is dead, since nothing refers to it yet (or nothing any more), and
 * still it must not be deleted. */
#include "base/mem.h"
#include "volume/volume_internal.h"

#include <string.h>

static int compare(const struct container *a, const struct container *b)
{
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Of the first item that is not below. */
static size_t position(const struct volume_placed *placed, const struct container *container)
{
    size_t low = 0;
    size_t high = placed->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&placed->items[middle].container, container) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct placed_container *find(const struct volume_placed *placed,
                                     const struct container *container)
{
    size_t at = position(placed, container);
    bool found = at < placed->count && container_equal(&placed->items[at].container, container);
    return found ? &placed->items[at] : NULL;
}

void volume_note_placed(struct volume_placed *placed, const struct container *container)
{
    struct placed_container *item = find(placed, container);
    if (item == NULL) {
        size_t at = position(placed, container);
        VEC_PUSH(placed->items, placed->count, placed->cap) = (struct placed_container){0};
        item = &placed->items[at];
        memmove(item + 1, item, (placed->count - 1 - at) * sizeof *item);
        *item = (struct placed_container){.container = *container};
    }
    item->extents++;
}

bool volume_is_awaited(const struct volume_placed *placed, const struct container *container)
{
    return find(placed, container) != NULL;
}

void volume_written(struct volume *volume, const struct extent *extents, size_t count)
{
    struct volume_placed *placed = &volume->placed;
    for (size_t i = 0; i < count; i++) {
        struct placed_container *item = find(placed, &extents[i].container);
        if (item != NULL && --item->extents == 0) {
            size_t at = (size_t)(item - placed->items);
            placed->count--;
            memmove(item, item + 1, (placed->count - at) * sizeof *item);
        }
    }
}
