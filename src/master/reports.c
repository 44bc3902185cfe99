/* reports.c - what nodes say of their attempts, whichever way it came. */
#include "master/server_state.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "master/hunt.h"
#include "master/place.h"
#include "master/series.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SERIES_TASK_US = 2000000 }; /* shorter ones were never sampled */

static struct core_attempt attempt_of(const Drover__Attempt *id)
{
    return (struct core_attempt){.workflow = id->workflow,
                                 .experiment = id->experiment,
                                 .task = id->task,
                                 .attempt = id->attempt,
                                 .term = id->term};
}

bool reports_name_a_task(const struct server *server, const struct core_attempt *id)
{
    if (id->workflow < 1 || id->workflow > server->session->flow_count) {
        return false;
    }
    const struct recipe *recipe = server->session->flows[id->workflow - 1]->recipe;
    return id->experiment < recipe->experiment_count &&
           id->task < recipe->experiments[id->experiment].task_count;
}

bool reports_is_live_there(const struct server *server, const struct herd_node *node,
                           const struct core_attempt *id)
{
    struct core_task_view view;
    if (!reports_name_a_task(server, id)) {
        return false;
    }
    core_task_view(server->core, id->workflow, id->experiment, id->task, &view);
    return (view.state == TASK_ASSIGNED || view.state == TASK_RUNNING) &&
           view.attempt == id->attempt && view.node == node->number;
}

static void on_started(struct server *server, struct herd_node *node,
                       const Drover__Started *started)
{
    struct core_attempt id = attempt_of(started->id);
    struct core_task_view view;
    if (!reports_is_live_there(server, node, &id)) {
        return;
    }
    hunts_started(server, &id, started->output.data, started->output.len);
    core_task_view(server->core, id.workflow, id.experiment, id.task, &view);
    if (view.state == TASK_RUNNING) {
        return; /* it is said again after every Hello */
    }
    core_task_running(server->core, &id, started->started_unix_ms, server_now_ms(server));
    struct master_task_event event = {.workflow = id.workflow,
                                      .experiment = id.experiment,
                                      .task = id.task,
                                      .attempt = id.attempt,
                                      .state = TASK_RUNNING,
                                      .detail = "",
                                      .started_ms = started->started_unix_ms};
    server->carrier.ops->task(server, node->number, &event);
}

/* Who stops a whole machine or service signals its tasks as well as us: that is no fault of theirs.
 */
static bool was_stopped_with_us(struct server *server, const struct herd_node *node,
                                const Drover__Ended *ended)
{
    if (ended->outcome != DROVER__OUTCOME__OUTCOME_SIGNALLED || node->key[0]) {
        return false;
    }
    server_read_signals(server); /* ours may have come, but not been looked at */
    return server->signals > 0 && (ended->code == SIGTERM || ended->code == SIGINT ||
                                   ended->code == SIGHUP || ended->code == SIGKILL);
}

static int open_log(const char *path)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC };
    int fd = open(path, FLAGS, 0666);
    if (fd < 0 && errno == ENOENT) {
        AUTO_FREE char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
        if (io_make_dirs(folder, NULL) == ERR_OK) {
            fd = open(path, FLAGS, 0666);
        }
    }
    return fd;
}

/* The log of a node that does not share our disk. It must be here before its result counts. */
static bool keep_log(struct server *server, const struct core_attempt *id,
                     const ProtobufCBinaryData *log)
{
    const struct flow *flow = server->session->flows[id->workflow - 1];
    AUTO_STR struct str path = {0};
    struct err err = {0};
    place_add_log(&path, flow->folder, flow->recipe->experiments[id->experiment].name, id->task,
                  id->attempt);
    AUTO_CLOSE int fd = open_log(str_text(&path));
    enum err_code code = fd < 0 ? err_errno(&err, errno, "%s", str_text(&path))
                                : io_write_all(fd, log->data, log->len, &err);
    if (code != ERR_OK && !server->log_trouble_ms) {
        server_note(server, "waiting: a log cannot be written (%s)", err.text);
    }
    server->log_trouble_ms = code == ERR_OK ? 0 : clock_mono_ms();
    return code == ERR_OK;
}

/* Acceptance requires that the output is here; a node's word is not enough. */
static bool lacks_output(const struct server *server, const struct core_attempt *id,
                         const Drover__Ended *ended)
{
    if (!ended->has_output || ended->outcome != DROVER__OUTCOME__OUTCOME_EXITED ||
        ended->code != 0) {
        return false;
    }
    const struct flow *flow = server->session->flows[id->workflow - 1];
    AUTO_STR struct str path = {0};
    place_add_attempt(&path, flow->folder, flow->recipe->experiments[id->experiment].name, id->task,
                      id->attempt);
    return access(str_text(&path), F_OK) != 0 && errno == ENOENT;
}

static bool on_ended(struct server *server, struct herd_node *node, const Drover__Ended *ended)
{
    struct core_attempt id = attempt_of(ended->id);
    bool current = reports_is_live_there(server, node, &id);
    if (ended->log.len > 0 && current && !keep_log(server, &id, &ended->log)) {
        return false;
    }
    struct core_result result = {.outcome = (enum core_outcome)ended->outcome,
                                 .code = ended->code,
                                 .has_output = ended->has_output,
                                 .started_ms = ended->started_unix_ms,
                                 .duration_us = ended->duration_us};
    if (was_stopped_with_us(server, node, ended)) {
        result.outcome = OUT_KILLED;
    } else if (current && lacks_output(server, &id, ended)) {
        result.outcome = OUT_OUTPUT_MISSING;
    }
    node->ended_count++;
    if (server->series && current && ended->duration_us >= SERIES_TASK_US) {
        series_end(server->series, &(struct series_who){.node = node->number,
                                                        .workflow = id.workflow,
                                                        .experiment = id.experiment,
                                                        .task = id.task});
    }
    core_task_ended(server->core, node->number, &id, &result, server_now_ms(server), &server->out);
    for (size_t i = 0; i < server->out.effect_count; i++) {
        const struct core_effect *effect = &server->out.effects[i];
        server->counts.refused += !current && effect->kind == EFFECT_SETTLED && !effect->accepted;
    }
    server_carry(server, ended);
    return true;
}

static void on_task_usage(struct server *server, const struct herd_node *node,
                          const Drover__Usage *usage)
{
    struct core_attempt id = attempt_of(usage->id);
    if (reports_is_live_there(server, node, &id)) {
        struct series_who who = {.node = node->number,
                                 .workflow = id.workflow,
                                 .experiment = id.experiment,
                                 .task = id.task};
        series_add(server->series, &who, server_now_ms(server), usage);
    }
}

static void on_usage(struct server *server, struct herd_node *node, const Drover__Usage *usage)
{
    if (!server->series) {
        return;
    }
    if (usage->id) {
        on_task_usage(server, node, usage);
        return;
    }
    series_add(server->series, &(struct series_who){.node = node->number}, server_now_ms(server),
               usage);
    node->usage = (struct herd_usage){.at_ms = server_now_ms(server), /* its clock may differ */
                                      .cpu_milli = usage->cpu_milli,
                                      .memory_bytes = usage->memory_bytes,
                                      .disk_read_bytes = usage->disk_read_bytes,
                                      .disk_write_bytes = usage->disk_write_bytes,
                                      .net_in_bytes = usage->net_in_bytes,
                                      .net_out_bytes = usage->net_out_bytes,
                                      .gpu_milli = usage->gpu_milli,
                                      .gpu_memory_bytes = usage->gpu_memory_bytes};
}

bool reports_take(struct server *server, struct herd_node *node, const Drover__ToMaster *message)
{
    for (size_t i = 0; i < message->n_started; i++) {
        on_started(server, node, message->started[i]);
    }
    for (size_t i = 0; i < message->n_ended; i++) {
        if (!on_ended(server, node, message->ended[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < message->n_usage; i++) {
        on_usage(server, node, message->usage[i]);
    }
    return true;
}
