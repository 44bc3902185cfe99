#include "master/trials_json.h"

#include "base/json.h"
#include "base/mem.h"
#include "master/trials_book.h"
#include "master/words.h"
#include "recipe/dims.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum { LISTED_MAX = 64, TRIES = 64 }; /* values of a parameter that are listed */

static void add_text_or_null(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    if (text && text[0]) {
        json_text(json, text);
    } else {
        json_null(json);
    }
}

/* A bound that a parameter may not have. */
static void add_bound(struct json *json, const char *key, bool known, double number)
{
    json_key(json, key);
    if (known) {
        json_double(json, number); /* null where it is infinite */
    } else {
        json_null(json);
    }
}

/* --- parameters --------------------------------------------------------------------------------
 */

static const char *kind_name(enum dims_kind kind)
{
    switch (kind) {
    case DIMS_UNIFORM:
        return "uniform";
    case DIMS_LOG:
        return "log";
    case DIMS_NORMAL:
        return "normal";
    case DIMS_CATEGORICAL:
        return "categorical";
    case DIMS_ORDERED:
        return "ordered";
    case DIMS_FIXED:
        break;
    }
    return "fixed";
}

static size_t find_param(const struct space *space, const char *name)
{
    size_t param = 0;
    while (param < space_param_count(space) && strcmp(space_param_name(space, param), name) != 0) {
        param++;
    }
    return param;
}

/* Some points where a dimension is there; false: none was found. */
static bool find_present(const struct dims *dims, size_t dim, struct dims_point *points)
{
    for (uint64_t key = 0; key < TRIES; key++) {
        dims_example(dims, key, points);
        if (points[dim].present) {
            return true;
        }
    }
    return false;
}

/* Its values in the recipe's order, each as the text that `params` of a trial has, without the
 * quotes of a text. */
static void add_values(struct json *json, const struct dims *dims, size_t dim,
                       const struct space *space, size_t param)
{
    const struct dims_dim *about = dims_at(dims, dim);
    bool named =
        about->kind == DIMS_CATEGORICAL || about->kind == DIMS_ORDERED || about->kind == DIMS_FIXED;
    struct dims_point points[SPACE_PARAMS_MAX];
    struct value values[SPACE_PARAMS_MAX];
    struct arena scratch = {0};
    json_key(json, "values");
    if (!named || about->count == 0 || about->count > LISTED_MAX ||
        param == space_param_count(space) || !find_present(dims, dim, points)) {
        json_null(json);
        return;
    }
    json_array(json);
    for (uint64_t i = 0; i < about->count; i++) {
        AUTO_STR struct str text = {0};
        struct json value = {.out = &text};
        points[dim].index = i;
        dims_arguments(dims, points, values, &scratch);
        bool plain = values[param].kind == VALUE_TEXT || values[param].kind == VALUE_FILES;
        if (!plain) {
            value_add_json(&value, &values[param]);
        }
        json_text(json, plain ? values[param].text : str_text(&text));
    }
    json_end(json);
    arena_release(&scratch);
}

/* Each dimension is a parameter; a group of parameters that move together is left to be inferred
 * from the trials. */
static void add_parameters(struct json *json, const struct experiment *experiment)
{
    struct arena arena = {0};
    const struct space *space = experiment->space;
    const struct dims *dims = dims_create(&arena, space);
    json_key(json, "parameters");
    json_array(json);
    for (size_t i = 0; i < dims_count(dims); i++) {
        const struct dims_dim *dim = dims_at(dims, i);
        size_t param = find_param(space, dim->name);
        bool range = dim->kind == DIMS_UNIFORM || dim->kind == DIMS_LOG || dim->kind == DIMS_NORMAL;
        if (param == space_param_count(space)) {
            continue;
        }
        json_object(json);
        json_key(json, "name");
        json_text(json, dim->name);
        json_key(json, "kind");
        json_text(json, kind_name(dim->kind));
        add_bound(json, "low", range, dim->low);
        add_bound(json, "high", range, dim->high);
        add_bound(json, "step", range && dim->count > 0, dim->step);
        add_values(json, dims, i, space, param);
        json_end(json);
    }
    json_end(json);
    arena_release(&arena);
}

/* --- experiments -------------------------------------------------------------------------------
 */

static void add_goals(struct json *json, const struct search_spec *search)
{
    json_key(json, "metrics");
    json_array(json);
    for (size_t i = 0; i < search->goal_count; i++) {
        json_text(json, search->goals[i].metric);
    }
    json_end(json);
    json_key(json, "goals");
    json_array(json);
    for (size_t i = 0; i < search->goal_count; i++) {
        json_text(json, search->goals[i].maximize ? "maximize" : "minimize");
    }
    json_end(json);
}

static void add_search(struct json *json, const struct experiment *experiment,
                       const struct book_search *book)
{
    const struct search_spec *search = experiment->search;
    json_object(json);
    json_key(json, "experiment");
    json_text(json, experiment->name);
    json_key(json, "algorithm");
    json_text(json, recipe_algorithm_name(search->algorithm));
    add_text_or_null(json, "chosen", book->chosen);
    add_text_or_null(json, "why", book->why);
    add_goals(json, search);
    json_key(json, "seed");
    if (book->begun) {
        json_u64(json, book->seed);
    } else {
        json_null(json);
    }
    json_key(json, "trials");
    json_u64(json, search->trials);
    bool limited = search->early.algorithm != RECIPE_EARLY_NONE;
    add_text_or_null(json, "resource", limited ? search->early.resource : NULL);
    json_key(json, "warm");
    json_u64(json, book->warm);
    add_text_or_null(json, "closed", book->closed);
    add_parameters(json, experiment);
    json_end(json);
}

/* --- trials ------------------------------------------------------------------------------------
 */

/* One of which the log does not know the end: as its task stands. What it came to may be known to
 * the core a moment before it is a result. */
static const char *task_state(const struct flow *flow, const struct core *core, uint32_t experiment,
                              uint64_t task)
{
    struct core_experiment_view all;
    struct core_task_view view;
    core_experiment_view(core, flow->number, experiment, &all);
    if (task >= all.tasks) {
        return "queued"; /* suggested, and not yet a task */
    }
    core_task_view(core, flow->number, experiment, task, &view);
    bool told =
        view.state == TASK_SUCCEEDED || view.state == TASK_FAILED || view.state == TASK_ASSIGNED;
    return told ? "running" : words_task_state(view.state);
}

static void add_values_of(struct json *json, const struct book_trial *trial, size_t goal_count)
{
    double only = trial->has_result && trial->value_count > 0 ? trial->values[0] : (double)NAN;
    json_key(json, "value");
    json_double(json, goal_count == 1 ? only : (double)NAN);
    json_key(json, "values");
    json_array(json);
    for (size_t i = 0; i < goal_count; i++) {
        json_double(json,
                    trial->has_result && i < trial->value_count ? trial->values[i] : (double)NAN);
    }
    json_end(json);
}

static void add_trial(struct json *json, const struct experiment *experiment,
                      const struct book_trial *trial, const char *state)
{
    json_object(json);
    json_key(json, "experiment");
    json_text(json, experiment->name);
    json_key(json, "trial");
    json_u64(json, trial->trial);
    json_key(json, "state");
    json_text(json, state);
    json_key(json, "params");
    json_raw(json, trial->params, strlen(trial->params));
    json_key(json, "metrics");
    json_raw(json, trial->metrics, strlen(trial->metrics));
    add_values_of(json, trial, experiment->search->goal_count);
    json_key(json, "rung");
    json_u64(json, trial->rung);
    json_key(json, "budget");
    if (trial->has_budget) {
        json_u64(json, trial->budget);
    } else {
        json_null(json);
    }
    json_key(json, "task");
    json_u64(json, trial->task);
    json_key(json, "value_task");
    if (trial->has_result) {
        json_u64(json, trial->result_task);
    } else {
        json_null(json);
    }
    json_key(json, "step");
    json_double(json, trial->has_step ? trial->step : (double)NAN);
    add_text_or_null(json, "reason", trial->ended ? trial->reason : NULL);
    words_json_time(json, "suggested_at", trial->suggested_ms);
    words_json_time(json, "finished_at", trial->ended ? trial->finished_ms : 0);
    json_end(json);
}

static void add_trials(struct json *json, const struct flow *flow, const struct core *core,
                       uint32_t number, const struct book_search *search)
{
    const struct experiment *experiment = &flow->recipe->experiments[number];
    for (size_t i = 0; i < search->count; i++) {
        const struct book_trial *trial = &search->trials[i];
        add_trial(json, experiment, trial,
                  trial->ended ? trials_state_name(trial->state)
                               : task_state(flow, core, number, trial->task));
    }
}

static bool is_wanted(const struct experiment *experiment, const char *name)
{
    return experiment->search && (!name || strcmp(experiment->name, name) == 0);
}

static enum err_code check_size(const char *folder, size_t bytes_max, struct err *err)
{
    AUTO_STR struct str path = {0};
    struct stat info;
    trials_add_path(&path, folder);
    if (stat(str_text(&path), &info) == 0 && (uintmax_t)info.st_size > bytes_max) {
        return err_set(err, ERR_QUOTA, "%s: %jd bytes are too many to be read at once",
                       str_text(&path), (intmax_t)info.st_size);
    }
    return ERR_OK;
}

enum err_code trials_json_write(const struct flow *flow, const struct core *core,
                                const struct trials_json_options *options, struct str *out,
                                struct err *err)
{
    const struct recipe *recipe = flow->recipe;
    struct book book = {0};
    enum err_code code = check_size(flow->folder, options->bytes_max, err);
    code = code == ERR_OK ? book_read(&book, recipe, flow->folder, err) : code;
    if (code == ERR_OK) {
        struct json json = {.out = out};
        json_object(&json);
        json_key(&json, "id");
        json_text(&json, flow->id);
        json_key(&json, "experiments");
        json_array(&json);
        for (uint32_t e = 0; e < recipe->experiment_count; e++) {
            if (is_wanted(&recipe->experiments[e], options->experiment)) {
                add_search(&json, &recipe->experiments[e], &book.searches[e]);
            }
        }
        json_end(&json);
        json_key(&json, "trials");
        json_array(&json);
        for (uint32_t e = 0; e < recipe->experiment_count; e++) {
            if (is_wanted(&recipe->experiments[e], options->experiment)) {
                add_trials(&json, flow, core, e, &book.searches[e]);
            }
        }
        json_end(&json);
        json_end(&json);
    }
    book_release(&book);
    return code;
}
