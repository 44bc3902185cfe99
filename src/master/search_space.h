/* search_space.h - from an experiment with `search:` to what src/search works with, and back.
 *
 * One search_param for each dimension of the experiment's space (recipe/dims.h), in the same order;
 * what its conditions and `require:` say beyond simple parents goes through the callbacks present
 * and allowed. A trial's values are kept as one line of text (for FLOW/trials.log) and turned into
 * the arguments of a task; both give back the same bits.
 *
 * What a hunt does with it:
 *
 *     space = search_space_create(experiment, flow->seed);
 *     search = search_create(search_space_options(space), &err);
 *     search_ask -> search_space_add_text to the log -> core_suggest
 *     after a restart: search_space_read_text -> search_suggested
 *     flow->given: search_space_arguments, with the trial's values
 *
 * The experiment, whose files are bound, must outlive the space, and the space the search. One
 * thread at a time: the callbacks are pure.
 */
#ifndef MASTER_SEARCH_SPACE_H
#define MASTER_SEARCH_SPACE_H

#include "base/str.h"
#include "recipe/recipe.h"
#include "search/asha.h"
#include "search/early.h"
#include "search/search.h"
#include "search/stop.h"

struct search_space;

/* The seed of the search is the recipe's search: seed:, else it follows from the workflow's seed
 * and the experiment's name. */
struct search_space *search_space_create(const struct experiment *experiment,
                                         uint64_t workflow_seed);
void search_space_destroy(struct search_space *space); /* NULL does nothing */

/* For search_create; valid as long as the space. */
const struct search_options *search_space_options(const struct search_space *space);
size_t search_space_count(const struct search_space *space); /* of values of a trial */

/* The arguments of a task with these values, which fit the space: one for each parameter. */
void search_space_arguments(const struct search_space *space, const struct search_value *values,
                            struct value *out, struct arena *scratch);

/* "0 - 0.125 17": for each value an index, or a number, or - where it is absent. No values at all
 * are "". No line breaks. */
void search_space_add_text(const struct search_space *space, const struct search_value *values,
                           struct str *out);
/* Back into values[0..count). ERR_CORRUPT: not such a text, or not of this space. */
MUST_USE enum err_code search_space_read_text(const struct search_space *space, const char *text,
                                              struct search_value *values, struct err *err);

/* What the recipe says to the judges of trials. trials_max is `trials`. The texts point into the
 * experiment. search_space_asha: only with early_stop: asha. search_space_early: EARLY_NONE unless
 * median or stabilised is asked for; `stable` is the caller's to set. */
void search_space_asha(const struct experiment *experiment, struct asha_options *out);
void search_space_stop(const struct experiment *experiment, struct stop_options *out);
void search_space_early(const struct experiment *experiment, struct early_options *out);

#endif
