/* search_functions.h - functions with a known least value, to measure a search by.
 *
 * Those that the benchmark is judged by stand in their usual form and domain. Others were held out
 * while the search was made: among them variants moved and turned at random for each seed, since a
 * search could otherwise profit from an optimum in the middle or along the axes.
 */
#ifndef BENCH_SEARCH_FUNCTIONS_H
#define BENCH_SEARCH_FUNCTIONS_H

#include "search/search.h"

enum { FUNCTION_PARAMS_MAX = 16 };

enum function_group {
    FUNCTION_NAMED, /* the benchmark */
    FUNCTION_HELD,  /* held out */
    FUNCTION_JOB,   /* of the benchmark, but the value comes from a program: see search_jobs.py */
};

struct function {
    const char *name;
    enum function_group group;
    size_t param_count;
    struct search_param params[FUNCTION_PARAMS_MAX];
    double least; /* the least value there is; of a job, unknown */
    double (*value)(const struct function *function, uint64_t seed,
                    const struct search_value *values); /* NULL: a job */
};

size_t function_count(void);
const struct function *function_at(size_t index);
const struct function *function_find(const char *name); /* NULL: none */

#endif
