/* advise_families.h - made-up jobs that follow other laws than the ones the advisor assumes.
 *
 * For a look at how the choice of the next run fares on data of other kinds: each family is a table
 * of jobs x clusters with costs drawn from its own law. The same seed gives the same table.
 */
#ifndef BENCH_ADVISE_FAMILIES_H
#define BENCH_ADVISE_FAMILIES_H

#include "bench/advise_table.h"

enum { FAMILIES = 8 };

/* What its jobs are like, in a word. */
const char *family_name(size_t family);

void family_make(size_t family, uint64_t seed, struct table *out);

#endif
