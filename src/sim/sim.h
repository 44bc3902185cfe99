/* sim.h - the real core against simulated nodes, time, faults and prices.
 *
 * It is a test: each accepted result is checked as it happens (never twice, only of the attempt
 * that was assigned last), every invariant of the core by a full scan every scan_every events, and
 * at the end that nothing is left over. And it is a tool: it predicts how long a recipe takes and
 * what it costs on n nodes that are lost at a given rate.
 *
 * Pure: no clock, no I/O; the same options give the same run. Nodes die (all their attempts are
 * gone) or are cut off (they go on working, come back, and report what by then may be stale). The
 * core notices a silent node when its lease runs out; a replacement joins after boot_s. A message
 * that is lost is healed as in a real cluster: the node says Hello again with all it has. Masters
 * die too, if asked for, and their successors adopt what runs.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "base/err.h"
#include "base/rng.h"
#include "core/core.h"

#include <stdbool.h>
#include <stdint.h>

enum sim_time_kind { SIM_FIXED, SIM_UNIFORM, SIM_EXPONENTIAL, SIM_LOGNORMAL };

/* How long things take, in seconds. */
struct sim_time {
    enum sim_time_kind kind;
    double a; /* the time; the lower bound; the mean; the median */
    double b; /* UNIFORM: the upper bound; LOGNORMAL: the spread of the logarithm */
};

/* "60s", "uniform(10s,90s)", "exp(60s)", "lognormal(60s,0.5)". ERR_INVALID says what is wrong. */
MUST_USE enum err_code sim_time_parse(const char *text, struct sim_time *out, struct err *err);
double sim_time_draw(const struct sim_time *time, struct rng *rng);

/* Of a searched experiment: which trial is next does not matter here, only when. Each is one task
 * (or gang) of full length. */
struct sim_search {
    uint64_t trials;
    uint32_t parallel; /* at a time; 0: all */
};

struct sim_options {
    const struct core_workflow_spec *spec;
    const struct sim_search *searches; /* by experiment; may be NULL if none is searched */
    uint32_t nodes;
    uint32_t slots; /* of each node */
    struct sim_time task_time;
    double fail_share;       /* of attempts that end with exit 1 */
    double mtbf_s;           /* mean life of a node; 0: for ever */
    double cut_share;        /* of the losses that are only a cut cable */
    double boot_s;           /* until a replacement joins */
    double lease_s;          /* until a silent node is given up */
    double latency_s;        /* of a message */
    double net_loss;         /* share of messages that are lost; a Hello follows a second later */
    double master_mtbf_s;    /* mean life of a master; 0: for ever */
    int64_t price_usd_micro; /* of a node for an hour */
    uint64_t seed;
    uint64_t scan_every; /* events between full scans; 0: never */
    double limit_s;      /* of simulated time; 0: none */
};

struct sim_result {
    uint64_t tasks;
    uint64_t accepted;
    uint64_t failed;     /* for good, as the recipe says */
    uint64_t lost;       /* neither accepted nor failed at the end: must be 0 */
    uint64_t duplicates; /* accepted twice: must be 0 */
    uint64_t attempts;
    uint64_t attempts_lost; /* with their node */
    uint64_t refused;       /* stale reports, rightly refused */
    uint64_t node_losses;
    uint64_t master_losses;
    uint64_t events;
    double simulated_s;
    double busy_share; /* of the slots' time */
    int64_t cost_usd_micro;
    enum core_workflow_state state;
};

/* ERR_CORRUPT: a promise was broken, err says which and when; run it again with the same seed.
 * ERR_TIMEOUT: limit_s passed, or nothing can ever happen again. *out is filled in any case. */
MUST_USE enum err_code sim_run(const struct sim_options *options, struct sim_result *out,
                               struct err *err);

#endif
