/* core_state.h - what a core is made of. Included by src/core alone.
 *
 * apply.c changes lasting state (facts), decide.c answers inputs, dispatch.c places tasks,
 * snapshot.c saves and restores, view.c looks. Occupancy of nodes (struct node) is not lasting: it
 * follows assignments and reports, and is gone after a restart.
 */
#ifndef CORE_CORE_STATE_H
#define CORE_CORE_STATE_H

#include "core/core.h"

enum { TASK_HAS_OUTPUT = 1 };

struct task {
    int64_t started_ms;
    uint32_t duration_ms;
    uint32_t node;
    uint32_t term; /* of the newest attempt */
    uint16_t attempt;
    uint16_t failures;
    uint16_t losses;
    uint8_t state;
    uint8_t outcome;
    uint8_t code;
    uint8_t flags;
};
_Static_assert(sizeof(struct task) == 32, "a million tasks must stay near 32 MB");

/* A task that has been tried and waits for its next attempt. A heap by (due_ms, task). */
struct retry {
    int64_t due_ms;
    uint64_t task;
};

enum experiment_state {
    EXPERIMENT_WAITING,
    EXPERIMENT_READY,
    EXPERIMENT_ENDED,
};

struct experiment_state_data {
    struct core_experiment_spec spec; /* depends_on is our copy */
    enum experiment_state state;
    enum core_cancel_reason cancelled; /* 0: not */
    struct task *tasks;
    uint64_t next_fresh; /* tasks from here on were never tried */
    struct retry *retries;
    size_t retry_count;
    size_t retry_cap;
    uint64_t live; /* assigned or running */
    uint64_t running;
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled_count;
    uint64_t skipped;
    uint64_t attempts;
    double mean_us; /* of recent attempts, 0: not known; decides how far to prefetch */
};

struct workflow {
    uint64_t seed;
    int32_t priority;
    bool submitted;
    enum core_workflow_state state;
    struct experiment_state_data *experiments;
    size_t experiment_count;
};

/* An attempt that takes room on a node: from its assignment until the node says it ended, even if
 * the task was cancelled meanwhile. */
struct occupant {
    struct core_attempt id;
};

enum node_list { NODE_NONE, NODE_OPEN, NODE_PARKED };

struct node {
    bool joined;
    enum node_list list;
    uint32_t next; /* in its list; node number + 1, 0 at the end */
    uint32_t prev;
    struct core_resources capacity;
    struct core_resources used;
    struct occupant *occupants;
    size_t occupant_count;
    size_t occupant_cap;
};

/* An experiment with work to hand out, in order of service. */
struct ready_item {
    uint32_t workflow;
    uint32_t experiment;
};

struct core {
    uint64_t last_fact;
    uint32_t term;
    bool paused;
    struct workflow *workflows; /* workflow w is workflows[w - 1] */
    size_t workflow_count;
    size_t workflow_cap;
    struct node *nodes;
    size_t node_count;
    size_t node_cap;
    int64_t ticked_ms;  /* retries due up to here have been looked at */
    uint32_t open_head; /* nodes that may have room, first in first out */
    uint32_t open_tail;
    uint32_t parked_head; /* nodes for which nothing more was found */
    struct ready_item *ready;
    size_t ready_count;
    size_t ready_cap;
};

/* apply.c */
void apply_fact(struct core *core, const struct fact *fact); /* the fact is known to be valid */
struct workflow *core_workflow_at(const struct core *core, uint32_t workflow);
struct experiment_state_data *core_experiment_at(const struct core *core, uint32_t workflow,
                                                 uint32_t experiment);
void retry_push(struct experiment_state_data *experiment, int64_t due_ms, uint64_t task);
uint64_t retry_pop(struct experiment_state_data *experiment);
bool experiment_dependencies_done(const struct workflow *workflow,
                                  const struct experiment_state_data *experiment);
bool task_is_final(const struct task *task);

/* decide.c */
uint64_t emit(struct core *core, struct core_out *out, const struct fact *fact);
void effect_push(struct core_out *out, enum core_effect_kind kind, uint32_t node,
                 const struct core_attempt *id, uint64_t after);

/* dispatch.c */
void dispatch(struct core *core, int64_t now_ms, struct core_out *out);
void dispatch_new_work(struct core *core); /* parked nodes are worth another look */
void dispatch_node_open(struct core *core, uint32_t node);
void dispatch_node_remove(struct core *core, uint32_t node); /* from whatever list it is in */
void dispatch_rebuild_ready(struct core *core);
void node_release_attempt(struct core *core, uint32_t node, size_t occupant);
bool kind_fits(const struct core_resources *need, const struct core_resources *capacity);
bool resources_fit(const struct core_resources *need, const struct core_resources *capacity);

#endif
