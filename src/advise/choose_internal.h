/* choose_internal.h - shared by the files of choose: the crowd of possible jobs and the features.
 */
#ifndef ADVISE_CHOOSE_INTERNAL_H
#define ADVISE_CHOOSE_INTERNAL_H

#include "advise/choose.h"
#include "base/rng.h"

enum { CHOOSE_STRENGTHS = 3, CHOOSE_FEATURES_MAX = 6 + CHOOSE_EXTRA_MAX };

struct choose {
    size_t configs;
    size_t features;
    double *x;          /* configs * features, each column with mean 0 and deviation 1 */
    double *kernel;     /* configs * configs: how alike two configurations are, 1 on the diagonal */
    double *log_hourly; /* of each configuration */
    double deadline_s;
    /* The crowd: each possible job's log cost on every configuration, less its mean. */
    size_t shape_count;
    size_t past_count; /* the last of the shapes are past jobs */
    double *shapes;
    float *failing; /* the chance that it fails there */
    double *log_prior;
    /* The runs so far. */
    size_t run_count;
    size_t *runs;
    double *logs;      /* log of the cost; INFINITY: failed */
    bool *seen;        /* run or excluded */
    double *multiples; /* past cost of each as a multiple of the cheapest, summed over the jobs */
};

/* Fills x and kernel. */
void choose_set_features(struct choose *choose, const struct choose_problem *problem);

/* 1 for equal points, less the farther apart (Matern 5/2 of the given reach). */
double choose_likeness(const double *a, const double *b, size_t features, double reach);

/* Fills the first `count` shapes from the physical model. */
void choose_draw_jobs(struct choose *choose, const struct choose_problem *problem, size_t count);

/* Fills the last past_count shapes, and `multiples`. Past jobs with fewer than two runs that worked
 * are left out: returns how many there are. */
size_t choose_add_past(struct choose *choose, const struct choose_problem *problem, size_t at);

/* Subtracts the mean. */
void choose_centre(double *shape, size_t count);

#endif
