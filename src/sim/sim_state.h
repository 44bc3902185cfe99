/* sim_state.h - what a simulation is made of. Included by src/sim alone. */
#ifndef SIM_SIM_STATE_H
#define SIM_SIM_STATE_H

#include "sim/queue.h"
#include "sim/sim.h"

/* An attempt that a simulated node has. */
struct work {
    struct core_attempt id;
    int64_t began_us;
    uint32_t code;
    bool killed;
};

struct work_list {
    struct work *items;
    size_t count;
    size_t cap;
};

struct sim_node {
    uint32_t life;     /* counts up with each loss: events of a former life are void */
    bool up;           /* the machine works */
    bool cut;          /* but nobody hears it */
    bool known;        /* the master of today has heard its Hello */
    bool hello_is_due; /* it will say Hello soon */
    int64_t billed_from_us;
    struct work_list running;
    struct work_list queued; /* sent ahead, waiting for a slot, first come first served */
    struct work_list ended;  /* and not settled yet */
};

struct sim {
    const struct sim_options *options;
    struct sim_result *result;
    struct core *core;
    struct core_out out;
    struct queue queue;
    struct rng rng;
    int64_t now_us;
    struct sim_node *nodes;
    uint8_t **accepted;        /* [experiment][task]: how often */
    uint16_t **last_assigned;  /* [experiment][task]: the newest attempt */
    struct core_attempt *held; /* scratch */
    size_t held_cap;
    int64_t busy_us;     /* of all slots together */
    int64_t busy_at_us;  /* when something last happened */
    int64_t patience_us; /* nothing happens for longer than this, if it ever will */
    bool ended;
    enum err_code code;
    struct err *err;
};

static inline int64_t us_of(double seconds)
{
    return (int64_t)(seconds * 1e6);
}

static inline int64_t sim_now_ms(const struct sim *sim)
{
    return sim->now_us / 1000 + 1;
}

double sim_draw_exponential(struct sim *sim, double mean_s);

/* sim_node.c: what happens on and to nodes. */
void sim_node_receive(struct sim *sim, const struct core_effect *effect);
void sim_node_boot(struct sim *sim, uint32_t node);
void sim_node_hello(struct sim *sim, uint32_t node); /* the master is told what it has */
void sim_node_hello_soon(struct sim *sim, uint32_t node);
void sim_node_mended(struct sim *sim, uint32_t node);
void sim_node_task_ends(struct sim *sim, const struct event *event);
void sim_node_strikes(struct sim *sim, const struct event *event);
void sim_node_bill(struct sim *sim, struct sim_node *node);
void sim_node_release(struct sim_node *node);

/* sim.c */
void sim_carry_out(struct sim *sim); /* what the core has decided */

#endif
