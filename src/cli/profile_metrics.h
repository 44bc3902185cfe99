/* profile_metrics.h - steps and examples a second, read from what a training program prints.
 *
 * Understood, in any case and wherever they stand in a line: counters (step 120, global_step=120,
 * "iteration": 120, iter: 120, Step[120]) and rates (global_step/sec: 12.3, steps_per_s=12.3,
 * images/sec: 900, examples/s 900, samples_per_second=900). Counters count most: the rate is taken
 * between the first and the last line. Pure.
 */
#ifndef CLI_PROFILE_METRICS_H
#define CLI_PROFILE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_metrics {
    bool counting;
    double first_step;
    double last_step;
    int64_t first_ms;
    int64_t last_ms;
    double step_rate_sum;
    double step_rates;
    double example_rate_sum;
    double example_rates;
};

/* One line, without its end, and when it came. */
void profile_metrics_line(struct profile_metrics *metrics, const char *line, int64_t now_ms);

/* 0: not known. */
double profile_metrics_steps_per_s(const struct profile_metrics *metrics);
double profile_metrics_examples_per_s(const struct profile_metrics *metrics);

#endif
