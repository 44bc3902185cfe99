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

/* WORK/KIND/EXPERIMENT/K, K being the task's thousand: no folder grows without bound. */
void attempt_folder(const struct agent *agent, const Drover__Run *run, const char *kind,
                    struct str *out)
{
    str_clear(out);
    str_add(out, agent->options->work_folder);
    str_add_char(out, '/');
    str_add(out, kind);
    str_add_char(out, '/');
    str_add(out, run->experiment_name);
    str_add_char(out, '/');
    str_add_u64(out, run->id->task / 1000);
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

static enum err_code prepare_log(struct agent *agent, const Drover__Run *run, struct err *err)
{
    struct str *path = &agent->log_path;
    attempt_folder(agent, run, "logs", path);
    enum err_code code = attempt_make_folder(&agent->log_folder, path, err);
    if (code != ERR_OK) {
        return code;
    }
    attempt_add_name(run, path);
    str_add(path, ".log");
    return path->size < PATH_MAX ? ERR_OK : err_set(err, ERR_RANGE, "log: the path is too long");
}

static enum err_code prepare_checkpoint(struct agent *agent, const Drover__Run *run,
                                        struct err *err)
{
    attempt_folder(agent, run, "checkpoints", &agent->other_path);
    str_add_char(&agent->other_path, '/');
    str_add_u64(&agent->other_path, run->id->task);
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

/* --- starting -------------------------------------------------------------------------------- */

void attempt_add(struct agent *agent, Drover__Run *run)
{
    struct attempt *attempt = mem_alloc(sizeof *attempt);
    attempt->run = run;
    drover__ended__init(&attempt->ended);
    TAILQ_INSERT_TAIL(&agent->queued, attempt, link);
    struct err err = {0};
    if (agent->is_stopping) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, "the node is stopping");
    } else if (room_check(agent, run, &err) != ERR_OK) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_NOT_STARTED, err.text);
    }
}

static enum err_code launch(struct agent *agent, struct attempt *attempt, struct agent_slot *slot,
                            struct err *err)
{
    const Drover__Run *run = attempt->run;
    enum err_code code = prepare_log(agent, run, err);
    if (code == ERR_OK && run->checkpoint) {
        code = prepare_checkpoint(agent, run, err);
    }
    if (code != ERR_OK) {
        return code;
    }
    struct launch_place place = {
        .nonce = attempt->run->nonce,
        .serial = attempt->serial,
        .output = slot->output.path,
        .checkpoint = run->checkpoint ? str_text(&agent->other_path) : NULL,
        .log = str_text(&agent->log_path),
        .gpus = room_list_gpus(agent, attempt),
    };
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
    TAILQ_REMOVE(&agent->queued, attempt, link);
    TAILQ_INSERT_TAIL(&agent->running, attempt, link);
    TAILQ_INSERT_TAIL(&agent->fresh, attempt, fresh_link);
    attempt->is_fresh = true;
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

void attempt_kill(struct agent *agent, const Drover__Attempt *id, int64_t grace_ms)
{
    struct attempt *attempt = find(&agent->running, id);
    if (attempt) {
        slot_kill(&attempt->slot->slot, attempt->serial, grace_ms);
        return;
    }
    attempt = find(&agent->queued, id);
    if (attempt) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, NULL);
    }
}

void attempt_kill_all(struct agent *agent, int64_t grace_ms)
{
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(&agent->queued)) != NULL) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_KILLED, NULL);
    }
    TAILQ_FOREACH(attempt, &agent->running, link)
    {
        slot_kill(&attempt->slot->slot, attempt->serial, grace_ms);
    }
}

static void free_attempt(struct attempt *attempt)
{
    drover__run__free_unpacked(attempt->run, NULL);
    free(attempt->detail);
    free(attempt);
}

void attempt_settle(struct agent *agent, const Drover__Attempt *id, bool accepted)
{
    struct attempt *attempt = find(&agent->ended, id);
    if (!attempt) {
        return;
    }
    if (attempt->ended.has_output && !accepted) {
        attempt_folder(agent, attempt->run, "attempts", &agent->other_path);
        attempt_add_name(attempt->run, &agent->other_path);
        (void)!trash_take(&agent->trash, str_text(&agent->other_path));
    }
    TAILQ_REMOVE(&agent->ended, attempt, link);
    free_attempt(attempt);
}

void attempt_free_list(struct attempt_list *list)
{
    struct attempt *attempt = NULL;
    while ((attempt = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, attempt, link);
        free_attempt(attempt);
    }
}
