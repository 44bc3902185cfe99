/* replay.c - facts that come from a disk: applied only if they can be true. */
#include "core/core_state.h"

static bool assignment_is_possible(const struct experiment_state_data *experiment,
                                   const struct fact *fact)
{
    const struct task *task = &experiment->tasks[fact->task];
    if (fact->attempt != (uint32_t)task->attempt + 1 || fact->attempt > UINT16_MAX) {
        return false;
    }
    if (fact->task == experiment->next_fresh) {
        return true;
    }
    return fact->task < experiment->next_fresh && task->state == TASK_QUEUED;
}

static bool is_live_attempt(const struct experiment_state_data *experiment, const struct fact *fact)
{
    const struct task *task = &experiment->tasks[fact->task];
    return task_is_live(task) && task->attempt == fact->attempt;
}

static bool is_possible_of_task(const struct experiment_state_data *experiment,
                                const struct fact *fact)
{
    if (fact->task >= experiment->defined) {
        return false;
    }
    switch (fact->kind) {
    case FACT_ASSIGNED:
        return assignment_is_possible(experiment, fact);
    case FACT_ACCEPTED:
    case FACT_FAILED:
    case FACT_LOST:
    case FACT_STOPPED:
        return is_live_attempt(experiment, fact);
    case FACT_TASK_CANCELLED:
        return !task_is_final(&experiment->tasks[fact->task]);
    case FACT_RETRIED:
        return task_can_reopen(&experiment->tasks[fact->task], false);
    case FACT_TERM:
    case FACT_SUBMITTED:
    case FACT_SKIPPED:
    case FACT_CANCELLED:
    case FACT_ENDED:
    case FACT_REOPENED:
    case FACT_SUGGESTED:
    case FACT_CLOSED:
    case FACT_KIND_COUNT:
        break;
    }
    return false;
}

static bool is_possible_of_experiment(const struct experiment_state_data *experiment,
                                      const struct fact *fact)
{
    switch (fact->kind) {
    case FACT_CANCELLED:
        return fact->outcome >= CANCEL_ASKED && fact->outcome <= CANCEL_TOO_MANY_FAILURES &&
               experiment->state != EXPERIMENT_ENDED;
    case FACT_SKIPPED:
        return experiment->state != EXPERIMENT_ENDED;
    case FACT_REOPENED:
        return fact->outcome <= REOPEN_SKIPPED;
    case FACT_SUGGESTED:
        return suggestion_is_possible(experiment, fact->task);
    case FACT_CLOSED:
        return !experiment->closed && experiment->state != EXPERIMENT_ENDED;
    case FACT_TERM:
    case FACT_SUBMITTED:
    case FACT_ASSIGNED:
    case FACT_ACCEPTED:
    case FACT_FAILED:
    case FACT_LOST:
    case FACT_ENDED:
    case FACT_TASK_CANCELLED:
    case FACT_RETRIED:
    case FACT_STOPPED:
    case FACT_KIND_COUNT:
        break;
    }
    return is_possible_of_task(experiment, fact);
}

static bool is_possible(const struct core *core, const struct fact *fact)
{
    if (fact->kind == FACT_TERM) {
        return fact->term > core->term;
    }
    if (fact->workflow < 1 || fact->workflow > core->workflow_count) {
        return false;
    }
    const struct workflow *workflow = &core->workflows[fact->workflow - 1];
    if (fact->kind == FACT_SUBMITTED) {
        return !workflow->submitted;
    }
    if (!workflow->submitted) {
        return false;
    }
    if (fact->kind == FACT_ENDED) {
        return fact->outcome <= WORKFLOW_CANCELLED && workflow_all_ended(workflow);
    }
    return fact->experiment < workflow->experiment_count &&
           is_possible_of_experiment(&workflow->experiments[fact->experiment], fact);
}

enum err_code core_apply(struct core *core, const struct fact *fact, struct err *err)
{
    if (!is_possible(core, fact)) {
        return err_set(err, ERR_CORRUPT, "log: fact %llu (kind %d) contradicts what came before",
                       (unsigned long long)core->last_fact + 1, (int)fact->kind);
    }
    apply_fact(core, fact);
    return ERR_OK;
}
