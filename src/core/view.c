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

void core_experiment_view(const struct core *core, uint32_t workflow, uint32_t experiment,
                          struct core_experiment_view *out)
{
    const struct experiment_state_data *from = core_experiment_at(core, workflow, experiment);
    *out = (struct core_experiment_view){
        .tasks = from->spec.task_count,
        .succeeded = from->succeeded,
        .failed = from->failed,
        .cancelled = from->cancelled_count,
        .skipped = from->skipped,
        .assigned = from->live - from->running,
        .running = from->running,
        .retrying = from->retry_count,
        .attempts = from->attempts,
        .ready = experiment_dependencies_done(core_workflow_at(core, workflow), from),
        .ended = from->state == EXPERIMENT_ENDED,
    };
}

void core_task_view(const struct core *core, uint32_t workflow, uint32_t experiment, uint64_t task,
                    struct core_task_view *out)
{
    const struct experiment_state_data *from = core_experiment_at(core, workflow, experiment);
    CHECK(task < from->spec.task_count);
    const struct task *item = &from->tasks[task];
    enum core_task_state state = (enum core_task_state)item->state;
    if (state == TASK_WAITING &&
        experiment_dependencies_done(core_workflow_at(core, workflow), from)) {
        state = TASK_QUEUED;
    }
    *out = (struct core_task_view){
        .state = state,
        .outcome = (enum core_outcome)item->outcome,
        .code = item->code,
        .attempt = item->attempt,
        .failures = item->failures,
        .losses = item->losses,
        .node = item->node,
        .has_output = (item->flags & TASK_HAS_OUTPUT) != 0,
        .started_ms = item->started_ms,
        .duration_ms = item->duration_ms,
    };
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The most of each thing that any one node has; whether any has a GPU of the kind that is needed.
 */
static void best_of_nodes(const struct core *core, const struct core_resources *need,
                          struct core_resources *best, bool *kind_seen)
{
    *best = (struct core_resources){0};
    *kind_seen = false;
    for (size_t n = 0; n < core->node_count; n++) {
        const struct core_resources *has = &core->nodes[n].capacity;
        if (!core->nodes[n].joined) {
            continue;
        }
        best->cpu_milli = (uint32_t)larger(best->cpu_milli, has->cpu_milli);
        best->gpus = (uint32_t)larger(best->gpus, has->gpus);
        best->memory_bytes = larger(best->memory_bytes, has->memory_bytes);
        best->disk_bytes = larger(best->disk_bytes, has->disk_bytes);
        *kind_seen = *kind_seen || (has->gpus > 0 && kind_fits(need, has));
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

static void describe_lack(const struct core *core, const struct core_resources *need,
                          struct str *lack)
{
    struct core_resources best;
    bool kind_seen = false;
    best_of_nodes(core, need, &best, &kind_seen);
    if (need->gpus > 0 && (need->gpus > best.gpus || !kind_seen)) {
        lack_gpus(lack, need, best.gpus, kind_seen);
    }
    lack_amount(lack, need->cpu_milli / 1e3, best.cpu_milli / 1e3, "cpus");
    lack_amount(lack, (double)need->memory_bytes / 1e9, (double)best.memory_bytes / 1e9,
                "GB of memory");
    lack_amount(lack, (double)need->disk_bytes / 1e9, (double)best.disk_bytes / 1e9, "GB of disk");
    if (lack->size == 0) {
        str_add(lack, "all of it on one node");
    }
}

int core_unmet_need(const struct core *core, uint32_t workflow, struct str *lack)
{
    const struct workflow *owner = core_workflow_at(core, workflow);
    for (size_t e = 0; e < owner->experiment_count; e++) {
        const struct core_resources *need = &owner->experiments[e].spec.needs;
        bool met = owner->experiments[e].state == EXPERIMENT_ENDED;
        for (size_t n = 0; n < core->node_count && !met; n++) {
            met = core->nodes[n].joined && resources_fit(need, &core->nodes[n].capacity);
        }
        if (!met) {
            describe_lack(core, need, lack);
            return (int)e;
        }
    }
    return -1;
}

/* --- invariants ------------------------------------------------------------------------------ */

static void verify_experiment(const struct experiment_state_data *experiment)
{
    uint64_t counts[TASK_SKIPPED + 1] = {0};
    for (uint64_t t = 0; t < experiment->spec.task_count; t++) {
        const struct task *task = &experiment->tasks[t];
        CHECK(task->state <= TASK_SKIPPED);
        counts[task->state]++;
        CHECK(t < experiment->next_fresh || task->state == TASK_WAITING);
        CHECK(task->state != TASK_WAITING || task->attempt == 0);
        CHECK(task->state != TASK_SUCCEEDED || task->attempt > 0);
    }
    CHECK(counts[TASK_SUCCEEDED] == experiment->succeeded);
    CHECK(counts[TASK_FAILED] == experiment->failed);
    CHECK(counts[TASK_CANCELLED] == experiment->cancelled_count);
    CHECK(counts[TASK_SKIPPED] == experiment->skipped);
    CHECK(counts[TASK_RUNNING] == experiment->running);
    CHECK(counts[TASK_ASSIGNED] + counts[TASK_RUNNING] == experiment->live);
    CHECK(counts[TASK_QUEUED] == experiment->retry_count);
    if (experiment->spec.workers > 0) {
        CHECK(experiment->live <= experiment->spec.workers);
    }
    for (size_t i = 0; i < experiment->retry_count; i++) {
        CHECK(experiment->tasks[experiment->retries[i].task].state == TASK_QUEUED);
    }
    uint64_t final = experiment->succeeded + experiment->failed + experiment->cancelled_count +
                     experiment->skipped;
    CHECK((final == experiment->spec.task_count) == (experiment->state == EXPERIMENT_ENDED));
}

static void verify_node(const struct core *core, const struct node *node)
{
    struct core_resources used = {0};
    CHECK(node->joined || node->occupant_count == 0);
    for (size_t i = 0; i < node->occupant_count; i++) {
        const struct core_attempt *id = &node->occupants[i].id;
        const struct experiment_state_data *experiment =
            core_experiment_at(core, id->workflow, id->experiment);
        used.cpu_milli += experiment->spec.needs.cpu_milli;
        used.gpus += experiment->spec.needs.gpus;
        used.memory_bytes += experiment->spec.needs.memory_bytes;
        for (size_t j = 0; j < i; j++) {
            const struct core_attempt *other = &node->occupants[j].id;
            CHECK(other->task != id->task || other->experiment != id->experiment ||
                  other->workflow != id->workflow || other->attempt != id->attempt);
        }
    }
    CHECK(used.cpu_milli == node->used.cpu_milli);
    CHECK(used.gpus == node->used.gpus);
    CHECK(used.memory_bytes == node->used.memory_bytes);
}

void core_verify(const struct core *core)
{
    for (size_t w = 0; w < core->workflow_count; w++) {
        const struct workflow *workflow = &core->workflows[w];
        for (size_t e = 0; e < workflow->experiment_count; e++) {
            verify_experiment(&workflow->experiments[e]);
        }
    }
    for (size_t n = 0; n < core->node_count; n++) {
        verify_node(core, &core->nodes[n]);
    }
}
