/* node.h - the agent: takes tasks from a master, runs them in slots, reports what became of them.
 *
 * The agent is one thread with one loop. It owns its slots; each slot is a small single-threaded
 * process (the reaper, a subreaper in its own session) that runs one task at a time and sees to it
 * that nothing a task started outlives it, nor outlives the agent: when the agent is gone the
 * reaper reads EOF, kills every descendant and leaves. So an agent killed with -9 leaves nothing.
 *
 * Messages are proto/drover.proto: over a ZeroMQ PAIR to a master in the same process, or (with
 * `join`) over an encrypted DEALER to one on the network. There the agent outlives its connection:
 * what it runs goes on while it looks for its master again, and is told to it then (link.h).
 *
 * Where an attempt's files are: ROOT is Run.root where the master's disk is ours too (the same
 * process, or found out by a probe file), else WORK/workflows/ID ("remote").
 * - The log, stdout and stderr together: ROOT/logs/EXPERIMENT/K/INDEX.ATTEMPT.log (K = INDEX/1000).
 *   It is made when the task first prints. Remote: a file of its own in WORK/slots, sent to the
 *   master with the end or, if it is large, before it.
 * - The output folder, DROVER_OUTPUT, is the slot's. When the attempt succeeds and it holds
 *   something, it is renamed to ROOT/attempts/EXPERIMENT/K/INDEX.ATTEMPT before the result is
 *   reported; otherwise it is emptied and used again. Remote: it is also on the master by then.
 * - With checkpoint: true, ROOT/checkpoints/EXPERIMENT/K/INDEX, the task's own (Run.checkpoint_name
 * in place of INDEX where tasks share one); remote, INDEX.ATTEMPT, which begins as a copy of what
 *   the master has.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/err.h"
#include "wire/door.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node_capacity {
    uint32_t cpu_milli;
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* free where the work folder is */
    uint32_t gpus;
    char gpu_kind[64]; /* lower case, "" if none */
};

/* A master on the network. */
struct node_join {
    struct door_url url;
    const char *url_file;  /* NULL, or what is read again for `url` before each new connection: the
                              secret may have been changed. What cannot be read changes nothing. */
    struct door_keys keys; /* our own */
};

/* What a person who started the agent may want to see. */
enum node_event {
    NODE_JOINED, /* text: the name it has there; told once */
    NODE_LOST,   /* text: why there is no connection; once until it is back */
    NODE_BACK,   /* text: the name */
};

struct node_options {
    const char *work_folder; /* absolute, exists */
    const char *name;
    struct node_capacity capacity;
    void *zmq_context;
    const char *endpoint; /* connected to, e.g. "inproc://node"; not with join */
    int keep_fd; /* -1, or a lock that shall be held until the last task is gone, even if the agent
                    is killed: nobody may take the work folder over while its tasks still write */

    /* The rest only with join. */
    struct node_join *join; /* NULL: the master is in this process */
    const char *const *labels;
    size_t label_count;
    int64_t price_micro_hour; /* 0: not known */
    bool no_share;            /* do as if the master's disk were not ours, even if it is */
    int64_t grace_ms;         /* between a notice and the end */
    const char *notice_file;  /* NULL, or: when it appears, this machine will be taken away */
    int signal_fd;            /* 0 or -1: none; a signalfd for TERM, INT and USR1 */
    void (*tell)(void *context, enum node_event event, const char *text); /* may be NULL */
    void *tell_context;
};

/* What this machine offers; slots > 0 overrides the number of CPUs. */
void node_detect(const char *work_folder, uint32_t slots, struct node_capacity *out);

/* Makes the calling process a subreaper (what a slot's process leaves behind if it is killed comes
 * to the agent and is killed too; children in the caller's own session are never touched).
 * Runs until the master sends Stop or a signal says so (returns ERR_OK after `stopped` was sent) or
 * the socket's context is terminated (ERR_CANCELLED; everything was killed). The master may send
 * as soon as it has heard Hello. Slots' processes are forks of the caller, so call it while that is
 * still small; in a thread of its own, or as a program.
 * In one process a message that is not valid ends it as well (ERR_INVALID): to go on would be to
 * lose tasks silently. With join such a message costs the connection, and only the master's Bye
 * ends it (ERR_DENIED, with the master's reason). */
MUST_USE enum err_code node_run(const struct node_options *options, struct err *err);

#endif
