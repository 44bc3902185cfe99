/* Any bytes: a recipe whose first and last tasks can be planned, or diagnoses. A first line "#SET
 * x" is a --set. */
#include "base/mem.h"
#include "recipe/plan.h"
#include "recipe/recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void plan_one(const struct plan_context *context, uint32_t experiment, uint64_t index)
{
    struct arena arena = {0};
    struct plan_task task;
    struct plan_task again;
    AUTO_STR struct str json = {0};
    plan_task(context, experiment, index, 1, &arena, &task);
    plan_task(context, experiment, index, 1, &arena, &again);
    CHECK(task.argc > 0 && task.argc == again.argc && !task.argv[task.argc]);
    for (size_t i = 0; i < task.argc; i++) {
        CHECK(strcmp(task.argv[i], again.argv[i]) == 0);
    }
    CHECK(!task.env[task.env_count]);
    plan_params_json(context, experiment, index, &arena, &json);
    arena_release(&arena);
}

static bool has_files(const struct space *space)
{
    const char *const *patterns = NULL;
    size_t count = 0;
    uint64_t batch = 0;
    for (size_t i = 0; i < space_param_count(space); i++) {
        if (space_files(space, i, &patterns, &count, &batch)) {
            return true;
        }
    }
    return false;
}

static void plan_some(const struct recipe *recipe)
{
    for (size_t i = 0; i < recipe->webhook_count; i++) {
        CHECK(strncmp(recipe->webhooks[i].url, "http", 4) == 0 && recipe->webhooks[i].on != 0);
    }
    struct plan_context context = {.recipe = recipe, .seed = recipe->seed};
    for (uint32_t i = 0; i < recipe->experiment_count; i++) {
        const struct experiment *experiment = &recipe->experiments[i];
        if (!has_files(experiment->space)) {
            CHECK(experiment->task_count > 0 && experiment->task_count <= RECIPE_TASKS_MAX);
            CHECK(experiment->task_count % experiment->gang == 0);
            plan_one(&context, i, 0);
            plan_one(&context, i, experiment->task_count - 1);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct diag_list diags = {.file = "fuzz"};
    AUTO_FREE char *text = mem_strndup((const char *)bytes, size);
    AUTO_FREE char *set = NULL;
    if (strncmp(text, "#SET ", 5) == 0) {
        set = mem_strndup(text + 5, strcspn(text + 5, "\n"));
    }
    const char *sets[] = {set};
    struct recipe *recipe = recipe_parse("fuzz.yaml", text, size, sets, set ? 1 : 0, &diags);
    CHECK((recipe == NULL) == (diags.count > 0));
    AUTO_STR struct str out = {0};
    diag_print(&diags, &out);
    if (recipe) {
        plan_some(recipe);
    }
    recipe_destroy(recipe);
    diag_release(&diags);
    return 0;
}
