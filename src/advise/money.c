#include "advise/money.h"

#include <math.h>
#include <string.h>

enum { DECIMALS = 6 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum err_code not_money(const char *text, struct err *err)
{
    return err_set(err, ERR_INVALID, "'%.40s' is not an amount of money (such as 0.231)", text);
}

/* The digits after the point: six count, the seventh rounds. */
static const char *read_decimals(const char *at, int64_t *micro)
{
    int64_t unit = MONEY_MICRO;
    for (int i = 0; is_digit(*at); i++, at++) {
        unit /= 10;
        if (i < DECIMALS) {
            *micro += (*at - '0') * unit;
        } else if (i == DECIMALS) {
            *micro += *at >= '5';
        }
    }
    return at;
}

enum err_code money_parse(const char *text, int64_t *micro, struct err *err)
{
    const char *at = text;
    int64_t sum = 0;
    bool digits = is_digit(*at) || (*at == '.' && is_digit(at[1]));
    while (is_digit(*at) && sum <= MONEY_MICRO_MAX) {
        sum = sum * 10 + (int64_t)(*at++ - '0') * MONEY_MICRO;
    }
    if (*at == '.' && sum <= MONEY_MICRO_MAX) {
        at = read_decimals(at + 1, &sum);
    }
    if (digits && sum > MONEY_MICRO_MAX) {
        return err_set(err, ERR_INVALID, "'%.40s' is more money than we believe", text);
    }
    if (!digits || *at) {
        return not_money(text, err);
    }
    *micro = sum;
    return ERR_OK;
}

int64_t money_of_units(double units)
{
    double micro = units * MONEY_MICRO;
    if (!(micro < (double)MONEY_MICRO_MAX)) {
        return MONEY_MICRO_MAX;
    }
    if (micro <= 0) {
        return 0;
    }
    return (int64_t)(micro + 0.5);
}

double money_units(int64_t micro)
{
    return (double)micro / MONEY_MICRO;
}

bool money_is_currency(const char *text)
{
    for (int i = 0; i < MONEY_CURRENCY_SIZE - 1; i++) {
        if (text[i] < 'A' || text[i] > 'Z') {
            return false;
        }
    }
    return text[MONEY_CURRENCY_SIZE - 1] == '\0';
}

int64_t money_billed_s(const struct money_billing *billing, int64_t used_s)
{
    CHECK(billing->granule_s > 0);
    CHECK(billing->minimum_s >= 0);
    CHECK(billing->free_s >= 0);
    CHECK(used_s >= 0);
    if (used_s == 0) {
        return 0;
    }
    int64_t paid_s = used_s < billing->minimum_s ? billing->minimum_s : used_s;
    if (paid_s <= INT64_MAX - billing->granule_s) {
        paid_s = (paid_s + billing->granule_s - 1) / billing->granule_s * billing->granule_s;
    }
    return paid_s > billing->free_s ? paid_s - billing->free_s : 0;
}

int64_t money_bill(int64_t price_hour_micro, const struct money_billing *billing, int64_t machines,
                   int64_t used_s)
{
    CHECK(price_hour_micro >= 0);
    CHECK(price_hour_micro <= MONEY_MICRO_MAX);
    CHECK(machines >= 0);
    CHECK(machines <= INT32_MAX);
    int64_t billed_s = money_billed_s(billing, used_s);
    /* 1e16 * 2^31 is below 2^85: the product with the seconds is looked at before it is made. */
    __int128 an_hour = (__int128)price_hour_micro * machines;
    if (an_hour > 0 && billed_s > (__int128)MONEY_MICRO_MAX * MONEY_HOUR_S / an_hour) {
        return MONEY_MICRO_MAX;
    }
    return (int64_t)((an_hour * billed_s + MONEY_HOUR_S / 2) / MONEY_HOUR_S);
}

void money_add(struct str *out, int64_t micro)
{
    CHECK(micro >= 0);
    int decimals = DECIMALS;
    int64_t part = micro % MONEY_MICRO;
    while (decimals > 2 && part % 10 == 0) {
        part /= 10;
        decimals--;
    }
    str_add_i64(out, micro / MONEY_MICRO);
    str_addf(out, ".%0*lld", decimals, (long long)part);
}
