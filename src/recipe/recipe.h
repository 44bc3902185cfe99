/* recipe.h - a checked workflow, read from YAML.
 *
 * recipe_parse either returns a recipe in which everything is known to make sense, or NULL and the
 * list of all that is wrong. A recipe owns its memory and is read-only after files_expand.
 */
#ifndef RECIPE_RECIPE_H
#define RECIPE_RECIPE_H

#include "base/err.h"
#include "recipe/diag.h"
#include "recipe/search_spec.h"
#include "recipe/space.h"
#include "recipe/template.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RECIPE_EXPERIMENTS_MAX = 1000,
    RECIPE_NAME_MAX = 64,         /* experiment names: [A-Za-z0-9_-], not starting with - */
    RECIPE_TASKS_MAX = 100000000, /* in one experiment */
    RECIPE_GANG_MAX = 10000,
    RECIPE_LABELS_MAX = 32,
    RECIPE_LABEL_MAX = 64, /* bytes of a label */
    RECIPE_PRIORITY_MAX = 100,
    RECIPE_WEBHOOKS_MAX = 16,
};

/* What a template may name besides parameters; see struct experiment for their slots. */
enum recipe_builtin {
    RECIPE_TASK, /* WORKFLOW/EXPERIMENT/INDEX */
    RECIPE_INDEX,
    RECIPE_ATTEMPT,
    RECIPE_OUTPUT,
    RECIPE_CHECKPOINT,
    RECIPE_EXPERIMENT,
    RECIPE_WORKFLOW,
    RECIPE_SEED,
    RECIPE_TRIAL,  /* this one and the next two only where there is a search: */
    RECIPE_RUNG,   /* 0, or with asha which rung of it */
    RECIPE_BUDGET, /* how far to train, in early_stop's resource; only where max: is given */
    RECIPE_BUILTIN_COUNT,
};

struct hardware {
    uint32_t cpu_milli; /* 1000 = one slot, the default */
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint32_t gpus;
    const char *gpu_kind; /* "k80", or NULL for any; lower case */
    bool spot;
    const char **labels; /* "zone=a", "fast": what a node must have; printable ASCII, no spaces */
    size_t label_count;
};

struct env_entry {
    const char *name;
    struct template *value; /* env: */
    const char *file;       /* secrets: the file that holds it, relative to the recipe's folder */
    int line;
    int column;
};

/* A form of log lines that hold metrics, as written; for src/metrics to compile. */
struct metric_pattern {
    const char *text;
    int line;
    int column;
};

struct experiment {
    const char *name;
    int line;
    int column;
    struct space *space;
    bool sampled;
    uint64_t samples;
    uint64_t task_count;        /* known after files_expand; before it where no files: is used. Of a
                                   search: the most there can be, trials * rungs_max * gang */
    struct search_spec *search; /* search:, or NULL; sampled is then false */
    struct metric_pattern *metrics; /* metrics: */
    size_t metric_count;
    uint32_t workers; /* 0: no cap */
    uint32_t gang;    /* tasks that start together: task_count is a multiple of it; 1: alone */
    int gang_line;
    int gang_column;
    struct hardware hardware;
    const char *framework; /* or NULL */
    const char *image;     /* or NULL */

    bool is_exec;
    struct template **commands; /* shell lines, or the arguments of exec */
    size_t command_count;
    const char *shell; /* "sh" unless shell: says otherwise */
    struct env_entry *env;
    size_t env_count;
    struct env_entry *secrets;
    size_t secret_count;
    bool inherit_env;
    struct template *workdir;  /* or NULL: the recipe's folder */
    struct template **outputs; /* names below DROVER_OUTPUT that must exist for success; rendered
                                  values may still escape it: the node refuses those */
    size_t output_count;

    /* Slots of every template above: the space's parameters, then RECIPE_BUILTIN_COUNT built-ins,
     * then one for each experiment whose {{x.output}} is used somewhere. */
    const uint32_t *output_refs;
    size_t output_ref_count;

    uint32_t *depends_on; /* experiment numbers, ascending, no repeats */
    size_t depends_count;
    bool allow_failure;
    uint32_t retries;
    int64_t backoff_ms;    /* before the first retry; doubles; default 1000 */
    int64_t timeout_ms;    /* 0: none */
    int64_t grace_ms;      /* between TERM and KILL; default 10000 */
    uint64_t max_failures; /* 0: no limit */
    uint32_t crash_limit;  /* default 20; 0: no limit */
    bool checkpoint;
    uint64_t log_limit_bytes; /* per attempt; default 64 MiB */
};

enum recipe_webhook_on {
    RECIPE_WEBHOOK_SUCCEEDED = 1 << 0,
    RECIPE_WEBHOOK_FAILED = 1 << 1,
    RECIPE_WEBHOOK_CANCELLED = 1 << 2,
};

struct recipe_webhook {
    const char *url;         /* http or https */
    unsigned on;             /* enum recipe_webhook_on */
    const char *secret_file; /* or NULL; relative to the recipe's folder */
};

struct recipe {
    const char *name; /* name:, else the file's name without .yaml */
    uint64_t seed;
    bool has_seed;
    int32_t priority; /* -RECIPE_PRIORITY_MAX to RECIPE_PRIORITY_MAX; 0 unless said */
    struct recipe_webhook *webhooks;
    size_t webhook_count;
    struct experiment *experiments; /* in the order written */
    size_t experiment_count;
    const char *flat; /* yaml_flatten of what was read, --set included: the recipe's identity */
};

/* file is for messages and the default name. sets[i] is "path=value" (--set): a dotted path under
 * the root or under `experiments:`, or the bare name of a parameter, which is then fixed to that
 * value in every experiment that has it. */
struct recipe *recipe_parse(const char *file, const char *text, size_t size,
                            const char *const *sets, size_t set_count, struct diag_list *diags);
void recipe_destroy(struct recipe *recipe);

/* The order in which experiments may run: a topological order, stable in the order written. */
const uint32_t *recipe_order(const struct recipe *recipe);

#endif
