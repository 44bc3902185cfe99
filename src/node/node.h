/* node.h - the agent: takes tasks from a master, runs them in slots, reports what became of them.
 *
 * The agent is one thread with one loop. It owns its slots; each slot is a small single-threaded
 * process (the reaper, a subreaper in its own session) that runs one task at a time and sees to it
 * that nothing a task started outlives it, nor outlives the agent: when the agent is gone the
 * reaper reads EOF, kills every descendant and leaves. So an agent killed with -9 leaves nothing.
 *
 * A task's attempt has: a log file WORK/logs/EXPERIMENT/K/INDEX.ATTEMPT.log (K = INDEX / 1000;
 * stdout and stderr together), an output folder in DROVER_OUTPUT (the slot's WORK/slots/N/output;
 * when the attempt succeeds and it holds something, it is renamed to
 * WORK/attempts/EXPERIMENT/K/INDEX.ATTEMPT before the result is reported; otherwise it is emptied
 * and used again), and with checkpoint: true the task's own WORK/checkpoints/EXPERIMENT/K/INDEX.
 *
 * Messages are proto/drover.proto over a ZeroMQ PAIR (in one process) or DEALER socket.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/err.h"

#include <stdint.h>

struct node_capacity {
    uint32_t cpu_milli;
    uint64_t memory_bytes;
    uint64_t disk_bytes; /* free where the work folder is */
    uint32_t gpus;
    char gpu_kind[64]; /* lower case, "" if none */
};

struct node_options {
    const char *work_folder; /* absolute, exists */
    const char *name;
    struct node_capacity capacity;
    void *zmq_context;
    const char *endpoint; /* connected to, e.g. "inproc://node" */
    int keep_fd; /* -1, or a lock that shall be held until the last task is gone, even if the agent
                    is killed: nobody may take the work folder over while its tasks still write */
};

/* What this machine offers; slots > 0 overrides the number of CPUs. */
void node_detect(const char *work_folder, uint32_t slots, struct node_capacity *out);

/* Makes the calling process a subreaper (what a slot's process leaves behind if it is killed comes
 * to the agent and is killed too; children in the caller's own session are never touched).
 * Runs until the master sends Stop (returns ERR_OK after `stopped` was sent) or the socket's
 * context is terminated (ERR_CANCELLED; everything was killed). A message that is not valid ends it
 * as well (ERR_INVALID): to go on would be to lose tasks silently. The master may send as soon as
 * it has heard Hello. Slots' processes are forks of the caller, so call it while that is still
 * small; in a thread of its own, or as a program. */
MUST_USE enum err_code node_run(const struct node_options *options, struct err *err);

#endif
