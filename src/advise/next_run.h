/* next_run.h - which short profile run is worth paying for before the long run is started.
 *
 * The best candidate is only as good as what is known of it: a rival whose interval reaches below
 * the best one's cost may be the true best. A run at a setting narrows the intervals of all
 * settings of its type. Its worth is how much of the expected loss by a wrong choice it takes away,
 * less what it costs itself. Pure.
 */
#ifndef ADVISE_NEXT_RUN_H
#define ADVISE_NEXT_RUN_H

#include "advise/rank.h"

struct next_run {
    size_t offer;
    uint32_t workers;
    double worth;     /* expected saving on the long run, in units of the currency */
    double cost;      /* of the profile run itself */
    double sd_before; /* deviation of the log time of the candidate it is about */
    double sd_after;
};

/* The most worthwhile run of `profile_s` seconds. ERR_NOT_FOUND: none is worth its price. */
MUST_USE enum err_code next_run(const struct rank_request *request,
                                const struct rank_answer *answer, double profile_s,
                                struct next_run *out, struct err *err);

#endif
