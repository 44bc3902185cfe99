/* node.c - nodes that come, fall silent, come back with what they have, drain and go.
 *
 * Leases stand in a list by when each node was last heard, so that a sign of life and a look at the
 * clock cost the same with ten nodes and ten thousand.
 */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>

enum { AMOUNT_BITS_MAX = 62 }; /* of bytes: sums of what a node says it has cannot overflow */

struct node *core_node_ensure(struct core *core, uint32_t node)
{
    CHECK(node < CORE_NODES_MAX);
    while (core->node_count <= node) {
        VEC_PUSH(core->nodes, core->node_count, core->node_cap) = (struct node){0};
    }
    return &core->nodes[node];
}

/* --- leases ------------------------------------------------------------------------------------
 */

void core_set_lease(struct core *core, int64_t lease_ms)
{
    CHECK(lease_ms >= 0);
    CHECK(core->lease_head == 0);
    core->lease_ms = lease_ms;
}

static void lease_end(struct core *core, uint32_t number)
{
    struct node *node = &core->nodes[number];
    if (!node->leased) {
        return;
    }
    if (node->lease_prev) {
        core->nodes[node->lease_prev - 1].lease_next = node->lease_next;
    } else {
        core->lease_head = node->lease_next;
    }
    if (node->lease_next) {
        core->nodes[node->lease_next - 1].lease_prev = node->lease_prev;
    } else {
        core->lease_tail = node->lease_prev;
    }
    node->leased = false;
    node->lease_next = 0;
    node->lease_prev = 0;
}

void core_node_lease_begin(struct core *core, uint32_t number, int64_t now_ms)
{
    lease_end(core, number);
    struct node *node = &core->nodes[number];
    node->heard_ms = now_ms;
    if (core->lease_ms == 0) {
        return;
    }
    node->leased = true;
    node->lease_prev = core->lease_tail;
    if (core->lease_tail) {
        core->nodes[core->lease_tail - 1].lease_next = number + 1;
    } else {
        core->lease_head = number + 1;
    }
    core->lease_tail = number + 1;
}

int64_t core_nodes_next_lapse_ms(const struct core *core)
{
    return core->lease_head ? core->nodes[core->lease_head - 1].heard_ms + core->lease_ms
                            : INT64_MAX;
}

static struct task *task_at(const struct core *core, const struct core_attempt *id)
{
    return &core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task];
}

static void become_suspect(struct core *core, uint32_t number)
{
    struct node *node = &core->nodes[number];
    lease_end(core, number);
    dispatch_node_remove(core, number);
    gang_node_out(core, number);
    node->suspect = true;
    for (size_t i = 0; i < node->occupant_count; i++) {
        const struct core_attempt *id = &node->occupants[i].id;
        if (core_attempt_is_live(core, id)) {
            suspect_set(core_experiment_at(core, id->workflow, id->experiment), id->task);
        }
    }
}

static void clear_suspicion(struct core *core, const struct occupant *occupants, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct core_attempt *id = &occupants[i].id;
        if (core_attempt_is_live(core, id)) {
            suspect_clear(core_experiment_at(core, id->workflow, id->experiment),
                          task_at(core, id));
        }
    }
}

bool core_nodes_lapse(struct core *core, int64_t now_ms)
{
    bool any = false;
    while (core_nodes_next_lapse_ms(core) <= now_ms) {
        uint32_t number = core->lease_head - 1;
        become_suspect(core, number);
        any = any || core->nodes[number].occupant_count > 0;
    }
    return any;
}

void core_node_heard(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    if (number >= core->node_count || core->nodes[number].presence != NODE_HERE) {
        return;
    }
    struct node *node = &core->nodes[number];
    core_node_lease_begin(core, number, now_ms);
    if (!node->suspect) {
        return;
    }
    node->suspect = false;
    gang_node_in(core, number);
    clear_suspicion(core, node->occupants, node->occupant_count);
    for (size_t i = 0; i < node->occupant_count; i++) {
        if (!core_attempt_is_live(core, &node->occupants[i].id)) { /* replaced meanwhile */
            core_effect_push(out, EFFECT_KILL, number, &node->occupants[i].id, 0);
        }
    }
    if (core_node_is_eligible(node)) {
        dispatch_node_open(core, number);
    }
    dispatch(core, now_ms, out);
}

/* --- joining and leaving -------------------------------------------------------------------------
 */

/* Marks what the node rightly holds; tells it to end the rest. Whatever it says, a task of ours is
 * its own only if it was given to it. */
static void mark_held(struct core *core, uint32_t number, const struct core_node_spec *spec,
                      struct core_out *out)
{
    for (size_t i = 0; i < spec->held_count; i++) {
        const struct core_attempt *id = &spec->held[i];
        if (core_attempt_is_live(core, id) && task_at(core, id)->node == number) {
            task_at(core, id)->flags |= TASK_HELD;
        } else if (!core_attempt_was_accepted(core, number, id)) { /* else it will tell again */
            core_effect_push(out, EFFECT_KILL, number, id, 0);
        }
    }
}

static uint64_t bounded(uint64_t bytes)
{
    uint64_t most = UINT64_C(1) << AMOUNT_BITS_MAX;
    return bytes < most ? bytes : most;
}

static void describe_node(struct core *core, struct node *node, const struct core_node_spec *spec)
{
    node->capacity = spec->capacity;
    node->capacity.gpu_kind[CORE_GPU_KIND_MAX - 1] = '\0';
    node->capacity.memory_bytes = bounded(spec->capacity.memory_bytes);
    node->capacity.disk_bytes = bounded(spec->capacity.disk_bytes);
    label_give(core, node, &spec->labels);
}

/* The node with nothing on it. Returns what was there, for the caller to free. */
static struct occupant *empty_node(struct core *core, uint32_t number, size_t *count)
{
    struct node *node = &core->nodes[number];
    gang_node_out(core, number);
    struct occupant *occupants = node->occupants;
    *count = node->occupant_count;
    clear_suspicion(core, occupants, *count);
    node->occupants = NULL;
    node->occupant_count = 0;
    node->occupant_cap = 0;
    node->used = (struct room){0};
    node->suspect = false;
    node->presence = NODE_ABSENT;
    dispatch_node_remove(core, number);
    lease_end(core, number);
    return occupants;
}

static void kill_occupants(struct core *core, uint32_t number, struct core_out *out)
{
    const struct node *node = &core->nodes[number];
    for (size_t i = 0; i < node->occupant_count; i++) {
        if (core_attempt_is_live(core, &node->occupants[i].id)) {
            core_effect_push(out, EFFECT_KILL, number, &node->occupants[i].id, 0);
        }
    }
}

void core_node_join(struct core *core, uint32_t number, const struct core_node_spec *spec,
                    int64_t now_ms, struct core_out *out)
{
    core_node_ensure(core, number);
    mark_held(core, number, spec, out);
    size_t count = 0;
    struct occupant *before = empty_node(core, number, &count);
    struct node *node = &core->nodes[number];
    describe_node(core, node, spec);
    node->presence = NODE_HERE;
    gang_node_in(core, number);
    core_node_lease_begin(core, number, now_ms);
    size_t missing = 0;
    for (size_t i = 0; i < count; i++) {
        const struct core_attempt id = before[i].id;
        if (!core_attempt_is_live(core, &id)) {
            continue;
        }
        if (task_at(core, &id)->flags & TASK_HELD) {
            task_at(core, &id)->flags &= (uint8_t)~TASK_HELD;
            core_node_occupy(core, number, &id);
        } else {
            before[missing++].id = id;
        }
    }
    for (size_t i = 0; i < missing; i++) {
        if (core_attempt_is_live(core, &before[i].id)) { /* one loss may end others */
            decide_lose(core, &before[i].id, !spec->fresh, now_ms, out);
            dispatch_new_work(core);
        }
    }
    free(before);
    node = &core->nodes[number];
    if (node->drain == CORE_DRAIN_HARD) {
        kill_occupants(core, number, out);
    }
    if (core_node_is_eligible(node)) {
        dispatch_node_open(core, number);
    }
    dispatch(core, now_ms, out);
}

void core_node_lost(struct core *core, uint32_t number, bool blameless, int64_t now_ms,
                    struct core_out *out)
{
    if (number >= core->node_count || core->nodes[number].presence == NODE_ABSENT) {
        return;
    }
    size_t count = 0;
    struct occupant *occupants = empty_node(core, number, &count);
    label_release(&core->nodes[number]);
    for (size_t i = 0; i < count; i++) {
        if (core_attempt_is_live(core, &occupants[i].id)) {
            decide_lose(core, &occupants[i].id, blameless, now_ms, out);
            dispatch_new_work(core);
        }
    }
    free(occupants);
    dispatch(core, now_ms, out);
}

void core_node_drain(struct core *core, uint32_t number, enum core_drain drain, int64_t now_ms,
                     struct core_out *out)
{
    struct node *node = core_node_ensure(core, number);
    gang_node_out(core, number);
    node->drain = drain;
    gang_node_in(core, number);
    if (drain == CORE_DRAIN_HARD) {
        kill_occupants(core, number, out);
    }
    if (core_node_is_eligible(node)) {
        dispatch_node_open(core, number);
    } else {
        dispatch_node_remove(core, number);
    }
    dispatch(core, now_ms, out);
}
