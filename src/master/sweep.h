/* sweep.h - old workflows lose their files, as retention.h decides, a little in each tick.
 *
 * What goes is what takes room: logs, attempts and outputs, checkpoints, and the samples of use.
 * What became of each task stays known, and so does the recipe: the workflow is still listed, and
 * can be retried from the start of its failed tasks. A workflow whose files have gone costs nothing
 * more.
 *
 * The loop's thread owns it. A tick looks at the workflows every ten minutes, and otherwise unlinks
 * files for a few milliseconds at most.
 */
#ifndef MASTER_SWEEP_H
#define MASTER_SWEEP_H

#include "master/retention.h"

struct sweep;
struct server;

/* A workflow, as much as matters here. */
struct sweep_flow {
    const char *folder; /* its own; NULL: there is nothing of its own to remove */
    int64_t ended_ms;   /* 0: it has not ended, or nobody knows when */
};

struct sweep_source {
    void *context;
    uint32_t count; /* workflows are numbered from 1 to this */
    void (*look)(void *context, uint32_t number, struct sweep_flow *out);
    /* Its files are being removed. */
    void (*forget)(void *context, uint32_t number);
};

struct sweep *sweep_create(const struct retention_limits *limits);
void sweep_destroy(struct sweep *sweep); /* NULL does nothing */
void sweep_tick(struct sweep *sweep, const struct sweep_source *source, int64_t now_ms);

/* The same for the workflows of a server (sweep_server.c). */
void sweep_server_tick(struct sweep *sweep, struct server *server);

#endif
