/* usage.h - what this machine and the tasks on it use, measured every two seconds.
 *
 * The node's sample is about the whole machine (or the container, where it has a control group of
 * its own): processors, memory, disks, network, GPUs. A task's sample is about the slot it runs in:
 * the slot's reaper and all below it. Rates are per second since the sample before, so the first
 * look at anything gives no sample, only a start.
 *
 * How a task is measured: one pass over /proc for all slots together, in which processes of others
 * are remembered and not looked at again; what is read of ours is stat, statm and io. Processes
 * that come and go meanwhile are normal and cost at most a wrong value in one sample, never more
 * than the machine has. With a control group of the slot, processor time and memory come from there
 * and are exact. Memory without one is what the processes have for themselves, and the largest
 * shared part once. The network is not known by task.
 *
 * GPUs are asked through NVIDIA's library where there is one (nvml.h); elsewhere those fields are
 * 0.
 *
 * Nothing here fails: a file that cannot be read gives 0 in its fields. Memory is bounded: at most
 * USAGE_PROCESSES_MAX processes are looked at. Used by the agent's thread only; a call takes about
 * a millisecond, and starts nothing.
 */
#ifndef NODE_USAGE_H
#define NODE_USAGE_H

#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    USAGE_EVERY_MS = 2000,       /* how often the agent is to call usage_sample */
    USAGE_PROCESSES_MAX = 65536, /* of the whole machine; the others are not seen */
    USAGE_SLOTS_MAX = 1024,
};

struct usage;

/* GPUs are looked for here, once. */
struct usage *usage_open(void);
void usage_close(struct usage *usage); /* NULL does nothing */

/* A slot that runs an attempt now. The caller fills the upper part. */
struct usage_slot {
    uint32_t index;     /* which slot; the same from call to call, < USAGE_SLOTS_MAX */
    pid_t reaper;       /* its process */
    uint64_t serial;    /* of the attempt, never 0: another one than last time begins anew */
    const char *cgroup; /* folder of the slot's control group, or NULL */
    uint64_t gpus;      /* bit i: GPU i is the attempt's alone; 0: GPU use is found by process */

    bool has_sample;      /* set by usage_sample; false in the first look at an attempt */
    Drover__Usage sample; /* initialised and filled, all but its id */
};

/* Looks at the machine and at these slots (those that run something; in any order, none twice).
 * `node` is initialised and filled, without an id. False: there is no sample of the node yet (the
 * first call, or one within 100 ms of the last; then slots have none either). */
bool usage_sample(struct usage *usage, Drover__Usage *node, struct usage_slot *slots,
                  size_t slot_count);

#endif
