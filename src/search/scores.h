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

/* Replaces values by ones that are nearer to a normal distribution, with mean 0 and variance 1, in
 * the same order: the logarithm of their distance from the least (plus an offset chosen by
 * likelihood) if that fits better than leaving them. Equal values all become 0. */
void scores_warp(double *values, size_t count, double offset_min);

#endif
