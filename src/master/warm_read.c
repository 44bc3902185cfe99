/* warm_read.c - the trials of an earlier workflow, out of its log. */
#include "base/jread.h"
#include "base/mem.h"
#include "master/trials_book.h"
#include "master/warm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct warm *warm;
    const struct experiment *experiment;
    char other[TRIALS_EXPERIMENT_MAX + 1]; /* the first of another name, "" if there is none */
    bool has_same;
    bool has_more; /* others than `other` */
    const char *wanted;
    struct arena arena;
    struct book_search search;
    uint64_t highest;                      /* budget that some trial ended with; 0: none */
    const char *metrics[TRIALS_GOALS_MAX]; /* that it searched for */
    size_t metric_count;
};

static enum err_code take_name(void *owner, const struct trials_line *line, struct err *err)
{
    struct reading *reading = owner;
    (void)err;
    if (strcmp(line->experiment, reading->experiment->name) == 0) {
        reading->has_same = true;
    } else if (!reading->other[0]) {
        snprintf(reading->other, sizeof reading->other, "%s", line->experiment);
    } else if (strcmp(line->experiment, reading->other) != 0) {
        reading->has_more = true;
    }
    return ERR_OK;
}

static enum err_code take_line(void *owner, const struct trials_line *line, struct err *err)
{
    struct reading *reading = owner;
    if (strcmp(line->experiment, reading->wanted) != 0) {
        return ERR_OK;
    }
    if (line->kind == TRIALS_SEARCH) {
        reading->metric_count = line->goal_count;
        for (size_t i = 0; i < line->goal_count; i++) {
            reading->metrics[i] = arena_strdup(&reading->arena, line->goal_metrics[i]);
        }
    }
    return book_take(&reading->arena, &reading->search, line, err);
}

/* What the trial's own search took for this metric, or else what was reported by that name. */
static double result_of(const struct reading *reading, const struct book_trial *trial,
                        const char *metric, const struct jnode *reported)
{
    for (size_t i = 0; i < reading->metric_count && i < trial->value_count; i++) {
        if (strcmp(reading->metrics[i], metric) == 0) {
            return trial->values[i];
        }
    }
    return jread_number(reported, metric, (double)NAN);
}

/* The metrics that this search wants; false: one is missing or not finite. */
static bool find_results(const struct reading *reading, const struct book_trial *trial,
                         double *results)
{
    const struct search_spec *search = reading->experiment->search;
    struct jread doc = {0};
    bool good = jread_parse(&doc, trial->metrics, strlen(trial->metrics), NULL) == ERR_OK;
    for (size_t i = 0; i < search->goal_count && good; i++) {
        results[i] = result_of(reading, trial, search->goals[i].metric, doc.root);
        good = isfinite(results[i]);
    }
    jread_release(&doc);
    return good;
}

/* False: it tells nothing. */
static bool judge(const struct reading *reading, const struct book_trial *trial, double *results,
                  struct warm_trial *out)
{
    bool measured = find_results(reading, trial, results);
    bool whole = !trial->has_budget || trial->budget >= reading->highest;
    out->results = NULL;
    switch (trial->state) {
    case TRIALS_SUCCEEDED:
        out->status = whole ? SEARCH_FINISHED : SEARCH_PRUNED;
        out->results = results;
        return measured;
    case TRIALS_STOPPED:
        out->status = SEARCH_PRUNED;
        out->results = measured ? results : NULL;
        return true;
    case TRIALS_FAILED:
        out->status = SEARCH_FAILED;
        return true;
    case TRIALS_DIVERGED:
        out->status = SEARCH_DIVERGED;
        return true;
    case TRIALS_CANCELLED:
        break;
    }
    return false;
}

static enum err_code tell(struct reading *reading, const struct book_trial *trial, warm_fn fn,
                          void *owner, struct warm_counts *counts, struct err *err)
{
    struct search_value values[SPACE_PARAMS_MAX];
    double results[RECIPE_GOALS_MAX];
    struct warm_trial told = {.trial = trial->trial, .values = values, .params = trial->params};
    if (!trial->ended || trial->state == TRIALS_CANCELLED) {
        counts->open++;
        return ERR_OK;
    }
    const char *misfit = warm_fit(reading->warm, trial->params, values);
    if (misfit) {
        if (counts->misfits++ == 0) {
            snprintf(counts->misfit, sizeof counts->misfit, "%s", misfit);
            counts->misfit_trial = trial->trial;
        }
        return ERR_OK;
    }
    if (!judge(reading, trial, results, &told)) {
        counts->unlike++;
        return ERR_OK;
    }
    counts->told++;
    return fn(owner, &told, err);
}

static void find_highest(struct reading *reading)
{
    for (size_t i = 0; i < reading->search.count; i++) {
        const struct book_trial *trial = &reading->search.trials[i];
        if (trial->ended && trial->has_budget && trial->state == TRIALS_SUCCEEDED &&
            trial->budget > reading->highest) {
            reading->highest = trial->budget;
        }
    }
}

enum err_code warm_read(struct warm *warm, const struct experiment *experiment,
                        const char *flow_folder, const struct warm_sink *sink,
                        struct warm_counts *counts, struct err *err)
{
    struct reading reading = {.warm = warm, .experiment = experiment};
    *counts = (struct warm_counts){0};
    enum err_code code = trials_read(flow_folder, take_name, &reading, err);
    reading.wanted = reading.has_same ? experiment->name : reading.has_more ? "" : reading.other;
    if (code == ERR_OK && reading.wanted[0]) {
        code = trials_read(flow_folder, take_line, &reading, err);
    }
    find_highest(&reading);
    for (size_t i = 0; i < reading.search.count && code == ERR_OK; i++) {
        code = tell(&reading, &reading.search.trials[i], sink->fn, sink->owner, counts, err);
    }
    free(reading.search.trials);
    arena_release(&reading.arena);
    return code;
}
