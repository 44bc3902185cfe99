/* A store in a thread of its own. Two packet sockets carry pointers to calls: whoever holds a call
 * last received owns it, so nothing is shared. The thread may wait for room to answer; the owner
 * never does: calls that do not fit wait in its own line, or the two could wait for each other. */
#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"
#include "object/object.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct threaded {
    struct object_store base;
    int fd; /* the owner's end */
    pthread_t thread;
    struct object_call *line, **line_end; /* not yet handed over */
    size_t in_thread;                     /* handed over, not yet back */
    struct object_stats stats;
    bool is_closing; /* the thread takes no more calls */
};

struct answer { /* from the thread */
    struct object_call *call;
    struct object_stats stats;
};

/* The thread's side. --------------------------------------------------------------------------- */

struct side {
    int fd; /* the thread's end */
    object_open_fn open;
    void *open_context;
    struct object_store *store; /* NULL: being closed, when it is not to be asked any more */
    struct object_stats stats;  /* as last asked */
};

struct opening { /* the thread's first message */
    enum err_code code;
    struct err err;
};

/* What a call's done and context were is kept while the thread has it: the driver's own place is
 * taken by drivers. */
struct travel {
    struct side *side;
    void (*done)(struct object_call *call);
    void *context;
};

static void send_whole(int fd, const void *message, size_t size)
{
    ssize_t sent;
    do {
        sent = send(fd, message, size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    CHECK(sent == (ssize_t)size); /* the owner closes its end only after the thread has ended */
}

static void send_back(struct object_call *call)
{
    struct travel *travel = call->context;
    struct side *side = travel->side;
    call->done = travel->done;
    call->context = travel->context;
    free(travel);
    if (side->store) {
        object_stats(side->store, &side->stats);
    }
    struct answer answer = {.call = call, .stats = side->stats};
    send_whole(side->fd, &answer, sizeof answer);
}

/* False: the owner wants to close. */
static bool take_calls(struct side *side)
{
    for (;;) {
        struct object_call *call;
        ssize_t got = recv(side->fd, &call, sizeof call, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            CHECK(errno == EAGAIN || errno == EWOULDBLOCK);
            return true;
        }
        if (got == 0 || call == NULL) {
            return false;
        }
        CHECK(got == (ssize_t)sizeof call);
        struct travel *travel = mem_alloc(sizeof *travel);
        *travel = (struct travel){side, call->done, call->context};
        call->done = send_back;
        call->context = travel;
        object_start(side->store, call);
    }
}

static void *thread_run(void *argument)
{
    struct side side = *(struct side *)argument;
    free(argument);
    struct opening opening = {0};
    opening.code = side.open(side.open_context, &side.store, &opening.err);
    send_whole(side.fd, &opening, sizeof opening);
    if (opening.code == ERR_OK) {
        while (take_calls(&side)) {
            struct pollfd polls[2] = {{.fd = side.fd, .events = POLLIN},
                                      {.fd = object_fd(side.store), .events = POLLIN}};
            if (object_run(side.store, 0) == 0) {
                (void)poll(polls, 2, 1000);
            }
        }
        struct object_store *store = side.store;
        side.store = NULL;
        object_close(store); /* its calls in flight are answered */
    }
    close(side.fd);
    return NULL;
}

/* The owner's side. ---------------------------------------------------------------------------- */

static void hand_over(struct threaded *store)
{
    while (store->line != NULL && !store->is_closing) {
        struct object_call *call = store->line;
        struct object_call *next = call->next; /* not ours to read once it is handed over */
        ssize_t sent = send(store->fd, &call, sizeof call, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            CHECK(errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS);
            return;
        }
        store->in_thread++;
        store->line = next;
        if (next == NULL) {
            store->line_end = &store->line;
        }
    }
}

static void threaded_start(struct object_store *base, struct object_call *call)
{
    struct threaded *store = (struct threaded *)base;
    call->next = NULL;
    *store->line_end = call;
    store->line_end = &call->next;
    hand_over(store);
}

static bool take_answer(struct threaded *store, int flags)
{
    struct answer answer;
    ssize_t got;
    do {
        got = recv(store->fd, &answer, sizeof answer, flags);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return false;
    }
    CHECK(got == (ssize_t)sizeof answer);
    CHECK(store->in_thread > 0);
    store->in_thread--;
    store->stats = answer.stats;
    if (answer.call->done != NULL) {
        answer.call->done(answer.call);
    }
    return true;
}

static size_t threaded_run(struct object_store *base, int wait_ms)
{
    struct threaded *store = (struct threaded *)base;
    size_t count = 0;

    hand_over(store);
    if (wait_ms != 0) {
        struct pollfd poll_fd = {.fd = store->fd, .events = POLLIN};
        (void)poll(&poll_fd, 1, wait_ms);
    }
    while (take_answer(store, MSG_DONTWAIT)) {
        count++;
    }
    hand_over(store);
    return count;
}

static int threaded_fd(struct object_store *base)
{
    return ((struct threaded *)base)->fd;
}

static void threaded_stats(const struct object_store *base, struct object_stats *out)
{
    *out = ((const struct threaded *)base)->stats;
}

static void threaded_close(struct object_store *base)
{
    struct threaded *store = (struct threaded *)base;
    struct object_call *stop = NULL;

    store->is_closing = true; /* what is started from now on stays in line */
    while (send(store->fd, &stop, sizeof stop, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        CHECK(errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
        (void)take_answer(store, 0); /* the thread may be waiting for room itself */
    }
    while (store->in_thread > 0 && take_answer(store, 0)) {
        /* each call ends exactly once */
    }
    CHECK(store->in_thread == 0);
    pthread_join(store->thread, NULL);
    while (store->line != NULL) {
        struct object_call *call = store->line;
        store->line = call->next;
        if (store->line == NULL) {
            store->line_end = &store->line;
        }
        call->code = err_set(&call->err, ERR_CANCELLED, "%s: the store was closed",
                             call->key ? call->key : "delete");
        call->done(call);
    }
    close(store->fd);
    free(store);
}

static const struct object_ops threaded_ops = {
    .start = threaded_start,
    .run = threaded_run,
    .fd = threaded_fd,
    .stats = threaded_stats,
    .close = threaded_close,
};

enum err_code object_threaded_open(object_open_fn open, void *context, struct object_store **out,
                                   struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return err_errno(err, errno, "a socket for the store's thread");
    }
    struct side *side = mem_alloc(sizeof *side);
    *side = (struct side){.fd = ends[1], .open = open, .open_context = context};
    pthread_t thread;
    int failed = thread_start(&thread, thread_run, side);
    if (failed) {
        free(side);
        close(ends[0]);
        close(ends[1]);
        return err_errno(err, failed, "a thread for the store");
    }
    struct opening opening;
    ssize_t got;
    do {
        got = recv(ends[0], &opening, sizeof opening, 0);
    } while (got < 0 && errno == EINTR);
    CHECK(got == (ssize_t)sizeof opening);
    if (opening.code != ERR_OK) {
        pthread_join(thread, NULL);
        close(ends[0]);
        return err_set(err, opening.code, "%s", opening.err.text);
    }
    struct threaded *store = mem_alloc(sizeof *store);
    *store = (struct threaded){.base.ops = &threaded_ops, .fd = ends[0], .thread = thread};
    store->line_end = &store->line;
    *out = &store->base;
    return ERR_OK;
}
