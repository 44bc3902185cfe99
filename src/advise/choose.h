/* choose.h - which configuration to pay for next, when every run costs money.
 *
 * There is a list of configurations (so many machines of such a type) and a job whose cost on each
 * is unknown until it has been run there; a few runs must find one that is nearly the cheapest.
 * What other jobs cost on them, if known, helps.
 *
 * The belief about the job is a weighted crowd of explanations: thousands of possible jobs drawn
 * from a plain physical model (a serial part, work shared by the cores, a part that grows with the
 * cluster, a working set below which the job crawls, and chance differences between families of
 * machines); the past jobs themselves; and that it is like none of these, only that alike
 * configurations cost alike. Each run changes the weights by how well each foretold it; how far a
 * job may differ from its explanation is weighed in the same way. What each kind of explanation
 * starts with is learnt from the past jobs, each explained by the others. The next run is the one
 * that takes away most of the expected regret, which is what the best one known costs above the
 * cheapest there is. A run that failed is not a cheap run: it counts as dearer than any that
 * worked.
 *
 * Costs are positive and in one currency. The same calls with the same seed give the same answers.
 * Pure; a chooser owns copies of all it is given.
 */
#ifndef ADVISE_CHOOSE_H
#define ADVISE_CHOOSE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHOOSE_CONFIGS_MAX = 2000, CHOOSE_EXTRA_MAX = 32 };

struct choose_config {
    double nodes;        /* machines */
    double vcpus;        /* of one machine; 0: not known, here and below */
    double memory_gib;   /* of one machine */
    double gpus;         /* of one machine */
    double hourly;       /* price an hour of all machines together, above 0 */
    const double *extra; /* extra_count further numbers (batch size, disk kind as 0 or 1, ...) */
};

struct choose_problem {
    const struct choose_config *configs;
    size_t config_count;
    size_t extra_count;
    const double *past; /* past_count rows of config_count costs; NAN: not run, INFINITY: failed */
    size_t past_count;
    double deadline_s; /* the job must not take longer; 0: no matter */
    uint64_t seed;
    size_t crowd; /* possible jobs to draw; 0: as many as serve well (16000 for 100 or fewer) */
};

struct choose;

struct choose_estimate {
    double cost; /* median; of a run that was paid for, what it cost */
    double low;  /* 80 % of the belief lies between */
    double high;
    double feasible; /* the share of the belief that it works and meets the deadline */
};

/* ERR_INVALID: no configurations or too many, or a number that makes no sense (the text says
 * which). */
MUST_USE enum err_code choose_create(const struct choose_problem *problem, struct choose **out,
                                     struct err *err);
void choose_destroy(struct choose *choose);

/* A run was paid for: its cost, or INFINITY if it failed. */
void choose_observe(struct choose *choose, size_t config, double cost);

/* This one cannot be had; it still serves to learn from past jobs. */
void choose_exclude(struct choose *choose, size_t config);

/* The configuration to run next, among those not run yet nor excluded. *saving is the share of the
 * bill that it is expected to save, 0 or more. config_count: none is left. */
size_t choose_next(struct choose *choose, double *saving);

/* The cheapest run that worked and met the deadline; config_count: none yet. */
size_t choose_best(const struct choose *choose);

/* One estimate for each configuration. */
void choose_estimate(struct choose *choose, struct choose_estimate *out);

#endif
