/* gp_state.h - what the gp algorithm remembers, and which trials it looks at. Internal. */
#ifndef SEARCH_GP_STATE_H
#define SEARCH_GP_STATE_H

#include "search/gp.h"

/* Two ways to look at the same trials, taken in turns. */
enum gp_view {
    GP_WIDE, /* values nearly as they are, the whole space: finds where to go */
    GP_NEAR, /* values zoomed in on the best, around the best trial: refines */
    GP_VIEWS,
};

struct gp_state {
    struct gp_hyper hyper[GP_VIEWS];
    size_t fitted_at; /* trials told when lengths were last fitted */
    uint64_t fits;

    /* Trust region (Eriksson and others, TuRBO, 2019): grows while trials improve on the best,
     * shrinks while they do not. */
    double trust;
    size_t successes;
    size_t failures;
    double best;
};

/* The trials that a model is made of, with their warped scores. */
struct gp_choice {
    size_t count;
    const double **points; /* borrowed from the search */
    double *values;
    size_t *order; /* room for count numbers */
};

/* At most max of the trials told: all, or the best half and the newest of the others. rng: for the
 * weights of several goals; NULL: equal ones. */
void gp_choice_init(struct gp_choice *choice, const struct search *search, size_t max,
                    enum gp_view view, struct rng *rng);
void gp_choice_release(struct gp_choice *choice);

size_t gp_points_max(const struct search *search);
/* Too few trials for a model: points still come from a Sobol sequence. */
bool gp_is_starting(const struct search *search);

#endif
