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

#include <stddef.h>
#include <stdint.h>

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

/* Records of spot machines, added up: how long they were there, and how often one was lost. */
struct spot_record {
    double there_s; /* seconds of one machine */
    double losses;
};

/* Adds a record of how many machines there were, one number every `gap_s` seconds. */
void spot_record_add(struct spot_record *record, const uint32_t *machines, size_t count,
                     double gap_s);

struct spot_rate {
    double rate; /* losses a second of one machine; above 0 even if none was seen */
    double low;  /* 90 % of the belief lies between */
    double high;
};

/* From the number of losses alone, so that a record without any still says something.
 * ERR_INVALID: no machine was ever there. */
MUST_USE enum err_code spot_rate(const struct spot_record *record, struct spot_rate *out,
                                 struct err *err);

#endif
