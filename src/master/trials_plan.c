/* trials_plan.c - what exactly a task runs, as JSON. */
#include "base/json.h"
#include "master/trials_json.h"
#include "recipe/plan.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static void add_folder_if_there(struct json *json, const char *key, const struct str *path)
{
    json_key(json, key);
    if (access(str_text(path), F_OK) == 0) {
        json_text(json, str_text(path));
    } else {
        json_null(json);
    }
}

static void add_env(struct json *json, const struct plan_task *task)
{
    json_key(json, "env");
    json_object(json);
    for (size_t i = 0; i < task->env_count; i++) {
        const char *equals = strchr(task->env[i], '=');
        AUTO_STR struct str name = {0};
        str_add_bytes(&name, task->env[i], (size_t)(equals - task->env[i]));
        json_key(json, str_text(&name));
        json_text(json, equals + 1);
    }
    json_end(json);
}

static void add_plan(struct json *json, const struct flow *flow, const char *experiment,
                     uint64_t index, const struct plan_task *task)
{
    AUTO_STR struct str text = {0};
    str_addf(&text, "%s/%s/%" PRIu64, flow->id, experiment, index);
    json_object(json);
    json_key(json, "id");
    json_text(json, str_text(&text));
    json_key(json, "experiment");
    json_text(json, experiment);
    json_key(json, "task");
    json_u64(json, index);
    json_key(json, "command");
    json_array(json);
    for (size_t i = 0; i < task->argc; i++) {
        json_text(json, task->argv[i]);
    }
    json_end(json);
    json_key(json, "workdir");
    json_text(json, task->workdir);
    add_env(json, task);
    str_clear(&text);
    str_addf(&text, "%s/outputs/%s/%" PRIu64, flow->folder, experiment, index);
    add_folder_if_there(json, "output", &text);
    uint64_t name = task->is_trial ? task->checkpoint : index;
    str_clear(&text);
    str_addf(&text, "%s/checkpoints/%s/%" PRIu64 "/%" PRIu64, flow->folder, experiment, name / 1000,
             name);
    add_folder_if_there(json, "checkpoint", &text);
    json_end(json);
}

/* A plan without what the search has given is an example: not what we were asked for. */
static bool is_given(const struct flow *flow, uint32_t number, uint64_t index, struct arena *arena)
{
    const struct experiment *experiment = &flow->recipe->experiments[number];
    struct plan_trial trial;
    struct value *values =
        arena_alloc(arena, space_param_count(experiment->space) * sizeof *values);
    return !experiment->search ||
           (flow->given && flow->given(flow->given_owner, number, index, values, &trial, arena));
}

enum err_code trials_json_plan(const struct flow *flow, uint32_t experiment, uint64_t task,
                               struct str *out, struct err *err)
{
    const char *name = flow->recipe->experiments[experiment].name;
    struct arena arena = {0};
    struct plan_task plan;
    AUTO_STR struct str outputs = {0};
    str_addf(&outputs, "%s/outputs", flow->folder);
    struct plan_context context = {.recipe = flow->recipe,
                                   .seed = flow->seed,
                                   .workflow = flow->id,
                                   .outputs_folder = str_text(&outputs),
                                   .recipe_folder = flow->recipe_folder,
                                   .given = flow->given,
                                   .given_owner = flow->given_owner};
    enum err_code code = ERR_OK;
    if (is_given(flow, experiment, task, &arena)) {
        struct json json = {.out = out};
        plan_task(&context, experiment, task, 1, &arena, &plan);
        add_plan(&json, flow, name, task, &plan);
    } else {
        code = err_set(err, ERR_NOT_FOUND, "%s/%s/%" PRIu64 ": the search has not made it yet",
                       flow->id, name, task);
    }
    arena_release(&arena);
    return code;
}
