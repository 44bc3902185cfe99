#include "recipe/recipe_build.h"

#include <string.h>

enum { KEYS_MAX = 32, WORKERS_MAX = 1000000, RETRIES_MAX = 1000 };

static void read_framework(struct build *build, struct experiment *experiment,
                           const struct ynode *node)
{
    experiment->framework = build_text(build, node, "framework");
}

static void read_image(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    experiment->image = build_text(build, node, "image");
    if (experiment->image && strpbrk(experiment->image, " \t\n")) {
        diag_add(build->diags, node->line, node->column,
                 "image must be a container image, without spaces");
    }
}

static void read_workers(struct build *build, struct experiment *experiment,
                         const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "workers", 1, WORKERS_MAX, &count)) {
        experiment->workers = (uint32_t)count;
    }
}

static void read_gang(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "gang", 1, RECIPE_GANG_MAX, &count)) {
        experiment->gang = (uint32_t)count;
        experiment->gang_line = node->line;
        experiment->gang_column = node->column;
    }
}

static void read_shell(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    const char *shell = build_text(build, node, "shell");
    if (!shell) {
        return;
    }
    if (strpbrk(shell, " \t\n") || *shell == '-' || (strchr(shell, '/') && *shell != '/')) {
        diag_add(build->diags, node->line, node->column,
                 "shell must be one program such as bash or /bin/zsh, without arguments");
        return;
    }
    experiment->shell = shell;
}

static void read_inherit_env(struct build *build, struct experiment *experiment,
                             const struct ynode *node)
{
    build_bool(build, node, "inherit_env", &experiment->inherit_env);
}

static void read_allow_failure(struct build *build, struct experiment *experiment,
                               const struct ynode *node)
{
    build_bool(build, node, "allow_failure", &experiment->allow_failure);
}

static void read_checkpoint(struct build *build, struct experiment *experiment,
                            const struct ynode *node)
{
    build_bool(build, node, "checkpoint", &experiment->checkpoint);
}

static void read_retries(struct build *build, struct experiment *experiment,
                         const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "retries", 0, RETRIES_MAX, &count)) {
        experiment->retries = (uint32_t)count;
    }
}

static void read_max_failures(struct build *build, struct experiment *experiment,
                              const struct ynode *node)
{
    build_count(build, node, "max_failures", 0, RECIPE_TASKS_MAX, &experiment->max_failures);
}

static void read_crash_limit(struct build *build, struct experiment *experiment,
                             const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "crash_limit", 0, WORKERS_MAX, &count)) {
        experiment->crash_limit = (uint32_t)count;
    }
}

static void read_backoff(struct build *build, struct experiment *experiment,
                         const struct ynode *node)
{
    build_duration(build, node, "backoff", &experiment->backoff_ms);
}

static void read_timeout(struct build *build, struct experiment *experiment,
                         const struct ynode *node)
{
    build_duration(build, node, "timeout", &experiment->timeout_ms);
}

static void read_grace(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_duration(build, node, "grace", &experiment->grace_ms);
}

static void read_log_limit(struct build *build, struct experiment *experiment,
                           const struct ynode *node)
{
    build_size(build, node, "log_limit", &experiment->log_limit_bytes);
}

/* Those without a function need to know of other keys or experiments: recipe_space.c,
 * recipe_search.c, recipe_templates.c and recipe.c read them. */
const struct build_key build_experiment_keys[] = {
    {"framework", read_framework},
    {"image", read_image},
    {"parameters", NULL},
    {"samples", NULL},
    {"search", NULL},
    {"require", NULL},
    {"metrics", build_metrics},
    {"workers", read_workers},
    {"gang", read_gang},
    {"hardware", build_hardware},
    {"command", NULL},
    {"exec", NULL},
    {"shell", read_shell},
    {"env", NULL},
    {"secrets", NULL},
    {"inherit_env", read_inherit_env},
    {"workdir", NULL},
    {"outputs", NULL},
    {"zip", NULL},
    {"depends_on", NULL},
    {"allow_failure", read_allow_failure},
    {"retries", read_retries},
    {"backoff", read_backoff},
    {"timeout", read_timeout},
    {"grace", read_grace},
    {"max_failures", read_max_failures},
    {"crash_limit", read_crash_limit},
    {"checkpoint", read_checkpoint},
    {"log_limit", read_log_limit},
    {NULL, NULL},
};

static const struct build_key *find_key(const struct build_key *table, const char *name)
{
    for (; table->name; table++) {
        if (strcmp(table->name, name) == 0) {
            return table;
        }
    }
    return NULL;
}

bool build_is_experiment_key(const char *name)
{
    return find_key(build_experiment_keys, name) != NULL;
}

static bool is_hardware_key(const char *name)
{
    static const char *const names[] = {"cpu", "memory", "disk", "gpu", "gpus", "spot", "labels"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_only_at_the_top(const char *name)
{
    static const char *const names[] = {"seed", "name", "priority", "webhook"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void report_unknown(struct build *build, const struct build_key *table,
                           const struct ynode *key)
{
    bool in_experiment = table == build_experiment_keys;
    if (in_experiment && is_hardware_key(key->text)) {
        diag_add(build->diags, key->line, key->column, "'%s' belongs below hardware:", key->text);
        return;
    }
    if (in_experiment && is_only_at_the_top(key->text)) {
        diag_add(build->diags, key->line, key->column,
                 "'%s' belongs at the top of the recipe, beside experiments:", key->text);
        return;
    }
    const char *names[KEYS_MAX];
    size_t count = 0;
    for (; table[count].name; count++) {
        CHECK(count < KEYS_MAX);
        names[count] = table[count].name;
    }
    const char *hint = build_hint(build, key->text, names, count);
    diag_add(build->diags, key->line, key->column, "unknown key '%.60s'%s%s%s", key->text,
             hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
}

void build_read_keys(struct build *build, struct experiment *experiment,
                     const struct ynode *mapping, const struct build_key *table)
{
    for (size_t i = 0; i < mapping->count; i++) {
        const struct build_key *known = find_key(table, mapping->keys[i]->text);
        if (!known) {
            report_unknown(build, table, mapping->keys[i]);
        } else if (known->read) {
            known->read(build, experiment, mapping->items[i]);
        }
    }
}
