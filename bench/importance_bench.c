/* importance_bench - the time that parameter importance takes for 5,000 trials of 12 parameters,
 * the best of five, and how far its shares are from those of Ishigami's function, which are known.
 * Prints lines "bench NAME ours X UNIT, PEER Y UNIT, ratio R, target T, pass|short". */
#include "base/mem.h"
#include "base/rng.h"
#include "search/importance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TRIALS = 5000, PARAMS = 12, ROUNDS = 5 };

static const double limit_s = 1;
static const double limit_off = 0.05;

static void print_line(const char *name, double ours, const char *unit, double limit)
{
    printf("bench importance-%s ours %.3f %s, limit %g %s, ratio %.3f, target <=1, %s\n", name,
           ours, unit, limit, unit, ours / limit, ours <= limit ? "pass" : "short");
}

static double cpu_s(void)
{
    struct timespec now;
    CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(void)
{
    static struct importance_param params[PARAMS];
    static double results[TRIALS];
    double pi = acos(-1);
    double *values = mem_array((size_t)TRIALS * PARAMS, sizeof *values);
    struct rng rng = {.state = 1};
    for (size_t p = 0; p < PARAMS; p++) {
        params[p] = (struct importance_param){.low = -pi, .high = pi};
    }
    for (size_t t = 0; t < TRIALS; t++) {
        double *x = values + t * PARAMS;
        for (size_t p = 0; p < PARAMS; p++) {
            x[p] = (2 * rng_unit(&rng) - 1) * pi;
        }
        results[t] = sin(x[0]) + 7 * sin(x[1]) * sin(x[1]) + 0.1 * pow(x[2], 4) * sin(x[0]);
    }
    struct importance_table table = {.params = params,
                                     .param_count = PARAMS,
                                     .values = values,
                                     .results = results,
                                     .trial_count = TRIALS};
    struct importance found;
    double best_s = (double)INFINITY;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        double begun_s = cpu_s();
        CHECK(importance_compute(&table, &(struct importance_options){.seed = round}, &found,
                                 NULL) == ERR_OK);
        best_s = fmin(best_s, cpu_s() - begun_s);
    }
    free(values);
    double off = fmax(fabs(found.main[0] - 0.3139), fabs(found.main[1] - 0.4424));
    off = fmax(off, fabs((found.pair_count > 0 ? found.pairs[0].share : 0) - 0.2437));
    print_line("5000x12", best_s, "s", limit_s);
    print_line("ishigami-error", off, "share", limit_off);
    return 0;
}
