#include "search/search_state.h"

enum {
    GP_PARAMS_MAX = 60, /* with more, a Gaussian process learns too little from few trials */
    GP_TRIALS_MAX = 1000,
};

/* The model of a Gaussian process is the better one while trials are few. With many its view of a
 * few hundred of them remains useful, but takes turns with tpe, which sees more broadly. */
enum search_algorithm auto_choose(const struct search *search)
{
    if (search->space.count > GP_PARAMS_MAX) {
        return SEARCH_TPE;
    }
    if (search->told_count > GP_TRIALS_MAX && search->trial_count % 2) {
        return SEARCH_TPE;
    }
    return SEARCH_GP;
}

static const char *reason(const struct search *search)
{
    if (search->space.count > GP_PARAMS_MAX) {
        return "many parameters";
    }
    if (search->told_count > GP_TRIALS_MAX) {
        return "taking turns, now that there are many trials";
    }
    return "the most from few trials";
}

const char *search_describe(struct search *search)
{
    enum search_algorithm choice = search_choice(search);
    size_t size = sizeof search->description;
    int used = 0;
    if (search->algorithm == SEARCH_AUTO) {
        used = snprintf(search->description, size, "auto: %s (%s), ", search_algorithm_name(choice),
                        reason(search));
    } else {
        used = snprintf(search->description, size, "%s: ", search_algorithm_name(choice));
    }
    size_t at = used > 0 && (size_t)used < size ? (size_t)used : 0;
    used = snprintf(search->description + at, size - at, "%zu parameters", search->space.count);
    at += used > 0 ? (size_t)used : 0;
    if (at < size && search_size(search) != UINT64_MAX) {
        (void)snprintf(search->description + at, size - at, ", %llu combinations",
                       (unsigned long long)search_size(search));
    }
    return search->description;
}
