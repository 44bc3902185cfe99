/* collect.h - the results of tasks in an order of ours, each as soon as it is there: what exec and
 * map print. Ctrl-C and TERM are noticed between two looks.
 */
#ifndef CLI_COLLECT_H
#define CLI_COLLECT_H

#include "cli/remote.h"

#include <stdbool.h>
#include <stdint.h>

struct collect {
    struct remote *remote;
    /* pages of one experiment, read in order; see collect_wait */
    struct jread page;
    struct str workflow;
    struct str experiment;
    struct str cursor; /* of the page now held, "" for the first */
    struct str next;
    bool paging;
    int64_t silent_since_ms;
};

struct collect_task {
    const char *workflow;
    const char *experiment;
    uint64_t index;
    /* tasks of this experiment are asked for with a growing index: a page at a time */
    bool in_order;
};

struct collected {
    char state[16]; /* final: succeeded, failed, cancelled, skipped */
    struct str reason;
    struct str node;
    uint64_t attempt;
    bool has_exit_code;
    uint64_t exit_code;
    bool good;
};

/* From now on Ctrl-C and TERM only set a flag. */
void collect_catch_signals(void);
bool collect_is_interrupted(void);

/* Waits until the task is final, at most wait_ms (< 0: for ever). EXIT_DONE and *ready, or has
 * printed why not (exit codes as in remote.h; EXIT_WORK_FAILED when interrupted, nothing printed).
 * A server that goes away is waited for a minute. */
int collect_wait(struct collect *collect, const struct collect_task *task, int64_t wait_ms,
                 struct collected *out, bool *ready);
void collected_release(struct collected *collected);

/* What the attempt printed: appended to out (COLLECT_BYTES_MAX of it at most), or written to
 * standard output piece by piece when out is NULL. */
enum { COLLECT_BYTES_MAX = 64 << 20 };
int collect_output(struct collect *collect, const struct collect_task *task,
                   const struct collected *of, struct str *out);

/* Cancels a workflow, saying nothing. */
void collect_cancel(struct collect *collect, const char *workflow);
void collect_release(struct collect *collect);

#endif
