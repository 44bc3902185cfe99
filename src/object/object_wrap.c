#include "object/object_wrap.h"

#include "base/clock.h"
#include "object/object_driver.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0);
}

void object_wrap_init(struct object_wrap *wrap, struct object_store *inner,
                      void (*due)(struct object_wrapped *wrapped))
{
    wrap->inner = inner;
    wrap->due = due;
    wrap->fd = epoll_create1(EPOLL_CLOEXEC);
    wrap->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    /* Opening a store: nothing sensible is left to do without descriptors. */
    CHECK(wrap->fd >= 0);
    CHECK(wrap->timer >= 0);
    watch(wrap->fd, object_fd(inner));
    watch(wrap->fd, wrap->timer);
}

void object_wrap_take(struct object_wrap *wrap, struct object_call *call,
                      struct object_wrapped *wrapped, void (*done)(struct object_call *call))
{
    wrapped->wrap = wrap;
    wrapped->call = call;
    wrapped->done = call->done;
    wrapped->context = call->context;
    call->done = done;
    call->context = wrapped;
    wrap->in_flight++;
}

void object_wrap_end(struct object_wrapped *wrapped)
{
    struct object_call *call = wrapped->call;
    CHECK(call->context == wrapped);
    CHECK(wrapped->wrap->in_flight > 0);
    wrapped->wrap->in_flight--;
    wrapped->wrap->ended++;
    call->done = wrapped->done;
    call->context = wrapped->context;
    free(wrapped);
    call->done(call);
}

/* Setting the timer anew also takes back that it is readable. */
static void set_timer(const struct object_wrap *wrap)
{
    struct itimerspec when = {0};
    if (wrap->kept) {
        int64_t due_ms = wrap->kept->due_ms;
        when.it_value.tv_sec = due_ms / 1000;
        when.it_value.tv_nsec = due_ms % 1000 * 1000000 + 1; /* 0 would mean never */
    }
    CHECK(timerfd_settime(wrap->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

void object_wrap_keep(struct object_wrapped *wrapped, int64_t delay_ms)
{
    struct object_wrap *wrap = wrapped->wrap;
    wrapped->due_ms = clock_mono_ms() + delay_ms;
    struct object_wrapped **at = &wrap->kept;
    while (*at && (*at)->due_ms <= wrapped->due_ms) {
        at = &(*at)->next;
    }
    wrapped->next = *at;
    *at = wrapped;
    if (wrap->kept == wrapped) {
        set_timer(wrap);
    }
}

/* The earliest, if it is due; NULL: none. */
static struct object_wrapped *take_kept(struct object_wrap *wrap, int64_t now_ms)
{
    struct object_wrapped *wrapped = wrap->kept;
    if (!wrapped || wrapped->due_ms > now_ms) {
        return NULL;
    }
    wrap->kept = wrapped->next;
    wrapped->next = NULL;
    return wrapped;
}

static void run_due(struct object_wrap *wrap)
{
    /* Those that become due meanwhile have to wait, or a chain of calls would never end. */
    int64_t now_ms = clock_mono_ms();
    struct object_wrapped *due = NULL;
    struct object_wrapped **end = &due;
    while ((*end = take_kept(wrap, now_ms))) {
        end = &(*end)->next;
    }
    if (due) {
        set_timer(wrap);
    }
    while (due) {
        struct object_wrapped *next = due->next;
        wrap->due(due);
        due = next;
    }
}

size_t object_wrap_run(struct object_store *store, int wait_ms)
{
    struct object_wrap *wrap = (struct object_wrap *)store;
    int64_t until_ms = clock_mono_ms() + wait_ms;
    wrap->ended = 0;
    for (;;) {
        object_run(wrap->inner, 0);
        run_due(wrap);
        int64_t left_ms = until_ms - clock_mono_ms();
        if (wrap->ended > 0 || wrap->in_flight == 0 || left_ms <= 0) {
            return wrap->ended;
        }
        struct pollfd wait = {.fd = wrap->fd, .events = POLLIN};
        int count = poll(&wait, 1, (int)left_ms);
        CHECK(count >= 0 || errno == EINTR);
    }
}

int object_wrap_fd(struct object_store *store)
{
    return ((struct object_wrap *)store)->fd;
}

void object_wrap_stats(const struct object_store *store, struct object_stats *out)
{
    object_stats(((const struct object_wrap *)store)->inner, out);
}

void object_wrap_close(struct object_store *store)
{
    struct object_wrap *wrap = (struct object_wrap *)store;
    wrap->is_closing = true;
    object_close(wrap->inner);
    for (struct object_wrapped *wrapped = NULL; (wrapped = take_kept(wrap, INT64_MAX));) {
        object_call_release(wrapped->call);
        object_call_fail(wrapped->call, ERR_CANCELLED, "the store was closed");
        object_wrap_end(wrapped);
    }
    CHECK(wrap->in_flight == 0);
    close(wrap->fd);
    close(wrap->timer);
    free(wrap);
}
