/* master.h - the shell around the core: one loop that feeds it events and carries out its effects.
 *
 * The loop owns the core. Beside it run actors, each in a thread of its own, reached by messages:
 * the keeper (store), and as asked for a node on this machine, the gate's guard, the depot, HTTP
 * and the webhooks. Facts go to the keeper at once; what must wait until they are durable
 * (acknowledging a result, telling the user) waits in order.
 *
 * An observer is told what happens, in the loop's thread; it must not block for long.
 */
#ifndef MASTER_MASTER_H
#define MASTER_MASTER_H

#include "base/err.h"
#include "core/core.h"
#include "master/session.h"
#include "node/node.h"

#include <stdbool.h>

struct server;

/* One attempt began to run, ended, or was lost; state is the task's after that. */
struct master_task_event {
    uint32_t workflow;
    uint32_t experiment;
    uint64_t task;
    uint32_t attempt;
    enum core_task_state state;
    enum core_outcome outcome;
    uint32_t code;
    const char *detail; /* why it could not start, which output is missing; or "" */
    int64_t started_ms;
    int64_t duration_us;
    int64_t cpu_us;
    uint64_t peak_rss_bytes;
    bool final; /* no further attempt */
};

struct master_observer {
    void *context;
    int refresh_ms; /* how often to call refresh; 0: never */
    void (*begun)(void *context, const struct server *server);
    void (*note)(void *context, const char *text); /* a line for the user, said once */
    void (*task)(void *context, const struct server *server, const struct master_task_event *event);
    void (*experiment)(void *context, const struct server *server, uint32_t experiment,
                       const struct core_experiment_view *view); /* as it was when it happened */
    void (*refresh)(void *context, const struct server *server);
    void (*serving)(void *context, const struct server *server); /* others can reach it; or NULL */
};

/* Being reached by others. */
struct master_serve {
    const char *host; /* for HTTP */
    bool with_http;
    uint16_t http_port;           /* 0: as last time, or any */
    bool http_port_given;         /* not 0: it must be that one */
    const char *certificate_file; /* for HTTP; NULL: plain, loopback only */
    const char *key_file;
    const char *wire_host;   /* for nodes; NULL: host */
    uint16_t wire_port;      /* 0: as last time, or any */
    const char *public_host; /* in join.url; NULL: wire_host */
    int64_t lease_ms;        /* 0: 4 s */
    uint32_t local_nodes;    /* node processes to start here, and to stop at the end */
    uint32_t local_slots;    /* of each */
};

struct master_options {
    struct session *session;              /* its store is taken over; the rest is borrowed */
    const struct node_capacity *capacity; /* of a node in this process; NULL: none */
    bool power_durable;                   /* --durable=power */
    bool until_ended;                     /* a run: leave when its workflow has ended */
    bool message_only; /* nothing is executed: measures the way to the nodes and back */
    const struct master_serve *serve; /* NULL: nobody can reach it */
    const struct master_observer *observer;
};

enum master_end {
    MASTER_DONE,    /* the workflow ended; its state says how */
    MASTER_STOPPED, /* a signal; the state is kept */
    MASTER_BROKEN,  /* the store cannot go on; err says why */
};

enum master_end master_run(const struct master_options *options, struct err *err);

const struct session *server_session(const struct server *server);
const struct core *server_core(const struct server *server);
int64_t server_elapsed_ms(const struct server *server);
bool server_is_stopping(const struct server *server);

#endif
