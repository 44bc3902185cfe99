/* queue.h - events of a simulation in order of time, then of making. */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include "core/core.h"

#include <stdbool.h>

enum event_kind {
    EVENT_TASK_ENDS,   /* on the node */
    EVENT_REPORT,      /* reaches the master */
    EVENT_STRIKES,     /* the node is lost or cut off */
    EVENT_MENDED,      /* its cable is whole again */
    EVENT_HELLO,       /* it says what it has, because a message was lost */
    EVENT_BOOTS,       /* its successor is here */
    EVENT_HEARTBEATS,  /* of all nodes that can be heard */
    EVENT_MASTER_DIES, /* and begins anew from what it had written down */
    EVENT_TICK,        /* the core has asked for it */
};

#define EVENT_ANY_LIFE UINT32_MAX /* of an event that is no node's */

struct event {
    int64_t at_us;
    uint64_t serial; /* ties are broken by it, so that runs are the same everywhere */
    enum event_kind kind;
    uint32_t node;
    uint32_t life; /* of the node: events of a former life are void */
    uint32_t code; /* exit status of a task */
    bool killed;
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
