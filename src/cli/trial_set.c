#include "cli/trial_set.h"

#include "base/mem.h"
#include "search/pareto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 256, SEARCHES_MAX = 1000 }; /* what a recipe may have */

_Static_assert((int)TRIAL_SET_GOALS_MAX <= (int)PARETO_GOALS_MAX, "every front can be found");

double trial_number(const struct jnode *node)
{
    return node && node->kind == JREAD_NUMBER ? strtod(node->raw, NULL) : (double)NAN;
}

const struct jnode *trial_param(const struct trial *trial, const char *name)
{
    const struct jnode *value = jread_get(jread_get(trial->node, "params"), name);
    return value && value->kind != JREAD_NULL ? value : NULL;
}

bool trial_better(double a, double b, bool maximize)
{
    return maximize ? a > b : a < b;
}

const struct trial_search *trial_set_find(const struct trial_set *set, const char *experiment)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->searches[i].experiment, experiment) == 0) {
            return &set->searches[i];
        }
    }
    return NULL;
}

/* --- reading -----------------------------------------------------------------------------------
 */

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(*words, word) != 0) {
        words++;
    }
    return *words != NULL;
}

static struct trial read_trial(const struct jnode *node, size_t goal_count)
{
    static const char *const open[] = {"waiting", "queued", "assigned", "running", NULL};
    static const char *const good[] = {"succeeded", "stopped", NULL};
    struct trial trial = {.number = jread_u64(node, "trial", 0),
                          .state = jread_text(node, "state", "unknown"),
                          .reason = jread_text(node, "reason", ""),
                          .node = node};
    const struct jnode *value = jread_first(jread_get(node, "values"));
    trial.open = is_one_of(trial.state, open);
    trial.rated = trial.open || is_one_of(trial.state, good);
    for (size_t i = 0; i < goal_count; i++) {
        trial.values[i] = trial_number(value);
        trial.rated = trial.rated && isfinite(trial.values[i]);
        value = value ? value->next : NULL;
    }
    return trial;
}

/* Names end up in headings and pictures everywhere: what could steer a terminal is taken out once.
 */
static const char *clean(struct trial_set *set, const char *text)
{
    AUTO_STR struct str out = {0};
    jread_add_clean(&out, text);
    return arena_strndup(&set->arena, str_text(&out), out.size);
}

static void read_goals(struct trial_set *set, const struct jnode *node, struct trial_search *out)
{
    const struct jnode *goal = jread_first(jread_get(node, "goals"));
    const struct jnode *metric = jread_first(jread_get(node, "metrics"));
    for (; metric && out->goal_count < TRIAL_SET_GOALS_MAX; metric = metric->next) {
        out->metrics[out->goal_count] = clean(set, metric->text);
        out->maximize[out->goal_count++] = goal && strcmp(goal->text, "maximize") == 0;
        goal = goal ? goal->next : NULL;
    }
    if (out->goal_count == 0) {
        out->metrics[0] = "value";
        out->goal_count = 1;
    }
}

static bool has_column(const struct trial_column *columns, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(columns[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Parameters as described, then others in the order in which trials have them. */
static void find_columns(struct trial_set *set, struct trial_search *search)
{
    struct trial_column *columns = NULL;
    size_t count = 0;
    size_t cap = 0;
    const struct jnode *about = jread_first(jread_get(search->node, "parameters"));
    for (; about; about = about->next) {
        const char *name = jread_text(about, "name", "");
        if (name[0] && count < COLUMNS_MAX && !has_column(columns, count, name)) {
            VEC_PUSH(columns, count, cap) = (struct trial_column){name, about};
        }
    }
    for (size_t i = 0; i < search->count; i++) {
        const struct jnode *param = jread_first(jread_get(search->trials[i].node, "params"));
        for (; param && param->key && count < COLUMNS_MAX; param = param->next) {
            if (!has_column(columns, count, param->key)) {
                VEC_PUSH(columns, count, cap) = (struct trial_column){param->key, NULL};
            }
        }
    }
    search->columns = arena_alloc(&set->arena, (count > 0 ? count : 1) * sizeof *columns);
    search->column_count = count;
    for (size_t i = 0; i < count; i++) {
        search->columns[i] = columns[i];
    }
    free(columns);
}

/* --- order -------------------------------------------------------------------------------------
 */

static void mark_front(struct trial_search *search)
{
    struct pareto *front = pareto_create(search->maximize, search->goal_count, 0);
    for (size_t i = 0; i < search->count; i++) {
        if (search->trials[i].rated) {
            pareto_add(front, i, search->trials[i].values);
        }
    }
    for (size_t i = 0; i < pareto_count(front); i++) {
        search->trials[pareto_at(front, i).trial].best = true;
    }
    pareto_destroy(front);
}

static int rank(const struct trial *trial)
{
    return trial->rated ? (trial->best ? 0 : 1) : (trial->open ? 2 : 3);
}

static int compare(const void *left, const void *right, void *context)
{
    const struct trial *a = left;
    const struct trial *b = right;
    const struct trial_search *search = context;
    if (rank(a) != rank(b)) {
        return rank(a) - rank(b);
    }
    for (size_t i = 0; i < search->goal_count && a->rated; i++) {
        if (a->values[i] != b->values[i]) {
            return trial_better(a->values[i], b->values[i], search->maximize[i]) ? -1 : 1;
        }
    }
    return (a->number > b->number) - (a->number < b->number);
}

static void order(struct trial_search *search)
{
    if (search->goal_count > 1) {
        mark_front(search);
    }
    qsort_r(search->trials, search->count, sizeof *search->trials, compare, search);
    if (search->goal_count == 1 && search->count > 0) {
        search->trials[0].best = search->trials[0].rated;
    }
    for (size_t i = 0; i < search->count; i++) {
        search->rated += search->trials[i].rated;
        search->open += search->trials[i].open;
    }
}

static void read_search(struct trial_set *set, const struct jnode *node, const struct jnode *trials,
                        struct trial_search *out)
{
    const char *name = jread_text(node, "experiment", "");
    const struct jnode *item = NULL;
    size_t count = 0;
    *out = (struct trial_search){.experiment = clean(set, name), .node = node};
    read_goals(set, node, out);
    for (item = jread_first(trials); item; item = item->next) {
        count += strcmp(jread_text(item, "experiment", ""), name) == 0;
    }
    out->trials = arena_alloc(&set->arena, (count > 0 ? count : 1) * sizeof *out->trials);
    for (item = jread_first(trials); item; item = item->next) {
        if (strcmp(jread_text(item, "experiment", ""), name) == 0) {
            out->trials[out->count++] = read_trial(item, out->goal_count);
        }
    }
    find_columns(set, out);
    order(out);
}

void trial_set_read(const struct jnode *answer, struct trial_set *out)
{
    *out = (struct trial_set){0};
    out->workflow = clean(out, jread_text(answer, "id", ""));
    const struct jnode *list = jread_get(answer, "experiments");
    size_t count = list && list->count < SEARCHES_MAX ? list->count : SEARCHES_MAX;
    out->searches = arena_alloc(&out->arena, (count > 0 ? count : 1) * sizeof *out->searches);
    const struct jnode *node = jread_first(list);
    for (; node && out->count < count; node = node->next) {
        if (!trial_set_find(out, jread_text(node, "experiment", ""))) {
            read_search(out, node, jread_get(answer, "trials"), &out->searches[out->count]);
            out->count++;
        }
    }
}

void trial_set_release(struct trial_set *set)
{
    arena_release(&set->arena);
    *set = (struct trial_set){0};
}

static int compare_numbers(const void *left, const void *right, void *context)
{
    const struct trial *trials = context;
    uint64_t a = trials[*(const size_t *)left].number;
    uint64_t b = trials[*(const size_t *)right].number;
    return (a > b) - (a < b);
}

size_t *trial_set_by_number(const struct trial_search *search)
{
    size_t *order = mem_array(search->count, sizeof *order);
    for (size_t i = 0; i < search->count; i++) {
        order[i] = i;
    }
    qsort_r(order, search->count, sizeof *order, compare_numbers, search->trials);
    return order;
}
