/* queue.h - events of a simulation in order of time, then of making. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "core/core.h"

#include <stdbool.h>

enum event_kind {
    EVENT_TASK_ENDS, /* on the node */
    EVENT_REPORT,    /* reaches the master */
    EVENT_STRIKES,   /* the node is lost or cut off */
    EVENT_LAPSES,    /* its lease runs out */
    EVENT_HEALS,     /* the cable is mended */
    EVENT_JOINS,
};

struct event {
    int64_t at_us;
    uint64_t serial; /* ties are broken by it, so that runs are the same everywhere */
    enum event_kind kind;
    uint32_t node;
    uint32_t life; /* of the node: events of a former life are void */
    uint32_t code; /* exit status of a task */
    int64_t began_us;
    struct core_attempt id;
};

struct queue {
    struct event *items;
    size_t count;
    size_t cap;
    uint64_t serial;
};

void queue_push(struct queue *queue, const struct event *event);
bool queue_pop(struct queue *queue, struct event *out);
void queue_release(struct queue *queue);

#endif
