/* search_state.h - the inside of a search, shared by its algorithms. Internal.
 *
 * Everything here is a function of the calls made so far (suggested, told), never of what an ask
 * computed on the way: that is what makes a restored search go on exactly as before. The cursor of
 * the scan is the one exception; it only remembers that what lies before it is used up.
 */
#ifndef SEARCH_SEARCH_STATE_H
#define SEARCH_SEARCH_STATE_H

#include "search/domain.h"
#include "search/search.h"
#include "search/sobol.h"

enum trial_state { TRIAL_RUNNING, TRIAL_FINISHED, TRIAL_FAILED, TRIAL_PRUNED, TRIAL_GONE };

struct gp_state;
struct cma_state;

struct search {
    struct domain space;
    size_t goal_count;
    enum search_goal goals[SEARCH_GOALS_MAX];
    enum search_algorithm algorithm;
    uint64_t seed;
    uint64_t trials_planned;
    uint32_t parallel;
    uint32_t levels; /* of continuous parameters, for ranks */
    bool repeats;
    uint64_t rank_count; /* UINT64_MAX: not to be scanned */

    /* One row for each trial suggested. */
    size_t trial_count;
    size_t trial_cap;
    double *points;  /* space.count each, NaN where absent */
    double *results; /* goal_count each, to be minimised; NaN if none */
    uint8_t *states; /* enum trial_state */

    uint32_t *told; /* trials by the order of tell, less those that are gone */
    size_t told_count;
    size_t told_cap;
    uint32_t *running; /* in the order of suggestion */
    size_t running_count;
    size_t running_cap;
    uint64_t finished_count;
    uint64_t failed_count;
    uint64_t pruned_count;
    uint64_t gone_count;

    uint32_t *visited;   /* open addressing: trial + 1, or 0 */
    size_t visited_size; /* a power of two */
    size_t visited_count;
    uint64_t cursor; /* ranks (permuted) before it are visited or not allowed */

    struct sobol *sobol;
    struct gp_state *gp;   /* gp and auto */
    struct cma_state *cma; /* cma-es */
    char description[160];
};

static inline const double *search_point(const struct search *search, size_t trial)
{
    return search->points + trial * search->space.count;
}

/* Randomness for the ask that comes next, a stream of its own for each purpose. */
struct rng search_stream(const struct search *search, uint64_t purpose);

/* Brings a point into the form in which it would be stored (discrete coordinates in the middle of
 * their cell, NaN where absent). Coordinates that are NaN but turn out to be present are drawn. */
void search_settle(const struct search *search, double *point, struct rng *rng);

/* May this settled point be suggested: allowed, and not suggested before (unless `repeats`)? */
bool search_is_open(const struct search *search, const double *point);

/* A random open point within `tries`; false if there was none. */
bool search_draw_open(const struct search *search, struct rng *rng, size_t tries, double *point);

/* Point `index` of the scrambled Sobol sequence, settled. */
void search_sobol_point(const struct search *search, uint64_t index, struct rng *rng,
                        double *point);

/* visited.c */
void visited_add(struct search *search, size_t trial);
bool visited_has(const struct search *search, const double *point);
/* The first open point in a random order of the ranks. ERR_NOT_FOUND: none is left. ERR_AGAIN:
 * none among very many. */
enum err_code visited_scan(struct search *search, double *point);

/* The algorithms: each writes an open point, or returns false (then a random one is taken). */
bool tpe_ask(const struct search *search, double *point);
bool gp_ask(const struct search *search, double *point);
bool cma_ask(const struct search *search, double *point);

/* What they remember beyond the trials; called after the trial is recorded. */
void gp_told(struct search *search, size_t trial);
void cma_told(struct search *search);
struct gp_state *gp_create(const struct search *search);
void gp_destroy(struct gp_state *gp);
struct cma_state *cma_create(const struct search *search);
void cma_destroy(struct cma_state *cma);

/* What auto uses for the next suggestion. */
enum search_algorithm auto_choose(const struct search *search);

#endif
