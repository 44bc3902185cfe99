/* sobol.h - Sobol's quasi-random sequence, scrambled by a seed.
 *
 * Points fill the unit cube more evenly than random ones: each 2^k of them put equally many into
 * all halves, quarters ... of every coordinate. The scrambling (Owen's, by hashing) keeps that and
 * makes each point uniformly distributed. Pure; the caller owns the table.
 */
#ifndef SEARCH_SOBOL_H
#define SEARCH_SOBOL_H

#include <stddef.h>
#include <stdint.h>

enum { SOBOL_DIMS_MAX = 256, SOBOL_BITS = 32 };

struct sobol; /* direction numbers of all coordinates */

struct sobol *sobol_create(size_t dims); /* at most SOBOL_DIMS_MAX */
void sobol_destroy(struct sobol *sobol);

/* Coordinate dim of point number index (below 2^32), in [0, 1). */
double sobol_at(const struct sobol *sobol, uint64_t seed, uint64_t index, size_t dim);

#endif
