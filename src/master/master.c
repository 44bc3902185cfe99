#include "master/master.h"

#include "base/clock.h"
#include "base/mem.h"
#include "master/carry.h"
#include "master/outputs.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

enum {
    NODE = 0,                  /* the one node's number */
    WORKFLOW = 1,              /* and the one workflow's */
    UNSAFE_FACTS_MAX = 500000, /* facts posted but not durable before dispatch pauses */
    STOP_GRACE_MS = 10000,
    STOP_PATIENCE_MS = 5000, /* for a store that fails while we leave */
    LINK_RETRY_MS = 200,
};

static const char node_endpoint[] = "inproc://node";

struct master {
    const struct master_options *options;
    struct session *session;
    struct core *core;
    struct core_out out;
    struct carrier carrier;
    void *context;
    void *node_socket;
    pthread_t node_thread;
    struct node_options node_options;
    int signal_fd;
    int node_ended_fd; /* an eventfd: the node's thread has returned */
    int64_t began_mono_ms;
    int64_t began_unix_ms;
    int64_t refreshed_ms;
    int64_t links_tried_ms;
    bool node_stopped;
    bool node_lost;
    bool store_trouble;
    bool unsafe_many;
    bool link_trouble;
    int signals; /* INT and TERM so far */
    bool broken;
    struct err err;
    struct err node_err;
};

const struct session *master_session(const struct master *master)
{
    return master->session;
}

const struct core *master_core(const struct master *master)
{
    return master->core;
}

int64_t master_elapsed_ms(const struct master *master)
{
    return clock_mono_ms() - master->began_mono_ms;
}

bool master_is_stopping(const struct master *master)
{
    return master->signals > 0;
}

/* The date when we began plus a clock that never goes back. */
static int64_t now_ms(const struct master *master)
{
    return master->began_unix_ms + master_elapsed_ms(master);
}

static void note(struct master *master, const char *text)
{
    master->options->observer->note(master->options->observer->context, text);
}

/* --- pausing ------------------------------------------------------------------------------------
 */

static void update_pause(struct master *master)
{
    bool pause =
        master->store_trouble || master->unsafe_many || master->link_trouble || master->signals > 0;
    core_pause(master->core, pause, now_ms(master), &master->out);
    carry_out(&master->carrier, &master->out, NULL);
}

static void watch_backlog(struct master *master)
{
    uint64_t unsafe = master->carrier.posted - master->carrier.durable;
    bool many = unsafe > UNSAFE_FACTS_MAX;
    if (many != master->unsafe_many) {
        master->unsafe_many = many;
        update_pause(master);
    }
}

static void watch_links(struct master *master)
{
    if (master->carrier.missing_count == 0 && !master->link_trouble) {
        return;
    }
    if (clock_mono_ms() - master->links_tried_ms < LINK_RETRY_MS) {
        return;
    }
    struct err err = {0};
    bool made = carry_links(&master->carrier, &err);
    master->links_tried_ms = clock_mono_ms();
    if (!made && !master->link_trouble) {
        AUTO_STR struct str text = {0};
        str_addf(&text, "waiting: cannot link an output (%s)", err.text);
        note(master, str_text(&text));
    }
    if (made == master->link_trouble) {
        master->link_trouble = !made;
        update_pause(master);
    }
}

/* --- what comes in ------------------------------------------------------------------------------
 */

static struct core_attempt attempt_of(const Drover__Attempt *id)
{
    return (struct core_attempt){.workflow = id->workflow,
                                 .experiment = id->experiment,
                                 .task = id->task,
                                 .attempt = id->attempt,
                                 .term = id->term};
}

static void on_hello(struct master *master, const Drover__Hello *hello)
{
    struct core_resources capacity = {.cpu_milli = hello->cpu_milli,
                                      .gpus = hello->gpus,
                                      .memory_bytes = hello->memory_bytes,
                                      .disk_bytes = hello->disk_bytes};
    snprintf(capacity.gpu_kind, sizeof capacity.gpu_kind, "%s", hello->gpu_kind);
    for (size_t i = 0; i < hello->n_notes; i++) {
        bool about_memory = strstr(hello->notes[i], "memory") != NULL;
        bool needed = false;
        for (size_t e = 0; e < master->session->recipe->experiment_count; e++) {
            needed = needed || master->session->recipe->experiments[e].hardware.memory_bytes > 0;
        }
        if (!about_memory || needed) {
            note(master, hello->notes[i]);
        }
    }
    core_node_join(master->core, NODE, &capacity, now_ms(master), &master->out);
    carry_out(&master->carrier, &master->out, NULL);
}

static void on_started(struct master *master, const Drover__Started *started)
{
    struct core_attempt id = attempt_of(started->id);
    core_task_running(master->core, &id);
    struct master_task_event event = {.experiment = id.experiment,
                                      .task = id.task,
                                      .attempt = id.attempt,
                                      .state = TASK_RUNNING,
                                      .detail = "",
                                      .started_ms = started->started_unix_ms};
    master->options->observer->task(master->options->observer->context, master, &event);
}

static void send_stop(struct master *master, int64_t grace_ms)
{
    if (!master->node_socket) {
        return; /* it has not begun */
    }
    carry_flush(&master->carrier);
    Drover__Stop stop = DROVER__STOP__INIT;
    stop.grace_ms = grace_ms;
    Drover__ToNode message = DROVER__TO_NODE__INIT;
    message.stop = &stop;
    enum err_code code = wire_send_to_node(master->node_socket, &message, NULL);
    CHECK(code == ERR_OK);
}

/* First: end tasks politely and keep the state. Again: at once. */
static void read_signals(struct master *master)
{
    struct signalfd_siginfo info;
    while (read(master->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGWINCH) {
            master->refreshed_ms = 0;
            continue;
        }
        master->signals++;
        if (master->signals == 1) {
            note(master, "stopping: tasks are told to end (TERM) and killed after 10 s, or when "
                         "you ask again; the state is kept");
            update_pause(master);
            send_stop(master, STOP_GRACE_MS);
        } else if (master->signals == 2) {
            send_stop(master, 0);
        }
    }
}

/* Who stops a whole machine or service signals its tasks as well as us: that is no fault of theirs.
 */
static bool was_stopped_with_us(struct master *master, const Drover__Ended *ended)
{
    if (ended->outcome != DROVER__OUTCOME__OUTCOME_SIGNALLED) {
        return false;
    }
    read_signals(master); /* ours may have come, but not been looked at */
    return master->signals > 0 && (ended->code == SIGTERM || ended->code == SIGINT ||
                                   ended->code == SIGHUP || ended->code == SIGKILL);
}

static void on_ended(struct master *master, const Drover__Ended *ended)
{
    struct core_attempt id = attempt_of(ended->id);
    struct core_result result = {.outcome = (enum core_outcome)ended->outcome,
                                 .code = ended->code,
                                 .has_output = ended->has_output,
                                 .started_ms = ended->started_unix_ms,
                                 .duration_us = ended->duration_us};
    if (was_stopped_with_us(master, ended)) {
        result.outcome = OUT_KILLED;
    }
    core_task_ended(master->core, NODE, &id, &result, now_ms(master), &master->out);
    carry_out(&master->carrier, &master->out, ended);
}

static void read_node(struct master *master)
{
    Drover__ToMaster *message = NULL;
    while (wire_receive_to_master(master->node_socket, &message, NULL) == ERR_OK) {
        if (message->hello) {
            on_hello(master, message->hello);
        }
        for (size_t i = 0; i < message->n_started; i++) {
            on_started(master, message->started[i]);
        }
        for (size_t i = 0; i < message->n_ended; i++) {
            on_ended(master, message->ended[i]);
        }
        master->node_stopped = master->node_stopped || message->stopped;
        wire_free_to_master(message);
    }
}

static void on_news(struct master *master, const struct keeper_news *news)
{
    AUTO_STR struct str text = {0};
    switch (news->kind) {
    case KEEPER_DURABLE:
        carry_durable(&master->carrier, news->durable);
        break;
    case KEEPER_TROUBLE:
        master->store_trouble = true;
        str_addf(&text,
                 "waiting: the log cannot be written (%s); nothing new is started until it can",
                 news->err.text);
        note(master, str_text(&text));
        update_pause(master);
        break;
    case KEEPER_RECOVERED:
        master->store_trouble = false;
        note(master, "the log can be written again; going on");
        update_pause(master);
        break;
    case KEEPER_FATAL:
        master->broken = true;
        master->err = news->err;
        break;
    }
}

static void read_keeper(struct master *master)
{
    struct keeper_news news;
    while (keeper_read(master->carrier.keeper, &news)) {
        on_news(master, &news);
    }
}

static void see_node_end(struct master *master, bool has_ended)
{
    if (has_ended) {
        master->broken = true;
        master->node_lost = true;
        err_set(&master->err, ERR_IO, "the node on this machine failed: %s", master->node_err.text);
    }
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static long poll_timeout_ms(const struct master *master)
{
    int64_t wait_ms = 1000;
    int64_t due_ms = core_next_due_ms(master->core);
    if (due_ms != INT64_MAX && due_ms - now_ms(master) < wait_ms) {
        wait_ms = due_ms - now_ms(master);
    }
    int refresh_ms = master->options->observer->refresh_ms;
    if (refresh_ms > 0) {
        int64_t left_ms = master->refreshed_ms + refresh_ms - clock_mono_ms();
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
    }
    if (master->carrier.missing_count > 0 && wait_ms > LINK_RETRY_MS) {
        wait_ms = LINK_RETRY_MS;
    }
    return wait_ms > 0 ? (long)wait_ms : 0;
}

static void refresh_when_due(struct master *master)
{
    const struct master_observer *observer = master->options->observer;
    if (observer->refresh_ms > 0 &&
        clock_mono_ms() - master->refreshed_ms >= observer->refresh_ms) {
        master->refreshed_ms = clock_mono_ms();
        observer->refresh(observer->context, master);
    }
}

static bool is_over(const struct master *master)
{
    return master->broken || master->carrier.workflow_ended ||
           (master->signals > 0 && master->node_stopped);
}

static void loop(struct master *master)
{
    zmq_pollitem_t items[] = {
        {.socket = master->node_socket, .events = ZMQ_POLLIN},
        {.socket = keeper_socket(master->carrier.keeper), .events = ZMQ_POLLIN},
        {.fd = master->signal_fd, .events = ZMQ_POLLIN},
        {.fd = master->node_ended_fd, .events = ZMQ_POLLIN},
    };
    while (!is_over(master)) {
        carry_flush(&master->carrier);
        refresh_when_due(master);
        zmq_poll(items, 4, poll_timeout_ms(master));
        read_keeper(master);
        read_node(master);
        if (items[2].revents) {
            read_signals(master);
        }
        see_node_end(master, items[3].revents != 0);
        if (core_next_due_ms(master->core) <= now_ms(master)) {
            core_tick(master->core, now_ms(master), &master->out);
            carry_out(&master->carrier, &master->out, NULL);
        }
        watch_backlog(master);
        watch_links(master);
    }
    carry_flush(&master->carrier);
}

/* --- beginning and end ---------------------------------------------------------------------------
 */

static void *node_thread(void *argument)
{
    struct master *master = argument;
    /* the master reads node_err only after it has seen the event */
    enum err_code code = node_run(&master->node_options, &master->node_err);
    uint64_t one = 1;
    if (code != ERR_OK && write(master->node_ended_fd, &one, sizeof one) != (ssize_t)sizeof one) {
        check_failed(__FILE__, __LINE__, __func__, "an eventfd takes a one");
    }
    return NULL;
}

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

static void start_node(struct master *master)
{
    master->node_socket = zmq_socket(master->context, ZMQ_PAIR);
    CHECK(master->node_socket);
    int no_limit = 0;
    zmq_setsockopt(master->node_socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    zmq_setsockopt(master->node_socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    CHECK(zmq_bind(master->node_socket, node_endpoint) == 0);
    master->carrier.node_socket = master->node_socket;
    master->node_options = (struct node_options){.work_folder = master->session->folder,
                                                 .name = "local",
                                                 .capacity = *master->options->capacity,
                                                 .zmq_context = master->context,
                                                 .endpoint = node_endpoint,
                                                 .keep_fd = master->session->lock_fd};
    CHECK(pthread_create(&master->node_thread, NULL, node_thread, master) == 0);
    /* until it has said hello nothing can be sent to it, a stop least of all */
    zmq_pollitem_t items[] = {
        {.socket = master->node_socket, .events = ZMQ_POLLIN},
        {.fd = master->node_ended_fd, .events = ZMQ_POLLIN},
    };
    zmq_poll(items, 2, -1);
    read_node(master);
    see_node_end(master, items[1].revents != 0);
}

/* The term must be durable before anything else goes out; so is the submission then. */
static void begin(struct master *master)
{
    core_begin_term(master->core, now_ms(master), &master->out);
    if (!core_is_submitted(master->core, WORKFLOW)) {
        core_submit(master->core, WORKFLOW, now_ms(master), &master->out);
    }
    carry_out(&master->carrier, &master->out, NULL);
    carry_flush(&master->carrier);
    zmq_pollitem_t items[] = {
        {.socket = keeper_socket(master->carrier.keeper), .events = ZMQ_POLLIN},
        {.fd = master->signal_fd, .events = ZMQ_POLLIN},
    };
    while (!master->broken && master->signals == 0 &&
           master->carrier.durable < master->carrier.posted) {
        zmq_poll(items, 2, -1);
        read_keeper(master);
        if (items[1].revents) {
            read_signals(master); /* a full disk must not make it deaf */
        }
    }
}

static void stop_node(struct master *master)
{
    if (!master->node_stopped && !master->node_lost && master->signals == 0) {
        send_stop(master, master->broken ? 0 : STOP_GRACE_MS);
    }
    pthread_join(master->node_thread, NULL);
    zmq_close(master->node_socket);
}

static void say_notes(struct master *master)
{
    const struct recipe *recipe = master->session->recipe;
    for (size_t e = 0; e < recipe->experiment_count; e++) {
        const struct experiment *experiment = &recipe->experiments[e];
        const char *wanted = experiment->image ? experiment->image : experiment->framework;
        if (wanted) {
            AUTO_STR struct str text = {0};
            str_addf(&text, "%s %s: no containers here; tasks run in this machine's environment",
                     experiment->image ? "image" : "framework", wanted);
            note(master, str_text(&text));
            return; /* once */
        }
    }
}

static void open_parts(struct master *master)
{
    master->began_mono_ms = clock_mono_ms();
    master->began_unix_ms = clock_unix_ms();
    master->signal_fd = block_signals();
    master->node_ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(master->node_ended_fd >= 0);
    master->context = zmq_ctx_new();
    CHECK(master->context);
    struct keeper_options keeper = {
        .zmq_context = master->context, .store = master->session->store, .sync_fd = -1};
    if (master->options->power_durable) {
        keeper.sync_fd = open(master->session->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    master->session->store = NULL;
    master->carrier = (struct carrier){.master = master,
                                       .session = master->session,
                                       .observer = master->options->observer,
                                       .core = master->core,
                                       .keeper = keeper_start(&keeper),
                                       .posted = core_last_fact(master->core),
                                       .durable = core_last_fact(master->core)};
    carrier_init(&master->carrier);
}

static void close_parts(struct master *master)
{
    bool all_durable = keeper_stop(master->carrier.keeper, STOP_PATIENCE_MS);
    if (!all_durable && !master->broken) {
        master->broken = true;
        err_set(&master->err, ERR_IO,
                "the log could not be written to the end; what was not logged will run again");
    }
    carrier_release(&master->carrier);
    core_out_release(&master->out);
    zmq_ctx_term(master->context);
    close(master->signal_fd);
    close(master->node_ended_fd);
}

enum master_end master_run(const struct master_options *options, struct err *err)
{
    struct master master = {
        .options = options, .session = options->session, .core = options->session->core};
    enum err_code code = outputs_repair(options->session, err);
    if (code != ERR_OK) {
        return MASTER_BROKEN;
    }
    open_parts(&master);
    options->observer->begun(options->observer->context, &master);
    begin(&master);
    if (!master.broken && master.signals == 0 &&
        core_workflow_state(master.core, WORKFLOW) == WORKFLOW_RUNNING) {
        say_notes(&master);
        start_node(&master);
        loop(&master);
        stop_node(&master);
    }
    if (options->observer->refresh_ms > 0) {
        options->observer->refresh(options->observer->context, &master);
    }
    close_parts(&master);
    if (master.broken) {
        if (err) {
            *err = master.err;
        }
        return MASTER_BROKEN;
    }
    return master.carrier.workflow_ended ||
                   core_workflow_state(master.core, WORKFLOW) != WORKFLOW_RUNNING
               ? MASTER_DONE
               : MASTER_STOPPED;
}
