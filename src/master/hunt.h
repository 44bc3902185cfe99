/* hunt.h - the searches of running workflows: trials are asked for, their results told.
 *
 * For each searched experiment of a running workflow whose turn has come, as many trials are kept
 * under way as its `parallel` says. A suggestion is in FLOW/trials.log (trials.h) and on the disk
 * before its task is defined (core_suggest); a result is written there before anything that follows
 * from it is. So after a crash the log is replayed and the search goes on exactly as it would have:
 * results that the core accepted and the log lacks are read again from the task's log and output.
 *
 * Everything happens in slices of about HUNT_SLICE_MS in the loop's thread, with at most one sync
 * of the disk in each. If trials.log cannot be written, what was to be written is kept, nothing new
 * is asked for, and it is tried again every second.
 */
#ifndef MASTER_HUNT_H
#define MASTER_HUNT_H

#include "base/err.h"
#include "core/core.h"
#include "master/flow.h"

enum { HUNT_SLICE_MS = 10 };

struct server;
struct hunts;

/* Whether the recipe's searches can be made at all: patterns of metrics, rungs, conditions that
 * nothing fulfils. Its files are bound. Adds what is wrong to diags. */
MUST_USE enum err_code hunt_check(const struct recipe *recipe, uint64_t seed,
                                  struct diag_list *diags, struct err *err);

/* The next slice. Call it in every turn of the loop. */
void hunts_step(struct server *server);

/* How long the loop may wait before the next one, if nothing happens. */
int64_t hunts_wait_ms(const struct server *server);

/* Something of the workflow changed, durably: a task ended, it was submitted or revived. */
void hunts_wake(struct server *server, uint32_t workflow);

/* The attempt runs; what it writes goes to this folder, "" if only its node can see it. */
void hunts_started(struct server *server, const struct core_attempt *id, const void *folder,
                   size_t size);

/* Tasks of it may be tried again that had results. */
void hunts_revive(struct server *server, uint32_t workflow);

/* Writes down the results there are, and frees everything. */
void hunts_close(struct server *server);

#endif
