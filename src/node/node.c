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
    LEAVE_PATIENCE_MS = 5000, /* for the slots' processes at the end */
};

/* --- to the master --------------------------------------------------------------------------- */

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
        if (attempt->slot && !attempt->is_remote) {
            started->output.data = (uint8_t *)attempt->slot->output.path;
            started->output.len = strlen(attempt->slot->output.path);
        }
        agent->started_pointers[count++] = started;
    }
    return count;
}

/* If they are lost on the way the next Welcome makes them unsent again. */
static size_t collect_ended(struct agent *agent)
{
    size_t count = 0;
    size_t size = 0;
    struct attempt *attempt = NULL;
    while (count < AGENT_BATCH_MAX && size < AGENT_BATCH_BYTES_MAX &&
           (attempt = TAILQ_FIRST(&agent->unsent)) != NULL) {
        attempt_take_unsent(agent, attempt);
        size += attempt->ended.log.len;
        agent->ended_pointers[count++] = &attempt->ended;
    }
    return count;
}

/* One message with all that is ready, as long as there is something. */
static enum err_code send_reports(struct agent *agent, bool is_last, struct err *err)
{
    for (bool again = true; again;) {
        Drover__ToMaster message = DROVER__TO_MASTER__INIT;
        message.n_started = collect_started(agent);
        message.started = agent->started_pointers;
        message.n_ended = collect_ended(agent);
        message.ended = agent->ended_pointers;
        again = agent->unsent_count > 0 || message.n_started == AGENT_BATCH_MAX;
        message.stopped = is_last && !again;
        if (message.n_started + message.n_ended == 0 && !message.stopped) {
            return ERR_OK;
        }
        enum err_code code = link_send(agent, &message, err);
        if (code != ERR_OK) {
            return code == ERR_AGAIN ? ERR_OK : code;
        }
    }
    return ERR_OK;
}

/* --- from the master ------------------------------------------------------------------------- */

void agent_stop(struct agent *agent, int64_t grace_ms, int64_t patience_ms)
{
    int64_t until_ms = clock_mono_ms() + grace_ms + patience_ms;
    if (!agent->is_stopping || until_ms < agent->stop_until_ms) {
        agent->stop_until_ms = until_ms;
    }
    agent->is_stopping = true;
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
        agent_stop(agent, message->stop->grace_ms, AGENT_STOP_PATIENCE_MS);
    }
}

/* Takes all that waits. *any: something did. */
static enum err_code receive_all(struct agent *agent, bool *any, struct err *err)
{
    *any = false;
    for (;;) {
        Drover__ToNode *message = NULL;
        enum err_code code = link_receive(agent, &message, err);
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
    if (agent->link.state != LINK_JOINED) {
        return false;
    }
    int64_t now_us = clock_mono_us();
    const struct attempt *fresh = TAILQ_FIRST(&agent->fresh);
    if (fresh && fresh->started_mono_us + AGENT_STARTED_AFTER_MS * INT64_C(1000) <= now_us) {
        return true;
    }
    size_t count = agent->unsent_count;
    return count > 0 && (TAILQ_EMPTY(&agent->queued) || count >= HOLD_MAX ||
                         now_us / 1000 >= agent->unsent_since_ms + HOLD_MS);
}

static void sooner(int64_t *until_ms, int64_t other_ms)
{
    *until_ms = other_ms < *until_ms ? other_ms : *until_ms;
}

static int sleep_ms(struct agent *agent)
{
    int64_t now_ms = clock_mono_ms();
    int64_t until_ms = link_wake_ms(agent);
    const struct attempt *fresh = TAILQ_FIRST(&agent->fresh);
    if (agent->link.state == LINK_JOINED && fresh) {
        sooner(&until_ms, fresh->started_mono_us / 1000 + AGENT_STARTED_AFTER_MS + 1);
    }
    if (agent->link.state == LINK_JOINED && agent->unsent_count > 0) {
        sooner(&until_ms, agent->unsent_since_ms + HOLD_MS);
    }
    if (trash_turn(&agent->trash)) {
        sooner(&until_ms, now_ms + TRASH_LOOK_MS);
    }
    if (agent->is_stopping) {
        sooner(&until_ms, agent->stop_until_ms);
    }
    if (now_ms < agent->crowded_until_ms) {
        sooner(&until_ms, agent->crowded_until_ms);
    }
    if (agent->options->join) {
        sooner(&until_ms, notice_wake_ms(agent));
        sooner(&until_ms, haul_wake_ms(agent));
        sooner(&until_ms, measure_wake_ms(agent));
    }
    if (until_ms == INT64_MAX) {
        return -1;
    }
    int64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    return left_ms < 60000 ? (int)left_ms : 60000;
}

/* Sleeps until something has something to say, and takes what the slots have. */
static enum err_code wait_for_news(struct agent *agent, struct err *err)
{
    struct pollfd *files = agent->poll_files;
    struct pollfd *slots = files + AGENT_OTHER_FILES;
    uint32_t count = agent->slot_count;
    files[0] = (struct pollfd){.fd = agent->link.fd, .events = POLLIN};
    files[1] = (struct pollfd){.fd = haul_fd(agent), .events = POLLIN};
    files[2] = (struct pollfd){.fd = notice_fd(agent), .events = POLLIN};
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = (struct pollfd){.fd = agent->slots[i].slot.control, .events = POLLIN};
    }
    int ready = poll(files, count + AGENT_OTHER_FILES, sleep_ms(agent));
    if (ready < 0 && errno != EINTR) {
        return err_errno(err, errno, "poll");
    }
    agent->link.has_news = ready > 0 && files[0].revents;
    for (uint32_t i = 0; ready > 0 && i < count; i++) {
        if (slots[i].revents) {
            attempt_collect(agent, &agent->slots[i]);
        }
    }
    return ERR_OK;
}

/* Over the network, before it leaves: is there something the master should still be told? */
static bool must_stay(const struct agent *agent)
{
    bool may_tell = agent->options->join && !agent->link.is_over;
    bool has_something = !TAILQ_EMPTY(&agent->delivering) ||
                         (agent->link.state != LINK_JOINED && agent->unsent_count > 0);
    return may_tell && has_something;
}

static bool is_done(struct agent *agent)
{
    if (!agent->is_stopping) {
        return false;
    }
    bool is_late = clock_mono_ms() >= agent->stop_until_ms;
    if (agent->running_count > 0 && !is_late) {
        return false;
    }
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(&agent->running)) != NULL) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED,
                    "its processes cannot be ended");
    }
    return is_late || !must_stay(agent);
}

/* What only an agent on the network has to see to. */
static enum err_code turn_outside(struct agent *agent, struct err *err)
{
    if (!agent->options->join) {
        return ERR_OK;
    }
    notice_turn(agent);
    haul_turn(agent);
    enum err_code code = link_turn(agent, err);
    if (code == ERR_OK) {
        code = notice_send(agent, err);
    }
    return code == ERR_OK ? measure_turn(agent, err) : code;
}

/* Before sleeping on the socket's descriptor everything must have been taken from the socket. */
static enum err_code run_loop(struct agent *agent, struct err *err)
{
    for (;;) {
        enum err_code code = turn_outside(agent, err);
        attempt_start_queued(agent);
        if (code == ERR_OK && is_done(agent)) {
            return ERR_OK;
        }
        if (code == ERR_OK && must_report(agent)) {
            code = send_reports(agent, false, err);
        }
        bool took_some = false;
        bool was_stopping = agent->is_stopping;
        if (code == ERR_OK && agent->link.has_news) {
            code = receive_all(agent, &took_some, err);
        }
        bool was_sent_away = agent->is_stopping && !was_stopping;
        if (code == ERR_OK && !took_some && !was_sent_away) {
            code = wait_for_news(agent, err);
        }
        if (code != ERR_OK) {
            return code;
        }
    }
}

/* --- opening and closing --------------------------------------------------------------------- */

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

/* What another life of this node held is gone, and the master knows by the boot id in Hello. */
static void throw_old_workflows(struct agent *agent)
{
    AUTO_STR struct str path = {0};
    str_addf(&path, "%s/workflows", agent->options->work_folder);
    (void)!trash_take(&agent->trash, str_text(&path));
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
    enum err_code code = trash_open(&agent->trash, agent->options->work_folder, err);
    if (code != ERR_OK) {
        return code;
    }
    if (agent->options->join) {
        throw_old_workflows(agent);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return err_errno(err, errno, "cannot become a subreaper");
    }
    char base[PATH_MAX];
    struct err why = {0};
    find_own_cgroup(base, sizeof base);
    bool has_memory_control = cgroup_open(&agent->cgroup, base, &why) == ERR_OK;
    return link_open(agent, has_memory_control ? NULL : why.text, err);
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
    haul_release(agent);
    if (agent->options->join && agent->trash.work) {
        throw_old_workflows(agent);
    }
    usage_close(agent->usage);
    cgroup_close(&agent->cgroup);
    trash_close(&agent->trash);
    attempt_free_list(&agent->fetching);
    attempt_free_list(&agent->queued);
    attempt_free_list(&agent->running);
    attempt_free_list(&agent->delivering);
    attempt_free_list(&agent->ended);
    launch_release(&agent->launcher);
    str_release(&agent->log_path);
    str_release(&agent->other_path);
    str_release(&agent->inputs_path);
    str_release(&agent->gpu_list);
    free(agent->slots);
    link_close(&agent->link);
    free(agent);
}

enum err_code node_run(const struct node_options *options, struct err *err)
{
    CHECK(options->work_folder[0] == '/');
    struct agent *agent = mem_alloc(sizeof *agent);
    agent->options = options;
    TAILQ_INIT(&agent->fetching);
    TAILQ_INIT(&agent->queued);
    TAILQ_INIT(&agent->running);
    TAILQ_INIT(&agent->delivering);
    TAILQ_INIT(&agent->ended);
    TAILQ_INIT(&agent->fresh);
    TAILQ_INIT(&agent->unsent);
    haul_init(agent);
    agent->slots = mem_array(AGENT_SLOTS_MAX, sizeof *agent->slots);
    enum err_code code = open_agent(agent, err);
    if (code == ERR_OK) {
        code = run_loop(agent, err);
    }
    close_slots(agent);
    if (code == ERR_OK && agent->link.is_over) {
        code = err_set(err, ERR_DENIED, "%s", agent->link.reason);
    } else if (code == ERR_OK && agent->link.state == LINK_JOINED) {
        code = send_reports(agent, true, err); /* everything is gone: `stopped` is true now */
    }
    close_agent(agent);
    return code;
}
