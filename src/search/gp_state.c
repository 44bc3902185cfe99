#include "search/gp_state.h"

#include "base/mem.h"
#include "search/scores.h"

#include <math.h>
#include <string.h>

enum { START_MIN = 5, START_MAX = 16, FIT_STEPS = 6, FIT_STEPS_FIRST = 20, FIT_TOGETHER_MAX = 60 };

static const double TRUST_FIRST = 0.8, TRUST_MAX = 1.6, TRUST_MIN = 0.0078125;

struct gp_state *gp_create(const struct search *search)
{
    struct gp_state *gp = mem_alloc(sizeof *gp);
    gp_hyper_init(&gp->hyper[GP_WIDE], &search->space);
    gp->hyper[GP_NEAR] = gp->hyper[GP_WIDE];
    gp->trust = TRUST_FIRST;
    gp->best = INFINITY;
    return gp;
}

void gp_destroy(struct gp_state *gp)
{
    free(gp);
}

static size_t start_count(const struct search *search)
{
    size_t count = search->space.count + 2;
    return count < START_MIN ? START_MIN : count > START_MAX ? START_MAX : count;
}

bool gp_is_starting(const struct search *search)
{
    return search->trial_count - search->gone_count < start_count(search) ||
           search->told_count < START_MIN - 1 || search->finished_count < 2;
}

/* Pairs times parameters bound the work and memory of a fit. */
static size_t bounded(const struct search *search, size_t most)
{
    enum { WORK_MAX = 400000 };
    size_t dims = search->space.count ? search->space.count : 1;
    while (most > 16 && most * most / 2 * dims > WORK_MAX) {
        most -= 8;
    }
    return most;
}

size_t gp_points_max(const struct search *search)
{
    return bounded(search, GP_POINTS_MAX);
}

void gp_choice_init(struct gp_choice *choice, const struct search *search, size_t max,
                    enum gp_view view, struct rng *rng)
{
    struct scores scores;
    scores_init(&scores, search, search->told_count, rng);
    size_t room = scores.count < max ? scores.count : max;
    *choice = (struct gp_choice){0};
    choice->points = mem_array(room + 1, sizeof choice->points[0]);
    choice->values = mem_array(room + 1, sizeof choice->values[0]);
    choice->order = mem_array(room + 1, sizeof choice->order[0]);
    AUTO_FREE bool *taken = mem_array(scores.count + 1, sizeof *taken);
    if (scores.count > max) {
        AUTO_FREE double *sorted = mem_dup(scores.values, scores.count * sizeof(double));
        double bound = scores_select(sorted, scores.count, max / 2);
        size_t left = max / 2;
        for (size_t i = 0; i < scores.count && left > 0; i++) {
            taken[i] = scores.values[i] < bound;
            left -= taken[i];
        }
    }
    size_t count = 0;
    for (size_t i = 0; i < scores.count; i++) {
        count += taken[i];
    }
    for (size_t i = scores.count; i-- > 0 && count < room;) {
        count += !taken[i];
        taken[i] = true;
    }
    for (size_t i = 0; i < scores.count; i++) {
        if (taken[i]) {
            choice->points[choice->count] = search_point(search, scores.trials[i]);
            choice->values[choice->count++] = scores.values[i];
        }
    }
    scores_release(&scores);
    if (view == GP_WIDE) {
        scores_tame(choice->values, choice->count);
    } else {
        scores_zoom(choice->values, choice->count);
    }
}

void gp_choice_release(struct gp_choice *choice)
{
    free(choice->points);
    free(choice->values);
    free(choice->order);
    *choice = (struct gp_choice){0};
}

static void fit_view(struct search *search, enum gp_view view, size_t steps)
{
    struct gp_choice choice;
    gp_choice_init(&choice, search, bounded(search, GP_FIT_POINTS_MAX), view, NULL);
    gp_fit(&search->gp->hyper[view], &search->space, choice.points, choice.values, choice.count,
           steps);
    gp_choice_release(&choice);
}

/* Both views while that is cheap, then in turns. */
static void fit(struct search *search)
{
    size_t steps = search->gp->fits == 0 ? FIT_STEPS_FIRST : FIT_STEPS;
    for (enum gp_view view = 0; view < GP_VIEWS; view++) {
        if (search->told_count < FIT_TOGETHER_MAX || search->gp->fits % GP_VIEWS == view) {
            fit_view(search, view, steps);
        }
    }
    search->gp->fits++;
    search->gp->fitted_at = search->told_count;
}

static void update_trust(struct search *search, size_t trial)
{
    struct gp_state *gp = search->gp;
    double value = search->results[trial]; /* NaN: a failure */
    if (search->states[trial] == TRIAL_FINISHED && value < gp->best) {
        gp->successes++;
        gp->failures = 0;
        gp->best = value;
    } else {
        gp->successes = 0;
        gp->failures++;
    }
    size_t patience = search->space.count > 4 ? search->space.count : 4;
    if (gp->successes >= 3) {
        gp->trust = gp->trust * 2 < TRUST_MAX ? gp->trust * 2 : TRUST_MAX;
        gp->successes = 0;
    } else if (gp->failures >= patience + search->parallel) {
        gp->trust /= 2;
        gp->failures = 0;
    }
    if (gp->trust < TRUST_MIN) {
        gp->trust = TRUST_FIRST;
    }
}

/* Often while there are few trials, then each time a fortieth more came in. */
void gp_told(struct search *search, size_t trial)
{
    if (search->states[trial] == TRIAL_GONE) {
        return;
    }
    if (search->goal_count == 1 && search->told_count > start_count(search)) {
        update_trust(search, trial);
    }
    size_t since = search->told_count - search->gp->fitted_at;
    if (search->told_count >= START_MIN - 1 && search->finished_count >= 2 &&
        since * 40 >= search->told_count) {
        fit(search);
    }
}
