/* api_logs.h - where the API finds a task's log. Private to the API. */
#ifndef MASTER_API_LOGS_H
#define MASTER_API_LOGS_H

#include "master/api.h"

/* A stream that follows a log, answered now; offset is where to begin in `attempt` (0: the newest,
 * whichever that comes to be). */
struct api_follow_start {
    const struct api_task *task;
    uint32_t attempt;
    bool stays; /* with this attempt, though the task may be tried again */
    uint64_t offset;
};
void api_follow(struct api_call *call, const struct api_follow_start *start);

#endif
