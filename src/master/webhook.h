/* webhook.h - the actor that tells other servers when a workflow is over.
 *
 * Each call is a POST of a small JSON object, made in a thread of its own: posting never waits. A
 * call that is not answered with 2xx is tried again, WEBHOOK_TRIES times in all, with doubling
 * pauses; several are under way at a time, so that a dead receiver does not hold up the others. At
 * most WEBHOOK_QUEUE_MAX calls wait; more are dropped and counted. Redirects are not followed and
 * answers not read. What waits is lost when the process dies, so whoever posts keeps in mind what
 * he has not read the end of (webhook_read), and posts it again: a receiver may be told twice.
 *
 * webhook_* are called from one thread, the master's.
 */
#ifndef MASTER_WEBHOOK_H
#define MASTER_WEBHOOK_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    WEBHOOK_TRIES = 5,
    WEBHOOK_PAUSE_MS = 1000, /* before the second try; then doubled */
    WEBHOOK_TIMEOUT_MS = 10 * 1000,
    WEBHOOK_QUEUE_MAX = 1000,
};

struct webhook;

/* libcurl is loaded when the first call is posted. */
struct webhook *webhook_start(void *zmq_context);
/* The same with other times, for tests. */
struct webhook *webhook_start_with(void *zmq_context, int64_t pause_ms, int64_t timeout_ms);

struct webhook_call {
    const char *url;         /* http or https */
    const char *secret_file; /* absolute, or NULL; read at each try; at most 64 KiB */
    const char *id;          /* of the workflow */
    const char *state;       /* "succeeded", "failed", "cancelled" */
    uint64_t tasks;
    uint64_t succeeded;
    uint64_t failed;
    int64_t finished_unix_ms;
    const char *page; /* where people can look at it, or NULL */
    uint64_t tag;     /* the poster's own */
};

/* Copies. False: the queue is full, and the call is dropped. */
bool webhook_post(struct webhook *webhook, const struct webhook_call *call);

struct webhook_counts {
    uint64_t sent;    /* answered with 2xx */
    uint64_t failed;  /* given up */
    uint64_t dropped; /* the queue was full */
    uint64_t waiting; /* posted, and none of these yet */
};
void webhook_count(const struct webhook *webhook, struct webhook_counts *out);

struct webhook_news { /* a call is over */
    uint64_t tag;
    int64_t finished_unix_ms; /* both as they were posted */
    struct err
        why; /* it was given up, for a note to the user: "webhook of workflow ID to HOST: ...".
              * The path of the URL, which may be a secret, is not in it. ERR_OK: sent */
};
/* False: there is no more news. Whoever posts reads it, or it takes ever more memory. */
bool webhook_read(struct webhook *webhook, struct webhook_news *out);

/* Goes on for at most patience_ms, while calls wait; then ends and frees all. True: every call that
 * was posted was answered or given up for its own sake. NULL: true. */
bool webhook_stop(struct webhook *webhook, int patience_ms);

#endif
