/* choose_internal.h - shared by the files of choose: the crowd of possible jobs, the features, and
 * the belief after some runs. */
#ifndef ADVISE_CHOOSE_INTERNAL_H
#define ADVISE_CHOOSE_INTERNAL_H

#include "advise/choose.h"
#include "base/rng.h"

enum {
    CHOOSE_STRENGTHS = 3, /* how far a job may differ from a possible or past one */
    CHOOSE_LOOSE = 9,     /* how it may behave if it is like none of them */
    CHOOSE_KINDS = CHOOSE_STRENGTHS + CHOOSE_LOOSE,
    CHOOSE_FEATURES_MAX = 6 + CHOOSE_EXTRA_MAX
};

/* A failed run counts as twice the dearest: log. */
#define CHOOSE_FAILURE_PENALTY .7

/* What explains a job. */
enum choose_source {
    CHOOSE_DRAWN,   /* one of the jobs drawn from the physical model */
    CHOOSE_PAST,    /* a past job */
    CHOOSE_NOTHING, /* none: alike configurations cost alike, that is all */
    CHOOSE_SOURCES
};

struct choose {
    size_t configs;
    size_t features;
    double *x;          /* configs * features, each column with mean 0 and deviation 1 */
    double *log_hourly; /* of each configuration */
    double deadline_s;
    /* The crowd: each possible job's log cost on every configuration, less its mean. First the
     * drawn ones, then the past ones, last a flat one for NOTHING. */
    size_t drawn_count;
    size_t past_count;
    size_t shape_count;
    double *shapes;
    float *failing; /* the chance that it fails there */
    /* The belief before any run: of a source and the kind of deviation from it. Sums to 1. */
    double share[CHOOSE_SOURCES][CHOOSE_KINDS];
    /* The runs so far. */
    size_t run_count;
    size_t *runs;
    double *logs; /* log of the cost; INFINITY: failed */
    bool *seen;   /* run or excluded */
};

/* Fills x. */
void choose_set_features(struct choose *choose, const struct choose_problem *problem);

/* 1 for equal points, less the farther apart (Matern 5/2 of the given reach). */
double choose_likeness(const double *a, const double *b, size_t features, double reach);

/* Fills the first `count` shapes from the physical model. */
void choose_draw_jobs(struct choose *choose, const struct choose_problem *problem, size_t count);

/* Fills the shapes of past jobs from index `at` on. Past jobs with fewer than two runs that worked
 * are left out: returns how many there are. */
size_t choose_add_past(struct choose *choose, const struct choose_problem *problem, size_t at);

/* Subtracts the mean. */
void choose_centre(double *shape, size_t count);

enum choose_source choose_source_of(const struct choose *choose, size_t shape);

/* How many shapes a source has. */
size_t choose_source_size(const struct choose *choose, enum choose_source source);

/* Sets `share`. The model and no model start alike and the past jobs with a little; then each past
 * job is left out in turn, and what explains it from the rest of the table gains. */
void choose_learn_shares(struct choose *choose, const struct choose_problem *problem);

/* ---- the belief after some runs -------------------------------------------------------------- */

struct choose_belief {
    size_t n; /* runs that condition it */
    size_t *at;
    double *logs;
    double incumbent; /* log cost of the cheapest that counts; INFINITY: none */
    double *factor[CHOOSE_KINDS];
    double log_det[CHOOSE_KINDS];
    double *gain[CHOOSE_KINDS]; /* configs * n: what a surprise at a run says elsewhere */
    double *sd[CHOOSE_KINDS];
    struct choose_component {
        double weight;
        uint32_t shape;
        uint32_t kind;
    } * components;
    size_t component_count;
};

/* Does the run count: did it work and meet the deadline? */
bool choose_run_counts(const struct choose *choose, size_t run);

/* Log of the seconds that a log cost means there. */
double choose_log_seconds(const struct choose *choose, size_t config, double log_cost);

/* From the runs so far. Release with choose_belief_release. */
void choose_belief_make(const struct choose *choose, struct choose_belief *belief);
void choose_belief_release(struct choose_belief *belief);

/* Fills factor and log_det of a kind from n and at. */
void choose_belief_factor(const struct choose *choose, struct choose_belief *belief, size_t kind);

/* Log of how well a shape, with deviations of that kind, foretold the runs. scratch: n numbers. */
double choose_belief_fit(const struct choose_belief *belief, size_t kind, const double *shape,
                         double *scratch);

#endif
