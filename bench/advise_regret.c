#include "bench/advise_regret.h"

#include "advise/dense.h"
#include "advise/recommend.h"
#include "base/detmath.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/advise_families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 10, SEEDS = 10, OUR_SEEDS = 2, TABLES = 4, CROWD = 2000 };

/* One job to find a configuration for. */
struct task {
    const struct table *table;
    size_t job;
    bool strict;
    bool alone;   /* no other job is known */
    size_t crowd; /* of possible jobs; 0: as many as serve well */
    uint64_t seed;
    size_t *order; /* RUNS configurations, or fewer for the rules that choose once */
    size_t count;
};

typedef void (*strategy_fn)(struct task *task);

static bool is_there(const struct task *task, size_t config)
{
    return !isnan(table_cost(task->table, task->job, config));
}

static bool was_run(const struct task *task, size_t config)
{
    for (size_t i = 0; i < task->count; i++) {
        if (task->order[i] == config) {
            return true;
        }
    }
    return false;
}

static size_t draw(const struct task *task, struct rng *rng)
{
    size_t config = 0;
    do {
        config = rng_below(rng, task->table->config_count);
    } while (!is_there(task, config) || was_run(task, config));
    return config;
}

static void random_search(struct task *task)
{
    struct rng rng = {.state = task->seed};
    while (task->count < RUNS) {
        size_t config = draw(task, &rng);
        task->order[task->count++] = config;
    }
}

/* ---- plain Gaussian process with expected improvement ---------------------------------------- */

struct gp {
    const struct task *task;
    size_t features;
    double *x;
    double factor[RUNS * RUNS];
    double weights[RUNS];
    double reach;
    double variance;
    double mean;
};

static double gp_like(const struct gp *gp, size_t a, size_t b)
{
    double square = 0;
    for (size_t f = 0; f < gp->features; f++) {
        double off = gp->x[a * gp->features + f] - gp->x[b * gp->features + f];
        square += off * off;
    }
    double r = sqrt(5 * square) / gp->reach;
    return gp->variance * (1 + r + r * r / 3) * det_exp(-r);
}

static void gp_features(struct gp *gp)
{
    const struct table *table = gp->task->table;
    gp->features = 3 + table->extra_count;
    gp->x = mem_array(table->config_count * gp->features, sizeof *gp->x);
    for (size_t c = 0; c < table->config_count; c++) {
        const struct choose_config *config = &table->configs[c];
        double *x = gp->x + c * gp->features;
        x[0] = det_log(config->nodes);
        x[1] = det_log(config->vcpus);
        x[2] = det_log(config->memory_gib / config->vcpus);
        for (size_t e = 0; e < table->extra_count; e++) {
            x[3 + e] = config->extra[e];
        }
    }
    for (size_t f = 0; f < gp->features; f++) {
        double mean = 0;
        double square = 0;
        double count = (double)table->config_count;
        for (size_t c = 0; c < table->config_count; c++) {
            mean += gp->x[c * gp->features + f] / count;
        }
        for (size_t c = 0; c < table->config_count; c++) {
            double off = gp->x[c * gp->features + f] - mean;
            square += off * off / count;
        }
        for (size_t c = 0; c < table->config_count; c++) {
            gp->x[c * gp->features + f] =
                (gp->x[c * gp->features + f] - mean) / (square > 0 ? sqrt(square) : 1);
        }
    }
}

/* Log likelihood of the runs so far; sets factor and weights. */
static double gp_fit(struct gp *gp, const double *logs)
{
    size_t n = gp->task->count;
    double centred[RUNS];
    for (size_t i = 0; i < n; i++) {
        centred[i] = gp->weights[i] = logs[i] - gp->mean;
        for (size_t j = 0; j <= i; j++) {
            gp->factor[i * n + j] = gp_like(gp, gp->task->order[i], gp->task->order[j]);
        }
        gp->factor[i * n + i] += .01 * gp->variance + 1e-4;
    }
    CHECK(dense_cholesky(gp->factor, n));
    dense_solve(gp->factor, n, gp->weights);
    return -.5 * dense_dot(centred, gp->weights, n) - .5 * dense_log_det(gp->factor, n);
}

/* The likeliest reach and variance of a small grid. */
static void gp_learn(struct gp *gp, const double *logs)
{
    static const double reaches[] = {.5, 1, 2, 4};
    static const double deviations[] = {.1, .3, .6, 1.2};
    double best = -(double)INFINITY;
    double best_reach = 1;
    double best_variance = 1;
    for (size_t i = 0; i < 16; i++) {
        gp->reach = reaches[i / 4];
        gp->variance = deviations[i % 4] * deviations[i % 4];
        double fit = gp_fit(gp, logs);
        if (fit > best) {
            best = fit;
            best_reach = gp->reach;
            best_variance = gp->variance;
        }
    }
    gp->reach = best_reach;
    gp->variance = best_variance;
    (void)gp_fit(gp, logs);
}

static double gp_improvement(const struct gp *gp, size_t config, double incumbent)
{
    size_t n = gp->task->count;
    double like[RUNS];
    for (size_t i = 0; i < n; i++) {
        like[i] = gp_like(gp, config, gp->task->order[i]);
    }
    double mean = gp->mean + dense_dot(like, gp->weights, n);
    dense_solve_lower(gp->factor, n, like);
    double left = gp->variance - dense_dot(like, like, n);
    double sd = sqrt(left > 1e-12 ? left : 1e-12);
    double z = (incumbent - mean) / sd;
    double density = det_exp(-z * z / 2) / sqrt(2 * 3.14159265358979);
    return sd * (z * det_normal_cdf(z) + density);
}

/* Three runs at random, then the largest expected improvement of the log cost. */
static void plain_gp(struct task *task)
{
    struct rng rng = {.state = task->seed};
    struct gp gp = {.task = task};
    gp_features(&gp);
    while (task->count < 3) {
        size_t config = draw(task, &rng);
        task->order[task->count++] = config;
    }
    while (task->count < RUNS) {
        double logs[RUNS];
        double worst = -(double)INFINITY;
        double least = (double)INFINITY;
        for (size_t i = 0; i < task->count; i++) {
            double cost = table_cost(task->table, task->job, task->order[i]);
            logs[i] = isinf(cost) ? (double)INFINITY : det_log(cost);
            worst = !isinf(cost) && logs[i] > worst ? logs[i] : worst;
            least = logs[i] < least ? logs[i] : least;
        }
        gp.mean = 0;
        for (size_t i = 0; i < task->count; i++) {
            logs[i] = isinf(logs[i]) ? (isinf(worst) ? 0 : worst) + .7 : logs[i];
            gp.mean += logs[i] / (double)task->count;
        }
        gp_learn(&gp, logs);
        size_t best = SIZE_MAX;
        double best_gain = -1;
        for (size_t c = 0; c < task->table->config_count; c++) {
            if (!is_there(task, c) || was_run(task, c)) {
                continue;
            }
            double gain = gp_improvement(&gp, c, isinf(least) ? gp.mean : least);
            if (gain > best_gain) {
                best_gain = gain;
                best = c;
            }
        }
        task->order[task->count++] = best;
    }
    free(gp.x);
}

/* ---- what others did, and the rules ---------------------------------------------------------- */

/* By the mean cost in the other jobs, as a multiple of each one's cheapest. */
static void best_for_others(struct task *task)
{
    const struct table *table = task->table;
    size_t past_count = 0;
    double *past = table_past(table, task->job, task->strict, &past_count);
    double *score = mem_array(table->config_count, sizeof *score);
    double *seen = mem_array(table->config_count, sizeof *seen);
    for (size_t j = 0; j < past_count; j++) {
        const double *row = past + j * table->config_count;
        double least = (double)INFINITY;
        double most = 0;
        for (size_t c = 0; c < table->config_count; c++) {
            least = row[c] < least ? row[c] : least;
            most = isfinite(row[c]) && row[c] > most ? row[c] : most;
        }
        for (size_t c = 0; c < table->config_count; c++) {
            if (!isnan(row[c])) {
                score[c] += (isinf(row[c]) ? 2 * most : row[c]) / least;
                seen[c]++;
            }
        }
    }
    while (task->count < RUNS) {
        size_t best = SIZE_MAX;
        for (size_t c = 0; c < table->config_count; c++) {
            bool better =
                best == SIZE_MAX ||
                (seen[c] > 0 && (seen[best] <= 0 || score[c] / seen[c] < score[best] / seen[best]));
            if (is_there(task, c) && !was_run(task, c) && better) {
                best = c;
            }
        }
        task->order[task->count++] = best;
    }
    free(past);
    free(score);
    free(seen);
}

/* The FC2 rules on a table: the budget is the median price of a cluster, a worker is taken to use
 * 100 Mbit/s a core behind 10 Gbit/s; then the largest cluster of that type that was measured and
 * is not larger (or the smallest). */
static void by_rule(struct task *task, enum recommend_rule rule)
{
    const struct table *table = task->table;
    double *hourly = mem_array(table->config_count, sizeof *hourly);
    size_t count = 0;
    for (size_t c = 0; c < table->config_count; c++) {
        if (is_there(task, c)) {
            hourly[count++] = table->configs[c].hourly;
        }
    }
    for (size_t i = 1; i < count; i++) {
        for (size_t j = i; j > 0 && hourly[j] < hourly[j - 1]; j--) {
            double swap = hourly[j];
            hourly[j] = hourly[j - 1];
            hourly[j - 1] = swap;
        }
    }
    struct catalog_row server = {.type = "server", .place = "", .provider = "", .region = ""};
    struct catalog_row *rows = mem_array(table->config_count, sizeof *rows);
    struct recommend_offer *offers = mem_array(table->config_count, sizeof *offers);
    size_t offer_count = 0;
    for (size_t c = 0; c < table->config_count; c++) {
        if (!is_there(task, c)) {
            continue;
        }
        const struct choose_config *config = &table->configs[c];
        rows[c] = (struct catalog_row){.type = table->types[c],
                                       .place = "",
                                       .price_hour_micro =
                                           money_of_units(config->hourly / config->nodes)};
        offers[offer_count++] = (struct recommend_offer){.worker = &rows[c],
                                                         .server = &server,
                                                         .worker_mbps = 100 * config->vcpus,
                                                         .server_mbps = 10000};
    }
    struct recommend_request request = {.rule = rule,
                                        .offers = offers,
                                        .offer_count = offer_count,
                                        .budget_hour_micro = money_of_units(hourly[count / 2]),
                                        .p = .95};
    struct recommend_answer answer;
    CHECK(recommend(&request, &answer, NULL) == ERR_OK);
    size_t best = SIZE_MAX;
    for (size_t c = 0; c < table->config_count; c++) {
        if (!is_there(task, c) || strcmp(table->types[c], answer.offer->worker->type) != 0) {
            continue;
        }
        bool fits = table->configs[c].nodes <= answer.workers;
        bool best_fits = best != SIZE_MAX && table->configs[best].nodes <= answer.workers;
        bool larger = best == SIZE_MAX || table->configs[c].nodes > table->configs[best].nodes;
        if (best == SIZE_MAX || (fits && (!best_fits || larger)) ||
            (!fits && !best_fits && !larger)) {
            best = c;
        }
    }
    task->order[task->count++] = best;
    free(hourly);
    free(rows);
    free(offers);
}

static void cost_opt(struct task *task)
{
    by_rule(task, RECOMMEND_COST);
}

static void time_opt(struct task *task)
{
    by_rule(task, RECOMMEND_TIME);
}

static void scala_opt(struct task *task)
{
    by_rule(task, RECOMMEND_SCALA);
}

static void ours(struct task *task)
{
    const struct table *table = task->table;
    size_t past_count = 0;
    double *past = table_past(table, task->job, task->strict, &past_count);
    past_count = task->alone ? 0 : past_count;
    struct choose_problem problem = {.configs = table->configs,
                                     .config_count = table->config_count,
                                     .extra_count = table->extra_count,
                                     .past = past,
                                     .past_count = past_count,
                                     .seed = task->seed,
                                     .crowd = task->crowd};
    struct choose *choose = NULL;
    struct err err = {0};
    if (choose_create(&problem, &choose, &err) != ERR_OK) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    for (size_t c = 0; c < table->config_count; c++) {
        if (!is_there(task, c)) {
            choose_exclude(choose, c);
        }
    }
    while (task->count < RUNS) {
        double saving = 0;
        size_t config = choose_next(choose, &saving);
        task->order[task->count++] = config;
        choose_observe(choose, config, table_cost(table, task->job, config));
    }
    choose_destroy(choose);
    free(past);
}

static void ours_alone(struct task *task)
{
    task->alone = true;
    ours(task);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Adds the regret after each run: the cheapest found above the cheapest there is. While nothing
 * has worked, the dearest that works. */
static void add_regret(const struct task *task, double regret[RUNS])
{
    double least = (double)INFINITY;
    double most = 0;
    for (size_t c = 0; c < task->table->config_count; c++) {
        double cost = table_cost(task->table, task->job, c);
        least = cost < least ? cost : least;
        most = isfinite(cost) && cost > most ? cost : most;
    }
    double best = most;
    for (size_t i = 0; i < RUNS; i++) {
        if (i < task->count) {
            double cost = table_cost(task->table, task->job, task->order[i]);
            best = cost < best ? cost : best;
        }
        regret[i] += best / least - 1;
    }
}

/* A way of choosing, and how it is tried. */
struct way {
    const char *name;
    strategy_fn strategy;
    size_t seeds;
    bool strict;
    size_t crowd;
};

/* Adds the mean over jobs and seeds, in per cent. */
static void mean_regret(const struct table *table, const struct way *way, double regret[RUNS])
{
    double sums[RUNS] = {0};
    for (size_t job = 0; job < table->job_count; job++) {
        for (size_t seed = 0; seed < way->seeds; seed++) {
            size_t order[RUNS];
            struct task task = {.table = table,
                                .job = job,
                                .strict = way->strict,
                                .crowd = way->crowd,
                                .seed = 1 + job * 1000 + seed,
                                .order = order};
            way->strategy(&task);
            add_regret(&task, sums);
        }
    }
    for (size_t i = 0; i < RUNS; i++) {
        regret[i] += 100 * sums[i] / (double)(table->job_count * way->seeds);
    }
}

static int print_line(const struct table *table, const char *name, double our, double peer,
                      double target)
{
    double ratio = peer > 0 ? our / peer : our > 0 ? 9.999 : 0;
    bool pass = ratio <= target;
    printf("bench advise-%s-%s ours %.1f %%, %s %.1f %%, ratio %.3f, target <=%g, %s\n",
           table->name, name, our, target < 1 ? "gp-ei" : "best-of-gp-ei-and-others", peer, ratio,
           target, pass ? "pass" : "short");
    return !pass;
}

int regret_run(const struct table *table)
{
    static const struct way rows[] = {{"random", random_search, SEEDS, false, 0},
                                      {"gp-ei", plain_gp, SEEDS, false, 0},
                                      {"best for others", best_for_others, 1, false, 0},
                                      {"cost-opt (one run)", cost_opt, 1, false, 0},
                                      {"time-opt (one run)", time_opt, 1, false, 0},
                                      {"scala-opt (one run)", scala_opt, 1, false, 0},
                                      {"ours", ours, OUR_SEEDS, false, 0},
                                      {"ours, strict", ours, OUR_SEEDS, true, 0},
                                      {"ours, no other jobs", ours_alone, OUR_SEEDS, false, 0},
                                      {"ours, crowd of 2000", ours, OUR_SEEDS, false, 2000}};
    static const size_t shown[] = {1, 2, 3, 4, 6, 8, 10};
    enum { GP = 1, OTHERS = 2, OURS = 6, COUNT = 10 };
    double regret[COUNT][RUNS] = {{0}};
    printf("%s: %zu jobs, %zu configurations; mean regret in %% after k paid runs\n%-22s",
           table->name, table->job_count, table->config_count, "");
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        printf("    k=%-2zu", shown[i]);
    }
    putchar('\n');
    for (size_t r = 0; r < COUNT; r++) {
        mean_regret(table, &rows[r], regret[r]);
        printf("%-22s", rows[r].name);
        for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
            printf(" %7.1f", regret[r][shown[i] - 1]);
        }
        putchar('\n');
        fflush(stdout);
    }
    double *others = regret[OTHERS];
    double *gp = regret[GP];
    int missed = print_line(table, "6-runs", regret[OURS][5], gp[5], .5);
    missed += print_line(table, "10-runs", regret[OURS][9], gp[9], .5);
    missed += print_line(table, "6-runs-better-of-both", regret[OURS][5],
                         gp[5] < others[5] ? gp[5] : others[5], 1);
    missed += print_line(table, "10-runs-better-of-both", regret[OURS][9],
                         gp[9] < others[9] ? gp[9] : others[9], 1);
    return missed;
}

void regret_families(void)
{
    static const struct way ways[] = {{"random", random_search, 5, false, 0},
                                      {"gp-ei", plain_gp, 5, false, 0},
                                      {"best for others", best_for_others, 1, false, 0},
                                      {"ours", ours, 1, false, CROWD},
                                      {"ours, alone", ours_alone, 1, false, CROWD}};
    enum { COUNT = sizeof ways / sizeof ways[0] };
    printf("made-up jobs of other laws: mean regret in %% after 6 and 10 paid runs\n%10s", "");
    for (size_t w = 0; w < COUNT; w++) {
        printf(" %15s", ways[w].name);
    }
    putchar('\n');
    for (size_t family = 0; family < FAMILIES; family++) {
        double regret[COUNT][RUNS] = {{0}};
        for (uint64_t seed = 1; seed <= TABLES; seed++) {
            struct table table;
            family_make(family, seed, &table);
            for (size_t w = 0; w < COUNT; w++) {
                mean_regret(&table, &ways[w], regret[w]);
            }
            table_release(&table);
        }
        printf("%-10s", family_name(family));
        for (size_t w = 0; w < COUNT; w++) {
            printf(" %7.1f %7.1f", regret[w][5] / TABLES, regret[w][9] / TABLES);
        }
        putchar('\n');
        fflush(stdout);
    }
}
