/* suggest.c - experiments whose tasks are defined while they run, by a search that lives outside.
 */
#include "core/core_state.h"

bool suggestion_is_possible(const struct experiment_state_data *experiment, uint64_t defined)
{
    return !experiment->closed && experiment->state != EXPERIMENT_ENDED &&
           defined > experiment->defined && defined <= experiment->spec.task_count &&
           (!experiment->groups || defined % experiment->spec.gang == 0);
}

/* Of a workflow that runs, or NULL: any numbers at all may be asked about. */
static struct experiment_state_data *find_running(const struct core *core, uint32_t workflow,
                                                  uint32_t experiment)
{
    if (workflow < 1 || workflow > core->workflow_count) {
        return NULL;
    }
    const struct workflow *owner = core_workflow_at(core, workflow);
    bool runs = owner->submitted && owner->state == WORKFLOW_RUNNING;
    return runs && experiment < owner->experiment_count ? &owner->experiments[experiment] : NULL;
}

bool core_suggest(struct core *core, uint32_t workflow, uint32_t number, uint64_t count,
                  int64_t now_ms, struct core_out *out)
{
    const struct experiment_state_data *experiment = find_running(core, workflow, number);
    if (!experiment || count > experiment->spec.task_count ||
        !suggestion_is_possible(experiment, experiment->defined + count)) {
        return false;
    }
    core_emit(core, out,
              &(struct fact){.kind = FACT_SUGGESTED,
                             .workflow = workflow,
                             .experiment = number,
                             .task = experiment->defined + count,
                             .at_ms = now_ms});
    dispatch_new_work(core);
    dispatch(core, now_ms, out);
    return true;
}

bool core_close(struct core *core, uint32_t workflow, uint32_t number, int64_t now_ms,
                struct core_out *out)
{
    const struct experiment_state_data *experiment = find_running(core, workflow, number);
    if (!experiment || experiment->closed || experiment->state == EXPERIMENT_ENDED) {
        return false;
    }
    struct core_attempt about = {.workflow = workflow, .experiment = number};
    uint64_t fact = core_emit(
        core, out,
        &(struct fact){
            .kind = FACT_CLOSED, .workflow = workflow, .experiment = number, .at_ms = now_ms});
    decide_after_end(core, &about, fact, now_ms, out);
    dispatch(core, now_ms, out);
    return true;
}

static uint64_t stop_one(struct core *core, const struct core_attempt *id, int64_t now_ms,
                         struct core_out *out)
{
    uint32_t node = core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task].node;
    core_effect_push(out, EFFECT_KILL, node, id, 0);
    uint64_t fact = core_emit(core, out,
                              &(struct fact){.kind = FACT_STOPPED,
                                             .workflow = id->workflow,
                                             .experiment = id->experiment,
                                             .task = id->task,
                                             .attempt = id->attempt,
                                             .at_ms = now_ms});
    core_effect_push(out, EFFECT_TASK, node, id, fact);
    return fact;
}

bool core_stop_task(struct core *core, uint32_t workflow, uint32_t number, uint64_t task,
                    int64_t now_ms, struct core_out *out)
{
    const struct experiment_state_data *experiment = find_running(core, workflow, number);
    if (!experiment || task >= experiment->defined || !task_is_live(&experiment->tasks[task])) {
        return false;
    }
    uint64_t gang = experiment->groups ? experiment->spec.gang : 1;
    uint64_t first = task - task % gang;
    uint64_t fact = 0;
    for (uint64_t t = first; t < first + gang; t++) {
        if (task_is_live(&experiment->tasks[t])) {
            struct core_attempt id = core_attempt_of(core, workflow, number, t);
            fact = stop_one(core, &id, now_ms, out);
        }
    }
    struct core_attempt about = {.workflow = workflow, .experiment = number, .task = task};
    decide_after_end(core, &about, fact, now_ms, out);
    dispatch_new_work(core); /* a cap on workers may have moved */
    dispatch(core, now_ms, out);
    return true;
}
