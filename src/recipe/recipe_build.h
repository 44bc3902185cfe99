/* recipe_build.h - what the parts of the recipe's checker share; for recipe*.c and files.c only. */
#ifndef RECIPE_RECIPE_BUILD_H
#define RECIPE_RECIPE_BUILD_H

#include "recipe/dag.h"
#include "recipe/recipe.h"
#include "recipe/yaml.h"

enum { RECIPE_ENV_MAX = 1000 };

/* A recipe under construction. Handlers report and go on: a failed build is told by diags. */
struct build {
    struct arena *arena;
    struct diag_list *diags;
    struct experiment *experiments;
    size_t experiment_count;
    const struct ynode *const *nodes; /* of each experiment */
    const char *const *names;         /* of each experiment, in the order written */
    const uint32_t *by_name;          /* experiment numbers, sorted by name */
    const struct ynode *shared_env;   /* env: at the top, or NULL */
    struct dag dag;
    uint64_t *closure; /* NULL while unknown or when there is a cycle */
};

/* The number of an experiment, or -1. */
int64_t build_find(const struct build *build, const char *name);

/* Reads a checked key of an experiment into it. */
typedef void (*build_key_fn)(struct build *build, struct experiment *experiment,
                             const struct ynode *node);
struct build_key {
    const char *name;
    build_key_fn read; /* NULL: read elsewhere, once all is known */
};

/* Reads each pair of a mapping by a table (up to a NULL name); unknown keys get a diagnosis with a
 * suggestion. */
void build_read_keys(struct build *build, struct experiment *experiment,
                     const struct ynode *mapping, const struct build_key *table);

/* The word that was meant, or NULL when none is near or nobody will read it. */
const char *build_hint(const struct build *build, const char *word, const char *const *words,
                       size_t count);

/* The keys of an experiment, NULL-terminated: recipe_keys.c */
extern const struct build_key build_experiment_keys[];
extern const char *const build_top_keys[]; /* NULL-terminated: recipe.c */
bool build_is_experiment_key(const char *name);

/* Scalars with a diagnosis when they are not: recipe_scalars.c. They leave *out alone on error. */
void build_bool(struct build *build, const struct ynode *node, const char *what, bool *out);
bool build_count(struct build *build, const struct ynode *node, const char *what, uint64_t min,
                 uint64_t max, uint64_t *out);
void build_duration(struct build *build, const struct ynode *node, const char *what, int64_t *out);
void build_size(struct build *build, const struct ynode *node, const char *what, uint64_t *out);
/* Any scalar that is not null or empty, as text. */
const char *build_text(struct build *build, const struct ynode *node, const char *what);

/* hardware: recipe_hardware.c */
void build_hardware(struct build *build, struct experiment *experiment, const struct ynode *node);

/* webhook: at the top, which may be missing: recipe_webhook.c */
void build_webhooks(struct build *build, struct recipe *recipe, const struct ynode *node);

/* search:, before build_space; require:, after it; metrics:. recipe_search.c */
void build_search(struct build *build, struct experiment *experiment, const struct ynode *node);
void build_require(struct build *build, struct experiment *experiment, const struct ynode *node);
void build_metrics(struct build *build, struct experiment *experiment, const struct ynode *node);
/* build_count_tasks of a search. */
bool build_count_trials(struct experiment *experiment, struct diag_list *diags);

/* parameters:, zip: and samples:, into a space and a task count: recipe_space.c */
void build_space(struct build *build, struct experiment *experiment, const struct ynode *node);

/* What is run: command or exec, env, secrets, workdir, outputs: recipe_templates.c. After
 * build_space of this experiment and depends_on of all. */
void build_templates(struct build *build, struct experiment *experiment, const struct ynode *node);

/* True if node can be env: or secrets: as a whole: recipe_templates.c */
bool build_check_env(struct build *build, const struct ynode *node, const char *what);

/* The built-in names, by enum recipe_builtin: recipe_templates.c */
extern const char *const build_builtin_names[RECIPE_BUILTIN_COUNT];
/* Whether this experiment has it at all. */
bool build_has_builtin(const struct experiment *experiment, enum recipe_builtin builtin);

/* Sets experiment->task_count, once the grid is known, and checks that the gangs fit it. False
 * after a diagnosis at (line, column), or at gang: recipe_space.c */
bool build_count_tasks(struct experiment *experiment, int line, int column,
                       struct diag_list *diags);

/* --set: recipe_sets.c */
void build_apply_set(struct arena *arena, struct ynode *root, const char *set,
                     struct diag_list *diags);

#endif
