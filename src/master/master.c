/* master.c - the loop: what happened goes into the core, what it decides is carried out. */
#include "master/master.h"

#include "base/clock.h"
#include "base/mem.h"
#include "master/hunt.h"
#include "master/outputs.h"
#include "master/series.h"
#include "master/server_state.h"
#include "master/sweep.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

enum {
    UNSAFE_FACTS_MAX = 500000, /* facts posted but not durable before dispatch pauses */
    STOP_GRACE_MS = 10000,
    LINK_RETRY_MS = 200,
    TICK_MS = 1000,
    LOG_TROUBLE_MS = 5000,
    LAST_REPLIES_MS = 2000,
};

const struct session *server_session(const struct server *server)
{
    return server->session;
}

const struct core *server_core(const struct server *server)
{
    return server->core;
}

int64_t server_elapsed_ms(const struct server *server)
{
    return clock_mono_ms() - server->began_mono_ms;
}

int64_t server_began_ms(const struct server *server)
{
    return server->began_unix_ms;
}

bool server_is_stopping(const struct server *server)
{
    return server->signals > 0;
}

/* The date when we began plus a clock that never goes back. */
int64_t server_now_ms(const struct server *server)
{
    return server->began_unix_ms + server_elapsed_ms(server);
}

void server_note(struct server *server, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    server->options->observer->note(server->options->observer->context, text);
    struct server_event event = {.kind = "note", .text = text, .at_ms = server_now_ms(server)};
    server_tell(server, &event);
}

/* --- what the core decided
 * ------------------------------------------------------------------------
 */

void server_carry(struct server *server, const Drover__Ended *report)
{
    carry_out(&server->carrier, &server->out, report);
}

static void send_to_node(void *context, uint32_t node, Drover__ToNode *message)
{
    struct server *server = context;
    if (node != 0 || !server->inproc.socket) {
        gate_send(server, node, message);
        return;
    }
    inproc_send(server, message);
}

static void tell_task(void *context, uint32_t node, const struct master_task_event *event)
{
    struct server *server = context;
    const struct master_observer *observer = server->options->observer;
    server->counts.accepted += event->state == TASK_SUCCEEDED;
    hunts_wake(server, event->workflow);
    observer->task(observer->context, server, event);
    struct server_event told = {.kind = "task",
                                .workflow = event->workflow,
                                .experiment = event->experiment,
                                .task = event->task,
                                .attempt = event->attempt,
                                .node = node,
                                .state = event->state,
                                .outcome = event->outcome,
                                .code = event->code,
                                .text = event->detail,
                                .at_ms = server_now_ms(server)};
    server_tell(server, &told);
}

static void tell_experiment(void *context, const struct core_attempt *about,
                            const struct core_experiment_view *view)
{
    struct server *server = context;
    const struct master_observer *observer = server->options->observer;
    observer->experiment(observer->context, server, about->experiment, view);
    struct server_event told = {.kind = "experiment",
                                .workflow = about->workflow,
                                .experiment = about->experiment,
                                .text = view->ended ? "ended" : "begun",
                                .at_ms = server_now_ms(server)};
    server_tell(server, &told);
}

static void tell_workflow(void *context, uint32_t workflow)
{
    struct server *server = context;
    struct flow *flow = server->session->flows[workflow - 1];
    if (core_workflow_state(server->core, workflow) == WORKFLOW_RUNNING) {
        return; /* somebody was quick to ask for a retry */
    }
    flow->ended_ms = server_now_ms(server);
    server->ended = server->ended || server->options->until_ended;
    if (server->depot) {
        depot_end_flow(server->depot, workflow);
    }
    struct server_event told = {
        .kind = "workflow", .workflow = workflow, .text = "ended", .at_ms = flow->ended_ms};
    server_tell(server, &told);
    hooks_ended(server, flow);
}

static void see_lost(void *context, const struct fact *fact)
{
    litter_lost(context, fact);
}

const struct carrier_ops server_carrier_ops = {.send = send_to_node,
                                               .task = tell_task,
                                               .experiment = tell_experiment,
                                               .workflow = tell_workflow,
                                               .lost = see_lost};

/* --- pausing ------------------------------------------------------------------------------------
 */

static void update_pause(struct server *server)
{
    server->paused = server->store_trouble || server->unsafe_many || server->link_trouble ||
                     server->logs_wait || (server->signals > 0 && server->options->until_ended);
    core_pause(server->core, server->paused, server_now_ms(server), &server->out);
    server_carry(server, NULL);
}

static void watch_backlog(struct server *server)
{
    uint64_t unsafe = server->carrier.posted - server->carrier.durable;
    bool many = unsafe > UNSAFE_FACTS_MAX;
    if (many != server->unsafe_many) {
        server->unsafe_many = many;
        update_pause(server);
    }
}

static void watch_links(struct server *server)
{
    if (server->carrier.missing_count == 0 && !server->link_trouble) {
        return;
    }
    if (clock_mono_ms() - server->links_tried_ms < LINK_RETRY_MS) {
        return;
    }
    struct err err = {0};
    bool made = carry_links(&server->carrier, &err);
    server->links_tried_ms = clock_mono_ms();
    if (!made && !server->link_trouble) {
        server_note(server, "waiting: cannot link an output (%s)", err.text);
    }
    if (made == server->link_trouble) {
        server->link_trouble = !made;
        update_pause(server);
    }
}

/* For a while after the last failure: whoever could not report tries again sooner than that. */
static void watch_logs(struct server *server)
{
    bool wait = server->log_trouble_ms && clock_mono_ms() - server->log_trouble_ms < LOG_TROUBLE_MS;
    if (wait != server->logs_wait) {
        server->logs_wait = wait;
        update_pause(server);
    }
    if (!wait && server->log_trouble_ms) {
        server->log_trouble_ms = 0;
    }
}

/* --- what others say
 * ------------------------------------------------------------------------------
 */

/* A run, first: end tasks politely and keep the state. Again: at once. A server leaves its nodes
 * and their tasks alone. */
void server_read_signals(struct server *server)
{
    struct signalfd_siginfo info;
    while (read(server->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGWINCH) {
            server->refreshed_ms = 0;
            continue;
        }
        server->signals++;
        if (!server->options->until_ended) {
            continue;
        }
        if (server->signals == 1) {
            server_note(server,
                        "stopping: tasks are told to end (TERM) and killed after 10 s, or when "
                        "you ask again; the state is kept");
            update_pause(server);
        }
        if (server->signals <= 2) {
            int64_t grace_ms = server->signals == 1 ? STOP_GRACE_MS : 0;
            inproc_send_stop(server, grace_ms);
            gate_stop_nodes(server, grace_ms);
        }
    }
}

static void on_news(struct server *server, const struct keeper_news *news)
{
    switch (news->kind) {
    case KEEPER_DURABLE:
        carry_durable(&server->carrier, news->durable);
        break;
    case KEEPER_DOCUMENT:
        server->documents_durable++;
        break;
    case KEEPER_TROUBLE:
        server->store_trouble = true;
        snprintf(server->trouble, sizeof server->trouble, "the log cannot be written (%.150s)",
                 news->err.text);
        server_note(server, "waiting: %s; nothing new is started until it can", server->trouble);
        update_pause(server);
        break;
    case KEEPER_RECOVERED:
        server->store_trouble = false;
        server->trouble[0] = '\0';
        server_note(server, "the log can be written again; going on");
        update_pause(server);
        break;
    case KEEPER_FATAL:
        server->broken = true;
        server->err = news->err;
        break;
    }
}

void server_read_keeper(struct server *server)
{
    struct keeper_news news;
    while (keeper_read(server->carrier.keeper, &news)) {
        on_news(server, &news);
    }
}

static void read_http(struct server *server)
{
    struct http_request *request = NULL;
    while (server->http && (request = http_next(server->http)) != NULL) {
        api_answer(server->api, request);
    }
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static long poll_timeout_ms(const struct server *server)
{
    int64_t wait_ms = TICK_MS;
    int64_t due_ms = core_next_due_ms(server->core);
    if (due_ms != INT64_MAX && due_ms - server_now_ms(server) < wait_ms) {
        wait_ms = due_ms - server_now_ms(server);
    }
    int refresh_ms = server->options->observer->refresh_ms;
    if (refresh_ms > 0) {
        int64_t left_ms = server->refreshed_ms + refresh_ms - clock_mono_ms();
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    if (server->api && api_next_due_ms(server->api) != INT64_MAX) {
        int64_t left_ms = api_next_due_ms(server->api) - server_now_ms(server);
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    if (server->carrier.missing_count > 0 && wait_ms > LINK_RETRY_MS) {
        wait_ms = LINK_RETRY_MS;
    }
    if (server->litter_count > 0) {
        wait_ms = 0;
    }
    int64_t hunts_ms = hunts_wait_ms(server);
    wait_ms = hunts_ms < wait_ms ? hunts_ms : wait_ms;
    return wait_ms > 0 ? (long)wait_ms : 0;
}

static void refresh_when_due(struct server *server)
{
    const struct master_observer *observer = server->options->observer;
    if (observer->refresh_ms > 0 &&
        clock_mono_ms() - server->refreshed_ms >= observer->refresh_ms) {
        server->refreshed_ms = clock_mono_ms();
        observer->refresh(observer->context, server);
    }
}

/* Whether this process, or one turn of its loop, was away for so long that nodes would be taken for
 * silent to whom nobody listened. */
static bool was_away(struct server *server)
{
    int64_t now_ms = clock_mono_ms();
    int64_t away_ms = now_ms - server->looked_ms - server->waited_ms;
    bool away = server->looked_ms > 0 && away_ms > server->gate.lease_ms / 2;
    server->looked_ms = now_ms;
    return away && server->gate.socket;
}

static void tick_when_due(struct server *server)
{
    if (was_away(server)) {
        gate_forgive(server);
    }
    if (core_next_due_ms(server->core) <= server_now_ms(server)) {
        core_tick(server->core, server_now_ms(server), &server->out);
        server_carry(server, NULL);
    }
    if (clock_mono_ms() - server->ticked_ms >= TICK_MS) {
        server->ticked_ms = clock_mono_ms();
        gate_tick(server);
        serve_tick(server);
        locals_tick(server);
        hooks_read(server);
        if (server->series) {
            series_tick(server->series, server_now_ms(server));
            sweep_server_tick(server->sweep, server);
        }
        if (server->api) {
            api_tick(server->api);
        }
    } else if (server->api && api_next_due_ms(server->api) <= server_now_ms(server)) {
        api_tick(server->api);
    }
}

static bool is_over(const struct server *server)
{
    if (server->broken || server->ended) {
        return true;
    }
    if (server->signals == 0) {
        return false;
    }
    return !server->options->until_ended ||
           (server->inproc.socket ? server->inproc.stopped : !gate_has_nodes(server));
}

static void add_item(zmq_pollitem_t *items, int *count, void *socket, int fd)
{
    if (socket || fd >= 0) {
        items[(*count)++] = (zmq_pollitem_t){.socket = socket, .fd = fd, .events = ZMQ_POLLIN};
    }
}

/* What the loop waits for. The first two are the signals and the end of the node in this process.
 */
static int list_items(struct server *server, zmq_pollitem_t items[8])
{
    int count = 0;
    add_item(items, &count, NULL, server->signal_fd);
    add_item(items, &count, NULL, server->inproc.ended_fd);
    add_item(items, &count, keeper_socket(server->carrier.keeper), -1);
    add_item(items, &count, server->inproc.socket, -1);
    add_item(items, &count, server->gate.socket, -1);
    add_item(items, &count, server->http ? http_socket(server->http) : NULL, -1);
    add_item(items, &count, server->depot ? depot_socket(server->depot) : NULL, -1);
    add_item(items, &count, NULL, locals_fd(server));
    return count;
}

void server_turn(struct server *server, long wait_ms)
{
    zmq_pollitem_t items[8];
    int count = list_items(server, items);
    gate_flush(server);
    carry_flush(&server->carrier);
    server_send_replies(server);
    refresh_when_due(server);
    wait_ms = wait_ms < 0 ? poll_timeout_ms(server) : wait_ms;
    zmq_poll(items, count, wait_ms);
    server->waited_ms = wait_ms;
    server_read_keeper(server);
    if (server->inproc.socket) {
        inproc_read(server);
    }
    gate_read(server);
    depot_read(server);
    read_http(server);
    if (items[0].revents) {
        server_read_signals(server);
    }
    inproc_see_end(server, items[1].revents != 0);
    locals_read(server);
    tick_when_due(server);
    hunts_step(server);
    (void)!litter_step(server);
    watch_backlog(server);
    watch_links(server);
    watch_logs(server);
}

/* Whoever was promised an answer gets it, if the log can be written. */
static void send_last_replies(struct server *server)
{
    int64_t until_ms = clock_mono_ms() + LAST_REPLIES_MS;
    server_send_replies(server);
    while (server->reply_count > 0 && !server->broken && clock_mono_ms() < until_ms) {
        zmq_pollitem_t item = {.socket = keeper_socket(server->carrier.keeper),
                               .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, LINK_RETRY_MS);
        server_read_keeper(server);
        server_send_replies(server);
    }
}

void server_loop(struct server *server)
{
    while (!is_over(server)) {
        server_turn(server, -1);
    }
    carry_flush(&server->carrier);
    send_last_replies(server);
}
