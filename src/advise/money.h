/* money.h - amounts of money as whole micro-units, and what a machine's use is billed at.
 *
 * 1,000,000 micro-units are one unit of the currency, so that prices such as 0.0116 an hour are
 * exact and sums do not drift. A price is for an hour. Every sum that would not fit is refused, not
 * wrapped. Pure.
 */
#ifndef ADVISE_MONEY_H
#define ADVISE_MONEY_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { MONEY_CURRENCY_SIZE = 4, MONEY_MICRO = 1000000, MONEY_HOUR_S = 3600 };

/* More than any price an hour or bill we believe: ten thousand million units. */
#define MONEY_MICRO_MAX INT64_C(10000000000000000)

/* How use becomes billed seconds: rounded up to whole granules, never fewer than the minimum; the
 * first free_s of a machine cost nothing (a free tier). */
struct money_billing {
    int64_t granule_s; /* 1: by the second; 3600: by the hour, rounded up */
    int64_t minimum_s;
    int64_t free_s;
};

/* "0.231", "12", ".5" to micro-units, exactly; more than six decimals are rounded to nearest.
 * ERR_INVALID: not a decimal number, below 0, or above MONEY_MICRO_MAX. */
MUST_USE enum err_code money_parse(const char *text, int64_t *micro, struct err *err);

/* A number of units, rounded to nearest; beyond MONEY_MICRO_MAX (or NaN) it is MONEY_MICRO_MAX. */
int64_t money_of_units(double units);
double money_units(int64_t micro);

/* Three capital letters. */
bool money_is_currency(const char *text);

/* Seconds billed for a use of `used_s`, which must not be negative. */
int64_t money_billed_s(const struct money_billing *billing, int64_t used_s);

/* price_hour_micro * machines * billed seconds / 3600, to the nearest micro-unit; MONEY_MICRO_MAX
 * if it would be more. */
int64_t money_bill(int64_t price_hour_micro, const struct money_billing *billing, int64_t machines,
                   int64_t used_s);

/* "12.5", "0.0116": as few decimals as say it exactly, at least two. */
void money_add(struct str *out, int64_t micro);

#endif
