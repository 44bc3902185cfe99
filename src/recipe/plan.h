/* plan.h - what exactly task i runs: command, environment, folder. A pure function. */
#ifndef RECIPE_PLAN_H
#define RECIPE_PLAN_H

#include "base/arena.h"
#include "base/str.h"
#include "recipe/recipe.h"

/* What is not in the recipe: who and where. Folders are absolute; any may be NULL in `drover plan`
 * (then {{x.output}} reads "outputs/x", {{output}} "OUTPUT" and {{checkpoint}} "CHECKPOINT"). */
struct plan_context {
    const struct recipe *recipe;
    uint64_t seed;
    const char *workflow;       /* its id */
    const char *outputs_folder; /* accepted outputs: OUTPUTS/EXPERIMENT/INDEX */
    const char *output;         /* this attempt's own folder */
    const char *checkpoint;     /* or NULL */
    const char *recipe_folder;
};

/* Between the lines of a command list, in one shell: the first that fails ends it with its status.
 */
#define PLAN_LINE_GUARD "\ncase $? in 0) ;; *) exit ;; esac\n"

struct plan_task {
    char **argv; /* NULL-terminated; in the arena */
    size_t argc;
    char **env; /* "NAME=VALUE", NULL-terminated: DROVER_TASK, DROVER_ATTEMPT, DROVER_PARAMS,
                   DROVER_EXPERIMENT, DROVER_INDEX, DROVER_OUTPUT, DROVER_CHECKPOINT where set, then
                   env: (which cannot name DROVER_*). PATH, HOME, LANG, inherited variables and
                   secrets are the node's. */
    size_t env_count;
    const char *workdir; /* absolute when recipe_folder is */
    const char *
        *outputs; /* as rendered: a parameter's value may hold "..", the node refuses those */
    size_t output_count;
};

/* Everything in *out lives in the arena. index is below the experiment's task_count. The draws are
 * keyed by rng_hash_bytes(seed, the experiment's name), so adding an experiment changes no other.
 */
void plan_task(const struct plan_context *context, uint32_t experiment, uint64_t index,
               uint32_t attempt, struct arena *arena, struct plan_task *out);

/* Only the arguments, as one JSON object in the order written (absent ones left out). */
void plan_params_json(const struct plan_context *context, uint32_t experiment, uint64_t index,
                      struct arena *scratch, struct str *out);

#endif
