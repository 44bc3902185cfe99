/* spot.h - work on machines that are taken away: how long it takes, and when to save it.
 *
 * Losses come at random, `rate` of them a second for the whole job (as many machines as stop it
 * times the rate of one). Every `interval_s` of work a checkpoint of `save_s` is written; after a
 * loss it takes `restart_s` until work goes on from the last one, and a loss may also come while
 * saving or restarting. Rates of 0 mean that nothing is ever lost. Pure.
 */
#ifndef ADVISE_SPOT_H
#define ADVISE_SPOT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct spot_job {
    double work_s;    /* without any loss and without checkpoints */
    double save_s;    /* above 0 unless rate is 0 */
    double restart_s; /* 0 or more */
    double rate;      /* losses a second */
};

/* Expected seconds until all work is done; exact for such losses. The last checkpoint is written
 * too. INFINITY where it will never be. */
double spot_expected_s(const struct spot_job *job, double interval_s);

/* Expected number of losses meanwhile. */
double spot_expected_losses(const struct spot_job *job, double interval_s);

/* Young's sqrt(2 save / rate), and Daly's with its higher terms. */
double spot_young(const struct spot_job *job);
double spot_daly(const struct spot_job *job);

/* The interval for which spot_expected_s is least; never more than work_s. */
double spot_best_interval(const struct spot_job *job);

/* The rate of one machine from a record of it, `lost[i]` every `gap_s` seconds: losses by the time
 * it was there, and the bounds that hold it with 90 % (from the number of losses alone, so that a
 * record without any still says something). ERR_INVALID: it was never there. */
MUST_USE enum err_code spot_rate(const bool *lost, size_t count, double gap_s, double rate[3],
                                 struct err *err);

#endif
