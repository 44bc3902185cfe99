/* advise_speed.h - throughput of larger clusters foretold from the three smallest.
 *
 * Reads tables with the columns n_workers,batch_size,learning_rate,synchronism,vm_flavor,
 * training_time,total_iterations: one series of cluster sizes for each of the other columns. */
#ifndef BENCH_ADVISE_SPEED_H
#define BENCH_ADVISE_SPEED_H

#include "base/csv.h"

#include <stdbool.h>

struct speed_errors {
    double *ours[2]; /* of synchronous and asynchronous training: |foretold / measured - 1| */
    double *last[2]; /* the throughput of the largest of the three, again */
    double *linear[2];
    size_t count[2];
    size_t cap[2];
};

/* false: not such a table. */
bool speed_add(struct speed_errors *errors, const struct csv *csv);

/* Prints the medians and the benchmark lines; returns how many targets are missed. */
int speed_report(struct speed_errors *errors);

#endif
