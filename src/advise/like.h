/* like.h - a type that was not measured, judged by one that was.
 *
 * The same GPU kind: by the number of GPUs. The same family (c4.large and c4.8xlarge,
 * n2-standard-4 and n2-standard-32, Standard_D4s_v5 and Standard_D16s_v5) or any machine without
 * GPUs: by the vCPUs. Each with a deviation that says how far that can be trusted. A GPU of another
 * kind, or a GPU against none, says nothing. Pure.
 */
#ifndef ADVISE_LIKE_H
#define ADVISE_LIKE_H

#include "advise/catalog.h"

struct like {
    size_t index;    /* of the measured one */
    double scale;    /* speed as a multiple of its */
    double scale_sd; /* deviation of the logarithm; 0 for itself */
};

/* The most trusted of measured[0..count). false: none is like it. */
bool like_find(const struct catalog_row *row, const struct catalog_row *const *measured,
               size_t count, struct like *out);

#endif
