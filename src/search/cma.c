/* CMA-ES: a normal distribution that moves, grows and turns towards good trials (Hansen 2016).
 *
 * It evolves over the coordinates that are not categorical; categorical parameters have a
 * probability for each value that follows the best trials. Generations are counted in results, not
 * in suggestions: whenever lambda results have come in, whichever distribution they were drawn
 * from, it moves on (what lies too far from it is pulled in first, Hansen 2011). So nobody ever
 * waits. When it has shrunk to a point it begins again elsewhere, with twice the population.
 */
#include "search/cma.h"

#include "base/detmath.h"
#include "base/mem.h"
#include "search/scores.h"

#include <math.h>
#include <string.h>

enum { REDRAWS = 10, ATTEMPTS = 32 };

struct cma_state *cma_create(const struct search *search)
{
    struct cma_state *cma = mem_alloc(sizeof *cma);
    const struct domain *domain = &search->space;
    cma->params = mem_array(domain->count + 1, sizeof cma->params[0]);
    for (size_t i = 0; i < domain->count; i++) {
        if (!domain->dims[i].nominal) {
            cma->params[cma->dims++] = i;
        }
    }
    size_t dims = cma->dims;
    cma->mean = mem_array(dims + 1, sizeof(double));
    cma->path = mem_array(dims + 1, sizeof(double));
    cma->sigma_path = mem_array(dims + 1, sizeof(double));
    cma->scales = mem_array(dims + 1, sizeof(double));
    cma->diagonal = dims > CMA_FULL_DIMS_MAX;
    size_t size = cma->diagonal ? dims : dims * dims;
    cma->covariance = mem_array(size + 1, sizeof(double));
    cma->axes = mem_array(cma->diagonal ? 1 : size + 1, sizeof(double));
    cma->chances = mem_array(domain->count + 1, sizeof cma->chances[0]);
    for (size_t i = 0; i < domain->count; i++) {
        uint64_t count = domain->dims[i].param.count;
        if (domain->dims[i].nominal && count <= CMA_CATEGORIES_MAX) {
            cma->chances[i] = mem_array(count, sizeof(double));
        }
    }
    cma->param_count = domain->count;
    double lambda = 4 + floor(3 * det_log((double)(dims > 1 ? dims : 1)));
    cma->lambda = (size_t)lambda > search->parallel ? (size_t)lambda : search->parallel;
    if (cma->lambda > CMA_LAMBDA_MAX) {
        cma->lambda = CMA_LAMBDA_MAX;
    }
    cma_restart(search, cma);
    return cma;
}

void cma_destroy(struct cma_state *cma)
{
    if (!cma) {
        return;
    }
    for (size_t i = 0; i < cma->param_count; i++) {
        free(cma->chances[i]);
    }
    free(cma->chances);
    free(cma->params);
    free(cma->mean);
    free(cma->path);
    free(cma->sigma_path);
    free(cma->scales);
    free(cma->covariance);
    free(cma->axes);
    free(cma);
}

/* mean + sigma * B D z, each coordinate drawn again while it lies outside, all together. */
static void draw_ranges(const struct cma_state *cma, struct rng *rng, double *point)
{
    size_t dims = cma->dims;
    double z[SEARCH_PARAMS_MAX];
    for (int redraw = 0; redraw < REDRAWS; redraw++) {
        bool inside = true;
        for (size_t i = 0; i < dims; i++) {
            z[i] = cma->scales[i] * det_normal_quantile(rng_open_unit_of(rng_next(rng)));
        }
        for (size_t i = 0; i < dims; i++) {
            double step = cma->diagonal ? z[i] : 0;
            for (size_t k = 0; k < dims && !cma->diagonal; k++) {
                step += cma->axes[i * dims + k] * z[k];
            }
            double x = cma->mean[i] + cma->sigma * step;
            inside = inside && x >= 0 && x <= 1;
            point[cma->params[i]] = x < 0 ? 0 : x > 1 ? 1 : x;
        }
        if (inside) {
            return;
        }
    }
}

/* Discrete coordinates must not freeze when the distribution is narrower than their cells. */
static void unfreeze(const struct search *search, struct rng *rng, double *point)
{
    const struct cma_state *cma = search->cma;
    for (size_t i = 0; i < cma->dims; i++) {
        const struct dim *dim = &search->space.dims[cma->params[i]];
        double *x = &point[cma->params[i]];
        if (dim->discrete && rng_unit(rng) * (double)(cma->lambda + cma->dims) < 1) {
            double cell = 1 / (double)dim->param.count;
            *x += rng_next(rng) & 1 ? cell : -cell;
            *x = *x < 0 ? 0 : *x > 1 ? 1 : *x;
        }
    }
}

static void draw_categories(const struct search *search, struct rng *rng, double *point)
{
    const struct cma_state *cma = search->cma;
    for (size_t i = 0; i < cma->param_count; i++) {
        const struct dim *dim = &search->space.dims[i];
        if (!dim->nominal) {
            continue;
        }
        point[i] = domain_draw(dim, rng);
        double left = rng_unit(rng);
        for (uint64_t k = 0; cma->chances[i] && k < dim->param.count && left >= 0; k++) {
            left -= cma->chances[i][k];
            point[i] = (double)k;
        }
    }
}

bool cma_ask(const struct search *search, double *point)
{
    const struct cma_state *cma = search->cma;
    struct rng rng = search_stream(search, 6);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        draw_ranges(cma, &rng, point);
        draw_categories(search, &rng, point);
        unfreeze(search, &rng, point);
        search_settle(search, point, &rng);
        if (search_is_open(search, point)) {
            return true;
        }
    }
    return false;
}
