/* decide.c - inputs to facts and effects. */
#include "core/core_state.h"

#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

void core_out_clear(struct core_out *out)
{
    out->fact_count = 0;
    out->effect_count = 0;
}

void core_out_release(struct core_out *out)
{
    free(out->facts);
    free(out->effects);
    *out = (struct core_out){0};
}

/* Applies the fact, hands it to the shell, and returns its number. */
uint64_t emit(struct core *core, struct core_out *out, const struct fact *fact)
{
    VEC_PUSH(out->facts, out->fact_count, out->fact_cap) = *fact;
    apply_fact(core, fact);
    return core->last_fact;
}

void effect_push(struct core_out *out, enum core_effect_kind kind, uint32_t node,
                 const struct core_attempt *id, uint64_t after)
{
    VEC_PUSH(out->effects, out->effect_count, out->effect_cap) =
        (struct core_effect){.kind = kind, .node = node, .id = *id, .after = after};
}

struct core *core_create(void)
{
    return mem_alloc(sizeof(struct core));
}

void core_destroy(struct core *core)
{
    if (!core) {
        return;
    }
    for (size_t w = 0; w < core->workflow_count; w++) {
        struct workflow *workflow = &core->workflows[w];
        for (size_t e = 0; e < workflow->experiment_count; e++) {
            free((void *)workflow->experiments[e].spec.depends_on);
            free(workflow->experiments[e].tasks);
            free(workflow->experiments[e].retries);
        }
        free(workflow->experiments);
    }
    for (size_t n = 0; n < core->node_count; n++) {
        free(core->nodes[n].occupants);
    }
    free(core->workflows);
    free(core->nodes);
    free(core->ready);
    free(core);
}

void core_define(struct core *core, uint32_t workflow, const struct core_workflow_spec *spec)
{
    CHECK(workflow == core->workflow_count + 1);
    CHECK(spec->experiment_count > 0);
    struct workflow made = {
        .seed = spec->seed, .priority = spec->priority, .experiment_count = spec->experiment_count};
    made.experiments = mem_array(spec->experiment_count, sizeof *made.experiments);
    for (size_t e = 0; e < spec->experiment_count; e++) {
        struct experiment_state_data *experiment = &made.experiments[e];
        experiment->spec = spec->experiments[e];
        experiment->spec.depends_on = mem_dup(
            spec->experiments[e].depends_on, spec->experiments[e].depends_count * sizeof(uint32_t));
        CHECK(experiment->spec.task_count > 0);
        /* untouched pages of a large array cost nothing until a task is tried */
        experiment->tasks = mem_array(experiment->spec.task_count, sizeof(struct task));
    }
    VEC_PUSH(core->workflows, core->workflow_count, core->workflow_cap) = made;
}

uint64_t core_last_fact(const struct core *core)
{
    return core->last_fact;
}

uint32_t core_term(const struct core *core)
{
    return core->term;
}

/* --- experiments and workflows move on ------------------------------------------------------ */

static bool dependency_failed(const struct workflow *workflow,
                              const struct experiment_state_data *experiment)
{
    for (size_t i = 0; i < experiment->spec.depends_count; i++) {
        const struct experiment_state_data *other =
            &workflow->experiments[experiment->spec.depends_on[i]];
        bool spoilt = other->skipped > 0 || other->cancelled || other->failed > 0;
        if (other->state == EXPERIMENT_ENDED && spoilt && !other->spec.allow_failure) {
            return true;
        }
        if (other->state == EXPERIMENT_ENDED && other->skipped > 0) {
            return true;
        }
    }
    return false;
}

static enum core_workflow_state workflow_outcome(const struct workflow *workflow)
{
    enum core_workflow_state state = WORKFLOW_SUCCEEDED;
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        const struct experiment_state_data *experiment = &workflow->experiments[e];
        if (experiment->cancelled == CANCEL_ASKED) {
            return WORKFLOW_CANCELLED;
        }
        if (experiment->failed > 0 && !experiment->spec.allow_failure) {
            state = WORKFLOW_FAILED;
        }
    }
    return state;
}

/* Makes experiments ready or skipped as far as their dependencies allow, and ends the workflow when
 * nothing is left. Idempotent, so a restart may call it at any point. */
static void advance(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    if (!workflow->submitted || workflow->state != WORKFLOW_RUNNING) {
        return;
    }
    bool changed = true;
    size_t ended = 0;
    while (changed) {
        changed = false;
        ended = 0;
        for (size_t e = 0; e < workflow->experiment_count; e++) {
            struct experiment_state_data *experiment = &workflow->experiments[e];
            struct core_attempt about = {.workflow = number, .experiment = (uint32_t)e};
            if (experiment->state == EXPERIMENT_WAITING &&
                dependency_failed(workflow, experiment)) {
                uint64_t fact = emit(core, out,
                                     &(struct fact){.kind = FACT_SKIPPED,
                                                    .workflow = number,
                                                    .experiment = (uint32_t)e,
                                                    .at_ms = now_ms});
                effect_push(out, EFFECT_EXPERIMENT, 0, &about, fact);
                changed = true;
            }
            if (experiment->state == EXPERIMENT_WAITING &&
                experiment_dependencies_done(workflow, experiment)) {
                experiment->state = EXPERIMENT_READY;
                effect_push(out, EFFECT_EXPERIMENT, 0, &about, core->last_fact);
                changed = true;
            }
            ended += experiment->state == EXPERIMENT_ENDED;
        }
    }
    dispatch_rebuild_ready(core);
    if (ended == workflow->experiment_count) {
        uint64_t fact = emit(core, out,
                             &(struct fact){.kind = FACT_ENDED,
                                            .workflow = number,
                                            .outcome = (uint32_t)workflow_outcome(workflow),
                                            .at_ms = now_ms});
        effect_push(out, EFFECT_WORKFLOW, 0, &(struct core_attempt){.workflow = number}, fact);
    }
}

static void after_end(struct core *core, const struct core_attempt *id, uint64_t fact,
                      int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    if (experiment->state == EXPERIMENT_ENDED) {
        effect_push(out, EFFECT_EXPERIMENT, 0, id, fact);
        advance(core, id->workflow, now_ms, out);
    }
}

/* --- attempts end --------------------------------------------------------------------------- */

static bool is_live(const struct core *core, const struct core_attempt *id)
{
    if (id->workflow < 1 || id->workflow > core->workflow_count) {
        return false;
    }
    const struct workflow *workflow = &core->workflows[id->workflow - 1];
    if (id->experiment >= workflow->experiment_count ||
        id->task >= workflow->experiments[id->experiment].spec.task_count) {
        return false;
    }
    const struct task *task = &workflow->experiments[id->experiment].tasks[id->task];
    return (task->state == TASK_ASSIGNED || task->state == TASK_RUNNING) &&
           task->attempt == id->attempt && task->term == id->term;
}

static int64_t backoff_longest_ms(const struct core_experiment_spec *spec)
{
    return spec->backoff_ms > 60000 ? spec->backoff_ms : 60000;
}

/* Doubling from backoff_ms to a minute, spread over the upper half so that a herd of retries does
 * not come back at once. */
static int64_t backoff_ms(uint64_t seed, const struct core_attempt *id,
                          const struct core_experiment_spec *spec, uint32_t failures)
{
    int64_t longest = backoff_longest_ms(spec);
    int64_t delay = spec->backoff_ms;
    for (uint32_t i = 0; i < failures && delay < longest; i++) {
        delay *= 2;
    }
    delay = delay < longest ? delay : longest;
    double spread = rng_unit_of(rng_mix(seed, id->task, id->attempt));
    int64_t half = delay / 2;
    return half + (int64_t)(spread * (double)(delay - half));
}

static void kill_live(struct core *core, const struct core_attempt *about, struct core_out *out)
{
    for (size_t n = 0; n < core->node_count; n++) {
        const struct node *node = &core->nodes[n];
        for (size_t i = 0; i < node->occupant_count; i++) {
            const struct core_attempt *id = &node->occupants[i].id;
            if (id->workflow == about->workflow && id->experiment == about->experiment) {
                effect_push(out, EFFECT_KILL, (uint32_t)n, id, 0);
            }
        }
    }
}

static void cancel_experiment(struct core *core, const struct core_attempt *about,
                              enum core_cancel_reason reason, int64_t now_ms, struct core_out *out)
{
    uint64_t fact = emit(core, out,
                         &(struct fact){.kind = FACT_CANCELLED,
                                        .workflow = about->workflow,
                                        .experiment = about->experiment,
                                        .outcome = (uint32_t)reason,
                                        .at_ms = now_ms});
    kill_live(core, about, out);
    effect_push(out, EFFECT_EXPERIMENT, 0, about, fact);
}

static void decide_accepted(struct core *core, uint32_t node, const struct core_attempt *id,
                            const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    uint64_t fact = emit(core, out,
                         &(struct fact){.kind = FACT_ACCEPTED,
                                        .workflow = id->workflow,
                                        .experiment = id->experiment,
                                        .task = id->task,
                                        .attempt = id->attempt,
                                        .flags = result->has_output ? FACT_HAS_OUTPUT : 0,
                                        .started_ms = result->started_ms,
                                        .duration_ms = result->duration_us / 1000});
    effect_push(out, EFFECT_SETTLED, node, id, fact);
    out->effects[out->effect_count - 1].accepted = true;
    effect_push(out, EFFECT_TASK, node, id, fact);
    after_end(core, id, fact, now_ms, out);
}

static void after_failure(struct core *core, const struct core_attempt *id, uint64_t fact,
                          int64_t now_ms, struct core_out *out)
{
    const struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    uint64_t most = experiment->spec.max_failures;
    if (most > 0 && experiment->failed >= most && experiment->state != EXPERIMENT_ENDED) {
        cancel_experiment(core, id, CANCEL_TOO_MANY_FAILURES, now_ms, out);
        advance(core, id->workflow, now_ms, out);
        return;
    }
    after_end(core, id, fact, now_ms, out);
}

static void decide_failed(struct core *core, uint32_t node, const struct core_attempt *id,
                          const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, id->workflow);
    struct experiment_state_data *experiment = &workflow->experiments[id->experiment];
    const struct core_experiment_spec *spec = &experiment->spec;
    uint32_t failures = experiment->tasks[id->task].failures;
    bool final = failures >= spec->retries || id->attempt == UINT16_MAX;
    int64_t due_ms = final ? 0 : now_ms + backoff_ms(workflow->seed, id, spec, failures);
    uint64_t fact = emit(core, out,
                         &(struct fact){.kind = FACT_FAILED,
                                        .workflow = id->workflow,
                                        .experiment = id->experiment,
                                        .task = id->task,
                                        .attempt = id->attempt,
                                        .outcome = (uint32_t)result->outcome,
                                        .code = result->code & 0xff,
                                        .flags = final ? FACT_FINAL : 0,
                                        .started_ms = result->started_ms,
                                        .duration_ms = result->duration_us / 1000,
                                        .due_ms = due_ms});
    effect_push(out, EFFECT_SETTLED, node, id, fact);
    effect_push(out, EFFECT_TASK, node, id, fact);
    if (!final && due_ms <= core->ticked_ms) {
        dispatch_new_work(core);
    }
    after_failure(core, id, fact, now_ms, out);
}

static void decide_lost(struct core *core, uint32_t node, const struct core_attempt *id,
                        bool blameless, int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    const struct core_experiment_spec *spec = &experiment->spec;
    uint32_t losses = experiment->tasks[id->task].losses + (blameless ? 0u : 1u);
    bool final = (spec->crash_limit > 0 && losses >= spec->crash_limit && !blameless) ||
                 id->attempt == UINT16_MAX;
    uint32_t flags = (final ? FACT_FINAL : 0u) | (blameless ? FACT_BLAMELESS : 0u);
    uint64_t fact = emit(core, out,
                         &(struct fact){.kind = FACT_LOST,
                                        .workflow = id->workflow,
                                        .experiment = id->experiment,
                                        .task = id->task,
                                        .attempt = id->attempt,
                                        .flags = flags,
                                        .at_ms = now_ms});
    effect_push(out, EFFECT_SETTLED, node, id, fact);
    effect_push(out, EFFECT_TASK, node, id, fact);
    after_failure(core, id, fact, now_ms, out);
    dispatch_new_work(core);
}

/* The place of an attempt among its node's occupants, or occupant_count. */
static size_t find_occupant(const struct node *node, const struct core_attempt *id)
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

void core_task_ended(struct core *core, uint32_t node, const struct core_attempt *id,
                     const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    if (node >= core->node_count || !core->nodes[node].joined) {
        return;
    }
    size_t occupant = find_occupant(&core->nodes[node], id);
    bool was_here = occupant < core->nodes[node].occupant_count;
    if (was_here) {
        node_release_attempt(core, node, occupant);
    }
    if (!was_here || !is_live(core, id)) {
        effect_push(out, EFFECT_SETTLED, node, id, 0);
    } else if (result->outcome == OUT_EXITED && result->code == 0) {
        decide_accepted(core, node, id, result, now_ms, out);
    } else if (result->outcome == OUT_KILLED) {
        decide_lost(core, node, id, true, now_ms, out);
    } else if (result->outcome == OUT_SLOT_LOST) {
        decide_lost(core, node, id, false, now_ms, out);
    } else {
        decide_failed(core, node, id, result, now_ms, out);
    }
    dispatch(core, now_ms, out);
}

void core_task_running(struct core *core, const struct core_attempt *id)
{
    if (!is_live(core, id)) {
        return;
    }
    struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    struct task *task = &experiment->tasks[id->task];
    if (task->state == TASK_ASSIGNED) {
        task->state = TASK_RUNNING;
        experiment->running++;
    }
}

/* --- nodes, workflows, time ------------------------------------------------------------------ */

void core_node_join(struct core *core, uint32_t node, const struct core_resources *capacity,
                    int64_t now_ms, struct core_out *out)
{
    while (core->node_count <= node) {
        VEC_PUSH(core->nodes, core->node_count, core->node_cap) = (struct node){0};
    }
    CHECK(!core->nodes[node].joined);
    core->nodes[node].joined = true;
    core->nodes[node].capacity = *capacity;
    core->nodes[node].used = (struct core_resources){0};
    dispatch_node_open(core, node);
    dispatch(core, now_ms, out);
}

void core_node_lost(struct core *core, uint32_t node, int64_t now_ms, struct core_out *out)
{
    if (node >= core->node_count || !core->nodes[node].joined) {
        return;
    }
    struct node *gone = &core->nodes[node];
    gone->joined = false;
    gone->used = (struct core_resources){0};
    dispatch_node_remove(core, node);
    size_t count = gone->occupant_count;
    struct occupant *occupants = gone->occupants;
    gone->occupants = NULL;
    gone->occupant_count = 0;
    gone->occupant_cap = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_live(core, &occupants[i].id)) {
            decide_lost(core, node, &occupants[i].id, false, now_ms, out);
        }
    }
    free(occupants);
    dispatch(core, now_ms, out);
}

/* Attempts that a former master had out, on nodes that died with it. */
static void lose_former_attempts(struct core *core, uint32_t number, int64_t now_ms,
                                 struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        struct experiment_state_data *experiment = &workflow->experiments[e];
        for (uint64_t t = 0; t < experiment->next_fresh && experiment->live > 0; t++) {
            const struct task *task = &experiment->tasks[t];
            if (task->state == TASK_ASSIGNED || task->state == TASK_RUNNING) {
                struct core_attempt id = {.workflow = number,
                                          .experiment = (uint32_t)e,
                                          .task = t,
                                          .attempt = task->attempt,
                                          .term = task->term};
                decide_lost(core, task->node, &id, false, now_ms, out);
            }
        }
    }
}

/* A former master's clock may have been ahead: no retry waits longer than its back-off could be. */
static void cap_retries(struct experiment_state_data *experiment, int64_t now_ms)
{
    int64_t latest_ms = now_ms + backoff_longest_ms(&experiment->spec);
    size_t count = experiment->retry_count;
    experiment->retry_count = 0;
    for (size_t i = 0; i < count; i++) { /* a heap again: those capped are ordered by task */
        struct retry again = experiment->retries[i];
        retry_push(experiment, again.due_ms < latest_ms ? again.due_ms : latest_ms, again.task);
    }
}

void core_begin_term(struct core *core, int64_t now_ms, struct core_out *out)
{
    emit(core, out, &(struct fact){.kind = FACT_TERM, .term = core->term + 1, .at_ms = now_ms});
    for (uint32_t w = 1; w <= core->workflow_count; w++) {
        if (core->workflows[w - 1].submitted && core->workflows[w - 1].state == WORKFLOW_RUNNING) {
            for (size_t e = 0; e < core->workflows[w - 1].experiment_count; e++) {
                cap_retries(&core->workflows[w - 1].experiments[e], now_ms);
            }
            lose_former_attempts(core, w, now_ms, out);
            advance(core, w, now_ms, out);
        }
    }
}

void core_submit(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out)
{
    CHECK(!core_workflow_at(core, workflow)->submitted);
    emit(core, out, &(struct fact){.kind = FACT_SUBMITTED, .workflow = workflow, .at_ms = now_ms});
    advance(core, workflow, now_ms, out);
    dispatch(core, now_ms, out);
}

void core_cancel(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    if (!workflow->submitted || workflow->state != WORKFLOW_RUNNING) {
        return;
    }
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        if (workflow->experiments[e].state != EXPERIMENT_ENDED) {
            cancel_experiment(core,
                              &(struct core_attempt){.workflow = number, .experiment = (uint32_t)e},
                              CANCEL_ASKED, now_ms, out);
        }
    }
    advance(core, number, now_ms, out);
}

void core_pause(struct core *core, bool paused, int64_t now_ms, struct core_out *out)
{
    core->paused = paused;
    dispatch(core, now_ms, out);
}

/* A retry that was already due at the last tick waits for room, not for time. */
static bool retries_became_due(const struct core *core, int64_t now_ms)
{
    for (size_t i = 0; i < core->ready_count; i++) {
        const struct experiment_state_data *experiment =
            core_experiment_at(core, core->ready[i].workflow, core->ready[i].experiment);
        if (experiment->retry_count > 0 && experiment->retries[0].due_ms <= now_ms &&
            experiment->retries[0].due_ms > core->ticked_ms) {
            return true;
        }
    }
    return false;
}

void core_tick(struct core *core, int64_t now_ms, struct core_out *out)
{
    if (retries_became_due(core, now_ms)) {
        dispatch_new_work(core);
    }
    core->ticked_ms = now_ms;
    dispatch(core, now_ms, out);
}
