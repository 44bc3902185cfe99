/* ownrent.h - buy the machine or rent it: cost of a job either way, and where they break even.
 *
 * Owning costs the price once, less what it sells for at the end, and power while it works. Renting
 * costs the bill of each job. The break-even is the first number of jobs for which owning is no
 * dearer; it counts only if the machine lives long enough to do them. Pure; integers throughout.
 */
#ifndef ADVISE_OWNRENT_H
#define ADVISE_OWNRENT_H

#include "advise/money.h"

struct ownrent_own {
    int64_t price_micro;
    int64_t resale_micro;   /* at the end of its life; 0: nothing */
    int64_t lifetime_hours; /* of use; 0: not limited */
    int64_t watts;          /* while it works; 0: power is not counted */
    int64_t job_s;          /* how long a job takes on it; 0: as long as on the rented ones */
};

struct ownrent_rent {
    int64_t price_hour_micro; /* of one machine */
    int64_t machines;
    struct money_billing billing;
    int64_t job_s; /* > 0 */
};

struct ownrent_answer {
    int64_t rent_job_micro;     /* one job, rented */
    int64_t own_job_micro;      /* power for one job on the owned machine */
    int64_t break_even_jobs;    /* -1: never, power alone costs as much as renting */
    double break_even_hours;    /* of use of the owned machine */
    int64_t jobs_in_life;       /* -1: not limited */
    bool pays;                  /* it breaks even within its life */
    int64_t own_life_job_micro; /* price and power per job over a whole life; -1: not limited */
};

/* kwh_micro is the price of a kilowatt hour. ERR_RANGE: a number is negative or too large, or the
 * rented job has no time or no machine. */
MUST_USE enum err_code ownrent_compare(const struct ownrent_own *own,
                                       const struct ownrent_rent *rent, int64_t kwh_micro,
                                       struct ownrent_answer *out, struct err *err);

/* What so many jobs cost in all, owned and rented; MONEY_MICRO_MAX if it would be more. */
void ownrent_totals(const struct ownrent_own *own, const struct ownrent_answer *answer,
                    int64_t jobs, int64_t *own_micro, int64_t *rent_micro);

#endif
