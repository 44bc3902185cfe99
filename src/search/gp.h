/* gp.h - Gaussian process models of what was tried. Internal; used by the gp algorithm only.
 *
 * Matern 5/2 kernel with a length for each parameter. Categorical parameters are at distance 0 or
 * 1, and so are two points of which one lacks a parameter. The signal's variance and the mean are
 * the most likely ones; lengths and noise are fitted by gp_fit with mild priors.
 */
#ifndef SEARCH_GP_H
#define SEARCH_GP_H

#include "search/search_state.h"

enum {
    GP_POINTS_MAX = 200, /* trials that a model looks at, less where parameters are many */
    GP_FIT_POINTS_MAX = 120,
    GP_FANTASIES_MAX = 64, /* running trials that it takes account of */
};

/* The kernel is (1 - share) * Matern of all parameters together + share * the mean of a rational
 * quadratic of each alone: what parameters do by themselves is learnt from far fewer trials. */
struct gp_hyper {
    double log_length[SEARCH_PARAMS_MAX];
    double log_noise; /* variance relative to that of the signal */
    double logit_share;
    double log_ratio; /* lengths of the second part relative to those of the first */
};

struct gp_model {
    const struct domain *domain;
    size_t cap;
    size_t count;      /* points with a value */
    size_t full_count; /* and those still running after them */
    double *columns;   /* coordinates, parameter by parameter, cap each */
    double *values;
    double *factor;  /* Cholesky factor of the relative covariance, full_count rows */
    double *alpha;   /* inverse covariance times (values - mean) */
    double *scratch; /* 4 * cap */
    double weights[SEARCH_PARAMS_MAX];       /* 1 / length^2 */
    double alone_weights[SEARCH_PARAMS_MAX]; /* of the second part, over 4 */
    double share;
    double noise;
    double mean;
    double variance;
    double best; /* least value expected at a point that was tried */
};

void gp_model_init(struct gp_model *model, const struct domain *domain, size_t cap);
void gp_model_release(struct gp_model *model);

/* Adds a point; all points with a value come first. */
void gp_model_add(struct gp_model *model, const double *point, double value);
void gp_model_add_running(struct gp_model *model, const double *point);
/* Once all are added. False: numerically impossible (more noise would help). */
bool gp_model_solve(struct gp_model *model, const struct gp_hyper *hyper);

/* What to expect at a point: mean and standard deviation, in the unit of the values. */
void gp_model_predict(const struct gp_model *model, const double *point, double *mean, double *sd);

/* The logarithm of the expected improvement on `best` at a point, and its gradient (NULL: not
 * wanted) along the coordinates that are not categorical. */
double gp_model_gain(const struct gp_model *model, const double *point, double *gradient);

/* Starting values, and an improvement of them: a few steps up the likelihood of these values. */
void gp_hyper_init(struct gp_hyper *hyper, const struct domain *domain);
void gp_fit(struct gp_hyper *hyper, const struct domain *domain, const double *const *points,
            const double *values, size_t count, size_t steps);

/* Squared distance along one parameter; coordinates may be NaN. */
double gp_gap(const struct dim *dim, double a, double b);

#endif
