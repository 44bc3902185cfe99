/* search:, metrics: and require: of an experiment. */
#include "recipe/expr.h"
#include "recipe/range.h"
#include "recipe/recipe_build.h"

#include <inttypes.h>
#include <string.h>

enum { PARALLEL_MAX = 1000000, ETA = 3, COST_SCALE_MAX = 6 };
static const int64_t COST_MAX_MICRO = INT64_C(1000000000) * 1000000;

static const char *const algorithm_names[RECIPE_ALGORITHM_COUNT] = {
    [RECIPE_AUTO] = "auto",     [RECIPE_GRID] = "grid", [RECIPE_RANDOM] = "random",
    [RECIPE_SOBOL] = "sobol",   [RECIPE_TPE] = "tpe",   [RECIPE_GP] = "gp",
    [RECIPE_CMA_ES] = "cma-es",
};

static const char *const early_names[RECIPE_EARLY_COUNT] = {
    [RECIPE_EARLY_NONE] = "none",
    [RECIPE_EARLY_ASHA] = "asha",
    [RECIPE_EARLY_MEDIAN] = "median",
    [RECIPE_EARLY_STABILISED] = "stabilised",
};

const char *recipe_algorithm_name(enum recipe_algorithm algorithm)
{
    CHECK(algorithm < RECIPE_ALGORITHM_COUNT);
    return algorithm_names[algorithm];
}

const char *recipe_early_name(enum recipe_early early)
{
    CHECK(early < RECIPE_EARLY_COUNT);
    return early_names[early];
}

/* --- words and numbers -------------------------------------------------------------------------
 */

/* Which of the words this is; -1 after a diagnosis. */
static int read_word(struct build *build, const struct ynode *node, const char *what,
                     const char *const *words, size_t count)
{
    const char *text = build_text(build, node, what);
    for (size_t i = 0; text && i < count; i++) {
        if (strcmp(words[i], text) == 0) {
            return (int)i;
        }
    }
    if (!text) {
        return -1;
    }
    const char *hint = build_hint(build, text, words, count);
    AUTO_STR struct str all = {0};
    for (size_t i = 0; i < count; i++) {
        str_addf(&all, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", words[i]);
    }
    if (hint) {
        diag_add(build->diags, node->line, node->column,
                 "%s must be %s, not '%.60s' (did you mean '%s'?)", what, str_text(&all), text,
                 hint);
    } else {
        diag_add(build->diags, node->line, node->column, "%s must be %s, not '%.60s'", what,
                 str_text(&all), text);
    }
    return -1;
}

/* "5 USD". */
static bool parse_cost(const char *text, int64_t *out_micro, const char **currency)
{
    struct decimal amount;
    size_t size = decimal_parse(text, &amount);
    if (size == 0 || !amount.exact || amount.scale > COST_SCALE_MAX || amount.digits <= 0) {
        return false;
    }
    int64_t micro = amount.digits;
    for (int i = amount.scale; i < COST_SCALE_MAX; i++) {
        if (micro > COST_MAX_MICRO / 10) {
            return false;
        }
        micro *= 10;
    }
    text += size;
    text += strspn(text, " ");
    if (strlen(text) != RECIPE_CURRENCY_MAX ||
        strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != RECIPE_CURRENCY_MAX) {
        return false;
    }
    *out_micro = micro;
    *currency = text;
    return micro <= COST_MAX_MICRO;
}

static void require_mapping(struct build *build, const struct ynode *node, const char *what,
                            const char *example)
{
    diag_add(build->diags, node->line, node->column, "%s must be a mapping such as %s", what,
             example);
}

/* --- goals -------------------------------------------------------------------------------------
 */

static bool is_metric_name(const char *text)
{
    size_t size = 0;
    for (; text[size]; size++) {
        if ((unsigned char)text[size] < 0x20 || text[size] == 0x7f) {
            return false;
        }
    }
    return size > 0 && size <= RECIPE_METRIC_MAX && text[0] != ' ' && text[size - 1] != ' ';
}

static void add_metric(struct build *build, struct search_spec *search, const struct ynode *node)
{
    const char *name = build_text(build, node, "metric");
    if (name && !is_metric_name(name)) {
        diag_add(build->diags, node->line, node->column,
                 "metric must be the name of a metric, of at most %d bytes", RECIPE_METRIC_MAX);
        return;
    }
    for (size_t i = 0; name && i < search->goal_count; i++) {
        if (strcmp(search->goals[i].metric, name) == 0) {
            diag_add(build->diags, node->line, node->column, "metric '%.60s' is listed twice",
                     name);
            return;
        }
    }
    if (name) {
        search->goals[search->goal_count++].metric = name;
    }
}

static void read_metric(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    size_t count = node->kind == YNODE_SEQUENCE ? node->count : 1;
    if (count == 0 || count > RECIPE_GOALS_MAX) {
        diag_add(build->diags, node->line, node->column, "metric lists 1 to %d names",
                 RECIPE_GOALS_MAX);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        add_metric(build, experiment->search, node->kind == YNODE_SEQUENCE ? node->items[i] : node);
    }
}

/* After metric:, for there must be as many. One word holds for all. */
static void read_goal(struct build *build, struct search_spec *search, const struct ynode *metric,
                      const struct ynode *node)
{
    static const char *const words[] = {"minimize", "maximize", "minimise", "maximise"};
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t metrics = metric->kind == YNODE_SEQUENCE ? metric->count : 1;
    if (is_list && node->count != metrics) {
        diag_add(build->diags, node->line, node->column,
                 "goal lists %zu words for %zu metrics; give one for each, or one for all",
                 node->count, metrics);
        return;
    }
    int word = 0;
    for (size_t i = 0; i < (is_list ? metrics : 1); i++) {
        word = read_word(build, is_list ? node->items[i] : node, "goal", words, 4);
        if (i < search->goal_count) {
            search->goals[i].maximize = word == 1 || word == 3;
        }
    }
    for (size_t i = 1; i < search->goal_count && !is_list; i++) {
        search->goals[i].maximize = search->goals[0].maximize;
    }
}

/* --- stop: and early_stop: ---------------------------------------------------------------------
 */

static void read_target(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    struct recipe_stop *stop = &experiment->search->stop;
    stop->has_target = yaml_as_double(node, &stop->target);
    if (!stop->has_target || !(stop->target - stop->target == 0)) {
        diag_add(build->diags, node->line, node->column,
                 "target must be a number: the value of the metric that is good enough");
    }
}

static void read_patience(struct build *build, struct experiment *experiment,
                          const struct ynode *node)
{
    build_count(build, node, "patience", 1, RECIPE_TRIALS_MAX, &experiment->search->stop.patience);
}

static void read_cost(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    struct recipe_stop *stop = &experiment->search->stop;
    if (node->kind != YNODE_SCALAR || !parse_cost(node->text, &stop->cost_micro, &stop->currency)) {
        diag_add(build->diags, node->line, node->column,
                 "cost must be an amount above 0 with its currency, such as 5 USD or 0.25 EUR");
    }
}

static void read_time(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_duration(build, node, "time", &experiment->search->stop.time_ms);
}

static void read_stop(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    static const struct build_key keys[] = {{"target", read_target},
                                            {"patience", read_patience},
                                            {"cost", read_cost},
                                            {"time", read_time},
                                            {NULL, NULL}};
    if (node->kind != YNODE_MAPPING) {
        require_mapping(build, node, "stop", "{target: 0.99, patience: 50, time: 2h}");
        return;
    }
    build_read_keys(build, experiment, node, keys);
}

static void read_early_algorithm(struct build *build, struct experiment *experiment,
                                 const struct ynode *node)
{
    static const char *const words[] = {"asha", "median", "stabilised", "stabilized"};
    int word = read_word(build, node, "early_stop: algorithm", words, 4);
    if (word >= 0) {
        experiment->search->early.algorithm =
            word == 3 ? RECIPE_EARLY_STABILISED : (enum recipe_early)(RECIPE_EARLY_ASHA + word);
    }
}

static void read_resource(struct build *build, struct experiment *experiment,
                          const struct ynode *node)
{
    const char *name = build_text(build, node, "resource");
    if (name && !is_metric_name(name)) {
        diag_add(build->diags, node->line, node->column,
                 "resource must be a name such as epoch or step, of at most %d bytes",
                 RECIPE_METRIC_MAX);
    } else if (name) {
        experiment->search->early.resource = name;
    }
}

static void read_min(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_count(build, node, "min", 1, RECIPE_RESOURCE_MAX, &experiment->search->early.min);
}

static void read_max(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    build_count(build, node, "max", 1, RECIPE_RESOURCE_MAX, &experiment->search->early.max);
}

static void read_eta(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    uint64_t eta = 0;
    if (build_count(build, node, "eta", 2, RECIPE_ETA_MAX, &eta)) {
        experiment->search->early.eta = (uint32_t)eta;
    }
}

static void read_brackets(struct build *build, struct experiment *experiment,
                          const struct ynode *node)
{
    uint64_t brackets = 0;
    if (build_count(build, node, "brackets", 1, RECIPE_BRACKETS_MAX, &brackets)) {
        experiment->search->early.brackets = (uint32_t)brackets;
    }
}

/* min, min * eta, ... as far as they lie below max, and max. */
static uint32_t count_rungs(const struct recipe_early_stop *early)
{
    uint32_t count = 1;
    for (uint64_t resource = early->min; resource < early->max; resource *= early->eta) {
        count++;
    }
    return count;
}

/* What only asha needs, once all of early_stop: is read. */
static void check_early(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    struct recipe_early_stop *early = &experiment->search->early;
    static const char *const only_asha[] = {"eta", "brackets"};
    for (size_t i = 0; i < 2; i++) {
        const struct ynode *key = yaml_get(node, only_asha[i]);
        if (key && early->algorithm != RECIPE_EARLY_ASHA && early->algorithm > 0) {
            diag_add(build->diags, key->line, key->column, "%s goes with asha, not with %s",
                     only_asha[i], early_names[early->algorithm]);
        }
    }
    if (early->algorithm == RECIPE_EARLY_ASHA && early->max == 0) {
        diag_add(build->diags, node->line, node->column,
                 "asha needs max:, how far a trial may go at most, such as max: 27");
    } else if (early->max > 0 && early->max < early->min) {
        const struct ynode *at = yaml_get(node, "max");
        diag_add(build->diags, at->line, at->column, "max is less than min");
    } else if (early->algorithm == RECIPE_EARLY_ASHA) {
        experiment->search->rungs_max = count_rungs(early);
    }
    if (early->algorithm == RECIPE_EARLY_ASHA && early->brackets > experiment->search->rungs_max &&
        early->max > 0) {
        const struct ynode *at = yaml_get(node, "brackets");
        diag_add(build->diags, at->line, at->column,
                 "there are more brackets than the %" PRIu32 " rungs from min to max",
                 experiment->search->rungs_max);
    }
}

static void read_early_stop(struct build *build, struct experiment *experiment,
                            const struct ynode *node)
{
    static const struct build_key keys[] = {{"algorithm", read_early_algorithm},
                                            {"resource", read_resource},
                                            {"min", read_min},
                                            {"max", read_max},
                                            {"eta", read_eta},
                                            {"brackets", read_brackets},
                                            {NULL, NULL}};
    if (node->kind == YNODE_SCALAR) {
        read_early_algorithm(build, experiment, node);
    } else if (node->kind == YNODE_MAPPING && yaml_get(node, "algorithm")) {
        build_read_keys(build, experiment, node, keys);
    } else {
        require_mapping(build, node, "early_stop",
                        "{algorithm: asha, resource: epoch, min: 1, max: 27}");
        return;
    }
    check_early(build, experiment, node);
}

/* --- search: -----------------------------------------------------------------------------------
 */

static void read_algorithm(struct build *build, struct experiment *experiment,
                           const struct ynode *node)
{
    int word = read_word(build, node, "algorithm", algorithm_names, RECIPE_ALGORITHM_COUNT);
    experiment->search->algorithm = word >= 0 ? (enum recipe_algorithm)word : RECIPE_AUTO;
}

static void read_trials(struct build *build, struct experiment *experiment,
                        const struct ynode *node)
{
    if (!build_count(build, node, "trials", 1, RECIPE_TRIALS_MAX, &experiment->search->trials)) {
        experiment->search->trials = 1; /* one diagnosis is enough */
    }
}

static void read_parallel(struct build *build, struct experiment *experiment,
                          const struct ynode *node)
{
    uint64_t count = 0;
    if (build_count(build, node, "parallel", 1, PARALLEL_MAX, &count)) {
        experiment->search->parallel = (uint32_t)count;
    }
}

static void read_repeats(struct build *build, struct experiment *experiment,
                         const struct ynode *node)
{
    build_bool(build, node, "repeats", &experiment->search->repeats);
}

static void read_seed(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    experiment->search->has_seed =
        build_count(build, node, "seed", 0, INT64_MAX, &experiment->search->seed);
}

static void read_warm_start(struct build *build, struct experiment *experiment,
                            const struct ynode *node)
{
    struct search_spec *search = experiment->search;
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t count = is_list ? node->count : 1;
    if (count > RECIPE_WARM_STARTS_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d workflows to start from",
                 RECIPE_WARM_STARTS_MAX);
        return;
    }
    search->warm_starts = arena_alloc(build->arena, count * sizeof *search->warm_starts);
    for (size_t i = 0; i < count; i++) {
        const char *id = build_text(build, is_list ? node->items[i] : node, "warm_start");
        if (id && (strchr(id, '/') || strlen(id) > RECIPE_NAME_MAX)) {
            diag_add(build->diags, node->line, node->column,
                     "warm_start must be the id of a workflow, unlike '%.60s'", id);
        } else if (id) {
            search->warm_starts[search->warm_start_count++] = id;
        }
    }
}

/* metric: and goal: go together and are read apart. */
static const struct build_key search_keys[] = {
    {"algorithm", read_algorithm},
    {"metric", NULL},
    {"goal", NULL},
    {"trials", read_trials},
    {"parallel", read_parallel},
    {"stop", read_stop},
    {"early_stop", read_early_stop},
    {"repeats", read_repeats},
    {"seed", read_seed},
    {"warm_start", read_warm_start},
    {NULL, NULL},
};

static void read_goals(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    const struct ynode *metric = yaml_get(node, "metric");
    const struct ynode *goal = yaml_get(node, "goal");
    if (!metric || !goal) {
        diag_add(build->diags, experiment->search->line, experiment->search->column, "%s",
                 !metric ? "search needs metric:, the name of what is to be made best"
                         : "search needs goal: minimize or maximize");
        return;
    }
    read_metric(build, experiment, metric);
    read_goal(build, experiment->search, metric, goal);
    if (metric->kind != YNODE_SEQUENCE || metric->count < 2) {
        return;
    }
    const struct ynode *early = yaml_get(node, "early_stop");
    const struct ynode *target = yaml_get(yaml_get(node, "stop"), "target");
    const struct ynode *at = target ? target : early;
    if (at) {
        diag_add(build->diags, at->line, at->column, "%s needs a search with a single metric",
                 target ? "target" : "early_stop");
    }
}

static const struct ynode *key_of(const struct ynode *mapping, const char *name)
{
    size_t at = 0;
    while (strcmp(mapping->keys[at]->text, name) != 0) {
        at++;
    }
    return mapping->keys[at];
}

void build_search(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    const struct ynode *search = yaml_get(node, "search");
    if (!search) {
        return;
    }
    const struct ynode *key = key_of(node, "search");
    experiment->search = arena_alloc(build->arena, sizeof *experiment->search);
    *experiment->search =
        (struct search_spec){.line = key->line,
                             .column = key->column,
                             .rungs_max = 1,
                             .early = {.resource = "step", .min = 1, .eta = ETA, .brackets = 1}};
    if (search->kind != YNODE_MAPPING) {
        experiment->search->trials = 1; /* one diagnosis is enough */
        require_mapping(build, search, "search", "{metric: accuracy, goal: maximize, trials: 100}");
        return;
    }
    build_read_keys(build, experiment, search, search_keys);
    read_goals(build, experiment, search);
    const struct ynode *samples = yaml_get(node, "samples");
    if (samples) {
        diag_add(build->diags, samples->line, samples->column,
                 "samples: and search: do not go together; trials: says how many are tried");
    }
    if (experiment->search->early.algorithm == RECIPE_EARLY_ASHA && !yaml_get(node, "checkpoint")) {
        experiment->checkpoint = true; /* a trial that goes on does not start again */
    }
}

bool build_count_trials(struct experiment *experiment, struct diag_list *diags)
{
    struct search_spec *search = experiment->search;
    const char *continuous = NULL;
    uint64_t size = 0;
    struct err err = {0};
    if (space_param_count(experiment->space) == 0) {
        diag_add(diags, search->line, search->column, "search needs parameters: to choose");
        return false;
    }
    if (search->trials == 0 && (search->algorithm != RECIPE_GRID ||
                                space_has_continuous(experiment->space, &continuous))) {
        diag_add(diags, search->line, search->column,
                 "search needs trials:, how many to try at most");
        return false;
    }
    if (search->trials == 0) {
        bool counted = space_grid_size(experiment->space, &size, &err) == ERR_OK;
        if (!counted || size > RECIPE_TRIALS_MAX) {
            diag_add(diags, search->line, search->column,
                     "the grid has more than %d combinations; say with trials: how many to try",
                     RECIPE_TRIALS_MAX);
            return false;
        }
        search->trials = size;
    }
    experiment->task_count = search->trials * search->rungs_max * experiment->gang;
    if (experiment->task_count > RECIPE_TASKS_MAX) {
        diag_add(diags, search->line, search->column,
                 "%" PRIu64 " trials may become %" PRIu64 " tasks, more than %d", search->trials,
                 experiment->task_count, RECIPE_TASKS_MAX);
        return false;
    }
    return true;
}

/* --- require: and metrics: ---------------------------------------------------------------------
 */

void build_require(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    const struct ynode *require = yaml_get(node, "require");
    if (!require) {
        return;
    }
    if (!experiment->search) {
        const struct ynode *key = key_of(node, "require");
        diag_add(build->diags, key->line, key->column,
                 "require: is for experiments with search:; a grid is thinned by when:");
        return;
    }
    bool is_list = require->kind == YNODE_SEQUENCE;
    size_t count = is_list ? require->count : 1;
    size_t params = space_param_count(experiment->space);
    if (count > RECIPE_REQUIRES_MAX) {
        diag_add(build->diags, require->line, require->column, "more than %d conditions",
                 RECIPE_REQUIRES_MAX);
        return;
    }
    const char **names = arena_alloc(build->arena, params * sizeof *names);
    for (size_t i = 0; i < params; i++) {
        names[i] = space_param_name(experiment->space, i);
    }
    struct search_spec *search = experiment->search;
    search->requires = arena_alloc(build->arena, count * sizeof(struct expr *));
    for (size_t i = 0; i < count; i++) {
        struct expr *expr = expr_compile(build->arena, is_list ? require->items[i] : require, names,
                                         params, build->diags);
        if (expr) {
            search->requires[search->require_count++] = expr;
        }
    }
}

void build_metrics(struct build *build, struct experiment *experiment, const struct ynode *node)
{
    bool is_list = node->kind == YNODE_SEQUENCE;
    size_t count = is_list ? node->count : 1;
    if (count > RECIPE_METRICS_MAX) {
        diag_add(build->diags, node->line, node->column, "more than %d patterns",
                 RECIPE_METRICS_MAX);
        return;
    }
    experiment->metrics = arena_alloc(build->arena, count * sizeof *experiment->metrics);
    for (size_t i = 0; i < count; i++) {
        const struct ynode *item = is_list ? node->items[i] : node;
        const char *text = build_text(build, item, "metrics");
        if (text && (strlen(text) > RECIPE_PATTERN_MAX || strpbrk(text, "\n\r"))) {
            diag_add(build->diags, item->line, item->column,
                     "a pattern of metrics: is one line of at most %d bytes", RECIPE_PATTERN_MAX);
        } else if (text) {
            experiment->metrics[experiment->metric_count++] = (struct metric_pattern){
                .text = text, .line = item->text_line, .column = item->text_column};
        }
    }
}
