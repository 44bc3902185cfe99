/* trial_columns.h - the parameters of trials as numbers, for pictures and for importance.
 *
 * A range is a number as it is. Anything else is the index of its word, in the order of the recipe
 * where that is known, otherwise in that of the numbers or the alphabet. Private to trial_*.c.
 * Pure.
 */
#ifndef CLI_TRIAL_COLUMNS_H
#define CLI_TRIAL_COLUMNS_H

#include "cli/trial_plots.h"
#include "cli/trial_set.h"

struct trial_columns {
    struct trial_table table;        /* columns that have one value alone are left out */
    struct importance_param *params; /* of the same columns */
    size_t *which;                   /* the search's column of each */
};

/* All of it lives in the arena and the search. */
void trial_columns_make(const struct trial_search *search, size_t goal, struct arena *arena,
                        struct trial_columns *out);

#endif
