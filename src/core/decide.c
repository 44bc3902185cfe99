/* decide.c - what follows from results: accepted, failed, lost; experiments and workflows move on.
 */
#include "core/core_state.h"

#include "base/rng.h"

/* --- experiments and workflows move on ------------------------------------------------------ */

/* To a search a failure is a result like others; only one that has found nothing is spoilt. */
static bool is_spoilt(const struct experiment_state_data *experiment)
{
    if (experiment->spec.searched) {
        return experiment->cancelled || experiment->succeeded == 0;
    }
    return experiment->cancelled || experiment->failed > 0 || experiment->cancelled_count > 0;
}

bool experiment_dependency_failed(const struct workflow *workflow,
                                  const struct experiment_state_data *experiment)
{
    for (size_t i = 0; i < experiment->spec.depends_count; i++) {
        const struct experiment_state_data *other =
            &workflow->experiments[experiment->spec.depends_on[i]];
        if (other->state != EXPERIMENT_ENDED) {
            continue;
        }
        if (other->skipped > 0 || other->was_skipped ||
            (is_spoilt(other) && !other->spec.allow_failure)) {
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
        if (experiment->skipped > 0 || experiment->was_skipped ||
            (is_spoilt(experiment) && !experiment->spec.allow_failure)) {
            state = WORKFLOW_FAILED;
        }
    }
    return state;
}

static void kill_live(struct core *core, const struct core_attempt *about, struct core_out *out)
{
    for (size_t n = 0; n < core->node_count; n++) {
        const struct node *node = &core->nodes[n];
        for (size_t i = 0; i < node->occupant_count; i++) {
            const struct core_attempt *id = &node->occupants[i].id;
            if (id->workflow == about->workflow && id->experiment == about->experiment) {
                core_effect_push(out, EFFECT_KILL, (uint32_t)n, id, 0);
            }
        }
    }
}

/* Reopened by hand, an experiment may wait again while attempts of it are still live. */
static void skip_experiment(struct core *core, const struct core_attempt *about, int64_t now_ms,
                            struct core_out *out)
{
    bool has_live = core_experiment_at(core, about->workflow, about->experiment)->live > 0;
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_SKIPPED,
                                             .workflow = about->workflow,
                                             .experiment = about->experiment,
                                             .at_ms = now_ms});
    if (has_live) {
        kill_live(core, about, out);
    }
    core_effect_push(out, EFFECT_EXPERIMENT, 0, about, fact);
}

/* One look at every experiment; true: something changed, which may let others move on. */
static bool move_on(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    bool changed = false;
    for (uint32_t e = 0; e < workflow->experiment_count; e++) {
        struct experiment_state_data *experiment = &workflow->experiments[e];
        struct core_attempt about = {.workflow = number, .experiment = e};
        if (experiment->state != EXPERIMENT_WAITING) {
            continue;
        }
        if (experiment_dependency_failed(workflow, experiment)) {
            skip_experiment(core, &about, now_ms, out);
            changed = true;
        } else if (experiment_dependencies_done(workflow, experiment)) {
            experiment->state = EXPERIMENT_READY;
            core_effect_push(out, EFFECT_EXPERIMENT, 0, &about, core->last_fact);
            changed = true;
        }
    }
    return changed;
}

/* Makes experiments ready or skipped as far as their dependencies allow, and ends the workflow when
 * nothing is left. Idempotent, so a restart may call it at any point. */
void decide_advance(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    if (!workflow->submitted || workflow->state != WORKFLOW_RUNNING) {
        return;
    }
    while (move_on(core, number, now_ms, out)) {
    }
    if (workflow_all_ended(workflow)) {
        uint64_t fact = core_emit(core, out,
                                  &(struct fact){.kind = FACT_ENDED,
                                                 .workflow = number,
                                                 .outcome = (uint32_t)workflow_outcome(workflow),
                                                 .at_ms = now_ms});
        core_effect_push(out, EFFECT_WORKFLOW, 0, &(struct core_attempt){.workflow = number}, fact);
    }
    order_rebuild(core);
}

void decide_after_end(struct core *core, const struct core_attempt *id, uint64_t fact,
                      int64_t now_ms, struct core_out *out)
{
    if (core_experiment_at(core, id->workflow, id->experiment)->state == EXPERIMENT_ENDED) {
        core_effect_push(out, EFFECT_EXPERIMENT, 0, id, fact);
        decide_advance(core, id->workflow, now_ms, out);
    }
}

void decide_cancel_experiment(struct core *core, const struct core_attempt *about,
                              enum core_cancel_reason reason, int64_t now_ms, struct core_out *out)
{
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_CANCELLED,
                                             .workflow = about->workflow,
                                             .experiment = about->experiment,
                                             .outcome = (uint32_t)reason,
                                             .at_ms = now_ms});
    kill_live(core, about, out);
    core_effect_push(out, EFFECT_EXPERIMENT, 0, about, fact);
}

uint64_t decide_cancel_task(struct core *core, const struct core_attempt *about, int64_t now_ms,
                            struct core_out *out)
{
    const struct task *task =
        &core_experiment_at(core, about->workflow, about->experiment)->tasks[about->task];
    struct core_attempt id = core_attempt_of(core, about->workflow, about->experiment, about->task);
    if (task_is_live(task)) {
        core_effect_push(out, EFFECT_KILL, task->node, &id, 0);
    }
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_TASK_CANCELLED,
                                             .workflow = id.workflow,
                                             .experiment = id.experiment,
                                             .task = id.task,
                                             .at_ms = now_ms});
    core_effect_push(out, EFFECT_TASK, task->node, &id, fact);
    return fact;
}

/* --- attempts end --------------------------------------------------------------------------- */

int64_t decide_backoff_longest_ms(const struct core_experiment_spec *spec)
{
    return spec->backoff_ms > 60000 ? spec->backoff_ms : 60000;
}

/* Doubling from backoff_ms to a minute, spread over the upper half so that a herd of retries does
 * not come back at once. */
static int64_t backoff_ms(uint64_t seed, const struct core_attempt *id,
                          const struct core_experiment_spec *spec, uint32_t failures)
{
    int64_t longest = decide_backoff_longest_ms(spec);
    int64_t delay = spec->backoff_ms;
    for (uint32_t i = 0; i < failures && delay < longest; i++) {
        delay *= 2;
    }
    delay = delay < longest ? delay : longest;
    double spread = rng_unit_of(rng_mix(seed, id->task, id->attempt));
    int64_t half = delay / 2;
    return half + (int64_t)(spread * (double)(delay - half));
}

static void decide_accepted(struct core *core, uint32_t node, const struct core_attempt *id,
                            const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_ACCEPTED,
                                             .workflow = id->workflow,
                                             .experiment = id->experiment,
                                             .task = id->task,
                                             .attempt = id->attempt,
                                             .flags = result->has_output ? FACT_HAS_OUTPUT : 0,
                                             .started_ms = result->started_ms,
                                             .duration_ms = result->duration_us / 1000});
    core_effect_push(out, EFFECT_SETTLED, node, id, fact);
    out->effects[out->effect_count - 1].accepted = true;
    core_effect_push(out, EFFECT_TASK, node, id, fact);
    decide_after_end(core, id, fact, now_ms, out);
}

/* Failed or lost, for good or not: its gang cannot go on without it, and when too many have failed
 * for good the experiment is hopeless. */
static void after_failure(struct core *core, const struct core_attempt *id, uint64_t fact,
                          int64_t now_ms, struct core_out *out)
{
    const struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    bool final = task_is_final(&experiment->tasks[id->task]);
    if (experiment->groups) {
        gang_break(core, id, now_ms, out);
    }
    uint64_t most = experiment->spec.max_failures;
    if (final && most > 0 && experiment->failed >= most && experiment->state != EXPERIMENT_ENDED) {
        decide_cancel_experiment(core, id, CANCEL_TOO_MANY_FAILURES, now_ms, out);
        decide_advance(core, id->workflow, now_ms, out);
        return;
    }
    decide_after_end(core, id, fact, now_ms, out);
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
    uint64_t fact = core_emit(core, out,
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
    core_effect_push(out, EFFECT_SETTLED, node, id, fact);
    core_effect_push(out, EFFECT_TASK, node, id, fact);
    if (!final && due_ms <= core->ticked_ms) {
        dispatch_new_work(core);
    }
    after_failure(core, id, fact, now_ms, out);
}

uint64_t decide_emit_lost(struct core *core, const struct core_attempt *id, uint32_t flags,
                          int64_t now_ms, struct core_out *out)
{
    uint32_t node = core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task].node;
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_LOST,
                                             .workflow = id->workflow,
                                             .experiment = id->experiment,
                                             .task = id->task,
                                             .attempt = id->attempt,
                                             .flags = flags,
                                             .at_ms = now_ms});
    core_effect_push(out, EFFECT_TASK, node, id, fact);
    return fact;
}

void decide_lose(struct core *core, const struct core_attempt *id, bool blameless, int64_t now_ms,
                 struct core_out *out)
{
    const struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    const struct core_experiment_spec *spec = &experiment->spec;
    uint32_t losses = experiment->tasks[id->task].losses + (blameless ? 0u : 1u);
    bool final = (spec->crash_limit > 0 && losses >= spec->crash_limit && !blameless) ||
                 id->attempt == UINT16_MAX;
    uint32_t flags = (final ? FACT_FINAL : 0u) | (blameless ? FACT_BLAMELESS : 0u);
    uint64_t fact = decide_emit_lost(core, id, flags, now_ms, out);
    after_failure(core, id, fact, now_ms, out);
}

/* What a node may say of an end, in bounds: a log with impossible numbers could not be read back.
 */
static struct core_result sane_result(const struct core_result *result)
{
    struct core_result sane = *result;
    if (sane.outcome <= OUT_NONE || sane.outcome >= OUT_NODE_LOST) {
        sane.outcome = OUT_SLOT_LOST;
    }
    sane.started_ms = sane.started_ms > 0 ? sane.started_ms : 0;
    sane.duration_us = sane.duration_us > 0 ? sane.duration_us : 0;
    return sane;
}

static void decide_end(struct core *core, uint32_t node, const struct core_attempt *id,
                       const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    if (result->outcome == OUT_EXITED && result->code == 0) {
        decide_accepted(core, node, id, result, now_ms, out);
    } else if (result->outcome == OUT_KILLED || result->outcome == OUT_SLOT_LOST) {
        decide_lose(core, id, result->outcome == OUT_KILLED, now_ms, out);
        core_effect_push(out, EFFECT_SETTLED, node, id, core->last_fact);
        dispatch_new_work(core);
    } else {
        decide_failed(core, node, id, result, now_ms, out);
    }
}

/* The very result that was accepted may be told once more, because its node did not hear of it. */
static void settle_again(struct core *core, uint32_t node, const struct core_attempt *id,
                         struct core_out *out)
{
    bool accepted = core_attempt_was_accepted(core, node, id);
    core_effect_push(out, EFFECT_SETTLED, node, id, accepted ? core->last_fact : 0);
    out->effects[out->effect_count - 1].accepted = accepted;
}

void core_task_ended(struct core *core, uint32_t node, const struct core_attempt *id,
                     const struct core_result *result, int64_t now_ms, struct core_out *out)
{
    bool was_here = false;
    if (node < core->node_count) {
        size_t occupant = core_node_find_occupant(&core->nodes[node], id);
        was_here = occupant < core->nodes[node].occupant_count;
        if (was_here) {
            core_node_release(core, node, occupant);
        }
    }
    if (was_here && core_attempt_is_live(core, id)) {
        struct core_result sane = sane_result(result);
        decide_end(core, node, id, &sane, now_ms, out);
    } else {
        settle_again(core, node, id, out);
    }
    dispatch(core, now_ms, out);
}

void core_task_running(struct core *core, const struct core_attempt *id, int64_t started_ms,
                       int64_t now_ms)
{
    if (!core_attempt_is_live(core, id)) {
        return;
    }
    struct experiment_state_data *experiment =
        core_experiment_at(core, id->workflow, id->experiment);
    struct task *task = &experiment->tasks[id->task];
    if (task->state == TASK_ASSIGNED) {
        task->state = TASK_RUNNING;
        started_ms = started_ms < now_ms ? started_ms : now_ms;
        started_ms = started_ms > task->started_ms ? started_ms : task->started_ms;
        task->duration_ms = task_clamp_ms(started_ms - task->started_ms);
        experiment->running++;
    }
}
