#include "search/search.h"

#include "base/mem.h"
#include "search/search_state.h"

#include <math.h>
#include <string.h>

enum { RANDOM_TRIES = 64, CONSTRAINED_TRIES = 20000, LEVELS_MAX = 1000, LEVELS_DEFAULT = 10 };

static const char *const NAMES[] = {
    [SEARCH_GRID] = "grid", [SEARCH_RANDOM] = "random", [SEARCH_SOBOL] = "sobol",
    [SEARCH_TPE] = "tpe",   [SEARCH_GP] = "gp",         [SEARCH_CMA_ES] = "cma-es",
    [SEARCH_AUTO] = "auto",
};

const char *search_algorithm_name(enum search_algorithm algorithm)
{
    return NAMES[algorithm];
}

bool search_algorithm_find(const char *name, enum search_algorithm *out)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(NAMES[i], name) == 0) {
            *out = (enum search_algorithm)i;
            return true;
        }
    }
    return false;
}

/* As many levels as keep the grid within the planned trials, at least 2. */
static uint32_t choose_levels(const struct search *search, const struct search_options *options)
{
    if (options->levels > 0 || search->space.discrete || options->algorithm != SEARCH_GRID) {
        return options->levels > 0 ? options->levels : 1;
    }
    if (options->trials == 0) {
        return LEVELS_DEFAULT;
    }
    uint32_t levels = 2;
    while (levels < LEVELS_MAX &&
           domain_rank_count(&search->space, levels + 1) <= options->trials) {
        levels++;
    }
    return levels;
}

static enum err_code check_options(const struct search_options *options, struct err *err)
{
    if (options->param_count > SEARCH_PARAMS_MAX) {
        return err_set(err, ERR_INVALID, "search: more than %d parameters", SEARCH_PARAMS_MAX);
    }
    if (options->goal_count < 1 || options->goal_count > SEARCH_GOALS_MAX) {
        return err_set(err, ERR_INVALID, "search: there must be 1 to %d goals", SEARCH_GOALS_MAX);
    }
    return ERR_OK;
}

struct search *search_create(const struct search_options *options, struct err *err)
{
    struct domain space = {0};
    if (check_options(options, err) != ERR_OK || domain_init(&space, options, err) != ERR_OK) {
        return NULL;
    }
    struct search *search = mem_alloc(sizeof *search);
    search->space = space;
    search->goal_count = options->goal_count;
    memcpy(search->goals, options->goals, options->goal_count * sizeof options->goals[0]);
    search->algorithm = options->algorithm;
    search->seed = options->seed;
    search->trials_planned = options->trials;
    search->parallel = options->parallel;
    search->repeats = options->repeats;
    search->levels = choose_levels(search, options);
    search->rank_count = UINT64_MAX;
    if (space.discrete || options->algorithm == SEARCH_GRID) {
        search->rank_count = domain_rank_count(&search->space, search->levels);
    }
    search->sobol = sobol_create(space.count);
    if (options->algorithm == SEARCH_GP || options->algorithm == SEARCH_AUTO) {
        search->gp = gp_create(search);
    }
    if (options->algorithm == SEARCH_CMA_ES) {
        search->cma = cma_create(search);
    }
    return search;
}

void search_destroy(struct search *search)
{
    if (!search) {
        return;
    }
    domain_release(&search->space);
    free(search->points);
    free(search->results);
    free(search->states);
    free(search->told);
    free(search->running);
    free(search->visited);
    sobol_destroy(search->sobol);
    gp_destroy(search->gp);
    cma_destroy(search->cma);
    free(search);
}

struct rng search_stream(const struct search *search, uint64_t purpose)
{
    return (struct rng){rng_mix(search->seed, search->trial_count, purpose)};
}

void search_settle(const struct search *search, double *point, struct rng *rng)
{
    const struct domain *space = &search->space;
    struct search_value values[SEARCH_PARAMS_MAX];
    for (size_t i = 0; i < space->count; i++) {
        if (isnan(point[i])) {
            point[i] = domain_draw(&space->dims[i], rng);
        }
    }
    domain_values(space, point, values);
    domain_point(space, values, point);
}

bool search_is_open(const struct search *search, const double *point)
{
    const struct domain *space = &search->space;
    if (space->allowed) {
        struct search_value values[SEARCH_PARAMS_MAX];
        double safe[SEARCH_PARAMS_MAX];
        for (size_t i = 0; i < space->count; i++) {
            safe[i] = isnan(point[i]) ? 0 : point[i];
        }
        domain_values(space, safe, values);
        if (!space->allowed(space->arg, values)) {
            return false;
        }
    }
    return search->repeats || !visited_has(search, point);
}

bool search_draw_open(const struct search *search, struct rng *rng, size_t tries, double *point)
{
    for (size_t try = 0; try < tries; try++) {
        for (size_t i = 0; i < search->space.count; i++) {
            point[i] = domain_draw(&search->space.dims[i], rng);
        }
        search_settle(search, point, rng);
        if (search_is_open(search, point)) {
            return true;
        }
    }
    return false;
}

void search_sobol_point(const struct search *search, uint64_t index, struct rng *rng, double *point)
{
    for (size_t i = 0; i < search->space.count; i++) {
        point[i] =
            domain_at_unit(&search->space.dims[i], sobol_at(search->sobol, search->seed, index, i));
    }
    search_settle(search, point, rng);
}

static bool sobol_ask(const struct search *search, double *point)
{
    struct rng rng = search_stream(search, 1);
    search_sobol_point(search, search->trial_count, &rng, point);
    return search_is_open(search, point);
}

static bool propose(struct search *search, double *point)
{
    switch (search_choice(search)) {
    case SEARCH_SOBOL:
        return sobol_ask(search, point);
    case SEARCH_TPE:
        return tpe_ask(search, point);
    case SEARCH_GP:
        return gp_ask(search, point);
    case SEARCH_CMA_ES:
        return cma_ask(search, point);
    case SEARCH_GRID:
    case SEARCH_RANDOM:
    case SEARCH_AUTO:
        break;
    }
    return false;
}

/* A point in the end: what the algorithm proposes, else a random one, else the next that is left.
 */
static enum err_code find_point(struct search *search, double *point, struct err *err)
{
    if (propose(search, point)) {
        return ERR_OK;
    }
    struct rng rng = search_stream(search, 2);
    bool scannable = search->rank_count != UINT64_MAX;
    size_t tries = scannable ? RANDOM_TRIES : CONSTRAINED_TRIES;
    if (search->algorithm != SEARCH_GRID && search_draw_open(search, &rng, tries, point)) {
        return ERR_OK;
    }
    enum err_code code = visited_scan(search, point);
    if (code == ERR_NOT_FOUND) {
        return err_set(err, code, "search: all combinations have been suggested");
    }
    if (code != ERR_OK) {
        return err_set(err, code, "search: found no combination that meets the constraints");
    }
    return ERR_OK;
}

enum err_code search_ask(struct search *search, struct search_trial *out, struct err *err)
{
    if (search->trial_count >= SEARCH_TRIALS_MAX) {
        return err_set(err, ERR_QUOTA, "search: %d trials are the most", SEARCH_TRIALS_MAX);
    }
    double point[SEARCH_PARAMS_MAX];
    enum err_code code = find_point(search, point, err);
    if (code != ERR_OK) {
        return code;
    }
    for (size_t i = 0; i < search->space.count; i++) {
        point[i] = isnan(point[i]) ? 0 : point[i];
    }
    domain_values(&search->space, point, out->values);
    out->number = search->trial_count;
    return search_suggested(search, out, err);
}

static void reserve_trial(struct search *search)
{
    if (search->trial_count < search->trial_cap) {
        return;
    }
    search->trial_cap = search->trial_cap ? search->trial_cap * 2 : 64;
    size_t cap = search->trial_cap;
    search->points = mem_resize(search->points, cap, search->space.count * sizeof(double));
    search->results = mem_resize(search->results, cap, search->goal_count * sizeof(double));
    search->states = mem_resize(search->states, cap, sizeof search->states[0]);
}

enum err_code search_suggested(struct search *search, const struct search_trial *trial,
                               struct err *err)
{
    if (search->trial_count >= SEARCH_TRIALS_MAX) {
        return err_set(err, ERR_QUOTA, "search: %d trials are the most", SEARCH_TRIALS_MAX);
    }
    if (trial->number != search->trial_count) {
        return err_set(err, ERR_STALE, "trial %llu: the next one is %llu",
                       (unsigned long long)trial->number, (unsigned long long)search->trial_count);
    }
    const char *misfit = domain_misfit(&search->space, trial->values);
    if (misfit) {
        return err_set(err, ERR_INVALID, "trial %llu: the value of %s is outside the space",
                       (unsigned long long)trial->number, misfit);
    }
    reserve_trial(search);
    size_t number = search->trial_count++;
    domain_point(&search->space, trial->values, search->points + number * search->space.count);
    for (size_t i = 0; i < search->goal_count; i++) {
        search->results[number * search->goal_count + i] = NAN;
    }
    search->states[number] = TRIAL_RUNNING;
    VEC_PUSH(search->running, search->running_count, search->running_cap) = (uint32_t)number;
    visited_add(search, number);
    return ERR_OK;
}

/* All values are finite: minimised, into the trial's row. */
static bool keep_values(struct search *search, size_t number, const double *values)
{
    for (size_t i = 0; i < search->goal_count; i++) {
        if (!isfinite(values[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < search->goal_count; i++) {
        search->results[number * search->goal_count + i] =
            search->goals[i] == SEARCH_MAXIMIZE ? -values[i] : values[i];
    }
    return true;
}

static enum trial_state record(struct search *search, size_t number, enum search_status status,
                               const double *values)
{
    switch (status) {
    case SEARCH_FINISHED:
        return keep_values(search, number, values) ? TRIAL_FINISHED : TRIAL_FAILED;
    case SEARCH_PRUNED:
        if (values && !keep_values(search, number, values)) {
            return TRIAL_FAILED;
        }
        return TRIAL_PRUNED;
    case SEARCH_GONE:
        return TRIAL_GONE;
    case SEARCH_FAILED:
    case SEARCH_DIVERGED:
        break;
    }
    return TRIAL_FAILED;
}

static void count_told(struct search *search, enum trial_state state)
{
    search->finished_count += state == TRIAL_FINISHED;
    search->failed_count += state == TRIAL_FAILED;
    search->pruned_count += state == TRIAL_PRUNED;
    search->gone_count += state == TRIAL_GONE;
    if (state == TRIAL_GONE) {
        search->cursor = 0; /* its combination is free again */
    }
}

enum err_code search_tell(struct search *search, uint64_t number, enum search_status status,
                          const double *values, struct err *err)
{
    if (number >= search->trial_count) {
        return err_set(err, ERR_NOT_FOUND, "trial %llu: never suggested",
                       (unsigned long long)number);
    }
    if (search->states[number] != TRIAL_RUNNING) {
        return err_set(err, ERR_EXISTS, "trial %llu: told before", (unsigned long long)number);
    }
    if (status == SEARCH_FINISHED && !values) {
        return err_set(err, ERR_INVALID, "trial %llu: finished without values",
                       (unsigned long long)number);
    }
    enum trial_state state = record(search, number, status, values);
    search->states[number] = (uint8_t)state;
    size_t kept = 0;
    for (size_t i = 0; i < search->running_count; i++) {
        if (search->running[i] != number) {
            search->running[kept++] = search->running[i];
        }
    }
    search->running_count = kept;
    if (state != TRIAL_GONE) {
        VEC_PUSH(search->told, search->told_count, search->told_cap) = (uint32_t)number;
    }
    count_told(search, state);
    if (search->gp) {
        gp_told(search, number);
    }
    if (search->cma) {
        cma_told(search);
    }
    return ERR_OK;
}

struct search_counts search_count(const struct search *search)
{
    return (struct search_counts){.suggested = search->trial_count,
                                  .running = search->running_count,
                                  .finished = search->finished_count,
                                  .failed = search->failed_count,
                                  .pruned = search->pruned_count,
                                  .gone = search->gone_count};
}

uint64_t search_size(const struct search *search)
{
    if (!search->space.discrete || search->space.present) {
        return UINT64_MAX;
    }
    return search->rank_count;
}

enum search_algorithm search_choice(const struct search *search)
{
    return search->algorithm == SEARCH_AUTO ? auto_choose(search) : search->algorithm;
}
