/* scores.h - one number for each trial told so far, the lower the better.
 *
 * Finished trials have their value, or with several goals a weighted trade-off between them (the
 * augmented Chebyshev distance from the best of each, Knowles's ParEGO); failed ones the worst of
 * these; pruned ones their own or the median, whichever is worse. Internal; pure.
 */
#ifndef SEARCH_SCORES_H
#define SEARCH_SCORES_H

#include "search/search_state.h"

struct scores {
    size_t count;           /* the first `count` that were told */
    const uint32_t *trials; /* which, borrowed from the search */
    double *values;         /* owned */
};

/* The first told_count trials told; rng draws the weights of the goals, NULL: equal weights. */
void scores_init(struct scores *scores, const struct search *search, size_t told_count,
                 struct rng *rng);
void scores_release(struct scores *scores);

/* The k-th least of values (k from 0), which are reordered. */
double scores_select(double *values, size_t count, size_t k);

/* Both make values fit for a model: mean 0, variance 1, in the same order. Equal ones become 0.
 *
 * scores_tame leaves them as they are but for those far above the median (failures among them),
 * which are brought nearer: what depends on parameters one by one then still does. scores_zoom
 * takes the logarithm of their distance from the least, plus an offset chosen by likelihood, if
 * that makes them more nearly normal: differences among the best then count for more. */
void scores_tame(double *values, size_t count);
void scores_zoom(double *values, size_t count);

#endif
