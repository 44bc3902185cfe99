#include "node/node.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "node/agent.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

enum {
    HOLD_MS = 2,              /* at most so long is an end kept back */
    HOLD_MAX = 64,            /* and so many */
    TRASH_LOOK_MS = 50,       /* while the remover runs */
    STOP_PATIENCE_MS = 10000, /* for processes that even KILL does not end */
    LEAVE_PATIENCE_MS = 5000, /* for the slots' processes at the end */
};

/* --- to the master --------------------------------------------------------------------------- */

static enum err_code say_hello(struct agent *agent, const char *note, struct err *err)
{
    const struct node_capacity *capacity = &agent->options->capacity;
    AUTO_STR struct str text = {0};
    AUTO_FREE char *name = mem_strdup(agent->options->name);
    AUTO_FREE char *gpu_kind = mem_strdup(capacity->gpu_kind);
    Drover__Hello hello = DROVER__HELLO__INIT;
    hello.protocol = WIRE_PROTOCOL;
    hello.name = name;
    hello.cpu_milli = capacity->cpu_milli;
    hello.memory_bytes = capacity->memory_bytes;
    hello.disk_bytes = capacity->disk_bytes;
    hello.gpus = capacity->gpus;
    hello.gpu_kind = gpu_kind;
    if (note) {
        str_addf(&text, "memory limits are not enforced and out-of-memory cannot be told apart: %s",
                 note);
        hello.n_notes = 1;
        hello.notes = &text.text;
    }
    Drover__ToMaster message = DROVER__TO_MASTER__INIT;
    message.hello = &hello;
    return wire_send_to_master(agent->socket, &message, err);
}

/* Sends Started for those that have run long enough to be worth telling. */
static size_t collect_started(struct agent *agent)
{
    size_t count = 0;
    struct attempt *attempt = NULL;
    int64_t before_us = clock_mono_us() - AGENT_STARTED_AFTER_MS * INT64_C(1000);
    while (count < AGENT_BATCH_MAX && (attempt = TAILQ_FIRST(&agent->fresh)) != NULL &&
           attempt->started_mono_us <= before_us) {
        TAILQ_REMOVE(&agent->fresh, attempt, fresh_link);
        attempt->is_fresh = false;
        Drover__Started *started = &agent->started[count];
        drover__started__init(started);
        started->id = attempt->run->id;
        started->started_unix_ms = attempt->started_unix_ms;
        agent->started_pointers[count++] = started;
    }
    return count;
}

/* One message with all that is ready, as long as there is something. */
static enum err_code send_reports(struct agent *agent, bool is_last, struct err *err)
{
    size_t sent = 0;
    for (bool again = true; again;) {
        size_t left = agent->unsent_ended_count - sent;
        Drover__ToMaster message = DROVER__TO_MASTER__INIT;
        message.n_started = collect_started(agent);
        message.started = agent->started_pointers;
        message.n_ended = left < AGENT_BATCH_MAX ? left : AGENT_BATCH_MAX;
        message.ended = left > 0 ? agent->unsent_ended + sent : NULL;
        sent += message.n_ended;
        again = sent < agent->unsent_ended_count || message.n_started == AGENT_BATCH_MAX;
        message.stopped = is_last && !again;
        if (message.n_started + message.n_ended == 0 && !message.stopped) {
            break;
        }
        enum err_code code = wire_send_to_master(agent->socket, &message, err);
        if (code != ERR_OK) {
            return code;
        }
    }
    agent->unsent_ended_count = 0;
    return ERR_OK;
}

/* --- from the master ------------------------------------------------------------------------- */

static void stop(struct agent *agent, int64_t grace_ms)
{
    agent->is_stopping = true;
    agent->stop_until_ms = clock_mono_ms() + grace_ms + STOP_PATIENCE_MS;
    attempt_kill_all(agent, grace_ms);
}

static void take_message(struct agent *agent, Drover__ToNode *message)
{
    for (size_t i = 0; i < message->n_settled; i++) {
        attempt_settle(agent, message->settled[i]->id, message->settled[i]->accepted);
    }
    for (size_t i = 0; i < message->n_run; i++) {
        attempt_add(agent, message->run[i]);
    }
    message->n_run = 0; /* they are the attempts' now */
    for (size_t i = 0; i < message->n_kill; i++) {
        attempt_kill(agent, message->kill[i]->id, message->kill[i]->grace_ms);
    }
    if (message->stop) {
        stop(agent, message->stop->grace_ms);
    }
}

/* Takes all that waits. *any: something did. */
static enum err_code receive_all(struct agent *agent, bool *any, struct err *err)
{
    *any = false;
    for (;;) {
        Drover__ToNode *message = NULL;
        enum err_code code = wire_receive_to_node(agent->socket, &message, err);
        if (code != ERR_OK) {
            return code == ERR_AGAIN ? ERR_OK : code;
        }
        *any = true;
        take_message(agent, message);
        wire_free_to_node(message);
    }
}

/* --- the loop -------------------------------------------------------------------------------- */

/* While there is more to run here the master need not hear of each end at once: a message and a
 * wake-up for several of them is a good part of what a short task costs. */
static bool must_report(const struct agent *agent)
{
    int64_t now_us = clock_mono_us();
    const struct attempt *fresh = TAILQ_FIRST(&agent->fresh);
    if (fresh && fresh->started_mono_us + AGENT_STARTED_AFTER_MS * INT64_C(1000) <= now_us) {
        return true;
    }
    size_t count = agent->unsent_ended_count;
    return count > 0 && (TAILQ_EMPTY(&agent->queued) || count >= HOLD_MAX ||
                         now_us / 1000 >= agent->unsent_since_ms + HOLD_MS);
}

static int sleep_ms(struct agent *agent)
{
    int64_t now_ms = clock_mono_ms();
    int64_t until_ms = INT64_MAX;
    const struct attempt *fresh = TAILQ_FIRST(&agent->fresh);
    if (fresh) {
        until_ms = fresh->started_mono_us / 1000 + AGENT_STARTED_AFTER_MS + 1;
    }
    if (agent->unsent_ended_count > 0 && agent->unsent_since_ms + HOLD_MS < until_ms) {
        until_ms = agent->unsent_since_ms + HOLD_MS;
    }
    if (trash_turn(&agent->trash) && now_ms + TRASH_LOOK_MS < until_ms) {
        until_ms = now_ms + TRASH_LOOK_MS;
    }
    if (agent->is_stopping && agent->stop_until_ms < until_ms) {
        until_ms = agent->stop_until_ms;
    }
    if (now_ms < agent->crowded_until_ms && agent->crowded_until_ms < until_ms) {
        until_ms = agent->crowded_until_ms;
    }
    if (until_ms == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    return left_ms < 60000 ? (int)left_ms : 60000;
}

/* Sleeps until a slot or the master has something, and takes what the slots have. */
static enum err_code wait_for_slots(struct agent *agent, bool *has_news, struct err *err)
{
    struct pollfd *files = agent->poll_files;
    uint32_t count = agent->slot_count;
    files[0] = (struct pollfd){.fd = agent->socket_fd, .events = POLLIN};
    for (uint32_t i = 0; i < count; i++) {
        const struct agent_slot *slot = &agent->slots[i];
        files[i + 1] = (struct pollfd){.fd = slot->slot.control, .events = POLLIN};
    }
    int ready = poll(files, count + 1, sleep_ms(agent));
    if (ready < 0 && errno != EINTR) {
        return err_errno(err, errno, "poll");
    }
    *has_news = ready > 0 && files[0].revents;
    for (uint32_t i = 0; ready > 0 && i < count; i++) {
        if (files[i + 1].revents) {
            attempt_collect(agent, &agent->slots[i]);
        }
    }
    return ERR_OK;
}

static bool is_done(struct agent *agent)
{
    if (!agent->is_stopping) {
        return false;
    }
    if (agent->running_count > 0 && clock_mono_ms() < agent->stop_until_ms) {
        return false;
    }
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(&agent->running)) != NULL) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED,
                    "its processes cannot be ended");
    }
    return true;
}

/* Before sleeping on the socket's descriptor everything must have been taken from the socket: it
 * tells of news only once, and sending may already look at the news. */
static enum err_code run_loop(struct agent *agent, struct err *err)
{
    bool has_news = true;
    for (;;) {
        attempt_start_queued(agent);
        if (is_done(agent)) {
            return ERR_OK;
        }
        enum err_code code = ERR_OK;
        if (must_report(agent)) {
            code = send_reports(agent, false, err);
            has_news = true;
        }
        if (code == ERR_OK && has_news) {
            code = receive_all(agent, &has_news, err);
        }
        if (code == ERR_OK && !has_news) {
            code = wait_for_slots(agent, &has_news, err);
        }
        if (code != ERR_OK) {
            return code;
        }
    }
}

/* --- opening and closing --------------------------------------------------------------------- */

static enum err_code open_socket(struct agent *agent, struct err *err)
{
    const char *endpoint = agent->options->endpoint;
    bool is_local = strncmp(endpoint, "inproc://", 9) == 0;
    agent->socket = zmq_socket(agent->options->zmq_context, is_local ? ZMQ_PAIR : ZMQ_DEALER);
    if (!agent->socket) {
        return err_set(err, ERR_IO, "socket: %s", zmq_strerror(zmq_errno()));
    }
    int unlimited = 0; /* what is outstanding is bounded by the master */
    int linger_ms = 1000;
    size_t size = sizeof agent->socket_fd;
    zmq_setsockopt(agent->socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(agent->socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(agent->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (zmq_connect(agent->socket, endpoint) != 0 ||
        zmq_getsockopt(agent->socket, ZMQ_FD, &agent->socket_fd, &size) != 0) {
        return err_set(err, ERR_IO, "%s: %s", endpoint, zmq_strerror(zmq_errno()));
    }
    return ERR_OK;
}

static void find_own_cgroup(char *out, size_t size)
{
    AUTO_STR struct str mountinfo = {0};
    AUTO_STR struct str own = {0};
    enum { PROC_FILE_MAX = 4 << 20 };
    if (io_read_file("/proc/self/mountinfo", PROC_FILE_MAX, &mountinfo, NULL) != ERR_OK ||
        io_read_file("/proc/self/cgroup", PROC_FILE_MAX, &own, NULL) != ERR_OK ||
        cgroup_find(str_text(&mountinfo), str_text(&own), out, size, NULL) != ERR_OK) {
        out[0] = '\0';
    }
}

static enum err_code open_agent(struct agent *agent, struct err *err)
{
    if (agent->options->capacity.gpus > WIRE_GPUS_MAX) {
        return err_set(err, ERR_RANGE, "more than %d GPUs", (int)WIRE_GPUS_MAX);
    }
    if (access("/proc/self/stat", R_OK) != 0) {
        return err_errno(err, errno, "/proc is needed to keep track of processes");
    }
    reaper_raise_file_limit();
    enum err_code code = open_socket(agent, err);
    if (code == ERR_OK) {
        code = trash_open(&agent->trash, agent->options->work_folder, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return err_errno(err, errno, "cannot become a subreaper");
    }
    char base[PATH_MAX];
    struct err why = {0};
    find_own_cgroup(base, sizeof base);
    bool has_memory_control = cgroup_open(&agent->cgroup, base, &why) == ERR_OK;
    return say_hello(agent, has_memory_control ? NULL : why.text, err);
}

/* Closing its socket makes a reaper kill all it has and leave; all are told before any is waited
 * for. */
static void close_slots(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->slot_count; i++) {
        slot_dismiss(&agent->slots[i].slot);
    }
    for (uint32_t i = 0; i < agent->slot_count; i++) {
        struct agent_slot *slot = &agent->slots[i];
        if (slot->is_open) {
            slot_wait(&slot->slot, LEAVE_PATIENCE_MS);
            cgroup_slot_close(&agent->cgroup, &slot->cgroup);
            output_close(&slot->output);
        }
    }
}

static void close_agent(struct agent *agent)
{
    cgroup_close(&agent->cgroup);
    trash_close(&agent->trash);
    attempt_free_list(&agent->queued);
    attempt_free_list(&agent->running);
    attempt_free_list(&agent->ended);
    launch_release(&agent->launcher);
    str_release(&agent->log_path);
    str_release(&agent->other_path);
    str_release(&agent->gpu_list);
    free(agent->unsent_ended);
    free(agent->slots);
    if (agent->socket) {
        zmq_close(agent->socket);
    }
    free(agent);
}

enum err_code node_run(const struct node_options *options, struct err *err)
{
    CHECK(options->work_folder[0] == '/');
    struct agent *agent = mem_alloc(sizeof *agent);
    agent->options = options;
    TAILQ_INIT(&agent->queued);
    TAILQ_INIT(&agent->running);
    TAILQ_INIT(&agent->ended);
    TAILQ_INIT(&agent->fresh);
    agent->slots = mem_array(AGENT_SLOTS_MAX, sizeof *agent->slots);
    enum err_code code = open_agent(agent, err);
    if (code == ERR_OK) {
        code = run_loop(agent, err);
    }
    close_slots(agent);
    if (code == ERR_OK) {
        code = send_reports(agent, true, err); /* everything is gone: `stopped` is true now */
    }
    close_agent(agent);
    return code;
}
