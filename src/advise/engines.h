/* engines.h - how many engines to run on a server: the knee of throughput against engines.
 *
 * Throughput rises with the engines until something is shared out (cores, GPU memory, the bus) and
 * may fall again. Fitted is n / (a + b n + c n^2) with a, b, c not below 0 (Gunther's scalability
 * law): a the time alone, b what must be taken in turns, c what engines lose by getting in one
 * another's way. The knee is the fewest engines that give 95 % of the best the curve has within the
 * range measured. Pure.
 */
#ifndef ADVISE_ENGINES_H
#define ADVISE_ENGINES_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct engines_fit {
    double terms[3]; /* a, b, c */
    uint32_t knee;
    uint32_t peak;     /* engines of the highest throughput, within twice the range measured */
    double knee_speed; /* fitted throughput at the knee */
    double peak_speed;
    double error; /* median relative error of the fit */
};

double engines_speed(const struct engines_fit *fit, double engines);

/* Throughput speed[i] at engines[i] engines, any unit. ERR_INVALID: no points, or numbers not above
 * 0. One point gives a knee of its own number. */
MUST_USE enum err_code engines_fit(const double *engines, const double *speed, size_t count,
                                   struct engines_fit *fit, struct err *err);

#endif
