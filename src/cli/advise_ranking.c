/* drover advise --algorithm pareto|best: every cluster ranked by what profile runs foretell. */
#include "advise/like.h"
#include "advise/next_run.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/advise.h"

#include <stdlib.h>
#include <string.h>

enum { SERVERS_MAX = 4, WORKERS_DEFAULT = 64 };

struct ranking {
    struct advise *advise;
    const struct catalog_row **workers;
    size_t worker_count;
    const struct catalog_row **servers;
    size_t server_count;
    /* Types with profile runs that the catalog knows. */
    const struct catalog_row **measured;
    struct model *models;
    size_t measured_count;
    struct rank_offer *offers;
    size_t offer_count;
    size_t offer_cap;
    struct rank_request request;
    struct rank_answer answer;
    struct next_run next;
    bool has_next;
};

/* The mode asked for, else that of the runs; without a word, synchronous. */
static enum profile_mode mode_of(const struct advise *advise)
{
    if (advise->mode != PROFILE_MODE_UNKNOWN) {
        return advise->mode;
    }
    for (size_t i = 0; i < advise->profile.count; i++) {
        if (advise->profile.runs[i].mode != PROFILE_MODE_UNKNOWN) {
            return advise->profile.runs[i].mode;
        }
    }
    return PROFILE_SYNC;
}

static const struct catalog_row *find_type(const struct catalog *catalog, const char *type)
{
    for (size_t i = 0; i < catalog->count; i++) {
        if (strcmp(catalog->rows[i].type, type) == 0) {
            return &catalog->rows[i];
        }
    }
    return NULL;
}

static bool is_measured(const struct ranking *ranking, const char *type)
{
    for (size_t i = 0; i < ranking->measured_count; i++) {
        if (strcmp(ranking->measured[i]->type, type) == 0) {
            return true;
        }
    }
    return false;
}

/* The bandwidth that the profiled server is taken to have had, where the runs do not say. */
static double profile_server_mbps(const struct ranking *ranking)
{
    double widest = ranking->advise->ps_mbps;
    for (size_t i = 0; widest <= 0 && i < ranking->server_count; i++) {
        const struct catalog_row *row = ranking->servers[i];
        if (ranking->advise->ps_types && row->network_mbps > 0) {
            widest = row->network_mbps;
        }
    }
    return widest;
}

static int fit_models(struct ranking *ranking)
{
    struct advise *advise = ranking->advise;
    const struct profile *profile = &advise->profile;
    struct err err = {0};
    ranking->measured = mem_array(profile->count, sizeof *ranking->measured);
    ranking->models = mem_array(profile->count, sizeof *ranking->models);
    for (size_t i = 0; i < profile->count; i++) {
        const char *type = profile->runs[i].type;
        const struct catalog_row *row = find_type(&advise->catalog, type);
        if (!row || is_measured(ranking, type)) {
            continue;
        }
        struct model *model = &ranking->models[ranking->measured_count];
        enum err_code code =
            model_fit(profile, type, mode_of(advise), profile_server_mbps(ranking), model, &err);
        if (code == ERR_OK) {
            ranking->measured[ranking->measured_count++] = row;
        } else if (code != ERR_NOT_FOUND) {
            return cli_error(EXIT_USAGE, "%s", err.text);
        }
    }
    if (ranking->measured_count == 0) {
        return cli_error(EXIT_USAGE,
                         "no profile run of a type in the catalog says how fast it was: give "
                         "--profile FILE with steps_per_s or examples_per_s (drover profile)");
    }
    return EXIT_DONE;
}

static bool same_place(const struct catalog_row *a, const struct catalog_row *b)
{
    return strcmp(a->provider, b->provider) == 0 && strcmp(a->region, b->region) == 0 &&
           strcmp(a->currency, b->currency) == 0;
}

/* Servers for this worker: of those that none beats in both price and bandwidth, the widest and
 * up to three cheaper ones. */
static size_t servers_for(const struct ranking *ranking, const struct catalog_row *worker,
                          const struct catalog_row *out[SERVERS_MAX])
{
    size_t count = 0;
    int64_t below = INT64_MAX;
    while (count < SERVERS_MAX) {
        const struct catalog_row *best = NULL;
        for (size_t i = 0; i < ranking->server_count; i++) {
            const struct catalog_row *row = ranking->servers[i];
            if (!same_place(row, worker) || row->price_hour_micro >= below) {
                continue;
            }
            bool better = !best || row->network_mbps > best->network_mbps ||
                          (row->network_mbps == best->network_mbps &&
                           row->price_hour_micro < best->price_hour_micro);
            best = better ? row : best;
        }
        if (!best) {
            break;
        }
        out[count++] = best;
        below = best->price_hour_micro / 2; /* each at most half the price of the one before */
    }
    return count;
}

static void add_offer(struct ranking *ranking, const struct rank_offer *offer)
{
    struct rank_offer copy = *offer;
    VEC_PUSH(ranking->offers, ranking->offer_count, ranking->offer_cap) = copy;
    if (!ranking->advise->spot || offer->worker->spot_hour_micro == CATALOG_NO_SPOT) {
        return;
    }
    for (int halves = 1; halves <= 2; halves++) {
        copy.spot_share = halves / 2.0;
        VEC_PUSH(ranking->offers, ranking->offer_count, ranking->offer_cap) = copy;
    }
}

static void add_worker(struct ranking *ranking, const struct catalog_row *worker)
{
    struct like like;
    struct rank_offer offer = {.worker = worker, .servers = 1};
    if (like_find(worker, ranking->measured, ranking->measured_count, &like)) {
        offer.model = &ranking->models[like.index];
        offer.scale = like.scale;
        offer.scale_sd = like.scale_sd;
    }
    if (mode_of(ranking->advise) == PROFILE_ALLREDUCE) {
        add_offer(ranking, &offer);
        return;
    }
    const struct catalog_row *servers[SERVERS_MAX];
    size_t count = servers_for(ranking, worker, servers);
    for (size_t i = 0; i < count; i++) {
        uint32_t most = ranking->advise->servers > 0 ? (uint32_t)ranking->advise->servers : 4;
        uint32_t fewest = ranking->advise->servers > 0 ? most : 1;
        for (uint32_t k = fewest; k <= most; k *= 2) {
            offer.server = servers[i];
            offer.servers = k;
            add_offer(ranking, &offer);
            if (!offer.model) {
                return; /* one line is enough for what cannot be ranked */
            }
        }
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void next_json(struct json *json, const struct rank_request *request,
                      const struct next_run *next)
{
    const struct rank_offer *offer = &request->offers[next->offer];
    json_key(json, "next_run"), json_object(json);
    json_key(json, "worker_type"), json_text(json, offer->worker->type);
    json_key(json, "workers"), json_u64(json, next->workers);
    json_key(json, "ps_type");
    json_text(json, offer->server ? offer->server->type : "");
    json_key(json, "expected_saving"), json_double(json, next->worth);
    json_key(json, "cost"), json_double(json, next->cost);
    json_end(json);
}

static void row_json(const struct ranking *ranking, const struct rank_row *row, size_t place,
                     struct str *out)
{
    const struct rank_request *request = &ranking->request;
    const struct rank_offer *offer = &request->offers[row->offer];
    bool timed = row->time_s > 0;
    AUTO_STR struct str why = {0};
    struct json json = {.out = out};
    rank_why(request, &ranking->answer, row, &why);
    json_object(&json);
    json_key(&json, "algorithm");
    json_text(&json, advise_algorithm_name(ranking->advise->algorithm));
    json_key(&json, "rank"), json_u64(&json, place);
    json_key(&json, "worker_type"), json_text(&json, offer->worker->type);
    json_key(&json, "workers"), json_u64(&json, row->workers);
    json_key(&json, "ps_type"), json_text(&json, offer->server ? offer->server->type : "");
    json_key(&json, "servers"), json_u64(&json, offer->server ? offer->servers : 0);
    json_key(&json, "provider"), json_text(&json, offer->worker->provider);
    json_key(&json, "region"), json_text(&json, offer->worker->region);
    json_key(&json, "spot_share"), json_double(&json, offer->spot_share);
    json_key(&json, "hourly_cost"), json_double(&json, money_units(row->hourly_micro));
    json_key(&json, "currency"), json_text(&json, offer->worker->currency);
    if (timed) {
        json_key(&json, "time_s"), json_double(&json, row->time_s);
        json_key(&json, "time_low_s"), json_double(&json, row->time_low_s);
        json_key(&json, "time_high_s"), json_double(&json, row->time_high_s);
        json_key(&json, "cost"), json_double(&json, money_units(row->cost_micro));
        json_key(&json, "cost_low"), json_double(&json, money_units(row->cost_low_micro));
        json_key(&json, "cost_high"), json_double(&json, money_units(row->cost_high_micro));
    }
    if (row->interval_s > 0) {
        json_key(&json, "loss_rate_hour"), json_double(&json, request->loss_rate_hour);
        json_key(&json, "preemptions"), json_double(&json, row->losses);
        json_key(&json, "checkpoint_interval_s"), json_double(&json, row->interval_s);
    }
    json_key(&json, "fits");
    json_bool(&json, row->verdict <= RANK_DOMINATED);
    json_key(&json, "why"), json_text(&json, str_text(&why));
    if (place == 1 && ranking->has_next) {
        next_json(&json, request, &ranking->next);
    }
    json_end(&json);
    str_add_char(out, '\n');
}

static void row_text(const struct ranking *ranking, const struct rank_row *row, size_t place,
                     struct str *out)
{
    const struct rank_request *request = &ranking->request;
    const struct rank_offer *offer = &request->offers[row->offer];
    char cluster[120];
    char servers[80] = "-";
    char time[60] = "-";
    char cost[60] = "-";
    const char *spot = offer->spot_share >= 1 ? " spot" : offer->spot_share > 0 ? " half spot" : "";
    snprintf(cluster, sizeof cluster, "%u x %.60s%s", row->workers, offer->worker->type, spot);
    if (offer->server) {
        snprintf(servers, sizeof servers, "%u x %.50s", offer->servers, offer->server->type);
    }
    if (row->time_s > 0) {
        snprintf(time, sizeof time, "%.2f h (%.2f-%.2f)", row->time_s / MONEY_HOUR_S,
                 row->time_low_s / MONEY_HOUR_S, row->time_high_s / MONEY_HOUR_S);
        snprintf(cost, sizeof cost, "%.2f (%.2f-%.2f)", money_units(row->cost_micro),
                 money_units(row->cost_low_micro), money_units(row->cost_high_micro));
    }
    str_addf(out, "%3zu  %-28s %-18s %-14s %-24s %-22s ", place, cluster, servers,
             offer->worker->region, time, cost);
    rank_why(request, &ranking->answer, row, out);
    if (row->interval_s > 0) {
        str_addf(out, "; %.1f losses expected, save every %.0f s", row->losses, row->interval_s);
    }
    str_add_char(out, '\n');
}

static void print_next(const struct rank_request *request, const struct next_run *next,
                       struct str *out)
{
    const struct rank_offer *offer = &request->offers[next->offer];
    str_addf(
        out,
        "\nworth measuring next: %u x %s%s%s (expected to save %.2f for %.2f; its time is known "
        "within %.0f %%, then %.0f %%)\n",
        next->workers, offer->worker->type, offer->server ? " behind " : "",
        offer->server ? offer->server->type : "", next->worth, next->cost, 100 * next->sd_before,
        100 * next->sd_after);
}

static void print_answer(const struct ranking *ranking)
{
    AUTO_STR struct str out = {0};
    const struct rank_request *request = &ranking->request;
    const struct rank_answer *answer = &ranking->answer;
    const struct advise *advise = ranking->advise;
    bool pareto = advise->algorithm == ADVISE_PARETO;
    const struct rank_row *rows = pareto ? answer->front : answer->rows;
    size_t count = pareto ? answer->front_count : answer->row_count;
    if (!advise->as_json) {
        str_addf(&out, "%zu candidates, %g examples; cost in %s, intervals hold 80 %%\n",
                 answer->candidates, request->examples, request->offers[0].worker->currency);
        str_addf(&out, "%3s  %-28s %-18s %-14s %-24s %-22s %s\n", "#", "WORKERS", "SERVERS",
                 "REGION", "TIME", "COST", "WHY");
    }
    for (size_t i = 0; i < count && i < advise->limit; i++) {
        if (advise->as_json) {
            row_json(ranking, &rows[i], i + 1, &out);
        } else {
            row_text(ranking, &rows[i], i + 1, &out);
        }
    }
    if (!advise->as_json && ranking->has_next) {
        print_next(request, &ranking->next, &out);
    }
    cli_write(&out);
}

static int rank_offers(struct ranking *ranking)
{
    struct advise *advise = ranking->advise;
    ranking->request = (struct rank_request){
        .goal = advise->goal,
        .offers = ranking->offers,
        .offer_count = ranking->offer_count,
        .workers_min = 1,
        .workers_max = advise->max_workers ? (uint32_t)advise->max_workers : WORKERS_DEFAULT,
        .examples = advise->examples > 0 ? advise->examples : 1e6,
        .batch = advise->batch,
        .deadline_s = advise->deadline_s,
        .budget_hour_micro = advise->budget_hour_micro > 0 ? advise->budget_hour_micro : 0,
        .budget_total_micro = advise->budget_total_micro,
        .fixed_s = advise->setup_s,
        .loss_rate_hour = advise->loss_rate_hour,
        .save_s = advise->save_s,
        .restart_s = advise->restart_s};
    struct err err = {0};
    enum err_code code = rank(&ranking->request, &ranking->answer, &err);
    if (code == ERR_INVALID || (code != ERR_OK && ranking->answer.row_count == 0)) {
        return cli_error(EXIT_USAGE, "%s", err.text);
    }
    ranking->has_next =
        code == ERR_OK && next_run(&ranking->request, &ranking->answer, advise->profile_s,
                                   &ranking->next, NULL) == ERR_OK;
    print_answer(ranking);
    return code == ERR_OK ? EXIT_DONE : cli_error(EXIT_WORK_FAILED, "%s", err.text);
}

int advise_ranking(struct advise *advise)
{
    struct ranking ranking = {.advise = advise};
    ranking.worker_count = advise_rows(advise, advise->worker_types, true, &ranking.workers);
    ranking.server_count = advise_rows(advise, advise->ps_types, false, &ranking.servers);
    int code = advise_check_currency(ranking.workers, ranking.worker_count);
    if (code == EXIT_DONE && ranking.worker_count == 0) {
        code =
            cli_error(EXIT_WORK_FAILED, "no machine in the catalog matches (drover catalog list)");
    }
    code = code == EXIT_DONE ? fit_models(&ranking) : code;
    if (code == EXIT_DONE) {
        for (size_t i = 0; i < ranking.worker_count; i++) {
            add_worker(&ranking, ranking.workers[i]);
        }
        code = ranking.offer_count > 0
                   ? rank_offers(&ranking)
                   : cli_error(EXIT_WORK_FAILED, "no parameter server in the workers' regions");
    }
    rank_release(&ranking.answer);
    free(ranking.workers);
    free(ranking.servers);
    free(ranking.measured);
    free(ranking.models);
    free(ranking.offers);
    return code;
}
