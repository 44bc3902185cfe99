#include "advise/rank.h"

#include "advise/spot.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 80 % of a normal variable lies within so many deviations. */
static const double interval_sds = 1.2815515655446004;

enum { BUCKETS = 1 << 16 };

/* What a model's runs say at every number of workers, so that a candidate costs a few operations.
 */
struct curve {
    const struct model *model;
    double *factor; /* by workers - workers_min */
    double *log_sd;
};

struct curves {
    struct curve *items;
    size_t count;
    size_t cap;
};

/* What ranking compares. */
struct point {
    float time_s;
    float cost;
};

struct work {
    const struct rank_request *request;
    struct curves curves;
    uint32_t sizes;
    struct point *points; /* offers * sizes; cost INFINITY: cannot be had */
};

static struct model_setting setting_of(const struct rank_request *request,
                                       const struct rank_offer *offer, uint32_t workers)
{
    return (struct model_setting){.workers = workers,
                                  .servers = offer->server ? offer->servers : 0,
                                  .server_mbps = offer->server ? offer->server->network_mbps : 0,
                                  .batch = request->batch,
                                  .scale = offer->scale};
}

/* There are few models, however many offers. */
static const struct curve *find_curve(struct work *work, const struct rank_offer *offer)
{
    for (size_t i = 0; i < work->curves.count; i++) {
        if (work->curves.items[i].model == offer->model) {
            return &work->curves.items[i];
        }
    }
    struct curve curve = {.model = offer->model,
                          .factor = mem_array(work->sizes, sizeof(double)),
                          .log_sd = mem_array(work->sizes, sizeof(double))};
    for (uint32_t i = 0; i < work->sizes; i++) {
        struct model_setting setting =
            setting_of(work->request, offer, work->request->workers_min + i);
        curve.factor[i] = model_factor(offer->model, &setting, &curve.log_sd[i]);
    }
    VEC_PUSH(work->curves.items, work->curves.count, work->curves.cap) = curve;
    return &work->curves.items[work->curves.count - 1];
}

/* Seconds of training without any loss. */
static double plain_time_s(const struct rank_request *request, const struct rank_offer *offer,
                           const struct curve *curve, uint32_t workers)
{
    struct model_setting setting = setting_of(request, offer, workers);
    double batch = request->batch > 0 ? request->batch : offer->model->batch;
    double gradients = request->examples / (batch > 0 ? batch : 1);
    return gradients * model_law_s(offer->model, &setting) *
           curve->factor[workers - request->workers_min];
}

static uint32_t spot_workers(const struct rank_offer *offer, uint32_t workers)
{
    return (uint32_t)(offer->spot_share * workers + .5);
}

/* The time that losses and checkpoints make of it, and what they are. */
static double with_losses(const struct rank_request *request, const struct rank_offer *offer,
                          uint32_t workers, double work_s, struct rank_row *row)
{
    double rate = spot_workers(offer, workers) * request->loss_rate_hour / MONEY_HOUR_S;
    if (rate <= 0) {
        return work_s;
    }
    struct spot_job job = {
        .work_s = work_s, .save_s = request->save_s, .restart_s = request->restart_s, .rate = rate};
    double interval_s = spot_best_interval(&job);
    if (row) {
        row->interval_s = interval_s;
        row->losses = spot_expected_losses(&job, interval_s);
    }
    return spot_expected_s(&job, interval_s);
}

static double hourly_of(const struct rank_offer *offer, uint32_t workers)
{
    uint32_t spot = spot_workers(offer, workers);
    double hourly = (double)offer->worker->price_hour_micro * (workers - spot);
    if (spot > 0) {
        hourly += (double)offer->worker->spot_hour_micro * spot;
    }
    if (offer->server) {
        hourly += (double)offer->server->price_hour_micro * offer->servers;
    }
    return hourly;
}

static int64_t bill(const struct rank_offer *offer, uint32_t workers, double time_s)
{
    uint32_t spot = spot_workers(offer, workers);
    int64_t used_s = time_s < 9e15 ? (int64_t)ceil(time_s) : INT64_C(9000000000000000);
    const struct catalog_row *worker = offer->worker;
    int64_t sum = money_bill(worker->price_hour_micro, &worker->billing, workers - spot, used_s);
    if (spot > 0) {
        sum += money_bill(worker->spot_hour_micro, &worker->billing, spot, used_s);
    }
    if (offer->server) {
        sum += money_bill(offer->server->price_hour_micro, &offer->server->billing, offer->servers,
                          used_s);
    }
    return sum < MONEY_MICRO_MAX ? sum : MONEY_MICRO_MAX;
}

static bool fits(const struct rank_request *request, double hourly, double time_s, double cost)
{
    return (request->deadline_s <= 0 || time_s <= request->deadline_s) &&
           (request->budget_hour_micro <= 0 || hourly <= (double)request->budget_hour_micro) &&
           (request->budget_total_micro <= 0 || cost <= (double)request->budget_total_micro);
}

static bool can_be_had(const struct rank_offer *offer)
{
    bool no_spot = offer->spot_share > 0 && offer->worker->spot_hour_micro == CATALOG_NO_SPOT;
    return offer->model && !no_spot;
}

/* Seconds billed, in doubles: the cost of a candidate to within rounding, much faster. */
static double billed_s(const struct money_billing *billing, double time_s)
{
    double paid_s = time_s < (double)billing->minimum_s ? (double)billing->minimum_s : time_s;
    double granule_s = (double)billing->granule_s;
    paid_s = granule_s > 1 ? ceil(paid_s / granule_s) * granule_s : ceil(paid_s);
    paid_s -= (double)billing->free_s;
    return paid_s > 0 ? paid_s : 0;
}

static double quick_bill(const struct rank_offer *offer, uint32_t workers, double time_s)
{
    uint32_t spot = spot_workers(offer, workers);
    const struct catalog_row *worker = offer->worker;
    double hourly = (double)worker->price_hour_micro * (workers - spot);
    hourly += spot > 0 ? (double)worker->spot_hour_micro * spot : 0;
    double cost = hourly * billed_s(&worker->billing, time_s);
    if (offer->server) {
        cost += (double)offer->server->price_hour_micro * offer->servers *
                billed_s(&offer->server->billing, time_s);
    }
    return cost / MONEY_HOUR_S;
}

static void measure_offer(struct work *work, size_t index)
{
    const struct rank_request *request = work->request;
    const struct rank_offer *offer = &request->offers[index];
    struct point *points = work->points + index * work->sizes;
    const struct curve *curve = can_be_had(offer) ? find_curve(work, offer) : NULL;
    for (uint32_t i = 0; i < work->sizes; i++) {
        points[i] = (struct point){(float)INFINITY, (float)INFINITY};
        if (!curve) {
            continue;
        }
        uint32_t workers = request->workers_min + i;
        double plain_s = plain_time_s(request, offer, curve, workers);
        double time_s = with_losses(request, offer, workers, plain_s, NULL) + request->fixed_s;
        double cost = quick_bill(offer, workers, time_s);
        points[i].time_s = (float)time_s;
        if (fits(request, hourly_of(offer, workers), time_s, cost)) {
            points[i].cost = (float)cost;
        }
    }
}

static double score(enum rank_goal goal, struct point point)
{
    switch (goal) {
    case RANK_CHEAPEST:
        return (double)point.cost;
    case RANK_FASTEST:
        return (double)point.time_s;
    case RANK_BALANCED:
        return (double)point.time_s * (double)point.cost;
    }
    return 0;
}

/* The number of workers that serves the goal best; sizes: none fits. */
static uint32_t best_size(const struct work *work, size_t offer)
{
    const struct point *points = work->points + offer * work->sizes;
    uint32_t best = work->sizes;
    for (uint32_t i = 0; i < work->sizes; i++) {
        if (isinf(points[i].cost)) {
            continue;
        }
        if (best == work->sizes ||
            score(work->request->goal, points[i]) < score(work->request->goal, points[best])) {
            best = i;
        }
    }
    return best;
}

/* Where nothing fits: the setting that comes nearest to what was asked, the fastest if a deadline
 * is in the way, else the cheapest. */
static uint32_t nearest_size(const struct work *work, size_t index)
{
    const struct rank_request *request = work->request;
    const struct point *points = work->points + index * work->sizes;
    uint32_t fastest = 0;
    for (uint32_t i = 1; i < work->sizes; i++) {
        fastest = points[i].time_s < points[fastest].time_s ? i : fastest;
    }
    bool late = request->deadline_s > 0 && (double)points[fastest].time_s > request->deadline_s;
    return late ? fastest : 0;
}

static void fill_row(struct work *work, size_t index, uint32_t size, struct rank_row *row)
{
    const struct rank_request *request = work->request;
    const struct rank_offer *offer = &request->offers[index];
    *row = (struct rank_row){.offer = index, .workers = request->workers_min + size};
    row->hourly_micro = (int64_t)fmin(hourly_of(offer, row->workers), (double)MONEY_MICRO_MAX);
    if (!can_be_had(offer)) {
        row->verdict = offer->model ? RANK_NO_SPOT : RANK_UNMEASURED;
        return;
    }
    const struct curve *curve = find_curve(work, offer);
    double sd = sqrt(curve->log_sd[size] * curve->log_sd[size] + offer->scale_sd * offer->scale_sd);
    double spread = det_exp(interval_sds * sd);
    double plain_s = plain_time_s(request, offer, curve, row->workers);
    row->time_s = with_losses(request, offer, row->workers, plain_s, row) + request->fixed_s;
    row->time_low_s =
        with_losses(request, offer, row->workers, plain_s / spread, NULL) + request->fixed_s;
    row->time_high_s =
        with_losses(request, offer, row->workers, plain_s * spread, NULL) + request->fixed_s;
    row->cost_micro = bill(offer, row->workers, row->time_s);
    row->cost_low_micro = bill(offer, row->workers, row->time_low_s);
    row->cost_high_micro = bill(offer, row->workers, row->time_high_s);
    if (request->deadline_s > 0 && row->time_s > request->deadline_s) {
        row->verdict = RANK_TOO_SLOW;
    } else if (request->budget_hour_micro > 0 && row->hourly_micro > request->budget_hour_micro) {
        row->verdict = RANK_OVER_HOURLY;
    } else if (request->budget_total_micro > 0 && row->cost_micro > request->budget_total_micro) {
        row->verdict = RANK_OVER_BUDGET;
    } else {
        row->verdict = RANK_ON_FRONT;
    }
}

/* ---- the front ------------------------------------------------------------------------------- */

/* Times in a number of classes that keeps their order: the upper bits of the float. */
static uint32_t bucket(float time_s)
{
    uint32_t bits = 0;
    memcpy(&bits, &time_s, sizeof bits);
    return bits >> 16;
}

/* least[b]: the lowest cost among all candidates of a class before b. What costs more cannot be on
 * the front, which leaves few to sort. */
static float *least_before(const struct work *work, size_t count)
{
    float *least = mem_array(BUCKETS + 1, sizeof *least);
    for (size_t b = 0; b <= BUCKETS; b++) {
        least[b] = (float)INFINITY;
    }
    for (size_t i = 0; i < count; i++) {
        struct point point = work->points[i];
        float *at = &least[bucket(point.time_s) + 1];
        *at = point.cost < *at ? point.cost : *at;
    }
    for (size_t b = 1; b <= BUCKETS; b++) {
        least[b] = least[b] < least[b - 1] ? least[b] : least[b - 1];
    }
    return least;
}

struct survivor {
    struct point point;
    size_t index;
};

/* The cheapest first; of equal cost the fastest, then the first. */
static int compare_survivors(const void *left, const void *right)
{
    const struct survivor *a = left;
    const struct survivor *b = right;
    if (a->point.cost != b->point.cost) {
        return a->point.cost < b->point.cost ? -1 : 1;
    }
    if (a->point.time_s != b->point.time_s) {
        return a->point.time_s < b->point.time_s ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static void find_front(struct work *work, struct rank_answer *answer)
{
    size_t count = work->request->offer_count * work->sizes;
    float *least = least_before(work, count);
    struct survivor *survivors = NULL;
    size_t survivor_count = 0;
    size_t cap = 0;
    size_t front_cap = 0;
    for (size_t i = 0; i < count; i++) {
        struct point point = work->points[i];
        if (!isinf(point.cost) && point.cost < least[bucket(point.time_s)]) {
            VEC_PUSH(survivors, survivor_count, cap) = (struct survivor){point, i};
        }
    }
    if (survivor_count > 0) {
        qsort(survivors, survivor_count, sizeof *survivors, compare_survivors);
    }
    float fastest_s = (float)INFINITY;
    for (size_t i = 0; i < survivor_count; i++) {
        if (survivors[i].point.time_s < fastest_s) {
            fastest_s = survivors[i].point.time_s;
            struct rank_row *row = &VEC_PUSH(answer->front, answer->front_count, front_cap);
            fill_row(work, survivors[i].index / work->sizes,
                     (uint32_t)(survivors[i].index % work->sizes), row);
            row->verdict = RANK_ON_FRONT;
        }
    }
    free(survivors);
    free(least);
}

/* ---- the order ------------------------------------------------------------------------------- */

struct ordered {
    double score; /* INFINITY: cannot be had */
    int tier;
    size_t offer;
    uint32_t size;
};

static int compare_ordered(const void *left, const void *right)
{
    const struct ordered *a = left;
    const struct ordered *b = right;
    if (a->tier != b->tier) {
        return a->tier < b->tier ? -1 : 1;
    }
    if (a->score != b->score) {
        return a->score < b->score ? -1 : 1;
    }
    return a->offer < b->offer ? -1 : a->offer > b->offer;
}

static void order_offers(struct work *work, struct rank_answer *answer)
{
    size_t count = work->request->offer_count;
    struct ordered *order = mem_array(count, sizeof *order);
    for (size_t i = 0; i < count; i++) {
        uint32_t size = best_size(work, i);
        order[i] = (struct ordered){.offer = i, .size = size};
        if (size < work->sizes) {
            order[i].score = score(work->request->goal, work->points[i * work->sizes + size]);
        } else {
            order[i].tier = can_be_had(&work->request->offers[i]) ? 1 : 2;
            order[i].size = nearest_size(work, i);
            order[i].score = (double)work->points[i * work->sizes + order[i].size].time_s;
        }
    }
    qsort(order, count, sizeof *order, compare_ordered);
    answer->rows = mem_array(count, sizeof *answer->rows);
    answer->row_count = count;
    for (size_t i = 0; i < count; i++) {
        fill_row(work, order[i].offer, order[i].size, &answer->rows[i]);
    }
    free(order);
}

/* Of the rows that fit, which is beaten by which: the first of the answer that is no dearer and no
 * slower, and better in one. Only the front can do it. */
static void give_verdicts(struct rank_answer *answer)
{
    for (size_t i = 0; i < answer->row_count; i++) {
        struct rank_row *row = &answer->rows[i];
        if (row->verdict != RANK_ON_FRONT) {
            continue;
        }
        for (size_t f = 0; f < answer->front_count; f++) {
            const struct rank_row *other = &answer->front[f];
            bool no_worse = other->cost_micro <= row->cost_micro && other->time_s <= row->time_s;
            bool better = other->cost_micro < row->cost_micro || other->time_s < row->time_s;
            if (no_worse && better) {
                row->verdict = RANK_DOMINATED;
                row->by = f;
                break;
            }
        }
        if (i == 0) {
            row->verdict = RANK_BEST;
        }
    }
}

static enum err_code check_request(const struct rank_request *request, struct err *err)
{
    if (request->offer_count == 0) {
        return err_set(err, ERR_NOT_FOUND, "no worker type is left to choose from");
    }
    if (request->workers_min == 0 || request->workers_max < request->workers_min ||
        request->workers_max > 100000) {
        return err_set(err, ERR_INVALID, "the number of workers must be from 1 to 100000");
    }
    if (!(request->examples > 0) || !isfinite(request->examples)) {
        return err_set(err, ERR_INVALID, "how much there is to train must be said");
    }
    return ERR_OK;
}

enum err_code rank(const struct rank_request *request, struct rank_answer *answer, struct err *err)
{
    *answer = (struct rank_answer){0};
    enum err_code code = check_request(request, err);
    if (code != ERR_OK) {
        return code;
    }
    struct work work = {.request = request,
                        .sizes = request->workers_max - request->workers_min + 1};
    work.points = mem_array(request->offer_count * work.sizes, sizeof *work.points);
    answer->candidates = request->offer_count * work.sizes;
    for (size_t i = 0; i < request->offer_count; i++) {
        measure_offer(&work, i);
    }
    find_front(&work, answer);
    order_offers(&work, answer);
    give_verdicts(answer);
    for (size_t i = 0; i < work.curves.count; i++) {
        free(work.curves.items[i].factor);
        free(work.curves.items[i].log_sd);
    }
    free(work.curves.items);
    free(work.points);
    if (answer->front_count == 0) {
        return err_set(err, ERR_NOT_FOUND, "none of the %zu candidates meets the limits",
                       answer->candidates);
    }
    return ERR_OK;
}

void rank_release(struct rank_answer *answer)
{
    free(answer->rows);
    free(answer->front);
    *answer = (struct rank_answer){0};
}
