/* trials_json.h - the trials of a workflow's searches as one JSON object: what GET .../trials
 * answers and what drover trials, best and compare are made of, in a folder as on a server.
 *
 *   {"id": "mnist-3",
 *    "experiments": [{"experiment", "algorithm", "chosen", "why", "metrics", "goals", "seed",
 *                     "trials", "resource", "warm", "closed", "parameters"}...],
 *    "trials": [{"experiment", "trial", "state", "params", "metrics", "value", "values", "rung",
 *                "budget", "task", "value_task", "step", "reason", "suggested_at",
 * "finished_at"}...]}
 *
 * Experiments are those with search:, in the order of the recipe; trials are in order of number. A
 * trial that was taken on to another rung is one trial: its rung, budget, task and state are the
 * newest, its values those of the last rung that came to an end, of the task value_task.
 */
#ifndef MASTER_TRIALS_JSON_H
#define MASTER_TRIALS_JSON_H

#include "base/err.h"
#include "base/str.h"
#include "core/core.h"
#include "master/flow.h"

enum {
    TRIALS_JSON_SERVED_MAX = 32 << 20, /* bytes of a log: read in the loop in less than a second */
    TRIALS_JSON_READ_MAX = 256 << 20,  /* and by a command of its own */
};

struct trials_json_options {
    const char *experiment; /* only this one; NULL: all */
    size_t bytes_max;       /* of the log */
};

/* ERR_CORRUPT: the log is damaged. ERR_QUOTA: it is larger than bytes_max. On error nothing is
 * appended. */
MUST_USE enum err_code trials_json_write(const struct flow *flow, const struct core *core,
                                         const struct trials_json_options *options, struct str *out,
                                         struct err *err);

/* What exactly a task runs: {"id", "experiment", "task", "command", "workdir", "env", "output",
 * "checkpoint"}. {{output}} and {{checkpoint}} read OUTPUT and CHECKPOINT as in drover plan; the
 * last two are the task's own folders on this machine, null where there are none. ERR_NOT_FOUND:
 * the search has not made this task yet. */
MUST_USE enum err_code trials_json_plan(const struct flow *flow, uint32_t experiment, uint64_t task,
                                        struct str *out, struct err *err);

#endif
