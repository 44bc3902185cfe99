#include "node/agent.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- paths ----------------------------------------------------------------------------------- */

static void add_root(const struct agent *agent, const struct attempt *attempt, struct str *out)
{
    const Drover__Run *run = attempt->run;
    if (attempt->is_remote) {
        str_add(out, agent->options->work_folder);
        str_add(out, "/workflows/");
        str_add(out, run->workflow_id);
    } else if (run->root.len > 0) {
        str_add_bytes(out, run->root.data, run->root.len);
    } else {
        str_add(out, agent->options->work_folder);
    }
}

static void add_folder(const struct agent *agent, const struct attempt *attempt, const char *kind,
                       uint64_t number, struct str *out)
{
    const Drover__Run *run = attempt->run;
    str_clear(out);
    add_root(agent, attempt, out);
    str_add_char(out, '/');
    str_add(out, kind);
    str_add_char(out, '/');
    str_add(out, run->experiment_name);
    str_add_char(out, '/');
    str_add_u64(out, number / 1000);
}

/* ROOT/KIND/EXPERIMENT/K, K being the task's thousand: no folder grows without bound. */
void attempt_folder(const struct agent *agent, const struct attempt *attempt, const char *kind,
                    struct str *out)
{
    add_folder(agent, attempt, kind, attempt->run->id->task, out);
}

enum err_code attempt_make_folder(struct made_folder *made, const struct str *path, struct err *err)
{
    if (strcmp(made->path, str_text(path)) == 0) {
        return ERR_OK;
    }
    enum err_code code = io_make_dirs(str_text(path), err);
    if (code == ERR_OK && path->size < sizeof made->path) {
        memcpy(made->path, path->text, path->size + 1);
    }
    return code;
}

void attempt_add_name(const Drover__Run *run, struct str *out)
{
    str_add_char(out, '/');
    str_add_u64(out, run->id->task);
    str_add_char(out, '.');
    str_add_u64(out, run->id->attempt);
}

/* Remote, each log has a name of its own: whoever still reads one never meets another's text. */
void attempt_add_log(const struct agent *agent, const struct attempt *attempt, struct str *out)
{
    str_add(out, agent->options->work_folder);
    str_add(out, "/slots/logs/");
    str_add_u64(out, attempt->serial);
    str_add(out, ".log");
}

static enum err_code prepare_log(struct agent *agent, const struct attempt *attempt,
                                 struct err *err)
{
    struct str *path = &agent->log_path;
    if (attempt->is_remote) {
        str_clear(path);
        str_add(path, agent->options->work_folder);
        str_add(path, "/slots/logs");
    } else {
        attempt_folder(agent, attempt, "logs", path);
    }
    enum err_code code = attempt_make_folder(&agent->log_folder, path, err);
    if (code != ERR_OK) {
        return code;
    }
    if (attempt->is_remote) {
        str_clear(path);
        attempt_add_log(agent, attempt, path);
    } else {
        attempt_add_name(attempt->run, path);
        str_add(path, ".log");
    }
    return path->size < PATH_MAX ? ERR_OK : err_set(err, ERR_RANGE, "log: the path is too long");
}

void attempt_checkpoint(const struct agent *agent, const struct attempt *attempt, struct str *out)
{
    const Drover__Run *run = attempt->run;
    uint64_t number = run->id->task;
    if (!attempt->is_remote && run->checkpoint_name[0] != '\0') {
        number = strtoull(run->checkpoint_name, NULL, 10); /* wire_check: digits that fit */
    }
    add_folder(agent, attempt, "checkpoints", number, out);
    if (attempt->is_remote) {
        attempt_add_name(run, out);
        return;
    }
    str_add_char(out, '/');
    str_add_u64(out, number);
}

static enum err_code prepare_checkpoint(struct agent *agent, const struct attempt *attempt,
                                        struct err *err)
{
    attempt_checkpoint(agent, attempt, &agent->other_path);
    return io_make_dirs(str_text(&agent->other_path), err);
}

/* --- slots ----------------------------------------------------------------------------------- */

static enum err_code open_slot(struct agent *agent, struct agent_slot *slot, struct err *err)
{
    if (slot->is_open) {
        return ERR_OK;
    }
    enum err_code code = output_open(&slot->output, agent->options->work_folder, slot->index, err);
    if (code == ERR_EXISTS) { /* of the process that was lost here */
        (void)!trash_take(&agent->trash, slot->output.path);
        code = output_open(&slot->output, agent->options->work_folder, slot->index, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    cgroup_slot_open(&agent->cgroup, &slot->cgroup, slot->index);
    code = slot_start(&slot->slot, slot->cgroup.procs_fd, agent->options->keep_fd, err);
    if (code != ERR_OK) {
        cgroup_slot_close(&agent->cgroup, &slot->cgroup);
        output_close(&slot->output);
        return code;
    }
    slot->is_open = true;
    return ERR_OK;
}

/* The one freed last is the one whose memory is warm. */
static struct agent_slot *take_slot(struct agent *agent)
{
    if (agent->free_count > 0) {
        return &agent->slots[agent->free_slots[--agent->free_count]];
    }
    if (agent->slot_count == AGENT_SLOTS_MAX) {
        return NULL;
    }
    struct agent_slot *slot = &agent->slots[agent->slot_count];
    slot->index = agent->slot_count++;
    slot->slot.control = -1;
    slot->output.fd = -1;
    return slot;
}

void attempt_move(struct attempt *attempt, struct attempt_list *to)
{
    TAILQ_REMOVE(attempt->list, attempt, link);
    TAILQ_INSERT_TAIL(to, attempt, link);
    attempt->list = to;
}

/* --- starting -------------------------------------------------------------------------------- */

/* What wire.h leaves to us: whether there is a folder for its files at all. */
static enum err_code check_places(const struct attempt *attempt, struct err *err)
{
    const Drover__Run *run = attempt->run;
    if (attempt->is_remote && run->workflow_id[0] == '\0') {
        return err_set(err, ERR_INVALID, "the workflow has no id to name a folder after");
    }
    if (run->root.len > 0 && run->root.data[0] != '/') {
        return err_set(err, ERR_INVALID, "the workflow's folder is not an absolute path");
    }
    return ERR_OK;
}

static struct attempt *find(struct attempt_list *list, const Drover__Attempt *id);

/* The same attempt twice would share its files with itself. */
static bool is_known(struct agent *agent, const Drover__Attempt *id)
{
    return find(&agent->fetching, id) || find(&agent->queued, id) || find(&agent->running, id) ||
           find(&agent->delivering, id) || find(&agent->ended, id);
}

static void judge_new(struct agent *agent, struct attempt *attempt)
{
    struct err err = {0};
    if (agent->is_stopping) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, "the node is stopping");
    } else if (room_check(agent, attempt->run, &err) != ERR_OK ||
               check_places(attempt, &err) != ERR_OK ||
               haul_before(agent, attempt, &err) != ERR_OK) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_NOT_STARTED, err.text);
    }
}

void attempt_add(struct agent *agent, Drover__Run *run)
{
    bool is_joined = agent->options->join != NULL;
    if (is_joined && !run->message_only && is_known(agent, run->id)) {
        drover__run__free_unpacked(run, NULL);
        return;
    }
    struct attempt *attempt = mem_alloc(sizeof *attempt);
    attempt->run = run;
    attempt->is_remote = is_joined && !(agent->is_shared && run->root.len > 0);
    drover__ended__init(&attempt->ended);
    attempt->list = &agent->queued;
    TAILQ_INSERT_TAIL(attempt->list, attempt, link);
    if (run->message_only) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_EXITED, NULL);
    } else {
        judge_new(agent, attempt);
    }
}

static enum err_code launch(struct agent *agent, struct attempt *attempt, struct agent_slot *slot,
                            struct err *err)
{
    const Drover__Run *run = attempt->run;
    enum err_code code = prepare_log(agent, attempt, err);
    if (code == ERR_OK && run->checkpoint) {
        code = prepare_checkpoint(agent, attempt, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct launch_place place = {
        .nonce = attempt->run->nonce,
        .serial = attempt->serial,
        .output = slot->output.path,
        .checkpoint = run->checkpoint ? str_text(&agent->other_path) : NULL,
        .code = attempt->code ? attempt->code->folder : NULL,
        .log = str_text(&agent->log_path),
        .gpus = room_list_gpus(agent, attempt),
    };
    if (run->n_inputs > 0) {
        str_clear(&agent->inputs_path);
        add_root(agent, attempt, &agent->inputs_path);
        str_add(&agent->inputs_path, "/outputs");
        place.inputs = str_text(&agent->inputs_path);
    }
    code = launch_build(&agent->launcher, run, &place, err);
    if (code == ERR_OK) {
        cgroup_slot_limit(&agent->cgroup, &slot->cgroup, run->memory_bytes);
        slot_run(&slot->slot, agent->launcher.packet.text, agent->launcher.packet.size);
    }
    launch_forget(&agent->launcher, run);
    return code;
}

bool attempt_wait_for_machine(struct agent *agent, struct attempt *attempt)
{
    if (agent->is_stopping || attempt->crowded >= AGENT_CROWDED_TRIES) {
        return false;
    }
    attempt->crowded++;
    agent->crowded_until_ms = clock_mono_ms() + AGENT_CROWDED_MS;
    return true;
}

/* False: there is no slot for it now. */
static bool start(struct agent *agent, struct attempt *attempt)
{
    struct err err = {0};
    struct agent_slot *slot = take_slot(agent);
    if (!slot) {
        return false;
    }
    if (open_slot(agent, slot, &err) != ERR_OK) {
        attempt_free_slot(agent, slot);
        if (agent->running_count > 0 || attempt_wait_for_machine(agent, attempt)) {
            return false; /* when one of those ends there may be room again */
        }
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_NOT_STARTED, err.text);
        return true;
    }
    attempt->serial = ++agent->next_serial;
    attempt->started_mono_us = clock_mono_us();
    attempt->started_unix_ms = clock_unix_ms();
    room_take(agent, attempt);
    if (launch(agent, attempt, slot, &err) != ERR_OK) {
        room_give_back(agent, attempt);
        attempt_free_slot(agent, slot);
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_NOT_STARTED, err.text);
        return true;
    }
    attempt->slot = slot;
    slot->attempt = attempt;
    agent->running_count++;
    attempt_move(attempt, &agent->running);
    TAILQ_INSERT_TAIL(&agent->fresh, attempt, fresh_link);
    attempt->is_fresh = true;
    haul_begin(agent, attempt);
    return true;
}

void attempt_start_queued(struct agent *agent)
{
    struct attempt *attempt = NULL;
    if (clock_mono_ms() < agent->crowded_until_ms) {
        return;
    }
    while ((attempt = TAILQ_FIRST(&agent->queued)) != NULL && room_fits(agent, attempt->run)) {
        if (!start(agent, attempt)) {
            return;
        }
    }
}

/* --- what the master says of one ------------------------------------------------------------- */

static struct attempt *find(struct attempt_list *list, const Drover__Attempt *id)
{
    struct attempt *attempt = NULL;
    TAILQ_FOREACH(attempt, list, link)
    {
        if (wire_attempt_equal(attempt->run->id, id)) {
            return attempt;
        }
    }
    return NULL;
}

static void kill_running(struct agent *agent, struct attempt *attempt, int64_t grace_ms)
{
    slot_kill(&attempt->slot->slot, attempt->serial, grace_ms);
    haul_hurry(agent, attempt);
}

void attempt_kill(struct agent *agent, const Drover__Attempt *id, int64_t grace_ms)
{
    struct attempt *attempt = find(&agent->running, id);
    if (attempt) {
        kill_running(agent, attempt, grace_ms);
        return;
    }
    attempt = find(&agent->queued, id);
    attempt = attempt ? attempt : find(&agent->fetching, id);
    if (attempt) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, NULL);
    }
}

void attempt_kill_all(struct agent *agent, int64_t grace_ms)
{
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(&agent->queued)) != NULL ||
           (attempt = TAILQ_FIRST(&agent->fetching)) != NULL) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, NULL);
    }
    TAILQ_FOREACH(attempt, &agent->running, link)
    {
        kill_running(agent, attempt, grace_ms);
    }
}

static void free_attempt(struct attempt *attempt)
{
    drover__run__free_unpacked(attempt->run, NULL);
    free(attempt->ended.log.data);
    free(attempt->detail);
    free(attempt);
}

static void throw_away(struct agent *agent, const struct attempt *attempt, bool accepted)
{
    struct str *path = &agent->other_path;
    if (attempt->has_kept_output && (attempt->is_remote || !accepted)) {
        attempt_folder(agent, attempt, "attempts", path);
        attempt_add_name(attempt->run, path);
        (void)!trash_take(&agent->trash, str_text(path));
    }
    if (attempt->is_remote && attempt->run->checkpoint) {
        attempt_checkpoint(agent, attempt, path);
        (void)!trash_take(&agent->trash, str_text(path));
    }
}

void attempt_settle(struct agent *agent, const Drover__Attempt *id, bool accepted)
{
    struct attempt *attempt = find(&agent->ended, id);
    if (!attempt) {
        return;
    }
    throw_away(agent, attempt, accepted);
    attempt_take_unsent(agent, attempt);
    haul_forget(agent, attempt);
    TAILQ_REMOVE(&agent->ended, attempt, link);
    free_attempt(attempt);
}

void attempt_report_again(struct agent *agent)
{
    struct attempt *attempt = NULL;
    TAILQ_FOREACH(attempt, &agent->ended, link)
    {
        attempt_take_unsent(agent, attempt); /* so that they are in order */
        attempt_add_unsent(agent, attempt);
    }
    TAILQ_FOREACH(attempt, &agent->running, link)
    {
        if (!attempt->is_fresh) {
            TAILQ_INSERT_TAIL(&agent->fresh, attempt, fresh_link);
            attempt->is_fresh = true;
        }
    }
}

void attempt_free_list(struct attempt_list *list)
{
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, attempt, link);
        free_attempt(attempt);
    }
}
