/* agent.h - the state of a running agent, shared by node.c (the loop and the messages), link.c (the
 * connection), attempt.c and ending.c (what happens to one attempt), haul.c (what travels before
 * and after it), notice.c (the machine is wanted elsewhere) and room.c (what fits). Private to this
 * folder.
 *
 * An attempt is in one of five lists: fetching (its code or inputs are on their way here), queued
 * (waiting for room, in the order they came), running (in a slot), delivering (its process has
 * ended, its log or output is on its way to the master), ended (reported, kept until the master has
 * settled it). The master bounds how many there are: it knows what it sent and what it settled.
 */
#ifndef NODE_AGENT_H
#define NODE_AGENT_H

#include "base/str.h"
#include "node/cgroup.h"
#include "node/haul.h"
#include "node/launch.h"
#include "node/link.h"
#include "node/node.h"
#include "node/output.h"
#include "node/slot.h"
#include "node/usage.h"
#include "node/volumes.h"
#include "wire/wire.h"

#include <limits.h>
#include <poll.h>
#include <sys/queue.h>

enum {
    AGENT_SLOTS_MAX = 1024,
    AGENT_STARTED_AFTER_MS = 100,    /* shorter ones are only reported when they end */
    AGENT_BATCH_MAX = 1000,          /* reports of a kind in one message */
    AGENT_BATCH_BYTES_MAX = 1 << 20, /* about, of the logs in it */
    AGENT_CROWDED_MS = 100,          /* between tries when the machine has no process to give */
    AGENT_CROWDED_TRIES = 100,       /* of one attempt; then it has not started */
    AGENT_STOP_PATIENCE_MS = 10000,  /* for processes that even KILL does not end */
    AGENT_OTHER_FILES = 4,           /* polled besides the slots: link, signals, bulk, volumes */
};

TAILQ_HEAD(attempt_list, attempt);

struct attempt {
    TAILQ_ENTRY(attempt) link;        /* in `list` */
    TAILQ_ENTRY(attempt) fresh_link;  /* in agent->fresh while is_fresh */
    TAILQ_ENTRY(attempt) unsent_link; /* in agent->unsent while is_unsent */
    struct attempt_list *list;        /* one of the agent's five */
    Drover__Run *run;                 /* owned */
    Drover__Ended ended;              /* once it has; the id is run's */
    char *detail;                     /* owned; what ended.detail points to, or NULL */
    struct agent_slot *slot;          /* while running */
    struct haul_flow *flow;           /* while it needs its folder; NULL: it does not */
    struct haul_place *code;          /* where its code is; NULL: it needs none */
    struct volumes_place **volumes;   /* where its volumes are, one for each of run's; or NULL */
    uint32_t hauls;                   /* things of it that are on their way, here or there */
    uint64_t serial;
    int64_t started_mono_us;
    int64_t started_unix_ms;
    bool is_fresh;        /* runs, and Started has not been sent */
    bool is_unsent;       /* ended, and that has not been sent in this session */
    bool is_remote;       /* its files are not on the master's disk */
    bool has_kept_output; /* in ROOT/attempts */
    uint64_t log_inode;   /* of the file that is sent as it grows; 0: none */
    uint32_t crowded;     /* how often there was no process for it */
};

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

/* What the master is told about this machine's end, and again after each Welcome. */
struct notice {
    bool is_given;
    bool is_unsent;
    int64_t until_ms; /* then it ends */
    char reason[256];
    uint32_t signals;   /* to leave, so far */
    bool file_is_there; /* at the last look */
    int64_t look_at_ms; /* for the file */
};

struct agent {
    const struct node_options *options;
    struct link link;
    struct haul haul;
    struct volumes volumes;
    bool is_shared; /* the master's disk is ours too */

    struct attempt_list fetching;
    struct attempt_list queued;
    struct attempt_list running;
    struct attempt_list delivering;
    struct attempt_list ended;
    struct attempt_list fresh;  /* of those running */
    struct attempt_list unsent; /* of those ended, in that order */
    size_t unsent_count;
    int64_t unsent_since_ms; /* when the first of them ended */
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
    struct str output_path;
    struct str inputs_path;
    struct str gpu_list;

    Drover__Ended *ended_pointers[AGENT_BATCH_MAX]; /* for the next message */
    Drover__Started started[AGENT_BATCH_MAX];
    Drover__Started *started_pointers[AGENT_BATCH_MAX];

    struct usage *usage; /* NULL in one process */
    int64_t usage_at_ms; /* the next look */

    struct notice notice;
    struct pollfd poll_files[AGENT_SLOTS_MAX + AGENT_OTHER_FILES];

    int64_t crowded_until_ms; /* nothing is started before this */

    bool is_stopping;
    int64_t stop_until_ms; /* no patience after this */
};

/* Ends every task, TERM and after the grace KILL; then the loop ends. A second one may only shorten
 * it. */
void agent_stop(struct agent *agent, int64_t grace_ms, int64_t patience_ms);

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
void attempt_move(struct attempt *attempt, struct attempt_list *to);

/* A session begins: what was reported and not settled is to be reported again. */
void attempt_report_again(struct agent *agent);

/* ROOT/KIND/EXPERIMENT/K, and INDEX.ATTEMPT in it. */
void attempt_folder(const struct agent *agent, const struct attempt *attempt, const char *kind,
                    struct str *out);
void attempt_add_name(const Drover__Run *run, struct str *out);
void attempt_checkpoint(const struct agent *agent, const struct attempt *attempt, struct str *out);
/* In the volume that holds outputs: where the attempt writes, or (is_kept) where it is put then. */
void attempt_volume_output(const struct attempt *attempt, bool is_kept, struct str *out);
/* A name that was promised under outputs, below the folder. */
MUST_USE enum err_code attempt_output_name(const struct attempt *attempt, size_t index,
                                           const char *folder, struct str *out, struct err *err);
/* It is neither on the master's disk nor in a volume. */
bool attempt_sends_checkpoint(const struct attempt *attempt);
/* The log of a remote one. */
void attempt_add_log(const struct agent *agent, const struct attempt *attempt, struct str *out);
MUST_USE enum err_code attempt_make_folder(struct made_folder *made, const struct str *path,
                                           struct err *err);

/* --- ending.c --- */

/* Takes what the slot's reaper has to say; restarts nothing by itself. */
void attempt_collect(struct agent *agent, struct agent_slot *slot);

/* Ends a running or queued attempt without more ado; the report is queued. */
void attempt_end(struct agent *agent, struct attempt *attempt, Drover__Outcome outcome,
                 const char *detail);
void attempt_free_slot(struct agent *agent, struct agent_slot *slot);

/* Moves it to the ended ones and queues the report. */
void attempt_report(struct agent *agent, struct attempt *attempt);
void attempt_add_unsent(struct agent *agent, struct attempt *attempt);
void attempt_take_unsent(struct agent *agent, struct attempt *attempt); /* if it is there */

/* Its success was none: the output cannot be had. */
void attempt_fail_output(struct attempt *attempt, const struct err *err);

/* --- share.c --- */

/* Whether this node can write where the master's state is, on the disk of its own work folder. */
bool share_probe(const char *work, const Drover__Welcome *welcome);

/* --- notice.c: only with join --- */

/* What the signals and the file say. */
void notice_turn(struct agent *agent);
MUST_USE enum err_code notice_send(struct agent *agent, struct err *err); /* if there is one */
int64_t notice_wake_ms(const struct agent *agent);
int notice_fd(const struct agent *agent); /* -1: none */

/* --- measure.c: only with join --- */

/* Tells the master what is used here, when it is time to. */
MUST_USE enum err_code measure_turn(struct agent *agent, struct err *err);
int64_t measure_wake_ms(const struct agent *agent);

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
