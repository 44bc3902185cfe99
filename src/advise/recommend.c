#include "advise/recommend.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 450 * 0.95 / 213.75 is 2 on paper and a little less in binary. */
static const double rounding = 1e-9;

static bool uses_bandwidth(const struct recommend_request *request)
{
    return request->rule == RECOMMEND_SCALA || request->rule == RECOMMEND_SCALA_M;
}

/* (C - c_ps) / c_t; infinite where there is no budget. */
static double affordable(const struct recommend_request *request,
                         const struct recommend_offer *offer)
{
    int64_t left = request->budget_hour_micro - offer->server->price_hour_micro;
    if (request->budget_hour_micro < 0) {
        return (double)INFINITY;
    }
    if (left < 0) {
        return 0;
    }
    int64_t price = offer->worker->price_hour_micro;
    return price > 0 ? (double)left / (double)price : (double)INFINITY;
}

static uint32_t whole(double workers)
{
    return workers + rounding < (double)UINT32_MAX ? (uint32_t)(workers + rounding) : UINT32_MAX;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Also returns the n_t that is compared; 0: not even one worker. */
static double answer_with(const struct recommend_request *request,
                          const struct recommend_offer *offer, struct recommend_answer *answer)
{
    double n = affordable(request, offer);
    *answer = (struct recommend_answer){.offer = offer, .bandwidth_limit = UINT32_MAX};
    answer->budget_limit =
        smaller(whole(n), request->workers_max ? request->workers_max : UINT32_MAX);
    answer->workers = answer->budget_limit;
    if (uses_bandwidth(request)) {
        double behind_server = offer->server_mbps * request->p / offer->worker_mbps;
        n = behind_server < n ? behind_server : n;
        answer->bandwidth_limit = whole(behind_server);
        answer->saturated = answer->bandwidth_limit == 0;
        answer->workers = smaller(answer->workers, answer->saturated ? 1 : answer->bandwidth_limit);
    }
    __int128 hourly = (__int128)offer->worker->price_hour_micro * answer->workers +
                      offer->server->price_hour_micro;
    answer->hourly_micro = hourly < MONEY_MICRO_MAX ? (int64_t)hourly : MONEY_MICRO_MAX;
    return answer->workers > 0 ? n : 0;
}

/* From the most expensive to the cheapest; of equal prices in the order of the names. */
static int compare_offers(const void *left, const void *right)
{
    const struct recommend_offer *a = *(const struct recommend_offer *const *)left;
    const struct recommend_offer *b = *(const struct recommend_offer *const *)right;
    if (a->worker->price_hour_micro != b->worker->price_hour_micro) {
        return a->worker->price_hour_micro < b->worker->price_hour_micro ? 1 : -1;
    }
    int order = strcmp(a->worker->type, b->worker->type);
    return order ? order : strcmp(a->worker->place, b->worker->place);
}

static enum err_code nothing_fits(const struct recommend_request *request,
                                  const struct recommend_offer *const *offers, bool unmeasured,
                                  struct err *err)
{
    const struct recommend_offer *cheapest = offers[request->offer_count - 1];
    if (unmeasured) {
        return err_set(err, ERR_NOT_FOUND,
                       "no bandwidth was measured for any of the %zu worker types (such as %s): "
                       "run drover profile, or give --profile with a bandwidth_mbps (of several "
                       "batches, say which: --batch)",
                       request->offer_count, cheapest->worker->type);
    }
    return err_set(err, ERR_NOT_FOUND,
                   "the budget does not pay for %s as a server and one worker (%s is the cheapest)",
                   cheapest->server->type, cheapest->worker->type);
}

/* Walks the offers from the most expensive one; `sorted` has them in that order. */
static enum err_code choose(const struct recommend_request *request,
                            const struct recommend_offer *const *sorted,
                            struct recommend_answer *answer, struct err *err)
{
    bool scala = uses_bandwidth(request);
    bool unmeasured = scala;
    double smallest = 0; /* n_t of the answer; 0: none yet */
    for (size_t i = 0; i < request->offer_count; i++) {
        const struct recommend_offer *offer = sorted[i];
        if (scala && (offer->worker_mbps <= 0 || offer->server_mbps <= 0)) {
            continue;
        }
        unmeasured = false;
        struct recommend_answer candidate;
        double n = answer_with(request, offer, &candidate);
        bool better = smallest <= 0 || request->rule == RECOMMEND_COST || (scala && n < smallest);
        if (n > 0 && better) {
            *answer = candidate;
            smallest = n;
        }
    }
    return smallest > 0 ? ERR_OK : nothing_fits(request, sorted, unmeasured, err);
}

enum err_code recommend(const struct recommend_request *request, struct recommend_answer *answer,
                        struct err *err)
{
    if (!(request->p > 0 && request->p <= 1)) {
        return err_set(err, ERR_INVALID, "p must be above 0 and at most 1");
    }
    if (request->budget_hour_micro < 0 && request->workers_max == 0) {
        return err_set(err, ERR_INVALID,
                       "a budget an hour or a largest number of workers is needed");
    }
    if (request->offer_count == 0) {
        return err_set(err, ERR_NOT_FOUND, "no worker type is left to choose from");
    }
    if (request->rule == RECOMMEND_SCALA_M && request->offer_count != 1) {
        return err_set(err, ERR_INVALID, "scala-m needs exactly one worker type, there are %zu",
                       request->offer_count);
    }
    const struct recommend_offer **sorted = mem_array(request->offer_count, sizeof *sorted);
    for (size_t i = 0; i < request->offer_count; i++) {
        sorted[i] = &request->offers[i];
    }
    qsort(sorted, request->offer_count, sizeof *sorted, compare_offers);
    enum err_code code = choose(request, sorted, answer, err);
    free(sorted);
    return code;
}

static bool same_place(const struct catalog_row *a, const struct catalog_row *b)
{
    return strcmp(a->provider, b->provider) == 0 && strcmp(a->region, b->region) == 0 &&
           strcmp(a->currency, b->currency) == 0;
}

const struct catalog_row *recommend_server(const struct catalog_row *const *servers, size_t count,
                                           const struct catalog_row *worker)
{
    const struct catalog_row *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct catalog_row *server = servers[i];
        if (!same_place(server, worker)) {
            continue;
        }
        if (!best || server->network_mbps > best->network_mbps ||
            (server->network_mbps == best->network_mbps &&
             server->price_hour_micro < best->price_hour_micro)) {
            best = server;
        }
    }
    return best;
}

size_t recommend_pair(const struct catalog_row *const *workers, size_t worker_count,
                      const struct catalog_row *const *servers, size_t server_count,
                      struct recommend_offer *out)
{
    size_t count = 0;
    for (size_t i = 0; i < worker_count; i++) {
        const struct catalog_row *server = recommend_server(servers, server_count, workers[i]);
        if (!server) {
            continue;
        }
        size_t at = 0;
        while (at < count && (strcmp(out[at].worker->type, workers[i]->type) != 0 ||
                              strcmp(out[at].worker->provider, workers[i]->provider) != 0)) {
            at++;
        }
        if (at == count || workers[i]->price_hour_micro < out[at].worker->price_hour_micro) {
            out[at] = (struct recommend_offer){
                .worker = workers[i], .server = server, .server_mbps = server->network_mbps};
            count += at == count;
        }
    }
    return count;
}
