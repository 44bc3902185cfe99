/* master.h - the shell around the core: one loop that feeds it events and carries out its effects.
 *
 * The loop owns the core. Beside it run two actors: the keeper (store) and a node on this machine,
 * each in a thread of its own, reached by messages. Facts go to the keeper at once; what must wait
 * until they are durable (acknowledging a result, telling the user) waits in order.
 *
 * An observer is told what happens, in the loop's thread; it must not block for long.
 */
#ifndef MASTER_MASTER_H
#define MASTER_MASTER_H

#include "base/err.h"
#include "core/core.h"
#include "master/session.h"
#include "node/node.h"

#include <stdbool.h>

struct master;

/* One attempt began to run, ended, or was lost; state is the task's after that. */
struct master_task_event {
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    enum core_task_state state;
    enum core_outcome outcome;
    uint32_t code;
    const char *detail; /* why it could not start, which output is missing; or "" */
    int64_t started_ms;
    int64_t duration_us;
    int64_t cpu_us;
    uint64_t peak_rss_bytes;
    bool final; /* no further attempt */
};

struct master_observer {
    void *context;
    int refresh_ms; /* how often to call refresh; 0: never */
    void (*begun)(void *context, const struct master *master);
    void (*note)(void *context, const char *text); /* a line for the user, said once */
    void (*task)(void *context, const struct master *master, const struct master_task_event *event);
    void (*experiment)(void *context, const struct master *master, uint32_t experiment,
                       const struct core_experiment_view *view); /* as it was when it happened */
    void (*refresh)(void *context, const struct master *master);
};

struct master_options {
    struct session *session; /* its store is taken over; the rest is borrowed */
    const struct node_capacity *capacity;
    bool power_durable; /* --durable=power */
    const struct master_observer *observer;
};

enum master_end {
    MASTER_DONE,    /* the workflow ended; its state says how */
    MASTER_STOPPED, /* a signal; the state is kept */
    MASTER_BROKEN,  /* the store cannot go on; err says why */
};

enum master_end master_run(const struct master_options *options, struct err *err);

const struct session *master_session(const struct master *master);
const struct core *master_core(const struct master *master);
int64_t master_elapsed_ms(const struct master *master);
bool master_is_stopping(const struct master *master);

#endif
