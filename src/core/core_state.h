/* core_state.h - what a core is made of. Included by src/core alone.
 *
 * apply.c changes lasting state (facts), replay.c does so with facts from a disk; decide.c answers
 * results, node.c what nodes do, term.c a restart, command.c what people ask for, suggest.c what a
 * search does; order.c says who is served first, room.c what fits where, dispatch.c and gang.c
 * place tasks; snapshot.c saves and restores, view.c looks, verify.c checks.
 *
 * Nodes (struct node), suspicion and readiness are not lasting: they follow from what the shell
 * says, and are gone after a restart.
 */
#ifndef CORE_CORE_STATE_H
#define CORE_CORE_STATE_H

#include "core/core.h"

enum { CORE_NODES_MAX = 1 << 20 }; /* node numbers are below */

enum task_flag {
    TASK_HAS_OUTPUT = 1,
    TASK_SUSPECT = 2,  /* live, and the lease of its node has lapsed; not lasting */
    TASK_LISTED = 4,   /* stands in the heap of suspects; not lasting */
    TASK_HELD = 8,     /* its node says that it has it; only within core_node_join */
    TASK_STOPPED = 16, /* succeeded because it was stopped early: nothing was accepted */
    TASK_LASTING = TASK_HAS_OUTPUT | TASK_STOPPED,
};

struct task {
    int64_t started_ms;   /* while it is live: when it was assigned */
    uint32_t duration_ms; /* while it runs: how much later it began (not lasting) */
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

/* A task (or the first of a gang) that waits for its next attempt. */
struct retry {
    int64_t due_ms;
    uint64_t task;
};

/* Ordered by (due_ms, task). */
struct retry_heap {
    struct retry *items;
    size_t count;
    size_t cap;
};

/* A gang: `gang` neighbouring tasks that start together. Between calls its unfinished members are
 * all live or none is, and none is unfinished once one has failed for good. */
struct group {
    int64_t due_ms;  /* not before: the latest of what its members have to wait for */
    uint32_t live;   /* members that are assigned or running */
    uint32_t queued; /* members that are in TASK_QUEUED */
};

enum experiment_state {
    EXPERIMENT_WAITING,
    EXPERIMENT_READY,
    EXPERIMENT_ENDED,
};

struct experiment_state_data {
    struct core_experiment_spec spec; /* depends_on is our copy; labels became label_ids */
    enum experiment_state state;
    enum core_cancel_reason cancelled; /* 0: not */
    bool was_skipped;                  /* as a whole; a search may have no task that could tell */
    bool closed;      /* no more tasks will be defined; always, if it is no search */
    uint64_t defined; /* tasks from here on do not exist yet; task_count, if it is no search */
    struct task *tasks;
    uint64_t next_fresh;       /* the first that was never tried and still waits; `defined`: none */
    uint64_t touched;          /* tasks from here on are as they were made */
    struct retry_heap retries; /* of tasks; in a gang experiment of groups, by their first task */
    uint64_t queued;           /* tasks in TASK_QUEUED */
    struct retry_heap suspects;
    uint64_t suspect_count; /* live tasks of nodes whose lease has lapsed */
    struct group *groups;   /* of a gang experiment: task_count / gang of them; else NULL */
    uint64_t gang_free;     /* members that fit on eligible nodes beside what is there */
    uint64_t gang_total;    /* members that would fit if these nodes were empty */
    uint32_t *label_ids;    /* in ascending order */
    size_t label_count;
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
    int64_t ended_ms;    /* 0: it runs, or was ended by a version that did not note it */
    uint64_t live_share; /* cpu_milli of its live attempts, each counting at least 1 */
    bool gang_waits; /* it has the gang of its priority that was the first to wait: it goes before
                        the others until that has started, or a stream of small tasks, whose
                        share sinks as the gang is waited for, would keep it out for ever */
    struct experiment_state_data *experiments;
    size_t experiment_count;
};

/* An attempt that takes room on a node: from its assignment until the node says it ended, even if
 * the task was cancelled meanwhile. Every live attempt is an occupant of its task's node. */
struct occupant {
    struct core_attempt id;
};

enum node_presence {
    NODE_ABSENT, /* never here, or lost: no occupants */
    NODE_AWAY,   /* has attempts from before the master's restart; has not joined since */
    NODE_HERE,
};

enum node_list { NODE_NONE, NODE_OPEN, NODE_PARKED };

struct room {
    uint64_t cpu_milli;
    uint64_t gpus;
    uint64_t memory_bytes;
};

/* Links are node number + 1, 0 at the end. */
struct node {
    enum node_presence presence;
    enum core_drain drain;
    bool suspect; /* the lease has lapsed */
    bool leased;  /* stands in the list of leases */
    enum node_list list;
    uint32_t next; /* in `list` */
    uint32_t prev;
    uint32_t lease_next;
    uint32_t lease_prev;
    int64_t heard_ms;
    struct core_resources capacity;
    struct room used;
    struct occupant *occupants;
    size_t occupant_count;
    size_t occupant_cap;
    char **labels; /* as the node gave them */
    size_t labels_given;
    uint32_t *label_ids; /* those that some experiment asks for, in ascending order */
    size_t label_count;
    size_t label_cap;
};

/* An experiment with work to hand out, in order of service. */
struct ready_item {
    uint32_t workflow;
    uint32_t experiment;
};

/* The ready experiments of one workflow: ready[first .. first + count). */
struct ready_group {
    uint32_t workflow;
    int32_t priority;
    size_t first;
    size_t count;
};

/* A label that some experiment asks for. Sorted by text; ids are given in order of appearance. */
struct label {
    char *text;
    uint32_t id;
};

struct core {
    uint64_t last_fact;
    uint32_t term;
    bool paused;
    int64_t lease_ms;           /* 0: for ever */
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
    uint32_t lease_head;  /* nodes by when they were last heard, longest ago first */
    uint32_t lease_tail;
    struct ready_item *ready;
    size_t ready_count;
    size_t ready_cap;
    struct ready_group *order; /* who is served first */
    size_t order_count;
    size_t order_cap;
    struct ready_item *gangs; /* those of `ready` that are gangs */
    size_t gang_count;
    size_t gang_cap;
    uint64_t gang_mark; /* which gangs stood in whose way at the last dispatch */
    struct label *labels;
    size_t label_count;
    size_t label_cap;
};

static inline bool task_is_final(const struct task *task)
{
    return task->state >= TASK_SUCCEEDED;
}

uint32_t task_clamp_ms(int64_t duration_ms); /* to what a task can hold */
static inline bool task_is_live(const struct task *task)
{
    return task->state == TASK_ASSIGNED || task->state == TASK_RUNNING;
}

static inline struct workflow *core_workflow_at(const struct core *core, uint32_t workflow)
{
    CHECK(workflow >= 1 && workflow <= core->workflow_count);
    return &core->workflows[workflow - 1];
}

static inline struct experiment_state_data *
core_experiment_at(const struct core *core, uint32_t workflow, uint32_t experiment)
{
    struct workflow *owner = core_workflow_at(core, workflow);
    CHECK(experiment < owner->experiment_count);
    return &owner->experiments[experiment];
}

/* core.c */
struct core_attempt core_attempt_of(const struct core *core, uint32_t workflow, uint32_t experiment,
                                    uint64_t task); /* the newest of the task */
bool core_names_a_task(const struct core *core, const struct core_attempt *id);
/* Whether it is the attempt whose result was accepted, from this node. */
bool core_attempt_was_accepted(const struct core *core, uint32_t node,
                               const struct core_attempt *id);
bool core_attempt_is_live(const struct core *core,
                          const struct core_attempt *id); /* any id at all */
uint64_t core_emit(struct core *core, struct core_out *out, const struct fact *fact);
void core_effect_push(struct core_out *out, enum core_effect_kind kind, uint32_t node,
                      const struct core_attempt *id, uint64_t after);

/* heap.c */
void heap_push(struct retry_heap *heap, int64_t due_ms, uint64_t task);
uint64_t heap_pop(struct retry_heap *heap);
void heap_remove(struct retry_heap *heap, uint64_t task); /* it is there, once */

/* apply.c */
void apply_fact(struct core *core, const struct fact *fact); /* the fact is known to be valid */
uint64_t task_share(const struct experiment_state_data *experiment);
bool experiment_is_complete(const struct experiment_state_data *experiment); /* nothing is left */
/* Whether a retry takes up a search that was cancelled or skipped before it had closed. */
bool experiment_can_search_on(const struct experiment_state_data *experiment,
                              enum fact_reopen which);
/* Whether a retry takes the task up again; of a gang, whether it takes up all of the group. */
bool experiment_can_reopen(const struct experiment_state_data *experiment, uint64_t task,
                           enum fact_reopen which);
bool task_can_reopen(const struct task *task, enum fact_reopen which);
bool experiment_dependencies_done(const struct workflow *workflow,
                                  const struct experiment_state_data *experiment);
bool workflow_all_ended(const struct workflow *workflow);
bool group_is_listed(const struct group *group);

/* suspect.c */
void suspect_set(struct experiment_state_data *experiment, uint64_t task);
void suspect_clear(struct experiment_state_data *experiment, struct task *task);
uint64_t suspect_first(struct experiment_state_data *experiment); /* there is one */

/* decide.c */
void decide_advance(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out);
bool experiment_dependency_failed(const struct workflow *workflow,
                                  const struct experiment_state_data *experiment);
int64_t decide_backoff_longest_ms(const struct core_experiment_spec *spec);
void decide_cancel_experiment(struct core *core, const struct core_attempt *about,
                              enum core_cancel_reason reason, int64_t now_ms, struct core_out *out);
/* The task, which is not final, and nothing that follows from it. Returns the fact. */
uint64_t decide_cancel_task(struct core *core, const struct core_attempt *about, int64_t now_ms,
                            struct core_out *out);
void decide_after_end(struct core *core, const struct core_attempt *id, uint64_t fact,
                      int64_t now_ms, struct core_out *out);
/* The live attempt is lost, with its gang, and all that follows from that. Its node is not told. */
void decide_lose(struct core *core, const struct core_attempt *id, bool blameless, int64_t now_ms,
                 struct core_out *out);
/* Only the fact, and a word to people. */
uint64_t decide_emit_lost(struct core *core, const struct core_attempt *id, uint32_t flags,
                          int64_t now_ms, struct core_out *out);

/* suggest.c */
/* Whether so many tasks may be defined in all from now on. */
bool suggestion_is_possible(const struct experiment_state_data *experiment, uint64_t defined);

/* gang.c */
void gang_break(struct core *core, const struct core_attempt *id, int64_t now_ms,
                struct core_out *out);
void gang_repair(struct core *core, uint32_t workflow, uint32_t experiment, int64_t now_ms,
                 struct core_out *out);
bool gang_stands_in_the_way(const struct core *core, const struct ready_item *item, int64_t now_ms);
bool gang_place_first(struct core *core, int64_t now_ms, struct core_out *out);
uint64_t gang_order_mark(const struct core *core, int64_t now_ms);
void gang_count_node(struct core *core, uint32_t node, bool is_in);
void gang_recount(struct core *core);
void gang_count_places(const struct core *core, const struct experiment_state_data *experiment,
                       uint64_t *free_out, uint64_t *total_out);

/* room.c */
bool room_kind_fits(const struct core_resources *need, const struct core_resources *capacity);
bool room_could_fit(const struct core_resources *need, const struct core_resources *capacity);
bool core_node_could_serve(const struct node *node, const struct experiment_state_data *experiment);
bool core_node_is_eligible(const struct node *node); /* may be given work */
bool core_node_has_room(const struct node *node, const struct experiment_state_data *experiment);
/* How many of its tasks fit at once, without prefetch, beside what is `used`; at most `most`. */
uint64_t core_node_places(const struct node *node, const struct experiment_state_data *experiment,
                          const struct room *used, uint64_t most);
void core_node_occupy(struct core *core, uint32_t node, const struct core_attempt *id);
void core_node_release(struct core *core, uint32_t node, size_t occupant);
size_t core_node_find_occupant(const struct node *node, const struct core_attempt *id);

/* label.c */
bool label_fits(const struct experiment_state_data *experiment, const struct node *node);
void label_intern_all(struct core *core, struct experiment_state_data *experiment,
                      const struct core_labels *labels);
void label_give(struct core *core, struct node *node, const struct core_labels *labels);
void label_release(struct node *node);

/* order.c */
void order_rebuild(struct core *core); /* after experiments became ready or ended */
void order_settle(struct core *core);  /* after live shares changed: least first */

/* dispatch.c */
void dispatch(struct core *core, int64_t now_ms, struct core_out *out);
void dispatch_new_work(struct core *core); /* parked nodes are worth another look */
void dispatch_node_open(struct core *core, uint32_t node);
void dispatch_node_remove(struct core *core, uint32_t node); /* from whatever list it is in */
void dispatch_node_settle(struct core *core, uint32_t node); /* parked, or full and in no list */
bool dispatch_retry_is_due(const struct experiment_state_data *experiment, int64_t now_ms);
void dispatch_assign(struct core *core, uint32_t node, const struct core_attempt *task,
                     int64_t now_ms, struct core_out *out);

/* node.c */
struct node *core_node_ensure(struct core *core, uint32_t node);
void core_node_lease_begin(struct core *core, uint32_t node, int64_t now_ms);
bool core_nodes_lapse(struct core *core, int64_t now_ms); /* true: something became suspect */
int64_t core_nodes_next_lapse_ms(const struct core *core);

/* Around every change of a node's room or eligibility. */
static inline void gang_node_out(struct core *core, uint32_t node)
{
    if (core->gang_count > 0) {
        gang_count_node(core, node, false);
    }
}

static inline void gang_node_in(struct core *core, uint32_t node)
{
    if (core->gang_count > 0) {
        gang_count_node(core, node, true);
    }
}

#endif
