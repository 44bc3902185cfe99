/* cgroup.h - memory limits for slots, where cgroup v2 has the memory controller for us.
 *
 * One group per slot, BASE/drover-PID/slot-N, which the slot's reaper joins when it starts; its
 * tasks inherit it, so nothing is moved per task. BASE is the group we were started in. A group
 * with processes cannot pass controllers on, so if need be we step aside into drover-PID/agent.
 *
 * Used by the agent's thread only.
 */
#ifndef NODE_CGROUP_H
#define NODE_CGROUP_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct cgroup {
    bool available;
    bool stepped_aside;
    char base[PATH_MAX];
    char path[PATH_MAX + 64]; /* BASE/drover-PID */
};

struct cgroup_slot {
    int procs_fd; /* for slot_start; -1: none */
    uint32_t index;
    uint64_t limit_bytes; /* written last; 0: "max" */
    uint64_t oom_kills;   /* seen so far */
};

/* Appends where our own group is: the unified hierarchy's mount point from mountinfo, our place in
 * it from the "0::" line of cgroup. ERR_NOT_FOUND: there is no cgroup v2. */
MUST_USE enum err_code cgroup_find(const char *mountinfo, const char *cgroup, char *out,
                                   size_t out_size, struct err *err);

/* Prepares BASE; with "" or where it cannot be done, available is false and err says why. */
MUST_USE enum err_code cgroup_open(struct cgroup *group, const char *base, struct err *err);
void cgroup_close(struct cgroup *group); /* removes the groups; all slots must be gone */

/* Without a group, or on failure, procs_fd is -1. */
void cgroup_slot_open(struct cgroup *group, struct cgroup_slot *slot, uint32_t index);
void cgroup_slot_close(struct cgroup *group, struct cgroup_slot *slot);

/* Limits what the slot runs next; 0: not at all. Costs nothing if that is so already. */
void cgroup_slot_limit(struct cgroup *group, struct cgroup_slot *slot, uint64_t limit_bytes);

/* Whether the kernel killed something in the slot for want of memory since the last call. */
bool cgroup_slot_was_oom(struct cgroup *group, struct cgroup_slot *slot);

#endif
