#include "bench/advise_forms.h"

#include "advise/dense.h"
#include "advise/model.h"
#include "advise/series.h"
#include "base/detmath.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>

enum { LAWS = 4, SERIES = 100, KNOWN = 3, SIZES = 7, EXPONENTS = 3 };

static const uint32_t sizes[SIZES] = {1, 2, 4, 8, 16, 32, 64};
static const double exponents[EXPONENTS] = {1, 2, 4};

/* Gradients a second of n workers that compute for c and queue for one server that takes s: exact
 * for random times. */
static double queue(uint32_t n, double c, double s)
{
    double waiting = 0;
    double speed = 0;
    for (uint32_t i = 1; i <= n; i++) {
        double served = s * (1 + waiting);
        speed = i / (c + served);
        waiting = speed * served;
    }
    return speed;
}

static double speed_of(size_t law, uint32_t n, double c, double s)
{
    switch (law) {
    case 0:
        return queue(n, c, s);
    case 1: /* as fast as the slower of the two allows */
        return n / c < 1 / s ? n / c : 1 / s;
    case 2: /* one after the other */
        return 1 / (c / n + s);
    default: /* the more workers, the slower each is served */
        return n / (c + s * n + .01 * s * n * n);
    }
}

/* The law alone: time^p = (c / n)^p + s^p, by non-negative least squares of relative errors. */
static void fit_alone(double p, const double *times, double terms[2])
{
    double rows[KNOWN * 2];
    double y[KNOWN];
    for (size_t i = 0; i < KNOWN; i++) {
        double power = det_exp(p * det_log(times[i]));
        rows[i * 2] = det_exp(-p * det_log(sizes[i])) / power;
        rows[i * 2 + 1] = 1 / power;
        y[i] = 1;
    }
    dense_nnls(rows, y, KNOWN, 2, terms);
}

static double time_alone(double p, const double terms[2], uint32_t n)
{
    double power = terms[0] * det_exp(-p * det_log(n)) + terms[1];
    return power > 0 ? det_exp(det_log(power) / p) : (double)INFINITY;
}

static void fit_ours(const double *times, struct model *model)
{
    struct profile_run runs[KNOWN];
    struct profile profile = {.runs = runs, .count = KNOWN};
    for (size_t i = 0; i < KNOWN; i++) {
        runs[i] = (struct profile_run){.type = "x",
                                       .workers = sizes[i],
                                       .servers = 1,
                                       .batch = 64,
                                       .steps_per_s = 1 / times[i],
                                       .mode = PROFILE_ASYNC};
    }
    CHECK(model_fit(&profile, "x", PROFILE_ASYNC, 0, model, NULL) == ERR_OK);
}

void forms_report(void)
{
    struct rng rng = {.state = 5};
    puts("made-up clusters: median error in % of larger ones from the three smallest\n"
         "                 ours   p = 1   p = 2   p = 4");
    for (size_t law = 0; law < LAWS; law++) {
        static const char *const names[LAWS] = {"queue", "no queue", "in turn", "contention"};
        static double errors[1 + EXPONENTS][SERIES * (SIZES - KNOWN)];
        size_t count = 0;
        for (size_t series = 0; series < SERIES; series++) {
            double c = 1;
            double s = c / det_exp(det_log(64) * rng_unit(&rng)); /* full with 1 to 64 workers */
            double times[KNOWN];
            struct model model;
            for (size_t i = 0; i < KNOWN; i++) {
                double off = det_normal_quantile(rng_open_unit_of(rng_next(&rng)));
                times[i] = det_exp(.03 * off) / speed_of(law, sizes[i], c, s);
            }
            fit_ours(times, &model);
            for (size_t i = KNOWN; i < SIZES; i++, count++) {
                double truth = speed_of(law, sizes[i], c, s);
                struct model_setting setting = {.workers = sizes[i], .servers = 1};
                errors[0][count] = fabs(model_predict(&model, &setting).steps_per_s / truth - 1);
                for (size_t e = 0; e < EXPONENTS; e++) {
                    double terms[2];
                    fit_alone(exponents[e], times, terms);
                    double time = time_alone(exponents[e], terms, sizes[i]);
                    errors[1 + e][count] = fabs(1 / (time * truth) - 1);
                }
            }
        }
        printf("%-13s", names[law]);
        for (size_t e = 0; e <= EXPONENTS; e++) {
            printf(" %7.1f", 100 * series_median(errors[e], count));
        }
        putchar('\n');
    }
}
