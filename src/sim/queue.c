#include "sim/queue.h"

#include "base/mem.h"

#include <stdlib.h>

static bool before(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->serial < b->serial;
}

void queue_push(struct queue *queue, const struct event *event)
{
    VEC_PUSH(queue->items, queue->count, queue->cap) = *event;
    size_t at = queue->count - 1;
    struct event item = *event;
    item.serial = queue->serial++;
    while (at > 0 && before(&item, &queue->items[(at - 1) / 2])) {
        queue->items[at] = queue->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->items[at] = item;
}

bool queue_pop(struct queue *queue, struct event *out)
{
    if (queue->count == 0) {
        return false;
    }
    *out = queue->items[0];
    struct event moved = queue->items[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count) {
            break;
        }
        if (child + 1 < queue->count && before(&queue->items[child + 1], &queue->items[child])) {
            child++;
        }
        if (!before(&queue->items[child], &moved)) {
            break;
        }
        queue->items[at] = queue->items[child];
        at = child;
    }
    queue->items[at] = moved;
    return true;
}

void queue_release(struct queue *queue)
{
    free(queue->items);
    *queue = (struct queue){0};
}
