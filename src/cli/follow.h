/* follow.h - waiting for a workflow of a server: the event stream says when to look again, the
 * status object says how it stands, and a terminal shows it as `drover run` does.
 */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include "cli/remote.h"

#include <stdbool.h>
#include <stdint.h>

struct follow_options {
    const char *workflow; /* NULL: the newest */
    int64_t timeout_ms;   /* 0: none */
    bool as_json;         /* nothing but the status object at the end */
    bool quiet;
};

/* Until it has ended: EXIT_DONE if it succeeded, else EXIT_WORK_FAILED (also when the time is up).
 * A server that goes away is waited for FOLLOW_PATIENCE_MS. */
enum { FOLLOW_PATIENCE_MS = 60000 };
int follow_wait(struct remote *remote, const struct follow_options *options);

/* One that can move its cursor. */
bool follow_is_lively_terminal(void);

#endif
