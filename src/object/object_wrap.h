/* object_wrap.h - the ground of stores that wrap another one: faulty and retry. For src/object
 * alone.
 *
 * A wrapper hands the caller's own struct object_call down, with `done` and `context` replaced for
 * the time being, so that no answer is copied. Between two tries, or until a delay is over, it
 * keeps the call itself.
 */
#ifndef OBJECT_OBJECT_WRAP_H
#define OBJECT_OBJECT_WRAP_H

#include "object/object.h"

struct object_wrap;

/* A call that the wrapper has in hand; a wrapper's own struct begins with it. Allocated with
 * mem_alloc, freed by object_wrap_end. */
struct object_wrapped {
    struct object_wrap *wrap;
    struct object_call *call;
    void (*done)(struct object_call *call); /* the caller's */
    void *context;                          /* the caller's */
    struct object_wrapped *next;            /* while kept */
    int64_t due_ms;
};

struct object_wrap { /* a wrapper's own struct begins with it */
    struct object_store store;
    struct object_store *inner;                  /* owned */
    void (*due)(struct object_wrapped *wrapped); /* its delay is over: start or end it */
    struct object_wrapped *kept;                 /* the earliest first; of one instant, in order */
    int fd;                                      /* an epoll of the timer and the inner store's */
    int timer;
    size_t in_flight;
    size_t ended; /* since run began */
    bool is_closing;
};

void object_wrap_init(struct object_wrap *wrap, struct object_store *inner,
                      void (*due)(struct object_wrapped *wrapped));

/* Takes the call over: its end in the inner store will call done, with the wrapped call in
 * call->context. */
void object_wrap_take(struct object_wrap *wrap, struct object_call *call,
                      struct object_wrapped *wrapped, void (*done)(struct object_call *call));

/* Keeps it for so long; then `due` is called, inside run. */
void object_wrap_keep(struct object_wrapped *wrapped, int64_t delay_ms);

/* Gives the call back to its owner, with the answer it has. */
void object_wrap_end(struct object_wrapped *wrapped);

/* These are ops as they stand. */
size_t object_wrap_run(struct object_store *store, int wait_ms);
int object_wrap_fd(struct object_store *store);
void object_wrap_stats(const struct object_store *store, struct object_stats *out);
void object_wrap_close(struct object_store *store); /* also frees the wrapper, with free */

#endif
