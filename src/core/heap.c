/* heap.c - tasks in the order in which they are due. */
#include "core/core_state.h"

#include "base/mem.h"

static bool before(const struct retry *a, const struct retry *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->task < b->task;
}

static void sift_up(struct retry_heap *heap, size_t at)
{
    struct retry item = heap->items[at];
    while (at > 0 && before(&item, &heap->items[(at - 1) / 2])) {
        heap->items[at] = heap->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->items[at] = item;
}

static void sift_down(struct retry_heap *heap, size_t at)
{
    struct retry item = heap->items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count) {
            break;
        }
        if (child + 1 < heap->count && before(&heap->items[child + 1], &heap->items[child])) {
            child++;
        }
        if (!before(&heap->items[child], &item)) {
            break;
        }
        heap->items[at] = heap->items[child];
        at = child;
    }
    heap->items[at] = item;
}

void heap_push(struct retry_heap *heap, int64_t due_ms, uint64_t task)
{
    VEC_PUSH(heap->items, heap->count, heap->cap) = (struct retry){.due_ms = due_ms, .task = task};
    sift_up(heap, heap->count - 1);
}

static void remove_at(struct retry_heap *heap, size_t at)
{
    heap->items[at] = heap->items[--heap->count];
    if (at < heap->count) {
        sift_down(heap, at);
        sift_up(heap, at);
    }
}

uint64_t heap_pop(struct retry_heap *heap)
{
    CHECK(heap->count > 0);
    uint64_t task = heap->items[0].task;
    remove_at(heap, 0);
    return task;
}

/* Dispatch takes the first; a replay, a cancel or a suspect may take one from anywhere. */
void heap_remove(struct retry_heap *heap, uint64_t task)
{
    size_t at = 0;
    while (at < heap->count && heap->items[at].task != task) {
        at++;
    }
    CHECK(at < heap->count);
    remove_at(heap, at);
}
