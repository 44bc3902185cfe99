#include "base/detmath.h"
#include "base/mem.h"
#include "search/gp.h"
#include "search/gp_state.h"
#include "search/scores.h"

#include <math.h>
#include <string.h>

enum {
    POOL = 320, /* points looked at */
    STARTS = 4, /* of which the best are improved */
    CLIMB_STEPS = 16,
    NEIGHBOUR_ROUNDS = 2,
    NEAR_EVERY = 4,      /* suggestions that refine the best */
    CATEGORIES_MAX = 16, /* other values of a categorical parameter that are tried */
};

/* Where to look: a box (the trust region, or everything). */
struct box {
    double low[SEARCH_PARAMS_MAX];
    double high[SEARCH_PARAMS_MAX];
    const double *centre; /* NULL: none */
    bool whole;
};

struct candidate {
    double gain;
    double *point;
};

struct hunt {
    const struct search *search;
    struct gp_model model;
    struct box box;
    struct rng rng;
    struct candidate best[STARTS]; /* best first */
    size_t best_count;
    const double *good[8]; /* the best trials, best first */
    size_t good_count;
    double *memory;
};

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

static double draw_normal(struct rng *rng)
{
    return det_normal_quantile(rng_open_unit_of(rng_next(rng)));
}

static void whole_box(struct hunt *hunt)
{
    for (size_t i = 0; i < hunt->search->space.count; i++) {
        hunt->box.low[i] = 0;
        hunt->box.high[i] = 1;
    }
    hunt->box.whole = true;
    hunt->box.centre = NULL;
}

/* Around the best trial; sides in proportion to the model's lengths, `length` on average. */
static void trust_box(struct hunt *hunt, double length)
{
    const struct domain *domain = &hunt->search->space;
    double mean = 0;
    size_t count = 0;
    for (size_t i = 0; i < domain->count; i++) {
        if (!domain->dims[i].nominal) {
            mean -= 0.5 * det_log(hunt->model.weights[i]);
            count++;
        }
    }
    mean = count ? mean / (double)count : 0;
    hunt->box.centre = hunt->good[0];
    hunt->box.whole = false;
    for (size_t i = 0; i < domain->count; i++) {
        double ratio = det_exp(clamp(-0.5 * det_log(hunt->model.weights[i]) - mean, -1.5, 1.5));
        double side = length * ratio;
        double x = hunt->box.centre[i];
        x = isnan(x) || domain->dims[i].nominal ? 0.5 : x;
        hunt->box.low[i] = clamp(x - side / 2, 0, 1);
        hunt->box.high[i] = clamp(x + side / 2, 0, 1);
    }
}

/* Keeps the point if it is among the best so far. */
static void consider(struct hunt *hunt, const double *point)
{
    double gain = gp_model_gain(&hunt->model, point, NULL);
    size_t dims = hunt->search->space.count;
    if (hunt->best_count == STARTS && !(gain > hunt->best[STARTS - 1].gain)) {
        return;
    }
    size_t at = hunt->best_count < STARTS ? hunt->best_count++ : STARTS - 1;
    double *memory = hunt->best[at].point;
    while (at > 0 && hunt->best[at - 1].gain < gain) {
        hunt->best[at] = hunt->best[at - 1];
        at--;
    }
    memcpy(memory, point, dims * sizeof *point);
    hunt->best[at] = (struct candidate){gain, memory};
}

static void consider_open(struct hunt *hunt, double *point)
{
    search_settle(hunt->search, point, &hunt->rng);
    if (search_is_open(hunt->search, point)) {
        consider(hunt, point);
    }
}

/* Anywhere in the box; categorical parameters of a trust region mostly stay what they are. */
static void draw_in_box(struct hunt *hunt, double *point)
{
    const struct domain *domain = &hunt->search->space;
    for (size_t i = 0; i < domain->count; i++) {
        const struct dim *dim = &domain->dims[i];
        double unit = rng_unit(&hunt->rng);
        if (!dim->nominal) {
            point[i] = hunt->box.low[i] + unit * (hunt->box.high[i] - hunt->box.low[i]);
        } else if (hunt->box.centre && rng_unit(&hunt->rng) < 0.7) {
            point[i] = hunt->box.centre[i];
        } else {
            point[i] = domain_at_unit(dim, unit);
        }
    }
}

/* One of the good trials with some of its coordinates moved. */
static void draw_near_good(struct hunt *hunt, double *point)
{
    const struct domain *domain = &hunt->search->space;
    size_t count = hunt->box.whole ? hunt->good_count : 1;
    const double *from = hunt->good[rng_below(&hunt->rng, count)];
    double chance = 1 / (1 + rng_unit(&hunt->rng) * (double)domain->count);
    double reach = det_exp(-5 * rng_unit(&hunt->rng));
    for (size_t i = 0; i < domain->count; i++) {
        const struct dim *dim = &domain->dims[i];
        point[i] = from[i];
        if (rng_unit(&hunt->rng) >= chance) {
            continue;
        }
        if (dim->nominal || isnan(point[i])) {
            point[i] = domain_draw(dim, &hunt->rng);
        } else {
            double side = hunt->box.high[i] - hunt->box.low[i];
            double moved = point[i] + draw_normal(&hunt->rng) * reach * 0.5 * side;
            point[i] = clamp(moved, hunt->box.low[i], hunt->box.high[i]);
        }
    }
}

static void fill_pool(struct hunt *hunt)
{
    double point[SEARCH_PARAMS_MAX];
    for (size_t i = 0; i < POOL; i++) {
        if (i % 2 == 0) {
            draw_in_box(hunt, point);
        } else {
            draw_near_good(hunt, point);
        }
        consider_open(hunt, point);
    }
}

/* Follows the gradient from a point, coordinate by coordinate with steps that adapt. */
static void climb(struct hunt *hunt, double *point)
{
    const struct domain *domain = &hunt->search->space;
    double gradient[SEARCH_PARAMS_MAX];
    double last[SEARCH_PARAMS_MAX] = {0};
    double sizes[SEARCH_PARAMS_MAX];
    double best[SEARCH_PARAMS_MAX];
    double best_gain = -INFINITY;
    for (size_t i = 0; i < domain->count; i++) {
        sizes[i] = 0.05 * (hunt->box.high[i] - hunt->box.low[i]);
    }
    for (size_t step = 0; step < CLIMB_STEPS; step++) {
        double gain = gp_model_gain(&hunt->model, point, gradient);
        if (gain > best_gain) {
            best_gain = gain;
            memcpy(best, point, domain->count * sizeof *best);
        }
        for (size_t i = 0; i < domain->count; i++) {
            if (domain->dims[i].nominal || isnan(point[i])) {
                continue;
            }
            double agreement = gradient[i] * last[i];
            sizes[i] *= agreement > 0 ? 1.5 : agreement < 0 ? 0.4 : 1;
            last[i] = gradient[i];
            double move = gradient[i] > 0 ? sizes[i] : gradient[i] < 0 ? -sizes[i] : 0;
            point[i] = clamp(point[i] + move, hunt->box.low[i], hunt->box.high[i]);
        }
    }
    memcpy(point, best, domain->count * sizeof *best);
}

/* Tries the point with one discrete parameter changed. */
static void try_changed(struct hunt *hunt, const double *from, size_t param, double coordinate)
{
    double point[SEARCH_PARAMS_MAX];
    memcpy(point, from, hunt->search->space.count * sizeof *point);
    point[param] = coordinate;
    consider_open(hunt, point);
}

static void try_neighbours(struct hunt *hunt, size_t param)
{
    const struct dim *dim = &hunt->search->space.dims[param];
    double from[SEARCH_PARAMS_MAX];
    memcpy(from, hunt->best[0].point, hunt->search->space.count * sizeof *from);
    if (!dim->discrete || isnan(from[param])) {
        return;
    }
    uint64_t count = dim->param.count;
    if (dim->nominal) {
        for (uint64_t k = 1; k < count && k <= CATEGORIES_MAX; k++) {
            try_changed(hunt, from, param, (double)(((uint64_t)from[param] + k) % count));
        }
        return;
    }
    uint64_t index = domain_value(dim, from[param]).index;
    for (int side = -1; side <= 1; side += 2) {
        if ((side < 0 && index > 0) || (side > 0 && index + 1 < count)) {
            struct search_value value = {.present = true,
                                         .index = side < 0 ? index - 1 : index + 1};
            try_changed(hunt, from, param, domain_coordinate(dim, &value));
        }
    }
}

static void improve(struct hunt *hunt)
{
    size_t count = hunt->best_count;
    size_t dims = hunt->search->space.count;
    AUTO_FREE double *starts = mem_array(STARTS * dims + 1, sizeof *starts);
    for (size_t i = 0; i < count; i++) {
        memcpy(starts + i * dims, hunt->best[i].point, dims * sizeof *starts);
    }
    for (size_t i = 0; i < count; i++) {
        climb(hunt, starts + i * dims);
        consider_open(hunt, starts + i * dims);
    }
    for (size_t round = 0; round < NEIGHBOUR_ROUNDS; round++) {
        for (size_t i = 0; i < dims; i++) {
            try_neighbours(hunt, i);
        }
    }
}

static void find_good(struct hunt *hunt, const struct gp_choice *choice)
{
    for (size_t i = 0; i < choice->count; i++) {
        size_t at = hunt->good_count;
        if (at < sizeof hunt->good / sizeof hunt->good[0]) {
            hunt->good_count++;
        } else if (!(choice->values[i] < choice->values[choice->order[at - 1]])) {
            continue;
        } else {
            at--;
        }
        while (at > 0 && choice->values[choice->order[at - 1]] > choice->values[i]) {
            choice->order[at] = choice->order[at - 1];
            at--;
        }
        choice->order[at] = i;
    }
    for (size_t i = 0; i < hunt->good_count; i++) {
        hunt->good[i] = choice->points[choice->order[i]];
    }
}

static void hunt_init(struct hunt *hunt, const struct search *search,
                      const struct gp_choice *choice)
{
    *hunt = (struct hunt){.search = search, .rng = search_stream(search, 3)};
    size_t running = search->running_count;
    running = running < GP_FANTASIES_MAX ? running : GP_FANTASIES_MAX;
    gp_model_init(&hunt->model, &search->space, choice->count + running);
    for (size_t i = 0; i < choice->count; i++) {
        gp_model_add(&hunt->model, choice->points[i], choice->values[i]);
    }
    for (size_t i = search->running_count - running; i < search->running_count; i++) {
        gp_model_add_running(&hunt->model, search_point(search, search->running[i]));
    }
    hunt->memory = mem_array(STARTS * search->space.count + 1, sizeof(double));
    for (size_t i = 0; i < STARTS; i++) {
        hunt->best[i].point = hunt->memory + i * search->space.count;
    }
    find_good(hunt, choice);
}

/* The fitted noise, or more where the covariance is not quite positive definite. */
static bool solve(struct hunt *hunt, enum gp_view view)
{
    struct gp_hyper hyper = hunt->search->gp->hyper[view];
    for (int try = 0; try < 4; try++) {
        if (gp_model_solve(&hunt->model, &hyper)) {
            return true;
        }
        hyper.log_noise += 3;
    }
    return false;
}

bool gp_ask(const struct search *search, double *point)
{
    struct rng rng = search_stream(search, 4);
    if (gp_is_starting(search)) {
        search_sobol_point(search, search->trial_count, &rng, point);
        return search_is_open(search, point);
    }
    enum gp_view view = search->trial_count % NEAR_EVERY == 0 ? GP_NEAR : GP_WIDE;
    struct gp_choice choice;
    gp_choice_init(&choice, search, gp_points_max(search), view, &rng);
    struct hunt hunt;
    hunt_init(&hunt, search, &choice);
    bool found = false;
    if (solve(&hunt, view)) {
        if (view == GP_NEAR) {
            trust_box(&hunt, search->gp->trust);
        } else {
            whole_box(&hunt);
        }
        fill_pool(&hunt);
        improve(&hunt);
        found = hunt.best_count > 0;
        if (found) {
            memcpy(point, hunt.best[0].point, search->space.count * sizeof *point);
        }
    }
    gp_model_release(&hunt.model);
    free(hunt.memory);
    gp_choice_release(&choice);
    return found;
}
