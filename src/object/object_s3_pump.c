#include "object/object_s3_pump.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "object/object_s3_exchange.h"

/* -- the descriptor ---------------------------------------------------------------------------- */

void s3_pump_watch(struct s3_pump *pump, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK(epoll_ctl(pump->fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *known)
{
    (void)easy;
    struct s3_pump *pump = context;
    if (what == CURL_POLL_REMOVE) {
        /* It may be closed already, and then epoll has forgotten it by itself. */
        (void)epoll_ctl(pump->fd, EPOLL_CTL_DEL, fd, NULL);
        pump->lib->curl_multi_assign(pump->multi, fd, NULL);
        return 0;
    }
    struct epoll_event event = {.data.fd = fd};
    event.events |= what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0;
    event.events |= what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0;
    int verb = known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(pump->fd, verb, fd, &event) != 0 && errno == EEXIST) {
        (void)epoll_ctl(pump->fd, EPOLL_CTL_MOD, fd, &event);
    }
    pump->lib->curl_multi_assign(pump->multi, fd, pump);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *context)
{
    (void)multi;
    struct s3_pump *pump = context;
    pump->curl_due_ms = timeout_ms < 0 ? -1 : clock_mono_ms() + timeout_ms;
    return 0;
}

/* Sets the timer to the next thing that is due: curl's own, or an exchange without progress. */
static void arm(struct s3_pump *pump)
{
    int64_t due_ms = pump->curl_due_ms;
    for (struct s3_exchange *it = pump->first; it; it = it->next) {
        int64_t stale_ms = it->progress_ms + it->timeout_ms;
        due_ms = due_ms < 0 || stale_ms < due_ms ? stale_ms : due_ms;
    }
    /* Going off early is harmless, and setting it for each packet is not free. */
    if (due_ms >= 0 && pump->armed_ms >= 0 && pump->armed_ms <= due_ms) {
        return;
    }
    if (due_ms == pump->armed_ms) {
        return;
    }
    pump->armed_ms = due_ms;
    struct itimerspec when = {0};
    if (due_ms >= 0) {
        when.it_value.tv_sec = due_ms / 1000;
        when.it_value.tv_nsec = due_ms % 1000 * 1000000 + 1; /* all zero would mean never */
    }
    CHECK(timerfd_settime(pump->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

/* -- life -------------------------------------------------------------------------------------- */

static enum err_code fail_init(struct s3_pump *pump, int errno_value, struct err *err)
{
    s3_pump_release(pump);
    return err_errno(err, errno_value, "no descriptors for HTTP");
}

enum err_code s3_pump_init(struct s3_pump *pump, struct err *err)
{
    *pump = (struct s3_pump){.fd = -1, .timer = -1, .curl_due_ms = -1, .armed_ms = -1};
    enum err_code code = object_lib_load(&pump->lib, err);
    if (code != ERR_OK) {
        return code;
    }
    pump->fd = epoll_create1(EPOLL_CLOEXEC);
    if (pump->fd < 0) {
        return fail_init(pump, errno, err);
    }
    pump->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (pump->timer < 0) {
        return fail_init(pump, errno, err);
    }
    s3_pump_watch(pump, pump->timer);
    pump->multi = pump->lib->curl_multi_init();
    CHECK(pump->multi);
    pump->lib->curl_multi_setopt(pump->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    pump->lib->curl_multi_setopt(pump->multi, CURLMOPT_SOCKETDATA, pump);
    pump->lib->curl_multi_setopt(pump->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    pump->lib->curl_multi_setopt(pump->multi, CURLMOPT_TIMERDATA, pump);
    pump->lib->curl_multi_setopt(pump->multi, CURLMOPT_MAXCONNECTS, (long)S3_PUMP_MAX);
    return ERR_OK;
}

void s3_pump_release(struct s3_pump *pump)
{
    CHECK(pump->count == 0);
    while (pump->idle_count > 0) {
        pump->lib->curl_easy_cleanup(pump->idle[--pump->idle_count]);
    }
    if (pump->multi) {
        pump->lib->curl_multi_cleanup(pump->multi);
    }
    if (pump->timer >= 0) {
        close(pump->timer);
    }
    if (pump->fd >= 0) {
        close(pump->fd);
    }
    *pump = (struct s3_pump){.fd = -1, .timer = -1};
}

void s3_exchange_release(struct s3_exchange *exchange)
{
    str_release(&exchange->text);
}

/* -- exchanges --------------------------------------------------------------------------------- */

void s3_pump_start(struct s3_pump *pump, struct s3_exchange *exchange)
{
    CHECK(pump->count < S3_PUMP_MAX);
    exchange->pump = pump;
    exchange->easy =
        pump->idle_count > 0 ? pump->idle[--pump->idle_count] : pump->lib->curl_easy_init();
    CHECK(exchange->easy);
    s3_exchange_set_up(exchange);
    exchange->progress_ms = clock_mono_ms();
    exchange->prev = NULL;
    exchange->next = pump->first;
    if (pump->first) {
        pump->first->prev = exchange;
    }
    pump->first = exchange;
    pump->count++;
    CHECK(pump->lib->curl_multi_add_handle(pump->multi, exchange->easy) == CURLM_OK);
    arm(pump);
}

/* Its handle goes back to those that wait for work. */
static void detach(struct s3_exchange *exchange)
{
    struct s3_pump *pump = exchange->pump;
    pump->lib->curl_multi_remove_handle(pump->multi, exchange->easy);
    pump->lib->curl_easy_reset(exchange->easy);
    pump->idle[pump->idle_count++] = exchange->easy;
    pump->lib->curl_slist_free_all(exchange->list);
    exchange->easy = NULL;
    exchange->list = NULL;

    if (exchange->prev) {
        exchange->prev->next = exchange->next;
    } else {
        pump->first = exchange->next;
    }
    if (exchange->next) {
        exchange->next->prev = exchange->prev;
    }
    exchange->prev = exchange->next = NULL;
    pump->count--;
}

void s3_pump_cancel(struct s3_exchange *exchange)
{
    detach(exchange);
    arm(exchange->pump);
}

static void reap(struct s3_pump *pump)
{
    int left = 0;
    CURLMsg *message = NULL;
    while ((message = pump->lib->curl_multi_info_read(pump->multi, &left))) {
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        CURLcode result = message->data.result;
        char *private = NULL;
        pump->lib->curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        struct s3_exchange *exchange = (struct s3_exchange *)(void *)private;
        s3_exchange_judge(exchange, result);
        detach(exchange);
        exchange->done(exchange);
    }
}

/* One at a time, since `done` may change the list. */
static void expire(struct s3_pump *pump)
{
    int64_t now_ms = clock_mono_ms();
    struct s3_exchange *stale = NULL;
    do {
        stale = pump->first;
        while (stale && now_ms < stale->progress_ms + stale->timeout_ms) {
            stale = stale->next;
        }
        if (stale) {
            detach(stale);
            stale->code =
                err_set(&stale->err, ERR_TIMEOUT, "no progress for %d ms", stale->timeout_ms);
            stale->done(stale);
        }
    } while (stale);
}

void s3_pump_run(struct s3_pump *pump, int wait_ms)
{
    struct epoll_event events[S3_PUMP_MAX];
    int running = 0;
    int count = epoll_wait(pump->fd, events, S3_PUMP_MAX, wait_ms);
    for (int i = 0; i < count; i++) {
        uint64_t ticks = 0;
        if (events[i].data.fd == pump->timer) {
            (void)!read(pump->timer, &ticks, sizeof ticks);
            pump->armed_ms = -1;
            continue;
        }
        int what = 0;
        what |= events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0;
        what |= events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0;
        what |= events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0;
        /* Descriptors that curl does not know it ignores. */
        pump->lib->curl_multi_socket_action(pump->multi, events[i].data.fd, what, &running);
    }
    if (pump->curl_due_ms >= 0 && pump->curl_due_ms <= clock_mono_ms()) {
        pump->curl_due_ms = -1;
        pump->lib->curl_multi_socket_action(pump->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    reap(pump);
    expire(pump);
    arm(pump);
}
