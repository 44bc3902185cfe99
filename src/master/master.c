/* master.c - the loop: what happened goes into the core, what it decides is carried out. */
#include "master/master.h"

#include "base/clock.h"
#include "base/mem.h"
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
    STOP_PATIENCE_MS = 5000, /* for a store that fails while we leave */
    LINK_RETRY_MS = 200,
    TICK_MS = 1000,
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
    /* in one process the peer's queue has no limit and the size is bounded by the soft limit plus
     * one task, whose parts the recipe bounds */
    enum err_code code = wire_send_to_node(server->inproc.socket, message, NULL);
    CHECK(code == ERR_OK);
}

static void tell_task(void *context, uint32_t node, const struct master_task_event *event)
{
    struct server *server = context;
    const struct master_observer *observer = server->options->observer;
    server->counts.accepted += event->state == TASK_SUCCEEDED;
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

static const struct carrier_ops carrier_ops = {.send = send_to_node,
                                               .task = tell_task,
                                               .experiment = tell_experiment,
                                               .workflow = tell_workflow};

/* --- pausing ------------------------------------------------------------------------------------
 */

static void update_pause(struct server *server)
{
    server->paused = server->store_trouble || server->unsafe_many || server->link_trouble ||
                     (server->signals > 0 && server->options->until_ended);
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

static void read_keeper(struct server *server)
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

static void tick_when_due(struct server *server)
{
    if (core_next_due_ms(server->core) <= server_now_ms(server)) {
        core_tick(server->core, server_now_ms(server), &server->out);
        server_carry(server, NULL);
    }
    if (clock_mono_ms() - server->ticked_ms >= TICK_MS) {
        server->ticked_ms = clock_mono_ms();
        gate_tick(server);
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

/* What the loop waits for. The first two are the signals and the end of the node in this process. */
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
    zmq_poll(items, count, wait_ms < 0 ? poll_timeout_ms(server) : wait_ms);
    gate_see_stall(server);
    read_keeper(server);
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
    watch_backlog(server);
    watch_links(server);
}

static void loop(struct server *server)
{
    while (!is_over(server)) {
        server_turn(server, -1);
    }
    carry_flush(&server->carrier);
}

/* --- beginning and end ---------------------------------------------------------------------------
 */

static int block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    CHECK(fd >= 0);
    return fd;
}

/* The term must be durable before anything else goes out; so is a run's submission then. */
static void begin(struct server *server)
{
    int64_t now_ms = server_now_ms(server);
    bool network = server->options->serve != NULL;
    if (network) {
        core_set_lease(server->core, server->gate.lease_ms);
    }
    core_begin_term(server->core, network ? CORE_NODES_AWAY : CORE_NODES_GONE, now_ms,
                    &server->out);
    if (server->options->until_ended && !core_is_submitted(server->core, 1)) {
        core_submit(server->core, 1, now_ms, &server->out);
    }
    server_carry(server, NULL);
    carry_flush(&server->carrier);
    zmq_pollitem_t items[] = {
        {.socket = keeper_socket(server->carrier.keeper), .events = ZMQ_POLLIN},
        {.fd = server->signal_fd, .events = ZMQ_POLLIN},
    };
    while (!server->broken && server->signals == 0 &&
           server->carrier.durable < server->carrier.posted) {
        zmq_poll(items, 2, -1);
        read_keeper(server);
        if (items[1].revents) {
            server_read_signals(server); /* a full disk must not make it deaf */
        }
    }
}

static void say_notes(struct server *server)
{
    const struct recipe *recipe = server->session->flow->recipe;
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct experiment *experiment = &recipe->experiments[e];
        const char *wanted = experiment->image ? experiment->image : experiment->framework;
        if (wanted) {
            server_note(server,
                        "%s %s: no containers here; tasks run in this machine's environment",
                        experiment->image ? "image" : "framework", wanted);
            return; /* once */
        }
    }
}

/* Connections and slots take files; tasks get the limit as it was (the node sees to that). */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)!setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void open_parts(struct server *server)
{
    if (server->options->serve) {
        raise_file_limit();
    }
    server->began_mono_ms = clock_mono_ms();
    server->began_unix_ms = clock_unix_ms();
    server->signal_fd = block_signals();
    server->inproc.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(server->inproc.ended_fd >= 0);
    server->context = zmq_ctx_new();
    CHECK(server->context);
}

static void start_keeper(struct server *server)
{
    struct keeper_options keeper = {
        .zmq_context = server->context, .store = server->session->store, .sync_fd = -1};
    if (server->options->power_durable) {
        keeper.sync_fd = open(server->session->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    server->session->store = NULL;
    server->carrier =
        (struct carrier){.ops = &carrier_ops,
                         .context = server,
                         .session = server->session,
                         .core = server->core,
                         .keeper = keeper_start(&keeper),
                         .message_only = server->options->message_only,
                         .starts_wait = server->options->serve && !server->options->message_only,
                         .posted = core_last_fact(server->core),
                         .durable = core_last_fact(server->core)};
    carrier_init(&server->carrier);
}

static void stop_keeper(struct server *server)
{
    if (!server->carrier.keeper) {
        return;
    }
    bool all_durable = keeper_stop(server->carrier.keeper, STOP_PATIENCE_MS);
    if (!all_durable && !server->broken) {
        server->broken = true;
        err_set(&server->err, ERR_IO,
                "the log could not be written to the end; what was not logged will run again");
    }
    carrier_release(&server->carrier);
}

static void close_parts(struct server *server)
{
    hooks_stop(server);
    serve_close(server);
    stop_keeper(server);
    server_drop_replies(server);
    herd_release(&server->herd);
    core_out_release(&server->out);
    zmq_ctx_term(server->context);
    close(server->signal_fd);
    close(server->inproc.ended_fd);
}

static enum err_code repair_outputs(struct server *server, struct err *err)
{
    const struct session *session = server->session;
    enum outputs_age age = !session->resumed        ? OUTPUTS_NEW
                           : server->options->serve ? OUTPUTS_ADOPTING
                                                    : OUTPUTS_ALONE;
    for (size_t i = 0; i < session->flow_count; i++) {
        enum err_code code = outputs_repair(session->core, session->flows[i], age, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}

static bool has_work(const struct server *server)
{
    return !server->broken && server->signals == 0 &&
           (!server->options->until_ended ||
            core_workflow_state(server->core, 1) == WORKFLOW_RUNNING);
}

static void work(struct server *server)
{
    const struct master_observer *observer = server->options->observer;
    if (!server->options->serve) {
        herd_add(&server->herd, "local", "");
    }
    start_keeper(server);
    observer->begun(observer->context, server);
    begin(server);
    if (has_work(server)) {
        if (server->options->until_ended) {
            say_notes(server);
        }
        if (server->options->capacity) {
            inproc_start(server);
        }
        if (serve_announce(server)) {
            loop(server);
        }
        inproc_stop(server);
        locals_stop(server);
    }
    if (observer->refresh_ms > 0) {
        observer->refresh(observer->context, server);
    }
}

static enum master_end how_it_ended(const struct server *server, struct err *err)
{
    if (server->broken) {
        if (err) {
            *err = server->err;
        }
        return MASTER_BROKEN;
    }
    bool done = server->options->until_ended &&
                (server->ended || core_workflow_state(server->core, 1) != WORKFLOW_RUNNING);
    return done ? MASTER_DONE : MASTER_STOPPED;
}

enum master_end master_run(const struct master_options *options, struct err *err)
{
    struct server server = {
        .options = options, .session = options->session, .core = options->session->core};
    if (repair_outputs(&server, err) != ERR_OK) {
        return MASTER_BROKEN;
    }
    open_parts(&server);
    enum err_code code = options->serve ? serve_open(&server, &server.err) : ERR_OK;
    server.broken = server.broken || code != ERR_OK;
    if (!server.broken) {
        work(&server);
    }
    close_parts(&server);
    return how_it_ended(&server, err);
}
