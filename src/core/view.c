/* view.c - looking at the state without changing it. */
#include "core/core_state.h"

#include <inttypes.h>

bool core_is_submitted(const struct core *core, uint32_t workflow)
{
    return core_workflow_at(core, workflow)->submitted;
}

enum core_workflow_state core_workflow_state(const struct core *core, uint32_t workflow)
{
    return core_workflow_at(core, workflow)->state;
}

int64_t core_workflow_ended_ms(const struct core *core, uint32_t workflow)
{
    return core_workflow_at(core, workflow)->ended_ms;
}

void core_experiment_view(const struct core *core, uint32_t workflow, uint32_t experiment,
                          struct core_experiment_view *out)
{
    const struct experiment_state_data *from = core_experiment_at(core, workflow, experiment);
    *out = (struct core_experiment_view){
        .tasks = from->defined,
        .succeeded = from->succeeded,
        .failed = from->failed,
        .cancelled = from->cancelled_count,
        .skipped = from->skipped,
        .assigned = from->live - from->running,
        .running = from->running,
        .retrying = from->queued,
        .attempts = from->attempts,
        .ready = experiment_dependencies_done(core_workflow_at(core, workflow), from),
        .ended = from->state == EXPERIMENT_ENDED,
        .closed = from->closed,
    };
}

void core_task_view(const struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                    struct core_task_view *out)
{
    const struct experiment_state_data *from = core_experiment_at(core, workflow, experiment);
    CHECK(task < from->spec.task_count);
    const struct task *item = &from->tasks[task];
    enum core_task_state state = (enum core_task_state)item->state;
    if (state == TASK_WAITING && task < from->defined &&
        experiment_dependencies_done(core_workflow_at(core, workflow), from)) {
        state = TASK_QUEUED;
    }
    int64_t began_ms = state == TASK_ASSIGNED  ? 0
                       : state == TASK_RUNNING ? item->started_ms + item->duration_ms
                                               : item->started_ms;
    *out = (struct core_task_view){
        .state = state,
        .outcome = (enum core_outcome)item->outcome,
        .code = item->code,
        .attempt = item->attempt,
        .failures = item->failures,
        .losses = item->losses,
        .node = item->node,
        .stopped = (item->flags & TASK_STOPPED) != 0,
        .has_output = (item->flags & TASK_HAS_OUTPUT) != 0,
        .started_ms = began_ms,
        .duration_ms = task_is_live(item) ? 0 : item->duration_ms,
    };
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool core_node_has(const struct core *core, uint32_t number, const struct core_attempt *id)
{
    if (number >= core->node_count) {
        return false;
    }
    const struct node *node = &core->nodes[number];
    return core_node_find_occupant(node, id) < node->occupant_count;
}

void core_node_view(const struct core *core, uint32_t number, struct core_node_view *out)
{
    *out = (struct core_node_view){0};
    if (number >= core->node_count) {
        return;
    }
    const struct node *node = &core->nodes[number];
    out->attempts = node->occupant_count;
    out->capacity = node->capacity;
    out->used.cpu_milli =
        node->used.cpu_milli < UINT32_MAX ? (uint32_t)node->used.cpu_milli : UINT32_MAX;
    out->used.gpus = node->used.gpus < UINT32_MAX ? (uint32_t)node->used.gpus : UINT32_MAX;
    out->used.memory_bytes = node->used.memory_bytes;
    if (node->presence == NODE_HERE) {
        out->state = node->suspect                   ? CORE_NODE_SUSPECT
                     : node->drain != CORE_DRAIN_OFF ? CORE_NODE_DRAINING
                                                     : CORE_NODE_HERE;
    }
}

/* --- what is missing -----------------------------------------------------------------------------
 */

/* The most of each thing that any one node has; whether any has a GPU of the kind that is needed.
 */
static void best_of_nodes(const struct core *core, const struct core_resources *need,
                          struct core_resources *best, bool *kind_seen)
{
    *best = (struct core_resources){0};
    *kind_seen = false;
    for (size_t n = 0; n < core->node_count; n++) {
        const struct core_resources *has = &core->nodes[n].capacity;
        if (core->nodes[n].presence != NODE_HERE) {
            continue;
        }
        best->cpu_milli = (uint32_t)larger(best->cpu_milli, has->cpu_milli);
        best->gpus = (uint32_t)larger(best->gpus, has->gpus);
        best->memory_bytes = larger(best->memory_bytes, has->memory_bytes);
        best->disk_bytes = larger(best->disk_bytes, has->disk_bytes);
        *kind_seen = *kind_seen || (has->gpus > 0 && room_kind_fits(need, has));
    }
}

static void lack_gpus(struct str *lack, const struct core_resources *need, uint32_t best,
                      bool kind_seen)
{
    str_addf(lack, "%" PRIu32 " gpu%s", need->gpus, need->gpus > 1 ? "s" : "");
    if (need->gpu_kind[0]) {
        str_addf(lack, " of kind %s", need->gpu_kind);
    }
    str_addf(lack, " (there %s %" PRIu32 "%s)", best == 1 ? "is" : "are", best,
             best > 0 && !kind_seen ? " of another kind" : "");
}

static void lack_amount(struct str *lack, double need, double best, const char *what)
{
    if (need > best) {
        str_addf(lack, "%s%.10g %s (there are %.10g)", lack->size ? ", " : "",
                 (double)(int64_t)(need * 100 + 0.5) / 100, what,
                 (double)(int64_t)(best * 100 + 0.5) / 100);
    }
}

static const char *label_text(const struct core *core, uint32_t id)
{
    size_t at = 0;
    while (core->labels[at].id != id) {
        at++;
    }
    return core->labels[at].text;
}

/* Labels that no node has at all. */
static void lack_labels(const struct core *core, const struct experiment_state_data *experiment,
                        struct str *lack)
{
    for (size_t i = 0; i < experiment->label_count; i++) {
        bool seen = false;
        struct experiment_state_data only = {.label_ids = &experiment->label_ids[i],
                                             .label_count = 1};
        for (size_t n = 0; n < core->node_count && !seen; n++) {
            seen = core->nodes[n].presence == NODE_HERE && label_fits(&only, &core->nodes[n]);
        }
        if (!seen) {
            str_addf(lack, "%sa node with the label %s", lack->size ? ", " : "",
                     label_text(core, experiment->label_ids[i]));
        }
    }
}

static void describe_lack(const struct core *core, const struct experiment_state_data *experiment,
                          uint64_t places, struct str *lack)
{
    const struct core_resources *need = &experiment->spec.needs;
    struct core_resources best;
    bool kind_seen = false;
    if (places > 0) {
        str_addf(lack, "room for a gang of %" PRIu32 " (there is room for %" PRIu64 ")",
                 experiment->spec.gang, places);
        return;
    }
    best_of_nodes(core, need, &best, &kind_seen);
    if (need->gpus > 0 && (need->gpus > best.gpus || !kind_seen)) {
        lack_gpus(lack, need, best.gpus, kind_seen);
    }
    lack_amount(lack, need->cpu_milli / 1e3, best.cpu_milli / 1e3, "cpus");
    lack_amount(lack, (double)need->memory_bytes / 1e9, (double)best.memory_bytes / 1e9,
                "GB of memory");
    lack_amount(lack, (double)need->disk_bytes / 1e9, (double)best.disk_bytes / 1e9, "GB of disk");
    lack_labels(core, experiment, lack);
    if (lack->size == 0) {
        str_add(lack, "all of it on one node");
    }
}

/* How many of its tasks fit at once on empty nodes; no more are counted than start together. */
static uint64_t places_of(const struct core *core, const struct experiment_state_data *experiment)
{
    uint64_t wanted = experiment->groups ? experiment->spec.gang : 1;
    uint64_t places = 0;
    for (size_t n = 0; n < core->node_count && places < wanted; n++) {
        if (core->nodes[n].presence == NODE_HERE) {
            places += core_node_places(&core->nodes[n], experiment, &(struct room){0}, wanted);
        }
    }
    return places;
}

int core_unmet_need(const struct core *core, uint32_t workflow, struct str *lack)
{
    const struct workflow *owner = core_workflow_at(core, workflow);
    for (size_t e = 0; e < owner->experiment_count; e++) {
        const struct experiment_state_data *experiment = &owner->experiments[e];
        if (experiment->state == EXPERIMENT_ENDED) {
            continue;
        }
        uint64_t places = places_of(core, experiment);
        if (places < (experiment->groups ? experiment->spec.gang : 1)) {
            describe_lack(core, experiment, places, lack);
            return (int)e;
        }
    }
    return -1;
}
