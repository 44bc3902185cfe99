/* suspect.c - live tasks whose node has fallen silent: work that may be handed out again.
 *
 * The count is exact. The heap may also hold tasks that are suspect no more; they fall out when
 * they come to the top, or when they are the most of it.
 */
#include "core/core_state.h"

enum { STALE_SPARE = 64 };

static void compact(struct experiment_state_data *experiment)
{
    struct retry_heap *heap = &experiment->suspects;
    size_t count = heap->count;
    heap->count = 0;
    for (size_t i = 0; i < count; i++) { /* writes never overtake reads */
        struct task *task = &experiment->tasks[heap->items[i].task];
        if (task->flags & TASK_SUSPECT) {
            heap_push(heap, 0, heap->items[i].task);
        } else {
            task->flags &= (uint8_t)~TASK_LISTED;
        }
    }
}

void suspect_set(struct experiment_state_data *experiment, uint64_t number)
{
    struct task *task = &experiment->tasks[number];
    CHECK(task_is_live(task));
    CHECK(!(task->flags & TASK_SUSPECT));
    if (experiment->suspects.count > 2 * experiment->suspect_count + STALE_SPARE) {
        compact(experiment);
    }
    experiment->suspect_count++;
    if (!(task->flags & TASK_LISTED)) {
        heap_push(&experiment->suspects, 0, number);
    }
    task->flags |= TASK_SUSPECT | TASK_LISTED;
}

void suspect_clear(struct experiment_state_data *experiment, struct task *task)
{
    if (task->flags & TASK_SUSPECT) {
        CHECK(experiment->suspect_count > 0);
        experiment->suspect_count--;
        task->flags &= (uint8_t)~TASK_SUSPECT;
    }
}

uint64_t suspect_first(struct experiment_state_data *experiment)
{
    CHECK(experiment->suspect_count > 0);
    struct retry_heap *heap = &experiment->suspects;
    CHECK(heap->count > 0);
    while (!(experiment->tasks[heap->items[0].task].flags & TASK_SUSPECT)) {
        experiment->tasks[heap_pop(heap)].flags &= (uint8_t)~TASK_LISTED;
        CHECK(heap->count > 0);
    }
    return heap->items[0].task;
}
