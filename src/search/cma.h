/* cma.h - the distribution of the cma-es algorithm. Internal. */
#ifndef SEARCH_CMA_H
#define SEARCH_CMA_H

#include "search/search_state.h"

enum {
    CMA_FULL_DIMS_MAX = 40,   /* with more parameters, only the diagonal of the covariance */
    CMA_CATEGORIES_MAX = 256, /* with more values, all are equally likely for ever */
    CMA_LAMBDA_MAX = 512,
};

struct cma_state {
    size_t param_count;
    size_t dims;    /* of the distribution */
    size_t *params; /* which parameter each is */
    bool diagonal;
    double *mean;
    double sigma;
    double *covariance; /* dims * dims, or only its diagonal */
    double *axes;       /* its eigenvectors, in columns */
    double *scales;     /* and the roots of its eigenvalues */
    double *path;
    double *sigma_path;
    double **chances; /* for each categorical parameter, of each value; NULL: equal */
    size_t lambda;    /* results in a generation */
    size_t since;     /* results told before the present one */
    uint64_t generation;
    uint64_t restarts;
};

/* Begins anew: in the middle, or after a first time at a random place. */
void cma_restart(const struct search *search, struct cma_state *cma);

#endif
