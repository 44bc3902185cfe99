/* carry.h - carrying out what the core decided: facts to the keeper, starts and kills to the nodes,
 * and, once their facts are durable, acknowledgements and news. Private to src/master. */
#ifndef MASTER_CARRY_H
#define MASTER_CARRY_H

#include "base/arena.h"
#include "core/core.h"
#include "master/keeper.h"
#include "master/master.h"
#include "master/owners.h"
#include "wire/wire.h"

/* An effect that waits for its fact, with what the report said, for the observer. */
struct pending {
    struct core_effect effect;
    union {
        struct master_task_event event;         /* EFFECT_TASK */
        struct core_experiment_view experiment; /* EFFECT_EXPERIMENT, as it was then */
    };
    char *detail;
};

/* An output link that could not be made, a full disk most likely. */
struct missing_link {
    uint32_t workflow;
    uint32_t experiment;
    uint32_t attempt;
    uint64_t task;
};

/* What is to be sent to one node with the next flush. */
struct mailbag {
    bool is_listed; /* in carrier.full */
    Drover__Run **runs;
    size_t run_count;
    size_t run_cap;
    size_t run_bytes;
    Drover__Kill **kills;
    size_t kill_count;
    size_t kill_cap;
    Drover__Settled **settled;
    size_t settled_count;
    size_t settled_cap;
};

/* Who is told what; the first takes the message to the node, or drops it if that is not here. */
struct carrier_ops {
    void (*send)(void *context, uint32_t node, Drover__ToNode *message);
    void (*task)(void *context, uint32_t node, const struct master_task_event *event);
    void (*experiment)(void *context, const struct core_attempt *about,
                       const struct core_experiment_view *view);
    void (*workflow)(void *context, uint32_t workflow);
    void (*lost)(void *context, const struct fact *fact); /* decided, maybe not yet durable */
};

struct carrier {
    const struct carrier_ops *ops;
    void *context; /* of the ops */
    const struct session *session;
    struct core *core;
    struct keeper *keeper;
    const struct owners *owners; /* of volumes that are written to; NULL: nodes own them */
    bool message_only;           /* as in master_options */
    bool starts_wait; /* tasks outlive a crash of ours, so an assignment must be durable before it
                         is  sent: else the next master might give its number to another attempt */

    struct str facts; /* encoded, not yet posted */
    uint32_t fact_count;
    uint64_t posted;  /* number of the last fact posted */
    uint64_t durable; /* and durable */
    size_t log_bytes; /* since the last snapshot */
    size_t snapshot_bytes;

    char nonce[20]; /* in the tokens for folders that only the node knows */
    char output_token[64];
    char checkpoint_token[64];
    char code_token[64];
    char outputs_token[64];
    char local_token[64];
    char volume_end[64];  /* what follows the name in a volume's */
    struct arena arena;   /* of the messages being built */
    struct mailbag *bags; /* by node number */
    size_t bag_count;
    uint32_t *full; /* nodes whose bag holds something */
    size_t full_count;
    size_t full_cap;

    struct pending *pending; /* a queue: [pending_head, pending_count) */
    size_t pending_head;
    size_t pending_count;
    size_t pending_cap;

    struct missing_link *missing; /* while there are any, nothing is started */
    size_t missing_count;
    size_t missing_cap;
    struct core_effect *held; /* the starts that wait for them, and kills behind those */
    size_t held_count;
    size_t held_cap;
};

/* Draws the nonce; call it once the other fields are set. */
void carrier_init(struct carrier *carrier);
void carrier_release(struct carrier *carrier);

/* Takes everything in `out`. `report` is what a node said of the attempt the effects are about, or
 * NULL. Empties out. */
void carry_out(struct carrier *carrier, struct core_out *out, const Drover__Ended *report);

/* Tries again to make the links that are missing. True: none is. */
bool carry_links(struct carrier *carrier, struct err *err);

/* Posts the facts and sends the messages gathered since the last flush. */
void carry_flush(struct carrier *carrier);

/* Sends what was gathered for one node, before its session changes. */
void carry_send(struct carrier *carrier, uint32_t node);

/* Facts up to `durable` are safe: what waited for them is done now. */
void carry_durable(struct carrier *carrier, uint64_t durable);

/* --- carry_volumes.c --- */

/* Adds the volumes and inputs of a task of the experiment. In the carrier's arena. */
void carry_add_volumes(struct carrier *carrier, const struct flow *flow,
                       const struct experiment *experiment, Drover__Run *run);
/* The flow is under way: the volumes that its tasks write to need their owners. */
void carry_need_volumes(struct owners *owners, const struct flow *flow);

#endif
