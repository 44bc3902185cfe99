/* warm.h - trials of earlier workflows, for a search to begin with (`warm_start:`).
 *
 * An earlier trial can be told to this search if it is a point of this space: it has a value for
 * every parameter that is there, each a value that the parameter has here or a number in its range,
 * conditions say the same, and it has no other parameters. Numbers are compared as numbers (1e-3 is
 * 0.001), text as text. Parameters of `files:` never fit: they are paths of another run. Members of
 * a `zip:` group fit if each of them is always there.
 *
 * Its result is what it measured of this search's metrics, by name. One that failed or diverged is
 * told as such; one that was stopped early, or ended on a rung below the highest that any trial of
 * its workflow reached, counts as pruned; one that was cancelled, or lacks a metric, tells nothing.
 *
 * Pure but for warm_read, which reads a log. One thread.
 */
#ifndef MASTER_WARM_H
#define MASTER_WARM_H

#include "base/err.h"
#include "recipe/recipe.h"
#include "search/search.h"

struct warm;

/* The experiment has search:, its files are bound, and it must outlive the warm. */
struct warm *warm_create(const struct experiment *experiment);
void warm_destroy(struct warm *warm); /* NULL does nothing */

/* params: a JSON object. NULL: it fits, and values[0..dimensions) are filled; else the name of what
 * does not (a parameter, or "params" where the text is no object). The name lives as long as the
 * warm, or until the next call. */
const char *warm_fit(struct warm *warm, const char *params, struct search_value *values);

/* What a search is told: search_suggested with the values, then search_tell. */
struct warm_trial {
    uint64_t trial; /* its number in its workflow */
    const struct search_value *values;
    enum search_status status;
    const double *results; /* one for each goal, or NULL: none */
    const char *params;    /* as they were, a JSON object */
};

/* What became of the trials of one workflow. */
struct warm_counts {
    uint64_t told;
    uint64_t open;         /* still running, or cancelled */
    uint64_t misfits;      /* not of this space */
    char misfit[80];       /* the parameter of the first of them, "" if there is none */
    uint64_t misfit_trial; /* and its number */
    uint64_t unlike;       /* without this search's metrics */
};

/* Gets each trial, in order of number; valid for the call. An error ends the reading. */
typedef enum err_code (*warm_fn)(void *owner, const struct warm_trial *trial, struct err *err);

struct warm_sink {
    warm_fn fn;
    void *owner;
};

/* The trials of FOLDER/trials.log: of the experiment that has the name of this one, or if there is
 * none of that name and only one other, of that. `experiment` is the warm's. No such file: no
 * trials. ERR_CORRUPT: it does not read. */
MUST_USE enum err_code warm_read(struct warm *warm, const struct experiment *experiment,
                                 const char *flow_folder, const struct warm_sink *sink,
                                 struct warm_counts *counts, struct err *err);

#endif
