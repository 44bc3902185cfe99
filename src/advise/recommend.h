/* recommend.h - the four rules of the FC2 paper: a worker type and how many of it.
 *
 * All workers are of one type t at c_t an hour, behind one parameter server at c_ps an hour with a
 * bandwidth of B_ps. C is the budget an hour; a largest number of workers may stand in its place
 * (or hold besides it).
 *     Cost-Opt     the cheapest t;         n = (C - c_ps) / c_t
 *     Time-Opt     the most expensive t;   n = (C - c_ps) / c_t
 *     Scala-Opt    for every t from the most expensive down,
 *                  n_t = min(B_ps * p / b_t, (C - c_ps) / c_t); the smallest n_t is kept, of equal
 *                  ones the first; b_t is the bandwidth one worker uses for this job
 *     Scala-Opt-M  the same for the one type that the user fixed
 * As in the paper the n_t are compared as they are, and the one kept is rounded down and held below
 * the largest number of workers: so the type that uses a wide server best is found even where every
 * type could have the largest number (its section 8.4). Where one worker alone fills the server, n
 * is 1 and the answer says so; a type of which the budget buys none is passed over. Pure.
 */
#ifndef ADVISE_RECOMMEND_H
#define ADVISE_RECOMMEND_H

#include "advise/catalog.h"

enum recommend_rule { RECOMMEND_COST, RECOMMEND_TIME, RECOMMEND_SCALA, RECOMMEND_SCALA_M };

/* A worker type and the server it would have, of the same provider, region and currency. */
struct recommend_offer {
    const struct catalog_row *worker;
    const struct catalog_row *server;
    double worker_mbps; /* b_t; 0: not measured */
    double server_mbps; /* B_ps; 0: not known */
};

struct recommend_request {
    enum recommend_rule rule;
    const struct recommend_offer *offers;
    size_t offer_count;
    int64_t budget_hour_micro; /* C; below 0: none */
    uint32_t workers_max;      /* 0: none; one of the two must be given */
    double p;                  /* the share of B_ps that may be used, in (0, 1] */
};

struct recommend_answer {
    const struct recommend_offer *offer;
    uint32_t workers;
    int64_t hourly_micro;     /* workers and server */
    uint32_t bandwidth_limit; /* what each limit alone allows; UINT32_MAX: no such limit */
    uint32_t budget_limit;    /* budget or workers_max */
    bool saturated;           /* one worker already needs more than p of the server */
};

/* ERR_INVALID: the request makes no sense. ERR_NOT_FOUND: nothing fits the budget, or (Scala) no
 * type was measured; the text says which. Scala passes over types that were not measured. */
MUST_USE enum err_code recommend(const struct recommend_request *request,
                                 struct recommend_answer *answer, struct err *err);

/* The server for workers of this provider, region and currency: the largest bandwidth among
 * servers[0..count), of equal ones the cheapest. NULL: there is none. */
const struct catalog_row *recommend_server(const struct catalog_row *const *servers, size_t count,
                                           const struct catalog_row *worker);

/* Makes the offers out of worker and server rows: of a type in several regions the cheapest that
 * has a server. Returns how many it wrote to `out`, which has room for worker_count. */
size_t recommend_pair(const struct catalog_row *const *workers, size_t worker_count,
                      const struct catalog_row *const *servers, size_t server_count,
                      struct recommend_offer *out);

#endif
