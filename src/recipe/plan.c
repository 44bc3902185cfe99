#include "recipe/plan.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "recipe/dims.h"

#include <string.h>

enum { SCRATCH_BYTES = 1024, OWN_ENV_MAX = 12 };

/* What the parts of one task are made with. `text` is used for one piece after the other. */
struct planner {
    const struct plan_context *context;
    const struct experiment *experiment;
    struct arena *arena;
    struct str text;
    size_t param_count;
    struct value *values; /* by slot: see struct experiment */
    struct plan_trial trial;
};

static uint64_t sampling_key(const struct plan_context *context,
                             const struct experiment *experiment)
{
    return rng_hash_bytes(context->seed, experiment->name, strlen(experiment->name));
}

/* A point of the space as good as any, for people who want to see what a task would run. */
static void show_example(const struct plan_context *context, const struct experiment *experiment,
                         uint64_t index, struct value *values, struct plan_trial *trial,
                         struct arena *arena)
{
    const struct recipe_early_stop *early = &experiment->search->early;
    const struct dims *dims = dims_create(arena, experiment->space);
    struct dims_point points[SPACE_PARAMS_MAX];
    trial->trial = index / experiment->gang;
    trial->rung = 0;
    trial->budget = early->algorithm == RECIPE_EARLY_ASHA ? early->min : early->max;
    dims_example(dims, rng_mix(sampling_key(context, experiment), trial->trial, 0), points);
    dims_arguments(dims, points, values, arena);
}

/* The arguments of a task, and which trial it is if it is one. */
static void draw(const struct plan_context *context, uint32_t number, uint64_t index,
                 struct value *values, struct plan_trial *trial, struct arena *arena)
{
    const struct experiment *experiment = &context->recipe->experiments[number];
    *trial = (struct plan_trial){0};
    if (!experiment->search) {
        space_draw(experiment->space, sampling_key(context, experiment), experiment->sampled, index,
                   values, arena);
    } else if (!context->given ||
               !context->given(context->given_owner, number, index, values, trial, arena)) {
        show_example(context, experiment, index, values, trial, arena);
    }
}

static uint64_t checkpoint_of(const struct experiment *experiment, uint64_t index,
                              const struct plan_trial *trial)
{
    return experiment->search ? trial->trial * experiment->gang + index % experiment->gang : index;
}

static char *keep(struct planner *planner)
{
    return arena_strndup(planner->arena, str_text(&planner->text), planner->text.size);
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

static struct value text_value(const char *text)
{
    return (struct value){.kind = VALUE_TEXT, .text = text, .size = strlen(text)};
}

static struct value number_value(struct planner *planner, uint64_t number)
{
    str_clear(&planner->text);
    str_add_u64(&planner->text, number);
    size_t size = planner->text.size;
    return (struct value){.kind = VALUE_INTEGER, .text = keep(planner), .size = size};
}

static struct value task_value(struct planner *planner, uint64_t index)
{
    str_clear(&planner->text);
    if (planner->context->workflow) {
        str_add(&planner->text, planner->context->workflow);
        str_add_char(&planner->text, '/');
    }
    str_add(&planner->text, planner->experiment->name);
    str_add_char(&planner->text, '/');
    str_add_u64(&planner->text, index);
    return text_value(keep(planner));
}

static struct value output_of(struct planner *planner, uint32_t other)
{
    const struct plan_context *context = planner->context;
    str_clear(&planner->text);
    str_add(&planner->text, or_else(context->outputs_folder, "outputs"));
    str_add_char(&planner->text, '/');
    str_add(&planner->text, context->recipe->experiments[other].name);
    return text_value(keep(planner));
}

static void fill_values(struct planner *planner, uint64_t index, uint32_t attempt)
{
    const struct plan_context *context = planner->context;
    const struct experiment *experiment = planner->experiment;
    size_t count = planner->param_count + RECIPE_BUILTIN_COUNT + experiment->output_ref_count;
    planner->values = arena_alloc(planner->arena, count * sizeof *planner->values);
    draw(context, (uint32_t)(experiment - context->recipe->experiments), index, planner->values,
         &planner->trial, planner->arena);
    struct value *builtins = planner->values + planner->param_count;
    builtins[RECIPE_TASK] = task_value(planner, index);
    builtins[RECIPE_INDEX] = number_value(planner, index);
    builtins[RECIPE_ATTEMPT] = number_value(planner, attempt);
    builtins[RECIPE_OUTPUT] = text_value(or_else(context->output, "OUTPUT"));
    builtins[RECIPE_CHECKPOINT] = text_value(or_else(context->checkpoint, "CHECKPOINT"));
    builtins[RECIPE_EXPERIMENT] = text_value(experiment->name);
    builtins[RECIPE_WORKFLOW] = text_value(or_else(context->workflow, ""));
    builtins[RECIPE_SEED] = number_value(planner, context->seed);
    if (experiment->search) {
        builtins[RECIPE_TRIAL] = number_value(planner, planner->trial.trial);
        builtins[RECIPE_RUNG] = number_value(planner, planner->trial.rung);
        builtins[RECIPE_BUDGET] = number_value(planner, planner->trial.budget);
    }
    for (size_t i = 0; i < experiment->output_ref_count; i++) {
        builtins[RECIPE_BUILTIN_COUNT + i] = output_of(planner, experiment->output_refs[i]);
    }
}

static char *render(struct planner *planner, const struct template *tmpl)
{
    str_clear(&planner->text);
    template_render(tmpl, planner->values, &planner->text);
    return keep(planner);
}

/* Several lines run in one shell, so that cd and export last, up to the first that fails; the
 * shell then ends with that one's status. */
static char *render_script(struct planner *planner)
{
    const struct experiment *experiment = planner->experiment;
    str_clear(&planner->text);
    for (size_t i = 0; i < experiment->command_count; i++) {
        if (i > 0) {
            str_add(&planner->text, PLAN_LINE_GUARD);
        }
        template_render(experiment->commands[i], planner->values, &planner->text);
    }
    return keep(planner);
}

static void plan_shell(struct planner *planner, struct plan_task *out)
{
    const char *shell = planner->experiment->shell;
    out->argv = arena_alloc(planner->arena, 4 * sizeof *out->argv);
    out->argv[0] = arena_strdup(planner->arena, strcmp(shell, "sh") == 0 ? "/bin/sh" : shell);
    out->argv[1] = arena_strdup(planner->arena, "-c");
    out->argv[2] = render_script(planner);
    out->argc = 3;
}

static void plan_exec(struct planner *planner, struct plan_task *out)
{
    const struct experiment *experiment = planner->experiment;
    size_t most = 2 * experiment->command_count + 1;
    out->argv = arena_alloc(planner->arena, most * sizeof *out->argv);
    for (size_t i = 0; i < experiment->command_count; i++) {
        const struct template *tmpl = experiment->commands[i];
        int slot = 0;
        const char *name = NULL;
        if (!template_is_flag(tmpl, &slot, &name)) {
            out->argv[out->argc++] = render(planner, tmpl);
            continue;
        }
        const struct value *value = &planner->values[slot];
        bool is_off = value->kind == VALUE_BOOL && !value_is_true(value);
        if (value->kind != VALUE_ABSENT && !is_off) {
            str_clear(&planner->text);
            str_add(&planner->text, "--");
            str_add(&planner->text, name);
            out->argv[out->argc++] = keep(planner);
        }
        if (value->kind != VALUE_ABSENT && value->kind != VALUE_BOOL) {
            out->argv[out->argc++] = arena_strndup(planner->arena, value->text, value->size);
        }
    }
}

static void add_params(const struct space *space, const struct value *values, struct str *out)
{
    struct json json = {.out = out};
    json_object(&json);
    size_t count = space_param_count(space);
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind != VALUE_ABSENT) {
            json_key(&json, space_param_name(space, i));
            value_add_json(&json, &values[i]);
        }
    }
    json_end(&json);
}

static void add_env(struct planner *planner, struct plan_task *out, const char *name,
                    const char *value)
{
    if (!value) {
        return;
    }
    str_clear(&planner->text);
    str_add(&planner->text, name);
    str_add_char(&planner->text, '=');
    str_add(&planner->text, value);
    out->env[out->env_count++] = keep(planner);
}

/* How a trial knows itself, and where reports go. */
static void add_search_env(struct planner *planner, struct plan_task *out)
{
    const struct experiment *experiment = planner->experiment;
    const struct value *builtins = planner->values + planner->param_count;
    if (experiment->search) {
        add_env(planner, out, "DROVER_TRIAL", builtins[RECIPE_TRIAL].text);
        add_env(planner, out, "DROVER_RUNG", builtins[RECIPE_RUNG].text);
        add_env(planner, out, "DROVER_BUDGET",
                planner->trial.budget > 0 ? builtins[RECIPE_BUDGET].text : NULL);
    }
    if (planner->context->output && (experiment->search || experiment->metric_count > 0)) {
        str_clear(&planner->text);
        str_addf(&planner->text, "DROVER_REPORT=%s/" PLAN_REPORT_FILE, planner->context->output);
        out->env[out->env_count++] = keep(planner);
    }
}

static void plan_env(struct planner *planner, struct plan_task *out)
{
    const struct experiment *experiment = planner->experiment;
    const struct value *builtins = planner->values + planner->param_count;
    out->env =
        arena_alloc(planner->arena, (OWN_ENV_MAX + experiment->env_count) * sizeof *out->env);
    add_env(planner, out, "DROVER_TASK", builtins[RECIPE_TASK].text);
    add_env(planner, out, "DROVER_ATTEMPT", builtins[RECIPE_ATTEMPT].text);
    str_clear(&planner->text);
    str_add(&planner->text, "DROVER_PARAMS=");
    add_params(experiment->space, planner->values, &planner->text);
    out->env[out->env_count++] = keep(planner);
    add_env(planner, out, "DROVER_EXPERIMENT", experiment->name);
    add_env(planner, out, "DROVER_INDEX", builtins[RECIPE_INDEX].text);
    add_env(planner, out, "DROVER_OUTPUT", planner->context->output);
    add_env(planner, out, "DROVER_CHECKPOINT", planner->context->checkpoint);
    add_search_env(planner, out);
    CHECK(out->env_count < OWN_ENV_MAX);
    for (size_t i = 0; i < experiment->env_count; i++) {
        str_clear(&planner->text);
        str_add(&planner->text, experiment->env[i].name);
        str_add_char(&planner->text, '=');
        template_render(experiment->env[i].value, planner->values, &planner->text);
        out->env[out->env_count++] = keep(planner);
    }
}

static const char *plan_workdir(struct planner *planner)
{
    const char *folder = or_else(planner->context->recipe_folder, ".");
    const struct template *workdir = planner->experiment->workdir;
    if (!workdir) {
        return arena_strdup(planner->arena, folder);
    }
    str_clear(&planner->text);
    template_render(workdir, planner->values, &planner->text);
    if (planner->text.size == 0) {
        return arena_strdup(planner->arena, folder);
    }
    if (planner->text.text[0] == '/' || !planner->context->recipe_folder) {
        return keep(planner);
    }
    str_clear(&planner->text);
    str_add(&planner->text, folder);
    str_add_char(&planner->text, '/');
    template_render(workdir, planner->values, &planner->text);
    return keep(planner);
}

static const struct experiment *experiment_of(const struct plan_context *context,
                                              uint32_t experiment, uint64_t index)
{
    CHECK(experiment < context->recipe->experiment_count);
    CHECK(index < context->recipe->experiments[experiment].task_count);
    return &context->recipe->experiments[experiment];
}

void plan_task(const struct plan_context *context, uint32_t experiment, uint64_t index,
               uint32_t attempt, struct arena *arena, struct plan_task *out)
{
    struct planner planner = {.context = context,
                              .experiment = experiment_of(context, experiment, index),
                              .arena = arena};
    planner.param_count = space_param_count(planner.experiment->space);
    /* room for most tasks at once: growing step by step costs more than the rendering */
    planner.text = (struct str){.text = mem_resize(NULL, SCRATCH_BYTES, 1), .cap = SCRATCH_BYTES};
    *out = (struct plan_task){0};
    fill_values(&planner, index, attempt);
    if (planner.experiment->is_exec) {
        plan_exec(&planner, out);
    } else {
        plan_shell(&planner, out);
    }
    plan_env(&planner, out);
    out->is_trial = planner.experiment->search != NULL;
    out->checkpoint = checkpoint_of(planner.experiment, index, &planner.trial);
    out->workdir = plan_workdir(&planner);
    out->output_count = planner.experiment->output_count;
    out->outputs = arena_alloc(arena, out->output_count * sizeof *out->outputs);
    for (size_t i = 0; i < out->output_count; i++) {
        out->outputs[i] = render(&planner, planner.experiment->outputs[i]);
    }
    str_release(&planner.text);
}

uint64_t plan_checkpoint(const struct plan_context *context, uint32_t experiment, uint64_t index,
                         struct arena *scratch)
{
    const struct experiment *of = experiment_of(context, experiment, index);
    struct plan_trial trial = {0};
    if (of->search) {
        struct value *values = arena_alloc(scratch, space_param_count(of->space) * sizeof *values);
        draw(context, experiment, index, values, &trial, scratch);
    }
    return checkpoint_of(of, index, &trial);
}

void plan_params_json(const struct plan_context *context, uint32_t experiment, uint64_t index,
                      struct arena *scratch, struct str *out)
{
    const struct experiment *of = experiment_of(context, experiment, index);
    size_t count = space_param_count(of->space);
    struct value *values = arena_alloc(scratch, count * sizeof *values);
    struct plan_trial trial;
    draw(context, experiment, index, values, &trial, scratch);
    add_params(of->space, values, out);
}
