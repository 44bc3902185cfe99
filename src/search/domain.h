/* domain.h - the space of a search as coordinates, and its combinations as numbers.
 *
 * A point has one coordinate for each parameter: ranges and ordered parameters lie in [0, 1] (in
 * the logarithm or the cumulative probability where they are drawn so; discrete ones at the middle
 * of their cell), categorical ones hold their index, fixed ones 0, absent ones NaN. Ranks number
 * the combinations of discrete parameters, and of continuous ones cut into levels; conditions given
 * by `when` make a tree, so each rank is a distinct combination. Internal; pure.
 */
#ifndef SEARCH_DOMAIN_H
#define SEARCH_DOMAIN_H

#include "base/rng.h"
#include "search/search.h"

struct dim {
    struct search_param param; /* its name and when[] are ours */
    bool discrete;
    bool nominal;  /* categorical or fixed: coordinates are equal or not, nothing between */
    double from;   /* ranges: where coordinate 0 lies, after log for SEARCH_LOG */
    double width;  /* and how far away 1 is; for SEARCH_NORMAL probabilities */
    bool mirrored; /* SEARCH_NORMAL above its mean: taken from the lower tail, which is precise */
    size_t *children; /* whose condition names this one */
    size_t child_count;
};

struct domain {
    struct dim *dims;
    size_t count;
    size_t *order; /* parents first */
    bool discrete; /* all of them */
    bool conditions;
    search_present_fn *present;
    search_allowed_fn *allowed;
    void *arg;
};

MUST_USE enum err_code domain_init(struct domain *space, const struct search_options *options,
                                   struct err *err);
void domain_release(struct domain *space);

/* The coordinate of a value that is present, and back. index is used for discrete ones. */
double domain_coordinate(const struct dim *dim, const struct search_value *value);
struct search_value domain_value(const struct dim *dim, double coordinate);

/* The values of a point and the other way round. Coordinates of parameters that turn out to be
 * absent are ignored; those of present ones must be numbers. */
void domain_values(const struct domain *space, const double *point, struct search_value *values);
void domain_point(const struct domain *space, const struct search_value *values, double *point);

/* Are these values in the space: presence as conditions say, indices and numbers in their range?
 * Returns NULL, or the name of the first parameter that is not. */
const char *domain_misfit(const struct domain *space, const struct search_value *values);

/* A coordinate drawn at random, uniformly. */
double domain_draw(const struct dim *dim, struct rng *rng);
/* The same from a number in [0, 1). */
double domain_at_unit(const struct dim *dim, double unit);

/* How many ranks there are when continuous parameters have `levels` values: UINT64_MAX if too many
 * to count. Those where `present` (not `when`) makes a parameter absent count several times. */
uint64_t domain_rank_count(const struct domain *space, uint32_t levels);
/* The point of a rank; absent parameters are NaN. False: a rank that another one stands for. */
bool domain_unrank(const struct domain *space, uint32_t levels, uint64_t rank, double *point);

#endif
