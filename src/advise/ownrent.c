#include "advise/ownrent.h"

enum { WATT_HOURS_IN_KWH = 1000 };

/* A century of use. */
static const int64_t hours_max = INT64_C(100) * 366 * 24;
static const int64_t watts_max = 1000000;
static const int64_t machines_max = 1000000;

static bool within(int64_t value, int64_t low, int64_t high)
{
    return value >= low && value <= high;
}

static enum err_code check_input(const struct ownrent_own *own, const struct ownrent_rent *rent,
                                 int64_t kwh_micro, struct err *err)
{
    int64_t seconds_max = hours_max * MONEY_HOUR_S;
    if (!within(own->price_micro, 0, MONEY_MICRO_MAX) ||
        !within(own->resale_micro, 0, own->price_micro)) {
        return err_set(err, ERR_RANGE,
                       "the price of owning and what it sells for later do not fit");
    }
    if (!within(own->lifetime_hours, 0, hours_max) || !within(own->watts, 0, watts_max) ||
        !within(own->job_s, 0, seconds_max)) {
        return err_set(err, ERR_RANGE,
                       "lifetime, watts or time of the owned machine is out of range");
    }
    if (!within(rent->price_hour_micro, 0, MONEY_MICRO_MAX) ||
        !within(rent->machines, 1, machines_max) || !within(rent->job_s, 1, seconds_max)) {
        return err_set(err, ERR_RANGE,
                       "price, machines or time of the rented ones is out of range");
    }
    if (!within(kwh_micro, 0, MONEY_MICRO_MAX)) {
        return err_set(err, ERR_RANGE, "the price of a kilowatt hour is out of range");
    }
    return ERR_OK;
}

static int64_t capped(__int128 micro)
{
    return micro > MONEY_MICRO_MAX ? MONEY_MICRO_MAX : (int64_t)micro;
}

static __int128 divide_up(__int128 dividend, __int128 divisor)
{
    return (dividend + divisor - 1) / divisor;
}

enum err_code ownrent_compare(const struct ownrent_own *own, const struct ownrent_rent *rent,
                              int64_t kwh_micro, struct ownrent_answer *out, struct err *err)
{
    enum err_code code = check_input(own, rent, kwh_micro, err);
    if (code != ERR_OK) {
        return code;
    }
    int64_t job_s = own->job_s > 0 ? own->job_s : rent->job_s;
    __int128 watt_seconds = (__int128)own->watts * job_s;
    struct ownrent_answer answer = {
        .rent_job_micro =
            money_bill(rent->price_hour_micro, &rent->billing, rent->machines, rent->job_s),
        .own_job_micro =
            capped(watt_seconds * kwh_micro / ((__int128)WATT_HOURS_IN_KWH * MONEY_HOUR_S)),
        .break_even_jobs = -1,
        .jobs_in_life = -1,
        .own_life_job_micro = -1,
    };
    int64_t fixed = own->price_micro - own->resale_micro;
    int64_t saved = answer.rent_job_micro - answer.own_job_micro;
    if (saved > 0) {
        answer.break_even_jobs = (int64_t)divide_up(fixed, saved);
        answer.break_even_hours = (double)answer.break_even_jobs * (double)job_s / MONEY_HOUR_S;
    }
    if (own->lifetime_hours > 0) {
        answer.jobs_in_life = own->lifetime_hours * MONEY_HOUR_S / job_s;
        if (answer.jobs_in_life > 0) {
            answer.own_life_job_micro =
                capped((__int128)fixed / answer.jobs_in_life + answer.own_job_micro);
        }
    }
    answer.pays = answer.break_even_jobs >= 0 &&
                  (answer.jobs_in_life < 0 || answer.break_even_jobs <= answer.jobs_in_life);
    *out = answer;
    return ERR_OK;
}

void ownrent_totals(const struct ownrent_own *own, const struct ownrent_answer *answer,
                    int64_t jobs, int64_t *own_micro, int64_t *rent_micro)
{
    CHECK(jobs >= 0);
    __int128 fixed = own->price_micro - own->resale_micro;
    *own_micro = capped(fixed + (__int128)answer->own_job_micro * jobs);
    *rent_micro = capped((__int128)answer->rent_job_micro * jobs);
}
