/* room.c - what fits where.
 *
 * Short tasks are prefetched: a node may hold a few more than fit at once, so that a round trip is
 * not the limit. How many follows from how long the experiment's tasks have been taking; long ones
 * are never queued behind each other while another node might be free.
 */
#include "core/core_state.h"

#include "base/mem.h"

#include <string.h>

enum { PREFETCH_MAX = 40, PREFETCH_HORIZON_US = 20000 };

bool room_kind_fits(const struct core_resources *need, const struct core_resources *capacity)
{
    return need->gpus == 0 || need->gpu_kind[0] == '\0' ||
           strcmp(need->gpu_kind, capacity->gpu_kind) == 0;
}

bool room_could_fit(const struct core_resources *need, const struct core_resources *capacity)
{
    return need->cpu_milli <= capacity->cpu_milli && need->gpus <= capacity->gpus &&
           need->memory_bytes <= capacity->memory_bytes &&
           need->disk_bytes <= capacity->disk_bytes && room_kind_fits(need, capacity);
}

bool core_node_could_serve(const struct node *node, const struct experiment_state_data *experiment)
{
    return room_could_fit(&experiment->spec.needs, &node->capacity) &&
           (experiment->label_count == 0 || label_fits(experiment, node));
}

bool core_node_is_eligible(const struct node *node)
{
    return node->presence == NODE_HERE && !node->suspect && node->drain == CORE_DRAIN_OFF;
}

static uint32_t prefetch_depth(const struct experiment_state_data *experiment,
                               const struct node *node)
{
    if (experiment->mean_us <= 0 || experiment->mean_us >= PREFETCH_HORIZON_US ||
        experiment->groups) {
        return 0;
    }
    double per_slot = PREFETCH_HORIZON_US / experiment->mean_us;
    uint32_t depth = per_slot > PREFETCH_MAX ? PREFETCH_MAX : (uint32_t)per_slot;
    uint32_t slots = node->capacity.cpu_milli / 1000;
    return depth * (slots ? slots : 1);
}

/* Whether one more task fits beside what is there, some of its like being allowed to queue. */
bool core_node_has_room(const struct node *node, const struct experiment_state_data *experiment)
{
    if (!core_node_could_serve(node, experiment)) {
        return false;
    }
    const struct core_resources *need = &experiment->spec.needs;
    const struct core_resources *capacity = &node->capacity;
    uint64_t extra = prefetch_depth(experiment, node);
    return node->used.cpu_milli + need->cpu_milli <=
               capacity->cpu_milli + extra * need->cpu_milli &&
           node->used.gpus + need->gpus <= capacity->gpus + extra * need->gpus &&
           node->used.memory_bytes + need->memory_bytes <=
               capacity->memory_bytes + extra * need->memory_bytes;
}

static uint64_t times(uint64_t capacity, uint64_t used, uint64_t need, uint64_t most)
{
    if (need == 0) {
        return most;
    }
    uint64_t fit = used < capacity ? (capacity - used) / need : 0;
    return fit < most ? fit : most;
}

uint64_t core_node_places(const struct node *node, const struct experiment_state_data *experiment,
                          const struct room *used, uint64_t most)
{
    if (!core_node_could_serve(node, experiment)) {
        return 0;
    }
    const struct core_resources *need = &experiment->spec.needs;
    most = times(node->capacity.cpu_milli, used->cpu_milli, need->cpu_milli, most);
    most = times(node->capacity.gpus, used->gpus, need->gpus, most);
    return times(node->capacity.memory_bytes, used->memory_bytes, need->memory_bytes, most);
}

void core_node_occupy(struct core *core, uint32_t number, const struct core_attempt *id)
{
    const struct core_resources *need =
        &core_experiment_at(core, id->workflow, id->experiment)->spec.needs;
    gang_node_out(core, number);
    struct node *node = &core->nodes[number];
    VEC_PUSH(node->occupants, node->occupant_count, node->occupant_cap) =
        (struct occupant){.id = *id};
    node->used.cpu_milli += need->cpu_milli;
    node->used.gpus += need->gpus;
    node->used.memory_bytes += need->memory_bytes;
    gang_node_in(core, number);
}

void core_node_release(struct core *core, uint32_t number, size_t occupant)
{
    gang_node_out(core, number);
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
    gang_node_in(core, number);
    if (core_node_is_eligible(node)) {
        dispatch_node_open(core, number);
    }
}

/* The place of an attempt among its node's occupants, or occupant_count. */
size_t core_node_find_occupant(const struct node *node, const struct core_attempt *id)
{
    size_t at = 0;
    while (at < node->occupant_count) {
        const struct core_attempt *other = &node->occupants[at].id;
        if (other->task == id->task && other->experiment == id->experiment &&
            other->workflow == id->workflow && other->attempt == id->attempt &&
            other->term == id->term) {
            break;
        }
        at++;
    }
    return at;
}
