/* life.c - a master begins and ends: its parts, its term, and what it finds of the last one. */
#include "master/master.h"

#include "base/clock.h"
#include "base/mem.h"
#include "master/hunt.h"
#include "master/outputs.h"
#include "master/server_state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

enum { STOP_PATIENCE_MS = 5000 /* for a store that fails while we leave */ };

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
    /* A crash may have come between a workflow's record and its submission. Whoever asked has had
     * no answer, and asking again by the same key finds it recorded. */
    for (uint32_t w = 1; w <= server->session->flow_count; w++) {
        if (!core_is_submitted(server->core, w)) {
            core_submit(server->core, w, now_ms, &server->out);
        }
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
        server_read_keeper(server);
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
        (struct carrier){.ops = &server_carrier_ops,
                         .context = server,
                         .session = server->session,
                         .core = server->core,
                         .keeper = keeper_start(&keeper),
                         .owners = server->owners,
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

void server_close(struct server *server)
{
    hunts_close(server);
    hooks_stop(server);
    litter_close(server);
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

enum err_code server_open(struct server *server, struct err *err)
{
    enum err_code code = repair_outputs(server, err);
    if (code != ERR_OK) {
        return code;
    }
    open_parts(server);
    if (server->options->serve) {
        code = serve_open(server, &server->err);
        server->broken = server->broken || code != ERR_OK;
    } else {
        herd_add(&server->herd, "local", "");
    }
    if (!server->broken) {
        hooks_restore(server);
    }
    return ERR_OK;
}

bool server_begin(struct server *server)
{
    const struct master_observer *observer = server->options->observer;
    start_keeper(server);
    observer->begun(observer->context, server);
    begin(server);
    return has_work(server);
}

static void work(struct server *server)
{
    const struct master_observer *observer = server->options->observer;
    if (server_begin(server)) {
        if (server->options->until_ended) {
            say_notes(server);
        }
        if (server->options->capacity) {
            inproc_start(server);
        }
        if (serve_announce(server)) {
            server_loop(server);
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
    if (server_open(&server, err) != ERR_OK) {
        return MASTER_BROKEN;
    }
    if (!server.broken) {
        work(&server);
    }
    server_close(&server);
    return how_it_ended(&server, err);
}
