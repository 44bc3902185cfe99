/* core.c - making a core, and what all of its parts use. */
#include "core/core_state.h"

#include "base/mem.h"

#include <stdlib.h>

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
uint64_t core_emit(struct core *core, struct core_out *out, const struct fact *fact)
{
    VEC_PUSH(out->facts, out->fact_count, out->fact_cap) = *fact;
    apply_fact(core, fact);
    return core->last_fact;
}

void core_effect_push(struct core_out *out, enum core_effect_kind kind, uint32_t node,
                      const struct core_attempt *id, uint64_t after)
{
    VEC_PUSH(out->effects, out->effect_count, out->effect_cap) =
        (struct core_effect){.kind = kind, .node = node, .id = *id, .after = after};
}

struct core *core_create(void)
{
    return mem_alloc(sizeof(struct core));
}

static void release_experiment(struct experiment_state_data *experiment)
{
    free((void *)experiment->spec.depends_on);
    free(experiment->tasks);
    free(experiment->retries.items);
    free(experiment->suspects.items);
    free(experiment->groups);
    free(experiment->label_ids);
}

void core_destroy(struct core *core)
{
    if (!core) {
        return;
    }
    for (size_t w = 0; w < core->workflow_count; w++) {
        for (size_t e = 0; e < core->workflows[w].experiment_count; e++) {
            release_experiment(&core->workflows[w].experiments[e]);
        }
        free(core->workflows[w].experiments);
    }
    for (size_t n = 0; n < core->node_count; n++) {
        label_release(&core->nodes[n]);
        free(core->nodes[n].occupants);
    }
    for (size_t i = 0; i < core->label_count; i++) {
        free(core->labels[i].text);
    }
    free(core->labels);
    free(core->workflows);
    free(core->nodes);
    free(core->ready);
    free(core->order);
    free(core->gangs);
    free(core);
}

static void define_experiment(struct core *core, struct experiment_state_data *experiment,
                              const struct core_experiment_spec *spec)
{
    CHECK(spec->task_count > 0);
    experiment->spec = *spec;
    experiment->spec.depends_on =
        mem_dup(spec->depends_on, spec->depends_count * sizeof *spec->depends_on);
    /* untouched pages of a large array cost nothing until a task is tried */
    experiment->tasks = mem_array(spec->task_count, sizeof(struct task));
    experiment->closed = !spec->searched;
    experiment->defined = spec->searched ? 0 : spec->task_count;
    if (spec->gang > 1) {
        CHECK(spec->task_count % spec->gang == 0);
        experiment->groups = mem_array(spec->task_count / spec->gang, sizeof(struct group));
    }
    label_intern_all(core, experiment, &spec->labels);
    experiment->spec.labels = (struct core_labels){0};
}

void core_define(struct core *core, uint32_t workflow, const struct core_workflow_spec *spec)
{
    CHECK(workflow == core->workflow_count + 1);
    CHECK(spec->experiment_count > 0);
    struct workflow made = {
        .seed = spec->seed, .priority = spec->priority, .experiment_count = spec->experiment_count};
    made.experiments = mem_array(spec->experiment_count, sizeof *made.experiments);
    for (size_t e = 0; e < spec->experiment_count; e++) {
        define_experiment(core, &made.experiments[e], &spec->experiments[e]);
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

struct core_attempt core_attempt_of(const struct core *core, uint32_t workflow, uint32_t experiment,
                                    uint64_t task)
{
    const struct task *from = &core_experiment_at(core, workflow, experiment)->tasks[task];
    return (struct core_attempt){.workflow = workflow,
                                 .experiment = experiment,
                                 .task = task,
                                 .attempt = from->attempt,
                                 .term = from->term};
}

bool core_names_a_task(const struct core *core, const struct core_attempt *id)
{
    if (id->workflow < 1 || id->workflow > core->workflow_count) {
        return false;
    }
    const struct workflow *workflow = &core->workflows[id->workflow - 1];
    return id->experiment < workflow->experiment_count &&
           id->task < workflow->experiments[id->experiment].spec.task_count;
}

bool core_attempt_is_live(const struct core *core, const struct core_attempt *id)
{
    if (!core_names_a_task(core, id)) {
        return false;
    }
    const struct task *task =
        &core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task];
    return task_is_live(task) && task->attempt == id->attempt && task->term == id->term;
}

bool core_attempt_was_accepted(const struct core *core, uint32_t node,
                               const struct core_attempt *id)
{
    if (!core_names_a_task(core, id)) {
        return false;
    }
    const struct task *task =
        &core_experiment_at(core, id->workflow, id->experiment)->tasks[id->task];
    return task->state == TASK_SUCCEEDED && !(task->flags & TASK_STOPPED) &&
           task->attempt == id->attempt && task->term == id->term && task->node == node;
}
