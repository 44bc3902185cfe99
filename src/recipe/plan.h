/* plan.h - what exactly task i runs: command, environment, folder. A pure function. */
#ifndef RECIPE_PLAN_H
#define RECIPE_PLAN_H

#include "base/arena.h"
#include "base/str.h"
#include "recipe/recipe.h"

/* Which trial of a search a task is. */
struct plan_trial {
    uint64_t trial;
    uint32_t rung;
    uint64_t budget; /* how far to train, in early_stop's resource; 0: no such thing */
};

/* What a search has made of task `task` of an experiment: fills values (one for each parameter of
 * its space; text lives in the arena or at least as long) and *out. False: it is not defined yet.
 * dims_arguments turns a point into values. */
typedef bool (*plan_given_fn)(void *owner, uint32_t experiment, uint64_t task, struct value *values,
                              struct plan_trial *out, struct arena *arena);

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
    plan_given_fn given; /* asked about tasks of a search. NULL, or where it says false: the values
                            are an example, drawn from the space, of trial task / gang, rung 0 */
    void *given_owner;
};

/* Between the lines of a command list, in one shell: the first that fails ends it with its status.
 */
#define PLAN_LINE_GUARD "\ncase $? in 0) ;; *) exit ;; esac\n"

/* Where `drover report` writes, in the output folder; read like any metrics.jsonl. */
#define PLAN_REPORT_FILE "metrics.jsonl"

struct plan_task {
    char **argv; /* NULL-terminated; in the arena */
    size_t argc;
    char **env; /* "NAME=VALUE", NULL-terminated: DROVER_TASK, DROVER_ATTEMPT, DROVER_PARAMS,
                   DROVER_EXPERIMENT, DROVER_INDEX, DROVER_OUTPUT, DROVER_CHECKPOINT where set; of a
                   search DROVER_TRIAL, DROVER_RUNG and perhaps DROVER_BUDGET; with search: or
                   metrics: DROVER_REPORT, the file metrics.jsonl in the output folder; then
                   env: (which cannot name DROVER_*). PATH, HOME, LANG, inherited variables and
                   secrets are the node's. */
    size_t env_count;
    const char *workdir; /* absolute when recipe_folder is */
    const char *
        *outputs; /* as rendered: a parameter's value may hold "..", the node refuses those */
    size_t output_count;
    bool is_trial; /* of a search: */
    uint64_t
        checkpoint; /* number that names the checkpoint folder, in place of the task's: the
                       trial's (times gang, plus the place in it), so that all rungs share it */
};

/* Everything in *out lives in the arena. index is below the experiment's task_count. The draws are
 * keyed by rng_hash_bytes(seed, the experiment's name), so adding an experiment changes no other.
 */
void plan_task(const struct plan_context *context, uint32_t experiment, uint64_t index,
               uint32_t attempt, struct arena *arena, struct plan_task *out);

/* plan_task's `checkpoint`; of tasks that are of no search: their index. */
uint64_t plan_checkpoint(const struct plan_context *context, uint32_t experiment, uint64_t index,
                         struct arena *scratch);

/* Only the arguments, as one JSON object in the order written (absent ones left out). */
void plan_params_json(const struct plan_context *context, uint32_t experiment, uint64_t index,
                      struct arena *scratch, struct str *out);

#endif
