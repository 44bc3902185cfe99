/* status_json.h - a workflow and its tasks as JSON: what `drover status --json` and `drover tasks
 * --json` print and what the HTTP API answers, made in one place. */
#ifndef MASTER_STATUS_JSON_H
#define MASTER_STATUS_JSON_H

#include "base/arena.h"
#include "base/json.h"
#include "core/core.h"
#include "master/flow.h"

struct status_extra {
    bool active;             /* someone runs it now */
    const char *waiting_for; /* a need that no node meets, or NULL */
};

/* The keys of a status object, into an open one: id, number, state, active, state_folder, priority,
 * seed, owner, created_at, finished_at, waiting_for, experiments[]. */
void status_json_add(struct json *json, const struct core *core, const struct flow *flow,
                     const struct status_extra *extra);

/* tasks, succeeded, failed, cancelled, skipped, running (on a node), queued, waiting, retrying (of
 * those queued), attempts; into an open object. */
void status_json_add_counts(struct json *json, const struct core_experiment_view *view);

struct status_task {
    uint32_t experiment;
    uint64_t index;
    const struct core_task_view *view;
    const char *node; /* the name of the node of its newest attempt; NULL: none, or not known */
};

/* A whole task object. The scratch arena is used and left for the caller to reset. */
void status_json_task(struct json *json, const struct flow *flow, const struct status_task *task,
                      struct arena *scratch);

#endif
