/* dispatch.c - which task goes to which node.
 *
 * An event costs what it changes and not the number of nodes: nodes that may have room wait in a
 * first-in-first-out list; one that has room but found no work is parked until there is new work;
 * one that is full is in no list and opens again when something on it ends. Experiments that may
 * hand out work stand in `ready`, in order of service.
 *
 * Short tasks are prefetched: a node may hold a few more than fit at once, so that a round trip is
 * not the limit. How many follows from how long the experiment's tasks have been taking; long ones
 * are never queued behind each other while another node might be free.
 */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { PREFETCH_MAX = 8, PREFETCH_HORIZON_US = 20000 };

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

/* --- order of service ------------------------------------------------------------------------ */

void dispatch_rebuild_ready(struct core *core)
{
    core->ready_count = 0;
    for (uint32_t w = 0; w < core->workflow_count; w++) {
        const struct workflow *workflow = &core->workflows[w];
        if (!workflow->submitted || workflow->state != WORKFLOW_RUNNING) {
            continue;
        }
        for (uint32_t e = 0; e < workflow->experiment_count; e++) {
            if (workflow->experiments[e].state == EXPERIMENT_READY) {
                VEC_PUSH(core->ready, core->ready_count, core->ready_cap) =
                    (struct ready_item){.workflow = w + 1, .experiment = e};
            }
        }
    }
    /* higher priority first; the sort is an insertion sort because it must be stable */
    for (size_t i = 1; i < core->ready_count; i++) {
        struct ready_item item = core->ready[i];
        int32_t priority = core->workflows[item.workflow - 1].priority;
        size_t at = i;
        while (at > 0 && core->workflows[core->ready[at - 1].workflow - 1].priority < priority) {
            core->ready[at] = core->ready[at - 1];
            at--;
        }
        core->ready[at] = item;
    }
    /* other needs than before: what was full may have room now */
    for (uint32_t n = 0; n < core->node_count; n++) {
        if (core->nodes[n].joined) {
            dispatch_node_open(core, n);
        }
    }
}

static bool retry_is_due(const struct experiment_state_data *experiment, int64_t now_ms)
{
    return experiment->retry_count > 0 && experiment->retries[0].due_ms <= now_ms;
}

static bool has_work(const struct experiment_state_data *experiment, int64_t now_ms)
{
    if (experiment->spec.workers > 0 && experiment->live >= experiment->spec.workers) {
        return false;
    }
    return experiment->next_fresh < experiment->spec.task_count || retry_is_due(experiment, now_ms);
}

/* --- room ------------------------------------------------------------------------------------ */

bool kind_fits(const struct core_resources *need, const struct core_resources *capacity)
{
    return need->gpus == 0 || need->gpu_kind[0] == '\0' ||
           strcmp(need->gpu_kind, capacity->gpu_kind) == 0;
}

bool resources_fit(const struct core_resources *need, const struct core_resources *capacity)
{
    return need->cpu_milli <= capacity->cpu_milli && need->gpus <= capacity->gpus &&
           need->memory_bytes <= capacity->memory_bytes &&
           need->disk_bytes <= capacity->disk_bytes && kind_fits(need, capacity);
}

static uint32_t prefetch_depth(const struct experiment_state_data *experiment,
                               const struct node *node)
{
    if (experiment->mean_us <= 0 || experiment->mean_us >= PREFETCH_HORIZON_US) {
        return 0;
    }
    double per_slot = PREFETCH_HORIZON_US / experiment->mean_us;
    uint32_t depth = per_slot > PREFETCH_MAX ? PREFETCH_MAX : (uint32_t)per_slot;
    uint32_t slots = node->capacity.cpu_milli / 1000;
    return depth * (slots ? slots : 1);
}

/* Whether one more task fits beside what is there, `extra` of its like being allowed to queue. */
static bool has_room(const struct node *node, const struct experiment_state_data *experiment)
{
    const struct core_resources *need = &experiment->spec.needs;
    const struct core_resources *capacity = &node->capacity;
    if (!resources_fit(need, capacity)) {
        return false;
    }
    uint64_t extra = prefetch_depth(experiment, node);
    return node->used.cpu_milli + need->cpu_milli <=
               capacity->cpu_milli + extra * need->cpu_milli &&
           node->used.gpus + need->gpus <= capacity->gpus + extra * need->gpus &&
           node->used.memory_bytes + need->memory_bytes <=
               capacity->memory_bytes + extra * need->memory_bytes;
}

static void take_room(struct node *node, const struct core_resources *need)
{
    node->used.cpu_milli += need->cpu_milli;
    node->used.gpus += need->gpus;
    node->used.memory_bytes += need->memory_bytes;
}

void node_release_attempt(struct core *core, uint32_t number, size_t occupant)
{
    struct node *node = &core->nodes[number];
    CHECK(occupant < node->occupant_count);
    const struct core_attempt *id = &node->occupants[occupant].id;
    const struct core_resources *need =
        &core_experiment_at(core, id->workflow, id->experiment)->spec.needs;
    CHECK(node->used.cpu_milli >= need->cpu_milli);
    node->used.cpu_milli -= need->cpu_milli;
    node->used.gpus -= need->gpus;
    node->used.memory_bytes -= need->memory_bytes;
    node->occupants[occupant] = node->occupants[--node->occupant_count];
    dispatch_node_open(core, number);
}

/* --- placing --------------------------------------------------------------------------------- */

static void assign(struct core *core, uint32_t number, const struct ready_item *item,
                   int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, item->workflow, item->experiment);
    uint64_t task =
        retry_is_due(experiment, now_ms) ? experiment->retries[0].task : experiment->next_fresh;
    struct core_attempt id = {.workflow = item->workflow,
                              .experiment = item->experiment,
                              .task = task,
                              .attempt = experiment->tasks[task].attempt + 1u,
                              .term = core->term};
    emit(core, out,
         &(struct fact){.kind = FACT_ASSIGNED,
                        .workflow = id.workflow,
                        .experiment = id.experiment,
                        .task = id.task,
                        .attempt = id.attempt,
                        .term = id.term,
                        .node = number,
                        .at_ms = now_ms});
    struct node *node = &core->nodes[number];
    VEC_PUSH(node->occupants, node->occupant_count, node->occupant_cap) =
        (struct occupant){.id = id};
    take_room(node, &experiment->spec.needs);
    effect_push(out, EFFECT_START, number, &id, 0);
}

/* Gives a node all the work it has room for, in order of service. */
static void fill(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct ready_item item = core->ready[i];
        const struct experiment_state_data *experiment =
            core_experiment_at(core, item.workflow, item.experiment);
        while (has_work(experiment, now_ms) && has_room(&core->nodes[number], experiment)) {
            assign(core, number, &item, now_ms, out);
        }
    }
}

static bool any_work(const struct core *core, int64_t now_ms)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        if (has_work(core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment),
                     now_ms)) {
            return true;
        }
    }
    return false;
}

static bool has_room_for_any(const struct core *core, const struct node *node)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        if (has_room(node, core_experiment_at(core, core->ready[i].workflow,
                                              core->ready[i].experiment))) {
            return true;
        }
    }
    return false;
}

void dispatch(struct core *core, int64_t now_ms, struct core_out *out)
{
    if (core->paused || core->term == 0) {
        return;
    }
    while (core->open_head && any_work(core, now_ms)) {
        uint32_t number = core->open_head - 1;
        fill(core, number, now_ms, out);
        if (has_room_for_any(core, &core->nodes[number])) {
            park(core, number);
        } else {
            dispatch_node_remove(core, number);
        }
    }
}

int64_t core_next_due_ms(const struct core *core)
{
    int64_t due_ms = INT64_MAX;
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct experiment_state_data *experiment =
            core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment);
        if (experiment->retry_count > 0 && experiment->retries[0].due_ms > core->ticked_ms &&
            experiment->retries[0].due_ms < due_ms) {
            due_ms = experiment->retries[0].due_ms;
        }
    }
    return due_ms;
}
