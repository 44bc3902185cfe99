/* importance_forest.h - a random forest over parameters cut into bins, for importance.c.
 *
 * Every parameter is an axis of at most FOREST_BINS_MAX bins in order, each with a weight; the
 * weights of an axis add up to 1. A tree divides the space into boxes of bins (leaves), each with
 * one predicted value, so that means over any part of the space are sums over leaves. Pure; draws
 * from the rng given.
 */
#ifndef SEARCH_IMPORTANCE_FOREST_H
#define SEARCH_IMPORTANCE_FOREST_H

#include "base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOREST_BINS_MAX = 128, FOREST_LEAF_ROWS = 3 };

struct forest_axis {
    size_t bins;
    double sums[FOREST_BINS_MAX + 1]; /* sums[i]: weight of the bins below i */
};

struct forest_data {
    size_t rows;
    size_t params;
    const struct forest_axis *axes;
    const uint8_t *bins; /* bins[row * params + param] */
    const double *results;
};

struct forest_node {
    uint16_t param;
    uint8_t cut; /* bins below go left */
    bool leaf;   /* then left is the leaf's number */
    uint32_t left;
    uint32_t right;
};

struct forest_tree {
    struct forest_node *nodes; /* [0] is the root */
    size_t node_count;
    size_t node_cap;
    double *values;  /* of leaves */
    double *weights; /* of leaves: their part of the space */
    uint8_t *low;    /* low[leaf * params + param] <= bin < high[...] */
    uint8_t *high;
    size_t leaf_count;
};

/* Grows a tree on rows drawn with replacement; used[row] is set for those. gains[param] is
 * increased by what its splits explain. Released by the caller. */
void forest_grow(const struct forest_data *data, struct rng *rng, bool *used, double *gains,
                 struct forest_tree *out);
void forest_release(struct forest_tree *tree);

double forest_predict(const struct forest_tree *tree, const uint8_t *bins);

#endif
