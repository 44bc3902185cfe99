/* term.c - a master begins, and time passes. */
#include "core/core_state.h"

/* A former master's clock may have been ahead: no retry waits longer than its back-off could be. */
static void cap_retries(struct experiment_state_data *experiment, int64_t now_ms)
{
    int64_t latest_ms = now_ms + decide_backoff_longest_ms(&experiment->spec);
    size_t count = experiment->retries.count;
    experiment->retries.count = 0;
    for (size_t i = 0; i < count; i++) { /* a heap again: those capped are ordered by task */
        struct retry again = experiment->retries.items[i];
        heap_push(&experiment->retries, again.due_ms < latest_ms ? again.due_ms : latest_ms,
                  again.task);
    }
}

/* Attempts that a former master had out: lost, or still with their nodes, which are away. A node
 * with an impossible number cannot come back. */
static void take_over(struct core *core, const struct core_attempt *about, enum core_begin begin,
                      int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, about->workflow, about->experiment);
    for (uint64_t t = 0; t < experiment->touched && experiment->live > 0; t++) {
        const struct task *task = &experiment->tasks[t];
        if (!task_is_live(task)) {
            continue;
        }
        struct core_attempt id = core_attempt_of(core, about->workflow, about->experiment, t);
        if (begin == CORE_NODES_GONE || task->node >= CORE_NODES_MAX) {
            decide_lose(core, &id, false, now_ms, out);
            continue;
        }
        struct node *node = core_node_ensure(core, task->node);
        if (node->presence == NODE_ABSENT) {
            node->presence = NODE_AWAY;
            core_node_lease_begin(core, task->node, now_ms);
        }
        core_node_occupy(core, task->node, &id);
    }
}

static bool is_running(const struct core *core, uint32_t workflow)
{
    const struct workflow *owner = core_workflow_at(core, workflow);
    return owner->submitted && owner->state == WORKFLOW_RUNNING;
}

void core_begin_term(struct core *core, enum core_begin begin, int64_t now_ms, struct core_out *out)
{
    core_emit(core, out,
              &(struct fact){.kind = FACT_TERM, .term = core->term + 1, .at_ms = now_ms});
    for (uint32_t w = 1; w <= core->workflow_count; w++) {
        for (uint32_t e = 0; is_running(core, w) && e < core_workflow_at(core, w)->experiment_count;
             e++) {
            struct core_attempt about = {.workflow = w, .experiment = e};
            cap_retries(core_experiment_at(core, w, e), now_ms);
            take_over(core, &about, begin, now_ms, out);
        }
    }
    for (uint32_t w = 1; w <= core->workflow_count; w++) {
        for (uint32_t e = 0; is_running(core, w) && e < core_workflow_at(core, w)->experiment_count;
             e++) {
            gang_repair(core, w, e, now_ms, out);
        }
        decide_advance(core, w, now_ms, out);
    }
}

/* A retry that was already due at the last tick waits for room, not for time. */
static bool retries_became_due(const struct core *core, int64_t now_ms)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct retry_heap *retries =
            &core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment)->retries;
        if (retries->count > 0 && retries->items[0].due_ms <= now_ms &&
            retries->items[0].due_ms > core->ticked_ms) {
            return true;
        }
    }
    return false;
}

void core_tick(struct core *core, int64_t now_ms, struct core_out *out)
{
    bool lapsed = core_nodes_lapse(core, now_ms);
    if (lapsed || retries_became_due(core, now_ms)) {
        dispatch_new_work(core);
    }
    core->ticked_ms = now_ms;
    dispatch(core, now_ms, out);
}

int64_t core_next_due_ms(const struct core *core)
{
    int64_t due_ms = core_nodes_next_lapse_ms(core);
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct retry_heap *retries =
            &core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment)->retries;
        if (retries->count > 0 && retries->items[0].due_ms > core->ticked_ms &&
            retries->items[0].due_ms < due_ms) {
            due_ms = retries->items[0].due_ms;
        }
    }
    return due_ms;
}
