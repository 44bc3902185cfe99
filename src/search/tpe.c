/* The tree-structured Parzen estimator: points are likely where good trials are and others are not.
 *
 * Good trials and the others each give a density, a mixture of kernels around their trials and a
 * uniform part. Of some points drawn from the first density, that with the largest ratio is taken
 * (Bergstra and others, 2011). A kernel is a product over all parameters, so that what goes
 * together stays together. Densities are relative to the uniform one; a parameter that is absent,
 * here or there, counts as 1. Of the others a sample will do, which bounds the time.
 */
#include "base/detmath.h"
#include "base/mem.h"
#include "search/scores.h"

#include <math.h>
#include <string.h>

enum {
    START_TRIALS = 10,
    GOOD_MAX = 25,
    OTHERS_MAX = 192,
    RUNNING_MAX = 64,
    CANDIDATES = 32,
    REDRAWS = 8,
};

static const double SPREAD = 0.1;
static const double SPREAD_TRIALS = 200; /* from so many on, kernels of good trials get narrower */

/* One of the two densities. */
struct density {
    const struct domain *domain;
    size_t count;
    const double **centres;
    double *log_scale;                /* of each kernel: what it is at its centre */
    double widths[SEARCH_PARAMS_MAX]; /* standard deviation, or the chance of another category */
    double falls[SEARCH_PARAMS_MAX];  /* how kernels fall: by the squared gap, or if it is not 0 */
    double spread;                    /* of ranges, before it is scaled by count */
    double *scratch;
};

/* Within 2e-4 of the normal distribution's. */
static double roughly_normal_cdf(double z)
{
    return 1 / (1 + det_exp(-(1.5976 * z + 0.07056 * z * z * z)));
}

/* The spread of the kernels along one parameter. */
static double kernel_width(const struct density *density, size_t param)
{
    const struct dim *dim = &density->domain->dims[param];
    double n = (double)density->count;
    if (dim->nominal) {
        double most = 1 - 1 / (double)dim->param.count;
        double share = 1 / sqrt(n + 1);
        return most * (share > 0.1 ? share : 0.1);
    }
    /* Scott's power of the count, with a spread that was found to work. */
    double power = -1 / ((double)density->domain->count + 4);
    double width = density->spread * det_exp(power * det_log(n + 1));
    double least = 0;
    if (dim->discrete) {
        double cell = 0.5 / (double)dim->param.count;
        least = least > cell ? least : cell;
    }
    return width > least ? width : least;
}

/* The logarithm of a kernel's greatest value: what normalises it within [0, 1]. */
static double kernel_log_scale(const struct density *density, const double *centre)
{
    double product = 1;
    double log_sum = 0;
    for (size_t i = 0; i < density->domain->count; i++) {
        const struct dim *dim = &density->domain->dims[i];
        double width = density->widths[i];
        if (isnan(centre[i])) {
            continue;
        }
        if (dim->nominal) {
            product *= (1 - width) * (double)dim->param.count;
        } else {
            double inside = roughly_normal_cdf((1 - centre[i]) / width) -
                            roughly_normal_cdf(-centre[i] / width);
            product *= 0.39894228040143268 / (width * inside);
        }
        if (product > 1e100 || product < 1e-100) {
            log_sum += det_log(product);
            product = 1;
        }
    }
    return log_sum + det_log(product);
}

static void density_init(struct density *density, const struct domain *domain, size_t cap)
{
    *density = (struct density){.domain = domain};
    density->centres = mem_array(cap + 1, sizeof density->centres[0]);
    density->log_scale = mem_array(cap + 1, sizeof(double));
    density->scratch = mem_array(cap + 1, sizeof(double));
}

static void density_release(struct density *density)
{
    free(density->centres);
    free(density->log_scale);
    free(density->scratch);
}

static void density_prepare(struct density *density)
{
    for (size_t i = 0; i < density->domain->count; i++) {
        const struct dim *dim = &density->domain->dims[i];
        double width = kernel_width(density, i);
        density->widths[i] = width;
        density->falls[i] = -0.5 / (width * width);
        if (dim->nominal) {
            double others = dim->param.count > 1 ? (double)(dim->param.count - 1) : 1;
            density->falls[i] = width > 0 ? det_log(width / (others * (1 - width))) : 0;
        }
    }
    for (size_t i = 0; i < density->count; i++) {
        density->log_scale[i] = kernel_log_scale(density, density->centres[i]);
    }
}

/* The logarithm of one kernel at a point, less its scale. */
static double kernel_fall(const struct density *density, const double *centre, const double *point)
{
    double sum = 0;
    const struct dim *dims = density->domain->dims;
    for (size_t i = 0; i < density->domain->count; i++) {
        double gap = point[i] - centre[i];
        if (dims[i].nominal) {
            gap = gap < 0 || gap > 0;
        }
        double fall = density->falls[i] * gap * gap;
        sum += fall == fall ? fall : 0; /* absent here or there */
    }
    return sum;
}

static double density_log(const struct density *density, const double *point)
{
    double most = 0; /* the uniform part */
    for (size_t i = 0; i < density->count; i++) {
        double at = density->log_scale[i] + kernel_fall(density, density->centres[i], point);
        density->scratch[i] = at;
        most = at > most ? at : most;
    }
    double sum = det_exp(-most);
    for (size_t i = 0; i < density->count; i++) {
        sum += det_exp(density->scratch[i] - most);
    }
    return most + det_log(sum / ((double)density->count + 1));
}

/* A coordinate from the kernel around `centre`, cut off at the ends. */
static double draw_near(const struct dim *dim, double centre, double width, struct rng *rng)
{
    if (isnan(centre)) {
        return domain_draw(dim, rng);
    }
    if (dim->nominal) {
        if (dim->param.count < 2 || rng_unit(rng) >= width) {
            return centre;
        }
        uint64_t other = 1 + rng_below(rng, dim->param.count - 1);
        return (double)(((uint64_t)centre + other) % dim->param.count);
    }
    for (int i = 0; i < REDRAWS; i++) {
        double x = centre + width * det_normal_quantile(rng_open_unit_of(rng_next(rng)));
        if (x >= 0 && x <= 1) {
            return x;
        }
    }
    return centre;
}

static void density_draw(const struct density *density, struct rng *rng, double *point)
{
    uint64_t which = rng_below(rng, density->count + 1);
    for (size_t i = 0; i < density->domain->count; i++) {
        const struct dim *dim = &density->domain->dims[i];
        point[i] = which == density->count
                       ? domain_draw(dim, rng)
                       : draw_near(dim, density->centres[which][i], density->widths[i], rng);
    }
}

/* A tenth of the trials, but not many: with many trials it is the very best that matter. */
static size_t good_count(size_t count)
{
    size_t tenth = (count + 9) / 10;
    return tenth < 2 ? 2 : tenth > GOOD_MAX ? GOOD_MAX : tenth;
}

/* The trials that are no good, if there are too many those with the least hash: the same ones as
 * long as no new one takes the place of another. */
static void add_others(struct density *others, const struct search *search,
                       const struct scores *scores, const bool *good)
{
    AUTO_FREE double *hashes = mem_array(scores->count + 1, sizeof *hashes);
    AUTO_FREE double *sorted = mem_array(scores->count + 1, sizeof *sorted);
    size_t count = 0;
    for (size_t i = 0; i < scores->count; i++) {
        hashes[i] = rng_unit_of(rng_mix(search->seed, scores->trials[i], 0x7e));
        if (!good[i]) {
            sorted[count++] = hashes[i];
        }
    }
    double bound = count > OTHERS_MAX ? scores_select(sorted, count, OTHERS_MAX) : 2;
    for (size_t i = 0; i < scores->count && others->count < OTHERS_MAX; i++) {
        if (!good[i] && hashes[i] < bound) {
            others->centres[others->count++] = search_point(search, scores->trials[i]);
        }
    }
}

static void divide(const struct search *search, struct density *good, struct density *others,
                   struct rng *rng)
{
    struct scores scores;
    scores_init(&scores, search, search->told_count, rng);
    AUTO_FREE double *sorted = mem_dup(scores.values, scores.count * sizeof(double));
    AUTO_FREE bool *is_good = mem_array(scores.count + 1, sizeof *is_good);
    size_t wanted = good_count(scores.count);
    wanted = wanted < scores.count ? wanted : scores.count;
    double bound = scores_select(sorted, scores.count, wanted - 1);
    /* All below the bound, then those that equal it until there are enough. */
    for (int equal = 0; equal <= 1; equal++) {
        for (size_t i = 0; i < scores.count && good->count < wanted; i++) {
            if (!is_good[i] && (equal ? scores.values[i] == bound : scores.values[i] < bound)) {
                is_good[i] = true;
                good->centres[good->count++] = search_point(search, scores.trials[i]);
            }
        }
    }
    add_others(others, search, &scores, is_good);
    size_t running = search->running_count < RUNNING_MAX ? search->running_count : RUNNING_MAX;
    for (size_t i = search->running_count - running; i < search->running_count; i++) {
        others->centres[others->count++] = search_point(search, search->running[i]);
    }
    scores_release(&scores);
}

static bool choose(const struct search *search, const struct density *good,
                   const struct density *others, struct rng *rng, double *point)
{
    double candidate[SEARCH_PARAMS_MAX];
    double best = -INFINITY;
    for (size_t i = 0; i < CANDIDATES; i++) {
        density_draw(good, rng, candidate);
        search_settle(search, candidate, rng);
        if (!search_is_open(search, candidate)) {
            continue;
        }
        double ratio = density_log(good, candidate) - density_log(others, candidate);
        if (ratio > best) {
            best = ratio;
            memcpy(point, candidate, search->space.count * sizeof *point);
        }
    }
    return best > -INFINITY;
}

bool tpe_ask(const struct search *search, double *point)
{
    struct rng rng = search_stream(search, 5);
    if (search->trial_count - search->gone_count < START_TRIALS || search->finished_count < 2) {
        search_sobol_point(search, search->trial_count, &rng, point);
        return search_is_open(search, point);
    }
    struct density good;
    struct density others;
    density_init(&good, &search->space, GOOD_MAX);
    density_init(&others, &search->space, OTHERS_MAX + RUNNING_MAX);
    divide(search, &good, &others, &rng);
    good.spread = SPREAD;
    others.spread = SPREAD;
    double crowd = (double)search->told_count / SPREAD_TRIALS;
    if (crowd > 1) {
        good.spread *= det_exp(-0.25 * det_log(crowd));
    }
    density_prepare(&good);
    density_prepare(&others);
    bool found = choose(search, &good, &others, &rng, point);
    density_release(&good);
    density_release(&others);
    return found;
}
