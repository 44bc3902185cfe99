/* drover advise --algorithm cost|time|scala|scala-m: the rules of the FC2 paper. */
#include "advise/recommend.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/advise.h"

#include <stdlib.h>

static void answer_json(const struct advise *advise, const struct recommend_answer *answer,
                        struct str *out)
{
    const struct recommend_offer *offer = answer->offer;
    struct json json = {.out = out};
    json_object(&json);
    json_key(&json, "algorithm"), json_text(&json, advise_algorithm_name(advise->algorithm));
    json_key(&json, "worker_type"), json_text(&json, offer->worker->type);
    json_key(&json, "workers"), json_u64(&json, answer->workers);
    json_key(&json, "ps_type"), json_text(&json, offer->server->type);
    json_key(&json, "hourly_cost"), json_double(&json, money_units(answer->hourly_micro));
    json_key(&json, "currency"), json_text(&json, offer->worker->currency);
    json_key(&json, "provider"), json_text(&json, offer->worker->provider);
    json_key(&json, "region"), json_text(&json, offer->worker->region);
    if (answer->bandwidth_limit != UINT32_MAX) {
        json_key(&json, "p"), json_double(&json, advise->p);
        json_key(&json, "worker_mbps"), json_double(&json, offer->worker_mbps);
        json_key(&json, "ps_mbps"), json_double(&json, offer->server_mbps);
        json_key(&json, "saturated"), json_bool(&json, answer->saturated);
    }
    json_end(&json);
    str_add_char(out, '\n');
}

static void answer_text(const struct advise *advise, const struct recommend_answer *answer,
                        struct str *out)
{
    const struct recommend_offer *offer = answer->offer;
    str_addf(out, "%s: %u x %s behind 1 x %s, ", advise_algorithm_name(advise->algorithm),
             answer->workers, offer->worker->type, offer->server->type);
    money_add(out, answer->hourly_micro);
    str_addf(out, " %s an hour (%s %s)\n", offer->worker->currency, offer->worker->provider,
             offer->worker->region);
    if (answer->bandwidth_limit == UINT32_MAX) {
        return;
    }
    str_addf(out, "a worker uses %g Mbit/s; %g of %g Mbit/s serve ", offer->worker_mbps, advise->p,
             offer->server_mbps);
    if (answer->saturated) {
        str_add(out, "not even one: a wider server would make it faster\n");
    } else {
        str_addf(out, "%u\n", answer->bandwidth_limit);
    }
}

static int decide(struct advise *advise, struct recommend_offer *offers, size_t count)
{
    static const enum recommend_rule rules[] = {[ADVISE_COST] = RECOMMEND_COST,
                                                [ADVISE_TIME] = RECOMMEND_TIME,
                                                [ADVISE_SCALA] = RECOMMEND_SCALA,
                                                [ADVISE_SCALA_M] = RECOMMEND_SCALA_M};
    struct recommend_request request = {.rule = rules[advise->algorithm],
                                        .offers = offers,
                                        .offer_count = count,
                                        .budget_hour_micro = advise->budget_hour_micro,
                                        .workers_max = (uint32_t)advise->max_workers,
                                        .p = advise->p};
    for (size_t i = 0; i < count; i++) {
        offers[i].worker_mbps =
            profile_bandwidth(&advise->profile, offers[i].worker->type, advise->batch);
        offers[i].server_mbps = advise->ps_mbps > 0 ? advise->ps_mbps : offers[i].server_mbps;
    }
    struct recommend_answer answer;
    struct err err = {0};
    enum err_code code = recommend(&request, &answer, &err);
    if (code == ERR_INVALID) {
        return cli_usage_error(&cmd_advise, "%s", err.text);
    }
    if (code != ERR_OK) {
        return cli_error(EXIT_WORK_FAILED, "%s", err.text);
    }
    AUTO_STR struct str out = {0};
    if (advise->as_json) {
        answer_json(advise, &answer, &out);
    } else {
        answer_text(advise, &answer, &out);
    }
    cli_write(&out);
    return EXIT_DONE;
}

int advise_rules(struct advise *advise)
{
    const struct catalog_row **workers = NULL;
    const struct catalog_row **servers = NULL;
    size_t worker_count = advise_rows(advise, advise->worker_types, true, &workers);
    size_t server_count = advise_rows(advise, advise->ps_types, false, &servers);
    struct recommend_offer *offers = mem_array(worker_count, sizeof *offers);
    int code = advise_check_currency(workers, worker_count);
    if (code == EXIT_DONE && worker_count == 0) {
        code =
            cli_error(EXIT_WORK_FAILED, "no machine in the catalog matches (drover catalog list)");
    }
    if (code == EXIT_DONE) {
        size_t count = recommend_pair(workers, worker_count, servers, server_count, offers);
        code = count > 0 ? decide(advise, offers, count)
                         : cli_error(EXIT_WORK_FAILED,
                                     "no parameter server%s%s in the regions of the workers",
                                     advise->ps_types ? " of type " : "",
                                     advise->ps_types ? advise->ps_types : "");
    }
    free(offers);
    free(workers);
    free(servers);
    return code;
}
