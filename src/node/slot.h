/* slot.h - the agent's end of one slot: its reaper process and the socket to it.
 *
 * A slot is started once and runs one task after another. If its reaper dies, slot_bury cleans up
 * what it left and the slot can be started again. The agent's process is made a subreaper, so that
 * what a dead reaper leaves behind comes to it and can be killed; children of the process that
 * stay in its session are never touched by that.
 *
 * Used by the agent's thread only.
 */
#ifndef NODE_SLOT_H
#define NODE_SLOT_H

#include "base/err.h"
#include "node/reaper.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct slot {
    pid_t pid;   /* the reaper; 0: not started */
    int control; /* -1: not started */
};

/* cgroup_procs is joined by the reaper and keep_fd held open by it until it and all its tasks are
 * gone; -1: none. Both stay the caller's. */
MUST_USE enum err_code slot_start(struct slot *slot, int cgroup_procs, int keep_fd,
                                  struct err *err);

/* Sends a packet made by launch_build. If that fails the reaper is gone, or is killed: either way
 * slot_receive tells, and the task ends like any other whose slot was lost. */
void slot_run(struct slot *slot, const void *packet, size_t size);
void slot_kill(struct slot *slot, uint64_t serial, int64_t grace_ms);

/* ERR_AGAIN: nothing has ended. ERR_IO: the reaper is gone, call slot_bury. */
MUST_USE enum err_code slot_receive(struct slot *slot, struct reaper_ended *out, struct err *err);

/* Tells the reaper to kill everything and leave, without waiting. */
void slot_dismiss(struct slot *slot);

/* After slot_dismiss: waits for the reaper at most patience_ms, then kills it. */
void slot_wait(struct slot *slot, int64_t patience_ms);

/* Kills and waits for a reaper and then for all it left behind; others are the reapers of the
 * other slots. */
void slot_bury(struct slot *slot, const pid_t *others, size_t other_count);

#endif
