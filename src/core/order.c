/* order.c - who is served first: the higher priority; then the workflow whose gang has waited
 * longest; then the one with the least that is live; then the one submitted first; within it the
 * experiments in their order. */
#include "core/core_state.h"

#include "base/mem.h"

static bool goes_before(const struct core *core, const struct ready_group *a,
                        const struct ready_group *b)
{
    if (a->priority != b->priority) {
        return a->priority > b->priority;
    }
    bool waits_a = core->workflows[a->workflow - 1].gang_waits;
    if (waits_a != core->workflows[b->workflow - 1].gang_waits) {
        return waits_a;
    }
    uint64_t share_a = core->workflows[a->workflow - 1].live_share;
    uint64_t share_b = core->workflows[b->workflow - 1].live_share;
    return share_a != share_b ? share_a < share_b : a->workflow < b->workflow;
}

/* By insertion: one step of work changes the place of one workflow, by a little. */
void order_settle(struct core *core)
{
    for (size_t i = 1; i < core->order_count; i++) {
        if (!goes_before(core, &core->order[i], &core->order[i - 1])) {
            continue;
        }
        struct ready_group group = core->order[i];
        size_t at = i;
        while (at > 0 && goes_before(core, &group, &core->order[at - 1])) {
            core->order[at] = core->order[at - 1];
            at--;
        }
        core->order[at] = group;
    }
}

static void add_workflow(struct core *core, uint32_t number)
{
    struct workflow *workflow = core_workflow_at(core, number);
    bool has_gang = false;
    struct ready_group group = {
        .workflow = number, .priority = workflow->priority, .first = core->ready_count};
    for (uint32_t e = 0; e < workflow->experiment_count; e++) {
        if (workflow->experiments[e].state != EXPERIMENT_READY) {
            continue;
        }
        struct ready_item item = {.workflow = number, .experiment = e};
        VEC_PUSH(core->ready, core->ready_count, core->ready_cap) = item;
        group.count++;
        if (workflow->experiments[e].groups) {
            has_gang = true;
            VEC_PUSH(core->gangs, core->gang_count, core->gang_cap) = item;
        }
    }
    workflow->gang_waits = workflow->gang_waits && has_gang;
    if (group.count > 0) {
        VEC_PUSH(core->order, core->order_count, core->order_cap) = group;
    }
}

void order_rebuild(struct core *core)
{
    core->ready_count = 0;
    core->order_count = 0;
    core->gang_count = 0;
    for (uint32_t w = 1; w <= core->workflow_count; w++) {
        const struct workflow *workflow = core_workflow_at(core, w);
        if (workflow->submitted && workflow->state == WORKFLOW_RUNNING) {
            add_workflow(core, w);
        }
    }
    order_settle(core);
    gang_recount(core);
    /* other needs than before: what was full may have room now */
    for (uint32_t n = 0; n < core->node_count; n++) {
        if (core_node_is_eligible(&core->nodes[n])) {
            dispatch_node_open(core, n);
        }
    }
}
