/* rank.h - clusters put in order: time, cost, both with intervals, and why each loser lost.
 *
 * An offer is a worker type with servers of a type (or none: all-reduce, or servers among the
 * workers); a candidate is an offer with a number of workers. Every candidate's time comes from the
 * worker type's model, its cost from the billing rules of its machines. Spot workers are lost at
 * random and cost restarts and checkpoints; servers are always on demand. Pure.
 */
#ifndef ADVISE_RANK_H
#define ADVISE_RANK_H

#include "advise/catalog.h"
#include "advise/model.h"

enum rank_goal { RANK_CHEAPEST, RANK_FASTEST, RANK_BALANCED };

struct rank_offer {
    const struct catalog_row *worker;
    const struct catalog_row *server; /* NULL: none */
    uint32_t servers;
    const struct model *model; /* NULL: never measured, so it cannot win */
    double scale;              /* its speed as a multiple of the model's type; 0 means 1 */
    double scale_sd;           /* deviation of the logarithm of that */
    double spot_share;         /* of the workers, 0 to 1 */
};

struct rank_request {
    enum rank_goal goal;
    const struct rank_offer *offers;
    size_t offer_count;
    uint32_t workers_min; /* 1 unless given */
    uint32_t workers_max;
    double examples;   /* to train on in all, above 0 */
    double batch;      /* of a worker; 0: as measured */
    double deadline_s; /* 0: none, here and below */
    int64_t budget_hour_micro;
    int64_t budget_total_micro;
    double fixed_s; /* start-up that every run pays */
    /* Spot. */
    double loss_rate_hour; /* of one machine */
    double save_s;
    double restart_s;
};

enum rank_verdict {
    RANK_BEST,
    RANK_ON_FRONT,  /* no other is both cheaper and faster */
    RANK_DOMINATED, /* `by` is cheaper and faster */
    RANK_TOO_SLOW,
    RANK_OVER_BUDGET,
    RANK_OVER_HOURLY,
    RANK_UNMEASURED,
    RANK_NO_SPOT,
};

struct rank_row {
    size_t offer;
    uint32_t workers;
    enum rank_verdict verdict;
    size_t by; /* row of the answer, where dominated */
    double time_s;
    double time_low_s; /* 80 % of the belief lies between */
    double time_high_s;
    int64_t hourly_micro;
    int64_t cost_micro;
    int64_t cost_low_micro;
    int64_t cost_high_micro;
    double losses;     /* expected, spot only */
    double interval_s; /* the best time between checkpoints, spot only */
};

struct rank_answer {
    struct rank_row *rows; /* the best of each offer, best first; then those that cannot be had */
    size_t row_count;
    struct rank_row *front; /* every candidate that none beats in both, the cheapest first */
    size_t front_count;
    size_t candidates; /* looked at */
};

/* ERR_INVALID: the request makes no sense. ERR_NOT_FOUND: no candidate meets the limits; the answer
 * is filled all the same, to say why. */
MUST_USE enum err_code rank(const struct rank_request *request, struct rank_answer *answer,
                            struct err *err);
void rank_release(struct rank_answer *answer);

/* One line: why this row is where it is. */
void rank_why(const struct rank_request *request, const struct rank_answer *answer,
              const struct rank_row *row, struct str *out);

#endif
