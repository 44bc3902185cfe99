/* The crowd of possible jobs: drawn from a physical model, or seen in the past. */
#include "advise/choose_internal.h"
#include "advise/dense.h"
#include "base/detmath.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double reach_past = 2; /* how far a past job's runs speak for missing ones */

/* What the ranges of the model are drawn from. */
struct frame {
    double memory_low; /* logs of total memory and of memory a machine */
    double memory_high;
    double machine_low;
    double machine_high;
    double nodes; /* mean of the logs */
    double capacity;
    double extra_mean[CHOOSE_EXTRA_MAX];
    double extra_range[CHOOSE_EXTRA_MAX];
};

/* One possible job. Times are shares of the time that the shared work takes on the mean cluster. */
struct job {
    double serial;
    double growing;    /* grows with the number of machines: exchange, coordination */
    double node_power; /* how well machines add up, and cores in a machine */
    double core_power;
    double gpu_cores;   /* cores that one GPU stands for */
    double working_set; /* log GiB of the cluster; below it the job slows down by `crawl` */
    double crawl;
    double crawl_power; /* 0: at once; else growing as memory shrinks */
    double machine_set; /* the same of one machine */
    double machine_crawl;
    uint64_t family_key; /* of the chance factors of families and extras */
    double extra[CHOOSE_EXTRA_MAX];
};

static double known(double number)
{
    return number > 0 ? number : 1;
}

static double between(struct rng *rng, double low, double high)
{
    return low + (high - low) * rng_unit(rng);
}

static double log_between(struct rng *rng, double low, double high)
{
    return det_exp(between(rng, det_log(low), det_log(high)));
}

static double normal(uint64_t bits)
{
    return det_normal_quantile(rng_open_unit_of(bits));
}

void choose_centre(double *shape, size_t count)
{
    double mean = 0;
    for (size_t i = 0; i < count; i++) {
        mean += shape[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        shape[i] -= mean;
    }
}

static void measure_extras(const struct choose_problem *problem, struct frame *frame)
{
    for (size_t e = 0; e < problem->extra_count; e++) {
        double mean = 0;
        double low = (double)INFINITY;
        double high = -(double)INFINITY;
        for (size_t c = 0; c < problem->config_count; c++) {
            double extra = problem->configs[c].extra[e];
            mean += extra / (double)problem->config_count;
            low = extra < low ? extra : low;
            high = extra > high ? extra : high;
        }
        frame->extra_mean[e] = mean;
        frame->extra_range[e] = high > low ? high - low : 1;
    }
}

static void measure(const struct choose_problem *problem, struct frame *frame)
{
    *frame = (struct frame){.memory_low = (double)INFINITY,
                            .memory_high = -(double)INFINITY,
                            .machine_low = (double)INFINITY,
                            .machine_high = -(double)INFINITY};
    for (size_t c = 0; c < problem->config_count; c++) {
        const struct choose_config *config = &problem->configs[c];
        double machine = det_log(known(config->memory_gib));
        double total = machine + det_log(config->nodes);
        frame->memory_low = total < frame->memory_low ? total : frame->memory_low;
        frame->memory_high = total > frame->memory_high ? total : frame->memory_high;
        frame->machine_low = machine < frame->machine_low ? machine : frame->machine_low;
        frame->machine_high = machine > frame->machine_high ? machine : frame->machine_high;
        frame->nodes += det_log(config->nodes) / (double)problem->config_count;
        frame->capacity += det_log(known(config->vcpus)) / (double)problem->config_count;
    }
    measure_extras(problem, frame);
}

/* Broad ranges: each effect may be missing, and reaches from barely seen to dominating. */
static void draw_job(struct rng *rng, const struct frame *frame, size_t extra_count,
                     struct job *job)
{
    *job = (struct job){0};
    bool has_serial = rng_unit(rng) >= .3;
    bool has_growing = rng_unit(rng) >= .3;
    bool has_set = rng_unit(rng) < .65;
    bool has_machine_set = rng_unit(rng) < .4;
    job->serial = has_serial ? log_between(rng, .01, 2) : 0;
    job->growing = has_growing ? log_between(rng, .003, 2) : 0;
    job->node_power = between(rng, .6, 1.05);
    job->core_power = between(rng, .7, 1.1);
    job->gpu_cores = log_between(rng, 1, 100);
    job->working_set = between(rng, frame->memory_low - .5, frame->memory_high);
    job->crawl = has_set ? log_between(rng, .2, 8) : 0;
    job->crawl_power = rng_unit(rng) < .5 ? 0 : between(rng, .5, 2);
    job->machine_set = between(rng, frame->machine_low - .5, frame->machine_high);
    job->machine_crawl = has_machine_set ? log_between(rng, .1, 4) : 0;
    job->family_key = rng_next(rng);
    for (size_t e = 0; e < extra_count; e++) {
        job->extra[e] = .4 * normal(rng_next(rng)) / frame->extra_range[e];
    }
}

/* How much slower for want of memory: 0 where there is enough. */
static double want_of_memory(const struct job *job, const struct choose_config *config)
{
    double machine = det_log(known(config->memory_gib));
    double missing = job->working_set - machine - det_log(config->nodes);
    double slower = machine < job->machine_set ? job->machine_crawl : 0;
    if (missing <= 0 || job->crawl <= 0 || config->memory_gib <= 0) {
        return slower;
    }
    double share = missing < 1 ? missing : 1;
    double grown = job->crawl_power > 0 ? det_exp(job->crawl_power * det_log(share)) : 1;
    return slower + job->crawl * grown;
}

/* Families (compute, memory, ... machines) differ by chance, the same for all sizes of a family. */
static double family_factor(const struct job *job, const struct choose_config *config)
{
    double ratio = det_log(known(config->memory_gib) / known(config->vcpus));
    int64_t family = (int64_t)(ratio * 8 + (ratio < 0 ? -.5 : .5));
    bool has_gpu = config->gpus > 0;
    return .1 * normal(rng_mix(job->family_key, (uint64_t)family, has_gpu));
}

static double log_time(const struct job *job, const struct frame *frame,
                       const struct choose_config *config, double slower)
{
    double nodes = det_log(config->nodes) - frame->nodes;
    double cores = det_log(known(config->vcpus) + config->gpus * job->gpu_cores) - frame->capacity;
    double shared = det_exp(-job->node_power * nodes - job->core_power * cores);
    double time = job->serial + shared + job->growing * det_exp(nodes);
    return det_log(time * (1 + slower)) + family_factor(job, config);
}

void choose_draw_jobs(struct choose *choose, const struct choose_problem *problem, size_t count)
{
    struct rng rng = {.state = problem->seed};
    struct frame frame;
    measure(problem, &frame);
    for (size_t s = 0; s < count; s++) {
        struct job job;
        double *shape = choose->shapes + s * choose->configs;
        float *failing = choose->failing + s * choose->configs;
        draw_job(&rng, &frame, problem->extra_count, &job);
        for (size_t c = 0; c < choose->configs; c++) {
            const struct choose_config *config = &problem->configs[c];
            double slower = want_of_memory(&job, config);
            shape[c] = log_time(&job, &frame, config, slower) + choose->log_hourly[c];
            for (size_t e = 0; e < problem->extra_count; e++) {
                shape[c] += job.extra[e] * (config->extra[e] - frame.extra_mean[e]);
            }
            failing[c] = (float)(.03 + .5 * slower / (1 + slower));
        }
        choose_centre(shape, choose->configs);
    }
}

/* ---- past jobs ------------------------------------------------------------------------------- */

struct runs {
    size_t count;
    size_t worked;
    size_t *configs;
    double *logs;
    double mean;
    double variance;
};

static void read_runs(const double *costs, size_t configs, struct runs *runs)
{
    double worst = -(double)INFINITY;
    runs->count = 0;
    runs->worked = 0;
    for (size_t c = 0; c < configs; c++) {
        if (isnan(costs[c])) {
            continue;
        }
        double log_cost = isinf(costs[c]) ? (double)INFINITY : det_log(costs[c]);
        if (!isinf(log_cost)) {
            worst = log_cost > worst ? log_cost : worst;
            runs->worked++;
        }
        runs->configs[runs->count] = c;
        runs->logs[runs->count++] = log_cost;
    }
    runs->mean = 0;
    runs->variance = 0;
    for (size_t i = 0; i < runs->count; i++) {
        runs->logs[i] = isinf(runs->logs[i]) ? worst + CHOOSE_FAILURE_PENALTY : runs->logs[i];
        runs->mean += runs->logs[i] / (double)runs->count;
    }
    for (size_t i = 0; i < runs->count; i++) {
        double off = runs->logs[i] - runs->mean;
        runs->variance += off * off / (double)runs->count;
    }
}

/* The log costs of a past job on all configurations: what was run as it was, the rest by
 * interpolation. */
static void complete(const struct choose *choose, const struct runs *runs, double *shape)
{
    size_t n = runs->count;
    double variance = runs->variance + 1e-6;
    double *matrix = mem_array(n * n, sizeof *matrix);
    double *weights = mem_array(n, sizeof *weights);
    for (size_t i = 0; i < n; i++) {
        const double *a = choose->x + runs->configs[i] * choose->features;
        weights[i] = runs->logs[i] - runs->mean;
        for (size_t j = 0; j <= i; j++) {
            const double *b = choose->x + runs->configs[j] * choose->features;
            matrix[i * n + j] = variance * choose_likeness(a, b, choose->features, reach_past);
        }
        matrix[i * n + i] += .02 * variance;
    }
    bool factored = dense_cholesky(matrix, n);
    CHECK(factored); /* a kernel with noise on the diagonal */
    dense_solve(matrix, n, weights);
    for (size_t c = 0; c < choose->configs; c++) {
        shape[c] = runs->mean;
        for (size_t i = 0; i < n; i++) {
            const double *a = choose->x + runs->configs[i] * choose->features;
            const double *b = choose->x + c * choose->features;
            shape[c] += variance * choose_likeness(a, b, choose->features, reach_past) * weights[i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        shape[runs->configs[i]] = runs->logs[i];
    }
    free(matrix);
    free(weights);
}

size_t choose_add_past(struct choose *choose, const struct choose_problem *problem, size_t at)
{
    size_t configs = choose->configs;
    struct runs runs = {.configs = mem_array(configs, sizeof *runs.configs),
                        .logs = mem_array(configs, sizeof *runs.logs)};
    size_t added = 0;
    for (size_t job = 0; job < problem->past_count; job++) {
        const double *costs = problem->past + job * configs;
        double *shape = choose->shapes + (at + added) * configs;
        float *failing = choose->failing + (at + added) * configs;
        read_runs(costs, configs, &runs);
        if (runs.worked < 2) {
            continue;
        }
        complete(choose, &runs, shape);
        choose_centre(shape, configs);
        for (size_t c = 0; c < configs; c++) {
            failing[c] = isinf(costs[c]) ? .6F : .05F;
        }
        added++;
    }
    free(runs.configs);
    free(runs.logs);
    return added;
}
