/* core_random.h - the model that core_random_test holds the core against: agents with what they
 * hold, what is live and what was accepted according to the facts. For tests only. */
#ifndef CORE_CORE_RANDOM_H
#define CORE_CORE_RANDOM_H

#include "base/mem.h"
#include "base/rng.h"
#include "core/core.h"

enum {
    NODES = 6,
    WORKFLOWS_MAX = 3,
    EXPERIMENTS_MAX = 4,
    TASKS_MAX = 24,
    CHAOS_STEPS = 600,
    CALM_STEPS = 20000,
    LEASE_MS = 4000,
};

extern const char *const label_names[];
enum { LABELS = 3 };

struct held { /* an attempt that an agent has, until it is settled */
    struct core_attempt id;
    bool killed;
    bool ended;
    struct core_result result;
};

struct agent {
    bool joined;  /* the master has welcomed it in this term */
    bool cut;     /* nobody hears it, it hears nobody */
    bool fresh;   /* it will say Hello for the first time */
    bool suspect; /* as the model sees it */
    enum core_drain drain;
    int64_t heard_ms;
    uint32_t labels; /* bits */
    uint32_t cpu_milli;
    struct held *held;
    size_t held_count;
    size_t held_cap;
};

struct model_task {
    bool live;
    uint32_t attempt;
    uint32_t term;
    uint32_t node;
    int accepted;
    bool stopped;
};

struct cluster {
    struct rng rng;
    struct core_experiment_spec specs[WORKFLOWS_MAX][EXPERIMENTS_MAX];
    uint32_t depends[WORKFLOWS_MAX][EXPERIMENTS_MAX][EXPERIMENTS_MAX];
    size_t experiment_count[WORKFLOWS_MAX];
    int32_t priority[WORKFLOWS_MAX];
    uint32_t defined;
    uint32_t wanted; /* workflows in all */
    struct core *core;
    struct core_out out;
    int64_t now_ms;
    bool calm;
    struct agent agents[NODES];
    struct core_attempt *stale; /* attempts of the past: reports of them repeat */
    size_t stale_count;
    size_t stale_cap;
    struct str log; /* all facts, encoded */
    struct str snapshot;
    size_t snapshot_log_size;
    uint32_t snapshot_defined;
    uint64_t suggested[WORKFLOWS_MAX][EXPERIMENTS_MAX]; /* tasks of a search, by the facts */
    bool closed[WORKFLOWS_MAX][EXPERIMENTS_MAX];
    struct model_task tasks[WORKFLOWS_MAX][EXPERIMENTS_MAX][TASKS_MAX];
};

uint64_t below(struct cluster *cluster, uint64_t limit);
struct model_task *task_of(struct cluster *cluster, uint32_t workflow, uint32_t experiment,
                           uint64_t task);

/* Logs the first facts that were decided, checks them, and carries out what may be then, as a shell
 * would that dies after writing so many. */
void carry_out_up_to(struct cluster *cluster, size_t facts);
void carry_out(struct cluster *cluster);

struct core_result random_result(struct cluster *cluster);
/* Says Hello with what it has, then reports again what was not settled. */
void join(struct cluster *cluster, uint32_t node);
void step_end_one(struct cluster *cluster);
/* Some search suggests more tasks, closes, or stops one. */
void step_search(struct cluster *cluster);
void step_node(struct cluster *cluster);
void step_time(struct cluster *cluster);

#endif
