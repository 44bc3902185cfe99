/* trial_picture.h - pictures of a search that was read (trial_set.h): which columns are numbers,
 * which are words, who failed; then trial_plots.h draws. Pure.
 *
 * Trials that run and have no value yet are in no picture. Those that failed are.
 */
#ifndef CLI_TRIAL_PICTURE_H
#define CLI_TRIAL_PICTURE_H

#include "base/err.h"
#include "cli/plot.h"
#include "cli/trial_set.h"
#include "search/importance.h"

enum trial_picture {
    TRIAL_HISTORY,
    TRIAL_PARALLEL,
    TRIAL_IMPORTANCE,
    TRIAL_SLICES,
    TRIAL_PARETO,
    TRIAL_PICTURE_COUNT,
};

const char *trial_picture_name(enum trial_picture picture); /* "history" ... */
/* TRIAL_PICTURE_COUNT: no such name. */
enum trial_picture trial_picture_find(const char *name);

/* Appends the SVG document; `goal` is the metric it is about. ERR_INVALID, with nothing appended:
 * there is none; the text says why (a front needs two metrics, importance some trials). */
MUST_USE enum err_code trial_picture_svg(const struct trial_search *search,
                                         enum trial_picture picture, size_t goal, struct str *out,
                                         struct err *err);

/* What each column explains, in the order of search->columns. ERR_INVALID as importance.h says. */
MUST_USE enum err_code trial_picture_importance(const struct trial_search *search, size_t goal,
                                                struct importance *out, struct err *err);

/* The history in a terminal. */
void trial_picture_term(const struct trial_search *search, size_t goal,
                        const struct plot_terminal *terminal, struct str *out);

/* The best value up to each trial, in order of trial numbers, those without a value passed over:
 * points of (number + 1, best so far), a new one only where it changes, and a last one at the
 * last trial that is over. In the arena; none: 0. */
size_t trial_picture_best_line(const struct trial_search *search, size_t goal, struct arena *arena,
                               struct plot_point **out);

#endif
