/* How much of the belief each explanation starts with, learnt from the past jobs alone: each of
 * them is left out in turn and explained by the rest. */
#include "advise/choose_internal.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Past jobs are few and foretell much: if one is right, it soon outweighs all the rest, whatever it
 * starts with. So they never start with more than this. */
static const double past_share = .1;
/* The start counts as much as all past jobs together, and as so many at least. */
static const double start_jobs = 3;

enum { JOBS_MAX = 24, RUNS_MAX = 8, ROUNDS = 30, SHAPES_MAX = 4000 };

/* Log of how well each source, with each kind of deviation, explains a job; -INFINITY: it has
 * none. */
struct evidence {
    double log[CHOOSE_SOURCES][CHOOSE_KINDS];
};

/* The model and no model at all are on a par. */
static void start_even(struct choose *choose)
{
    double past = choose->past_count > 0 ? past_share : 0;
    double rest = (1 - past) / 2;
    memset(choose->share, 0, sizeof choose->share);
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        if (kind >= CHOOSE_STRENGTHS) {
            choose->share[CHOOSE_NOTHING][kind] = rest / CHOOSE_LOOSE;
            continue;
        }
        choose->share[CHOOSE_DRAWN][kind] = rest / CHOOSE_STRENGTHS;
        choose->share[CHOOSE_PAST][kind] = past / CHOOSE_STRENGTHS;
    }
}

/* A few runs of the job, at random: as many as one would pay for. */
static void pick_runs(const double *costs, size_t configs, struct rng *rng,
                      struct choose_belief *belief)
{
    size_t count = 0;
    double worst = 0;
    size_t *all = mem_array(configs, sizeof *all);
    for (size_t c = 0; c < configs; c++) {
        if (!isnan(costs[c])) {
            all[count++] = c;
            worst = isfinite(costs[c]) && costs[c] > worst ? costs[c] : worst;
        }
    }
    belief->n = count < RUNS_MAX ? count : RUNS_MAX;
    belief->at = mem_array(belief->n, sizeof *belief->at);
    belief->logs = mem_array(belief->n, sizeof *belief->logs);
    for (size_t i = 0; i < belief->n; i++) {
        size_t other = i + rng_below(rng, count - i);
        size_t config = all[other];
        all[other] = all[i];
        belief->at[i] = config;
        belief->logs[i] =
            isinf(costs[config]) ? det_log(worst) + CHOOSE_FAILURE_PENALTY : det_log(costs[config]);
    }
    free(all);
}

/* The log of the mean over the shapes of a source, but for one that is left out. Of very many, some
 * will do. */
static double explain(const struct choose *choose, const struct choose_belief *belief,
                      enum choose_source source, size_t kind, size_t left_out)
{
    double scratch[RUNS_MAX];
    double best = -(double)INFINITY;
    double sum = 0; /* of e^(fit - best) */
    size_t count = 0;
    size_t from = source == CHOOSE_DRAWN  ? 0
                  : source == CHOOSE_PAST ? choose->drawn_count
                                          : choose->drawn_count + choose->past_count;
    size_t size = choose_source_size(choose, source);
    size_t step = (size + SHAPES_MAX - 1) / SHAPES_MAX;
    for (size_t shape = from; shape < from + size; shape += step) {
        if (shape == left_out) {
            continue;
        }
        double fit =
            choose_belief_fit(belief, kind, choose->shapes + shape * choose->configs, scratch);
        if (fit > best) {
            sum = sum * det_exp(best - fit) + 1;
            best = fit;
        } else {
            sum += det_exp(fit - best);
        }
        count++;
    }
    return count > 0 ? best + det_log(sum / (double)count) : -(double)INFINITY;
}

static void weigh_job(const struct choose *choose, const double *costs, size_t past,
                      struct rng *rng, struct evidence *out)
{
    struct choose_belief belief = {0};
    pick_runs(costs, choose->configs, rng, &belief);
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        choose_belief_factor(choose, &belief, kind);
        for (enum choose_source source = 0; source < CHOOSE_SOURCES; source++) {
            bool has = choose->share[source][kind] > 0;
            out->log[source][kind] =
                has ? explain(choose, &belief, source, kind, choose->drawn_count + past)
                    : -(double)INFINITY;
        }
    }
    choose_belief_release(&belief);
}

/* Adds the share of the job that falls to each explanation. */
static void attribute(const struct choose *choose, const struct evidence *evidence,
                      double sums[CHOOSE_SOURCES][CHOOSE_KINDS])
{
    double best = -(double)INFINITY;
    double sum = 0;
    double part[CHOOSE_SOURCES][CHOOSE_KINDS] = {{0}};
    for (size_t i = 0; i < (size_t)CHOOSE_SOURCES * CHOOSE_KINDS; i++) {
        double log = evidence->log[i / CHOOSE_KINDS][i % CHOOSE_KINDS];
        best = log > best ? log : best;
    }
    for (size_t i = 0; i < (size_t)CHOOSE_SOURCES * CHOOSE_KINDS; i++) {
        size_t source = i / CHOOSE_KINDS;
        size_t kind = i % CHOOSE_KINDS;
        double log = evidence->log[source][kind];
        part[source][kind] = isinf(log) ? 0 : choose->share[source][kind] * det_exp(log - best);
        sum += part[source][kind];
    }
    for (size_t i = 0; i < (size_t)CHOOSE_SOURCES * CHOOSE_KINDS; i++) {
        sums[i / CHOOSE_KINDS][i % CHOOSE_KINDS] += part[i / CHOOSE_KINDS][i % CHOOSE_KINDS] / sum;
    }
}

static void cap_past(struct choose *choose)
{
    double past = 0;
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        past += choose->share[CHOOSE_PAST][kind];
    }
    if (past <= past_share) {
        return;
    }
    for (size_t kind = 0; kind < CHOOSE_KINDS; kind++) {
        choose->share[CHOOSE_PAST][kind] *= past_share / past;
        choose->share[CHOOSE_DRAWN][kind] *= (1 - past_share) / (1 - past);
        choose->share[CHOOSE_NOTHING][kind] *= (1 - past_share) / (1 - past);
    }
}

/* Shares that fit the past jobs best, drawn towards the start: expectation, maximisation. */
static void fit_shares(struct choose *choose, const struct evidence *evidence, size_t count)
{
    double start[CHOOSE_SOURCES][CHOOSE_KINDS];
    memcpy(start, choose->share, sizeof start);
    double weight = (double)count > start_jobs ? (double)count : start_jobs;
    for (int round = 0; round < ROUNDS; round++) {
        double sums[CHOOSE_SOURCES][CHOOSE_KINDS] = {{0}};
        for (size_t job = 0; job < count; job++) {
            attribute(choose, &evidence[job], sums);
        }
        for (size_t i = 0; i < (size_t)CHOOSE_SOURCES * CHOOSE_KINDS; i++) {
            size_t source = i / CHOOSE_KINDS;
            size_t kind = i % CHOOSE_KINDS;
            choose->share[source][kind] =
                (sums[source][kind] + weight * start[source][kind]) / ((double)count + weight);
        }
    }
}

void choose_learn_shares(struct choose *choose, const struct choose_problem *problem)
{
    start_even(choose);
    if (choose->past_count < 2) {
        return;
    }
    struct rng rng = {.state = rng_mix(problem->seed, choose->past_count, 0)};
    struct evidence *evidence = mem_array(JOBS_MAX, sizeof *evidence);
    size_t past = 0; /* among those that were taken in */
    size_t count = 0;
    size_t stride = (choose->past_count + JOBS_MAX - 1) / JOBS_MAX;
    for (size_t job = 0; job < problem->past_count; job++) {
        const double *costs = problem->past + job * choose->configs;
        size_t worked = 0;
        for (size_t c = 0; c < choose->configs; c++) {
            worked += isfinite(costs[c]) ? 1 : 0;
        }
        if (worked < 2) {
            continue;
        }
        if (past % stride == 0) {
            weigh_job(choose, costs, past, &rng, &evidence[count++]);
        }
        past++;
    }
    CHECK(past == choose->past_count);
    fit_shares(choose, evidence, count);
    cap_past(choose);
    free(evidence);
}
