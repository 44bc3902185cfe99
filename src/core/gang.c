/* gang.c - groups of tasks that start together or not at all.
 *
 * A group is placed in one call over all nodes that have room; members are never prefetched. While
 * the first group of an experiment waits for room that exists but is taken, it holds its place:
 * nothing behind it in the order of service is started on any node that could serve it. That is
 * coarse (a node may stand idle that the gang will not need in the end), but a gang gets its turn
 * as soon as what runs now has ended. A group for which there are not enough nodes at all holds up
 * nobody.
 *
 * When a member fails or is lost, the others are stopped without blame and all that were not
 * accepted start again, together. When one has failed for good, the rest of its group is cancelled.
 * A group with a suspect member is given up once all of it fits, its own room counted as free.
 *
 * How many members fit is counted as nodes change (gang_free, gang_total), so that an event costs
 * nothing more on ten thousand nodes than on ten.
 */
#include "core/core_state.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>

/* --- members -----------------------------------------------------------------------------------
 */

static uint64_t first_of(const struct experiment_state_data *experiment, uint64_t task)
{
    return task - task % experiment->spec.gang;
}

static bool is_hopeless(const struct experiment_state_data *experiment, uint64_t first)
{
    for (uint64_t t = first; t < first + experiment->spec.gang; t++) {
        const struct task *task = &experiment->tasks[t];
        if ((task_is_final(task) && task->state != TASK_SUCCEEDED) ||
            (task_is_live(task) && task->attempt == UINT16_MAX)) {
            return true;
        }
    }
    return false;
}

/* Ends every live attempt of a group; for good if it can never be whole again. */
static void stop_group(struct core *core, const struct core_attempt *about, int64_t now_ms,
                       struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, about->workflow, about->experiment);
    uint64_t first = first_of(experiment, about->task);
    bool hopeless = is_hopeless(experiment, first);
    for (uint64_t t = first; t < first + experiment->spec.gang; t++) {
        const struct task *task = &experiment->tasks[t];
        struct core_attempt id = core_attempt_of(core, about->workflow, about->experiment, t);
        if (hopeless && !task_is_final(task)) {
            decide_cancel_task(core, &id, now_ms, out);
        } else if (task_is_live(task)) {
            core_effect_push(out, EFFECT_KILL, task->node, &id, 0);
            decide_emit_lost(core, &id, FACT_BLAMELESS, now_ms, out);
        }
    }
}

void gang_break(struct core *core, const struct core_attempt *id, int64_t now_ms,
                struct core_out *out)
{
    stop_group(core, id, now_ms, out);
    dispatch_new_work(core);
}

/* A crash may have cut off the facts of one call: no group stays half live. */
void gang_repair(struct core *core, uint32_t workflow, uint32_t number, int64_t now_ms,
                 struct core_out *out)
{
    struct experiment_state_data *experiment = core_experiment_at(core, workflow, number);
    if (!experiment->groups) {
        return;
    }
    uint32_t gang = experiment->spec.gang;
    CHECK(gang > 1);
    for (uint64_t first = 0; first < experiment->touched; first += gang) {
        uint64_t final = 0;
        for (uint64_t t = first; t < first + gang; t++) {
            final += task_is_final(&experiment->tasks[t]);
        }
        uint64_t live = experiment->groups[first / gang].live;
        bool is_half = live > 0 && live + final < gang;
        if (final < gang && (is_half || is_hopeless(experiment, first))) {
            struct core_attempt about = {.workflow = workflow, .experiment = number, .task = first};
            stop_group(core, &about, now_ms, out);
        }
    }
}

/* --- counting room -----------------------------------------------------------------------------
 */

void gang_count_node(struct core *core, uint32_t number, bool is_in)
{
    const struct node *node = &core->nodes[number];
    if (!core_node_is_eligible(node)) {
        return;
    }
    for (size_t i = 0; i < core->gang_count; i++) {
        struct experiment_state_data *experiment =
            core_experiment_at(core, core->gangs[i].workflow, core->gangs[i].experiment);
        uint32_t gang = experiment->spec.gang;
        uint64_t now = core_node_places(node, experiment, &node->used, gang);
        uint64_t ever = core_node_places(node, experiment, &(struct room){0}, gang);
        experiment->gang_free += is_in ? now : -now;
        experiment->gang_total += is_in ? ever : -ever;
    }
}

void gang_count_places(const struct core *core, const struct experiment_state_data *experiment,
                       uint64_t *free_out, uint64_t *total_out)
{
    *free_out = 0;
    *total_out = 0;
    for (size_t n = 0; n < core->node_count; n++) {
        const struct node *node = &core->nodes[n];
        if (core_node_is_eligible(node)) {
            uint32_t gang = experiment->spec.gang;
            *free_out += core_node_places(node, experiment, &node->used, gang);
            *total_out += core_node_places(node, experiment, &(struct room){0}, gang);
        }
    }
}

void gang_recount(struct core *core)
{
    for (size_t i = 0; i < core->gang_count; i++) {
        struct experiment_state_data *experiment =
            core_experiment_at(core, core->gangs[i].workflow, core->gangs[i].experiment);
        gang_count_places(core, experiment, &experiment->gang_free, &experiment->gang_total);
    }
}

/* --- which group is next -------------------------------------------------------------------------
 */

struct candidate {
    uint64_t first;
    uint64_t needed; /* members that are not accepted */
    uint64_t own;    /* of them live on eligible nodes: their room would come free */
    bool suspect;    /* it is live, but for a suspect member */
};

static bool find_first(struct experiment_state_data *experiment, int64_t now_ms,
                       struct candidate *out)
{
    *out = (struct candidate){0};
    if (experiment->suspect_count > 0) {
        out->suspect = true;
        out->first = first_of(experiment, suspect_first(experiment));
        return true;
    }
    if (dispatch_retry_is_due(experiment, now_ms)) {
        out->first = experiment->retries.items[0].task;
        return true;
    }
    out->first = experiment->next_fresh;
    /* between two groups: the rest of one that was cut off waits among the retries */
    return experiment->next_fresh < experiment->defined &&
           experiment->next_fresh % experiment->spec.gang == 0;
}

/* The next group of the experiment that may start, were there room. */
static bool find_candidate(const struct core *core, const struct ready_item *item, int64_t now_ms,
                           struct candidate *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, item->workflow, item->experiment);
    if (!find_first(experiment, now_ms, out)) {
        return false;
    }
    uint32_t gang = experiment->spec.gang;
    for (uint64_t t = out->first; t < out->first + gang; t++) {
        const struct task *task = &experiment->tasks[t];
        out->needed += !task_is_final(task);
        out->own += task_is_live(task) && core_node_is_eligible(&core->nodes[task->node]);
    }
    uint64_t most = experiment->spec.workers > gang ? experiment->spec.workers : gang;
    uint64_t others = experiment->live - experiment->groups[out->first / gang].live;
    return experiment->spec.workers == 0 || others + out->needed <= most;
}

bool gang_stands_in_the_way(const struct core *core, const struct ready_item *item, int64_t now_ms)
{
    struct candidate candidate;
    return find_candidate(core, item, now_ms, &candidate) &&
           core_experiment_at(core, item->workflow, item->experiment)->gang_total >=
               candidate.needed;
}

uint64_t gang_order_mark(const struct core *core, int64_t now_ms)
{
    uint64_t mark = 1;
    for (size_t g = 0; g < core->order_count; g++) {
        const struct ready_group *group = &core->order[g];
        for (size_t i = group->first; i < group->first + group->count; i++) {
            const struct ready_item *item = &core->ready[i];
            bool waits = core_experiment_at(core, item->workflow, item->experiment)->groups &&
                         gang_stands_in_the_way(core, item, now_ms);
            uint64_t name = (uint64_t)item->workflow << 32 | item->experiment;
            mark = rng_mix(mark, name, waits ? 2 : 1);
        }
    }
    return mark;
}

/* --- placing -------------------------------------------------------------------------------------
 */

struct plan {
    const struct ready_item *blocked[64]; /* gangs that wait, earlier in the order */
    size_t blocked_count;
    uint32_t *nodes; /* one for each member */
    size_t count;
    size_t cap;
};

static bool is_kept(const struct core *core, const struct plan *plan, const struct node *node)
{
    for (size_t i = 0; i < plan->blocked_count; i++) {
        const struct ready_item *item = plan->blocked[i];
        if (core_node_could_serve(node,
                                  core_experiment_at(core, item->workflow, item->experiment))) {
            return true;
        }
    }
    return false;
}

static void plan_list(const struct core *core, const struct experiment_state_data *experiment,
                      uint32_t head, uint64_t needed, struct plan *plan)
{
    for (uint32_t at = head; at && plan->count < needed; at = core->nodes[at - 1].next) {
        const struct node *node = &core->nodes[at - 1];
        uint64_t places = core_node_places(node, experiment, &node->used, needed - plan->count);
        if (places == 0 || is_kept(core, plan, node)) {
            continue;
        }
        for (uint64_t i = 0; i < places; i++) {
            VEC_PUSH(plan->nodes, plan->count, plan->cap) = at - 1;
        }
    }
}

/* Every node with room is open or parked. */
static bool find_nodes(const struct core *core, const struct experiment_state_data *experiment,
                       uint64_t needed, struct plan *plan)
{
    plan->count = 0;
    if (experiment->gang_free < needed) {
        return false;
    }
    plan_list(core, experiment, core->open_head, needed, plan);
    plan_list(core, experiment, core->parked_head, needed, plan);
    return plan->count == needed;
}

/* The suspects are lost to their nodes, the others to them. */
static void give_up(struct core *core, const struct core_attempt *about, int64_t now_ms,
                    struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, about->workflow, about->experiment);
    uint64_t suspect = suspect_first(experiment);
    struct core_attempt id = core_attempt_of(core, about->workflow, about->experiment, suspect);
    uint32_t node = experiment->tasks[suspect].node;
    core_effect_push(out, EFFECT_KILL, node, &id, 0);
    decide_lose(core, &id, core->nodes[node].drain != CORE_DRAIN_OFF, now_ms, out);
}

static void start_group(struct core *core, const struct core_attempt *about,
                        const struct plan *plan, int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, about->workflow, about->experiment);
    size_t placed = 0;
    for (uint64_t t = about->task; t < about->task + experiment->spec.gang; t++) {
        if (!task_is_final(&experiment->tasks[t])) {
            struct core_attempt id = *about;
            id.task = t;
            dispatch_assign(core, plan->nodes[placed++], &id, now_ms, out);
        }
    }
    CHECK(placed == plan->count);
    for (size_t i = 0; i < plan->count; i++) {
        dispatch_node_settle(core, plan->nodes[i]);
    }
}

/* Places, or gives up to place it next, the first group of this experiment if it can be. */
static bool place(struct core *core, const struct ready_item *item, struct plan *plan,
                  int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, item->workflow, item->experiment);
    struct candidate candidate;
    if (!find_candidate(core, item, now_ms, &candidate) ||
        experiment->gang_total < candidate.needed) {
        return false;
    }
    struct core_attempt about = {
        .workflow = item->workflow, .experiment = item->experiment, .task = candidate.first};
    if (candidate.suspect) {
        if (experiment->gang_free + candidate.own >= candidate.needed) {
            give_up(core, &about, now_ms, out);
            return true;
        }
    } else if (find_nodes(core, experiment, candidate.needed, plan)) {
        start_group(core, &about, plan, now_ms, out);
        return true;
    }
    if (plan->blocked_count < sizeof plan->blocked / sizeof plan->blocked[0]) {
        plan->blocked[plan->blocked_count++] = item;
    }
    return false;
}

/* The first gang of each priority that has to wait is the one that nodes are kept for. */
static void mark_waiting(struct core *core, const struct plan *plan)
{
    for (size_t g = 0; g < core->order_count; g++) {
        core->workflows[core->order[g].workflow - 1].gang_waits = false;
    }
    for (size_t i = 0; i < plan->blocked_count; i++) {
        struct workflow *workflow = core_workflow_at(core, plan->blocked[i]->workflow);
        const struct workflow *before =
            i > 0 ? core_workflow_at(core, plan->blocked[i - 1]->workflow) : NULL;
        if (!before || before->priority != workflow->priority) {
            workflow->gang_waits = true;
        }
    }
    order_settle(core);
}

/* The first gang in the order of service that can be placed. Those before it keep the nodes that
 * could serve them. True: something was done, and there may be more to do. */
bool gang_place_first(struct core *core, int64_t now_ms, struct core_out *out)
{
    struct plan plan = {0};
    bool placed = false;
    for (size_t g = 0; g < core->order_count && !placed; g++) {
        const struct ready_group group = core->order[g]; /* placing may rebuild the order */
        for (size_t i = group.first; i < group.first + group.count && !placed; i++) {
            const struct ready_item *item = &core->ready[i];
            if (core_experiment_at(core, item->workflow, item->experiment)->groups) {
                placed = place(core, item, &plan, now_ms, out);
            }
        }
    }
    free(plan.nodes);
    if (placed) {
        order_settle(core);
        dispatch_new_work(core);
    } else {
        mark_waiting(core, &plan);
    }
    return placed;
}
