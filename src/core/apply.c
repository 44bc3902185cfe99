/* apply.c - facts to state. The only code that changes what outlives a restart. */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>

struct workflow *core_workflow_at(const struct core *core, uint32_t workflow)
{
    CHECK(workflow >= 1 && workflow <= core->workflow_count);
    return &core->workflows[workflow - 1];
}

struct experiment_state_data *core_experiment_at(const struct core *core, uint32_t workflow,
                                                 uint32_t experiment)
{
    struct workflow *owner = core_workflow_at(core, workflow);
    CHECK(experiment < owner->experiment_count);
    return &owner->experiments[experiment];
}

bool task_is_final(const struct task *task)
{
    return task->state >= TASK_SUCCEEDED;
}

/* --- the heap of tasks to try again --------------------------------------------------------- */

static bool retry_before(const struct retry *a, const struct retry *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->task < b->task;
}

void retry_push(struct experiment_state_data *experiment, int64_t due_ms, uint64_t task)
{
    VEC_PUSH(experiment->retries, experiment->retry_count, experiment->retry_cap) =
        (struct retry){.due_ms = due_ms, .task = task};
    struct retry *heap = experiment->retries;
    size_t at = experiment->retry_count - 1;
    while (at > 0 && retry_before(&heap[at], &heap[(at - 1) / 2])) {
        struct retry swap = heap[at];
        heap[at] = heap[(at - 1) / 2];
        heap[(at - 1) / 2] = swap;
        at = (at - 1) / 2;
    }
}

uint64_t retry_pop(struct experiment_state_data *experiment)
{
    CHECK(experiment->retry_count > 0);
    struct retry *heap = experiment->retries;
    uint64_t task = heap[0].task;
    struct retry moved = heap[--experiment->retry_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= experiment->retry_count) {
            break;
        }
        if (child + 1 < experiment->retry_count && retry_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!retry_before(&heap[child], &moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return task;
}

/* An assignment takes a task from where dispatch found it: the next fresh one, or a retry. Live,
 * that is the top of the heap; in a replay it may stand anywhere. */
static void retry_remove(struct experiment_state_data *experiment, uint64_t task)
{
    if (experiment->retry_count > 0 && experiment->retries[0].task == task) {
        retry_pop(experiment);
        return;
    }
    size_t at = 0;
    while (at < experiment->retry_count && experiment->retries[at].task != task) {
        at++;
    }
    CHECK(at < experiment->retry_count);
    struct retry last = experiment->retries[--experiment->retry_count];
    if (at == experiment->retry_count) {
        return;
    }
    /* refill the hole, then restore the heap from scratch: replays of this kind are rare */
    experiment->retries[at] = last;
    size_t count = experiment->retry_count;
    experiment->retry_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct retry again = experiment->retries[i];
        retry_push(experiment, again.due_ms, again.task);
    }
}

/* --- experiments ---------------------------------------------------------------------------- */

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

static void end_when_all_are_final(struct experiment_state_data *experiment)
{
    uint64_t final = experiment->succeeded + experiment->failed + experiment->cancelled_count +
                     experiment->skipped;
    CHECK(final <= experiment->spec.task_count);
    if (final == experiment->spec.task_count) {
        experiment->state = EXPERIMENT_ENDED;
    }
}

static void leave_live(struct experiment_state_data *experiment, struct task *task)
{
    CHECK(experiment->live > 0);
    experiment->live--;
    if (task->state == TASK_RUNNING) {
        CHECK(experiment->running > 0);
        experiment->running--;
    }
}

static uint32_t clamp_ms(int64_t duration_ms)
{
    return duration_ms < 0 ? 0 : duration_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ms;
}

static void learn_duration(struct experiment_state_data *experiment, int64_t duration_ms)
{
    double us = duration_ms < 1 ? 500.0 : (double)duration_ms * 1000.0;
    experiment->mean_us = experiment->mean_us > 0 ? experiment->mean_us * 0.9 + us * 0.1 : us;
}

static void apply_assigned(struct core *core, const struct fact *fact)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, fact->workflow, fact->experiment);
    struct task *task = &experiment->tasks[fact->task];
    if (fact->task == experiment->next_fresh) {
        experiment->next_fresh++;
    } else {
        retry_remove(experiment, fact->task);
    }
    task->state = TASK_ASSIGNED;
    task->attempt = (uint16_t)fact->attempt;
    task->term = fact->term;
    task->node = fact->node;
    experiment->live++;
    experiment->attempts++;
}

static void apply_accepted(struct core *core, const struct fact *fact)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, fact->workflow, fact->experiment);
    struct task *task = &experiment->tasks[fact->task];
    leave_live(experiment, task);
    task->state = TASK_SUCCEEDED;
    task->outcome = OUT_EXITED;
    task->code = 0;
    task->flags = fact->flags & FACT_HAS_OUTPUT ? TASK_HAS_OUTPUT : 0;
    task->started_ms = fact->started_ms;
    task->duration_ms = clamp_ms(fact->duration_ms);
    experiment->succeeded++;
    learn_duration(experiment, fact->duration_ms);
    end_when_all_are_final(experiment);
}

static void apply_failed(struct core *core, const struct fact *fact)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, fact->workflow, fact->experiment);
    struct task *task = &experiment->tasks[fact->task];
    leave_live(experiment, task);
    task->outcome = (uint8_t)fact->outcome;
    task->code = (uint8_t)fact->code;
    task->started_ms = fact->started_ms;
    task->duration_ms = clamp_ms(fact->duration_ms);
    task->failures++;
    learn_duration(experiment, fact->duration_ms);
    if (fact->flags & FACT_FINAL) {
        task->state = TASK_FAILED;
        experiment->failed++;
        end_when_all_are_final(experiment);
    } else {
        task->state = TASK_QUEUED;
        retry_push(experiment, fact->due_ms, fact->task);
    }
}

static void apply_lost(struct core *core, const struct fact *fact)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, fact->workflow, fact->experiment);
    struct task *task = &experiment->tasks[fact->task];
    leave_live(experiment, task);
    task->outcome = OUT_NODE_LOST;
    if (!(fact->flags & FACT_BLAMELESS) && task->losses < UINT16_MAX) {
        task->losses++;
    }
    if (fact->flags & FACT_FINAL) {
        task->state = TASK_FAILED;
        experiment->failed++;
        end_when_all_are_final(experiment);
    } else {
        task->state = TASK_QUEUED;
        retry_push(experiment, 0, fact->task);
    }
}

/* All that has not ended becomes `state` at once. */
static void finish_rest(struct experiment_state_data *experiment, enum core_task_state state,
                        uint64_t *counter)
{
    for (uint64_t i = 0; i < experiment->spec.task_count; i++) {
        struct task *task = &experiment->tasks[i];
        if (task_is_final(task)) {
            continue;
        }
        if (task->state == TASK_ASSIGNED || task->state == TASK_RUNNING) {
            leave_live(experiment, task);
        }
        task->state = (uint8_t)state;
        (*counter)++;
    }
    experiment->next_fresh = experiment->spec.task_count;
    experiment->retry_count = 0;
    end_when_all_are_final(experiment);
}

static void apply_submitted(struct core *core, const struct fact *fact)
{
    struct workflow *workflow = core_workflow_at(core, fact->workflow);
    workflow->submitted = true;
    workflow->state = WORKFLOW_RUNNING;
}

void apply_fact(struct core *core, const struct fact *fact)
{
    core->last_fact++;
    switch (fact->kind) {
    case FACT_TERM:
        core->term = fact->term;
        break;
    case FACT_SUBMITTED:
        apply_submitted(core, fact);
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
        struct experiment_state_data *experiment =
            core_experiment_at(core, fact->workflow, fact->experiment);
        finish_rest(experiment, TASK_SKIPPED, &experiment->skipped);
        break;
    }
    case FACT_CANCELLED: {
        struct experiment_state_data *experiment =
            core_experiment_at(core, fact->workflow, fact->experiment);
        experiment->cancelled = (enum core_cancel_reason)fact->outcome;
        finish_rest(experiment, TASK_CANCELLED, &experiment->cancelled_count);
        break;
    }
    case FACT_ENDED:
        core_workflow_at(core, fact->workflow)->state = (enum core_workflow_state)fact->outcome;
        break;
    case FACT_KIND_COUNT:
        CHECK(!"a fact of no kind");
    }
}

/* --- replay: the same, for facts that come from a disk --------------------------------------- */

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
    return (task->state == TASK_ASSIGNED || task->state == TASK_RUNNING) &&
           task->attempt == fact->attempt;
}

static bool fact_is_possible(const struct core *core, const struct fact *fact)
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
        return fact->outcome <= WORKFLOW_CANCELLED;
    }
    if (fact->experiment >= workflow->experiment_count) {
        return false;
    }
    const struct experiment_state_data *experiment = &workflow->experiments[fact->experiment];
    if (fact->kind == FACT_CANCELLED &&
        (fact->outcome < CANCEL_ASKED || fact->outcome > CANCEL_TOO_MANY_FAILURES)) {
        return false;
    }
    if (fact->kind == FACT_SKIPPED || fact->kind == FACT_CANCELLED) {
        return experiment->state != EXPERIMENT_ENDED;
    }
    if (fact->task >= experiment->spec.task_count) {
        return false;
    }
    return fact->kind == FACT_ASSIGNED ? assignment_is_possible(experiment, fact)
                                       : is_live_attempt(experiment, fact);
}

enum err_code core_apply(struct core *core, const struct fact *fact, struct err *err)
{
    if (!fact_is_possible(core, fact)) {
        return err_set(err, ERR_CORRUPT, "log: fact %llu (kind %d) contradicts what came before",
                       (unsigned long long)core->last_fact + 1, (int)fact->kind);
    }
    apply_fact(core, fact);
    return ERR_OK;
}
