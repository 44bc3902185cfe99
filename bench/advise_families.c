#include "bench/advise_families.h"

#include "base/detmath.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

enum {
    TYPES = 6,
    SIZES = 8,
    CONFIGS = TYPES * SIZES,
    JOBS = 8,
    WAVES = 12,
    FEATURES = 3,
    DEPTH = 4
};

/* What a cluster is to a law: logs of its machines, of a machine's cores, of its GiB a core, all
 * about 0 and of about the same spread. */
struct place {
    double x[FEATURES];
};

static const char *const names[FAMILIES] = {"smooth",    "valley", "cliffs",  "clones",
                                            "two kinds", "chance", "failing", "plain"};

const char *family_name(size_t family)
{
    return names[family];
}

static double normal(struct rng *rng)
{
    return det_normal_quantile(rng_open_unit_of(rng_next(rng)));
}

static double noise(struct rng *rng, double deviation)
{
    return deviation * normal(rng);
}

static void add_clusters(struct table *out, struct place places[CONFIGS])
{
    static const double cores[TYPES] = {2, 8, 2, 8, 2, 8};
    static const double gib_a_core[TYPES] = {2, 2, 4, 4, 8, 8};
    static const double nodes[SIZES] = {2, 4, 6, 8, 12, 16, 24, 32};
    out->config_count = CONFIGS;
    out->configs = mem_array(CONFIGS, sizeof *out->configs);
    out->config_names = mem_array(CONFIGS, sizeof *out->config_names);
    out->types = mem_array(CONFIGS, sizeof *out->types);
    for (size_t c = 0; c < CONFIGS; c++) {
        char text[40];
        size_t type = c / SIZES;
        double memory = cores[type] * gib_a_core[type];
        double price = .03 * cores[type] + .005 * memory;
        out->configs[c] = (struct choose_config){.nodes = nodes[c % SIZES],
                                                 .vcpus = cores[type],
                                                 .memory_gib = memory,
                                                 .hourly = nodes[c % SIZES] * price};
        snprintf(text, sizeof text, "type%zu", type);
        out->types[c] = mem_strdup(text);
        snprintf(text, sizeof text, "type%zu*%g", type, nodes[c % SIZES]);
        out->config_names[c] = mem_strdup(text);
        places[c] = (struct place){{det_log(nodes[c % SIZES] / 8), det_log(cores[type] / 4),
                                    det_log(gib_a_core[type] / 4) / det_log(2)}};
    }
}

/* A few waves in random directions. */
static void smooth(struct rng *rng, const struct place *places, double *logs)
{
    double direction[WAVES][FEATURES];
    double phase[WAVES];
    for (size_t w = 0; w < WAVES; w++) {
        phase[w] = 6.2831853 * rng_unit(rng);
        for (size_t f = 0; f < FEATURES; f++) {
            direction[w][f] = noise(rng, .9);
        }
    }
    for (size_t c = 0; c < CONFIGS; c++) {
        for (size_t w = 0; w < WAVES; w++) {
            double angle = phase[w];
            for (size_t f = 0; f < FEATURES; f++) {
                angle += direction[w][f] * places[c].x[f];
            }
            /* The cosine, as this folder's mathematics has none that is the same everywhere. */
            double turn = angle / 6.2831853 - floor(angle / 6.2831853);
            double tent = fabs(turn - .5) * 4 - 1;
            logs[c] += .25 * tent * (1.5 - .5 * tent * tent);
        }
    }
}

/* The farther from a line through the clusters, the dearer. */
static void valley(struct rng *rng, const struct place *places, double *logs)
{
    double slope[FEATURES];
    double middle = noise(rng, .5);
    for (size_t f = 0; f < FEATURES; f++) {
        slope[f] = normal(rng);
    }
    for (size_t c = 0; c < CONFIGS; c++) {
        double along = -middle;
        for (size_t f = 0; f < FEATURES; f++) {
            along += slope[f] * places[c].x[f];
        }
        logs[c] += .6 * fabs(along) + noise(rng, .05);
    }
}

/* Boxes cut at random, each with its own level. */
static void cliffs(struct rng *rng, const struct place *places, double *logs)
{
    size_t feature[DEPTH];
    double cut[DEPTH];
    double levels[1 << DEPTH];
    for (size_t d = 0; d < DEPTH; d++) {
        feature[d] = rng_below(rng, FEATURES);
        cut[d] = noise(rng, .7);
    }
    for (size_t i = 0; i < 1 << DEPTH; i++) {
        levels[i] = noise(rng, .6);
    }
    for (size_t c = 0; c < CONFIGS; c++) {
        size_t box = 0;
        for (size_t d = 0; d < DEPTH; d++) {
            box = box * 2 + (places[c].x[feature[d]] > cut[d]);
        }
        logs[c] += levels[box] + noise(rng, .03);
    }
}

/* For comparison, a law much like the assumed ones: shared work, exchange, and too little memory.
 */
static void plain(struct rng *rng, const struct choose_config *configs, double *logs)
{
    double serial = .02 * rng_unit(rng);
    double exchange = .002 * rng_unit(rng);
    double set_gib = 32 * det_exp(3 * rng_unit(rng));
    for (size_t c = 0; c < CONFIGS; c++) {
        double nodes = configs[c].nodes;
        double hours = serial + 1 / (nodes * configs[c].vcpus) + exchange * nodes;
        bool crawls = nodes * configs[c].memory_gib < set_gib;
        logs[c] += det_log(hours * (crawls ? 3 : 1) * configs[c].hourly) + noise(rng, .05);
    }
}

static void chance(struct rng *rng, double deviation, double *logs)
{
    for (size_t c = 0; c < CONFIGS; c++) {
        logs[c] += noise(rng, deviation);
    }
}

/* A third fails, on one side of a line that has nothing to do with memory. */
static void fail_some(struct rng *rng, const struct place *places, double *costs)
{
    double slope[FEATURES];
    double along[CONFIGS] = {0};
    for (size_t f = 0; f < FEATURES; f++) {
        slope[f] = normal(rng);
    }
    for (size_t c = 0; c < CONFIGS; c++) {
        for (size_t f = 0; f < FEATURES; f++) {
            along[c] += slope[f] * places[c].x[f];
        }
    }
    for (size_t c = 0; c < CONFIGS; c++) {
        size_t below = 0;
        for (size_t d = 0; d < CONFIGS; d++) {
            below += along[d] < along[c];
        }
        costs[c] = below < CONFIGS / 3 ? (double)INFINITY : costs[c];
    }
}

static void make_job(const struct table *table, size_t family, size_t job, struct rng *rng,
                     const struct place *places, const double *common)
{
    double *costs = table->cost + job * CONFIGS;
    double logs[CONFIGS] = {0};
    switch (family) {
    case 0:
    case 6:
        smooth(rng, places, logs);
        break;
    case 1:
        valley(rng, places, logs);
        break;
    case 2:
        cliffs(rng, places, logs);
        break;
    case 3: /* all alike but for their size and a little chance */
    case 4: /* what is good for one half is bad for the other */
        for (size_t c = 0; c < CONFIGS; c++) {
            logs[c] = family == 4 && job % 2 ? -common[c] : common[c];
        }
        chance(rng, .1, logs);
        break;
    case 7:
        plain(rng, table->configs, logs);
        break;
    default:
        chance(rng, .5, logs);
    }
    double size = noise(rng, 1);
    for (size_t c = 0; c < CONFIGS; c++) {
        costs[c] = det_exp(logs[c] + size);
    }
    if (family == 6) {
        fail_some(rng, places, costs);
    }
}

void family_make(size_t family, uint64_t seed, struct table *out)
{
    struct rng rng = {.state = rng_mix(seed, family, 0)};
    struct place places[CONFIGS];
    double common[CONFIGS] = {0};
    *out = (struct table){.name = names[family], .job_count = JOBS};
    add_clusters(out, places);
    smooth(&rng, places, common);
    out->jobs = mem_array(JOBS, sizeof *out->jobs);
    out->groups = mem_array(JOBS, sizeof *out->groups);
    out->cost = mem_array(JOBS * CONFIGS, sizeof *out->cost);
    for (size_t job = 0; job < JOBS; job++) {
        char text[20];
        snprintf(text, sizeof text, "job%zu", job);
        out->jobs[job] = mem_strdup(text);
        out->groups[job] = mem_strdup(text);
        make_job(out, family, job, &rng, places, common);
    }
}
