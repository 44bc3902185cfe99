/* verify.c - every invariant by a full scan. */
#include "core/core_state.h"

#include "base/mem.h"

struct tally {
    uint64_t states[TASK_SKIPPED + 1];
    uint64_t suspects;
};

static void verify_task(const struct core *core, const struct experiment_state_data *experiment,
                        uint64_t number, struct tally *tally)
{
    const struct task *task = &experiment->tasks[number];
    CHECK(task->state <= TASK_SKIPPED);
    tally->states[task->state]++;
    CHECK(number < experiment->next_fresh || task->attempt == 0);
    CHECK(number < experiment->touched || task->state == TASK_WAITING);
    CHECK(number >= experiment->next_fresh || task->state != TASK_WAITING);
    CHECK(number < experiment->next_fresh || task->state != TASK_QUEUED);
    CHECK(task->state != TASK_SUCCEEDED || task->attempt > 0);
    CHECK(!task_is_live(task) || task->attempt > 0);
    CHECK(!(task->flags & TASK_HELD));
    CHECK(!(task->flags & TASK_STOPPED) || task->state == TASK_SUCCEEDED);
    bool suspect = (task->flags & TASK_SUSPECT) != 0;
    tally->suspects += suspect;
    CHECK(!suspect || (task->flags & TASK_LISTED));
    CHECK(!suspect || task_is_live(task));
    if (task_is_live(task) && core->term > 0 && task->node < core->node_count) {
        CHECK(suspect == core->nodes[task->node].suspect);
    }
}

/* A group is all live or not at all, and has no hope left once a member has none. */
static void verify_groups(const struct experiment_state_data *experiment, bool begun)
{
    uint32_t gang = experiment->spec.gang;
    uint64_t listed = 0;
    for (uint64_t g = 0; g < experiment->spec.task_count / gang; g++) {
        uint64_t counts[TASK_SKIPPED + 1] = {0};
        for (uint64_t t = g * gang; t < (g + 1) * gang; t++) {
            counts[experiment->tasks[t].state]++;
        }
        const struct group *group = &experiment->groups[g];
        CHECK(group->queued == counts[TASK_QUEUED]);
        CHECK(group->live == counts[TASK_ASSIGNED] + counts[TASK_RUNNING]);
        listed += group_is_listed(group);
        if (!begun) {
            continue; /* straight from a log that may have been cut off */
        }
        uint64_t open = counts[TASK_WAITING] + counts[TASK_QUEUED];
        CHECK(group->live == 0 || open == 0);
        CHECK(group->live + open == 0 || counts[TASK_SUCCEEDED] + group->live + open == gang);
    }
    CHECK(listed == experiment->retries.count);
}

static void verify_retries(const struct experiment_state_data *experiment)
{
    const struct retry_heap *heap = &experiment->retries;
    for (size_t i = 0; i < heap->count; i++) {
        uint64_t task = heap->items[i].task;
        CHECK(i == 0 || heap->items[(i - 1) / 2].due_ms <= heap->items[i].due_ms);
        if (experiment->groups) {
            CHECK(task % experiment->spec.gang == 0);
            CHECK(group_is_listed(&experiment->groups[task / experiment->spec.gang]));
        } else {
            CHECK(experiment->tasks[task].state == TASK_QUEUED);
        }
    }
    for (size_t i = 0; i < experiment->suspects.count; i++) {
        CHECK(experiment->tasks[experiment->suspects.items[i].task].flags & TASK_LISTED);
    }
}

static void verify_experiment(const struct core *core,
                              const struct experiment_state_data *experiment, bool begun)
{
    struct tally tally = {0};
    CHECK(experiment->defined <= experiment->spec.task_count);
    CHECK(experiment->touched <= experiment->defined);
    if (!experiment->spec.searched) {
        CHECK(experiment->closed && experiment->defined == experiment->spec.task_count);
    }
    for (uint64_t t = 0; t < experiment->spec.task_count; t++) {
        verify_task(core, experiment, t, &tally);
    }
    CHECK(tally.states[TASK_SUCCEEDED] == experiment->succeeded);
    CHECK(tally.states[TASK_FAILED] == experiment->failed);
    CHECK(tally.states[TASK_CANCELLED] == experiment->cancelled_count);
    CHECK(tally.states[TASK_SKIPPED] == experiment->skipped);
    CHECK(tally.states[TASK_RUNNING] == experiment->running);
    CHECK(tally.states[TASK_ASSIGNED] + tally.states[TASK_RUNNING] == experiment->live);
    CHECK(tally.states[TASK_QUEUED] == experiment->queued);
    CHECK(tally.suspects == experiment->suspect_count);
    CHECK(experiment->suspects.count >= experiment->suspect_count);
    CHECK(experiment->groups || experiment->queued == experiment->retries.count);
    CHECK(experiment->next_fresh == experiment->defined ||
          experiment->tasks[experiment->next_fresh].state == TASK_WAITING);
    uint64_t most = experiment->spec.workers;
    if (most > 0) {
        CHECK(experiment->live <= (most > experiment->spec.gang ? most : experiment->spec.gang));
    }
    verify_retries(experiment);
    if (experiment->groups) {
        verify_groups(experiment, begun);
    }
    CHECK(!experiment->was_skipped || experiment->state == EXPERIMENT_ENDED);
    CHECK(experiment_is_complete(experiment) == (experiment->state == EXPERIMENT_ENDED));
}

static void verify_node(const struct core *core, uint32_t number, uint64_t *live)
{
    const struct node *node = &core->nodes[number];
    struct room used = {0};
    CHECK(node->presence != NODE_ABSENT || node->occupant_count == 0);
    CHECK(node->presence != NODE_ABSENT || !node->suspect);
    CHECK(node->list == NODE_NONE || core_node_is_eligible(node));
    CHECK(node->leased == (core->lease_ms > 0 && node->presence != NODE_ABSENT && !node->suspect));
    for (size_t i = 0; i < node->occupant_count; i++) {
        const struct core_attempt *id = &node->occupants[i].id;
        const struct experiment_state_data *experiment =
            core_experiment_at(core, id->workflow, id->experiment);
        used.cpu_milli += experiment->spec.needs.cpu_milli;
        used.gpus += experiment->spec.needs.gpus;
        used.memory_bytes += experiment->spec.needs.memory_bytes;
        if (core_attempt_is_live(core, id)) {
            CHECK(experiment->tasks[id->task].node == number);
            (*live)++;
        }
        for (size_t j = 0; j < i; j++) {
            const struct core_attempt *other = &node->occupants[j].id;
            CHECK(other->task != id->task || other->experiment != id->experiment ||
                  other->workflow != id->workflow || other->attempt != id->attempt ||
                  other->term != id->term);
        }
    }
    CHECK(used.cpu_milli == node->used.cpu_milli);
    CHECK(used.gpus == node->used.gpus);
    CHECK(used.memory_bytes == node->used.memory_bytes);
}

static void verify_leases(const struct core *core)
{
    int64_t last_ms = INT64_MIN;
    uint32_t last = 0;
    for (uint32_t at = core->lease_head; at; at = core->nodes[at - 1].lease_next) {
        CHECK(core->nodes[at - 1].leased);
        CHECK(core->nodes[at - 1].lease_prev == last);
        CHECK(core->nodes[at - 1].heard_ms >= last_ms);
        last_ms = core->nodes[at - 1].heard_ms;
        last = at;
    }
    CHECK(core->lease_tail == last);
}

static void verify_gang_counts(const struct core *core)
{
    for (size_t i = 0; i < core->gang_count; i++) {
        const struct experiment_state_data *experiment =
            core_experiment_at(core, core->gangs[i].workflow, core->gangs[i].experiment);
        uint64_t now = 0;
        uint64_t ever = 0;
        gang_count_places(core, experiment, &now, &ever);
        CHECK(experiment->gang_free == now);
        CHECK(experiment->gang_total == ever);
    }
}

void core_verify(const struct core *core)
{
    /* between a replay and core_begin_term nobody has the live attempts yet */
    bool begun = core->ready_count > 0;
    uint64_t live = 0;
    for (size_t w = 0; w < core->workflow_count; w++) {
        const struct workflow *workflow = &core->workflows[w];
        uint64_t share = 0;
        for (size_t e = 0; e < workflow->experiment_count; e++) {
            verify_experiment(core, &workflow->experiments[e], begun);
            share += workflow->experiments[e].live * task_share(&workflow->experiments[e]);
            live += workflow->experiments[e].live;
        }
        CHECK(share == workflow->live_share);
    }
    uint64_t occupying = 0;
    for (uint32_t n = 0; n < core->node_count; n++) {
        verify_node(core, n, &occupying);
    }
    CHECK(!begun || occupying == live);
    verify_leases(core);
    verify_gang_counts(core);
}
