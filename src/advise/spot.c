#include "advise/spot.h"

#include "base/detmath.h"

#include <math.h>

/* e^x - 1 without losing the digits of a small x. */
static double exp_less_one(double x)
{
    if (fabs(x) < 1e-5) {
        return x + x * x / 2;
    }
    return det_exp(x) - 1;
}

double spot_expected_s(const struct spot_job *job, double interval_s)
{
    CHECK(interval_s > 0);
    if (job->work_s <= 0) {
        return 0;
    }
    if (job->rate <= 0) {
        return job->work_s;
    }
    double pieces = job->work_s / interval_s;
    double piece_s = exp_less_one(job->rate * (interval_s + job->save_s)) / job->rate;
    double expected_s = pieces * piece_s * det_exp(job->rate * job->restart_s);
    return isfinite(expected_s) ? expected_s : (double)INFINITY;
}

double spot_expected_losses(const struct spot_job *job, double interval_s)
{
    return job->rate > 0 ? job->rate * spot_expected_s(job, interval_s) : 0;
}

double spot_young(const struct spot_job *job)
{
    return job->rate > 0 ? sqrt(2 * job->save_s / job->rate) : job->work_s;
}

double spot_daly(const struct spot_job *job)
{
    if (job->rate <= 0) {
        return job->work_s;
    }
    if (job->save_s * job->rate >= 2) {
        return 1 / job->rate;
    }
    double x = sqrt(job->save_s * job->rate / 2);
    return sqrt(2 * job->save_s / job->rate) * (1 + x / 3 + x * x / 9) - job->save_s;
}

/* The best interval t solves rate t = 1 - e^(-rate (t + save)). The right side less the left falls
 * from above 0 at t = 0 to below it at t = 1 / rate, and bends one way: halving finds it. */
double spot_best_interval(const struct spot_job *job)
{
    if (job->rate <= 0) {
        return job->work_s;
    }
    double low = 0;
    double high = 1 / job->rate;
    for (int i = 0; i < 60; i++) {
        double t = (low + high) / 2;
        double excess = -exp_less_one(-job->rate * (t + job->save_s)) - job->rate * t;
        *(excess > 0 ? &low : &high) = t;
    }
    double best = (low + high) / 2;
    if (best > job->work_s) {
        return job->work_s;
    }
    /* Without any cost of saving the best is to save all the time; a second is often enough. */
    return best > 1 ? best : job->work_s < 1 ? job->work_s : 1;
}

/* The quantile of a gamma variable of this shape and scale 1, by Wilson and Hilferty. */
static double gamma_quantile(double shape, double p)
{
    double z = det_normal_quantile(p);
    double root = 1 - 1 / (9 * shape) + z / (3 * sqrt(shape));
    return root > 0 ? shape * root * root * root : 0;
}

void spot_record_add(struct spot_record *record, const uint32_t *machines, size_t count,
                     double gap_s)
{
    for (size_t i = 0; i < count; i++) {
        record->there_s += machines[i] * gap_s;
        if (i > 0 && machines[i] < machines[i - 1]) {
            record->losses += machines[i - 1] - machines[i];
        }
    }
}

enum err_code spot_rate(const struct spot_record *record, struct spot_rate *out, struct err *err)
{
    if (!(record->there_s > 0)) {
        return err_set(err, ERR_INVALID, "no machine was ever there");
    }
    double losses = record->losses;
    /* Half a loss more than were seen: the mean of the belief if nothing was known before. */
    out->rate = (losses + .5) / record->there_s;
    out->low = losses > 0 ? gamma_quantile(losses, .05) / record->there_s : 0;
    out->high = gamma_quantile(losses + 1, .95) / record->there_s;
    return ERR_OK;
}
