/* apply.c - facts to state. The only code that changes what outlives a restart. */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>

/* What a fact about a task is about. */
struct target {
    struct workflow *workflow;
    struct experiment_state_data *experiment;
    struct task *task;
};

static inline struct target target_of(struct core *core, const struct fact *fact)
{
    struct workflow *workflow = core_workflow_at(core, fact->workflow);
    CHECK(fact->experiment < workflow->experiment_count);
    struct experiment_state_data *experiment = &workflow->experiments[fact->experiment];
    return (struct target){workflow, experiment, &experiment->tasks[fact->task]};
}

uint64_t task_share(const struct experiment_state_data *experiment)
{
    return experiment->spec.needs.cpu_milli ? experiment->spec.needs.cpu_milli : 1;
}

bool experiment_dependencies_done(const struct workflow *workflow,
                                  const struct experiment_state_data *experiment)
{
    for (size_t i = 0; i < experiment->spec.depends_count; i++) {
        if (workflow->experiments[experiment->spec.depends_on[i]].state != EXPERIMENT_ENDED) {
            return false;
        }
    }
    return true;
}

bool workflow_all_ended(const struct workflow *workflow)
{
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        if (workflow->experiments[e].state != EXPERIMENT_ENDED) {
            return false;
        }
    }
    return true;
}

/* Cancelled or skipped, a search is over without having closed; a retry may take it up again. */
bool experiment_is_complete(const struct experiment_state_data *experiment)
{
    uint64_t final = experiment->succeeded + experiment->failed + experiment->cancelled_count +
                     experiment->skipped;
    CHECK(final <= experiment->defined);
    return final == experiment->defined &&
           (experiment->closed || experiment->cancelled || experiment->was_skipped);
}

static void end_when_all_are_final(struct experiment_state_data *experiment)
{
    if (experiment_is_complete(experiment)) {
        experiment->state = EXPERIMENT_ENDED;
    }
}

static void touch(struct experiment_state_data *experiment, uint64_t task)
{
    if (experiment->touched <= task) {
        experiment->touched = task + 1;
    }
}

/* --- tasks that wait for another attempt ------------------------------------------------------ */

/* A group waits, as one, when some member does and none is live any more. */
bool group_is_listed(const struct group *group)
{
    return group->live == 0 && group->queued > 0;
}

/* Makes the heap agree after the counts of a task's group have changed. */
static void group_relist(struct experiment_state_data *experiment, uint64_t number, bool was_listed)
{
    struct group *group = &experiment->groups[number];
    uint64_t first = number * experiment->spec.gang;
    bool is_listed = group_is_listed(group);
    if (is_listed && !was_listed) {
        heap_push(&experiment->retries, group->due_ms, first);
    } else if (!is_listed && was_listed) {
        heap_remove(&experiment->retries, first);
        group->due_ms = 0;
    }
}

static void enter_queue(struct experiment_state_data *experiment, uint64_t task, int64_t due_ms)
{
    experiment->tasks[task].state = TASK_QUEUED;
    experiment->queued++;
    if (!experiment->groups) {
        heap_push(&experiment->retries, due_ms, task);
        return;
    }
    struct group *group = &experiment->groups[task / experiment->spec.gang];
    bool was_listed = group_is_listed(group);
    if (was_listed && due_ms > group->due_ms) { /* it stands too far in front */
        heap_remove(&experiment->retries, task - task % experiment->spec.gang);
        was_listed = false;
    }
    group->queued++;
    group->due_ms = group->due_ms > due_ms ? group->due_ms : due_ms;
    group_relist(experiment, task / experiment->spec.gang, was_listed);
}

static void leave_queue(struct experiment_state_data *experiment, uint64_t task)
{
    CHECK(experiment->queued > 0);
    experiment->queued--;
    if (!experiment->groups) {
        heap_remove(&experiment->retries, task);
        return;
    }
    struct group *group = &experiment->groups[task / experiment->spec.gang];
    bool was_listed = group_is_listed(group);
    CHECK(group->queued > 0);
    group->queued--;
    group_relist(experiment, task / experiment->spec.gang, was_listed);
}

static void skip_to_fresh(struct experiment_state_data *experiment)
{
    while (experiment->next_fresh < experiment->defined &&
           experiment->tasks[experiment->next_fresh].state != TASK_WAITING) {
        experiment->next_fresh++;
    }
}

static void enter_live(const struct target *target, uint64_t task)
{
    target->experiment->live++;
    target->workflow->live_share += task_share(target->experiment);
    if (target->experiment->groups) {
        uint64_t number = task / target->experiment->spec.gang;
        struct group *group = &target->experiment->groups[number];
        bool was_listed = group_is_listed(group);
        group->live++;
        group_relist(target->experiment, number, was_listed);
    }
}

uint32_t task_clamp_ms(int64_t duration_ms)
{
    return duration_ms < 0 ? 0 : duration_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ms;
}

/* The state that follows is the caller's to set. Unless a result says otherwise, it ran from when
 * it was assigned until now. */
static void leave_live(const struct target *target, const struct fact *fact)
{
    struct experiment_state_data *experiment = target->experiment;
    struct task *task = target->task;
    task->duration_ms = task->started_ms > 0 ? task_clamp_ms(fact->at_ms - task->started_ms) : 0;
    CHECK(experiment->live > 0);
    experiment->live--;
    target->workflow->live_share -= task_share(experiment);
    if (target->task->state == TASK_RUNNING) {
        CHECK(experiment->running > 0);
        experiment->running--;
    }
    suspect_clear(experiment, target->task);
    if (experiment->groups) {
        uint64_t number = (uint64_t)(target->task - experiment->tasks) / experiment->spec.gang;
        struct group *group = &experiment->groups[number];
        bool was_listed = group_is_listed(group);
        CHECK(group->live > 0);
        group->live--;
        group_relist(experiment, number, was_listed);
    }
}

/* --- facts about one task ----------------------------------------------------------------------
 */

static void learn_duration(struct experiment_state_data *experiment, int64_t duration_ms)
{
    double us = duration_ms < 1 ? 500.0 : (double)duration_ms * 1000.0;
    experiment->mean_us = experiment->mean_us > 0 ? experiment->mean_us * 0.9 + us * 0.1 : us;
}

static void apply_assigned(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct task *task = target.task;
    bool fresh = fact->task == target.experiment->next_fresh;
    if (!fresh) {
        leave_queue(target.experiment, fact->task);
    }
    task->state = TASK_ASSIGNED;
    task->attempt = (uint16_t)fact->attempt;
    task->term = fact->term;
    task->node = fact->node;
    task->started_ms = fact->at_ms; /* until a result says when it really began */
    task->duration_ms = 0;
    if (fresh) {
        touch(target.experiment, fact->task);
        skip_to_fresh(target.experiment);
    }
    enter_live(&target, fact->task);
    target.experiment->attempts++;
}

static void apply_accepted(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct task *task = target.task;
    leave_live(&target, fact);
    task->state = TASK_SUCCEEDED;
    task->outcome = OUT_EXITED;
    task->code = 0;
    task->flags &= (uint8_t)~TASK_LASTING;
    task->flags |= fact->flags & FACT_HAS_OUTPUT ? TASK_HAS_OUTPUT : 0;
    task->started_ms = fact->started_ms;
    task->duration_ms = task_clamp_ms(fact->duration_ms);
    target.experiment->succeeded++;
    learn_duration(target.experiment, fact->duration_ms);
    end_when_all_are_final(target.experiment);
}

static void fail_or_queue(const struct target *target, const struct fact *fact)
{
    if (fact->flags & FACT_FINAL) {
        target->task->state = TASK_FAILED;
        target->experiment->failed++;
        end_when_all_are_final(target->experiment);
    } else {
        enter_queue(target->experiment, fact->task, fact->due_ms);
    }
}

static void apply_failed(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct task *task = target.task;
    leave_live(&target, fact);
    task->outcome = (uint8_t)fact->outcome;
    task->code = (uint8_t)fact->code;
    task->started_ms = fact->started_ms;
    task->duration_ms = task_clamp_ms(fact->duration_ms);
    task->failures++;
    learn_duration(target.experiment, fact->duration_ms);
    fail_or_queue(&target, fact);
}

static void apply_lost(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct task *task = target.task;
    leave_live(&target, fact);
    task->outcome = OUT_NODE_LOST;
    if (!(fact->flags & FACT_BLAMELESS) && task->losses < UINT16_MAX) {
        task->losses++;
    }
    fail_or_queue(&target, fact);
}

static void apply_task_cancelled(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    if (task_is_live(target.task)) {
        leave_live(&target, fact);
    } else if (target.task->state == TASK_QUEUED) {
        leave_queue(target.experiment, fact->task);
    }
    target.task->state = TASK_CANCELLED;
    target.experiment->cancelled_count++;
    touch(target.experiment, fact->task);
    skip_to_fresh(target.experiment);
    end_when_all_are_final(target.experiment);
}

static void apply_stopped(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct task *task = target.task;
    leave_live(&target, fact);
    task->state = TASK_SUCCEEDED;
    task->outcome = OUT_KILLED;
    task->code = 0;
    task->flags &= (uint8_t)~TASK_LASTING;
    task->flags |= TASK_STOPPED;
    target.experiment->succeeded++;
    end_when_all_are_final(target.experiment);
}

/* --- facts about all that is left, or about all that went wrong ----------------------------------
 */

/* All that has not ended becomes `state` at once. */
static void finish_rest(struct target *target, const struct fact *fact, enum core_task_state state,
                        uint64_t *counter)
{
    struct experiment_state_data *experiment = target->experiment;
    for (uint64_t i = 0; i < experiment->defined; i++) {
        target->task = &experiment->tasks[i];
        if (task_is_final(target->task)) {
            continue;
        }
        if (task_is_live(target->task)) {
            leave_live(target, fact);
        } else if (experiment->groups && target->task->state == TASK_QUEUED) {
            leave_queue(experiment, i);
        }
        target->task->state = (uint8_t)state;
        (*counter)++;
    }
    experiment->next_fresh = experiment->defined;
    experiment->touched = experiment->defined;
    experiment->retries.count = 0;
    experiment->queued = 0;
    end_when_all_are_final(experiment);
}

bool task_can_reopen(const struct task *task, enum fact_reopen which)
{
    bool wanted =
        task->state == TASK_SKIPPED ||
        (which == REOPEN_ALL && (task->state == TASK_FAILED || task->state == TASK_CANCELLED));
    return wanted && task->attempt < UINT16_MAX;
}

bool experiment_can_reopen(const struct experiment_state_data *experiment, uint64_t task,
                           enum fact_reopen which)
{
    if (!task_can_reopen(&experiment->tasks[task], which) || !experiment->groups) {
        return task_can_reopen(&experiment->tasks[task], which);
    }
    uint32_t gang = experiment->spec.gang;
    for (uint64_t t = task - task % gang; t < task - task % gang + gang; t++) {
        const struct task *mate = &experiment->tasks[t];
        if (mate->state != TASK_SUCCEEDED && !task_can_reopen(mate, which)) {
            return false;
        }
    }
    return true;
}

bool experiment_can_search_on(const struct experiment_state_data *experiment,
                              enum fact_reopen which)
{
    return !experiment->closed &&
           (experiment->was_skipped || (which == REOPEN_ALL && experiment->cancelled));
}

static void reopen_task(struct experiment_state_data *experiment, uint64_t number)
{
    struct task *task = &experiment->tasks[number];
    uint64_t *counter = task->state == TASK_FAILED      ? &experiment->failed
                        : task->state == TASK_CANCELLED ? &experiment->cancelled_count
                                                        : &experiment->skipped;
    CHECK(*counter > 0);
    (*counter)--;
    task->failures = 0;
    task->losses = 0;
    if (number >= experiment->next_fresh) {
        CHECK(task->attempt == 0);
        task->state = TASK_WAITING;
    } else {
        enter_queue(experiment, number, 0);
    }
}

static void reopen(const struct target *target)
{
    target->workflow->state = WORKFLOW_RUNNING;
    target->workflow->ended_ms = 0;
    target->experiment->cancelled = 0;
    target->experiment->was_skipped = false;
    if (target->experiment->state == EXPERIMENT_ENDED) {
        target->experiment->state = EXPERIMENT_WAITING;
    }
}

/* Those at the end that were never tried are fresh again: a million of them need no queue. In a
 * gang experiment the border stays between two groups. */
static uint64_t fresh_again(const struct experiment_state_data *experiment, enum fact_reopen which)
{
    uint64_t fresh = experiment->next_fresh;
    while (fresh > 0 && experiment->tasks[fresh - 1].attempt == 0 &&
           task_can_reopen(&experiment->tasks[fresh - 1], which)) {
        fresh--;
    }
    if (experiment->groups && fresh % experiment->spec.gang != 0) {
        fresh += experiment->spec.gang - fresh % experiment->spec.gang;
    }
    return fresh < experiment->next_fresh ? fresh : experiment->next_fresh;
}

static void apply_reopened(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    struct experiment_state_data *experiment = target.experiment;
    enum fact_reopen which = (enum fact_reopen)fact->outcome;
    uint64_t step = experiment->groups ? experiment->spec.gang : 1;
    bool any = experiment_can_search_on(experiment, which);
    experiment->next_fresh = fresh_again(experiment, which);
    for (uint64_t first = 0; first < experiment->touched; first += step) {
        bool good = true; /* a group as a whole or not at all */
        for (uint64_t t = first; step > 1 && t < first + step; t++) {
            good = good && (experiment->tasks[t].state == TASK_SUCCEEDED ||
                            task_can_reopen(&experiment->tasks[t], which));
        }
        for (uint64_t t = first; good && t < first + step; t++) {
            if (task_can_reopen(&experiment->tasks[t], which)) {
                reopen_task(experiment, t);
                any = true;
            }
        }
    }
    skip_to_fresh(experiment);
    if (any) {
        reopen(&target);
    }
}

static void apply_retried(struct core *core, const struct fact *fact)
{
    struct target target = target_of(core, fact);
    reopen_task(target.experiment, fact->task);
    reopen(&target);
}

void apply_fact(struct core *core, const struct fact *fact)
{
    core->last_fact++;
    switch (fact->kind) {
    case FACT_TERM:
        core->term = fact->term;
        break;
    case FACT_SUBMITTED:
        core_workflow_at(core, fact->workflow)->submitted = true;
        core_workflow_at(core, fact->workflow)->state = WORKFLOW_RUNNING;
        break;
    case FACT_ASSIGNED:
        apply_assigned(core, fact);
        break;
    case FACT_ACCEPTED:
        apply_accepted(core, fact);
        break;
    case FACT_FAILED:
        apply_failed(core, fact);
        break;
    case FACT_LOST:
        apply_lost(core, fact);
        break;
    case FACT_SKIPPED: {
        struct target target = target_of(core, fact);
        target.experiment->was_skipped = true;
        finish_rest(&target, fact, TASK_SKIPPED, &target.experiment->skipped);
        break;
    }
    case FACT_CANCELLED: {
        struct target target = target_of(core, fact);
        target.experiment->cancelled = (enum core_cancel_reason)fact->outcome;
        finish_rest(&target, fact, TASK_CANCELLED, &target.experiment->cancelled_count);
        break;
    }
    case FACT_ENDED:
        core_workflow_at(core, fact->workflow)->state = (enum core_workflow_state)fact->outcome;
        core_workflow_at(core, fact->workflow)->ended_ms = fact->at_ms;
        break;
    case FACT_TASK_CANCELLED:
        apply_task_cancelled(core, fact);
        break;
    case FACT_RETRIED:
        apply_retried(core, fact);
        break;
    case FACT_REOPENED:
        apply_reopened(core, fact);
        break;
    case FACT_SUGGESTED:
        core_experiment_at(core, fact->workflow, fact->experiment)->defined = fact->task;
        break;
    case FACT_CLOSED: {
        struct target target = target_of(core, fact);
        target.experiment->closed = true;
        end_when_all_are_final(target.experiment);
        break;
    }
    case FACT_STOPPED:
        apply_stopped(core, fact);
        break;
    case FACT_KIND_COUNT:
        CHECK(fact->kind != FACT_KIND_COUNT);
    }
}
