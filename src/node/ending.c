#include "node/agent.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- slots ----------------------------------------------------------------------------------- */

/* After its process died, or its folder cannot be had any more. */
static void close_slot(struct agent *agent, struct agent_slot *slot)
{
    pid_t others[AGENT_SLOTS_MAX + VOLUMES_PROCESSES_MAX];
    size_t count = volumes_processes(agent, others);
    for (uint32_t i = 0; i < agent->slot_count; i++) {
        if (&agent->slots[i] != slot && agent->slots[i].is_open) {
            others[count++] = agent->slots[i].slot.pid;
        }
    }
    slot_bury(&slot->slot, others, count);
    cgroup_slot_close(&agent->cgroup, &slot->cgroup);
    output_close(&slot->output);
    (void)!trash_take(&agent->trash, slot->output.path);
    slot->is_open = false;
}

void attempt_free_slot(struct agent *agent, struct agent_slot *slot)
{
    slot->attempt = NULL;
    agent->free_slots[agent->free_count++] = slot->index;
}

/* --- ending ---------------------------------------------------------------------------------- */

void attempt_add_unsent(struct agent *agent, struct attempt *attempt)
{
    if (agent->unsent_count == 0) {
        agent->unsent_since_ms = clock_mono_ms();
    }
    TAILQ_INSERT_TAIL(&agent->unsent, attempt, unsent_link);
    attempt->is_unsent = true;
    agent->unsent_count++;
}

void attempt_take_unsent(struct agent *agent, struct attempt *attempt)
{
    if (attempt->is_unsent) {
        TAILQ_REMOVE(&agent->unsent, attempt, unsent_link);
        attempt->is_unsent = false;
        agent->unsent_count--;
    }
}

void attempt_report(struct agent *agent, struct attempt *attempt)
{
    if (attempt->run->output_volume[0] == '\0') { /* else it may still be refused */
        volumes_let_go(attempt);
    }
    attempt_move(attempt, &agent->ended);
    attempt->ended.id = attempt->run->id;
    if (attempt->detail) {
        attempt->ended.detail = attempt->detail;
    }
    attempt_add_unsent(agent, attempt);
}

static void leave_slot(struct agent *agent, struct attempt *attempt)
{
    if (attempt->is_fresh) {
        TAILQ_REMOVE(&agent->fresh, attempt, fresh_link);
        attempt->is_fresh = false;
    }
    room_give_back(agent, attempt);
    attempt_free_slot(agent, attempt->slot);
    attempt->slot = NULL;
    agent->running_count--;
}

static void set_detail(struct attempt *attempt, const char *detail)
{
    free(attempt->detail);
    attempt->detail = detail && *detail ? mem_strdup(detail) : NULL;
}

void attempt_end(struct agent *agent, struct attempt *attempt, Drover__Outcome outcome,
                 const char *detail)
{
    attempt->ended.outcome = outcome;
    set_detail(attempt, detail);
    if (!attempt->slot) {
        haul_cancel(agent, attempt);
        attempt_report(agent, attempt);
        return;
    }
    attempt->ended.started_unix_ms = attempt->started_unix_ms;
    attempt->ended.duration_us = clock_mono_us() - attempt->started_mono_us;
    leave_slot(agent, attempt);
    if (!haul_after(agent, attempt)) {
        attempt_report(agent, attempt);
    }
}

static void describe_failure(struct attempt *attempt, const char *what, uint32_t error)
{
    struct err err = {0};
    (void)!err_errno(&err, (int)error, "%.200s", what);
    set_detail(attempt, err.text);
}

/* The name of argv[0] or workdir as the master gave it, for people. */
static void name_of(const ProtobufCBinaryData *bytes, const char *prefix, char *out, size_t size)
{
    int shown = (int)(bytes->len < 200 ? bytes->len : 200);
    snprintf(out, size, "%s%.*s", prefix, shown, (const char *)bytes->data);
    for (char *at = out; *at; at++) {
        if (*at == WIRE_TOKEN_OUTPUT[0]) {
            *at = '$'; /* a token */
        }
    }
}

static void judge(struct agent *agent, struct attempt *attempt, const struct reaper_ended *told)
{
    Drover__Ended *ended = &attempt->ended;
    char name[256];
    switch ((enum reaper_how)told->how) {
    case REAPER_EXITED:
        ended->outcome = DROVER__OUTCOME__OUTCOME_EXITED;
        break;
    case REAPER_SIGNALLED:
        ended->outcome = DROVER__OUTCOME__OUTCOME_SIGNALLED;
        break;
    case REAPER_TIMEOUT:
        ended->outcome = DROVER__OUTCOME__OUTCOME_TIMEOUT;
        break;
    case REAPER_KILLED:
        ended->outcome = DROVER__OUTCOME__OUTCOME_KILLED;
        break;
    case REAPER_NO_PROGRAM:
        ended->outcome = DROVER__OUTCOME__OUTCOME_NOT_STARTED;
        name_of(&attempt->run->argv[0], "", name, sizeof name);
        describe_failure(attempt, name, told->code);
        return;
    case REAPER_NO_FOLDER:
        ended->outcome = DROVER__OUTCOME__OUTCOME_NOT_STARTED;
        name_of(&attempt->run->workdir, "workdir ", name, sizeof name);
        describe_failure(attempt, name, told->code);
        return;
    case REAPER_NO_PROCESS:
    case REAPER_BAD_REQUEST:
    default:
        ended->outcome = DROVER__OUTCOME__OUTCOME_NOT_STARTED;
        describe_failure(attempt, "no process can be started", told->code);
        return;
    }
    ended->code = told->code;
    bool has_failed = ended->code != 0;
    bool by_itself = told->how == REAPER_EXITED || told->how == REAPER_SIGNALLED;
    /* Also read where it cannot matter, if there is a limit: it must not be blamed on the next. */
    if ((has_failed || attempt->run->memory_bytes > 0) &&
        cgroup_slot_was_oom(&agent->cgroup, &attempt->slot->cgroup) && has_failed && by_itself) {
        ended->outcome = DROVER__OUTCOME__OUTCOME_OUT_OF_MEMORY;
    }
}

enum err_code attempt_output_name(const struct attempt *attempt, size_t index, const char *folder,
                                  struct str *out, struct err *err)
{
    const struct launch_place place = {.nonce = attempt->run->nonce, .output = folder};
    AUTO_STR struct str text = {0};
    enum err_code code = launch_expand(&text, &attempt->run->outputs[index], &place, err);
    size_t size = strlen(folder); /* the folder itself may be written in front */
    bool is_full = strncmp(str_text(&text), folder, size) == 0 && str_text(&text)[size] == '/';
    str_clear(out);
    str_add(out, str_text(&text) + (is_full ? size + 1 : 0));
    return code;
}

static enum err_code check_outputs(struct agent *agent, const struct attempt *attempt,
                                   struct err *err)
{
    const struct output *output = &attempt->slot->output;
    struct str *name = &agent->other_path;
    for (size_t i = 0; i < attempt->run->n_outputs; i++) {
        enum err_code code = attempt_output_name(attempt, i, output->path, name, err);
        if (code == ERR_OK) {
            code = output_has(output, str_text(name), err);
        }
        if (code != ERR_OK) {
            return code;
        }
    }
    return ERR_OK;
}

void attempt_fail_output(struct attempt *attempt, const struct err *err)
{
    attempt->ended.outcome = DROVER__OUTCOME__OUTCOME_OUTPUT_MISSING;
    attempt->ended.has_output = false;
    set_detail(attempt, err->text);
}

/* Keeps what a success left, so that it is in its place before the success is told. */
static void keep_output(struct agent *agent, struct attempt *attempt, enum output_state state)
{
    struct err err = {0};
    struct output *output = &attempt->slot->output;
    bool is_in_volume = attempt->run->output_volume[0] != '\0'; /* looked at in volumes.c */
    if (attempt->run->n_outputs > 0 && !is_in_volume) {
        enum err_code code = state == OUTPUT_SPOILT
                                 ? err_set(&err, ERR_NOT_FOUND, "the output folder was removed")
                                 : check_outputs(agent, attempt, &err);
        if (code != ERR_OK) {
            attempt_fail_output(attempt, &err);
            return;
        }
    }
    if (state != OUTPUT_FILLED) {
        return;
    }
    struct str *path = &agent->other_path;
    attempt_folder(agent, attempt, "attempts", path);
    enum err_code code = attempt_make_folder(&agent->attempts_folder, path, &err);
    attempt_add_name(attempt->run, path);
    if (code == ERR_OK) {
        code = output_keep(output, &agent->trash, str_text(path), &err);
    }
    attempt->has_kept_output = code == ERR_OK;
    attempt->ended.has_output = code == ERR_OK;
    if (code != ERR_OK) {
        agent->attempts_folder.path[0] = '\0'; /* it may have been removed */
        attempt_fail_output(attempt, &err);
    }
}

static void finish(struct agent *agent, struct attempt *attempt, const struct reaper_ended *told)
{
    struct agent_slot *slot = attempt->slot;
    Drover__Ended *ended = &attempt->ended;
    ended->started_unix_ms = told->started_unix_ms;
    ended->duration_us = told->duration_us;
    ended->cpu_us = told->cpu_us;
    ended->peak_rss_bytes = told->peak_rss_bytes;
    ended->log_bytes = told->log_bytes;
    ended->log_dropped_bytes = told->log_dropped_bytes;
    judge(agent, attempt, told);
    if (told->log_missing) {
        agent->log_folder.path[0] = '\0'; /* it may have been removed */
    }
    enum output_state state = output_look(&slot->output);
    if (ended->outcome == DROVER__OUTCOME__OUTCOME_EXITED && ended->code == 0) {
        keep_output(agent, attempt, state);
    }
    if (!ended->has_output && state != OUTPUT_EMPTY &&
        output_empty(&slot->output, &agent->trash, NULL) != ERR_OK) {
        close_slot(agent, slot);
    }
    leave_slot(agent, attempt);
    if (!haul_after(agent, attempt)) {
        attempt_report(agent, attempt);
    }
}

void attempt_collect(struct agent *agent, struct agent_slot *slot)
{
    struct reaper_ended told;
    enum err_code code = slot_receive(&slot->slot, &told, NULL);
    if (code == ERR_AGAIN) {
        return;
    }
    struct attempt *attempt = slot->attempt;
    bool is_its = code == ERR_OK && attempt && told.serial == attempt->serial;
    if (is_its && told.how == REAPER_NO_PROCESS && attempt_wait_for_machine(agent, attempt)) {
        leave_slot(agent, attempt);
        haul_drop(agent, attempt);
        TAILQ_REMOVE(attempt->list, attempt, link);
        TAILQ_INSERT_HEAD(&agent->queued, attempt, link);
        attempt->list = &agent->queued;
        return;
    }
    if (is_its) {
        finish(agent, attempt, &told);
        return;
    }
    bool was_oom = cgroup_slot_was_oom(&agent->cgroup, &slot->cgroup); /* it is in the group too */
    close_slot(agent, slot);
    if (attempt && was_oom) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_OUT_OF_MEMORY, NULL);
    } else if (attempt) {
        attempt_end(agent, attempt, DROVER__OUTCOME__OUTCOME_SLOT_LOST,
                    "the slot's own process died");
    }
}
