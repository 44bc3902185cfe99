#include "recipe/recipe.h"

#include "base/mem.h"
#include "recipe/recipe_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BACKOFF_MS = 1000, GRACE_MS = 10000, CRASH_LIMIT = 20, LOG_LIMIT_MIB = 64 };

/* What recipe_parse returns is the first member; the rest is for recipe_order and _destroy. */
struct owned_recipe {
    struct recipe recipe;
    struct arena arena;
    struct str flat;
    uint32_t *order;
};

const char *const build_top_keys[] = {"experiments", "seed",    "name", "env",
                                      "priority",    "webhook", NULL};

static bool is_experiment_name(const char *text)
{
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return size > 0 && text[size] == '\0' && text[0] != '-' && size <= RECIPE_NAME_MAX;
}

int64_t build_find(const struct build *build, const char *name)
{
    size_t low = 0;
    size_t high = build->experiment_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(build->names[build->by_name[middle]], name);
        if (order == 0) {
            return build->by_name[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return -1;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int compare_by_name(const void *a, const void *b, void *names)
{
    const char *const *texts = names;
    return strcmp(texts[*(const uint32_t *)a], texts[*(const uint32_t *)b]);
}

static void init_experiment(struct experiment *experiment, const struct ynode *key)
{
    experiment->name = key->text;
    experiment->line = key->line;
    experiment->column = key->column;
    experiment->hardware.cpu_milli = 1000;
    experiment->gang = 1;
    experiment->shell = "sh";
    experiment->backoff_ms = BACKOFF_MS;
    experiment->grace_ms = GRACE_MS;
    experiment->crash_limit = CRASH_LIMIT;
    experiment->log_limit_bytes = (uint64_t)LOG_LIMIT_MIB << 20;
}

/* Names and places of all experiments, before anything that refers to one is read. */
static bool collect_experiments(struct build *build, const struct ynode *node)
{
    if (!node || node->kind != YNODE_MAPPING || node->count == 0) {
        diag_add(build->diags, node ? node->line : 1, node ? node->column : 1,
                 "experiments must be a mapping with at least one named experiment");
        return false;
    }
    if (node->count > RECIPE_EXPERIMENTS_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d experiments",
                 RECIPE_EXPERIMENTS_MAX);
        return false;
    }
    size_t count = node->count;
    build->experiment_count = count;
    build->experiments = arena_alloc(build->arena, count * sizeof *build->experiments);
    const char **names = arena_alloc(build->arena, count * sizeof *names);
    uint32_t *by_name = arena_alloc(build->arena, count * sizeof *by_name);
    for (size_t i = 0; i < count; i++) {
        init_experiment(&build->experiments[i], node->keys[i]);
        names[i] = node->keys[i]->text;
        by_name[i] = (uint32_t)i;
        if (!is_experiment_name(names[i])) {
            diag_add(build->diags, node->keys[i]->line, node->keys[i]->column,
                     "an experiment's name is at most %d letters, digits, _ and -, unlike '%.60s'",
                     RECIPE_NAME_MAX, names[i]);
        }
    }
    qsort_r(by_name, count, sizeof *by_name, compare_by_name, names);
    build->names = names;
    build->by_name = by_name;
    build->nodes = (const struct ynode *const *)node->items;
    return true;
}

static void add_dependency(struct build *build, struct experiment *experiment,
                           const struct ynode *node)
{
    const char *name = build_text(build, node, "depends_on");
    if (!name) {
        return;
    }
    int64_t other = build_find(build, name);
    if (other >= 0) {
        experiment->depends_on[experiment->depends_count++] = (uint32_t)other;
        return;
    }
    const char *hint = build_hint(build, name, build->names, build->experiment_count);
    diag_add(build->diags, node->line, node->column, "no experiment '%.60s'%s%s%s", name,
             hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
}

static void read_depends_on(struct build *build, struct experiment *experiment,
                            const struct ynode *node)
{
    if (!node) {
        return;
    }
    size_t count = node->kind == YNODE_SEQUENCE ? node->count : 1;
    experiment->depends_on = arena_alloc(build->arena, count * sizeof *experiment->depends_on);
    for (size_t i = 0; i < count; i++) {
        add_dependency(build, experiment, node->kind == YNODE_SEQUENCE ? node->items[i] : node);
    }
    if (experiment->depends_count < 2) {
        return;
    }
    uint32_t *deps = experiment->depends_on;
    qsort(deps, experiment->depends_count, sizeof *deps, compare_u32);
    size_t kept = 1;
    for (size_t i = 1; i < experiment->depends_count; i++) {
        if (deps[i] != deps[kept - 1]) {
            deps[kept++] = deps[i];
        }
    }
    experiment->depends_count = kept;
}

static void report_cycle(struct build *build)
{
    AUTO_FREE uint32_t *cycle = mem_array(build->experiment_count, sizeof *cycle);
    size_t count = dag_cycle(&build->dag, cycle);
    const struct ynode *at = yaml_get(build->nodes[cycle[0]], "depends_on");
    AUTO_STR struct str names = {0};
    for (size_t i = 0; i < count; i++) {
        str_addf(&names, "%s -> ", build->names[cycle[i]]);
    }
    str_add(&names, build->names[cycle[0]]);
    diag_add(build->diags, at->line, at->column, "experiments wait for each other: %s",
             str_text(&names));
}

/* Reads depends_on of all and sets the closure, or reports the cycle. */
static void read_graph(struct build *build, uint32_t *order)
{
    size_t count = build->experiment_count;
    const uint32_t **deps = arena_alloc(build->arena, count * sizeof *deps);
    size_t *dep_counts = arena_alloc(build->arena, count * sizeof *dep_counts);
    for (size_t i = 0; i < count; i++) {
        struct experiment *experiment = &build->experiments[i];
        read_depends_on(build, experiment, yaml_get(build->nodes[i], "depends_on"));
        deps[i] = experiment->depends_on;
        dep_counts[i] = experiment->depends_count;
    }
    build->dag = (struct dag){.count = count, .deps = deps, .dep_counts = dep_counts};
    if (dag_order(&build->dag, order)) {
        build->closure = dag_closure(&build->dag, order);
    } else {
        report_cycle(build);
    }
}

static void read_experiment(struct build *build, size_t index)
{
    struct experiment *experiment = &build->experiments[index];
    const struct ynode *node = build->nodes[index];
    if (node->kind != YNODE_MAPPING) {
        diag_add(build->diags, experiment->line, experiment->column,
                 "'%.64s' must be a mapping with a command:", experiment->name);
        return;
    }
    build_read_keys(build, experiment, node, build_experiment_keys);
    const struct ynode *image = yaml_get(node, "image");
    if (image && experiment->framework) {
        diag_add(build->diags, image->line, image->column,
                 "'%s' has both framework: and image:; keep one", experiment->name);
    }
    build_search(build, experiment, node);
    build_space(build, experiment, node);
    if (experiment->space) {
        build_require(build, experiment, node);
    }
    build_templates(build, experiment, node);
}

static void read_seed(struct build *build, struct recipe *recipe, const struct ynode *node)
{
    if (!node) {
        return;
    }
    char *end = NULL;
    errno = 0;
    bool digits = node->kind == YNODE_SCALAR && node->type == YTYPE_INTEGER &&
                  node->text[strspn(node->text, "0123456789")] == '\0';
    recipe->seed = digits ? strtoull(node->text, &end, 10) : 0;
    if (!digits || errno == ERANGE) {
        diag_add(build->diags, node->line, node->column,
                 "seed must be a whole number from 0 to 18446744073709551615");
        return;
    }
    recipe->has_seed = true;
}

static void read_priority(struct build *build, struct recipe *recipe, const struct ynode *node)
{
    int64_t priority = 0;
    if (!node) {
        return;
    }
    if (!yaml_as_i64(node, &priority) || priority < -RECIPE_PRIORITY_MAX ||
        priority > RECIPE_PRIORITY_MAX) {
        diag_add(build->diags, node->line, node->column,
                 "priority must be a whole number from -%d to %d", RECIPE_PRIORITY_MAX,
                 RECIPE_PRIORITY_MAX);
        return;
    }
    recipe->priority = (int32_t)priority;
}

static bool is_plain_name(const char *text)
{
    size_t size = 0;
    for (; text[size]; size++) {
        if ((unsigned char)text[size] < 0x20 || text[size] == 0x7f || text[size] == '/') {
            return false;
        }
    }
    return size > 0 && size <= RECIPE_NAME_MAX;
}

/* The file's name without folder and extension, in the letters a name may have. */
static const char *name_of_file(struct arena *arena, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash ? slash + 1 : file;
    size_t size = strlen(base);
    if (size > 5 && strcmp(base + size - 5, ".yaml") == 0) {
        size -= 5;
    } else if (size > 4 && strcmp(base + size - 4, ".yml") == 0) {
        size -= 4;
    }
    if (size == 0 || strcmp(base, "-") == 0) {
        return "recipe";
    }
    char *name = arena_strndup(arena, base, size < RECIPE_NAME_MAX ? size : RECIPE_NAME_MAX);
    for (char *at = name; *at; at++) {
        bool fine = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                    (*at >= '0' && *at <= '9') || strchr("._-", *at);
        *at = fine ? *at : '-';
    }
    return name;
}

static void read_name(struct build *build, struct recipe *recipe, const struct ynode *node)
{
    const char *name = node ? build_text(build, node, "name") : NULL;
    if (name && is_plain_name(name)) {
        recipe->name = name;
    } else if (name) {
        diag_add(build->diags, node->line, node->column,
                 "name must be at most %d bytes on one line, without /", RECIPE_NAME_MAX);
    }
}

static void check_top_keys(struct build *build, const struct ynode *root)
{
    size_t known = sizeof build_top_keys / sizeof build_top_keys[0] - 1;
    for (size_t i = 0; i < root->count; i++) {
        const struct ynode *key = root->keys[i];
        size_t at = 0;
        while (at < known && strcmp(build_top_keys[at], key->text) != 0) {
            at++;
        }
        if (at < known) {
            continue;
        }
        if (build_is_experiment_key(key->text)) {
            diag_add(build->diags, key->line, key->column,
                     "'%s' belongs in an experiment, below experiments: NAME:", key->text);
            continue;
        }
        const char *hint = build_hint(build, key->text, build_top_keys, known);
        diag_add(build->diags, key->line, key->column, "unknown key '%.60s'%s%s%s", key->text,
                 hint ? " (did you mean '" : "", hint ? hint : "", hint ? "'?)" : "");
    }
}

static void read_shared_env(struct build *build, const struct ynode *node)
{
    if (!node || !build_check_env(build, node, "env")) {
        return;
    }
    /* every experiment compiles its own copy, so a large one times many must be bounded */
    if (node->weight.bytes * build->experiment_count > YAML_FLAT_MAX) {
        diag_add(build->diags, node->line, node->column,
                 "env is too large to be shared by %zu experiments", build->experiment_count);
        return;
    }
    build->shared_env = node;
}

static void read_root(struct build *build, struct owned_recipe *owned, const struct ynode *root)
{
    if (root->kind != YNODE_MAPPING) {
        diag_add(build->diags, root->line, root->column,
                 "a recipe is a mapping that begins with experiments:");
        return;
    }
    check_top_keys(build, root);
    read_seed(build, &owned->recipe, yaml_get(root, "seed"));
    read_name(build, &owned->recipe, yaml_get(root, "name"));
    read_priority(build, &owned->recipe, yaml_get(root, "priority"));
    build_webhooks(build, &owned->recipe, yaml_get(root, "webhook"));
    if (!collect_experiments(build, yaml_get(root, "experiments"))) {
        return;
    }
    read_shared_env(build, yaml_get(root, "env"));
    owned->order = arena_alloc(build->arena, build->experiment_count * sizeof(uint32_t));
    read_graph(build, owned->order);
    for (size_t i = 0; i < build->experiment_count; i++) {
        read_experiment(build, i);
    }
    free(build->closure);
    build->closure = NULL;
    owned->recipe.experiments = build->experiments;
    owned->recipe.experiment_count = build->experiment_count;
}

struct recipe *recipe_parse(const char *file, const char *text, size_t size,
                            const char *const *sets, size_t set_count, struct diag_list *diags)
{
    struct owned_recipe *owned = mem_alloc(sizeof *owned);
    struct build build = {.arena = &owned->arena, .diags = diags};
    owned->recipe.name = name_of_file(&owned->arena, file);
    size_t wrong_before = diags->count + diags->dropped;
    struct ynode *root = yaml_parse(&owned->arena, text, size, diags);
    for (size_t i = 0; root && i < set_count; i++) {
        build_apply_set(&owned->arena, root, sets[i], diags);
    }
    if (root) {
        read_root(&build, owned, root);
    }
    if (diags->count + diags->dropped != wrong_before) {
        recipe_destroy(&owned->recipe);
        return NULL;
    }
    yaml_flatten(root, &owned->flat);
    owned->recipe.flat = str_text(&owned->flat);
    return &owned->recipe;
}

void recipe_destroy(struct recipe *recipe)
{
    if (!recipe) {
        return;
    }
    struct owned_recipe *owned = (struct owned_recipe *)recipe;
    arena_release(&owned->arena);
    str_release(&owned->flat);
    free(owned);
}

const uint32_t *recipe_order(const struct recipe *recipe)
{
    return ((const struct owned_recipe *)recipe)->order;
}
