/* haul.h - what has to travel before an attempt can start and after it has ended, on nodes that do
 * not share the master's disk; and code, which all fetch. Private to this folder; used by the
 * agent's thread.
 *
 * The travelling itself is bulk.h's, in a thread that is started when something is first needed.
 * Here it is known what is on its way, and for whom. An attempt whose needs are not there yet is in
 * agent->fetching and holds up nobody behind it. One whose log, output or checkpoint is not on the
 * master yet is in agent->delivering: its room and slot are free, but its end is not told before.
 *
 * Code and inputs are fetched once for all attempts that need them at the same time. Code that is
 * here stays known, for as long as it is there.
 */
#ifndef NODE_HAUL_H
#define NODE_HAUL_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct agent;
struct attempt;
struct bulk;
struct volumes_place;

/* Something fetched for many: the code of a version, or the outputs of an experiment. */
struct haul_place {
    TAILQ_ENTRY(haul_place) link;
    char *key;
    char *folder;    /* where it is; NULL: not here yet */
    uint64_t ticket; /* of the fetch; 0: none is under way */
    uint32_t users;  /* attempts that have or await it */
    bool is_code;
};
TAILQ_HEAD(haul_place_list, haul_place);

enum haul_kind {
    HAUL_PLACE,
    HAUL_OLD_CHECKPOINT,
    HAUL_LOG,
    HAUL_CHECKPOINT,
    HAUL_OUTPUT,
    HAUL_VOLUME, /* it is being mounted */
    HAUL_KEEP,   /* its output in a volume is being put in its place, or thrown away */
    HAUL_COMMIT, /* what the attempt wrote to it is being stored */
};

/* Something of one attempt that is on its way. */
struct haul_item {
    TAILQ_ENTRY(haul_item) link;
    enum haul_kind kind;
    struct attempt *attempt;
    struct haul_place *place;     /* HAUL_PLACE: what it waits for */
    struct volumes_place *volume; /* the last three */
    size_t index;                 /* HAUL_VOLUME: which one of the run's */
    uint64_t round;               /* which commit of that volume, or which errand */
    uint64_t ticket;              /* the others */
};
TAILQ_HEAD(haul_item_list, haul_item);

/* A workflow that has, or lately had, attempts here whose files are not on the master's disk. */
struct haul_flow {
    TAILQ_ENTRY(haul_flow) link;
    char *id;
    uint32_t users; /* attempts */
    int64_t idle_since_ms;
};
TAILQ_HEAD(haul_flow_list, haul_flow);

struct haul {
    struct bulk *bulk;  /* NULL: nothing was needed yet */
    uint16_t bulk_port; /* of the last Welcome; 0: none */
    bool is_decided;    /* whether the disk is shared: for good, with the first Welcome */
    struct haul_place_list places;
    struct haul_item_list items;
    struct haul_flow_list flows;
    int64_t look_at_ms; /* for logs worth following */
};

void haul_init(struct agent *agent);
void haul_release(struct agent *agent);

/* A session begins: finds out whether the master's disk is ours. */
void haul_welcome(struct agent *agent, const Drover__Welcome *welcome);

/* Orders what the new attempt needs and moves it to `fetching`, if anything. On failure it never
 * can start; err is for people. */
MUST_USE enum err_code haul_before(struct agent *agent, struct attempt *attempt, struct err *err);

/* It has started. */
void haul_begin(struct agent *agent, struct attempt *attempt);

/* It was told to end, and may write a last checkpoint. */
void haul_hurry(struct agent *agent, struct attempt *attempt);

/* It has left its slot. True: it is in `delivering` now, and haul will report it. False: nothing
 * has to travel, or all of it is in its Ended. */
bool haul_after(struct agent *agent, struct attempt *attempt);

/* What is on its way for it is of no use. */
void haul_drop(struct agent *agent, struct attempt *attempt);

/* It ended before it started: nothing is needed any more. */
void haul_cancel(struct agent *agent, struct attempt *attempt);

/* It was settled. */
void haul_forget(struct agent *agent, struct attempt *attempt);

/* --- between haul.c, haul_after.c and volumes.c --- */

/* It has come, or err says why it never will: its attempt goes on, or ends. */
void haul_finish_item(struct agent *agent, struct haul_item *item, const struct err *err);

MUST_USE enum err_code haul_need_bulk(struct agent *agent, struct err *err);
struct haul_item *haul_add(struct agent *agent, struct attempt *attempt, enum haul_kind kind);
struct haul_item *haul_find(struct agent *agent, const struct attempt *attempt,
                            enum haul_kind kind); /* NULL: none */
void haul_drop_item(struct agent *agent, struct haul_item *item);
void haul_look_for_logs(struct agent *agent);
void haul_remove_log(struct agent *agent, const struct attempt *attempt);
/* An end without its log is better than none. */
void haul_lose_log(struct attempt *attempt);

/* --- haul_flow.c --- */

void haul_enter_flow(struct agent *agent, struct attempt *attempt);
void haul_leave_flow(struct attempt *attempt); /* if it is in one */
void haul_sweep_flows(struct agent *agent);    /* those that nobody needed for long */
void haul_release_flows(struct agent *agent);

/* --- the loop --- */

/* Takes what has arrived, and looks after running attempts. */
void haul_turn(struct agent *agent);
int64_t haul_wake_ms(const struct agent *agent);
int haul_fd(const struct agent *agent); /* -1: none */

#endif
