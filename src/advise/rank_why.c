/* Why a candidate is where it is, in words. */
#include "advise/rank.h"

static void add_excess(struct str *out, double is, double limit, const char *unit)
{
    str_addf(out, "%.1f %s over (%+.0f %%)", is - limit, unit, 100 * (is / limit - 1));
}

static void add_dominated(const struct rank_request *request, const struct rank_answer *answer,
                          const struct rank_row *row, struct str *out)
{
    const struct rank_row *by = &answer->front[row->by];
    const struct rank_offer *offer = &request->offers[by->offer];
    double cheaper = 1 - (double)by->cost_micro / (double)row->cost_micro;
    double faster = 1 - by->time_s / row->time_s;
    str_addf(out, "%u x %s is ", by->workers, offer->worker->type);
    if (cheaper >= .005) {
        str_addf(out, "%.0f %% cheaper", 100 * cheaper);
    }
    if (faster >= .005) {
        str_addf(out, "%s%.0f %% faster", cheaper >= .005 ? " and " : "", 100 * faster);
    }
    if (cheaper < .005 && faster < .005) {
        str_add(out, "a little better in both");
    }
}

void rank_why(const struct rank_request *request, const struct rank_answer *answer,
              const struct rank_row *row, struct str *out)
{
    switch (row->verdict) {
    case RANK_BEST:
        str_add(out, request->goal == RANK_CHEAPEST  ? "the cheapest that fits"
                     : request->goal == RANK_FASTEST ? "the fastest that fits"
                                                     : "the best of cost times time that fits");
        break;
    case RANK_ON_FRONT:
        str_add(out, "none is both cheaper and faster");
        break;
    case RANK_DOMINATED:
        add_dominated(request, answer, row, out);
        break;
    case RANK_TOO_SLOW:
        str_add(out, "misses the deadline: ");
        add_excess(out, row->time_s / MONEY_HOUR_S, request->deadline_s / MONEY_HOUR_S, "h");
        break;
    case RANK_OVER_BUDGET:
        str_add(out, "above the total budget: ");
        add_excess(out, money_units(row->cost_micro), money_units(request->budget_total_micro),
                   request->offers[row->offer].worker->currency);
        break;
    case RANK_OVER_HOURLY:
        str_add(out, "above the budget an hour: ");
        add_excess(out, money_units(row->hourly_micro), money_units(request->budget_hour_micro),
                   request->offers[row->offer].worker->currency);
        break;
    case RANK_UNMEASURED:
        str_add(out, "never measured, nor anything like it");
        break;
    case RANK_NO_SPOT:
        str_add(out, "no spot price");
        break;
    }
}
