/* advise_regret.h - leave one job out: what each way of choosing has found after k paid runs. */
#ifndef BENCH_ADVISE_REGRET_H
#define BENCH_ADVISE_REGRET_H

#include "bench/advise_table.h"

/* Prints the table of mean regrets and the benchmark lines. Returns how many targets are missed. */
int regret_run(const struct table *table);

/* The same, briefly, on made-up jobs (advise_families.h). Nothing depends on it. */
void regret_families(void);

#endif
