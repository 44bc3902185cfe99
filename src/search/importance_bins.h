/* importance_bins.h - the values of a parameter into the bins of an axis, for importance.c. */
#ifndef SEARCH_IMPORTANCE_BINS_H
#define SEARCH_IMPORTANCE_BINS_H

#include "search/importance.h"
#include "search/importance_forest.h"

/* values: one a row of data, whose results are known. Sets the axis and bins[row * params + at].
 * Bin 0 is for absent values if there are any. Few distinct values get a bin each, many are cut
 * into bins of about equally many rows; a bin's weight is the part of the range it covers. */
void importance_bin(const struct importance_param *param, const double *values,
                    const struct forest_data *data, size_t at, struct forest_axis *axis,
                    uint8_t *bins);

#endif
