#include "advise/next_run.h"

#include "base/detmath.h"

#include <math.h>

enum { RIVALS_MAX = 64 };

/* A type that was never measured, nor anything like it. */
static const double unknown_sd = .8;

/* The mean of max(0, best - cost) for a log-normal cost of this median: what knowing it may save.
 */
static double worth_of_knowing(double best, double cost, double sd)
{
    if (sd <= 1e-9) {
        return 0;
    }
    double z = det_log(best / cost) / sd;
    double saved = best * det_normal_cdf(z) - cost * det_exp(sd * sd / 2) * det_normal_cdf(z - sd);
    return saved > 0 ? saved : 0;
}

/* The other way round: the mean of max(0, cost - second), for the one that looks best. */
static double worth_of_doubt(double cost, double second, double sd)
{
    if (sd <= 1e-9) {
        return 0;
    }
    double z = det_log(cost / second) / sd;
    double saved =
        cost * det_exp(sd * sd / 2) * det_normal_cdf(z + sd) - second * det_normal_cdf(z);
    return saved > 0 ? saved : 0;
}

static struct model_setting setting_at(const struct rank_request *request,
                                       const struct rank_offer *offer, uint32_t workers)
{
    return (struct model_setting){.workers = workers,
                                  .servers = offer->server ? offer->servers : 0,
                                  .server_mbps = offer->server ? offer->server->network_mbps : 0,
                                  .batch = request->batch,
                                  .scale = offer->scale,
                                  .scale_sd = offer->scale_sd};
}

/* A run of the rival at `workers`: what it takes away of the uncertainty of the rival's setting. */
static void consider(const struct rank_request *request, const struct rank_answer *answer,
                     const struct rank_row *rival, uint32_t workers, double profile_s,
                     struct next_run *out)
{
    const struct rank_row *best = &answer->rows[0];
    const struct rank_row *other = answer->row_count > 1 ? &answer->rows[1] : NULL;
    bool has_second = other && other->cost_micro > 0 &&
                      (other->verdict == RANK_ON_FRONT || other->verdict == RANK_DOMINATED);
    const struct rank_offer *offer = &request->offers[rival->offer];
    struct model_setting there = setting_at(request, offer, rival->workers);
    struct model_setting extra = setting_at(request, offer, workers);
    double before = 0;
    (void)model_factor(offer->model, &there, &before);
    /* A run of the type itself also settles how it compares with the one it was likened to. */
    there.scale_sd = offer->scale_sd / 4;
    double after = model_sd_after(offer->model, &extra, &there);
    double best_cost = money_units(best->cost_micro);
    double cost = money_units(rival->cost_micro);
    double learnt = before * before - after * after;
    double run_cost = (money_units(offer->worker->price_hour_micro) * workers +
                       (offer->server ? money_units(offer->server->price_hour_micro) : 0)) *
                      profile_s / MONEY_HOUR_S;
    double learnt_sd = sqrt(learnt > 0 ? learnt : 0);
    double worth = 0;
    if (rival != best) {
        worth = worth_of_knowing(best_cost, cost, learnt_sd);
    } else if (has_second) {
        worth = worth_of_doubt(cost, money_units(other->cost_micro), learnt_sd);
    }
    if (worth - run_cost > out->worth - out->cost) {
        *out = (struct next_run){.offer = rival->offer,
                                 .workers = workers,
                                 .worth = worth,
                                 .cost = run_cost,
                                 .sd_before = before,
                                 .sd_after = after};
    }
}

/* A type without a model: one worker would give it one. */
static void consider_unknown(const struct rank_request *request, const struct rank_row *rival,
                             const struct rank_row *best, double profile_s, struct next_run *out)
{
    const struct rank_offer *offer = &request->offers[rival->offer];
    double best_cost = money_units(best->cost_micro);
    double run_cost = money_units(offer->worker->price_hour_micro) * profile_s / MONEY_HOUR_S;
    /* Before it is known, a type is as good for its money as the best, give or take. */
    double worth = worth_of_knowing(best_cost, best_cost, unknown_sd) / 4;
    if (rival->verdict == RANK_UNMEASURED && worth - run_cost > out->worth - out->cost) {
        *out = (struct next_run){.offer = rival->offer,
                                 .workers = 1,
                                 .worth = worth,
                                 .cost = run_cost,
                                 .sd_before = unknown_sd,
                                 .sd_after = .3};
    }
}

enum err_code next_run(const struct rank_request *request, const struct rank_answer *answer,
                       double profile_s, struct next_run *out, struct err *err)
{
    *out = (struct next_run){.offer = request->offer_count};
    size_t rivals = answer->row_count < RIVALS_MAX ? answer->row_count : RIVALS_MAX;
    for (size_t i = 0; answer->front_count > 0 && i < answer->row_count; i++) {
        const struct rank_row *row = &answer->rows[i];
        const struct rank_offer *offer = &request->offers[row->offer];
        if (!offer->model) {
            consider_unknown(request, row, &answer->rows[0], profile_s, out);
            continue;
        }
        if (i >= rivals || row->verdict == RANK_NO_SPOT || row->cost_micro <= 0) {
            continue;
        }
        for (uint32_t workers = 1; workers <= row->workers; workers *= 2) {
            consider(request, answer, row, workers, profile_s, out);
        }
        consider(request, answer, row, row->workers, profile_s, out);
    }
    if (out->offer == request->offer_count) {
        return err_set(err, ERR_NOT_FOUND, "no further profile run is worth its price");
    }
    return ERR_OK;
}
