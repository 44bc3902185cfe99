/* command.c - what people ask for: submit, cancel, retry, pause. */
#include "core/core_state.h"

#include "base/mem.h"

void core_submit(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out)
{
    CHECK(!core_workflow_at(core, workflow)->submitted);
    core_emit(core, out,
              &(struct fact){.kind = FACT_SUBMITTED, .workflow = workflow, .at_ms = now_ms});
    decide_advance(core, workflow, now_ms, out);
    dispatch(core, now_ms, out);
}

void core_pause(struct core *core, bool paused, int64_t now_ms, struct core_out *out)
{
    core->paused = paused;
    dispatch(core, now_ms, out);
}

/* --- cancel ------------------------------------------------------------------------------------
 */

void core_cancel(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    if (!workflow->submitted || workflow->state != WORKFLOW_RUNNING) {
        return;
    }
    for (size_t e = 0; e < workflow->experiment_count; e++) {
        if (workflow->experiments[e].state != EXPERIMENT_ENDED) {
            decide_cancel_experiment(
                core, &(struct core_attempt){.workflow = number, .experiment = (uint32_t)e},
                CANCEL_ASKED, now_ms, out);
        }
    }
    decide_advance(core, number, now_ms, out);
    dispatch(core, now_ms, out);
}

/* The tasks that share one fate with this one: itself, or its gang. */
struct range {
    uint64_t first;
    uint64_t end;
};

static struct range fate_of(const struct experiment_state_data *experiment, uint64_t task)
{
    uint32_t gang = experiment->groups ? experiment->spec.gang : 1;
    return (struct range){.first = task - task % gang, .end = task - task % gang + gang};
}

static struct experiment_state_data *find_submitted(struct core *core, uint32_t workflow,
                                                    uint32_t experiment, uint64_t task)
{
    if (workflow < 1 || workflow > core->workflow_count ||
        experiment >= core_workflow_at(core, workflow)->experiment_count ||
        !core_workflow_at(core, workflow)->submitted) {
        return NULL;
    }
    struct experiment_state_data *found = core_experiment_at(core, workflow, experiment);
    return task < found->defined ? found : NULL;
}

bool core_cancel_task(struct core *core, uint32_t workflow, uint32_t number, uint64_t task,
                      int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment = find_submitted(core, workflow, number, task);
    if (!experiment || task_is_final(&experiment->tasks[task])) {
        return false;
    }
    struct core_attempt about = {.workflow = workflow, .experiment = number};
    uint64_t fact = 0;
    struct range range = fate_of(experiment, task);
    for (uint64_t t = range.first; t < range.end; t++) {
        about.task = t;
        if (!task_is_final(&experiment->tasks[t])) {
            fact = decide_cancel_task(core, &about, now_ms, out);
        }
    }
    about.task = task;
    decide_after_end(core, &about, fact, now_ms, out);
    dispatch_new_work(core); /* a cap on workers may have moved */
    dispatch(core, now_ms, out);
    return true;
}

/* --- retry -------------------------------------------------------------------------------------
 */

static void emit_reopened(struct core *core, uint32_t workflow, uint32_t experiment,
                          enum fact_reopen which, int64_t now_ms, struct core_out *out)
{
    core_emit(core, out,
              &(struct fact){.kind = FACT_REOPENED,
                             .workflow = workflow,
                             .experiment = experiment,
                             .outcome = (uint32_t)which,
                             .at_ms = now_ms});
}

static void go_on(struct core *core, uint32_t workflow, int64_t now_ms, struct core_out *out)
{
    decide_advance(core, workflow, now_ms, out);
    dispatch_new_work(core);
    dispatch(core, now_ms, out);
}

uint64_t core_retry(struct core *core, uint32_t number, int64_t now_ms, struct core_out *out)
{
    struct workflow *workflow = core_workflow_at(core, number);
    if (!workflow->submitted) {
        return 0;
    }
    uint64_t count = 0;
    for (uint32_t e = 0; e < workflow->experiment_count; e++) {
        uint64_t here = 0;
        for (uint64_t t = 0; t < workflow->experiments[e].touched; t++) {
            here += experiment_can_reopen(&workflow->experiments[e], t, REOPEN_ALL);
        }
        here += experiment_can_search_on(&workflow->experiments[e], REOPEN_ALL);
        if (here > 0) {
            emit_reopened(core, number, e, REOPEN_ALL, now_ms, out);
        }
        count += here;
    }
    if (count > 0) {
        go_on(core, number, now_ms, out);
    }
    return count;
}

/* What was skipped because of this experiment, directly or not, has hope again. */
static void reopen_followers(struct core *core, uint32_t number, uint32_t from, int64_t now_ms,
                             struct core_out *out)
{
    const struct workflow *workflow = core_workflow_at(core, number);
    AUTO_FREE bool *follows = mem_array(workflow->experiment_count, sizeof *follows);
    follows[from] = true;
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t e = 0; e < workflow->experiment_count; e++) {
            const struct core_experiment_spec *spec = &workflow->experiments[e].spec;
            for (size_t i = 0; i < spec->depends_count && !follows[e]; i++) {
                follows[e] = follows[spec->depends_on[i]];
                changed = changed || follows[e];
            }
        }
    }
    for (uint32_t e = 0; e < workflow->experiment_count; e++) {
        const struct experiment_state_data *experiment = &workflow->experiments[e];
        if (e != from && follows[e] && (experiment->skipped > 0 || experiment->was_skipped)) {
            emit_reopened(core, number, e, REOPEN_SKIPPED, now_ms, out);
        }
    }
}

bool core_retry_task(struct core *core, uint32_t workflow, uint32_t number, uint64_t task,
                     int64_t now_ms, struct core_out *out)
{
    struct experiment_state_data *experiment = find_submitted(core, workflow, number, task);
    if (!experiment || !experiment_can_reopen(experiment, task, REOPEN_ALL) ||
        experiment_dependency_failed(core_workflow_at(core, workflow), experiment)) {
        return false;
    }
    struct range range = fate_of(experiment, task);
    for (uint64_t t = range.first; t < range.end; t++) {
        if (experiment->tasks[t].state != TASK_SUCCEEDED) {
            core_emit(core, out,
                      &(struct fact){.kind = FACT_RETRIED,
                                     .workflow = workflow,
                                     .experiment = number,
                                     .task = t,
                                     .at_ms = now_ms});
        }
    }
    reopen_followers(core, workflow, number, now_ms, out);
    go_on(core, workflow, now_ms, out);
    return true;
}
