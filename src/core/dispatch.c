/* dispatch.c - which task goes to which node.
 *
 * An event costs what it changes and not the number of nodes: nodes that may have room wait in a
 * first-in-first-out list; one that has room but found no work is parked until there is new work;
 * one that is full is in no list and opens again when something on it ends. Only eligible nodes are
 * in a list.
 *
 * First every open node takes what it can, in order of service, up to the first gang that could use
 * it: behind a gang that has to wait, nothing is started on such a node (see gang.c). Then gangs
 * are placed over all nodes with room.
 */
#include "core/core_state.h"

/* --- the lists of nodes ---------------------------------------------------------------------- */

void dispatch_node_remove(struct core *core, uint32_t number)
{
    struct node *node = &core->nodes[number];
    if (node->list == NODE_NONE) {
        return;
    }
    uint32_t *head = node->list == NODE_OPEN ? &core->open_head : &core->parked_head;
    if (node->prev) {
        core->nodes[node->prev - 1].next = node->next;
    } else {
        *head = node->next;
    }
    if (node->next) {
        core->nodes[node->next - 1].prev = node->prev;
    } else if (node->list == NODE_OPEN) {
        core->open_tail = node->prev;
    }
    node->list = NODE_NONE;
    node->next = 0;
    node->prev = 0;
}

void dispatch_node_open(struct core *core, uint32_t number)
{
    struct node *node = &core->nodes[number];
    if (node->list == NODE_OPEN) {
        return;
    }
    dispatch_node_remove(core, number);
    node->list = NODE_OPEN;
    node->prev = core->open_tail;
    if (core->open_tail) {
        core->nodes[core->open_tail - 1].next = number + 1;
    } else {
        core->open_head = number + 1;
    }
    core->open_tail = number + 1;
}

static void park(struct core *core, uint32_t number)
{
    struct node *node = &core->nodes[number];
    dispatch_node_remove(core, number);
    node->list = NODE_PARKED;
    node->next = core->parked_head;
    if (core->parked_head) {
        core->nodes[core->parked_head - 1].prev = number + 1;
    }
    core->parked_head = number + 1;
}

void dispatch_new_work(struct core *core)
{
    while (core->parked_head) {
        dispatch_node_open(core, core->parked_head - 1);
    }
}

/* --- work ------------------------------------------------------------------------------------ */

bool dispatch_retry_is_due(const struct experiment_state_data *experiment, int64_t now_ms)
{
    return experiment->retries.count > 0 && experiment->retries.items[0].due_ms <= now_ms;
}

/* Of an experiment that is no gang. Replacing a suspect adds nothing to what is live. */
static bool has_work(const struct experiment_state_data *experiment, int64_t now_ms)
{
    if (experiment->suspect_count > 0) {
        return true;
    }
    if (experiment->spec.workers > 0 && experiment->live >= experiment->spec.workers) {
        return false;
    }
    return experiment->next_fresh < experiment->defined ||
           dispatch_retry_is_due(experiment, now_ms);
}

static bool any_work(const struct core *core, int64_t now_ms)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct experiment_state_data *experiment =
            core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment);
        if (!experiment->groups && has_work(experiment, now_ms)) {
            return true;
        }
    }
    return false;
}

static bool has_room_for_any(const struct core *core, const struct node *node)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        if (core_node_has_room(node, core_experiment_at(core, core->ready[i].workflow,
                                                        core->ready[i].experiment))) {
            return true;
        }
    }
    return false;
}

/* --- placing --------------------------------------------------------------------------------- */

void dispatch_assign(struct core *core, uint32_t node, const struct core_attempt *task,
                     int64_t now_ms, struct core_out *out)
{
    struct core_attempt id = *task;
    id.attempt = core_experiment_at(core, id.workflow, id.experiment)->tasks[id.task].attempt + 1u;
    id.term = core->term;
    core_emit(core, out,
              &(struct fact){.kind = FACT_ASSIGNED,
                             .workflow = id.workflow,
                             .experiment = id.experiment,
                             .task = id.task,
                             .attempt = id.attempt,
                             .term = id.term,
                             .node = node,
                             .at_ms = now_ms});
    core_node_occupy(core, node, &id);
    core_effect_push(out, EFFECT_START, node, &id, 0);
}

/* The suspect leaves the live set now that there is somebody to replace it. False: it was the last
 * loss that the task was allowed. */
static bool give_up_suspect(struct core *core, const struct core_attempt *id, int64_t now_ms,
                            struct core_out *out)
{
    const struct task *task =
        &core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task];
    bool blameless = core->nodes[task->node].drain != CORE_DRAIN_OFF;
    core_effect_push(out, EFFECT_KILL, task->node, id, 0);
    decide_lose(core, id, blameless, now_ms, out);
    return task->state == TASK_QUEUED;
}

static void hand_out(struct core *core, uint32_t node, const struct ready_item *item,
                     int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, item->workflow, item->experiment);
    struct core_attempt id = {.workflow = item->workflow, .experiment = item->experiment};
    if (experiment->suspect_count > 0) {
        id = core_attempt_of(core, id.workflow, id.experiment, suspect_first(experiment));
        if (!give_up_suspect(core, &id, now_ms, out)) {
            return;
        }
    } else {
        id.task = dispatch_retry_is_due(experiment, now_ms) ? experiment->retries.items[0].task
                                                            : experiment->next_fresh;
    }
    dispatch_assign(core, node, &id, now_ms, out);
}

/* The first in order of service that has work and fits. A gang that waits for this node, too, ends
 * the search. */
static bool give_one(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    const struct node *node = &core->nodes[number];
    for (size_t g = 0; g < core->order_count; g++) {
        const struct ready_group *group = &core->order[g];
        for (size_t i = group->first; i < group->first + group->count; i++) {
            const struct ready_item item = core->ready[i];
            const struct experiment_state_data *experiment =
                core_experiment_at(core, item.workflow, item.experiment);
            if (experiment->groups) {
                if (gang_stands_in_the_way(core, &item, now_ms) &&
                    core_node_could_serve(node, experiment)) {
                    return false;
                }
            } else if (has_work(experiment, now_ms) && core_node_has_room(node, experiment)) {
                hand_out(core, number, &item, now_ms, out);
                return true;
            }
        }
    }
    return false;
}

void dispatch_node_settle(struct core *core, uint32_t number)
{
    if (has_room_for_any(core, &core->nodes[number])) {
        park(core, number);
    } else {
        dispatch_node_remove(core, number);
    }
}

static void fill_open_nodes(struct core *core, int64_t now_ms, struct core_out *out)
{
    while (core->open_head && any_work(core, now_ms)) {
        uint32_t number = core->open_head - 1;
        while (give_one(core, number, now_ms, out)) {
            if (core->order_count > 1) {
                order_settle(core);
            }
        }
        dispatch_node_settle(core, number);
    }
}

/* Nodes that were kept for a gang are free for others once it stands elsewhere in the order, or no
 * longer waits. */
static bool gangs_have_moved(struct core *core, int64_t now_ms)
{
    uint64_t mark = gang_order_mark(core, now_ms);
    bool moved = mark != core->gang_mark;
    core->gang_mark = mark;
    if (moved) {
        dispatch_new_work(core);
    }
    return moved;
}

static void dispatch_with_gangs(struct core *core, int64_t now_ms, struct core_out *out)
{
    gangs_have_moved(core, now_ms);
    do {
        fill_open_nodes(core, now_ms, out);
    } while (gang_place_first(core, now_ms, out) || gangs_have_moved(core, now_ms));
}

void dispatch(struct core *core, int64_t now_ms, struct core_out *out)
{
    if (core->paused || core->term == 0) {
        return;
    }
    order_settle(core);
    if (core->gang_count > 0) {
        dispatch_with_gangs(core, now_ms, out);
    } else {
        fill_open_nodes(core, now_ms, out);
    }
}
