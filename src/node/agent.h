/* agent.h - the state of a running agent, shared by node.c (the loop and the messages),
 * attempt.c and ending.c (what happens to one attempt) and room.c (what fits). Private to this
 * folder.
 *
 * An attempt is in one of three lists: queued (waiting for room, in the order they came), running
 * (in a slot), ended (reported, kept until the master has settled it). The master bounds how many
 * there are: it knows what it sent and what it settled.
 */
#ifndef NODE_AGENT_H
#define NODE_AGENT_H

#include "base/str.h"
#include "node/cgroup.h"
#include "node/launch.h"
#include "node/node.h"
#include "node/output.h"
#include "node/slot.h"
#include "wire/wire.h"

#include <limits.h>
#include <poll.h>
#include <sys/queue.h>

enum {
    AGENT_SLOTS_MAX = 1024,
    AGENT_STARTED_AFTER_MS = 100, /* shorter ones are only reported when they end */
    AGENT_BATCH_MAX = 1000,       /* reports of a kind in one message */
    AGENT_CROWDED_MS = 100,       /* between tries when the machine has no process to give */
    AGENT_CROWDED_TRIES = 100,    /* of one attempt; then it has not started */
};

struct attempt {
    TAILQ_ENTRY(attempt) link;       /* in one of the agent's three lists */
    TAILQ_ENTRY(attempt) fresh_link; /* in agent->fresh while is_fresh */
    Drover__Run *run;                /* owned */
    Drover__Ended ended;             /* once it has; the id is run's */
    char *detail;                    /* owned; what ended.detail points to, or NULL */
    struct agent_slot *slot;         /* while running */
    uint64_t serial;
    int64_t started_mono_us;
    int64_t started_unix_ms;
    bool is_fresh;    /* runs, and Started has not been sent */
    uint32_t crowded; /* how often there was no process for it */
};
TAILQ_HEAD(attempt_list, attempt);

struct agent_slot {
    bool is_open; /* its process and its folder are there */
    uint32_t index;
    struct slot slot;
    struct output output;
    struct cgroup_slot cgroup;
    struct attempt *attempt; /* NULL: free */
};

/* The folder made last, since the next file is usually wanted in the same one. */
struct made_folder {
    char path[PATH_MAX];
};

struct agent {
    const struct node_options *options;
    void *socket;
    int socket_fd; /* readable when the socket may have something */

    struct attempt_list queued;
    struct attempt_list running;
    struct attempt_list ended;
    struct attempt_list fresh;
    uint32_t running_count;

    struct agent_slot *slots; /* AGENT_SLOTS_MAX; the first slot_count have been used */
    uint32_t slot_count;
    uint32_t free_slots[AGENT_SLOTS_MAX];
    uint32_t free_count;
    uint64_t next_serial;

    uint64_t used_cpu_milli;
    uint64_t used_memory_bytes;
    uint32_t used_gpus;
    const struct attempt *gpu_owner[WIRE_GPUS_MAX];

    struct launcher launcher;
    struct trash trash;
    struct cgroup cgroup;
    struct made_folder log_folder;
    struct made_folder attempts_folder;
    struct str log_path; /* reused for each attempt */
    struct str other_path;
    struct str gpu_list;

    Drover__Ended **unsent_ended; /* for the next message; the attempts are in `ended` */
    size_t unsent_ended_count;
    size_t unsent_ended_cap;
    int64_t unsent_since_ms; /* when the first of them ended */
    Drover__Started started[AGENT_BATCH_MAX];
    Drover__Started *started_pointers[AGENT_BATCH_MAX];

    struct pollfd poll_files[AGENT_SLOTS_MAX + 1];

    int64_t crowded_until_ms; /* nothing is started before this */

    bool is_stopping;
    int64_t stop_until_ms; /* no patience after this */
};

/* --- attempt.c: starting, and what the master says of one --- */

/* Takes the run and queues it, or ends it at once if this node can never run it. */
void attempt_add(struct agent *agent, Drover__Run *run);

/* The machine has no process or file to give now: nothing is started for a moment. False: this
 * attempt has waited long enough, or the node is stopping. */
bool attempt_wait_for_machine(struct agent *agent, struct attempt *attempt);

/* Starts what fits, strictly in order. */
void attempt_start_queued(struct agent *agent);

void attempt_kill(struct agent *agent, const Drover__Attempt *id, int64_t grace_ms);
void attempt_kill_all(struct agent *agent, int64_t grace_ms);
void attempt_settle(struct agent *agent, const Drover__Attempt *id, bool accepted);
void attempt_free_list(struct attempt_list *list);

/* WORK/KIND/EXPERIMENT/K, and INDEX.ATTEMPT in it. */
void attempt_folder(const struct agent *agent, const Drover__Run *run, const char *kind,
                    struct str *out);
void attempt_add_name(const Drover__Run *run, struct str *out);
MUST_USE enum err_code attempt_make_folder(struct made_folder *made, const struct str *path,
                                           struct err *err);

/* --- ending.c --- */

/* Takes what the slot's reaper has to say; restarts nothing by itself. */
void attempt_collect(struct agent *agent, struct agent_slot *slot);

/* Ends a running or queued attempt without more ado; the report is queued. */
void attempt_end(struct agent *agent, struct attempt *attempt, Drover__Outcome outcome,
                 const char *detail);
void attempt_free_slot(struct agent *agent, struct agent_slot *slot);

/* --- room.c: CPUs, memory and GPUs, as sums; nothing is measured --- */

bool room_fits(const struct agent *agent, const Drover__Run *run);
/* ERR_QUOTA: it never will. */
MUST_USE enum err_code room_check(const struct agent *agent, const Drover__Run *run,
                                  struct err *err);
void room_take(struct agent *agent, const struct attempt *attempt);
void room_give_back(struct agent *agent, const struct attempt *attempt);
/* For CUDA_VISIBLE_DEVICES; NULL: leave it alone. Valid until the next call. */
const char *room_list_gpus(struct agent *agent, const struct attempt *attempt);

#endif
