#include "base/mem.h"
#include "recipe/recipe_build.h"

#include <stdlib.h>
#include <string.h>

/* Linux takes no longer argument, and the shell gets its script as one. */
enum { SCRIPT_MAX = 128 * 1024 - 1 };

const char *const build_builtin_names[RECIPE_BUILTIN_COUNT] = {
    [RECIPE_TASK] = "task",
    [RECIPE_INDEX] = "index",
    [RECIPE_ATTEMPT] = "attempt",
    [RECIPE_OUTPUT] = "output",
    [RECIPE_CHECKPOINT] = "checkpoint",
    [RECIPE_EXPERIMENT] = "experiment",
    [RECIPE_WORKFLOW] = "workflow",
    [RECIPE_SEED] = "seed",
    [RECIPE_TRIAL] = "trial",
    [RECIPE_RUNG] = "rung",
    [RECIPE_BUDGET] = "budget",
};

bool build_has_builtin(const struct experiment *experiment, enum recipe_builtin builtin)
{
    if (builtin == RECIPE_BUDGET) {
        return experiment->search && experiment->search->early.max > 0;
    }
    return builtin < RECIPE_TRIAL || experiment->search;
}

struct name {
    const char *text;
    int slot;
};

/* The names that the templates of one experiment may use. */
struct names {
    struct build *build;
    struct experiment *experiment;
    struct name *sorted; /* parameters and built-ins */
    size_t count;
    const char **words; /* the same, for suggestions */
    uint32_t *refs;     /* see struct experiment */
    size_t ref_count;
    const struct ynode *at; /* the text being compiled */
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static int slot_of_ref(struct names *names, uint32_t experiment)
{
    size_t at = 0;
    while (at < names->ref_count && names->refs[at] != experiment) {
        at++;
    }
    if (at == names->ref_count) {
        names->refs[names->ref_count++] = experiment;
    }
    return (int)(space_param_count(names->experiment->space) + RECIPE_BUILTIN_COUNT + at);
}

static bool may_read_outputs_of(const struct names *names, uint32_t other)
{
    const struct build *build = names->build;
    uint32_t self = (uint32_t)(names->experiment - build->experiments);
    if (!build->closure) {
        return true; /* the cycle is the trouble */
    }
    if (self == other) {
        diag_add(build->diags, names->at->line, names->at->column,
                 "'%s' cannot read its own outputs; {{output}} is this task's folder",
                 names->experiment->name);
        return false;
    }
    if (!dag_reaches(&build->dag, build->closure, self, other)) {
        diag_add(build->diags, names->at->line, names->at->column,
                 "{{%s.output}} needs '%s' to be done first; add it to depends_on: of '%s'",
                 build->names[other], build->names[other], names->experiment->name);
        return false;
    }
    return true;
}

/* "X.output": its slot even after a diagnosis, so that there is only one; -1 if not of that form.
 */
static int resolve_output(struct names *names, const char *name)
{
    const char *dot = strrchr(name, '.');
    if (!dot || strcmp(dot, ".output") != 0 || (size_t)(dot - name) > RECIPE_NAME_MAX) {
        return -1;
    }
    char other_name[RECIPE_NAME_MAX + 1] = {0};
    memcpy(other_name, name, (size_t)(dot - name));
    int64_t other = build_find(names->build, other_name);
    if (other < 0) {
        return -1;
    }
    (void)may_read_outputs_of(names, (uint32_t)other);
    return slot_of_ref(names, (uint32_t)other);
}

static const char *hint_for(struct names *names, const char *name)
{
    struct build *build = names->build;
    const char *near = build_hint(build, name, names->words, names->count);
    if (near) {
        return near;
    }
    AUTO_STR struct str word = {0};
    str_add_bytes(&word, name, strcspn(name, "."));
    near = build_hint(build, str_text(&word), build->names, build->experiment_count);
    if (!near) {
        return NULL;
    }
    str_clear(&word);
    str_addf(&word, "%s.output", near);
    return arena_strdup(build->arena, str_text(&word));
}

static int resolve(void *context, const char *name, const char **suggestion)
{
    struct names *names = context;
    struct name wanted = {.text = name};
    struct name *found =
        bsearch(&wanted, names->sorted, names->count, sizeof *names->sorted, compare_names);
    if (!found) {
        int slot = resolve_output(names, name);
        if (slot < 0) {
            *suggestion = hint_for(names, name);
        }
        return slot;
    }
    size_t builtin_first = space_param_count(names->experiment->space);
    if ((size_t)found->slot == builtin_first + RECIPE_CHECKPOINT &&
        !names->experiment->checkpoint) {
        diag_add(names->build->diags, names->at->line, names->at->column,
                 "{{checkpoint}} needs checkpoint: true in '%s'", names->experiment->name);
    }
    return found->slot;
}

static void collect_names(struct names *names)
{
    struct experiment *experiment = names->experiment;
    size_t params = space_param_count(experiment->space);
    size_t slots = params + RECIPE_BUILTIN_COUNT;
    names->sorted = mem_array(slots, sizeof *names->sorted);
    names->words = mem_array(slots, sizeof *names->words);
    for (size_t i = 0; i < slots; i++) {
        if (i >= params && !build_has_builtin(experiment, (enum recipe_builtin)(i - params))) {
            continue;
        }
        const char *text =
            i < params ? space_param_name(experiment->space, i) : build_builtin_names[i - params];
        names->sorted[names->count] = (struct name){.text = text, .slot = (int)i};
        names->words[names->count++] = text;
    }
    qsort(names->sorted, names->count, sizeof *names->sorted, compare_names);
    names->refs = mem_array(names->build->experiment_count, sizeof *names->refs);
}

static struct template *compile(struct names *names, enum template_mode mode,
                                const struct ynode *node)
{
    names->at = node;
    return template_compile(names->build->arena, mode, node->text, node->text_line,
                            node->text_column, resolve, names, names->build->diags);
}

/* '' is an argument like any other; no command is none. */
static bool is_empty_argument(const struct ynode *node, enum template_mode mode)
{
    return mode == TEMPLATE_PLAIN && node->kind == YNODE_SCALAR && node->type == YTYPE_TEXT &&
           node->size == 0;
}

/* A list of texts, or a single one as a list of one. Those with a diagnosis stay NULL in it. */
static struct template **read_list(struct names *names, const struct ynode *node, const char *what,
                                   enum template_mode mode, size_t *out_count)
{
    struct build *build = names->build;
    size_t count = node->kind == YNODE_SEQUENCE ? node->count : 1;
    struct template **list = arena_alloc(build->arena, count * sizeof(struct template *));
    for (size_t i = 0; i < count; i++) {
        const struct ynode *item = node->kind == YNODE_SEQUENCE ? node->items[i] : node;
        if (item->kind == YNODE_MAPPING) {
            diag_add(build->diags, item->line, item->column,
                     "%s must be text, not a mapping; put text that holds ': ' in quotes", what);
        } else if (is_empty_argument(item, mode) || build_text(build, item, what)) {
            list[i] = compile(names, mode, item);
        }
    }
    *out_count = count;
    return list;
}

static void read_command(struct names *names, const struct ynode *node)
{
    struct experiment *experiment = names->experiment;
    struct build *build = names->build;
    if (node->kind == YNODE_SEQUENCE && node->count == 0) {
        diag_add(build->diags, node->line, node->column, "command must not be empty");
        return;
    }
    size_t bytes = 0;
    for (size_t i = 0; i < node->count && node->kind == YNODE_SEQUENCE; i++) {
        bytes += node->items[i]->size;
    }
    if (bytes + node->size > SCRIPT_MAX) {
        diag_add(build->diags, node->line, node->column,
                 "command is longer than 128 KiB; put it into a script file");
        return;
    }
    experiment->commands =
        read_list(names, node, "command", TEMPLATE_SHELL, &experiment->command_count);
}

static void read_exec(struct names *names, const struct ynode *node)
{
    struct experiment *experiment = names->experiment;
    struct build *build = names->build;
    if (node->kind != YNODE_SEQUENCE || node->count == 0) {
        diag_add(build->diags, node->line, node->column,
                 "exec must be a list [program, argument, ...]; a shell line goes into command:");
        return;
    }
    const struct ynode *program = node->items[0];
    if (program->kind == YNODE_SCALAR && program->size == 0) {
        diag_add(build->diags, program->line, program->column, "exec: the program is missing");
        return;
    }
    experiment->is_exec = true;
    experiment->commands =
        read_list(names, node, "exec", TEMPLATE_PLAIN, &experiment->command_count);
    int slot = 0;
    const char *name = NULL;
    if (experiment->commands[0] && template_is_flag(experiment->commands[0], &slot, &name)) {
        diag_add(build->diags, program->line, program->column,
                 "exec: the program cannot be a flag");
    }
}

/* What it runs is one of command: and exec:. This needs no template. */
static bool check_what_to_run(struct build *build, const struct experiment *experiment,
                              const struct ynode *node)
{
    const struct ynode *command = yaml_get(node, "command");
    const struct ynode *exec = yaml_get(node, "exec");
    const struct ynode *shell = yaml_get(node, "shell");
    if (command && exec) {
        diag_add(build->diags, exec->line, exec->column,
                 "'%s' has both command: and exec:; keep one", experiment->name);
        return false;
    }
    if (!command && !exec) {
        diag_add(build->diags, experiment->line, experiment->column,
                 "'%s' has no command:", experiment->name);
        return false;
    }
    if (exec && shell) {
        diag_add(build->diags, shell->line, shell->column,
                 "shell: has no use with exec:, which runs without one");
    }
    return true;
}

static void read_what_to_run(struct names *names, const struct ynode *node)
{
    const struct ynode *command = yaml_get(node, "command");
    if (command) {
        read_command(names, command);
    } else {
        read_exec(names, yaml_get(node, "exec"));
    }
}

static bool is_env_name(const char *text)
{
    if (*text >= '0' && *text <= '9') {
        return false;
    }
    size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return size > 0 && text[size] == '\0';
}

static bool check_env_name(struct build *build, const struct ynode *key)
{
    if (!is_env_name(key->text)) {
        diag_add(build->diags, key->line, key->column,
                 "'%.60s' cannot be the name of an environment variable", key->text);
        return false;
    }
    if (strncmp(key->text, "DROVER_", 7) == 0) {
        diag_add(build->diags, key->line, key->column, "'%.60s': names in DROVER_ are drover's own",
                 key->text);
        return false;
    }
    return true;
}

bool build_check_env(struct build *build, const struct ynode *node, const char *what)
{
    if (node->kind != YNODE_MAPPING) {
        diag_add(build->diags, node->line, node->column, "%s must be a mapping of names", what);
        return false;
    }
    if (node->count > RECIPE_ENV_MAX) {
        diag_add(build->diags, node->line, node->column, "%s has more than %d names", what,
                 RECIPE_ENV_MAX);
        return false;
    }
    return true;
}

static void add_env(struct names *names, const struct ynode *key, const struct ynode *value)
{
    struct experiment *experiment = names->experiment;
    if (!check_env_name(names->build, key)) {
        return;
    }
    if (value->kind != YNODE_SCALAR || value->type == YTYPE_NULL) {
        diag_add(names->build->diags, value->line, value->column,
                 "env: %.60s must be text; write '' for an empty value", key->text);
        return;
    }
    experiment->env[experiment->env_count++] =
        (struct env_entry){.name = key->text,
                           .value = compile(names, TEMPLATE_PLAIN, value),
                           .line = key->line,
                           .column = key->column};
}

/* The shared ones first, then its own, which take the place of shared ones of the same name. */
static void read_env(struct names *names, const struct ynode *node)
{
    struct build *build = names->build;
    const struct ynode *shared = build->shared_env;
    const struct ynode *own = yaml_get(node, "env");
    if (own && !build_check_env(build, own, "env")) {
        own = NULL;
    }
    size_t count = (shared ? shared->count : 0) + (own ? own->count : 0);
    names->experiment->env = arena_alloc(build->arena, count * sizeof(struct env_entry));
    for (size_t i = 0; shared && i < shared->count; i++) {
        if (!yaml_get(own, shared->keys[i]->text)) {
            add_env(names, shared->keys[i], shared->items[i]);
        }
    }
    for (size_t i = 0; own && i < own->count; i++) {
        add_env(names, own->keys[i], own->items[i]);
    }
}

static const struct ynode *secret_file(struct build *build, const struct ynode *node)
{
    const struct ynode *file = node;
    if (node->kind == YNODE_MAPPING) {
        file = yaml_get(node, "file");
        if (!file || node->count != 1) {
            diag_add(build->diags, node->line, node->column, "a secret is {file: PATH}");
            return NULL;
        }
    }
    if (!build_text(build, file, "the file of a secret")) {
        return NULL;
    }
    if (strstr(file->text, "{{")) {
        diag_add(build->diags, file->line, file->column,
                 "{{...}} is not allowed in the path of a secret");
        return NULL;
    }
    return file;
}

static void read_secrets(struct names *names, const struct ynode *node)
{
    struct build *build = names->build;
    struct experiment *experiment = names->experiment;
    const struct ynode *secrets = yaml_get(node, "secrets");
    const struct ynode *env = yaml_get(node, "env");
    if (!secrets || !build_check_env(build, secrets, "secrets")) {
        return;
    }
    experiment->secrets = arena_alloc(build->arena, secrets->count * sizeof(struct env_entry));
    for (size_t i = 0; i < secrets->count; i++) {
        const struct ynode *key = secrets->keys[i];
        const struct ynode *file = secret_file(build, secrets->items[i]);
        if (!check_env_name(build, key) || !file) {
            continue;
        }
        if (yaml_get(env, key->text) || yaml_get(build->shared_env, key->text)) {
            diag_add(build->diags, key->line, key->column,
                     "'%.60s' is in env: too; keep one of the two", key->text);
        }
        experiment->secrets[experiment->secret_count++] = (struct env_entry){
            .name = key->text, .file = file->text, .line = key->line, .column = key->column};
    }
}

static bool stays_inside(const char *path)
{
    if (*path == '/' || *path == '\0') {
        return false;
    }
    while (*path) {
        size_t size = strcspn(path, "/");
        if (size == 2 && strncmp(path, "..", 2) == 0) {
            return false;
        }
        path += size + (path[size] == '/');
    }
    return true;
}

static void read_outputs(struct names *names, const struct ynode *node)
{
    struct experiment *experiment = names->experiment;
    size_t count = node->kind == YNODE_SEQUENCE ? node->count : 1;
    for (size_t i = 0; i < count; i++) {
        const struct ynode *item = node->kind == YNODE_SEQUENCE ? node->items[i] : node;
        if (item->kind != YNODE_SCALAR || stays_inside(item->text)) {
            continue;
        }
        diag_add(names->build->diags, item->line, item->column,
                 "outputs are relative to the task's output folder and stay in it, unlike '%.60s'",
                 item->text);
    }
    experiment->outputs =
        read_list(names, node, "outputs", TEMPLATE_PLAIN, &experiment->output_count);
}

static void compile_all(struct names *names, const struct ynode *node)
{
    struct build *build = names->build;
    read_env(names, node);
    read_secrets(names, node);
    const struct ynode *workdir = yaml_get(node, "workdir");
    if (workdir && build_text(build, workdir, "workdir")) {
        names->experiment->workdir = compile(names, TEMPLATE_PLAIN, workdir);
    }
    const struct ynode *outputs = yaml_get(node, "outputs");
    if (outputs) {
        read_outputs(names, outputs);
    }
}

void build_templates(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    bool runs_something = check_what_to_run(build, experiment, node);
    if (!experiment->space) {
        return; /* its parameters are unknown: every use of them would look wrong */
    }
    struct names names = {.build = build, .experiment = experiment};
    collect_names(&names);
    if (runs_something) {
        read_what_to_run(&names, node);
    }
    compile_all(&names, node);
    uint32_t *refs = arena_alloc(build->arena, names.ref_count * sizeof *refs);
    for (size_t i = 0; i < names.ref_count; i++) {
        refs[i] = names.refs[i];
    }
    experiment->output_refs = refs;
    experiment->output_ref_count = names.ref_count;
    free(names.sorted);
    free(names.words);
    free(names.refs);
}
