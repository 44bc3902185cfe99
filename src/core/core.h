/* core.h - the scheduler: a deterministic state machine with no I/O, no clock and no threads.
 *
 * The shell tells it what happened (core_submit, core_node_join, core_task_ended, core_tick...),
 * each call with the time; it decides, and answers with *facts* to log and *effects* to carry out.
 * Every change of lasting state is a fact, and core_apply alone turns facts into state: deciding is
 * "emit a fact and apply it", restarting is "apply the log". So upgraded code never re-decides the
 * past, and a simulator runs the very same code.
 *
 * What holds after every call:
 *  - a task has at most one live attempt; its fence is (term, attempt);
 *  - a result is accepted iff its fence is live and nothing was accepted before: exactly once;
 *  - losing a node (or a stop) never uses up `retries`; `crash_limit` bounds it;
 *  - a node whose lease has lapsed is suspect: its attempts stay live, but may be replaced; a
 *    suspect attempt leaves the live set (LOST) only when its replacement is assigned;
 *  - a searched experiment has as many tasks as were suggested, and ends once it is closed and all
 *    of them are final;
 *  - a gang starts in one call or not at all, and no member of it stays live without the others;
 *  - order: priority, then the workflow with the least live (cpu of its attempts), then the order
 *    submitted, then the order of experiments; within one, suspects, then retries that are due,
 *    then fresh tasks by number. While a gang waits for room that exists but is taken, nothing
 *    behind it is started on a node that could serve it.
 *
 * One thread owns a core. Time is in milliseconds, never goes back, and is comparable between runs
 * (the shell anchors a steady clock to the date). Memory: about 32 bytes a task.
 */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include "base/str.h"
#include "core/fact.h"

#include <stdbool.h>

struct core;

enum { CORE_GPU_KIND_MAX = 64 };

struct core_resources {
    uint32_t cpu_milli;
    uint32_t gpus;
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    char gpu_kind[CORE_GPU_KIND_MAX]; /* "": any (a need), none (a node) */
};

/* Short words, "zone=a" or "fast". A node with name N has "node=N" among its own. */
struct core_labels {
    const char *const *items;
    size_t count;
};

struct core_experiment_spec {
    uint64_t task_count;
    bool searched; /* its tasks are defined one after another by core_suggest; task_count is the
                      most there can be. A failure is a result like others: it is spoilt (for what
                      depends on it, and the workflow's end) only if none of its tasks succeeded or
                      it was cancelled as a whole. */
    struct core_resources needs;
    struct core_labels labels; /* a node must have all of them */
    uint32_t gang;    /* tasks [k * gang, (k + 1) * gang) start together or not at all; 0, 1: alone.
                         If one fails or is lost, those not accepted are stopped and try again
                         together; if one fails for good, the others are cancelled. task_count is a
                         multiple of it. */
    uint32_t workers; /* most attempts at once; 0: no cap */
    const uint32_t *depends_on;
    size_t depends_count;
    bool allow_failure;
    uint32_t retries;
    int64_t backoff_ms;
    uint64_t max_failures; /* 0: no limit */
    uint32_t crash_limit;  /* 0: no limit */
};

struct core_workflow_spec {
    uint64_t seed; /* of the jitter in back-off */
    int32_t priority;
    const struct core_experiment_spec *experiments;
    size_t experiment_count;
};

enum core_task_state {
    TASK_WAITING, /* its experiment's dependencies are not done */
    TASK_QUEUED,
    TASK_ASSIGNED,
    TASK_RUNNING,
    TASK_SUCCEEDED,
    TASK_FAILED,
    TASK_CANCELLED,
    TASK_SKIPPED,
};

enum core_workflow_state {
    WORKFLOW_RUNNING,
    WORKFLOW_SUCCEEDED,
    WORKFLOW_FAILED,
    WORKFLOW_CANCELLED,
};

/* Values are those of Outcome in proto/drover.proto; the log keeps them for ever. */
enum core_outcome {
    OUT_NONE = 0,
    OUT_EXITED = 1,
    OUT_SIGNALLED = 2,
    OUT_TIMEOUT = 3,
    OUT_OUT_OF_MEMORY = 4,
    OUT_NOT_STARTED = 5,
    OUT_OUTPUT_MISSING = 6,
    OUT_KILLED = 7,
    OUT_SLOT_LOST = 8,
    OUT_NODE_LOST = 9, /* the master's own word for an attempt whose node is gone */
};

/* Why an experiment was cancelled. */
enum core_cancel_reason { CANCEL_ASKED = 1, CANCEL_TOO_MANY_FAILURES = 2 };

/* One attempt of one task, with its fence. */
struct core_attempt {
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    uint32_t term;
};

enum core_effect_kind {
    EFFECT_START,      /* send to the node; now */
    EFFECT_KILL,       /* the attempt is no longer wanted; now */
    EFFECT_SETTLED,    /* tell the node its result was accepted or refused */
    EFFECT_TASK,       /* for people: the task's state changed (result, loss, retry) */
    EFFECT_EXPERIMENT, /* for people: the experiment began or ended */
    EFFECT_WORKFLOW,   /* it ended */
};

struct core_effect {
    enum core_effect_kind kind;
    uint32_t node;
    struct core_attempt id;
    bool accepted;
    uint64_t after; /* carry out once this fact is durable; 0: now */
};

/* What a call decided. The caller zeroes it once, empties it with core_out_clear between uses and
 * frees it with core_out_release. Facts are numbered on from core_last_fact. */
struct core_out {
    struct fact *facts;
    size_t fact_count;
    size_t fact_cap;
    struct core_effect *effects;
    size_t effect_count;
    size_t effect_cap;
};

void core_out_clear(struct core_out *out);
void core_out_release(struct core_out *out);

struct core *core_create(void);
void core_destroy(struct core *core); /* NULL does nothing */

/* --- restart ------------------------------------------------------------------------------- */

/* Makes workflow number `workflow` (from 1, in order) known; its facts may then be applied. The
 * spec is copied. */
void core_define(struct core *core, uint32_t workflow, const struct core_workflow_spec *spec);

/* Updates the state by one logged fact. ERR_CORRUPT: it contradicts the state. */
MUST_USE enum err_code core_apply(struct core *core, const struct fact *fact, struct err *err);

/* The whole state as bytes, and back into a core with the same workflows defined, perhaps more, and
 * nothing applied. ERR_CORRUPT: damaged or not of these workflows; the core must then be
 * destroyed. */
void core_snapshot_write(const struct core *core, struct str *out);
MUST_USE enum err_code core_snapshot_read(struct core *core, const void *bytes, size_t size,
                                          struct err *err);

uint64_t core_last_fact(const struct core *core); /* number of the last fact applied */
uint32_t core_term(const struct core *core);

/* --- what happened ------------------------------------------------------------------------- */

enum core_begin {
    CORE_NODES_GONE, /* attempts of earlier terms died with the master: a run on one machine */
    CORE_NODES_AWAY, /* their nodes may come back with them; no lease lapses for one lease time */
};

/* A master begins its life with a new term. */
void core_begin_term(struct core *core, enum core_begin begin, int64_t now_ms,
                     struct core_out *out);

/* How long a node that says nothing is believed in. Before core_begin_term; default: for ever. */
void core_set_lease(struct core *core, int64_t lease_ms);

void core_submit(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out);

struct core_node_spec {
    struct core_resources capacity;
    struct core_labels labels;
    const struct core_attempt *held; /* every attempt the node says it has */
    size_t held_count;
    bool fresh; /* another life of the agent: what it held before, it killed (counts as a crash) */
};

/* A node is here: for the first time, or again after its connection, its agent or the master was
 * renewed. Live attempts of this node that it holds stay live (adopted); live ones it does not hold
 * are lost; held ones that are neither live nor accepted are killed (EFFECT_KILL). Node numbers are
 * the shell's, small, kept over restarts and never reused. */
void core_node_join(struct core *core, uint32_t node, const struct core_node_spec *spec,
                    int64_t now_ms, struct core_out *out);

/* The node gave a sign of life: its lease begins anew. If it had lapsed, what was suspect and not
 * yet replaced is live again without question; what was replaced it is told to kill. Nothing
 * happens if the node has not joined in this term. */
void core_node_heard(struct core *core, uint32_t node, int64_t now_ms, struct core_out *out);

/* The node is known to be gone with all it had: no need to wait for the lease. `blameless`: it left
 * on purpose (drained, stopped, revoked). */
void core_node_lost(struct core *core, uint32_t node, bool blameless, int64_t now_ms,
                    struct core_out *out);

/* Stays in force until it is taken back, also while the node is away or lost; forgotten at a
 * restart. */
enum core_drain {
    CORE_DRAIN_OFF,  /* takes work again */
    CORE_DRAIN_SOFT, /* nothing new; what runs may end */
    CORE_DRAIN_HARD, /* nothing new, and what it has is told to end (EFFECT_KILL) and moves */
};
void core_node_drain(struct core *core, uint32_t node, enum core_drain drain, int64_t now_ms,
                     struct core_out *out);

/* The node says that it has begun, and when by its own clock, of which only what can be is
 * believed. Not lasting: it is said again after a restart. */
void core_task_running(struct core *core, const struct core_attempt *id, int64_t started_ms,
                       int64_t now_ms);

struct core_result {
    enum core_outcome outcome;
    uint32_t code;
    bool has_output;
    int64_t started_ms;
    int64_t duration_us;
};

/* The node reports an end. Refused (EFFECT_SETTLED, accepted = false) when the fence is stale. The
 * result that was accepted may be told again, by the node that did not hear so: it is settled as
 * accepted. */
void core_task_ended(struct core *core, uint32_t node, const struct core_attempt *id,
                     const struct core_result *result, int64_t now_ms, struct core_out *out);

void core_cancel(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out);

/* One task, or the gang that it is of: cancelled whatever it does now (a final one, or one that
 * does not exist, is left alone: false). For what depends on it, and for the workflow's end, that
 * is a failure, unless its experiment allows failure. */
bool core_cancel_task(struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                      int64_t now_ms, struct core_out *out);

/* Everything of the workflow that failed, was cancelled or skipped is to run again, with all its
 * retries; the workflow goes on. Returns how many tasks that is, and one for each search that goes
 * on. core_retry_task: one of them (or its gang), and all that was skipped because of its
 * experiment; false if it is not one of them, or if something its experiment depends on has failed
 * (retry that first). */
uint64_t core_retry(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out);
bool core_retry_task(struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                     int64_t now_ms, struct core_out *out);

/* --- a search -------------------------------------------------------------------------------
 * The search itself lives outside and keeps what the tasks are; here they are numbers. Log what
 * task n is durably before suggesting it: it may start within the call.
 *
 * core_suggest defines `count` more tasks of a searched experiment (in a gang experiment, whole
 * gangs): numbers from the view's `tasks` on. core_close: no more will come; the experiment ends
 * when those defined are final, at once if they are. Both return false, and nothing happens, if the
 * experiment is no search of a running workflow, has closed or has ended (cancelled, skipped);
 * core_suggest also if there would be more than task_count. A search that was cancelled or skipped
 * before it closed goes on after a retry of it or of any task of it, from as many tasks as it had;
 * one that has closed stays closed. */
bool core_suggest(struct core *core, uint32_t workflow, uint32_t experiment, uint64_t count,
                  int64_t now_ms, struct core_out *out);
bool core_close(struct core *core, uint32_t workflow, uint32_t experiment, int64_t now_ms,
                struct core_out *out);

/* The task has shown enough: its live attempt (those of its gang) is killed, which a node does
 * politely first, and it has succeeded, without output and for good: core_retry leaves it alone.
 * What its node still reports is refused. False if the task is not live. */
bool core_stop_task(struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                    int64_t now_ms, struct core_out *out);

/* While paused (disk full, stopping) nothing new is assigned; all else goes on. Resuming
 * dispatches. */
void core_pause(struct core *core, bool paused, int64_t now_ms, struct core_out *out);

/* Time has passed: retries may be due, leases may lapse. */
void core_tick(struct core *core, int64_t now_ms, struct core_out *out);

/* When core_tick has something to do next, or INT64_MAX. */
int64_t core_next_due_ms(const struct core *core);

/* --- looking ------------------------------------------------------------------------------- */

struct core_experiment_view {
    uint64_t tasks; /* of a search: those defined so far */
    uint64_t succeeded;
    uint64_t failed;
    uint64_t cancelled;
    uint64_t skipped;
    uint64_t assigned; /* sent to a node, not yet seen running */
    uint64_t running;
    uint64_t retrying; /* waiting for another attempt */
    uint64_t attempts; /* begun in all */
    bool ready;        /* its dependencies are done */
    bool ended;
    bool closed; /* a search that will define no more, or no search */
};

struct core_task_view {
    enum core_task_state state;
    enum core_outcome outcome; /* of the last attempt that ended */
    uint32_t code;
    uint32_t attempt; /* the newest; 0: none yet */
    uint32_t failures;
    uint32_t losses;
    uint32_t node; /* of the newest attempt */
    bool has_output;
    bool stopped;       /* succeeded because core_stop_task was called */
    int64_t started_ms; /* 0: not yet */
    int64_t
        duration_ms; /* 0 while it runs; of an attempt without a result, since it was assigned */
};

enum core_node_state {
    CORE_NODE_UNKNOWN, /* never joined in this term, or lost */
    CORE_NODE_HERE,
    CORE_NODE_SUSPECT, /* its lease has lapsed */
    CORE_NODE_DRAINING,
};

struct core_node_view {
    enum core_node_state state;
    struct core_resources capacity;
    struct core_resources used;
    uint64_t attempts; /* that take room there */
};

void core_node_view(const struct core *core, uint32_t node, struct core_node_view *out);

/* Whether the attempt takes room there: from its assignment until the node says that it ended, or
 * comes back without it. */
bool core_node_has(const struct core *core, uint32_t node, const struct core_attempt *id);

bool core_is_submitted(const struct core *core, uint32_t workflow);
enum core_workflow_state core_workflow_state(const struct core *core, uint32_t workflow);
int64_t core_workflow_ended_ms(const struct core *core, uint32_t workflow); /* 0: not known */
void core_experiment_view(const struct core *core, uint32_t workflow, uint32_t experiment,
                          struct core_experiment_view *out);
void core_task_view(const struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                    struct core_task_view *out);

/* The first experiment of the workflow whose needs no joined node could ever meet, or -1; `lack`
 * says what is missing ("gpu k80; the largest node has none"). */
int core_unmet_need(const struct core *core, uint32_t workflow, struct str *lack);

/* Every invariant by a full scan; a broken one ends the process. For tests and simulation. */
void core_verify(const struct core *core);

#endif
